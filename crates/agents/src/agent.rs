//! The [`Agent`] trait: how an agent program is started, and what it can do.
//!
//! An agent is started directly, with a program and arguments, never through a shell.

use std::ffi::OsString;

use crate::job::Job;
use crate::listener::Listener;

/// One kind of agent program.
pub trait Agent: Send + Sync {
    /// The name in jobs, plans and settings: `claude`, `command`, …
    fn name(&self) -> &'static str;

    /// Whether it can resume a session of an earlier attempt.
    fn resumes(&self) -> bool {
        false
    }

    /// The program to run if the job names none.
    fn program(&self) -> Option<&'static str> {
        None
    }

    /// Whether it always reports its result before it exits by itself. For an agent that does not, a missing result
    /// means nothing.
    fn tells_end(&self) -> bool {
        false
    }

    /// The exit code for "called with arguments I do not understand", if the agent has one. jit does not repeat such a
    /// call. `None` for agents that may be any program: there the code can mean anything.
    fn usage_code(&self) -> Option<i32> {
        None
    }

    /// Whether it can fork a session: start a new one from it and leave the old one unchanged.
    fn forks(&self) -> bool {
        false
    }

    /// Whether it can give one answer at its end instead of a conversation.
    fn has_one_shot(&self) -> bool {
        false
    }

    /// Whether jit can choose the id of a new session.
    fn takes_session_ids(&self) -> bool {
        true
    }

    /// Whether it reports its cost in dollars. If not, jit computes the cost from a configured price.
    fn tells_cost(&self) -> bool {
        true
    }

    fn launch(&self, job: &Job) -> Result<Launch, String>;

    /// Creates the listener for one running process of this agent.
    fn listener(&self, job: &Job) -> Box<dyn Listener>;
}

/// The command that starts an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Variables in addition to those that every agent gets (see [`Job::vars`]).
    pub env: Vec<(OsString, OsString)>,
    pub stdin: Stdin,
}

/// The standard input of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`.
    Null,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// These bytes, then the answers of the listener, until [`Reaction::hang_up`](crate::listener::Reaction::hang_up).
    Open(Vec<u8>),
}

/// The program and arguments from [`Job::command`], for agents without a program of their own. `None` if the job has no
/// command.
pub(crate) fn command_of(job: &Job) -> Result<Option<(OsString, Vec<OsString>)>, String> {
    let Some((program, args)) = job.command.split_first() else {
        return Ok(None);
    };
    if program.is_empty() || job.command.iter().any(|word| word.contains('\0')) {
        return Err(format!("{program:?} cannot be run"));
    }
    let program = match program.contains('/') {
        // A path is relative to the worktree, where the agent will run, not to the current directory.
        true => job.dir.join(program).into_os_string(),
        false => OsString::from(program),
    };
    Ok(Some((program, args.iter().map(OsString::from).collect())))
}

/// The text of the prompt file.
pub(crate) fn prompt_of(job: &Job) -> Result<String, String> {
    let file = &job.prompt_file;
    std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
