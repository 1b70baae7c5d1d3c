//! `jit hooks install --agent` and `uninstall --agent`: edits the settings of agent programs.
//!
//! What must hold:
//! - A file is written only with consent at the terminal, or with `--yes`.
//! - Agents cannot remove the hook.
//! - In a repository, a settings file behind a symbolic link is refused.
//! - A settings file that cannot be edited safely is left alone.

use std::io;
use std::path::{Path, PathBuf};

use jit_agents::hooks::Program;
use jit_agents::hooks::settings::{self, BadSettings, Reach};
use jit_core::model::refusal::{Code, Refusal};
use jit_engine::context::Surroundings;
use jit_os::shell::shell_word;
use jit_store::Outcome;
use serde_json::json;

use crate::consent;
use crate::invocation::{Invocation, Output, invalid};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
pub struct AgentFlags {
    /// Program whose settings are changed: claude, codex or gemini
    #[arg(long, value_name = "PROGRAM")]
    agent: Option<Program>,
    /// In your own settings instead of the project's
    #[arg(long, requires = "agent")]
    user: bool,
    /// Do not ask
    #[arg(long, short, requires = "agent")]
    yes: bool,
}

impl AgentFlags {
    pub fn program(&self) -> Option<Program> {
        self.agent
    }
}

/// Registers the hook, or removes it.
pub fn change(
    flags: &AgentFlags,
    program: Program,
    dry_run: bool,
    register: bool,
    call: &Invocation,
) -> Outcome<Output> {
    let found = Surroundings::find(&call.options()?)?;
    let root = found.place.worktree_root.clone();
    let root = match flags.user {
        true => root.unwrap_or_default(),
        false => root.ok_or_else(|| invalid("there is no worktree here whose settings could be changed"))?,
    };
    if !register && found.asking_agent().is_some() {
        let refusal = Refusal::new(Code::NotAllowed, "what restrains agents is not theirs to remove");
        let again = format!("ask a person to run: jit hooks uninstall --agent {}", program);
        return Err(Box::new(refusal.help(again)));
    }
    let reach = if flags.user { Reach::User } else { Reach::Project };
    let (file, before) = read(program, reach, &root)?;
    let edited = match (&before, register) {
        (before, true) => settings::with_hook(before.as_deref(), program, &how_called()?).map(Some),
        (Some(before), false) => settings::without_hook(before),
        (None, false) => Ok(None),
    };
    let after = edited.map_err(|why| left_alone(&file, &why))?;
    let changed = before != after;
    let shown = file.display().to_string();
    if changed && !dry_run {
        if !flags.yes {
            consent::ask(&difference(&shown, before.as_deref(), after.as_deref()), call)?;
        }
        store(&file, after.as_deref())?;
    }
    let value = json!({
        "agent": program.as_str(), "file": shown, "changed": changed, "dry_run": dry_run,
        "content": after,
    });
    Ok(call.show(&value, |style| {
        let shown = clean_line(&shown);
        match (changed, dry_run, register) {
            _ if call.quiet() => String::new(),
            (false, _, true) => format!("The hook is in {shown} already.\n"),
            (false, _, false) => format!("There is no hook of jit's in {shown}.\n"),
            (true, true, _) => difference(&shown, before.as_deref(), after.as_deref()),
            (true, false, true) => {
                format!(
                    "{} {} asks jit before it acts: {shown}\n{}",
                    style.good("✓"),
                    program,
                    next(program, flags.user)
                )
            }
            (true, false, false) => format!("{} the hook is out of {shown}\n", style.good("✓")),
        }
    }))
}

fn left_alone(file: &Path, why: &BadSettings) -> Box<Refusal> {
    let message = format!("{} is left alone: {why}", file.display());
    Box::new(Refusal::new(Code::Invalid, message).help("edit it by hand: docs/agents.md shows what it takes"))
}

/// Returns the settings file of a program, and its content.
fn read(program: Program, reach: Reach, root: &Path) -> Outcome<(PathBuf, Option<String>)> {
    let file = settings::file(program, reach, root, |name| std::env::var_os(name))
        .ok_or_else(|| invalid("no home folder is known"))?;
    let file = real(&file, reach)?;
    match std::fs::read_to_string(&file) {
        Ok(text) => Ok((file, Some(text))),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok((file, None))
        }
        Err(e) => Err(failed("read", &file, &e)),
    }
}

/// A settings file that contains our hook, with the content that it has without the hook.
pub struct Hooked {
    pub file: PathBuf,
    after: Option<String>,
}

impl Hooked {
    /// Returns `None` if the settings do not contain the hook.
    pub fn find(program: Program, reach: Reach, root: &Path) -> Outcome<Option<Self>> {
        let (file, before) = read(program, reach, root)?;
        let Some(before) = before.filter(|text| text.contains(" hooks agent ")) else {
            return Ok(None);
        };
        let after = settings::without_hook(&before).map_err(|why| left_alone(&file, &why))?;
        Ok((after.as_ref() != Some(&before)).then_some(Self { file, after }))
    }

    pub fn take_out(&self) -> Outcome<()> {
        store(&self.file, self.after.as_deref())
    }
}

/// Returns the next step that the user has to do by hand.
fn next(program: Program, user: bool) -> &'static str {
    match (program, user) {
        (Program::Codex, _) => "  Codex runs it only after you have approved it there.\n",
        (_, false) => "  Commit that file: other worktrees have the hook once it is in their branch.\n",
        (_, true) => "",
    }
}

/// Follows a symbolic link in the user's own settings. Refuses one in a repository, because it may lead anywhere.
fn real(file: &Path, reach: Reach) -> Outcome<PathBuf> {
    let folders = [Some(file), file.parent()];
    let link = folders
        .into_iter()
        .flatten()
        .any(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()));
    match (link, reach) {
        (false, _) => Ok(file.to_owned()),
        (true, Reach::User) => file.canonicalize().map_err(|e| failed("follow", file, &e)),
        (true, Reach::Project) => Err(invalid(format!(
            "{} is behind a symbolic link: name no file through links in a repository",
            file.display()
        ))),
    }
}

/// Returns `jit` if it is on the PATH, so that the settings work on every machine. Otherwise returns this program's path.
fn how_called() -> Outcome<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join("jit").is_file()) {
        return Ok("jit".to_owned());
    }
    let this = std::env::current_exe().map_err(invalid)?;
    Ok(shell_word(&this.to_string_lossy()))
}

fn failed(what: &str, file: &Path, e: &io::Error) -> Box<Refusal> {
    let message = format!("cannot {what} {}: {e}", file.display());
    Box::new(Refusal::new(Code::Io, message))
}

fn store(file: &Path, content: Option<&str>) -> Outcome<()> {
    let Some(folder) = file.parent() else {
        return Err(invalid("the settings have no folder"));
    };
    match content {
        Some(content) => {
            std::fs::create_dir_all(folder).map_err(|e| failed("create", folder, &e))?;
            jit_os::file::replace_here(file, content.as_bytes()).map_err(|e| failed("write", file, &e))
        }
        None => {
            std::fs::remove_file(file).map_err(|e| failed("remove", file, &e))?;
            // This removes the folder only if it is empty.
            let _ = std::fs::remove_dir(folder);
            Ok(())
        }
    }
}

/// Returns the lines that are added or removed. A change is one block or a few, always additions or removals.
fn difference(file: &str, before: Option<&str>, after: Option<&str>) -> String {
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - same;
    let tail = (old.iter().rev().zip(new.iter().rev())).take(rest);
    let tail = tail.take_while(|(a, b)| a == b).count();
    let mut text = format!("{file}:\n");
    for line in old.get(same..old.len() - tail).unwrap_or_default() {
        text.push_str(&format!("- {line}\n"));
    }
    for line in new.get(same..new.len() - tail).unwrap_or_default() {
        text.push_str(&format!("+ {line}\n"));
    }
    text
}
