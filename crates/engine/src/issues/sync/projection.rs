//! Writes issue files from the log after an append.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jit_core::issue_files::format::{DESCRIPTION, NAMES};
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::Issue;

use super::{Asked, Context, Why};
use crate::issues::sync::tree_changes::{has_all_but_text, says};
use crate::issues::tree::{self, Unsound};
use crate::replica;

pub(crate) fn publish_one(cx: &Context, table: &dyn Table, id: &IssueId, project: bool) -> io::Result<()> {
    let Some(issue) = state::issue_or_tombstone(table, id).map_err(io::Error::other)? else {
        return Ok(());
    };
    let files = cx.texts.files(table, &issue)?;
    cx.texts.refresh(id, &files)?;
    let Some(tree) = cx
        .place
        .local_jit
        .as_deref()
        .filter(|tree| project && *tree != cx.place.control_dir)
    else {
        return Ok(());
    };
    require_nothing_new(cx, table, tree, &issue)?;
    replica::project(tree, &issue.id, &files)
}

/// Returns whether a file in a checkout is an issue's file as jit wrote it: not edited, and the log has its whole
/// content.
pub(crate) fn is_projection(cx: &Context, root: &Path, path: &Path) -> bool {
    let Some(id) = issue_of(path) else {
        return false;
    };
    let look = || -> Option<bool> {
        let view = crate::write_path::view(cx).ok()?;
        let issue = state::issue_or_tombstone(&*view.table, &id).ok()??;
        let tree = root.join(".jit");
        let issues = tree::issues_dir(&tree)?;
        let folder = tree::load(&issues, &id).ok()??;
        let found = tree::read(&issues, &id, &folder).ok()?;
        let known = require_nothing_new(cx, &*view.table, &tree, &issue).is_ok();
        Some(found.is_untouched() && !folder.issue.is_empty() && known)
    };
    look().unwrap_or(false)
}

/// Writes issues into a checkout again after a landing replaced their files there. A file that cannot be written is
/// written with the issue's next change.
pub(crate) fn project_again(cx: &Context, root: &Path, paths: &[PathBuf]) {
    let ids: BTreeSet<String> = paths
        .iter()
        .filter_map(|path| Some(issue_of(path)?.to_string()))
        .collect();
    let tree = root.join(".jit");
    for id in ids.iter().filter_map(|id| id.parse::<IssueId>().ok()) {
        project_one_again(cx, &tree, &id);
    }
}

fn project_one_again(cx: &Context, tree: &Path, id: &IssueId) -> Option<()> {
    let issues = tree::issues_dir(tree)?;
    let found = tree::read(&issues, id, &tree::load(&issues, id).ok()??).ok()?;
    if found.edited.iter().all(|name| *name == "text") && found.edited_others.is_empty() {
        // The file is as jit wrote it for the landing. It must be in the log before anything overwrites it.
        let ids = std::slice::from_ref(id);
        crate::issues::sync::join_ids_in(cx, crate::write_path::view(cx).ok()?, &issues, ids, Why::Writing)
            .ok()?;
    }
    let view = crate::write_path::view(cx).ok()?;
    let issue = state::issue_or_tombstone(&*view.table, id).ok()??;
    let comments = state::comments(&*view.table, id).ok()?.len();
    let others = state::sheet(&*view.table, id).ok()?.others;
    let same = says(&found.issue) == says(&issue) && found.sheet.others == others;
    if same && found.comments.len() == comments {
        return None;
    }
    let files = cx.texts.files(&*view.table, &issue).ok()?;
    require_nothing_new(cx, &*view.table, tree, &issue).ok()?;
    replica::project(tree, id, &files).ok()
}

/// Refuses to overwrite content that was not imported.
fn require_nothing_new(cx: &Context, table: &dyn Table, tree: &Path, issue: &Issue) -> io::Result<()> {
    let Some(issues) = tree::issues_dir(tree) else {
        return Ok(());
    };
    let id = &issue.id;
    let unsound = |unsound: Unsound| io::Error::other(format!("{unsound}; mend or remove it"));
    let Some(folder) = tree::load(&issues, id).map_err(unsound)? else {
        return Ok(());
    };
    if folder.issue.is_empty() {
        return Ok(());
    }
    let mut found = tree::read(&issues, id, &folder).map_err(unsound)?;
    if !found.problems.is_empty() {
        return Err(unsound(tree::place(&issues, id, found.problems.swap_remove(0))));
    }
    let sheet = state::sheet(table, id).map_err(io::Error::other)?;
    let has_text = match &found.issue.text {
        Some(digest) if folder.description.is_some() => {
            cx.texts.read(id, digest)?.is_some()
                || !crate::issues::sync::dating::is_uncommitted(
                    cx,
                    &issues,
                    id,
                    DESCRIPTION,
                    &mut Asked::default(),
                )
        }
        _ => true,
    };
    if has_text && has_all_but_text(table, &sheet, &found).map_err(io::Error::other)? {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "they have been edited in this worktree meanwhile: jit issue show {id}"
    )))
}

/// Returns the issue that a path in a tree belongs to.
pub(crate) fn issue_of(path: &Path) -> Option<IssueId> {
    let mut below = path.strip_prefix(".jit/issues").ok()?.iter();
    match (below.next(), below.next(), below.next()) {
        (Some(id), Some(name), None) if NAMES.iter().any(|known| name == *known) => id.to_str()?.parse().ok(),
        _ => None,
    }
}
