//! Gemini CLI (G4): `gemini -o stream-json`.
//!
//! What must hold:
//!
//! - the prompt is on its standard input, which then ends; no part of the prompt is on its command line. Text that
//!   the program would take for a command is escaped: a line is put before a leading `/`, `?` or `!`, and a `\` before
//!   each `@`, which would include a file;
//! - it asks for nothing: its default mode is `yolo`, because in other modes it denies everything that it would ask a
//!   person for, including git commands. The folder counts as trusted for this run;
//! - file locks apply while it runs if its hook is installed (`jit hooks install --agent gemini`): it reads hooks only
//!   from its settings;
//! - it reports no dollars. The cost follows from `dispatch.prices`, for each model it used.
//!
//! `listener` turns its output into [`AgentEvent`](crate::event::AgentEvent)s.
//!
//! Limitations: it has no sandbox here, and cannot fork a session. Its tokens are known only at its end, so a token
//! budget cannot stop it earlier; a limit on turns can. It waits half a second for its input; on a machine that is too
//! busy it exits with code 42, and jit retries. Tested with 0.61.0.

mod listener;

use std::ffi::OsString;

use crate::agent::{Agent, Launch, Stdin, prompt_of};
use crate::job::Job;
use crate::listener::Listener;
use crate::text::short;

/// Maximum bytes of its input. It ignores the rest.
const MOST: usize = 8 << 20;

#[derive(Debug, Clone, Copy)]
pub struct Gemini;

fn mode(word: Option<&str>) -> Result<&'static str, String> {
    match word {
        None | Some("acceptEdits" | "bypassPermissions" | "yolo") => Ok("yolo"),
        Some("auto_edit") => Ok("auto_edit"),
        Some("default") => Ok("default"),
        Some("plan") => Ok("plan"),
        Some(other) => Err(format!(
            "gemini has no mode {:?}: it has yolo, auto_edit, default and plan",
            short(other, 60)
        )),
    }
}

impl Agent for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn resumes(&self) -> bool {
        true
    }

    fn tells_cost(&self) -> bool {
        false
    }

    fn program(&self) -> Option<&'static str> {
        Some("gemini")
    }

    fn tells_end(&self) -> bool {
        true
    }

    fn launch(&self, job: &Job) -> Result<Launch, String> {
        let prompt = plain(&prompt_of(job)?);
        if prompt.trim().is_empty() {
            return Err("gemini is told nothing".to_owned());
        }
        if prompt.len() > MOST {
            return Err(format!(
                "gemini reads {} MB of what it is told, and this is more",
                MOST >> 20
            ));
        }
        let mode = mode(job.permission_mode.as_deref())?;
        let mut args: Vec<OsString> = vec![
            "--output-format=stream-json".into(),
            format!("--approval-mode={mode}").into(),
            "--skip-trust".into(),
        ];
        match (&job.resume, &job.session) {
            (Some(resume), _) if resume.fork => {
                return Err("gemini cannot fork a session".to_owned());
            }
            (Some(resume), _) => args.push(format!("--resume={}", id(&resume.session)?).into()),
            (None, Some(session)) => args.push(format!("--session-id={}", id(session)?).into()),
            (None, None) => {}
        }
        if let Some(model) = &job.model {
            args.push(format!("--model={model}").into());
        }
        let program = job.command.first().map_or("gemini", String::as_str);
        Ok(Launch {
            program: program.into(),
            args,
            env: Vec::new(),
            stdin: Stdin::Bytes(prompt.into_bytes()),
        })
    }

    fn listener(&self, job: &Job) -> Box<dyn Listener> {
        Box::new(listener::GeminiListener::of(job))
    }
}

/// Gemini also accepts numbers and `latest` as sessions.
fn id(text: &str) -> Result<&str, String> {
    let fits = text.len() == 36 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    match fits && !text.starts_with('-') {
        true => Ok(text),
        false => Err(format!(
            "{:?} is not a session of Gemini CLI: those are UUIDs",
            short(text, 60)
        )),
    }
}

/// Escapes text that the program would interpret as a command.
fn plain(prompt: &str) -> String {
    let mut text = String::with_capacity(prompt.len() + 16);
    if prompt.trim_start().starts_with(['/', '?', '!']) {
        text.push_str("Your task:\n");
    }
    let mut before = ' ';
    for c in prompt.chars() {
        if c == '@' && before != '\\' {
            text.push('\\');
        }
        text.push(c);
        before = c;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Resume;
    use crate::test_job::job;

    const ONE: &str = "11111111-1111-4111-8111-111111111111";

    fn args(job: &Job) -> Vec<String> {
        crate::test_job::args(&Gemini, job)
    }

    #[test]
    fn g4_gemini_is_told_its_task_on_its_input_and_values_cannot_become_flags() {
        let (_folder, mut job) = job("--yolo");
        job.model = Some("--x".into());
        job.session = Some(ONE.into());
        let first = args(&job);
        assert!(first.iter().all(|arg| arg.starts_with("--")), "{first:?}");
        for expected in [
            "--output-format=stream-json".to_owned(),
            "--approval-mode=yolo".to_owned(),
            "--model=--x".to_owned(),
            format!("--session-id={ONE}"),
        ] {
            assert!(first.contains(&expected), "{first:?}");
        }
        assert_eq!(
            Gemini.launch(&job).expect("a launch").stdin,
            Stdin::Bytes(b"--yolo".to_vec())
        );
        job.resume = Some(Resume {
            session: ONE.into(),
            fork: false,
        });
        let again = args(&job);
        assert!(again.contains(&format!("--resume={ONE}")), "{again:?}");
        assert!(!again.iter().any(|arg| arg.contains("session-id")), "{again:?}");
        for (session, fork) in [(ONE, true), ("latest", false), ("5", false), ("", false)] {
            job.resume = Some(Resume {
                session: session.into(),
                fork,
            });
            assert!(Gemini.launch(&job).is_err(), "{session} {fork}");
        }
        job.resume = None;
        job.permission_mode = Some("--help".into());
        assert!(Gemini.launch(&job).is_err());
    }

    #[test]
    fn g4_what_an_issue_says_is_no_order_to_the_program() {
        for (text, expected) in [
            ("do it", "do it"),
            ("/quit", "Your task:\n/quit"),
            ("  /memory add x", "Your task:\n  /memory add x"),
            ("!ls", "Your task:\n!ls"),
            ("read @.env, ask a@b.c", "read \\@.env, ask a\\@b.c"),
            ("as it was: \\@x", "as it was: \\@x"),
            ("@", "\\@"),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
    }
}
