//! Commits that take an issue back to what it was (`git revert`, an old file checked out and committed).
//!
//! Such a file looks like any old copy: its stamps are old, and joining it would change nothing. What tells them apart is
//! the commit: its parent had a newer `issue.json`, and it has this one.
//!
//! What must hold:
//!
//! - what such a commit took back counts as changed when it was committed, so that every clone comes to the same, and a
//!   later change still wins;
//! - checking out an old commit or branch takes nothing back: there the last commit about the file went forward;
//! - git is asked only where an old copy says something else than we do, only about commits since then, and about all issues
//!   at once: an old branch may have thousands of old copies.
//!
//! Limitation: this is about the fields of `issue.json`. Lines that are taken out of the files of labels, dependencies
//! and comments come back: those are logs.

use std::collections::HashMap;
use std::path::Path;

use jit_core::ids::IssueId;
use jit_core::issue::{Issue, text_digest};
use jit_core::issue_file::{Folder, Found, ISSUE, parse};
use jit_core::sheet::{FIELDS, GATE, Sheet, field};
use jit_core::time::Wall;

use crate::git::Git;
use crate::os::clock;

/// So many commits about issues are looked at.
const MOST: &str = "2000";
/// So many about one of them.
const MOST_OF_ONE: usize = 20;

/// What commits changed of issues, as far back as somebody asked.
#[derive(Default)]
pub(super) struct History {
    since: Option<Wall>,
    /// By the path of the file among the issues, newest first.
    changes: HashMap<String, Vec<Change>>,
}

/// A commit that changed a file.
struct Change {
    at: Wall,
    before: String,
    after: String,
}

/// The fields that a commit took back, if one did; they are stamped with its time in `found`, which is an old copy of
/// `mine` in a tree.
pub(super) fn take_back(
    history: &mut History,
    issues: &Path,
    (mine, sheet): (&Issue, &Sheet),
    found: &mut Found,
    folder: &Folder,
) -> Vec<&'static str> {
    if found.unstamped || !found.is_untouched() {
        return Vec::new();
    }
    let behind: Vec<&'static str> = FIELDS
        .iter()
        .copied()
        .filter(|name| *name != "text")
        .filter(|name| differs((mine, sheet.deleted), found, name))
        .filter(|name| sheet.stamp(mine, name) > found.sheet.stamp(&found.issue, name))
        .collect();
    let Some(since) = behind.iter().map(|name| sheet.stamp(mine, name)).min() else {
        return Vec::new();
    };
    let id = &found.issue.id.clone();
    for change in history.of(issues, id, since) {
        // The one that made the file what it is.
        if blob(issues, &change.after).as_ref() != Some(&folder.issue) {
            continue;
        }
        let before = blob(issues, &change.before).map(|issue| Folder {
            issue,
            ..Folder::default()
        });
        let Some(Ok(before)) = before.map(|before| parse(id, &before)) else {
            return Vec::new();
        };
        return stamp(&behind, &before, found, change.at);
    }
    Vec::new()
}

fn differs((issue, deleted): (&Issue, bool), found: &Found, name: &str) -> bool {
    field(issue, deleted, name) != field(&found.issue, found.sheet.deleted, name)
}

/// Stamps those of the fields that were newer before the commit.
fn stamp(behind: &[&'static str], before: &Found, found: &mut Found, at: Wall) -> Vec<&'static str> {
    let mut taken = Vec::new();
    for name in behind {
        let was = before.sheet.stamp(&before.issue, name);
        if was <= found.sheet.stamp(&found.issue, name)
            || !differs((&before.issue, before.sheet.deleted), found, name)
        {
            continue;
        }
        let at = at.max(Wall::from_ms(was.ms().saturating_add(1)));
        found.sheet.stamps.insert((*name).to_owned(), at);
        if *name == "gates" {
            let all = before.issue.gates.iter().chain(&found.issue.gates);
            let changed: Vec<&String> = all
                .filter(|gate| before.issue.gates.contains(gate) != found.issue.gates.contains(gate))
                .collect();
            for gate in changed {
                found.sheet.stamps.insert(format!("{GATE}{gate}"), at);
            }
        }
        found.issue.updated_at = found.issue.updated_at.max(at);
        // Nobody checked whether it may be so.
        found.by_hand.push(name);
        taken.push(*name);
    }
    if !taken.is_empty() {
        // The file is known; what its commit says is not.
        found.digest = text_digest(format!("{} taken back at {at}", found.digest).as_bytes());
    }
    taken
}

impl History {
    /// Commits since then that changed the issue's fields, newest first.
    fn of(&mut self, issues: &Path, id: &IssueId, since: Wall) -> impl Iterator<Item = &Change> {
        if self.since.is_none_or(|known| since < known) {
            // Twice as far back as asked for: others may want to know a little more, and each time git is asked anew.
            let further = clock::wall_ms().saturating_sub(since.ms()).max(0);
            let since = Wall::from_ms(since.ms().saturating_sub(further));
            *self = Self {
                since: Some(since),
                changes: changes(issues, since),
            };
        }
        let path = format!("{id}/{ISSUE}");
        let all = self.changes.get(&path).into_iter().flatten();
        all.filter(move |change| change.at >= since).take(MOST_OF_ONE)
    }
}

/// Commits that changed fields of issues, newest first, by the path of the file. Where git does not say, none.
fn changes(issues: &Path, since: Wall) -> HashMap<String, Vec<Change>> {
    let listed = Git::at(issues)
        .args([
            "log",
            "--format=%x01%ct",
            "--raw",
            "--no-abbrev",
            "--no-renames",
            "--relative",
        ])
        .args(["-n", MOST, "--diff-filter=M"])
        .arg(format!("--since=@{}", since.ms().div_euclid(1000)))
        .args(["HEAD", "--", "."])
        .run();
    let listed = String::from_utf8_lossy(&listed.unwrap_or_default()).into_owned();
    let mut all: HashMap<String, Vec<Change>> = HashMap::new();
    for commit in listed.split('\u{1}').skip(1) {
        let mut lines = commit.lines();
        let Some(secs) = lines.next().and_then(|secs| secs.trim().parse::<i64>().ok()) else {
            continue;
        };
        // git counts in seconds: at the end of that one.
        let at = Wall::from_ms(secs.saturating_mul(1000).saturating_add(999));
        for line in lines {
            // `:100644 100644 <before> <after> M`, then a tab and the path.
            let Some((words, path)) = line.split_once('\t') else {
                continue;
            };
            if let [_, _, before, after, "M"] = words.split_whitespace().collect::<Vec<_>>()[..] {
                all.entry(path.to_owned()).or_default().push(Change {
                    at,
                    before: before.to_owned(),
                    after: after.to_owned(),
                });
            }
        }
    }
    all
}

fn blob(issues: &Path, id: &str) -> Option<Vec<u8>> {
    Git::at(issues).args(["cat-file", "blob", id]).run().ok()
}
