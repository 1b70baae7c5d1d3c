//! Registers jit's hook in the settings of agent programs, and removes it.
//!
//! What must hold:
//! - Agents cannot remove the hook.
//! - In a repository, a settings file behind a symbolic link is refused.
//! - A settings file that cannot be edited safely is left alone.
//! - A change that the user has seen is written only if the file is still as it was.

use std::io;
use std::path::{Path, PathBuf};

use jit_agents::hooks::Program;
use jit_agents::hooks::settings::{self, BadSettings, Reach};
use jit_core::model::issue::text_digest;
use jit_core::model::refusal::{Code, Refusal};
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::api::Options;
use crate::api::hooks::AgentHookChange;
use crate::context::Surroundings;
use crate::refusals::refuse;

/// The requested change of the settings of one program.
#[derive(Debug)]
pub struct HookEdit {
    pub program: Program,
    pub user: bool,
    pub register: bool,
    pub write: bool,
    pub seen: Option<String>,
}

/// Registers the hook, or removes it. Without `write`, returns the change and writes nothing.
pub fn change(options: &Options, edit: &HookEdit) -> Outcome<AgentHookChange> {
    let found = Surroundings::find(options)?;
    let root = found.place.worktree_root.clone();
    let root = match edit.user {
        true => root.unwrap_or_default(),
        false => root.ok_or_else(|| {
            refuse(
                Code::Invalid,
                "there is no worktree here whose settings could be changed",
            )
        })?,
    };
    if !edit.register && found.asking_agent().is_some() {
        let refusal = Refusal::new(Code::NotAllowed, "what restrains agents is not theirs to remove");
        let again = format!(
            "ask a person to run: jit hooks uninstall --agent {}",
            edit.program
        );
        return Err(Box::new(refusal.help(again)));
    }
    let reach = if edit.user { Reach::User } else { Reach::Project };
    let (file, before) = read(edit.program, reach, &root)?;
    let edited = match (&before, edit.register) {
        (before, true) => settings::with_hook(before.as_deref(), edit.program, &how_called()?).map(Some),
        (Some(before), false) => settings::without_hook(before),
        (None, false) => Ok(None),
    };
    let after = edited.map_err(|why| left_alone(&file, &why))?;
    let seen = digest(before.as_deref().map(str::as_bytes));
    let changed = before != after;
    if changed && edit.write {
        require_seen(edit.seen.as_deref(), &seen, &file)?;
        store(&file, after.as_deref())?;
    }
    Ok(AgentHookChange {
        program: edit.program,
        file: file.display().to_string(),
        changed,
        before,
        after,
        seen,
    })
}

/// Returns the digest of a settings file; empty if there is none.
pub fn digest(content: Option<&[u8]>) -> String {
    content.map(text_digest).unwrap_or_default()
}

/// Refuses if a settings file is not as the user has seen it.
pub fn require_seen(seen: Option<&str>, now: &str, file: &Path) -> Outcome<()> {
    if seen.is_none_or(|seen| seen == now) {
        return Ok(());
    }
    let shown = file.display();
    let message = format!("{shown} has just been changed by another program; nothing was written");
    Err(Box::new(
        Refusal::new(Code::Busy, message).help("run the command again"),
    ))
}

fn left_alone(file: &Path, why: &BadSettings) -> Box<Refusal> {
    let message = format!("{} is left alone: {why}", file.display());
    Box::new(Refusal::new(Code::Invalid, message).help("edit it by hand: docs/agents.md shows what it takes"))
}

/// Returns the settings file of a program, and its content.
fn read(program: Program, reach: Reach, root: &Path) -> Outcome<(PathBuf, Option<String>)> {
    let file = settings::file(program, reach, root, |name| std::env::var_os(name))
        .ok_or_else(|| refuse(Code::Invalid, "no home folder is known"))?;
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
#[derive(Debug)]
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
        (true, Reach::Project) => {
            let message = format!(
                "{} is behind a symbolic link: name no file through links in a repository",
                file.display()
            );
            Err(refuse(Code::Invalid, message))
        }
    }
}

/// Returns whether a folder of the PATH has `jit`.
pub fn is_on_path() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("jit").is_file())
}

/// Returns `jit` if it is on the PATH, so that the settings work on every machine. Otherwise returns this program's path.
fn how_called() -> Outcome<String> {
    if is_on_path() {
        return Ok("jit".to_owned());
    }
    let this = std::env::current_exe().map_err(|e| refuse(Code::Invalid, e))?;
    Ok(shell_word(&this.to_string_lossy()))
}

fn failed(what: &str, file: &Path, e: &io::Error) -> Box<Refusal> {
    refuse(Code::Io, format!("cannot {what} {}: {e}", file.display()))
}

fn store(file: &Path, content: Option<&str>) -> Outcome<()> {
    let Some(folder) = file.parent() else {
        return Err(refuse(Code::Invalid, "the settings have no folder"));
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
