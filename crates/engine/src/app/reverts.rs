//! Commits that take an issue back to what it was (`git revert`, an old file checked out and committed).
//!
//! Such a file is an old copy like any other: its stamps are old, and joining it changes nothing. Whoever reverted it wanted
//! something, though, and is told what does it.
//!
//! What must hold:
//!
//! - nothing is changed by it: which value counts follows from the stamps in the files alone, so that every clone comes to
//!   the same, whatever it has seen of the history, and in whatever order;
//! - checking out an old commit or branch is no revert: there the last commit about the file went forward;
//! - git is asked only where an old copy says something else than we do, only about commits since then, and about all issues
//!   at once: an old branch may have thousands of old copies.

use std::collections::HashMap;
use std::path::Path;

use jit_core::ids::IssueId;
use jit_core::issue::Issue;
use jit_core::issue_file::{Folder, Found, ISSUE, parse};
use jit_core::sheet::{FIELDS, Sheet};
use jit_core::time::Wall;

use super::shell_word;
use crate::git::Git;
use crate::os::clock;

/// So many commits about issues are looked at.
const MOST: &str = "2000";
/// So many issues are told about in one look.
const MOST_TOLD: usize = 10;

/// The last commits that changed issues, as far back as somebody asked.
#[derive(Default)]
pub(super) struct History {
    since: Option<Wall>,
    /// By the path of the file among the issues.
    last: HashMap<String, Change>,
    told: usize,
}

/// A commit that changed a file.
struct Change {
    at: Wall,
    /// The content before it.
    before: String,
}

/// What is to be told about `found`, an old copy of `mine` in a tree, if a commit made it so.
pub(super) fn told(
    history: &mut History,
    issues: &Path,
    (mine, sheet): (&Issue, &Sheet),
    found: &Found,
) -> Option<String> {
    if found.unstamped || history.told >= MOST_TOLD {
        return None;
    }
    let is_behind = |name: &&str| {
        let (ours, theirs) = (sheet.stamp(mine, name), found.sheet.stamp(&found.issue, name));
        ours > theirs && sheet.value(mine, name) != found.sheet.value(&found.issue, name)
    };
    let fields = FIELDS.iter().copied().filter(|name| *name != "text");
    let others = sheet.other_names().chain(found.sheet.other_names());
    let mut behind: Vec<&str> = fields
        .chain(others.map(String::as_str))
        .filter(is_behind)
        .collect();
    behind.sort_unstable();
    behind.dedup();
    let since = behind.iter().map(|name| sheet.stamp(mine, name)).min()?;
    let id = &found.issue.id;
    let before = history.last_of(issues, id, since)?.before.clone();
    let issue = Git::at(issues).args(["cat-file", "blob", &before]).run().ok()?;
    let folder = Folder {
        issue,
        ..Folder::default()
    };
    let before = parse(id, &folder).ok()?;
    behind.retain(|name| {
        before.sheet.stamp(&before.issue, name) > found.sheet.stamp(&found.issue, name)
            && before.sheet.value(&before.issue, name) != found.sheet.value(&found.issue, name)
    });
    if behind.is_empty() {
        return None;
    }
    history.told += 1;
    if behind.contains(&"deleted") {
        let command = match sheet.deleted {
            true => "restore",
            false => "delete",
        };
        return Some(format!(
            "a commit took {} of {id} back to what it was; that changes nothing, the later change counts. \
             To change it: jit issue {command} {id}",
            behind.join(", ")
        ));
    }
    let mut command = format!("jit issue update {id}");
    for name in &behind {
        if let ("title" | "priority" | "type" | "state" | "parent", value) =
            (*name, found.sheet.value(&found.issue, name))
        {
            let value = value.as_str().unwrap_or("none").to_owned();
            command.push_str(&format!(" --{name} {}", shell_word(&value)));
        }
    }
    Some(format!(
        "a commit took {} of {id} back to what it was; that changes nothing, the later change counts. To change it: {command}",
        behind.join(", ")
    ))
}

impl History {
    /// The last commit that changed the issue's fields, if it was made since then.
    fn last_of(&mut self, issues: &Path, id: &IssueId, since: Wall) -> Option<&Change> {
        if self.since.is_none_or(|known| since < known) {
            // Twice as far back as asked for: others may want to know a little more, and each time git is asked anew.
            let further = clock::wall_ms().saturating_sub(since.ms()).max(0);
            let since = Wall::from_ms(since.ms().saturating_sub(further));
            self.since = Some(since);
            self.last = last_changes(issues, since);
        }
        let change = self.last.get(&format!("{id}/{ISSUE}"));
        change.filter(|change| change.at >= since)
    }
}

/// The last commit that changed each file of fields. Where git does not say, none.
fn last_changes(issues: &Path, since: Wall) -> HashMap<String, Change> {
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
    let mut all = HashMap::new();
    for commit in listed.split('\u{1}').skip(1) {
        let mut lines = commit.lines();
        let Some(secs) = lines.next().and_then(|secs| secs.trim().parse::<i64>().ok()) else {
            continue;
        };
        // git counts in seconds: at the end of that one.
        let at = Wall::from_ms(secs.saturating_mul(1000).saturating_add(999));
        for line in lines {
            // `:100644 100644 <before> <after> M`, then a tab and the path. The newest commit comes first.
            let Some((words, path)) = line.split_once('\t') else {
                continue;
            };
            if let [_, _, before, _, "M"] = words.split_whitespace().collect::<Vec<_>>()[..] {
                all.entry(path.to_owned()).or_insert_with(|| Change {
                    at,
                    before: before.to_owned(),
                });
            }
        }
    }
    all
}
