//! When something in a tree was edited: when its file was written, or committed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::UNIX_EPOCH;

use jit_core::issue_files::format::{DESCRIPTION, FoundIssue, ISSUE};
use jit_core::model::ids::IssueId;
use jit_core::model::issue::Issue;
use jit_core::model::time::Wall;
use jit_git::Git;
use jit_os::clock;

use super::{Asked, Context};
use crate::issues::sync::tree_changes::has_edited_fields;

/// The clock that files are stamped by goes in steps, of so many ms at most.
const FILE_CLOCK: i64 = 10;

/// In ms.
const DAY: i64 = 86_400_000;

/// git is asked so often at most when something was committed; edits beyond that count as older than anything.
const MOST_ASKED: usize = 200;

/// How a file of an issue in a tree stands to what is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Committed,
    /// A merge that is going on brought it, from there, and nobody changed it since.
    Brought(&'static str),
    Changed,
}

/// Notes when the files were written in which somebody edited something and has not committed it.
pub(crate) fn date_edits(cx: &Context, issues: &Path, found: &mut FoundIssue, asked: &mut Asked) {
    let id = found.issue.id.clone();
    let written = |file: &str| {
        let at = written(issues, &id, file)?.ms();
        Some(Wall::from_ms(at.saturating_add(FILE_CLOCK)))
    };
    if has_edited_fields(found) && is_uncommitted(cx, issues, &id, ISSUE, asked) {
        found.written = written(ISSUE);
    }
    if found.has_edits_in(DESCRIPTION) && is_uncommitted(cx, issues, &id, DESCRIPTION, asked) {
        found.text_written = written(DESCRIPTION);
    }
}

/// When the edits in one of an issue's files were committed; `None` when they are not, or nobody knows.
pub(crate) fn committed_at(
    cx: &Context,
    issues: &Path,
    found: &FoundIssue,
    file: &str,
    asked: &mut Asked,
) -> Option<Wall> {
    let id = &found.issue.id;
    let now = Wall::from_ms(clock::wall_ms());
    let from = match standing(cx, issues, id, file, asked) {
        Standing::Committed => "HEAD",
        Standing::Brought(from) => from,
        Standing::Changed => return None,
    };
    if from == "HEAD"
        && let Some(at) = asked
            .history
            .committed_at(issues, (id, file), long_ago(&found.issue))
    {
        return Some(at.min(now));
    }
    asked.times += 1;
    if asked.times > MOST_ASKED {
        return Some(Wall::from_ms(0));
    }
    let secs = Git::at(issues)
        .args(["log", "-1", "--format=%ct", from, "--"])
        .arg(Path::new(id.as_str()).join(file))
        .line();
    let secs: i64 = secs.ok()?.parse().ok()?;
    Some(end_of(secs).min(now))
}

/// Whether somebody changed a file of an issue here since the last commit. Where git does not know, so it is.
pub(crate) fn is_uncommitted(
    cx: &Context,
    issues: &Path,
    id: &IssueId,
    file: &str,
    asked: &mut Asked,
) -> bool {
    standing(cx, issues, id, file, asked) != Standing::Committed
}

pub(crate) fn standing(cx: &Context, issues: &Path, id: &IssueId, file: &str, asked: &mut Asked) -> Standing {
    if asked.uncommitted.is_none() {
        asked.uncommitted = uncommitted(cx, issues);
    }
    let Some(paths) = &asked.uncommitted else {
        return Standing::Changed;
    };
    let folder = format!("{}/", id.as_str().to_lowercase());
    if paths.contains_key("") || paths.contains_key(&folder) {
        return Standing::Changed;
    }
    paths
        .get(&(folder + file))
        .copied()
        .unwrap_or(Standing::Committed)
}

/// The files of issues that are not as they are committed, in lower case; `None` where git does not say.
fn uncommitted(cx: &Context, issues: &Path) -> Option<BTreeMap<String, Standing>> {
    let root = cx.place.worktree_root.as_deref()?;
    let inside = issues.strip_prefix(root).ok()?;
    let args = [
        "status",
        "--porcelain",
        "-z",
        "--no-renames",
        "--ignored=matching",
    ];
    let listed = Git::at(root)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .args(args)
        .args(["--untracked-files=all", "--"])
        .arg(inside)
        .run()
        .ok()?;
    let from = cx.place.git_dir.as_deref().and_then(bringing);
    let settled = match from {
        // What was in conflict and is not any more, somebody decided.
        Some(_) => Git::at(root)
            .args(["ls-files", "--resolve-undo", "-z", "--"])
            .arg(inside)
            .run()
            .ok()?,
        None => Vec::new(),
    };
    let settled: BTreeSet<&[u8]> = settled
        .split(|b| *b == 0)
        .filter_map(|entry| entry.splitn(2, |b| *b == b'\t').nth(1))
        .collect();
    let inside = inside.to_str()?;
    let mut paths = BTreeMap::new();
    for entry in listed.split(|b| *b == 0).filter(|entry| entry.len() > 3) {
        let (status, path) = (entry.get(..2)?, entry.get(3..)?);
        let standing = match from {
            Some(from) if matches!(status, b"M " | b"A ") && !settled.contains(path) => {
                Standing::Brought(from)
            }
            _ => Standing::Changed,
        };
        let Ok(path) = std::str::from_utf8(path) else {
            continue;
        };
        // A folder further up is listed only where all of it is ignored: then nothing is known.
        let below = path.strip_prefix(inside)?.strip_prefix('/')?;
        paths.insert(below.to_lowercase(), standing);
    }
    Some(paths)
}

/// Whether git is at work in this tree: what it has written there is in no commit and in no index yet, and looks like an edit.
pub(crate) fn is_git_at_work(cx: &Context) -> bool {
    let git_dir = cx.place.git_dir.as_deref();
    git_dir.is_some_and(|dir| dir.join("index.lock").symlink_metadata().is_ok())
}

/// What is just being merged into a tree.
fn bringing(git_dir: &Path) -> Option<&'static str> {
    let is_there = |name: &str| git_dir.join(name).symlink_metadata().is_ok();
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REBASE_HEAD"]
        .into_iter()
        .find(|head| is_there(head) && (*head != "REBASE_HEAD" || is_there("rebase-merge")))
}

/// git counts in seconds: at the end of that one.
pub(crate) fn end_of(secs: i64) -> Wall {
    Wall::from_ms(secs.saturating_mul(1000).saturating_add(999))
}

/// Nothing is older than its issue, but a clock may have been set meanwhile.
pub(crate) fn long_ago(issue: &Issue) -> Wall {
    Wall::from_ms(issue.created_at.ms().saturating_sub(DAY))
}

/// When a file of an issue was last written to.
pub(crate) fn written(issues: &Path, id: &IssueId, file: &str) -> Option<Wall> {
    let meta = issues.join(id.as_str()).join(file).symlink_metadata().ok()?;
    let at = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Wall::from_ms(i64::try_from(at.as_millis()).ok()?))
}
