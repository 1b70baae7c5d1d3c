//! Agents that can be started: how each is called, and what it says, in one language (G4, G5, G7).
//!
//! What must hold:
//!
//! - an agent is started by its program and its arguments, never through a shell: what an issue says cannot become a command;
//! - what it says becomes [`Said`]; what is not understood is kept as it came, and is never an error;
//! - costs and tokens are those of this attempt alone, whatever the agent adds up over its sessions;
//! - that an agent ended well is not believed: its [`Verdict`] is what it claims, and git is asked afterwards.

pub mod acp;
pub mod claude;
pub mod codex;
pub mod command;
pub mod event;
pub mod gemini;
pub mod hooks;
mod model_errors;
pub mod price;
pub mod prompt;
pub mod rate_limit;
pub mod rules;
pub mod runner;

use std::ffi::OsString;
use std::path::Path;

use serde_json::value::RawValue;

use crate::runner::job::Job;
use event::{Said, Verdict};

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Besides what every agent gets (see [`Job::vars`]).
    pub env: Vec<(OsString, OsString)>,
    pub stdin: Stdin,
}

/// What an agent finds on its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Null,
    /// This, and then the end.
    Bytes(Vec<u8>),
    /// This, and then answers to what it says, until [`Heard::hang_up`].
    Open(Vec<u8>),
}

/// One kind of agent.
pub trait Agent: Send + Sync {
    /// `claude`, `command`, …
    fn name(&self) -> &'static str;

    /// Whether a session of an earlier attempt can be gone on with.
    fn resumes(&self) -> bool {
        false
    }

    /// The program it is where nobody names one.
    fn program(&self) -> Option<&'static str> {
        None
    }

    /// Whether it says how it ended whenever it ends by itself. Of one that does not, silence is no sign of anything.
    fn tells_end(&self) -> bool {
        false
    }

    /// The exit code by which it says that it was called in a way it does not understand, if it has one: it is not called
    /// that way again. Of any program such a code may mean anything.
    fn usage_code(&self) -> Option<i32> {
        None
    }

    /// Whether such a session can be left as it is, and a new one be begun from it.
    fn forks(&self) -> bool {
        false
    }

    /// Whether a session can have an id before it begins.
    fn takes_session_ids(&self) -> bool {
        true
    }

    /// Whether it says itself what it costs. Where it does not, a price is needed.
    fn tells_cost(&self) -> bool {
        true
    }

    fn launch(&self, job: &Job) -> Result<Launch, String>;

    /// Understands what one running agent says.
    fn listener(&self, job: &Job) -> Box<dyn Listener>;
}

/// Understands what one agent says, line by line.
pub trait Listener: Send {
    /// One line of its standard output, without the line end.
    fn line(&mut self, line: &[u8], ask: &mut dyn Ask) -> Heard;

    /// It is about to be ended: what is said to it before. With nothing to say it is ended at once.
    fn stop(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Its output has ended.
    fn end(&mut self) -> Vec<Said> {
        Vec::new()
    }

    /// It has ended by itself without a result: what its code and the end of its standard error mean, if that is known.
    fn exited(&mut self, _code: Option<i32>, _stderr: &str) -> Option<Verdict> {
        None
    }
}

/// What came of a line.
#[derive(Debug, Default)]
pub struct Heard {
    pub said: Vec<Said>,
    /// What is written to its standard input.
    pub answer: Vec<u8>,
    /// Its standard input is closed after that.
    pub hang_up: bool,
}

/// What an agent asks about.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The agent's own name of the tool.
    pub tool: &'a str,
    /// The tool's input, as the agent gave it: JSON.
    pub input: &'a RawValue,
    /// Where the agent stands at this moment, which a command line may depend on.
    pub cwd: Option<&'a Path>,
}

/// Who decides what an agent may do when it asks.
pub trait Ask {
    /// A tool is about to be used, whoever has approved of it: is anything against it?
    fn may(&mut self, question: &Question<'_>) -> Permission;

    /// The agent would ask its user now. Nobody is there.
    fn approve(&mut self, question: &Question<'_>) -> Permission {
        Permission::Deny(format!(
            "jit: nobody is there who could allow {:?}.",
            short(question.tool, 60)
        ))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    Allow,
    /// Allowed, with a sentence the model is told.
    Warn(String),
    /// With the sentence the model is told.
    Deny(String),
}

/// The agents there are.
pub const NAMES: &[&str] = &["acp", "claude", "codex", "command", "gemini"];

/// The agent that a job, a plan or a setting names.
pub fn by_name(name: &str) -> Option<Box<dyn Agent>> {
    match name {
        "acp" => Some(Box::new(acp::Acp)),
        "claude" => Some(Box::new(claude::Claude)),
        "codex" => Some(Box::new(codex::Codex)),
        "command" => Some(Box::new(command::Command)),
        "gemini" => Some(Box::new(gemini::Gemini)),
        _ => None,
    }
}

/// At most so many characters, and a sign where some were left out.
pub fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Bytes that may be anything, as a text of at most so many characters.
pub fn short_bytes(bytes: &[u8], most: usize) -> String {
    // No character has more than four bytes.
    let head = &bytes[..bytes.len().min(most.saturating_mul(4).saturating_add(4))];
    short(&String::from_utf8_lossy(head), most)
}

/// The program and its arguments, of an agent that is whatever program the job names.
fn command_of(job: &Job) -> Result<Option<(OsString, Vec<OsString>)>, String> {
    let Some((program, args)) = job.command.split_first() else {
        return Ok(None);
    };
    if program.is_empty() || job.command.iter().any(|word| word.contains('\0')) {
        return Err(format!("{program:?} cannot be run"));
    }
    let program = match program.contains('/') {
        // Seen from where it will run, not from where we are.
        true => job.dir.join(program).into_os_string(),
        false => OsString::from(program),
    };
    Ok(Some((program, args.iter().map(OsString::from).collect())))
}

/// What the agent is told.
fn prompt_of(job: &Job) -> Result<String, String> {
    let file = &job.prompt_file;
    std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A job with this prompt, in a folder of its own.
    pub fn job(prompt: &str) -> (tempfile::TempDir, Job) {
        let folder = tempfile::tempdir().expect("a folder");
        let prompt_file = folder.path().join("prompt.md");
        std::fs::write(&prompt_file, prompt).expect("a prompt");
        let job = Job {
            unit: "u".parse().expect("a unit"),
            attempt: 1,
            agent: "command".into(),
            worker: "agent:u-1".parse().expect("an agent"),
            dir: PathBuf::from("/tree"),
            prompt_file,
            command: Vec::new(),
            vars: Vec::new(),
            session: None,
            resume: None,
            cost_before: None,
            meter_before: None,
            prices: Vec::new(),
            model: None,
            allowed_tools: Vec::new(),
            permission_mode: None,
            one_shot: false,
            max_turns: None,
            budget: None,
            budget_tokens: None,
            timeout_secs: 60,
            idle_secs: 60,
            linger_secs: 5,
            grace_secs: 5,
            artifacts: Vec::new(),
            validate: Vec::new(),
            writes: Vec::new(),
            task: None,
            task_file: None,
            asked: Default::default(),
        };
        (folder, job)
    }

    /// The arguments that an agent would be started with.
    pub fn args(agent: &dyn Agent, job: &Job) -> Vec<String> {
        let launch = agent.launch(job).expect("a launch");
        launch
            .args
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn g4_every_name_is_an_agent_of_that_name() {
        for name in NAMES {
            assert_eq!(by_name(name).map(|agent| agent.name()), Some(*name));
        }
        assert!(by_name("clade").is_none());
    }

    #[test]
    fn g4_what_is_shortened_stays_text() {
        assert_eq!(short("äöü", 3), "äöü");
        assert_eq!(short("äöüx", 3), "äöü…");
        assert_eq!(short_bytes("äöüx".as_bytes(), 2), "äö…");
        assert_eq!(short_bytes(&[0xff; 100], 1).chars().count(), 2);
    }
}
