//! Installs, uninstalls and lists hooks.
//!
//! What must hold:
//! - Installing twice equals installing once.
//! - An existing hook is renamed, never copied or rewritten. So its content, mode and link are unchanged when it gets
//!   its name back.
//! - At every moment git finds the existing hook, or ours which calls it: the hook gets its second name first, then ours
//!   replaces it in one step. Only a file system without hard links has a moment without a hook.
//! - Repeating an interrupted installation finishes it; uninstalling undoes it.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use jit_core::model::refusal::{Code, Refusal};
use jit_git::Place;
use jit_os::program::is_executable;
use jit_os::shell::shell_word;
use jit_os::{file, io_refusal};
use jit_store::Outcome;

use super::script::{self, KEPT, Theirs, Whose};
use super::site::Site;
use crate::api::hooks::{HookState, HookStatus, InstalledHooks, RemovedHooks, Survey};
use crate::api::init::Left;
use crate::hooks::git::{CLIENT, SERVER};

/// Git's other hooks. The user's hooks of these names must still be called if git itself no longer finds them.
const OTHERS: &[&str] = &[
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-merge-commit",
    "post-commit",
    "pre-rebase",
    "pre-auto-gc",
    "post-index-change",
    "reference-transaction",
    "sendemail-validate",
    "push-to-checkout",
    "update",
    "proc-receive",
    "post-receive",
    "post-update",
    "pre-receive",
];

/// The largest hook of ours, in bytes; a larger file is not ours.
const MAX_HOOK: u64 = 1 << 16;

fn kept(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(KEPT);
    name.into()
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Returns the owner of the hook; `None` if there is none. A link or a large file is not ours.
fn owner(path: &Path) -> Outcome<Option<Whose>> {
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io_refusal("look at", path, &e)),
    };
    if !meta.is_file() || meta.len() > MAX_HOOK {
        return Ok(Some(Whose::Theirs));
    }
    let content = fs::read(path).map_err(|e| io_refusal("read", path, &e))?;
    Ok(Some(script::whose(&content)))
}

/// Returns the program that hooks start: only its name if a shell finds it, so that hooks still work if the program
/// moves.
fn program() -> Outcome<String> {
    if jit_os::program::can_be_started("jit", None) {
        return Ok("jit".to_owned());
    }
    let own = std::env::current_exe().map_err(|e| io_refusal("find", Path::new("jit"), &e))?;
    match own.to_str() {
        Some(own) => Ok(own.to_owned()),
        None => Err(Box::new(
            Refusal::new(Code::Invalid, "jit is not on PATH, and its own path is not UTF-8")
                .help("put the folder of jit on PATH"),
        )),
    }
}

fn missing_folder_note(relative: &Path, missing: &[PathBuf]) -> Option<String> {
    let first = missing.first()?;
    Some(format!(
        "core.hooksPath is {}, which git looks up in each worktree; {} {} without it: there only jit's hooks run",
        relative.display(),
        first.display(),
        match missing.len() {
            1 => "is".to_owned(),
            many => format!("and {} more are", many - 1),
        },
    ))
}

/// Returns the worktrees that lack the folder of the user's hooks, and the names of hooks in those that have it.
fn relative_hooks(site: &Site, relative: &Path) -> (Vec<PathBuf>, BTreeSet<&'static str>) {
    let (mut missing, mut names) = (Vec::new(), BTreeSet::new());
    let all = crate::worktree_identity::list(&site.common).unwrap_or_default();
    let mut roots: BTreeSet<PathBuf> = all
        .into_iter()
        .filter(|one| one.prunable.is_none())
        .filter_map(|one| one.root)
        .collect();
    roots.insert(site.start.clone());
    for root in roots {
        let folder = root.join(relative);
        if !folder.is_dir() {
            missing.push(root);
        }
        names.extend(
            OTHERS
                .iter()
                .copied()
                .filter(|name| is_executable(&folder.join(name))),
        );
    }
    (missing, names)
}

/// Installs the hooks.
pub fn install(place: &Place, server: bool, dry_run: bool) -> Outcome<InstalledHooks> {
    let mut site = Site::of(place)?;
    let _turn = match dry_run {
        true => None,
        false => Some(file::lock_folder(&site.common).map_err(|e| io_refusal("lock", &site.common, &e))?),
    };
    let folder = site.folder();
    let mut done = InstalledHooks {
        folder: folder.display().to_string(),
        dry_run,
        ..InstalledHooks::default()
    };
    let mut names: Vec<(&str, bool)> = if server { SERVER } else { CLIENT }
        .iter()
        .map(|name| (*name, true))
        .collect();
    let relative = site.relative();
    if let Some(relative) = &relative {
        if site.setting.as_ref().is_some_and(|set| set.scope == "worktree") && !site.is_own() {
            return Err(Box::new(
                Refusal::new(
                    Code::Invalid,
                    "core.hooksPath is relative and set for this worktree alone, so hooks for all cannot be reached",
                )
                .help("git config --worktree --unset core.hooksPath"),
            ));
        }
        let (missing, others) = relative_hooks(&site, relative);
        done.notes.extend(missing_folder_note(relative, &missing));
        let ours: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        names.extend(
            others
                .into_iter()
                .filter(|name| !ours.contains(name))
                .map(|name| (name, false)),
        );
    }
    if is_there(&folder) && !folder.is_dir() {
        return Err(Box::new(
            Refusal::new(
                Code::Invalid,
                format!(
                    "git looks for hooks in {}, which is not a folder",
                    folder.display()
                ),
            )
            .help("git config --unset core.hooksPath"),
        ));
    }
    if !folder.is_dir() {
        done.steps.push(format!("make {}", folder.display()));
        if !dry_run {
            site.note.made_folder = true;
            site.save()?;
            fs::create_dir_all(&folder).map_err(|e| io_refusal("create", &folder, &e))?;
        }
    }
    if !dry_run && site.setting.is_some() && relative.is_none() {
        site.note.folder = Some(folder.as_os_str().as_bytes().to_vec());
        site.save()?;
    }
    if !dry_run {
        sweep(&site, &folder);
    }
    let jit = program()?;
    for (name, checks) in names {
        let theirs = match &relative {
            None => None,
            Some(relative) => match relative.join(name).to_str() {
                Some(path) => Some(shell_word(path)),
                None => {
                    return Err(Box::new(
                        Refusal::new(Code::Invalid, "core.hooksPath is not UTF-8")
                            .help("git config core.hooksPath <another folder>"),
                    ));
                }
            },
        };
        let theirs = theirs.as_deref().map_or(Theirs::Beside, Theirs::At);
        let text = script::text(name, theirs, checks.then_some(jit.as_str()));
        put(&folder.join(name), &text, dry_run, &mut done)?;
    }
    if let Some(relative) = relative.filter(|_| !site.is_own()) {
        done.steps.push(format!(
            "point core.hooksPath at {} (its hooks call those in {} first)",
            folder.display(),
            relative.display()
        ));
        if !dry_run {
            site.point_at_own()?;
        }
    }
    done.changed = !dry_run && !done.steps.is_empty();
    Ok(done)
}

/// Installs one hook.
fn put(path: &Path, text: &str, dry_run: bool, done: &mut InstalledHooks) -> Outcome<()> {
    let failed = |e: io::Error| io_refusal("write", path, &e);
    let executable = || Permissions::from_mode(0o755);
    let before = kept(path);
    let is_theirs = match owner(path)? {
        Some(Whose::Ours) => {
            if fs::read(path).is_ok_and(|content| content == text.as_bytes()) && is_executable(path) {
                return Ok(());
            }
            done.steps.push(format!("renew {}", path.display()));
            if !dry_run {
                file::replace_here_with(path, text.as_bytes(), executable()).map_err(failed)?;
            }
            return Ok(());
        }
        Some(Whose::Edited) => {
            done.notes.push(format!(
                "{} was edited since jit wrote it, and is left as it is",
                path.display()
            ));
            return Ok(());
        }
        Some(Whose::Theirs) if is_there(&before) && !is_same_file(path, &before) => {
            return Err(Box::new(
                Refusal::new(
                    Code::Exists,
                    format!(
                        "{} is in the way: the hook beside it would get that name",
                        before.display()
                    ),
                )
                .help("move one of the two away, then: jit hooks install"),
            ));
        }
        Some(Whose::Theirs) => {
            done.steps.push(format!(
                "keep the hook that is there as {}, which is called first",
                before.display()
            ));
            true
        }
        None => false,
    };
    done.steps.push(format!("write {}", path.display()));
    if dry_run {
        return Ok(());
    }
    if is_theirs && give_second_name(path, &before) {
        return file::replace_here_with(path, text.as_bytes(), executable()).map_err(failed);
    }
    if is_theirs {
        fs::rename(path, &before).map_err(failed)?;
    }
    match file::create_with(path, text.as_bytes(), Some(executable())) {
        Ok(true) => Ok(()),
        Ok(false) => Err(failed(io::Error::other("somebody else wrote it at this moment"))),
        Err(e) => {
            // Restores the earlier hook.
            if is_there(&before) && !is_there(path) {
                let _ = fs::rename(&before, path);
            }
            Err(failed(e))
        }
    }
}

/// Gives a hook its second name. Returns whether it has it now: not every file system has hard links.
fn give_second_name(path: &Path, before: &Path) -> bool {
    // An interrupted installation did it already.
    is_same_file(path, before) || fs::hard_link(path, before).is_ok()
}

/// Returns whether both names lead to one file; a link is a file of its own.
fn is_same_file(a: &Path, b: &Path) -> bool {
    let meta = |path: &Path| path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    meta(a).is_some_and(|a| Some(a) == meta(b))
}

/// Removes what a killed installation left in a folder of this repository.
fn sweep(site: &Site, folder: &Path) {
    if folder.starts_with(&site.common) {
        file::sweep(folder);
    }
}

/// Uninstalls the hooks from every folder that may contain them.
pub fn uninstall(place: &Place, dry_run: bool) -> Outcome<RemovedHooks> {
    let mut site = Site::of(place)?;
    let _turn = match dry_run {
        true => None,
        false => Some(file::lock_folder(&site.common).map_err(|e| io_refusal("lock", &site.common, &e))?),
    };
    let mut done = RemovedHooks {
        dry_run,
        ..RemovedHooks::default()
    };
    let folders = site.folders();
    if site.note.hooks_path.is_some() && site.is_own() {
        done.steps.push("put core.hooksPath back".to_owned());
        if !dry_run {
            site.point_back()?;
        }
    }
    for folder in &folders {
        if !dry_run {
            sweep(&site, folder);
        }
        let names: BTreeSet<&str> = CLIENT.iter().chain(SERVER).chain(OTHERS).copied().collect();
        for name in names {
            take(&folder.join(name), dry_run, &mut done)?;
        }
    }
    if !dry_run {
        // A folder that is not empty stays.
        let _ = fs::remove_dir(site.own());
        if site.note.made_folder {
            for folder in &folders {
                let _ = fs::remove_dir(folder);
            }
        }
        site.note = super::site::Note::default();
        site.save()?;
    }
    Ok(done)
}

fn take(path: &Path, dry_run: bool, done: &mut RemovedHooks) -> Outcome<()> {
    let failed = |e: io::Error| io_refusal("remove", path, &e);
    let before = kept(path);
    let mut left = |why: &str| {
        done.kept.push(Left {
            path: path.display().to_string(),
            why: why.to_owned(),
        });
    };
    match owner(path)? {
        Some(Whose::Ours) => {
            done.steps.push(format!("remove {}", path.display()));
            if !dry_run && !is_there(&before) {
                fs::remove_file(path).map_err(failed)?;
            }
        }
        Some(Whose::Edited) => {
            left("it was edited since jit wrote it");
            return Ok(());
        }
        Some(Whose::Theirs) if is_same_file(path, &before) => {
            // The installation was interrupted.
            done.steps.push(format!("remove {}", before.display()));
            if !dry_run {
                fs::remove_file(&before).map_err(failed)?;
            }
            return Ok(());
        }
        Some(Whose::Theirs) if is_there(&before) => {
            left("another program put it over jit's; the hook from before is beside it");
            return Ok(());
        }
        Some(Whose::Theirs) => return Ok(()),
        None => {}
    }
    if is_there(&before) {
        done.steps.push(format!("put {} back as it was", path.display()));
        if !dry_run {
            // Replaces ours in one step, so that there is a hook at every moment.
            fs::rename(&before, path).map_err(failed)?;
        }
    }
    Ok(())
}

/// Returns the state of the hooks.
pub fn survey(place: &Place, server: bool) -> Outcome<Survey> {
    let site = Site::of(place)?;
    let looked_in = site.looked_in();
    let mut survey = Survey {
        folder: looked_in.display().to_string(),
        hooks: Vec::new(),
        notes: Vec::new(),
    };
    let relative = site.relative();
    for name in if server { SERVER } else { CLIENT } {
        let path = looked_in.join(name);
        let state = match owner(&path)? {
            Some(Whose::Ours) if is_executable(&path) => HookStatus::Installed,
            Some(Whose::Ours | Whose::Edited) => HookStatus::Edited,
            Some(Whose::Theirs) => HookStatus::Foreign,
            None => HookStatus::Missing,
        };
        let mut elsewhere = site.folders().into_iter().filter(|folder| *folder != looked_in);
        let shadowed = matches!(state, HookStatus::Foreign | HookStatus::Missing)
            && elsewhere.any(|folder| matches!(owner(&folder.join(name)), Ok(Some(Whose::Ours))));
        let first = match &relative {
            Some(relative) if site.is_own() => site.start.join(relative).join(name),
            _ => kept(&path),
        };
        survey.hooks.push(HookState {
            name: (*name).into(),
            state: if shadowed { HookStatus::Shadowed } else { state },
            path: path.display().to_string(),
            calls_first: is_executable(&first).then(|| first.display().to_string()),
        });
    }
    if let Some(relative) = &relative {
        let (missing, others) = relative_hooks(&site, relative);
        survey.notes.extend(missing_folder_note(relative, &missing));
        let unreached: Vec<&str> = others
            .into_iter()
            .filter(|name| site.is_own() && !is_there(&site.own().join(name)))
            .collect();
        if !unreached.is_empty() {
            survey.notes.push(format!(
                "git does not reach {} in {} any more: run jit hooks install once again",
                unreached.join(", "),
                relative.display()
            ));
        }
    }
    let shadowed = survey.hooks.iter().any(|hook| hook.state == HookStatus::Shadowed);
    if shadowed && let Some(set) = &site.setting {
        survey.notes.push(format!(
            "core.hooksPath is {} now ({}), so git does not run the hooks that jit installed: run jit hooks install once again",
            set.value.display(),
            set.scope
        ));
    }
    Ok(survey)
}
