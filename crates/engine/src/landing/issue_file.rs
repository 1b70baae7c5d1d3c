//! Records in git that the unit's issue is done (E7), so that a clone without the log sees it too.
//!
//! What must hold:
//!
//! - If the landed tree contains the issue's `issue.json`, that file gets the state that the log will have: done, or
//!   as it was closed.
//! - A landing does not mark an issue as done while it has open parts.
//! - Nothing else in that file changes, except the stamps of fields that were edited by hand. A file is left unchanged
//!   if it cannot be read, or if its gates, type or state were edited by hand.
//! - A landing does not add the file of an issue that is in no commit.

use jit_core::issue_files::format::{self, FoundIssue, ISSUE, IssueFolder};
use jit_core::log::state;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::{Issue, IssueState};
use jit_core::model::refusal::Code;
use jit_core::query::ready_queue;
use jit_store::Outcome;

use crate::landing::service::{LandingUnit, Run};
use crate::landing::trees::Entries;
use crate::refusals::failed;
use crate::refusals::refuse;

/// Returns the entries of `tree` that mark the issue as closed. Empty if it is closed already, or cannot be
/// closed.
pub(crate) fn closing(run: &Run<'_>, work: &LandingUnit, tree: &str) -> Outcome<Entries> {
    let mut entries = Entries::new();
    let Some(issue) = &work.issue else {
        return Ok(entries);
    };
    let Some((mode, mut found)) = found_in(run, tree, &issue.id)? else {
        return Ok(entries);
    };
    // A hand edit of a guarded field must stay recognizable as an edit. If jit wrote it, it would count as valid.
    let is_guarded = |name: &&str| ["deleted", "gates", "state", "type"].contains(name);
    let may_write = !found.edited.iter().any(is_guarded) && !found.unstamped && found.problems.is_empty();
    if !may_write || is_closed(&found) {
        return Ok(entries);
    }
    let view = crate::write_path::view(run.cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let open = ready_queue::open_parts(&*view.table, &issue.id.key()).map_err(unreadable)?;
    if !open.is_empty() && !issue.state.is_closed() {
        // The issue is done after its parts. Its own work lands, and its state stays as it is.
        return Ok(entries);
    }
    let sheet = state::sheet(&*view.table, &issue.id).map_err(unreadable)?;
    let known = sheet.stamp(issue, "state");
    let (closed, at) = match issue.state.is_closed() {
        true => (issue.state, known),
        false => (IssueState::Done, run.cx.clock.wall().max(known)),
    };
    found.issue.state = closed;
    found.edited.push("state");
    found.settle_all(at);
    found.issue.count_change();
    let written = run
        .repo
        .git()
        .args(["hash-object", "-w", "--stdin"])
        .stdin(format::issue_json(&found.issue, &found.sheet))
        .line()
        .map_err(failed)?;
    let path = format!("{}/{ISSUE}", folder_of(&issue.id));
    entries.insert(path.into_bytes(), Some((mode, written)));
    Ok(entries)
}

/// Returns whether the issue is closed in this tree.
pub(crate) fn says_closed(run: &Run<'_>, tree: &str, id: &IssueId) -> Outcome<bool> {
    let found = found_in(run, tree, id)?;
    Ok(found.is_some_and(|(_, found)| is_closed(&found)))
}

/// The issue as this tree has it.
pub(crate) fn issue_in(run: &Run<'_>, tree: &str, id: &IssueId) -> Outcome<Option<Issue>> {
    let found = found_in(run, tree, id)?;
    Ok(found.map(|(_, found)| found.issue))
}

/// Reads an issue from a tree, together with the mode of its file.
pub(crate) fn found_in(run: &Run<'_>, tree: &str, id: &IssueId) -> Outcome<Option<(String, FoundIssue)>> {
    let Some((mode, content)) = run.repo.file_in(tree, &folder_of(id), ISSUE)? else {
        return Ok(None);
    };
    let folder = IssueFolder {
        issue: content,
        ..IssueFolder::default()
    };
    let found = format::parse(id, &folder).ok();
    Ok(found.map(|found| (mode, found)))
}

fn folder_of(id: &IssueId) -> String {
    format!(".jit/issues/{id}")
}

fn is_closed(found: &FoundIssue) -> bool {
    found.issue.state.is_closed() || found.sheet.deleted
}
