//! Finds issues whose latest state is in the log but in no worktree (E7). No commit would ever contain that state.
//!
//! The causes: a process was killed between the log and the tree, a worktree was removed with uncommitted issues, or
//! a conflict prevented a write. `jit validate` reports these issues, and writes them out if asked to.
//!
//! What must hold:
//!
//! - If one tree has the complete state of an issue, the issue is left alone, even if another agent works in that
//!   tree.
//! - The same applies if the tip of a branch has it, of this clone or of a remote as last fetched. In the tree the
//!   files would conflict with git's.
//! - The files are written into the main worktree, when `jit validate` runs there. Another worktree gets them only if
//!   there is no main one.
//! - Files that cannot be read, or whose content the log does not have, are left alone. An edit that is already in
//!   the log does not block the rest.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use jit_core::issue_files::format::{
    COMMENTS, DEPS, DESCRIPTION, FoundIssue, ISSUE, IssueFolder, LABELS, MAX_FILE, NAMES, parse,
};
use jit_core::issue_files::stamps::{FIELDS, SetLine};
use jit_core::log::state;
use jit_core::log::table::{Read, Table};
use jit_core::model::ids::{IssueId, WorktreeId};
use jit_core::model::issue::Issue;
use jit_core::model::refusal::Code;
use jit_git::Git;
use jit_git::run::contents;
use jit_store::Outcome;

use crate::context::Context;
use crate::issues::tree;
use crate::refusals::refuse;
use crate::worktree_identity::identity;

/// Returns the issues among these that no tree has, if this is the tree that should have them.
pub(crate) fn issues_without_files(
    cx: &Context,
    table: &dyn Table,
    issues: &[Issue],
) -> Outcome<Vec<IssueId>> {
    let (Some(common), Some(root)) = (&cx.place.common_dir, &cx.place.worktree_root) else {
        return Ok(Vec::new());
    };
    let all = crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))?;
    let main = all.first().and_then(|entry| entry.root.as_ref());
    let projects = cx
        .place
        .local_jit
        .as_ref()
        .is_some_and(|tree| *tree != cx.place.control_dir);
    if !projects || main.is_some_and(|main| main != root) {
        return Ok(Vec::new());
    }
    let mut by_id: HashMap<WorktreeId, usize> = HashMap::new();
    let mut trees: Vec<PathBuf> = Vec::new();
    for entry in all {
        let Some(issues) = entry.root.and_then(|root| tree::issues_dir(&root.join(".jit"))) else {
            continue;
        };
        if let Some(known) = identity::peek(&entry.git_dir) {
            by_id.insert(known.worktree_id, trees.len());
        }
        trees.push(issues);
    }
    let mut without_files = Vec::new();
    for issue in issues {
        let home = issue.lives_in.as_ref().and_then(|id| by_id.get(id)).copied();
        let mut order = home
            .into_iter()
            .chain((0..trees.len()).filter(|n| Some(*n) != home));
        let has = |n: usize| is_in(table, &trees[n], issue);
        let mut found = false;
        while !found && let Some(n) = order.next() {
            found = has(n).map_err(|e| refuse(Code::Io, e))?;
        }
        if !found {
            without_files.push(issue.id.clone());
        }
    }
    leave_out_committed(common, table, without_files)
}

/// Removes the issues whose latest state is at the tip of a branch. If there are too many to check, the rest counts
/// as committed.
fn leave_out_committed(common: &Path, table: &dyn Table, mut ids: Vec<IssueId>) -> Outcome<Vec<IssueId>> {
    if ids.is_empty() {
        return Ok(ids);
    }
    let failed = |e| refuse(Code::Io, e);
    let tips = Git::in_git_dir(common)
        .args(["for-each-ref", "--format=%(objectname)", "--sort=-committerdate"])
        .arg(format!("--count={MOST_TIPS}"))
        .args(["refs/heads", "refs/remotes"])
        .run()
        .map_err(failed)?;
    let tips = String::from_utf8_lossy(&tips).into_owned();
    let tips: BTreeSet<&str> = tips.lines().collect();
    ids.truncate(MOST_ASKED / (tips.len() * NAMES.len()).max(1));
    let names = |id: &IssueId| {
        let of = |tip: &&str| -> String {
            let name = |file: &&str| format!("{tip}:.jit/issues/{id}/{file}\n");
            NAMES.iter().map(name).collect()
        };
        tips.iter().map(of).collect::<String>()
    };
    let asked: String = ids.iter().map(names).collect();
    let listed = Git::in_git_dir(common)
        .args([
            "cat-file",
            "--batch-check=%(objectname) %(objecttype) %(objectsize)",
        ])
        .stdin(asked)
        .run()
        .map_err(failed)?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let blob = |line: &str| -> Option<String> {
        let mut words = line.split(' ');
        let (name, kind, size) = (words.next()?, words.next()?, words.next()?);
        let is_read = kind == "blob" && size.parse().is_ok_and(|size: u64| size <= MAX_FILE);
        is_read.then(|| name.to_owned())
    };
    let blobs: Vec<Option<String>> = listed.lines().map(blob).collect();
    // Most branches have the same version of a file, which is read once.
    let each: BTreeSet<&String> = blobs.iter().flatten().collect();
    let read = contents(common, each.iter().map(|name| (*name).clone()));
    let read: HashMap<&String, Vec<u8>> = each.into_iter().zip(read).collect();
    let folders: Vec<&[Option<String>]> = blobs.chunks(NAMES.len()).collect();
    let of_each: Vec<&[&[Option<String>]]> = folders.chunks(tips.len().max(1)).collect();
    let unreadable = |e| refuse(Code::Io, e);
    let mut missing = Vec::new();
    for (n, id) in ids.into_iter().enumerate() {
        let versions: BTreeSet<&&[Option<String>]> =
            of_each.get(n).into_iter().flat_map(|of| of.iter()).collect();
        let mut is_safe = false;
        for version in versions {
            let content = |name: &str| {
                let at = NAMES.iter().position(|known| *known == name)?;
                read.get(version.get(at)?.as_ref()?).cloned()
            };
            let folder = IssueFolder {
                issue: content(ISSUE).unwrap_or_default(),
                description: content(DESCRIPTION),
                labels: content(LABELS).unwrap_or_default(),
                deps: content(DEPS).unwrap_or_default(),
                comments: content(COMMENTS).unwrap_or_default(),
            };
            if let Ok(found) = parse(&id, &folder) {
                is_safe |= has_all(table, &found).map_err(unreadable)?;
            }
        }
        if !is_safe {
            missing.push(id);
        }
    }
    Ok(missing)
}

/// The most branches that are read, newest first, and the most files on them.
const MOST_TIPS: usize = 500;
const MOST_ASKED: usize = 20_000;

/// Returns whether a tree has the complete state of an issue, or files that must be left alone.
fn is_in(table: &dyn Table, issues: &std::path::Path, issue: &Issue) -> Read<bool> {
    let folder = match tree::load(issues, &issue.id) {
        Ok(Some(folder)) if !folder.issue.is_empty() => folder,
        Ok(_) => return Ok(false),
        Err(_) => return Ok(true),
    };
    let Ok(found) = tree::read(issues, &issue.id, &folder) else {
        return Ok(true);
    };
    let sheet = state::sheet(table, &issue.id)?;
    let is_news = |name: &String| found.sheet.value(&found.issue, name) != sheet.value(issue, name);
    let edited = found.edited.iter().map(|name| (*name).to_owned());
    if !found.problems.is_empty()
        || edited
            .chain(found.edited_others.clone())
            .any(|name| is_news(&name))
    {
        return Ok(true);
    }
    Ok(says_the_same(&found, issue) && has_comments(table, &found)?)
}

fn has_comments(table: &dyn Table, found: &FoundIssue) -> Read<bool> {
    let said: BTreeSet<&str> = found.comments.iter().map(|one| one.id.as_str()).collect();
    let comments = state::comments(table, &found.issue.id)?;
    Ok(comments.iter().all(|one| said.contains(one.id.as_str())))
}

/// Returns whether a version of an issue has the complete state, or a later one that a merge would bring.
fn has_all(table: &dyn Table, found: &FoundIssue) -> Read<bool> {
    let id = &found.issue.id;
    let Some(issue) = state::issue(table, id)? else {
        return Ok(true);
    };
    let sheet = state::sheet(table, id)?;
    let has_field = |name: &str| {
        let is_same = found.sheet.value(&found.issue, name) == sheet.value(&issue, name);
        let is_later = !found.unstamped
            && !found.is_edited(name)
            && found.sheet.stamp(&found.issue, name) >= sheet.stamp(&issue, name);
        is_same || is_later
    };
    let has_lines = |known: &[SetLine], there: &[SetLine]| {
        let there: BTreeSet<(&str, &str)> = there
            .iter()
            .map(|line| (line.op.as_str(), line.tag.as_str()))
            .collect();
        known
            .iter()
            .all(|line| there.contains(&(line.op.as_str(), line.tag.as_str())))
    };
    let others: Vec<&String> = sheet.other_names().collect();
    let mut fields = FIELDS
        .iter()
        .copied()
        .chain(others.iter().map(|name| name.as_str()));
    Ok(fields.all(has_field)
        && has_lines(&sheet.labels, &found.sheet.labels)
        && has_lines(&sheet.deps, &found.sheet.deps)
        && has_comments(table, found)?)
}

/// Returns whether the fields are equal, whenever they were written.
fn says_the_same(found: &FoundIssue, issue: &Issue) -> bool {
    let set = |ids: &[IssueId]| ids.iter().map(IssueId::key).collect::<BTreeSet<_>>();
    let labels = |issue: &Issue| issue.labels.iter().cloned().collect::<BTreeSet<_>>();
    let there = &found.issue;
    !found.sheet.deleted
        && there.title == issue.title
        && there.kind == issue.kind
        && there.state == issue.state
        && there.priority == issue.priority
        && there.parent == issue.parent
        && there.actor == issue.actor
        && there.blocked == issue.blocked
        && there.pivot == issue.pivot
        && there.gates == issue.gates
        && there.text == issue.text
        && labels(there) == labels(issue)
        && set(&there.depends_on) == set(&issue.depends_on)
}
