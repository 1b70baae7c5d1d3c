//! `jit uninstall`: removes everything that jit created, and nothing of value.
//!
//! What must hold:
//! - Nothing is removed while a lease is held. Nothing is removed before every issue is in an exported file, synced,
//!   and another file has the gate definitions and results that git does not have.
//! - In a tree, a file is removed only if git never had it and its content is in the export or is what `jit init`
//!   wrote. With `purge_tree`, files that equal git's version are removed too. Everything else stays and is listed.
//! - Entries about jit in settings of agent programs are removed from the trees (see `agent_entries`).
//! - The log is removed last, so an interrupted run can be repeated.
//! - Right after `jit init`, uninstalling leaves git's status and configuration as they were before it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use jit_core::issue_files::format::{DESCRIPTION, ISSUE, NAMES};
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::text_digest;
use jit_core::model::refusal::{Code, Refusal};
use jit_git::{Git, GitError, Place};
use jit_os::shell::shell_word;
use jit_os::{clock, file, io_refusal};
use jit_store::{Outcome, View};

use super::agent_entries;
use crate::api::Answer;
use crate::api::Options;
use crate::api::init::{Left, MayUninstall, UninstallReport, Uninstalled};
use crate::api::setup::SetupReply;
use crate::context::Context;
use crate::gates::export::{GateExport, GateFile};
use crate::init::{self as setup, ATTRIBUTES, CONFIG, FORMER_ATTRIBUTES, MERGE_DRIVER};
use crate::ports::Files;
use crate::refusals::refuse;
use crate::worktree_identity::identity::Need;
use crate::worktree_identity::remove_excluded;

/// The largest file in a tree that is compared with its expected content.
const MAX_COMPARED: u64 = 16 << 20;

/// Returns whether the caller may remove jit now.
pub(super) fn ask(options: &Options) -> Outcome<Answer> {
    let cx = crate::opening::open(options, Need::Read)?;
    may_uninstall(&cx)?;
    let may = MayUninstall {
        control_dir: cx.place.control_dir.display().to_string(),
    };
    Ok(Answer {
        reply: SetupReply::MayUninstall(may).into(),
        warnings: Vec::new(),
    })
}

/// Removes jit, and reports it.
pub(super) fn carry_out(options: &Options, request: &Uninstall) -> Outcome<Answer> {
    let cx = crate::opening::open(options, Need::Write)?;
    let done = uninstall(&cx, request)?;
    let uninstalled = Uninstalled {
        report: done.report,
        commit: done.commit,
    };
    Ok(Answer {
        reply: SetupReply::Uninstalled(uninstalled).into(),
        warnings: done.warnings,
    })
}

#[derive(Debug, Clone, Default)]
pub(super) struct Uninstall {
    /// The file for the issues; the default is a file beside the control plane.
    pub export: Option<PathBuf>,
    /// Remove committed files of this worktree too.
    pub purge_tree: bool,
}

/// The removal as far as it was done.
#[derive(Debug, Default)]
pub(super) struct Removal {
    pub report: UninstallReport,
    /// Committed files that were changed.
    pub commit: Vec<String>,
    warnings: Vec<String>,
    /// The issue whose files were last compared, and their expected content.
    last: Option<(IssueId, Files)>,
    /// Gate files that are in the export.
    exported: HashSet<PathBuf>,
}

/// A file to write, and its content.
type Export = (PathBuf, Vec<u8>);

/// A folder in which files of agent programs may mention jit.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    pub root: &'a Path,
    /// The folder in which jit was called.
    pub here: bool,
    git: bool,
}

impl Tree<'_> {
    /// Returns whether git has the file.
    pub(super) fn tracks(&self, file: &Path) -> bool {
        let listed = || Git::at(self.root).args(["ls-files", "-z", "--"]).arg(file).run();
        // If git gives no answer, the file is left alone.
        self.git && listed().map_or(true, |names| !names.is_empty())
    }
}

impl Removal {
    fn removed(&mut self, path: &Path) {
        self.report.removed.push(path.display().to_string());
    }

    pub(super) fn keep(&mut self, path: &Path, why: impl ToString) {
        self.report.kept.push(Left {
            path: path.display().to_string(),
            why: why.to_string(),
        });
    }

    /// Removes a file, or records why it still exists.
    fn remove_file(&mut self, path: &Path) {
        match fs::remove_file(path) {
            Ok(()) => self.removed(path),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => self.keep(path, e),
        }
    }
}

/// Refuses if jit may not be removed now.
fn may_uninstall(cx: &Context) -> Outcome<()> {
    if let Some(agent) = crate::context::calling_agent::asking_agent(cx) {
        let message = format!("{agent} is an agent, and removing jit is not for agents");
        return Err(Box::new(
            Refusal::new(Code::NotAllowed, message).help("ask a person to run: jit uninstall"),
        ));
    }
    refuse_while_used(cx, &crate::write_path::view(cx)?)
}

/// Refuses while there are leases, unfinished units, or rescued work.
fn refuse_while_used(cx: &Context, view: &View) -> Outcome<()> {
    crate::worktrees::cleanup::refuse_while_rescued(cx)?;
    let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    let open: Vec<String> = units
        .iter()
        .filter(|unit| !unit.is_over())
        .map(|unit| format!("{} ({})", unit.id, unit.state))
        .collect();
    if !open.is_empty() {
        let message = format!("jit is in use: units are not finished: {}", open.join(", "));
        return Err(Box::new(
            Refusal::new(Code::NotAllowed, message).help("jit worktree status"),
        ));
    }
    let mut leases = state::leases(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    leases.retain(|lease| !lease.expired(&view.now));
    if leases.is_empty() {
        return Ok(());
    }
    let what = |lease: &jit_core::model::lease::Lease| match (lease.resource.issue(), lease.resource.file()) {
        (Some(id), _) => format!("{id} by {}", lease.agent_id),
        (None, Some(file)) => format!("{} by {}", file.pattern.as_str(), lease.agent_id),
        (None, None) => format!("lease {} by {}", lease.lease_id, lease.agent_id),
    };
    let names: Vec<String> = leases.iter().map(what).collect();
    let mut refusal = Refusal::new(
        Code::NotAllowed,
        format!("jit is in use: held are {}", names.join(", ")),
    );
    for lease in leases.iter().take(5) {
        refusal = refusal.help(match lease.resource.file() {
            Some(file) if !file.outside && lease.obeys(&cx.actor) => {
                format!("jit lock release {}", shell_word(file.pattern.as_str()))
            }
            _ => format!(
                "jit claim force-evict {} --reason \"jit is being removed\"",
                shell_word(lease.lease_id.as_str())
            ),
        });
    }
    Err(Box::new(refusal))
}

/// Removes jit.
pub(super) fn uninstall(cx: &Context, options: &Uninstall) -> Outcome<Removal> {
    may_uninstall(cx)?;
    // Edits that are not imported yet must be in the export.
    let mut done = Removal {
        warnings: crate::issues::sync::join_tree(cx)?.1,
        ..Removal::default()
    };
    let _still = cx.store.hold_still(&cx.actor)?;
    let view = crate::write_path::view(cx)?;
    refuse_while_used(cx, &view)?;
    let (issues, gates) = (
        export_all(cx, &view, options, &mut done)?,
        export_gates(cx, options, &mut done)?,
    );
    // Both or none: with only one of them written, the same command could not be repeated.
    for (path, _) in issues.iter().chain(&gates) {
        require_lasting(cx, path)?;
        require_free(path)?;
    }
    for (path, content) in issues.iter().chain(&gates) {
        write_new(path, content)?;
    }
    let written: Vec<PathBuf> = issues
        .iter()
        .chain(&gates)
        .map(|(path, _)| path.clone())
        .collect();
    let name = |(path, _): (PathBuf, Vec<u8>)| path.display().to_string();
    (done.report.export, done.report.gates) = (issues.map(name), gates.map(name));
    match &cx.place.common_dir {
        Some(common) => leave_git(cx, &view, common, options, &mut done)?,
        None => {
            let root = cx.place.local_jit.as_deref().and_then(Path::parent);
            if let Some(root) = root {
                let tree = Tree {
                    root,
                    here: true,
                    git: false,
                };
                agent_entries::remove(&tree, &mut done);
            }
            leave_folder(cx, &*view.table, &mut done)?;
        }
    }
    if let Some(gone) = written.iter().find(|path| !path.is_file()) {
        let message = format!("{} is gone: the log is left as it is", gone.display());
        return Err(Box::new(
            Refusal::new(Code::Io, message).help("jit uninstall --export <another file>"),
        ));
    }
    remove_control_plane(cx, &mut done)?;
    if let Some(local) = &cx.place.local_jit {
        prune(local, FOLDERS);
    }
    agent_entries::report_users(&cx.place.start, &mut done);
    Ok(done)
}

/// Returns the file with every issue, if there is any.
fn export_all(cx: &Context, view: &View, options: &Uninstall, done: &mut Removal) -> Outcome<Option<Export>> {
    let (issues, lines, lost) = crate::issues::exchange::exported(cx, view)?;
    done.report.issues = issues;
    done.warnings.extend(lost);
    let path = match &options.export {
        Some(path) => path.clone(),
        None if issues == 0 => return Ok(None),
        None => free_name(cx, "jsonl"),
    };
    Ok(Some((path, lines.into_bytes())))
}

/// Refuses a path whose file would be removed with all the rest.
fn require_lasting(cx: &Context, path: &Path) -> Outcome<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let failed = |e: io::Error| io_refusal("write", path, &e);
    let folder = folder.canonicalize().map_err(failed)?;
    let control = cx.place.control_dir.canonicalize().map_err(failed)?;
    let mut others: Vec<PathBuf> = cx
        .place
        .local_jit
        .iter()
        .chain(&cx.place.git_dir)
        .cloned()
        .collect();
    if let Some(common) = &cx.place.common_dir {
        let all = crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))?;
        others.extend(all.into_iter().map(|one| one.git_dir));
        others.extend(roots(cx, common)?.iter().map(|root| root.join(".jit")));
    }
    let is_it = |other: &PathBuf| other.canonicalize().is_ok_and(|other| other == folder);
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let goes = name == VIEW || is_of_git_dir(name);
    if folder.starts_with(control) || goes && others.iter().any(is_it) {
        let message = format!("{} would be removed with jit", path.display());
        return Err(Box::new(
            Refusal::new(Code::Invalid, message).help("jit uninstall --export <another file>"),
        ));
    }
    Ok(())
}

/// Returns an unused file name beside the control plane.
fn free_name(cx: &Context, ending: &str) -> PathBuf {
    let second = jiff::Timestamp::from_millisecond(clock::wall_ms()).unwrap_or_default();
    let name = format!("jit-export-{}", second.strftime("%Y%m%dT%H%M%SZ"));
    let folder = cx.place.common_dir.as_ref().or(cx.place.worktree_root.as_ref());
    let folder = folder.unwrap_or(&cx.place.start);
    // Another export may have been made in this second.
    let mut path = folder.join(format!("{name}.{ending}"));
    let mut n = 2;
    while path.symlink_metadata().is_ok() {
        path = folder.join(format!("{name}-{n}.{ending}"));
        n += 1;
    }
    path
}

/// Returns the gate files that the trees have and git does not, unchanged.
fn export_gates(cx: &Context, options: &Uninstall, done: &mut Removal) -> Outcome<Option<Export>> {
    let mut files = Vec::new();
    for path in gate_files(cx, options)? {
        let meta = path.symlink_metadata();
        if !meta.is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_COMPARED) {
            continue;
        }
        let content = fs::read(&path).map_err(|e| io_refusal("read", &path, &e))?;
        // A file that is not text is not ours: it stays.
        if let Ok(text) = String::from_utf8(content) {
            files.push(GateFile {
                path: path.display().to_string(),
                text,
            });
            done.exported.insert(path);
        }
    }
    if files.is_empty() {
        return Ok(None);
    }
    let path = match &options.export {
        // Beside the issues, whatever their file is called.
        Some(issues) => {
            let mut name = issues.clone().into_os_string();
            name.push(".gates.json");
            name.into()
        }
        None => free_name(cx, "gates.json"),
    };
    let mut bytes = serde_json::to_vec_pretty(&GateExport::new(files)).map_err(|e| refuse(Code::Io, e))?;
    bytes.push(b'\n');
    Ok(Some((path, bytes)))
}

/// Returns the gate definitions and results that may be removed from trees and differ from the committed ones.
fn gate_files(cx: &Context, options: &Uninstall) -> Outcome<Vec<PathBuf>> {
    let ours = |root: &Path, path: PathBuf| {
        let parts: Vec<&str> = path.iter().filter_map(OsStr::to_str).collect();
        is_about_gates(&parts).then(|| root.join(path))
    };
    let Some(common) = &cx.place.common_dir else {
        let root = cx.place.local_jit.as_deref().and_then(Path::parent);
        let root = root.unwrap_or(&cx.place.start);
        let results = fs::read_dir(root.join(".jit/gates/results"))
            .into_iter()
            .flatten();
        let results = results.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(PathBuf::from(".jit/gates/results").join(name))
        });
        let all = results.chain([PathBuf::from(".jit/gates/registry.json")]);
        return Ok(all.filter_map(|path| ours(root, path)).collect());
    };
    let here = cx.place.worktree_root.as_deref();
    let mut files = Vec::new();
    for root in roots(cx, common)? {
        let mut found = jit_paths(&root, &["ls-files", "-z", "--others"])?;
        if options.purge_tree && here == Some(&root) {
            found.extend(uncommitted(&root)?);
        }
        files.extend(found.into_iter().filter_map(|path| ours(&root, path)));
    }
    Ok(files)
}

/// Returns the existing worktrees.
fn roots(cx: &Context, common: &Path) -> Outcome<Vec<PathBuf>> {
    let all = crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))?;
    let mut roots: Vec<PathBuf> = all.into_iter().filter_map(|one| one.root).collect();
    if let Some(here) = &cx.place.worktree_root
        && !roots.contains(here)
    {
        roots.push(here.clone());
    }
    roots.retain(|root| root.is_dir());
    Ok(roots)
}

fn leave_git(
    cx: &Context,
    view: &View,
    common: &Path,
    options: &Uninstall,
    done: &mut Removal,
) -> Outcome<()> {
    let here = cx.place.worktree_root.as_deref();
    let all = crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))?;
    for root in &roots(cx, common)? {
        let purge = options.purge_tree && here == Some(root);
        let tree = Tree {
            root,
            here: here == Some(root),
            git: true,
        };
        agent_entries::remove(&tree, done);
        leave_tree(cx, &*view.table, root, purge, done)?;
    }
    let hooks = crate::hooks::git::install::uninstall(&cx.place, false)?;
    done.report.removed.extend(hooks.steps);
    done.report.kept.extend(hooks.kept);
    for git_dir in all.iter().map(|one| &one.git_dir).chain(&cx.place.git_dir) {
        remove_identity(git_dir, done);
    }
    if remove_excluded(common).map_err(|e| io_refusal("write", common, &e))? {
        done.report.removed.push("jit's lines in info/exclude".to_owned());
    }
    let _turn = file::lock_folder(&cx.place.control_dir)
        .map_err(|e| io_refusal("lock", &cx.place.control_dir, &e))?;
    remove_settings(&cx.place, common, done)
}

/// Removes jit's files from a worktree, as far as nothing is lost.
fn leave_tree(cx: &Context, table: &dyn Table, root: &Path, purge: bool, done: &mut Removal) -> Outcome<()> {
    let local = root.join(".jit");
    if !local.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Ok(());
    }
    done.remove_file(&local.join(VIEW));
    for path in jit_paths(root, &["ls-files", "-z", "--others"])? {
        match is_ours_alone(cx, table, root, &path, done)? {
            true => done.remove_file(&root.join(path)),
            false => done.keep(&root.join(path), "not in git, and not in the export as it is"),
        }
    }
    let changed = uncommitted(root)?;
    if purge {
        let changed: HashSet<PathBuf> = changed.into_iter().collect();
        for path in jit_paths(root, &["ls-files", "-z"])? {
            match !changed.contains(&path) || is_ours_alone(cx, table, root, &path, done)? {
                true => done.remove_file(&root.join(path)),
                false => done.keep(&root.join(path), CHANGED),
            }
        }
    } else {
        changed
            .iter()
            .for_each(|path| done.keep(&root.join(path), CHANGED));
    }
    let folders = fs::read_dir(local.join("issues")).into_iter().flatten();
    for folder in folders.flatten() {
        // A folder that is not empty stays.
        let _ = fs::remove_dir(folder.path());
    }
    prune(&local, FOLDERS);
    Ok(())
}

/// Returns whether a file in a tree is an unchanged default, or has no content that the export lacks.
fn is_ours_alone(
    cx: &Context,
    table: &dyn Table,
    root: &Path,
    path: &Path,
    done: &mut Removal,
) -> Outcome<bool> {
    let parts: Vec<&str> = path.iter().filter_map(OsStr::to_str).collect();
    let full = root.join(path);
    let meta = full.symlink_metadata();
    if !meta.is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_COMPARED) {
        return Ok(false);
    }
    let content = fs::read(&full).map_err(|e| io_refusal("read", &full, &e))?;
    match parts.as_slice() {
        [_, "config.toml"] => Ok(content == CONFIG.as_bytes()),
        [_, ".gitattributes"] => {
            let content = String::from_utf8_lossy(&content);
            Ok(content == ATTRIBUTES || FORMER_ATTRIBUTES.contains(&&*content))
        }
        [_, "issues", id, name] if NAMES.contains(name) => match id.parse() {
            Ok(id) => is_exported(cx, table, &id, name, &content, &mut done.last),
            Err(_) => Ok(false),
        },
        parts if is_about_gates(parts) => Ok(done.exported.contains(&full)),
        _ => Ok(false),
    }
}

fn is_exported(
    cx: &Context,
    table: &dyn Table,
    id: &IssueId,
    name: &str,
    content: &[u8],
    last: &mut Option<(IssueId, Files)>,
) -> Outcome<bool> {
    let unreadable = |e| refuse(Code::Io, e);
    if last.as_ref().is_none_or(|(last, _)| last != id) {
        let known = match state::issue(table, id).map_err(unreadable)? {
            None => state::deleted(table, id).map_err(unreadable)?,
            known => known,
        };
        let Some(issue) = known else { return Ok(false) };
        let files = cx.texts.files(table, &issue);
        let files = files.map_err(|e| io_refusal("read", &cx.texts.folder(id), &e))?;
        *last = Some((id.clone(), files));
    }
    let files = last.as_ref().map_or(&[][..], |(_, files)| files);
    let current = files.iter().find(|(given, _)| *given == name);
    let current = current.map_or(&[][..], |(_, content)| content);
    if current == content {
        return Ok(true);
    }
    match name {
        // An older copy that jit has imported.
        ISSUE => state::is_known_file(table, id, &text_digest(content)).map_err(unreadable),
        DESCRIPTION => Ok(false),
        _ => {
            let lines: HashSet<&[u8]> = current.split(|b| *b == b'\n').collect();
            Ok(content.split(|b| *b == b'\n').all(|line| lines.contains(line)))
        }
    }
}

/// Returns whether the control plane is the folder itself: without git it is, unless another place was configured.
fn is_one_folder(cx: &Context) -> bool {
    cx.place.local_jit.as_ref() == Some(&cx.place.control_dir)
}

/// Does the same without git: files with content that the export lacks stay.
fn leave_folder(cx: &Context, table: &dyn Table, done: &mut Removal) -> Outcome<()> {
    let Some(local) = &cx.place.local_jit else {
        return Ok(());
    };
    done.remove_file(&local.join(VIEW));
    done.remove_file(&local.join("jit-seen"));
    let config = local.join("config.toml");
    if fs::read(&config).is_ok_and(|content| content == CONFIG.as_bytes()) {
        done.remove_file(&config);
    }
    cx.texts.sweep();
    let root = local.parent().unwrap_or(local);
    for name in IN_TREES {
        leave_below(cx, table, root, &Path::new(".jit").join(name), done)?;
    }
    Ok(())
}

fn leave_below(
    cx: &Context,
    table: &dyn Table,
    root: &Path,
    folder: &Path,
    done: &mut Removal,
) -> Outcome<()> {
    let full = root.join(folder);
    if !full.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Ok(());
    }
    let entries = fs::read_dir(&full).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.map_err(|e| io_refusal("read", &full, &e))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = folder.join(entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            leave_below(cx, table, root, &path, done)?;
        } else if is_of_control_plane(cx, table, root, &path)? || is_ours_alone(cx, table, root, &path, done)?
        {
            done.remove_file(&entry.path());
        } else {
            done.keep(&entry.path(), "not in the export as it is");
        }
    }
    // A folder that is not empty stays.
    let _ = fs::remove_dir(full);
    Ok(())
}

/// Returns whether a file is an earlier text of an issue or a gate's output, if the control plane is inside a tree.
fn is_of_control_plane(cx: &Context, table: &dyn Table, root: &Path, path: &Path) -> Outcome<bool> {
    let parts: Vec<&str> = path.to_str().unwrap_or_default().split('/').collect();
    match parts.as_slice() {
        _ if !is_one_folder(cx) => Ok(false),
        [_, "issues", _, "texts", name] => {
            let text = file::read_real(&root.join(path), MAX_COMPARED).ok().flatten();
            Ok(text.is_some_and(|text| *name == format!("{}.md", text_digest(&text))))
        }
        [_, "gates", id, name] => match (id.parse(), name.strip_suffix(".log")) {
            (Ok(id), Some(gate)) => {
                let judged = state::gate_result(table, &id, gate).map_err(|e| refuse(Code::Io, e))?;
                Ok(judged.is_some())
            }
            _ => Ok(false),
        },
        _ => Ok(false),
    }
}

fn remove_control_plane(cx: &Context, done: &mut Removal) -> Outcome<()> {
    let dir = &cx.place.control_dir;
    let failed = |e: io::Error| io_refusal("remove", dir, &e);
    let mut ours = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if is_one_folder(cx) && IN_TREES.iter().any(|name| entry.file_name() == **name) {
            // The rest of it has been listed.
            continue;
        }
        match entry.file_name().to_str().is_some_and(setup::is_ours) {
            true => ours.push((entry.file_name(), entry.path())),
            false => done.keep(&entry.path(), "not made by jit"),
        }
    }
    // The log, and the lock on it, last.
    let rank = |name: &OsStr| match name.to_str() {
        Some("events") => 1,
        Some("locks") => 2,
        _ => 0,
    };
    ours.sort_by_key(|(name, _)| rank(name));
    for (_, path) in ours {
        let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let gone = if is_dir {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        gone.map_err(|e| io_refusal("remove", &path, &e))?;
    }
    // Files of others are still in it, and have been listed.
    if fs::remove_dir(dir).is_ok() {
        done.removed(dir);
    }
    Ok(())
}

/// The reason for keeping a file that differs from git's version.
const CHANGED: &str = "changed, and not committed";

/// The file in a worktree's `.jit` that shows the worktree's identity.
const VIEW: &str = "worktree.json";

/// Folders that both a worktree and the control plane have.
const IN_TREES: &[&str] = &["gates", "issues"];

/// Folders of a worktree's `.jit`, the innermost first.
const FOLDERS: &[&str] = &["gates/results", "gates", "issues", ""];

/// Returns whether a path in a worktree is a gate file.
fn is_about_gates(parts: &[&str]) -> bool {
    match parts {
        [".jit", "gates", "registry.json"] => true,
        [".jit", "gates", "results", name] => name.ends_with(".json"),
        _ => false,
    }
}

/// Returns the paths below `.jit` that git lists.
fn jit_paths(root: &Path, args: &[&str]) -> Outcome<Vec<PathBuf>> {
    let out = Git::at(root).args(args).args(["--", ".jit"]).run();
    let out = out.map_err(|e| refuse(Code::Io, e))?;
    let names = out.split(|b| *b == 0).filter(|name| !name.is_empty());
    let mut paths: Vec<PathBuf> = names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect();
    // An unmerged path is listed once for each side.
    paths.dedup();
    Ok(paths)
}

/// Returns the tracked files below `.jit` that exist and differ from the committed ones; all of them if there is no
/// commit. Compares contents: git ignores files marked as skip-worktree or assume-unchanged.
fn uncommitted(root: &Path) -> Outcome<Vec<PathBuf>> {
    let failed = |e: GitError| refuse(Code::Io, e);
    let mut paths = jit_paths(root, &["ls-files", "-z"])?;
    paths.retain(|path| root.join(path).symlink_metadata().is_ok());
    if !matches!(Git::at(root).verify("HEAD"), Ok(Some(_))) {
        return Ok(paths);
    }
    let tree = Git::at(root).args(["ls-tree", "-r", "-z", "HEAD", "--", ".jit"]);
    let tree = tree.run().map_err(failed)?;
    let committed: HashSet<(&[u8], &[u8])> = tree.split(|b| *b == 0).filter_map(entry).collect();
    let (files, others): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| {
        root.join(path)
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_file())
    });
    let ask: Vec<u8> = files.iter().flat_map(|path| quoted(path)).collect();
    let git = Git::at(root).args(["hash-object", "--stdin-paths"]);
    let names = git.stdin(ask).run().map_err(failed)?;
    let mut names = names.split(|b| *b == b'\n');
    let mut changed = others;
    for path in files {
        let name = names.next().unwrap_or_default();
        if !committed.contains(&(name, path.as_os_str().as_bytes())) {
            changed.push(path);
        }
    }
    Ok(changed)
}

/// Returns object and path of a line `<mode> blob <object>\t<path>`.
fn entry(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let tab = line.iter().position(|b| *b == b'\t')?;
    let object = line.get(..tab)?.rsplit(|b| *b == b' ').next()?;
    Some((object, line.get(tab + 1..)?))
}

/// Returns a line that git reads as this path, whatever characters it has.
fn quoted(path: &Path) -> Vec<u8> {
    let mut line = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        line.extend(format!("\\{byte:03o}").into_bytes());
    }
    line.extend(b"\"\n");
    line
}

fn there_already(path: &Path) -> Box<Refusal> {
    let message = format!("{} is there already", path.display());
    Box::new(Refusal::new(Code::Exists, message).help("jit uninstall --export <another file>"))
}

fn require_free(path: &Path) -> Outcome<()> {
    match path.symlink_metadata() {
        Ok(_) => Err(there_already(path)),
        Err(_) => Ok(()),
    }
}

/// Writes a file that must not exist yet.
fn write_new(path: &Path, content: &[u8]) -> Outcome<()> {
    match file::create(path, content) {
        Ok(true) => Ok(()),
        Ok(false) => Err(there_already(path)),
        Err(e) => Err(io_refusal("write", path, &e)),
    }
}

/// Removes these folders if they are empty.
fn prune(local: &Path, names: &[&str]) {
    for name in names {
        let _ = fs::remove_dir(local.join(name));
    }
}

fn remove_identity(git_dir: &Path, done: &mut Removal) {
    let Ok(entries) = fs::read_dir(git_dir) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(is_of_git_dir) {
            done.remove_file(&entry.path());
        }
    }
}

/// Returns whether jit itself creates this name in a worktree's git directory.
fn is_of_git_dir(name: &str) -> bool {
    let identity = name
        .strip_prefix("jit-worktree")
        .and_then(|rest| rest.strip_suffix(".json"));
    name == "jit-seen"
        || name == crate::hooks::git::MERGED
        || name == crate::hooks::git::TEMPLATE
        || identity.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Removes jit's settings from git's configuration, and lists other settings under its names.
fn remove_settings(place: &Place, common: &Path, done: &mut Removal) -> Outcome<()> {
    let config = common.join("config");
    let removed = setup::remove_settings(place, common).map_err(|e| io_refusal("change", &config, &e))?;
    let told = removed.iter().map(|key| format!("{key} in git's configuration"));
    done.report.removed.extend(told);
    for key in ["name", "driver"] {
        let key = format!("merge.{MERGE_DRIVER}.{key}");
        let git = Git::in_git_dir(common).args(["config", "--local", "--get", &key]);
        if !git.line().unwrap_or_default().is_empty() {
            done.report.kept.push(Left {
                path: format!("{key} in git's configuration"),
                why: "it is not what jit wrote".to_owned(),
            });
        }
    }
    Ok(())
}
