//! Commits that take an issue back to what it was: `git revert`, an old file checked out and committed, a conflict settled with
//! `git checkout --theirs`, an edit by hand that is edited back. The same holds for an edit by hand that git merged with ours.
//!
//! Such a file has old stamps. What tells it from an old copy is the history of what is checked out: if it has what we have
//! as well, somebody who knew that wanted something else.
//!
//! What must hold:
//!
//! - a value that was made out of ours in git is later than ours, as a description is, so that a clone that knows the history
//!   and one that has only the files come to the same;
//! - checking out an old commit or branch takes nothing back: what we have is not in its history;
//! - git is asked only where an old copy says something else than we do, only about commits since then, and about all issues
//!   at once: an old branch may have thousands of old copies.

use std::path::Path;

use jit_core::issue_files::format::{FoundIssue, ISSUE, IssueFolder, parse};
use jit_core::issue_files::stamps::{FIELDS, Sheet};
use jit_core::model::ids::IssueId;
use jit_core::model::issue::Issue;
use jit_core::model::time::Wall;

use super::dating::long_ago;
use super::{Context, Haul};

/// So many issues are told about in one look.
const MOST_TOLD: usize = 10;

/// Makes those fields of `found`, an old copy of `mine` in a tree, the later ones that a commit took back. True where there
/// are such.
pub(crate) fn take_back(
    cx: &Context,
    issues: &Path,
    (mine, sheet): (&Issue, &Sheet),
    found: &mut FoundIssue,
    haul: &mut Haul,
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
        // Gates that were edited are merged one by one.
        .filter(|name| !found.unstamped && is_behind(name) && !(*name == "gates" && found.is_edited(name)))
        .map(str::to_owned)
        .collect();
    behind.sort_unstable();
    behind.dedup();
    if !behind.is_empty()
        && crate::issues::sync::dating::is_uncommitted(cx, issues, id, ISSUE, &mut haul.asked)
    {
        // Edits that are not committed are later by themselves.
        if behind.iter().any(|name| !found.is_edited(name)) {
            haul.awaited.push(id.clone());
        }
        return false;
    }
    let Some(since) = behind.iter().map(|name| sheet.stamp(mine, name)).min() else {
        return false;
    };
    let versions = versions(haul, issues, id, since);
    let ours_at = |name: &str| sheet.stamp(mine, name);
    let is_of_a_commit = |name: &String| versions.iter().any(|(at, _)| is_time_of(*at, ours_at(name)));
    let all = match behind.iter().any(is_of_a_commit) {
        true => self::versions(haul, issues, id, long_ago(mine)),
        false => Vec::new(),
    };
    let history = &haul.asked.history;
    // Many commits are of one second. One that took something back left a stamp for one that had been there, or is older.
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
                    // An edit has no stamp of its own before it is brought in.
                    true => *at >= ours_at,
                    // What was taken back has the time of the commit that did so.
                    false => {
                        before.sheet.stamp(&before.issue, name) == ours_at
                            || is_time_of(*at, ours_at) && went_back(*at, before, name)
                    }
                }
        })
    });
    if !behind.is_empty() {
        let further: Vec<FoundIssue> = haul
            .asked
            .history
            .further_on(&cx.place, issues, (id, ISSUE))
            .into_iter()
            .filter_map(|issue| read(id, issue))
            .collect();
        // Where others have come to what we have, this is an old copy.
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
    haul.asked.taken_back += 1;
    let is_told = haul.asked.taken_back <= MOST_TOLD;
    if let Some(place) = behind.iter().position(|name| name == "gates") {
        // Each of them has a stamp of its own.
        behind.remove(place);
        if is_told {
            haul.said.push(format!(
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
        haul.said.push(format!(
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
        // Nobody asked whether it may be so.
        found
            .by_hand
            .extend(FIELDS.iter().copied().find(|field| field == name));
    }
    !behind.is_empty()
}

/// What an issue's fields were in the history of what is checked out, since then or a little before: a change may be stamped
/// later than it was, by as much as it takes to be after the one before it.
pub(crate) fn versions(haul: &mut Haul, issues: &Path, id: &IssueId, since: Wall) -> Vec<(Wall, FoundIssue)> {
    let since = Wall::from_ms(since.ms().saturating_sub(2_000));
    let contents = haul.asked.history.contents(issues, (id, ISSUE), since);
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

/// The time of something that a commit took back: that of the commit, by which it is known again, and after ours.
pub(crate) fn taken_at(ours: Wall, commit: Option<Wall>) -> Wall {
    just_after(ours).max(commit.unwrap_or(ours))
}

/// Whether something has the time of a commit that took it back: some ms more, where others were in the same second.
pub(crate) fn is_time_of(commit: Wall, at: Wall) -> bool {
    (0..10).contains(&at.ms().saturating_sub(commit.ms()))
}

pub(crate) fn just_after(at: Wall) -> Wall {
    Wall::from_ms(at.ms().saturating_add(1))
}
