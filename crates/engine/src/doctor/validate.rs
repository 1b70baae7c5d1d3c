//! The checks of `jit validate` about issues: their files in this tree, their replica, and their graph.
//!
//! What must hold:
//!
//! - Files are read within the bounds of [`tree`].
//! - Only these files are written, and each repair is reported: replica files that are behind the log, issues of this
//!   tree whose writer was interrupted, and lock files of activities that do not match the log.
//! - On request, issues that no tree has are written too (see `issues_without_files` of the issues room).
//! - Temporary files of killed writers are removed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use jit_core::issue_files::format::{DEPS, DESCRIPTION, ISSUE, MAX_FILE, issue_json};
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::{Issue, IssueState};
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::model::time::Wall;
use jit_core::query::graph::{Graph, GraphNode, cycles};
use jit_os::{file, io_refusal};
use jit_store::Outcome;

use crate::context::Context;
use crate::gates::Results;
use crate::gates::registry::Registry;
use crate::issues::sync::tree_changes::lost_files;
use crate::issues::tree::{self, Unsound};
use crate::ports::{Files, Texts as _};
use crate::refusals::{listed, refuse};
use crate::replica::{self, Replica};

/// A problem of an issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static str,
    pub message: String,
    pub help: String,
    pub file: Option<PathBuf>,
    /// Counted from 1; 0 means the whole file.
    pub line: usize,
}

#[derive(Debug, Default)]
pub struct Audit {
    pub findings: Vec<Finding>,
    /// Observations that may be correct, but should be reported.
    pub notes: Vec<String>,
    /// Issues whose files were behind the log and were rewritten.
    pub mended: Vec<IssueId>,
    /// Issues that no worktree and no branch has.
    pub missing: Vec<IssueId>,
    /// Issues in this tree without their `issue.json`.
    unfinished: Vec<IssueId>,
}

impl Audit {
    fn unsound(&mut self, unsound: Unsound) {
        self.findings.push(Finding {
            check: "issue files",
            message: unsound.to_string(),
            help: "mend the file, or take another version of it from git".into(),
            file: Some(unsound.path),
            line: unsound.line,
        });
    }
}

/// Checks all issues. With `write_missing`, writes issues that no tree and no branch has into this tree.
pub fn audit(cx: &Context, write_missing: bool) -> Outcome<Audit> {
    // Takes in changes by git or an editor first. Unreadable files are found below.
    let (notes, left_alone) = crate::issues::sync::look_at_tree(cx);
    let mut audit = Audit {
        notes,
        ..Audit::default()
    };
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let issues = state::issues(&*view.table).map_err(unreadable)?;
    let gone = state::tombstones(&*view.table).map_err(unreadable)?;
    let compared = compare(cx, &*view.table, issues.iter().chain(&gone));
    let mut gates = Registry::default();
    if let Some(local) = &cx.place.local_jit {
        audit_tree(local, &compared.in_tree, &mut audit)?;
        for unsound in left_alone {
            // A change that waits for the release of the issue is no problem of the file.
            let is_told = |finding: &Finding| finding.file.as_ref() == Some(&unsound.path);
            if !audit.findings.iter().any(is_told) {
                audit.notes.push(format!("left alone: {unsound}"));
            }
        }
        let unfit = |refusal: &Refusal, file: PathBuf| Finding {
            check: "gates",
            line: line_of(refusal),
            message: refusal.message.clone(),
            help: "mend the file, or take another version of it from git".into(),
            file: Some(file),
        };
        match Registry::load(local) {
            Ok(here) => {
                audit.notes.extend(gates_only_committed(cx, &here)?);
                gates = here;
            }
            Err(refusal) => audit.findings.push(unfit(&refusal, Registry::path(local))),
        }
        audit_unmerged(cx, local, &mut audit);
        let results = std::fs::read_dir(local.join("gates/results"));
        for entry in results.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
            if let Some(id) = id.and_then(|id| id.parse::<IssueId>().ok())
                && let Err(refusal) = Results::load(local, &id)
            {
                audit.findings.push(unfit(&refusal, entry.path()));
            }
        }
    }
    audit.findings.extend(audit_lock_files(cx)?);
    audit.notes.extend(sweep_left_overs(cx)?);
    audit_graph(cx, &issues, &gone, &mut audit);
    // Nothing is to be found in files that are as jit would write them.
    let differs = |issue: &&Issue| !compared.in_tree.contains(&issue.id);
    let differing: Vec<Issue> = issues.iter().filter(differs).cloned().collect();
    audit_missing_files(cx, &*view.table, &differing, &mut audit)?;
    audit_gates(&*view.table, &issues, &gates, &mut audit)?;
    audit_parts(&issues, &mut audit);
    audit_types(cx, &issues, &mut audit);
    let behind = compared.behind;
    let mut unfinished = std::mem::take(&mut audit.unfinished);
    let missing = crate::issues::issues_without_files::issues_without_files(cx, &*view.table, &differing)?;
    if write_missing {
        unfinished.extend(missing);
    } else if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
        audit.notes.push(format!(
            "what the log knows of these is in no worktree and on no branch: {}; jit validate --write-missing, or, \
             where they are not wanted any more: jit issue delete {}",
            listed(&names),
            names[0]
        ));
        audit.missing = missing;
    }
    if !behind.is_empty() || !unfinished.is_empty() {
        // Another process may have been writing: checks again under the store's lock.
        let still = cx.store.hold_still(&cx.actor)?;
        finish(cx, &unfinished, &mut audit)?;
        let (mended, findings) = mend_replica(cx, &behind)?;
        drop(still);
        audit.mended.extend(mended);
        audit.mended.sort();
        audit.mended.dedup();
        audit.findings.extend(findings);
    }
    Ok(audit)
}

/// Reports lock files that did not match the log, after repairing them.
fn audit_lock_files(cx: &Context) -> Outcome<Vec<Finding>> {
    let said = crate::compat::lock_files::make_lock_files_again(cx)?;
    Ok(said
        .into_iter()
        .map(|message| Finding {
            check: "lock files",
            message,
            help: "nothing more is to be done about it: jit validate".into(),
            file: None,
            line: 0,
        })
        .collect())
}

/// Removes temporary files that killed writers left among the texts of issues and in this tree.
pub fn sweep_left_overs(cx: &Context) -> Outcome<Option<String>> {
    let local = cx.place.local_jit.as_deref().filter(|_| cx.place.has_git());
    // Links from a clone are not followed.
    let is_untidy = |folder: &PathBuf| {
        folder.symlink_metadata().is_ok_and(|meta| meta.is_dir()) && file::has_left_overs(folder)
    };
    let own = local.map(|local| ["", "gates", "gates/results"].map(|name| local.join(name)));
    let own = own.into_iter().flatten().filter(is_untidy);
    let issues = local
        .and_then(tree::issues_dir)
        .and_then(|issues| std::fs::read_dir(issues).ok());
    let issues = issues.into_iter().flatten().flatten().map(|entry| entry.path());
    let issues: Vec<PathBuf> = issues.filter(is_untidy).collect();
    let mut swept = 0;
    // Issues are written under the lock of the log, other files under the lock of their folder.
    if !issues.is_empty() || cx.texts.has_left_overs() {
        let still = cx.store.hold_still(&cx.actor)?;
        swept += cx.texts.sweep();
        swept += issues.iter().map(|folder| file::sweep(folder)).sum::<usize>();
        drop(still);
    }
    for folder in own {
        let held = file::lock_folder(&folder).map_err(|e| io_refusal("lock", &folder, &e))?;
        swept += file::sweep(&folder);
        drop(held);
    }
    Ok((swept > 0).then(|| format!("files that somebody was killed writing, removed now: {swept}")))
}

/// Number of issues that one thread passes to the other at once, and of such batches that may wait.
const AT_ONCE: usize = 64;
const WAITING: usize = 8;

/// The files of issues, compared with what jit would write.
#[derive(Default)]
struct Compared {
    /// The files in this tree are exactly those.
    in_tree: HashSet<IssueId>,
    /// The files in the replica are not.
    behind: Vec<IssueId>,
}

/// Compares the files of issues with the log. Each file is read once, and none is parsed. One thread makes the contents,
/// and the other one reads the files.
fn compare<'a>(cx: &Context, table: &dyn Table, issues: impl Iterator<Item = &'a Issue>) -> Compared {
    let tree = cx
        .place
        .local_jit
        .as_deref()
        .filter(|local| tree::issues_dir(local).is_some());
    let (tree, texts) = (tree.map(Replica::at), &*cx.texts);
    let (send, receive) = mpsc::sync_channel::<Vec<(&IssueId, Files)>>(WAITING);
    let mut unread = Vec::new();
    let mut compared = std::thread::scope(|scope| {
        let read = move || {
            let (mut in_tree, mut behind) = (HashSet::new(), Vec::new());
            for (id, files) in receive.into_iter().flatten() {
                if !texts.holds(id, &files) {
                    behind.push(id.clone());
                }
                if tree.as_ref().is_some_and(|tree| tree.holds(id, &files)) {
                    in_tree.insert(id.clone());
                }
            }
            Compared { in_tree, behind }
        };
        let reader = std::thread::Builder::new().spawn_scoped(scope, read);
        let mut some = Vec::new();
        let pass_on = |some: &mut Vec<(&'a IssueId, Files)>, unread: &mut Vec<IssueId>| {
            if let Err(mpsc::SendError(some)) = send.send(std::mem::take(some)) {
                unread.extend(some.into_iter().map(|(id, _)| id.clone()));
            }
        };
        for issue in issues {
            match texts.files(table, issue) {
                Ok(files) if !lacks_text(table, issue, &files) => some.push((&issue.id, files)),
                _ => unread.push(issue.id.clone()),
            }
            if some.len() == AT_ONCE {
                pass_on(&mut some, &mut unread);
            }
        }
        pass_on(&mut some, &mut unread);
        drop(send);
        reader
            .ok()
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default()
    });
    // They are looked at again, and reported, under the store's lock.
    compared.behind.append(&mut unread);
    compared
}

/// Whether the text of an issue is missing among its files.
fn lacks_text(table: &dyn Table, issue: &Issue, files: &Files) -> bool {
    issue.text.is_some()
        && !files.iter().any(|(name, _)| *name == DESCRIPTION)
        && !state::sheet(table, &issue.id).is_ok_and(|sheet| sheet.deleted)
}

fn audit_tree(local: &Path, sound: &HashSet<IssueId>, audit: &mut Audit) -> Outcome<()> {
    let Some(issues) = tree::issues_dir(local) else {
        let path = local.join("issues");
        if path.symlink_metadata().is_ok() {
            audit.unsound(Unsound {
                path,
                line: 0,
                what: "not a folder: no issue is read from it or written to it".into(),
            });
        }
        return Ok(());
    };
    let read = |e: io::Error| io_refusal("read", &issues, &e);
    let (ids, unsound) = tree::names(&issues).map_err(read)?;
    unsound.into_iter().for_each(|unsound| audit.unsound(unsound));
    for id in ids.into_iter().filter(|id| !sound.contains(id)) {
        match tree::problems(&issues, &id) {
            Some(all) => all.into_iter().for_each(|unsound| audit.unsound(unsound)),
            None => audit.unfinished.push(id),
        }
    }
    Ok(())
}

/// Finds parts whose type cannot belong to the type of their parent. Hand edits, merges and settings can cause this.
fn audit_types(cx: &Context, issues: &[Issue], audit: &mut Audit) {
    let kinds: HashMap<String, &str> = issues
        .iter()
        .map(|issue| (issue.id.key(), issue.kind.as_str()))
        .collect();
    let odd: Vec<String> = issues
        .iter()
        .filter_map(|issue| {
            let parent = issue.parent.as_ref()?;
            let kind = kinds.get(&parent.key())?;
            let fits = cx.policy.may_be_part_of(&issue.kind, kind);
            (!fits).then(|| format!("{} ({}, in {parent}, {kind})", issue.id, issue.kind))
        })
        .collect();
    if !odd.is_empty() {
        audit.notes.push(format!(
            "of a type that cannot be part of what they are part of: {}; jit config get types.hierarchy",
            listed(&odd)
        ));
    }
}

/// Finds files that git lists as unmerged, with or without markers. If the merge driver could not run, such a file
/// has our side. If git fails, nothing is reported.
fn audit_unmerged(cx: &Context, local: &Path, audit: &mut Audit) {
    let Some(root) = cx.place.worktree_root.as_deref() else {
        return;
    };
    let listed = cx
        .git_at(root)
        .args(["ls-files", "-u", "-z", "--full-name", "--"])
        .arg(local)
        .run();
    let listed = listed.unwrap_or_default();
    let paths: BTreeSet<PathBuf> = listed
        .split(|b| *b == 0)
        .filter_map(|entry| entry.splitn(2, |b| *b == b'\t').nth(1))
        .map(|path| root.join(OsStr::from_bytes(path)))
        .collect();
    for path in paths {
        if audit
            .findings
            .iter()
            .any(|known| known.file.as_ref() == Some(&path))
        {
            continue;
        }
        let shown = path.strip_prefix(root).unwrap_or(&path).display();
        audit.findings.push(Finding {
            check: "unmerged",
            message: format!("{shown} is not merged: git holds both sides of it, and what is in the file may be one of them alone"),
            help: format!("git checkout -m -- {shown}, settle what is marked there, then: git add {shown}"),
            file: Some(path.clone()),
            line: 0,
        });
    }
}

/// Finds files of an issue that are missing beside its `issue.json` in this tree, and writes them again from the log.
fn audit_missing_files(cx: &Context, table: &dyn Table, known: &[Issue], audit: &mut Audit) -> Outcome<()> {
    let unreadable = |e| refuse(Code::Io, e);
    let Some(issues) = cx.place.local_jit.as_deref().and_then(tree::issues_dir) else {
        return Ok(());
    };
    for mine in known {
        let id = &mine.id;
        let Ok(Some(folder)) = tree::load(&issues, id) else {
            continue;
        };
        let Ok(found) = tree::read(&issues, id, &folder) else {
            continue;
        };
        let sheet = state::sheet(table, id).map_err(unreadable)?;
        let speaks_of_text = folder.description.is_none() && found.issue.text.is_some();
        let is_current = folder.issue == issue_json(mine, &sheet);
        let lacks = (folder.labels.is_empty() && !sheet.labels.is_empty())
            || (folder.deps.is_empty() && !sheet.deps.is_empty())
            || (speaks_of_text && mine.text.is_some());
        let is_lost =
            is_current && lacks || lost_files(table, (mine, &sheet), &found, &folder).map_err(unreadable)?;
        if is_lost && !found.sheet.deleted {
            audit.unfinished.push(id.clone());
        } else if speaks_of_text && mine.text.is_none() && !found.sheet.deleted {
            let path = issues.join(id.as_str()).join(DESCRIPTION);
            audit.findings.push(Finding {
                check: "issue files",
                message: format!("{} is missing, and {ISSUE} speaks of it", path.display()),
                help: format!("git log -p --full-history -- {}", path.display()),
                file: Some(path),
                line: 0,
            });
        }
    }
    Ok(())
}

/// Writes issues into this tree that are missing, or that have no `issue.json` because their writer was killed.
pub(crate) fn finish(cx: &Context, ids: &[IssueId], audit: &mut Audit) -> Outcome<()> {
    let view = crate::write_path::view(cx)?;
    for id in ids {
        let known = state::is_known(&*view.table, id).map_err(|e| refuse(Code::Io, e))?;
        let what = match crate::issues::sync::projection::publish_one(cx, &*view.table, id, true) {
            Ok(()) if known => {
                audit.mended.push(id.clone());
                continue;
            }
            Ok(()) => "it is missing or empty".to_owned(),
            Err(e) => e.to_string(),
        };
        let in_tree = cx.place.local_jit.as_ref().map(|local| local.join("issues"));
        audit.unsound(Unsound {
            path: in_tree.unwrap_or_default().join(id.as_str()).join(ISSUE),
            line: 0,
            what,
        });
    }
    Ok(())
}

/// Finds cycles and unknown ids: git can merge two valid graphs into an invalid one.
fn audit_graph(cx: &Context, issues: &[Issue], gone: &[Issue], audit: &mut Audit) {
    let node = |issue: &Issue, depends_on: Vec<String>| GraphNode {
        id: issue.id.to_string(),
        title: String::new(),
        state: issue.state,
        note: None,
        parent: None,
        depends_on,
    };
    let ids = |ids: &[IssueId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut told: Vec<Vec<String>> = Vec::new();
    let waits = issues.iter().map(|issue| node(issue, ids(&issue.depends_on)));
    for group in cycles(&Graph::new(waits.collect())) {
        let message = format!("these wait for each other: {}", listed(&group));
        audit.findings.push(circle(cx, issues, &group, message));
        told.push(group);
    }
    let inside = issues
        .iter()
        .map(|issue| node(issue, ids(issue.parent.as_slice())));
    for group in cycles(&Graph::new(inside.collect())) {
        let (file, line) = where_named(cx, &group[0], ISSUE, "\"parent\"");
        audit.findings.push(Finding {
            check: "parents",
            message: format!("these are part of each other: {}", listed(&group)),
            help: format!("jit issue update {} --parent none", group[0]),
            file,
            line,
        });
        told.push(group);
    }
    let mut after: HashMap<String, Vec<String>> = HashMap::new();
    for issue in issues.iter().filter(|issue| !issue.state.is_closed()) {
        if let Some(parent) = &issue.parent {
            after.entry(parent.key()).or_default().push(issue.id.to_string());
        }
    }
    let waits = issues
        .iter()
        .filter(|issue| !issue.state.is_closed())
        .map(|issue| {
            let mut before = ids(&issue.depends_on);
            before.extend(after.get(&issue.id.key()).into_iter().flatten().cloned());
            node(issue, before)
        });
    for group in cycles(&Graph::new(waits.collect())) {
        // A cycle that was found above is not reported twice.
        if told.iter().any(|told| told.iter().all(|id| group.contains(id))) {
            continue;
        }
        let message = format!(
            "these wait for each other, as an issue is done after its parts: {}",
            listed(&group)
        );
        audit.findings.push(circle(cx, issues, &group, message));
    }
    let known: HashSet<String> = issues.iter().chain(gone).map(|issue| issue.id.key()).collect();
    for issue in issues {
        for on in issue.depends_on.iter().filter(|on| !known.contains(&on.key())) {
            let (file, line) = where_named(cx, issue.id.as_str(), DEPS, &format!("\"{on}\""));
            audit.findings.push(Finding {
                check: "dependencies",
                message: format!("{} waits for {on}, which nobody knows", issue.id),
                help: format!("jit dep rm {} {on}", issue.id),
                file,
                line,
            });
        }
        if let Some(parent) = issue.parent.as_ref().filter(|id| !known.contains(&id.key())) {
            let (file, line) = where_named(cx, issue.id.as_str(), ISSUE, "\"parent\"");
            audit.findings.push(Finding {
                check: "parents",
                message: format!("{} is part of {parent}, which nobody knows", issue.id),
                help: format!("jit issue update {} --parent none", issue.id),
                file,
                line,
            });
        }
    }
}

/// Describes issues that wait for each other, with one of the dependencies that cause it. A cycle without part
/// relations always contains one.
fn circle(cx: &Context, issues: &[Issue], group: &[String], message: String) -> Finding {
    let within = |id: &IssueId| group.iter().any(|one| one.eq_ignore_ascii_case(id.as_str()));
    let mut edges = issues
        .iter()
        .filter(|issue| within(&issue.id))
        .filter_map(|issue| Some((&issue.id, issue.depends_on.iter().find(|on| within(on))?)));
    let (help, (file, line)) = match edges.next() {
        Some((id, on)) => (
            format!("jit dep rm {id} {on}"),
            where_named(cx, id.as_str(), DEPS, &format!("\"{on}\"")),
        ),
        None => ("jit dep tree <one of them>".to_owned(), (None, 0)),
    };
    Finding {
        check: "dependencies",
        message,
        help,
        file,
        line,
    }
}

/// Finds gates that are committed but no longer defined in this tree.
fn gates_only_committed(cx: &Context, here: &Registry) -> Outcome<Option<String>> {
    let Ok(committed) = crate::gates::committed_policy::gates_of_head(cx) else {
        // The commit cannot be read. The definitions in the tree can, and those matter to people.
        return Ok(None);
    };
    let names = committed.iter().map(|(name, _)| name.as_str());
    let gone: Vec<String> = names
        .filter(|name| here.find(name).is_none())
        .map(str::to_owned)
        .collect();
    Ok((!gone.is_empty()).then(|| {
        format!(
            "these gates are committed and not defined in this tree, where nothing has to pass them by its type: {}; \
             git restore .jit/gates/registry.json, or commit that they are gone",
            listed(&gone)
        )
    }))
}

/// Returns the issue file that a person would open, and the line with `text`.
fn where_named(cx: &Context, id: &str, name: &str, text: &str) -> (Option<PathBuf>, usize) {
    let in_tree = cx.place.local_jit.as_ref().map(|local| local.join("issues"));
    let folders = in_tree.into_iter().chain([cx.place.control_dir.join("issues")]);
    for path in folders.map(|folder| folder.join(id).join(name)) {
        if let Ok(Some(bytes)) = file::read_real(&path, MAX_FILE) {
            let lines = String::from_utf8_lossy(&bytes);
            let line = lines.lines().position(|line| line.contains(text));
            return (Some(path), line.map_or(0, |n| n + 1));
        }
    }
    (None, 0)
}

/// Returns the issues whose replica does not match the log. Issues with a lost text are reported as findings instead.
fn behind<'a>(
    cx: &Context,
    table: &dyn Table,
    issues: impl Iterator<Item = &'a Issue>,
    findings: &mut Vec<Finding>,
) -> Vec<IssueId> {
    let mut behind = Vec::new();
    for issue in issues {
        let id = &issue.id;
        if let Some(digest) = &issue.text {
            keep_from_trees(cx, id, digest);
        }
        match cx.texts.files(table, issue) {
            Ok(files) => {
                if lacks_text(table, issue, &files) {
                    findings.push(Finding {
                        check: "texts",
                        message: format!("the description of {id} is missing"),
                        help: format!(
                            "jit issue show {id} in a worktree that has its {DESCRIPTION}, or: jit issue update {id} --description <text>"
                        ),
                        file: Some(cx.texts.folder(id).join(DESCRIPTION)),
                        line: 0,
                    });
                    behind.push(id.clone());
                } else if !cx.texts.holds(id, &files) {
                    behind.push(id.clone());
                }
            }
            Err(e) => {
                findings.push(Finding {
                    check: "replica",
                    message: format!("{}: {e}", cx.texts.folder(id).display()),
                    help: "mend what the message names".into(),
                    file: Some(cx.texts.folder(id)),
                    line: 0,
                });
                behind.push(id.clone());
            }
        }
    }
    behind
}

/// Keeps a text in the control plane that only a worktree has any more.
fn keep_from_trees(cx: &Context, id: &IssueId, digest: &str) {
    if !matches!(cx.texts.read(id, digest), Ok(None)) {
        return;
    }
    let trees = cx.place.common_dir.as_deref().map(crate::worktree_identity::list);
    let roots = trees.and_then(Result::ok).unwrap_or_default();
    let roots = roots.into_iter().filter_map(|entry| entry.root);
    let mut trees = cx
        .place
        .local_jit
        .iter()
        .cloned()
        .chain(roots.map(|root| root.join(".jit")));
    if let Some(text) = trees.find_map(|tree| replica::in_tree(&tree, id, digest)) {
        // If this fails, the text is reported as missing.
        let _ = cx.texts.keep(&[(id, &text)]);
    }
}

/// Rewrites stale replica files. Only under the store's lock.
fn mend_replica(cx: &Context, ids: &[IssueId]) -> Outcome<(Vec<IssueId>, Vec<Finding>)> {
    let unreadable = |e| refuse(Code::Io, e);
    let view = crate::write_path::view(cx)?;
    let (mut mended, mut findings) = (Vec::new(), Vec::new());
    for id in ids {
        let known = match state::issue(&*view.table, id).map_err(unreadable)? {
            None => state::deleted(&*view.table, id).map_err(unreadable)?,
            known => known,
        };
        let Some(issue) = known else { continue };
        let before = findings.len();
        let behind = behind(cx, &*view.table, std::iter::once(&issue), &mut findings);
        if behind.is_empty() || findings.len() > before {
            continue;
        }
        let done = cx
            .texts
            .files(&*view.table, &issue)
            .and_then(|files| cx.texts.refresh(id, &files));
        match done {
            Ok(()) => mended.push(id.clone()),
            Err(e) => findings.push(Finding {
                check: "replica",
                message: format!("{} cannot be written: {e}", cx.texts.folder(id).display()),
                help: "mend what the message names".into(),
                file: Some(cx.texts.folder(id)),
                line: 0,
            }),
        }
    }
    Ok((mended, findings))
}

/// Returns the line that a refusal about a file names; 0 if it names none.
fn line_of(refusal: &Refusal) -> usize {
    let Details::Counts(counts) = &refusal.details else {
        return 0;
    };
    let line = counts.iter().find(|(name, _)| *name == "line");
    line.and_then(|(_, line)| usize::try_from((*line)?).ok())
        .unwrap_or(0)
}

/// Finds done issues with a gate, of their own or of their type, that has not passed here (E6). It may have passed in
/// another clone, whose results do not count here, so this is only a note. A gate that was required after the issue
/// was done is not reported. The log does not record since when a type requires a gate. The first judgement for an
/// issue of that type, which did not require the gate itself, is taken as that time.
fn audit_gates(table: &dyn Table, issues: &[Issue], gates: &Registry, audit: &mut Audit) -> Outcome<()> {
    let unreadable = |e| refuse(Code::Io, e);
    let mut since: HashMap<(&str, String), Wall> = HashMap::new();
    for issue in issues {
        if gates.required(&issue.kind, &[]).is_empty() {
            continue;
        }
        for (gate, result) in state::gate_results(table, &issue.id).map_err(unreadable)? {
            if !issue.gates.contains(&gate) {
                let first = since.entry((issue.kind.as_str(), gate)).or_insert(result.at);
                *first = result.at.min(*first);
            }
        }
    }
    let mut odd = Vec::new();
    for issue in issues.iter().filter(|issue| issue.state == IssueState::Done) {
        let required = gates.required(&issue.kind, &issue.gates);
        if required.is_empty() {
            continue;
        }
        let sheet = state::sheet(table, &issue.id).map_err(unreadable)?;
        let done = sheet.stamp(issue, "state");
        let results = state::gate_results(table, &issue.id).map_err(unreadable)?;
        let is_missing = |gate: &str| {
            let asked = match issue.gates.iter().any(|own| own == gate) {
                true => sheet.stamp(issue, "gates") <= done,
                // The gates of a type that was set after the issue was done were never checked: they are reported.
                false => {
                    let since = since.get(&(issue.kind.as_str(), gate.to_owned()));
                    since.is_some_and(|since| *since <= done) || sheet.stamp(issue, "type") > done
                }
            };
            asked && !results.iter().any(|(of, result)| of == gate && result.passed)
        };
        let missing: Vec<&str> = required.into_iter().filter(|gate| is_missing(gate)).collect();
        if !missing.is_empty() {
            odd.push(format!("{} ({})", issue.id, missing.join(", ")));
        }
    }
    if !odd.is_empty() {
        audit.notes.push(format!(
            "done, though these have not passed here; perhaps they did in another clone: {}",
            listed(&odd)
        ));
    }
    Ok(())
}

/// Finds done containers with an open part (E5). The part may have been reopened or added later, so this is only a
/// note.
fn audit_parts(issues: &[Issue], audit: &mut Audit) {
    let done: HashSet<String> = issues
        .iter()
        .filter(|issue| issue.state == IssueState::Done)
        .map(|issue| issue.id.key())
        .collect();
    let is_odd = |issue: &&Issue| {
        let whole = issue.parent.as_ref().map(|parent| parent.key());
        !issue.state.is_closed() && whole.is_some_and(|whole| done.contains(&whole))
    };
    let odd: Vec<String> = issues
        .iter()
        .filter(is_odd)
        .map(|issue| issue.id.to_string())
        .collect();
    if !odd.is_empty() {
        audit.notes.push(format!(
            "open, though what they are part of is done: {}",
            listed(&odd)
        ));
    }
}
