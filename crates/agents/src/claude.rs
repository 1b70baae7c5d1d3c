//! Claude Code (G5).
//!
//! What must hold:
//!
//! - it runs in two-way stream mode: it reports each action and asks before each tool, and [`Ask`](crate::ask::Ask)
//!   answers. Its standard input is closed after its result, otherwise it would wait for more;
//! - its success is read from `is_error`, `terminal_reason`, `api_error_status` and `permission_denials`. Its exit code
//!   and `subtype` say "success" even if the model could not be reached;
//! - its cost is counted from the start of this attempt, because Claude Code sums up over resumed and forked sessions;
//! - jit chooses the session id. Values are joined to their flags (`--flag=value`), so a value that begins with a dash
//!   is not taken for a flag;
//! - by default, edits in the worktree are accepted, and it asks for everything else;
//! - a program that refuses the options of two-way stream mode fails with `no_conversation`, and the next attempt is
//!   one-shot.
//!
//! `stream` has the types of its output, `control` the messages in both directions, `listener` makes
//! [`AgentEvent`](crate::event::AgentEvent)s, `usage` sums up.
//!
//! Limitations: with `one_shot` it reports nothing until its end, and asks for nothing. It then denies by itself what
//! its mode does not allow, and file locks apply only if the hook is installed. Tested with 2.1.325.

mod control;
mod listener;
mod stream;
mod usage;

use std::ffi::OsString;

use crate::agent::{Agent, Launch, Stdin, prompt_of};
use crate::job::Job;
use crate::listener::Listener;
use crate::text::short;

/// The default permission mode.
const MODE: &str = "acceptEdits";

#[derive(Debug, Clone, Copy)]
pub struct Claude;

impl Agent for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn resumes(&self) -> bool {
        true
    }

    fn program(&self) -> Option<&'static str> {
        Some("claude")
    }

    fn forks(&self) -> bool {
        true
    }

    fn tells_end(&self) -> bool {
        true
    }

    fn has_one_shot(&self) -> bool {
        true
    }

    fn launch(&self, job: &Job) -> Result<Launch, String> {
        let prompt = prompt_of(job)?;
        let mut args: Vec<OsString> = match job.one_shot {
            true => vec!["-p".into(), "--output-format=json".into()],
            false => vec![
                "--output-format=stream-json".into(),
                "--input-format=stream-json".into(),
                "--verbose".into(),
                "--permission-prompt-tool=stdio".into(),
            ],
        };
        let mut flag = |name: &str, value: &str| args.push(format!("--{name}={value}").into());
        flag("permission-mode", job.permission_mode.as_deref().unwrap_or(MODE));
        match &job.resume {
            Some(resume) => {
                flag("resume", id(&resume.session)?);
                if let (true, Some(new)) = (resume.fork, &job.session) {
                    flag("session-id", id(new)?);
                }
            }
            None => {
                if let Some(new) = &job.session {
                    flag("session-id", id(new)?);
                }
            }
        }
        if let Some(turns) = job.max_turns {
            flag("max-turns", &turns.to_string());
        }
        if let Some(budget) = job.budget {
            flag("max-budget-usd", &(budget.0 as f64 / 1e6).to_string());
        }
        if let Some(model) = &job.model {
            flag("model", model);
        }
        if !job.allowed_tools.is_empty() {
            flag("allowedTools", &job.allowed_tools.join(","));
        }
        if job.resume.as_ref().is_some_and(|resume| resume.fork) {
            args.push("--fork-session".into());
        }
        let program = job.command.first().map_or("claude", String::as_str);
        Ok(Launch {
            program: program.into(),
            args,
            // The program must not replace itself while other instances of it run.
            env: vec![("DISABLE_AUTOUPDATER".into(), "1".into())],
            stdin: match job.one_shot {
                true => Stdin::Bytes(prompt.into_bytes()),
                false => Stdin::Open(control::opening(&prompt, job.resume.is_some())),
            },
        })
    }

    fn listener(&self, job: &Job) -> Box<dyn Listener> {
        Box::new(listener::ClaudeListener::of(job))
    }
}

/// Claude Code expects UUIDs, and takes anything else after `--resume` for a search text.
fn id(text: &str) -> Result<&str, String> {
    let groups: Vec<&str> = text.split('-').collect();
    let fits = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups
            .iter()
            .all(|group| group.bytes().all(|b| b.is_ascii_hexdigit()));
    match fits {
        true => Ok(text),
        false => Err(format!(
            "{:?} is not a session of Claude Code: those are UUIDs",
            short(text, 60)
        )),
    }
}

#[cfg(test)]
mod tests {
    use jit_core::model::cost::Usd;

    use super::*;
    use crate::job::Resume;
    use crate::test_job::job;

    const ONE: &str = "11111111-1111-4111-8111-111111111111";
    const TWO: &str = "22222222-2222-4222-8222-22222222222a";

    fn args(job: &Job) -> Vec<String> {
        crate::test_job::args(&Claude, job)
    }

    #[test]
    fn g5_permissions_are_bypassed_only_when_told() {
        let (_folder, mut job) = job("x");
        assert!(args(&job).contains(&"--permission-mode=acceptEdits".to_owned()));
        assert!(
            !args(&job)
                .iter()
                .any(|arg| arg.contains("ypass") || arg.contains("angerous"))
        );
        job.permission_mode = Some("bypassPermissions".into());
        assert!(args(&job).contains(&"--permission-mode=bypassPermissions".to_owned()));
    }

    #[test]
    fn g5_values_cannot_become_flags() {
        let (_folder, mut job) = job("--dangerously-skip-permissions");
        job.model = Some("--x".into());
        job.allowed_tools = vec!["Bash(git add *)".into(), "Read".into()];
        job.max_turns = Some(7);
        job.budget = Some(Usd(1_250_000));
        job.session = Some(ONE.into());
        for one_shot in [false, true] {
            job.one_shot = one_shot;
            let args = args(&job);
            assert!(args.iter().all(|arg| arg.starts_with('-')), "{args:?}");
            for expected in [
                "--model=--x",
                "--allowedTools=Bash(git add *),Read",
                "--max-turns=7",
                "--max-budget-usd=1.25",
                "--session-id=11111111-1111-4111-8111-111111111111",
            ] {
                assert!(args.contains(&expected.to_owned()), "{expected} {args:?}");
            }
            assert!(
                !args.iter().any(|arg| arg.contains("skip-permissions")),
                "{args:?}"
            );
        }
        let Stdin::Bytes(bytes) = Claude.launch(&job).expect("a launch").stdin else {
            panic!("one shot")
        };
        assert_eq!(bytes, b"--dangerously-skip-permissions");
        for bad in ["", "--help", "last week", "11111111-1111-4111-8111-11111111111g"] {
            job.session = Some(bad.into());
            assert!(Claude.launch(&job).is_err(), "{bad}");
        }
    }

    #[test]
    fn g10_a_session_is_gone_on_with_or_forked() {
        let (_folder, mut job) = job("x");
        job.session = Some(TWO.into());
        job.resume = Some(Resume {
            session: ONE.into(),
            fork: false,
        });
        let plain = args(&job);
        assert!(plain.contains(&format!("--resume={ONE}")), "{plain:?}");
        assert!(
            !plain
                .iter()
                .any(|arg| arg.contains("fork") || arg.contains("session-id")),
            "{plain:?}"
        );
        job.resume = Some(Resume {
            session: ONE.into(),
            fork: true,
        });
        let forked = args(&job);
        for expected in [
            format!("--resume={ONE}"),
            format!("--session-id={TWO}"),
            "--fork-session".into(),
        ] {
            assert!(forked.contains(&expected), "{forked:?}");
        }
    }
}
