//! Finds the changes of one issue in a tree.

use std::collections::BTreeSet;
use std::path::Path;

use jit_core::issue_files::format::{
    COMMENTS, DEPS, DESCRIPTION, FoundIssue, ISSUE, IssueFolder, LABELS, check_kept,
};
use jit_core::issue_files::merge;
use jit_core::issue_files::stamps::{SetLine, Sheet};
use jit_core::log::state;
use jit_core::log::table::{Read, Table};
use jit_core::model::ids::IssueId;
use jit_core::model::issue::{Issue, text_digest};
use jit_core::model::refusal::Code;
use jit_core::model::time::Wall;
use jit_os::io_refusal;
use jit_store::Outcome;

use super::dating::written;
use super::texts::Weighed;
use super::{Asked, Context, TreeChanges, refuse};
use crate::issues::tree::{self, Unsound};

/// Adds the changes of one issue in a tree to the changes.
pub(crate) fn find_tree_changes(
    cx: &Context,
    table: &dyn Table,
    issues: &Path,
    id: &IssueId,
    changes: &mut TreeChanges,
) -> Outcome<()> {
    let unreadable = |e| refuse(Code::Io, e);
    let folder = match tree::load(issues, id) {
        Ok(Some(folder)) => folder,
        Ok(None) => return Ok(()),
        Err(unsound) => {
            changes.unsound.push((id.clone(), unsound));
            return Ok(());
        }
    };
    if folder.issue.is_empty() && state::is_known(table, id).map_err(unreadable)? {
        // A jit that was writing this issue was interrupted.
        return Ok(());
    }
    let known = state::issue_or_tombstone(table, id).map_err(unreadable)?;
    if known
        .as_ref()
        .is_some_and(|mine| is_as_written(cx, table, mine, &folder))
    {
        return Ok(());
    }
    let mut found = match tree::read(issues, id, &folder) {
        Ok(found) => found,
        Err(unsound) => {
            changes.unsound.push((id.clone(), unsound));
            return Ok(());
        }
    };
    changes.passed_over.extend(
        found
            .problems
            .drain(..)
            .map(|problem| (id.clone(), tree::place(issues, id, problem))),
    );
    let (mut is_back, mut is_overruled) = (false, false);
    if let Some(mine) = &known {
        let sheet = state::sheet(table, id).map_err(unreadable)?;
        found.beside = Some((mine.text.clone(), sheet.stamp(mine, "text")));
        let is_seen = state::is_known_file(table, id, &found.digest).map_err(unreadable)?;
        if is_seen {
            found.again = is_saved_again(cx, issues, (mine, &sheet), &found, changes);
            found.forget_edits();
        }
        if must_wait(cx, &found, changes) {
            return Ok(());
        }
        let changed_at = found.issue.updated_at;
        let mut waiting = Vec::new();
        if let Some(holder) = crate::issues::sync::guarding::held_elsewhere(cx, table, id)? {
            waiting = edited_files(cx, issues, (mine, &sheet), &found, is_seen, changes);
            // Edits that only the holder may make wait until the lease ends, and stay in the file.
            for file in &waiting {
                let path = issues.join(id.as_str()).join(file);
                let what = format!("edited here, while {holder} holds {id}: it counts when that has ended");
                changes
                    .unsound
                    .push((id.clone(), Unsound { path, line: 0, what }));
                found.leave_out(file, (mine, &sheet));
            }
        }
        is_back = waiting.is_empty()
            && !found.sheet.deleted
            && found.sheet.stamps.contains_key("deleted")
            && ((folder.labels.is_empty() && !sheet.labels.is_empty())
                || (folder.deps.is_empty() && !sheet.deps.is_empty())
                || (folder.description.is_none() && mine.text.is_some())
                || (folder.comments.is_empty()
                    && !state::comments(table, id).map_err(unreadable)?.is_empty()));
        let weighed =
            crate::issues::sync::texts::weigh_text(cx, issues, (mine, &sheet), &mut found, &folder, changes)?;
        let has_text =
            found.issue.text == mine.text || (weighed == Weighed::ByStamp && !found.edited.contains(&"text"));
        let is_taken_back =
            crate::issues::sync::reverts::take_back(cx, issues, (mine, &sheet), &mut found, changes);
        if has_text
            && !found.again
            && !is_taken_back
            && has_all_but_text(table, &sheet, &found).map_err(unreadable)?
        {
            if is_back && lost_files(table, (mine, &sheet), &found, &folder).map_err(unreadable)? {
                // It contains nothing new, but it must be written again.
                found.again = true;
                changes.put_back(found);
            }
            return Ok(());
        }
        settle_edits(cx, issues, &mut found, &mut changes.asked);
        crate::issues::sync::dating::date_edits(cx, issues, &mut found, &mut changes.asked);
        match weighed {
            Weighed::Merged if !found.edited.contains(&"text") => found.edited.push("text"),
            Weighed::MadeOfOurs(at) if !found.edited.contains(&"text") => {
                let at = at.max(found.sheet.stamp(&found.issue, "text"));
                found.sheet.stamps.insert("text".to_owned(), at);
                found.issue.updated_at = found.issue.updated_at.max(at);
            }
            _ => {}
        }
        let deleted_at = found.sheet.stamp(&found.issue, "deleted");
        if sheet.deleted || deleted_at >= sheet.stamp(mine, "deleted") {
            stay_deleted(&mut found, changed_at);
        }
        let joined = merge::join((mine, &sheet), &found, cx.clock.wall());
        if let Some((now, joined)) = &joined
            && let Err(problem) = check_kept(now, joined, Some(&sheet))
        {
            // Both together exceed the limits: the content stays in the files.
            changes.met.retain(|(met, _)| met != id);
            changes
                .unsound
                .push((id.clone(), tree::place(issues, id, problem)));
            return Ok(());
        }
        let (now, joined) = joined.unwrap_or_else(|| (mine.clone(), sheet.clone()));
        // An edit that lost to a deletion would be later than the deletion in other clones, once it is committed.
        let is_edit = found.written.is_some() || found.text_written.is_some();
        let is_lost = sheet.deleted && joined.deleted && is_edit;
        is_overruled = found.again
            || is_lost
            || merge::unaware((mine, &sheet), &found)
                .into_iter()
                .any(|name| joined.value(&now, name) != found.sheet.value(&found.issue, name));
    } else {
        found.beside = Some((None, Wall::from_ms(0)));
        if folder.description.is_none() && found.issue.text.take().is_some() {
            // The text is missing here. That does not mean it was removed at that time.
            found.sheet.stamps.remove("text");
            found.edited.retain(|name| *name != "text");
        }
        if must_wait(cx, &found, changes) {
            return Ok(());
        }
        let changed_at = found.issue.updated_at;
        settle_edits(cx, issues, &mut found, &mut changes.asked);
        found.settle_all(cx.clock.wall());
        stay_deleted(&mut found, changed_at);
        if let Err(problem) = check_kept(&found.issue, &found.sheet, None) {
            changes
                .unsound
                .push((id.clone(), tree::place(issues, id, problem)));
            return Ok(());
        }
    }
    if let Some(text) = &folder.description
        && found.issue.text.as_deref() == Some(&text_digest(text))
    {
        changes.texts.push(text.clone());
    }
    // A deletion removes all files except one, and git has merged that too.
    if is_back {
        changes.put_back(found);
    } else if is_overruled {
        // The file is written again. Its content is kept, including parts that no message mentions.
        cx.texts
            .keep(&[(id, folder.issue.as_slice())])
            .map_err(|e| io_refusal("write", &cx.texts.folder(id), &e))?;
        if found.again || has_edited_fields(&found) {
            let kept = cx.texts.text_path(id, &text_digest(&folder.issue));
            changes.said.push(format!(
                "the {ISSUE} of {id} as it was edited here is in {}",
                kept.display()
            ));
        }
        changes.held_back.push(found);
    } else {
        changes.found.push(found);
    }
    Ok(())
}

/// Returns whether a folder has exactly what jit would write now, so that nothing in it can be new.
fn is_as_written(cx: &Context, table: &dyn Table, mine: &Issue, folder: &IssueFolder) -> bool {
    let Ok(files) = cx.texts.files(table, mine) else {
        return false;
    };
    let file = |wanted: &str| {
        let found = files.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, content)| content.as_slice())
    };
    file(ISSUE) == Some(&folder.issue)
        && file(LABELS).unwrap_or_default() == folder.labels
        && file(DEPS).unwrap_or_default() == folder.deps
        && file(COMMENTS).unwrap_or_default() == folder.comments
        && file(DESCRIPTION) == folder.description.as_deref()
}

/// Returns whether the time of an edit cannot be known yet and does not matter now. It is read again at the next
/// check.
fn must_wait(cx: &Context, found: &FoundIssue, changes: &mut TreeChanges) -> bool {
    let is_edit = found.unstamped || !found.is_untouched();
    let waits = changes.asked.is_reader && is_edit && crate::issues::sync::dating::is_git_at_work(cx);
    if waits {
        changes.again.push(found.issue.id.clone());
    }
    waits
}

/// Dates committed edits by their commit, separately for each file.
fn settle_edits(cx: &Context, issues: &Path, found: &mut FoundIssue, asked: &mut Asked) {
    for file in [ISSUE, DESCRIPTION] {
        if found.has_edits_in(file)
            && let Some(committed) = crate::issues::sync::dating::committed_at(cx, issues, found, file, asked)
        {
            found.settle(file, committed);
        }
    }
}

/// Returns the files edited here whose fields belong to the holder. Comments and the description belong to every
/// agent.
fn edited_files(
    cx: &Context,
    issues: &Path,
    (mine, sheet): (&Issue, &Sheet),
    found: &FoundIssue,
    is_seen: bool,
    changes: &mut TreeChanges,
) -> Vec<&'static str> {
    let is_edit = || {
        let now = cx.clock.wall();
        let joined = merge::join((mine, sheet), found, now);
        joined.is_some_and(|(issue, joined)| {
            (joined.deleted, &joined.others) != (sheet.deleted, &sheet.others)
                || holders(&issue) != holders(mine)
        })
    };
    let files = [
        (ISSUE, !is_seen && has_edited_fields(found) && is_edit()),
        (LABELS, !has_lines(&sheet.labels, &found.sheet.labels)),
        (DEPS, !has_lines(&sheet.deps, &found.sheet.deps)),
    ];
    files
        .into_iter()
        .filter(|(file, is_new)| {
            *is_new
                && crate::issues::sync::dating::is_uncommitted(cx, issues, &mine.id, file, &mut changes.asked)
        })
        .map(|(file, _)| file)
        .collect()
}

/// Returns whether an edit that was imported before was saved once more, after the current value was set. Most likely
/// an editor still had it open. It is no new edit, and it is reported.
fn is_saved_again(
    cx: &Context,
    issues: &Path,
    (mine, sheet): (&Issue, &Sheet),
    found: &FoundIssue,
    changes: &mut TreeChanges,
) -> bool {
    let id = &mine.id;
    let written = written(issues, id, ISSUE);
    let is_later = |name: &str| written.is_some_and(|at| at > sheet.stamp(mine, name));
    let mut names = merge::edits((mine, sheet), found);
    names.retain(|name| *name != "text" && is_later(name));
    let is_gone = sheet.deleted && !found.sheet.deleted && has_edited_fields(found) && is_later("deleted");
    if !is_gone && names.is_empty()
        || !crate::issues::sync::dating::is_uncommitted(cx, issues, id, ISSUE, &mut changes.asked)
    {
        return false;
    }
    if is_gone {
        changes.said.push(format!(
            "{id} was deleted, and what was saved here once more does not bring it back: jit issue restore {id}"
        ));
        return true;
    }
    for name in names {
        let (counts, edit) = (sheet.value(mine, name), found.sheet.value(&found.issue, name));
        let (counts, edit) = (counts.to_string(), edit.to_string());
        changes.said.push(format!(
            "{name} of {id} was saved here once more as it was before, which is not taken again: \
             {counts:.100} counts, not {edit:.100}; jit issue show {id}"
        ));
    }
    true
}

/// Ensures that a deletion in a file is no earlier than later changes found in the same file.
fn stay_deleted(found: &mut FoundIssue, changed_at: Wall) {
    let at = found.issue.updated_at;
    if found.sheet.deleted && !found.is_edited("deleted") && at > changed_at {
        found.sheet.stamps.insert("deleted".to_owned(), at);
    }
}

/// Returns whether files are missing beside the `issue.json` of an issue that was deleted and is back: git merged
/// their deletion. Content that was added after that may be in other trees only.
pub(crate) fn lost_files(
    table: &dyn Table,
    (mine, sheet): (&Issue, &Sheet),
    found: &FoundIssue,
    folder: &IssueFolder,
) -> Read<bool> {
    let Some(back) = found.sheet.stamps.get("deleted").filter(|_| !found.sheet.deleted) else {
        return Ok(false);
    };
    let had = |lines: &[SetLine]| lines.iter().any(|line| line.at <= *back);
    Ok((folder.labels.is_empty() && had(&sheet.labels))
        || (folder.deps.is_empty() && had(&sheet.deps))
        || (folder.description.is_none() && mine.text.is_some() && sheet.stamp(mine, "text") <= *back)
        || (folder.comments.is_empty()
            && state::comments(table, &mine.id)?
                .iter()
                .any(|comment| comment.at <= *back)))
}

/// Returns whether a file of fields has content that jit did not write.
pub(crate) fn has_edited_fields(found: &FoundIssue) -> bool {
    found.unstamped || found.edited.iter().any(|name| *name != "text") || !found.edited_others.is_empty()
}

/// Returns the fields that only the holder of an issue may change.
pub(crate) fn holders(issue: &Issue) -> Issue {
    Issue {
        text: None,
        labels: Vec::new(),
        depends_on: Vec::new(),
        ..says(issue)
    }
}

/// Returns whether a set has all these lines.
pub(crate) fn has_lines(ours: &[SetLine], theirs: &[SetLine]) -> bool {
    let ours: BTreeSet<&SetLine> = ours.iter().collect();
    theirs.iter().all(|line| ours.contains(line))
}

/// Returns whether the log has everything in a folder, except the long text.
pub(crate) fn has_all_but_text(table: &dyn Table, sheet: &Sheet, found: &FoundIssue) -> Read<bool> {
    let id = &found.issue.id;
    if !state::is_known_file(table, id, &found.digest)?
        || !has_lines(&sheet.labels, &found.sheet.labels)
        || !has_lines(&sheet.deps, &found.sheet.deps)
    {
        return Ok(false);
    }
    for comment in &found.comments {
        if !state::holds_comment(table, id, comment)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the content of an issue without the time and place of its last change.
pub(crate) fn says(issue: &Issue) -> Issue {
    Issue {
        updated_at: Wall::from_ms(0),
        revision: 0,
        lives_in: None,
        ..issue.clone()
    }
}
