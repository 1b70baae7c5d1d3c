//! When something in a tree was edited: when its file was written, or committed.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::UNIX_EPOCH;

use jit_core::ids::IssueId;
use jit_core::issue_file::{DESCRIPTION, Found, ISSUE};
use jit_core::time::Wall;

use super::hauling::has_edited_fields;
use super::{App, Haul};
use crate::git::Git;
use crate::os::clock;

/// The clock that files are stamped by goes in steps, of so many ms at most.
const FILE_CLOCK: i64 = 10;

/// git is asked so often at most when something was committed; edits beyond that count as older than anything.
const MOST_ASKED: usize = 200;

impl App {
    /// Notes when the files were written in which somebody edited something and has not committed it.
    pub(super) fn date_edits(&self, issues: &Path, found: &mut Found, haul: &mut Haul) {
        let id = found.issue.id.clone();
        let written = |file: &str| {
            let at = written(issues, &id, file)?.ms();
            Some(Wall::from_ms(at.saturating_add(FILE_CLOCK)))
        };
        if has_edited_fields(found) && self.is_uncommitted(issues, &id, ISSUE, haul) {
            found.written = written(ISSUE);
        }
        if found.edited.contains(&"text") && self.is_uncommitted(issues, &id, DESCRIPTION, haul) {
            found.text_written = written(DESCRIPTION);
        }
    }

    /// When the edits in an issue's files were committed; `None` when they are not, or nobody knows.
    pub(super) fn committed_at(&self, issues: &Path, found: &Found, haul: &mut Haul) -> Option<Wall> {
        let id = &found.issue.id;
        let mut files = Vec::new();
        if found.edited.contains(&"text") {
            files.push(DESCRIPTION);
        }
        if found.edited.iter().any(|name| *name != "text") || !found.edited_others.is_empty() {
            files.push(ISSUE);
        }
        if files.is_empty()
            || files
                .iter()
                .any(|name| self.is_uncommitted(issues, id, name, haul))
        {
            return None;
        }
        haul.asked += 1;
        if haul.asked > MOST_ASKED {
            return Some(Wall::from_ms(0));
        }
        let secs = Git::at(issues)
            .args(["log", "-1", "--format=%ct", "HEAD", "--"])
            .args(files.iter().map(|name| Path::new(id.as_str()).join(name)))
            .line();
        let secs: i64 = secs.ok()?.parse().ok()?;
        // git counts in seconds: at the end of that one, but not after now.
        let end = secs.saturating_mul(1000).saturating_add(999);
        Some(Wall::from_ms(end.min(clock::wall_ms())))
    }

    /// Whether somebody changed a file of an issue here since the last commit. Where git does not know, so it is.
    pub(super) fn is_uncommitted(&self, issues: &Path, id: &IssueId, file: &str, haul: &mut Haul) -> bool {
        let ask = || -> Option<BTreeSet<String>> {
            let root = self.place.worktree_root.as_deref()?;
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
            let inside = inside.to_str()?;
            let mut paths = BTreeSet::new();
            for entry in listed.split(|b| *b == 0).filter(|entry| entry.len() > 3) {
                let Ok(path) = std::str::from_utf8(entry.get(3..)?) else {
                    continue;
                };
                // A folder further up is listed only where all of it is ignored: then nothing is known.
                let below = path.strip_prefix(inside)?.strip_prefix('/')?;
                paths.insert(below.to_lowercase());
            }
            Some(paths)
        };
        if haul.uncommitted.is_none() {
            haul.uncommitted = ask();
        }
        let folder = format!("{}/", id.as_str().to_lowercase());
        match &haul.uncommitted {
            Some(paths) => paths.contains("") || paths.contains(&folder) || paths.contains(&(folder + file)),
            None => true,
        }
    }
}

/// When a file of an issue was last written to.
pub(super) fn written(issues: &Path, id: &IssueId, file: &str) -> Option<Wall> {
    let meta = issues.join(id.as_str()).join(file).symlink_metadata().ok()?;
    let at = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Wall::from_ms(i64::try_from(at.as_millis()).ok()?))
}
