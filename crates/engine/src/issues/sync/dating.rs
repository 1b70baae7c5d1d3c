//! Dates an edit in a tree: by the time when its file was written, or committed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::UNIX_EPOCH;

use jit_core::issue_files::format::{DESCRIPTION, FoundIssue, ISSUE};
use jit_core::model::ids::IssueId;
use jit_core::model::issue::Issue;
use jit_core::model::time::Wall;

use super::{Asked, Context};
use crate::issues::sync::tree_changes::has_edited_fields;

/// The largest step of the clock that stamps files, in ms.
const FILE_CLOCK: i64 = 10;

/// In ms.
const DAY: i64 = 86_400_000;

/// The most questions to git about the time of a commit. Edits beyond that count as older than anything.
const MOST_ASKED: usize = 200;

/// The relation of an issue's file in a tree to the committed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Committed,
    /// A merge in progress brought it from there, and it was not changed since.
    Brought(&'static str),
    Changed,
}

/// Records the write times of files that have uncommitted edits.
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

/// Returns when the edits in one of an issue's files were committed; `None` if they are not committed, or it is
/// unknown.
pub(crate) fn committed_at(
    cx: &Context,
    issues: &Path,
    found: &FoundIssue,
    file: &str,
    asked: &mut Asked,
) -> Option<Wall> {
    let id = &found.issue.id;
    let now = cx.clock.wall();
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
    let secs = cx
        .git_at(issues)
        .args(["log", "-1", "--format=%ct", from, "--"])
        .arg(Path::new(id.as_str()).join(file))
        .line();
    let secs: i64 = secs.ok()?.parse().ok()?;
    Some(end_of(secs).min(now))
}

/// Returns whether a file of an issue was changed here since the last commit. True if git does not know.
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

/// Returns the files of issues that differ from the committed ones, in lower case; `None` if git gives no answer.
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
    let listed = cx
        .git_at(root)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .args(args)
        .args(["--untracked-files=all", "--"])
        .arg(inside)
        .run()
        .ok()?;
    let from = cx.place.git_dir.as_deref().and_then(bringing);
    let settled = match from {
        // A person resolved a path that was in conflict and is no longer.
        Some(_) => cx
            .git_at(root)
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
        // Git lists a folder further up only if all of it is ignored: then nothing is known.
        let below = path.strip_prefix(inside)?.strip_prefix('/')?;
        paths.insert(below.to_lowercase(), standing);
    }
    Some(paths)
}

/// Returns whether git is working in this tree. Files it has just written are in no commit and no index yet, and look
/// like edits.
pub(crate) fn is_git_at_work(cx: &Context) -> bool {
    let git_dir = cx.place.git_dir.as_deref();
    git_dir.is_some_and(|dir| dir.join("index.lock").symlink_metadata().is_ok())
}

/// Returns the ref of the merge, cherry-pick or rebase in progress.
fn bringing(git_dir: &Path) -> Option<&'static str> {
    let is_there = |name: &str| git_dir.join(name).symlink_metadata().is_ok();
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REBASE_HEAD"]
        .into_iter()
        .find(|head| is_there(head) && (*head != "REBASE_HEAD" || is_there("rebase-merge")))
}

/// Returns the end of that second: git counts in seconds.
pub(crate) fn end_of(secs: i64) -> Wall {
    Wall::from_ms(secs.saturating_mul(1000).saturating_add(999))
}

/// Returns a time before the issue. Nothing is older than its issue, but a clock may have been set since.
pub(crate) fn long_ago(issue: &Issue) -> Wall {
    Wall::from_ms(issue.created_at.ms().saturating_sub(DAY))
}

/// Returns when a file of an issue was last written.
pub(crate) fn written(issues: &Path, id: &IssueId, file: &str) -> Option<Wall> {
    let meta = issues.join(id.as_str()).join(file).symlink_metadata().ok()?;
    let at = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Wall::from_ms(i64::try_from(at.as_millis()).ok()?))
}
