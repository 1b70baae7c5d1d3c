//! Gemini CLI (G4): `gemini -o stream-json`.
//!
//! What must hold:
//!
//! - the prompt is on its standard input, which then ends; no part of the prompt is on its command line. Text that
//!   the program would take for a command is escaped: a line is put before a leading `/`, `?` or `!`, and a `\` before
//!   each `@`, which would include a file;
//! - it asks for nothing: its default mode is `auto_edit`, in which it edits files of the worktree and denies everything
//!   else that it would ask a person for, except what [`Job::allowed_tools`] allows. Only a caller who says so gets
//!   `yolo`, which allows everything. The folder counts as trusted for this run;
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
        None | Some("acceptEdits" | "auto_edit") => Ok("auto_edit"),
        Some("bypassPermissions" | "yolo") => Ok("yolo"),
        Some("default") => Ok("default"),
        Some("plan") => Ok("plan"),
        Some(other) => Err(format!(
            "gemini has no mode {:?}: it has auto_edit, default, plan and yolo",
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
        // With such a list Gemini denies all other commands in `yolo`, and allows these in `plan`.
        if matches!(mode, "auto_edit" | "default") {
            let allowed = job.allowed_tools.iter().filter_map(|rule| allowed(rule));
            args.extend(allowed.map(|tool| format!("--allowed-tools={tool}").into()));
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

/// A rule (see [`crate::rules`]) in Gemini's words, which know beginnings of commands. `None` if they cannot say it without
/// allowing more.
fn allowed(rule: &str) -> Option<String> {
    let rule = rule.trim();
    let (tool, argument) = match rule.split_once('(') {
        None => (rule, None),
        Some((tool, rest)) => (tool, Some(rest.strip_suffix(')')?)),
    };
    let plain = |text: &str| !text.is_empty() && !text.contains(['*', ',', '(', ')', '\n']);
    match (tool, argument) {
        ("Bash", None | Some("*")) => Some("run_shell_command".to_owned()),
        ("Bash", Some(argument)) => {
            let prefix = argument.strip_suffix(" *").or(argument.strip_suffix(":*"))?;
            plain(prefix).then(|| format!("run_shell_command({prefix})"))
        }
        ("WebFetch", None) => Some("web_fetch".to_owned()),
        // Gemini's own words.
        (name, argument) => {
            let own = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') && !name.starts_with("mcp__");
            (own && plain(name) && argument.is_none_or(plain)).then(|| rule.to_owned())
        }
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
            "--approval-mode=auto_edit".to_owned(),
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
    fn g4_gemini_bypasses_its_permissions_only_when_told() {
        let (_folder, mut job) = job("x");
        job.allowed_tools = vec!["Bash(git add *)".into()];
        for (mode, expected) in [
            (None, "auto_edit"),
            (Some("acceptEdits"), "auto_edit"),
            (Some("plan"), "plan"),
            (Some("default"), "default"),
            (Some("yolo"), "yolo"),
            (Some("bypassPermissions"), "yolo"),
        ] {
            job.permission_mode = mode.map(str::to_owned);
            let args = args(&job);
            assert!(
                args.contains(&format!("--approval-mode={expected}")),
                "{mode:?}: {args:?}"
            );
            let allowed = args.contains(&"--allowed-tools=run_shell_command(git add)".to_owned());
            assert_eq!(allowed, matches!(expected, "auto_edit" | "default"), "{mode:?}");
        }
    }

    #[test]
    fn g4_a_rule_allows_gemini_no_more_than_it_says() {
        for (rule, expected) in [
            ("Bash(git add *)", Some("run_shell_command(git add)")),
            ("Bash(jit status:*)", Some("run_shell_command(jit status)")),
            ("Bash", Some("run_shell_command")),
            ("Bash(*)", Some("run_shell_command")),
            ("WebFetch", Some("web_fetch")),
            ("google_web_search", Some("google_web_search")),
            ("run_shell_command(npm test)", Some("run_shell_command(npm test)")),
            ("Bash(cargo test)", None),
            ("Bash(npm run * --silent)", None),
            ("Bash( *)", None),
            ("Bash(a,run_shell_command *)", None),
            ("WebFetch(domain:docs.rs)", None),
            ("Write(docs/**)", None),
            ("mcp__jit__*", None),
            ("", None),
        ] {
            assert_eq!(allowed(rule).as_deref(), expected, "{rule}");
        }
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
