//! Commits that take an issue back to what it was: `git revert`, an old file checked out and committed, a conflict settled with
//! `git checkout --theirs`, an edit by hand that is edited back.
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

use jit_core::issue::Issue;
use jit_core::issue_file::{Folder, Found, ISSUE, parse};
use jit_core::sheet::{FIELDS, Sheet};
use jit_core::time::Wall;

use super::{App, Haul};

/// So many issues are told about in one look.
const MOST_TOLD: usize = 10;

impl App {
    /// Makes those fields of `found`, an old copy of `mine` in a tree, the later ones that a commit took back. True where there
    /// are such.
    pub(super) fn take_back(
        &self,
        issues: &Path,
        (mine, sheet): (&Issue, &Sheet),
        found: &mut Found,
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
            .filter(|name| !found.unstamped && is_behind(name))
            .map(str::to_owned)
            .collect();
        behind.sort_unstable();
        behind.dedup();
        let Some(since) = behind.iter().map(|name| sheet.stamp(mine, name)).min() else {
            return false;
        };
        let versions = haul.history.contents(issues, (id, ISSUE), since);
        let read = |(at, issue): (Wall, Vec<u8>)| {
            let folder = Folder {
                issue,
                ..Folder::default()
            };
            Some((at, parse(id, &folder).ok()?))
        };
        let versions: Vec<(Wall, Found)> = versions.into_iter().filter_map(read).collect();
        let Some(last) = versions.iter().map(|(at, _)| *at).max() else {
            return false;
        };
        behind.retain(|name| {
            let ours_at = sheet.stamp(mine, name);
            versions.iter().any(|(at, before)| {
                let is_edit = before.unstamped || before.is_edited(name);
                *at >= ours_at
                    && before.sheet.value(&before.issue, name) == sheet.value(mine, name)
                    && (is_edit || before.sheet.stamp(&before.issue, name) == ours_at)
            })
        });
        if behind.is_empty() || self.is_uncommitted(issues, id, ISSUE, haul) {
            return false;
        }
        haul.taken_back += 1;
        let is_told = haul.taken_back <= MOST_TOLD;
        if let Some(place) = behind.iter().position(|name| name == "gates") {
            // Each of them has a stamp of its own.
            behind.remove(place);
            if is_told {
                haul.said.push(format!(
                    "a commit took gates of {id} back to what they were; that changes nothing: jit gate add or rm {id} <gate>"
                ));
            }
        }
        for name in &behind {
            let at = after_all(sheet.stamp(mine, name), last);
            found.sheet.stamps.insert(name.clone(), at);
            found.issue.updated_at = found.issue.updated_at.max(at);
            // Nobody asked whether it may be so.
            found
                .by_hand
                .extend(FIELDS.iter().copied().find(|field| field == name));
        }
        if is_told && !behind.is_empty() {
            haul.said.push(format!(
                "a commit took {} of {id} back to what it was, and that counts",
                behind.join(", ")
            ));
        }
        !behind.is_empty()
    }
}

/// Later than ours, and than every commit that led to it: times of commits have no fractions.
pub(super) fn after_all(ours: Wall, last: Wall) -> Wall {
    Wall::from_ms(ours.max(last).ms().saturating_add(1))
}
