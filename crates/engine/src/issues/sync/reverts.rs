//! Recognizes commits that return an issue to an earlier state: `git revert`, an old file checked out and committed,
//! a conflict resolved with `git checkout --theirs`, a hand edit that is undone by hand. The same applies to a hand
//! edit that git merged with ours.
//!
//! Such a file has old stamps. The history of the checked-out commit distinguishes it from an old copy. If the
//! history contains our value too, its author knew our value and wanted another one.
//!
//! What must hold:
//!
//! - A value that was made from ours in git is later than ours, as with descriptions. So a clone that knows the
//!   history and one that has only the files get the same result.
//! - Checking out an old commit or branch reverts nothing: our value is not in its history.
//! - Git is asked only if an old copy differs from ours, only about commits since then, and about all issues at once.
//!   An old branch may have thousands of old copies.

use std::path::Path;

use jit_core::issue_files::format::{FoundIssue, ISSUE, IssueFolder, parse};
use jit_core::issue_files::stamps::{FIELDS, Sheet};
use jit_core::model::ids::IssueId;
use jit_core::model::issue::Issue;
use jit_core::model::time::Wall;

use super::dating::long_ago;
use super::{Context, TreeChanges};

/// The most issues that are reported in one check.
const MOST_TOLD: usize = 10;

/// Marks the fields of `found`, an old copy of `mine` in a tree, as later if a commit reverted them. Returns whether
/// there are any.
pub(crate) fn take_back(
    cx: &Context,
    issues: &Path,
    (mine, sheet): (&Issue, &Sheet),
    found: &mut FoundIssue,
    changes: &mut TreeChanges,
) -> bool {
    let id = &mine.id;
    let is_behind = |name: &&str| {
        let (ours, theirs) = (sheet.stamp(mine, name), found.sheet.stamp(&found.issue, name));
        ours > theirs && sheet.value(mine, name) != found.sheet.value(&found.issue, name)
    };
    let fields = FIELDS.iter().copied().filter(|name| *name != "text");
    let others = sheet.other_names().chain(found.sheet.other_names());
    let mut behind: Vec<String> = fields
        .chain(others.map(String::as_str))
        // Edited gates are merged one by one.
        .filter(|name| !found.unstamped && is_behind(name) && !(*name == "gates" && found.is_edited(name)))
        .map(str::to_owned)
        .collect();
    behind.sort_unstable();
    behind.dedup();
    if !behind.is_empty()
        && crate::issues::sync::dating::is_uncommitted(cx, issues, id, ISSUE, &mut changes.asked)
    {
        // Uncommitted edits are later by themselves.
        if behind.iter().any(|name| !found.is_edited(name)) {
            changes.awaited.push(id.clone());
        }
        return false;
    }
    let Some(since) = behind.iter().map(|name| sheet.stamp(mine, name)).min() else {
        return false;
    };
    let versions = versions(changes, issues, id, since);
    let ours_at = |name: &str| sheet.stamp(mine, name);
    let is_of_a_commit = |name: &String| versions.iter().any(|(at, _)| is_time_of(*at, ours_at(name)));
    let all = match behind.iter().any(is_of_a_commit) {
        true => self::versions(changes, issues, id, long_ago(mine)),
        false => Vec::new(),
    };
    let history = &changes.asked.history;
    // Many commits share one second. A reverting commit replaced a stamp by one that had been there before, or that
    // is older.
    let went_back = |at: Wall, to: &FoundIssue, name: &str| {
        let stamp = |one: &FoundIssue| one.sheet.stamp(&one.issue, name);
        let is_it = |(when, one): &(Wall, FoundIssue)| (*when, &one.digest) == (at, &to.digest);
        let older = all.iter().skip_while(|one| !is_it(one)).skip(1);
        let was_there = older.clone().any(|(_, one)| stamp(one) == stamp(to));
        let before = history.before(issues, (id, ISSUE), (at, &to.digest)).into_iter();
        let mut before = before.filter_map(|issue| read(id, issue));
        before.any(|before| {
            let left = stamp(&before) != stamp(to) || before.is_edited(name);
            before.unstamped || left && (was_there || stamp(&before) > stamp(to))
        })
    };
    behind.retain(|name| {
        let (ours, ours_at) = (sheet.value(mine, name), sheet.stamp(mine, name));
        versions.iter().any(|(at, before)| {
            before.sheet.value(&before.issue, name) == ours
                && match before.unstamped || before.is_edited(name) {
                    // An edit has no stamp of its own before it is imported.
                    true => *at >= ours_at,
                    // A reverted value has the time of the commit that reverted it.
                    false => {
                        before.sheet.stamp(&before.issue, name) == ours_at
                            || is_time_of(*at, ours_at) && went_back(*at, before, name)
                    }
                }
        })
    });
    if !behind.is_empty() {
        let further: Vec<FoundIssue> = changes
            .asked
            .history
            .further_on(&cx.place, issues, (id, ISSUE))
            .into_iter()
            .filter_map(|issue| read(id, issue))
            .collect();
        // If others already have our value ahead of here, this is an old copy.
        behind.retain(|name| {
            let ours = sheet.value(mine, name);
            !further
                .iter()
                .any(|one| one.sheet.value(&one.issue, name) == ours)
        });
    }
    let last = versions.iter().map(|(at, _)| *at).max();
    if behind.is_empty() {
        return false;
    }
    changes.asked.taken_back += 1;
    let is_told = changes.asked.taken_back <= MOST_TOLD;
    if let Some(place) = behind.iter().position(|name| name == "gates") {
        // Each gate has a stamp of its own.
        behind.remove(place);
        if is_told {
            changes.said.push(format!(
                "a commit took gates of {id} back to what they were; that changes nothing: jit gate add or rm {id} <gate>"
            ));
        }
    }
    let told: Vec<&str> = behind
        .iter()
        .map(String::as_str)
        .filter(|name| !found.is_edited(name))
        .collect();
    if is_told && !told.is_empty() {
        changes.said.push(format!(
            "a commit took {} of {id} back to what it was, and that counts",
            told.join(", ")
        ));
    }
    for name in &behind {
        let at = taken_at(sheet.stamp(mine, name), last);
        found.sheet.stamps.insert(name.clone(), at);
        found.issue.updated_at = found.issue.updated_at.max(at);
        found.edited.retain(|edited| edited != name);
        found.edited_others.retain(|edited| edited != name);
        // No command has checked whether this change is allowed.
        found
            .by_hand
            .extend(FIELDS.iter().copied().find(|field| field == name));
    }
    !behind.is_empty()
}

/// Returns an issue's fields in the checked-out history since then, or slightly before. A change may have a stamp
/// later than its real time, as far as needed to follow the previous change.
pub(crate) fn versions(
    changes: &mut TreeChanges,
    issues: &Path,
    id: &IssueId,
    since: Wall,
) -> Vec<(Wall, FoundIssue)> {
    let since = Wall::from_ms(since.ms().saturating_sub(2_000));
    let contents = changes.asked.history.contents(issues, (id, ISSUE), since);
    let read = |(at, issue)| Some((at, read(id, issue)?));
    contents.into_iter().filter_map(read).collect()
}

fn read(id: &IssueId, issue: Vec<u8>) -> Option<FoundIssue> {
    let folder = IssueFolder {
        issue,
        ..IssueFolder::default()
    };
    parse(id, &folder).ok()
}

/// Returns the time of a reverted value: that of the commit, which identifies it, and after ours.
pub(crate) fn taken_at(ours: Wall, commit: Option<Wall>) -> Wall {
    just_after(ours).max(commit.unwrap_or(ours))
}

/// Returns whether a value has the time of the commit that reverted it: a few ms more if other changes were in the
/// same second.
pub(crate) fn is_time_of(commit: Wall, at: Wall) -> bool {
    (0..10).contains(&at.ms().saturating_sub(commit.ms()))
}

pub(crate) fn just_after(at: Wall) -> Wall {
    Wall::from_ms(at.ms().saturating_add(1))
}
