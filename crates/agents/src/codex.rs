//! Codex (G4): `codex exec --json`.
//!
//! What must hold:
//!
//! - the prompt is on its standard input, which then ends; no part of the prompt is on its command line. Values are
//!   joined to their flags (`--flag=value`), and arguments that are not flags follow `--`;
//! - it runs in its own sandbox. It may write to the worktree and to both git directories, the common one and that of
//!   the worktree, because it cannot commit without them. It asks for nothing. Other modes must be named explicitly;
//! - file locks apply while it runs: before a command or a patch it calls the same hook as after
//!   `jit hooks install --agent codex`. Codex requires approval of hooks. jit passes the approval of this one hook, by
//!   its exact text, on the command line, for this run only. No other hook is approved;
//! - its sandbox works with the bubblewrap of the system, also with one that knows no `--argv0` (older than 0.9), and with
//!   the one that it brings;
//! - it reports no dollars. It counts tokens over the whole session, so this attempt used the difference. The cost
//!   follows from `dispatch.prices`, if the model has a price there.
//!
//! `listener` turns its output into [`AgentEvent`](crate::event::AgentEvent)s.
//!
//! Limitations:
//!
//! - it chooses the ids of its sessions;
//! - its tokens are known only at its end, so a token budget cannot stop it earlier. A limit on turns can (see
//!   `listener`);
//! - a denial by the hook reaches the model and standard error, but not its JSON output;
//! - its newest models call tools from a program of their own. It was not tested whether all of them call the hook;
//! - the approval is a digest in Codex's own format. A version with another format does not call the hook.
//!
//! Tested with 0.166.0.

mod listener;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jit_git::{GitEnv, Place};
use jit_os::shell::shell_word;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::agent::{Agent, Launch, Stdin, prompt_of};
use crate::hooks::{HookEvent, Program, settings};
use crate::job::Job;
use crate::listener::Listener;
use crate::text::short;

#[derive(Debug, Clone, Copy)]
pub struct Codex;

/// The permissions of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodexMode {
    Sandbox(&'static str),
    Anything,
}

impl CodexMode {
    fn of(word: Option<&str>) -> Result<Self, String> {
        match word {
            None | Some("acceptEdits" | "workspace-write") => Ok(Self::Sandbox("workspace-write")),
            Some("plan" | "read-only") => Ok(Self::Sandbox("read-only")),
            Some("bypassPermissions" | "danger-full-access") => Ok(Self::Anything),
            Some(other) => Err(format!(
                "codex has no mode {:?}: it has workspace-write, read-only and danger-full-access",
                short(other, 60)
            )),
        }
    }
}

impl Agent for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn resumes(&self) -> bool {
        true
    }

    fn forks(&self) -> bool {
        true
    }

    fn takes_session_ids(&self) -> bool {
        false
    }

    fn tells_cost(&self) -> bool {
        false
    }

    fn program(&self) -> Option<&'static str> {
        Some("codex")
    }

    fn tells_end(&self) -> bool {
        true
    }

    fn launch(&self, job: &Job) -> Result<Launch, String> {
        let prompt = prompt_of(job)?;
        if prompt.trim().is_empty() {
            return Err("codex is told nothing".to_owned());
        }
        let mut args: Vec<OsString> = vec!["exec".into()];
        match &job.resume {
            Some(resume) if resume.fork => args.push("fork".into()),
            Some(_) => args.push("resume".into()),
            None => {}
        }
        args.push("--json".into());
        let mut set = |key: &str, value: String| args.push(format!("--config={key}={value}").into());
        match CodexMode::of(job.permission_mode.as_deref())? {
            CodexMode::Sandbox(sandbox) => {
                set("sandbox_mode", quoted(sandbox));
                set("approval_policy", quoted("never"));
                let roots: Vec<String> = git_folders(job).iter().map(|path| quoted(path)).collect();
                if sandbox == "workspace-write" && !roots.is_empty() {
                    let roots = format!("[{}]", roots.join(","));
                    set("sandbox_workspace_write.writable_roots", roots);
                }
            }
            CodexMode::Anything => args.push("--dangerously-bypass-approvals-and-sandbox".into()),
        }
        let jit = std::env::current_exe().map_err(|e| format!("where jit is cannot be told: {e}"))?;
        for (key, value) in hook(&jit) {
            args.push(format!("--config={key}={value}").into());
        }
        if let Some(model) = &job.model {
            args.push(format!("--model={model}").into());
        }
        args.push("--".into());
        if let Some(resume) = &job.resume {
            args.push(id(&resume.session)?.into());
        }
        args.push("-".into());
        let program = job.command.first().map_or("codex", String::as_str);
        let usual = std::env::temp_dir();
        let temporary = home(|name| std::env::var_os(name)).and_then(|home| temporary(&home, &usual));
        let made = temporary.filter(|folder| std::fs::create_dir_all(folder).is_ok());
        Ok(Launch {
            program: program.into(),
            args,
            env: made
                .map(|folder| ("TMPDIR".into(), folder.into_os_string()))
                .into_iter()
                .collect(),
            stdin: Stdin::Bytes(prompt.into_bytes()),
        })
    }

    fn listener(&self, job: &Job) -> Box<dyn Listener> {
        Box::new(listener::CodexListener::of(job))
    }
}

/// The folder with the settings of Codex.
fn home(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("CODEX_HOME").or_else(|| Some(absolute("HOME")?.join(".codex")))
}

/// The folder for temporary files of Codex, if it cannot be the usual one. Codex puts no helper programs into its own
/// folder if that is itself below the folder for temporary files. An older bubblewrap then finds no program to run.
fn temporary(home: &Path, usual: &Path) -> Option<PathBuf> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_below = home.starts_with(usual) || real(home).starts_with(real(usual));
    is_below.then(|| home.join("tmp"))
}

/// Thread ids have hexadecimal digits and dashes; Codex takes anything else for a name.
fn id(text: &str) -> Result<&str, String> {
    let fits = text.len() == 36 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    match fits && !text.starts_with('-') {
        true => Ok(text),
        false => Err(format!("{:?} is not a session of Codex", short(text, 60))),
    }
}

/// The directories besides the worktree that git and jit write to.
fn git_folders(job: &Job) -> Vec<String> {
    let Ok(place) = Place::discover(&job.dir, &GitEnv::from_process()) else {
        return Vec::new();
    };
    let mut all: Vec<PathBuf> = Vec::new();
    let own = [place.common_dir, place.git_dir, Some(place.control_dir)];
    for folder in own.into_iter().flatten() {
        // Skips a control plane within the common directory, which is its usual place.
        if !all.contains(&folder) && (all.len() < 2 || !folder.starts_with(&all[0])) {
            all.push(folder);
        }
    }
    let text = |path: PathBuf| path.into_os_string().into_string().ok();
    all.into_iter().filter_map(text).collect()
}

/// A string in TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The hook before tools and its approval, as settings for this run only.
fn hook(jit: &Path) -> [(&'static str, String); 2] {
    let event = HookEvent::BeforeTool.name(Program::Codex);
    let jit = shell_word(&jit.to_string_lossy());
    let command = format!("{jit} hooks agent {} {event}", Program::Codex);
    let matcher = settings::matcher(Program::Codex);
    let group = format!(
        "[{{matcher={},hooks=[{{type=\"command\",command={},timeout={HOOK_SECS}}}]}}]",
        quoted(matcher),
        quoted(&command)
    );
    let state = format!(
        "{{{}={{trusted_hash={}}}}}",
        quoted("/<session-flags>/config.toml:pre_tool_use:0:0"),
        quoted(&digest(matcher, &command))
    );
    [("hooks.PreToolUse", group), ("hooks.state", state)]
}

/// Seconds that Codex waits for the hook.
const HOOK_SECS: u32 = 15;

/// The digest by which Codex identifies an approved hook: of its description, with sorted keys and all defaults written
/// out.
fn digest(matcher: &str, command: &str) -> String {
    let handler = json!({ "async": false, "command": command, "timeout": HOOK_SECS, "type": "command" });
    let whole: Value = json!({ "event_name": "pre_tool_use", "hooks": [handler], "matcher": matcher });
    let hash = Sha256::digest(sorted(&whole).as_bytes());
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// JSON without whitespace and with sorted keys.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| name.as_str());
            let members: Vec<String> = members
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), sorted(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(sorted).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Resume;
    use crate::test_job::job;

    const THREAD: &str = "01a1e39a-3d9e-7c11-9d8a-1b69a8295212";

    fn args(job: &Job) -> Vec<String> {
        crate::test_job::args(&Codex, job)
    }

    #[test]
    fn g4_codex_is_told_its_task_on_its_input_and_values_cannot_become_flags() {
        let (_folder, mut job) = job("--dangerously-bypass-approvals-and-sandbox");
        job.model = Some("--x".into());
        let plain = args(&job);
        assert_eq!(plain[..2], ["exec", "--json"]);
        assert_eq!(plain[plain.len() - 2..], ["--", "-"]);
        assert!(plain.contains(&"--model=--x".to_owned()), "{plain:?}");
        assert!(!plain.iter().any(|arg| arg.contains("bypass")), "{plain:?}");
        let Stdin::Bytes(bytes) = Codex.launch(&job).expect("a launch").stdin else {
            panic!("its input ends")
        };
        assert_eq!(bytes, b"--dangerously-bypass-approvals-and-sandbox");
        for (fork, word) in [(false, "resume"), (true, "fork")] {
            job.resume = Some(Resume {
                session: THREAD.into(),
                fork,
            });
            let again = args(&job);
            assert_eq!(again[..3], ["exec", word, "--json"]);
            assert_eq!(again[again.len() - 3..], ["--", THREAD, "-"]);
        }
        for bad in ["", "--last", "last week", "-1a1e39a-3d9e-7c11-9d8a-1b69a8295212"] {
            job.resume = Some(Resume {
                session: bad.into(),
                fork: false,
            });
            assert!(Codex.launch(&job).is_err(), "{bad}");
        }
    }

    #[test]
    fn g4_the_sandbox_is_left_only_when_told() {
        let (_folder, mut job) = job("x");
        let has = |job: &Job, text: &str| args(job).iter().any(|arg| arg == text);
        assert!(has(&job, "--config=sandbox_mode=\"workspace-write\""));
        assert!(has(&job, "--config=approval_policy=\"never\""));
        job.permission_mode = Some("plan".into());
        assert!(has(&job, "--config=sandbox_mode=\"read-only\""));
        job.permission_mode = Some("bypassPermissions".into());
        assert!(has(&job, "--dangerously-bypass-approvals-and-sandbox"));
        assert!(!has(&job, "--config=sandbox_mode=\"workspace-write\""));
        job.permission_mode = Some("--help".into());
        assert!(Codex.launch(&job).is_err());
        assert!(
            !args(&crate::test_job::job("x").1)
                .iter()
                .any(|arg| arg.contains("hook-trust"))
        );
    }

    #[test]
    fn g4_codex_whose_home_is_temporary_gets_another_folder_for_temporary_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).expect("a link");
        let home = folder.path().join("home/.codex");
        for usual in [folder.path(), &link] {
            assert_eq!(temporary(&home, usual), Some(home.join("tmp")), "{usual:?}");
        }
        assert_eq!(temporary(&home, &folder.path().join("tmp")), None);
        let var = |name: &str| match name {
            "HOME" => Some("/h".into()),
            "CODEX_HOME" => Some("relative".into()),
            _ => None,
        };
        assert_eq!(super::home(var), Some(PathBuf::from("/h/.codex")));
    }

    #[test]
    fn g4_both_git_folders_can_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a path");
        let git = |dir: &Path, args: &[&str]| {
            jit_git::Git::at(dir).args(args.iter()).run().expect("git");
        };
        let main = root.join("main");
        std::fs::create_dir(&main).expect("a folder");
        git(&main, &["init", "-q", "-b", "main"]);
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
        let commit = ["commit", "-q", "--allow-empty", "-m", "one"];
        git(&main, &[&identity[..], &commit[..]].concat());
        git(&main, &["worktree", "add", "-q", "../\"tree\"", "-b", "tree"]);
        let (_folder, mut job) = job("x");
        job.dir = root.join("\"tree\"");
        let common = main.join(".git");
        let own = common.join("worktrees").join("\"tree\"");
        assert_eq!(
            git_folders(&job),
            [common.to_string_lossy(), own.to_string_lossy()]
        );
        let expected = format!(
            "--config=sandbox_workspace_write.writable_roots=[{},{}]",
            quoted(&common.to_string_lossy()),
            quoted(&own.to_string_lossy())
        );
        assert!(args(&job).contains(&expected), "{:?}", args(&job));
    }

    #[test]
    fn f9_the_approval_is_of_this_hook_alone() {
        // The suite checks this against the real program; here the digest must follow from the text.
        assert_eq!(
            digest("^(Bash|apply_patch)$", "/bin/hook.sh"),
            "sha256:3acafee15ae642976b01cf633aa47f7c7e9d07d2b500b3dd2a813433a17952e7"
        );
        let [(_, group), (_, state)] = hook(Path::new("/a b/\"jit"));
        let group: toml::Table = format!("x = {group}").parse().expect("TOML");
        let command = group["x"][0]["hooks"][0]["command"].as_str().expect("a text");
        assert_eq!(command, "'/a b/\"jit' hooks agent codex PreToolUse");
        let state: toml::Table = format!("x = {state}").parse().expect("TOML");
        assert_eq!(state["x"].as_table().expect("a table").len(), 1);
    }
}
