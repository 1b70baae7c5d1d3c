//! What a tree looked like when it was last looked at, so that looking again costs a `stat` an issue and not a read.
//!
//! Kept in the worktree's own git directory, as `jit-seen`. Format: a line with the signature of git's index, then one
//! line an issue: its id and the signature of its `issue.json` and of its folder. A signature is inode, length and time
//! of the last change. It is a cache: whatever is missing or unreadable in it is looked at again.
//!
//! Limitation: an edit in place of a file other than `issue.json`, by a program that neither makes nor renames a file, is
//! seen when the issue is next asked for by name, not by a list.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jit_core::ids::IssueId;
use jit_core::issue_file::ISSUE;

use crate::os::file;

/// Changes within so much time before looking may be followed by others that leave the same time behind.
const BLUR_NS: i128 = 20_000_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Of git's index.
    index: String,
    /// Of the folder of issues.
    folder: String,
    issues: HashMap<String, (String, String)>,
}

fn signature(path: &Path) -> (String, i128) {
    match path.symlink_metadata() {
        Ok(meta) => {
            let at = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
            (format!("{}.{}.{at}", meta.ino(), meta.len()), at)
        }
        Err(_) => ("-".into(), 0),
    }
}

pub fn path(git_dir: &Path) -> PathBuf {
    git_dir.join("jit-seen")
}

/// Whether git has moved since the tree was looked at.
pub fn git_moved(git_dir: &Path) -> bool {
    let (now, _) = signature(&git_dir.join("index"));
    let mut head = [0; 96];
    let read = fs::File::open(path(git_dir)).and_then(|mut file| io::Read::read(&mut file, &mut head));
    let line = read.ok().and_then(|n| head[..n].split(|b| *b == b'\n').next());
    line != Some(now.as_bytes())
}

impl Seen {
    pub fn load(git_dir: &Path) -> Self {
        let Ok(text) = fs::read_to_string(path(git_dir)) else {
            return Self::default();
        };
        let mut lines = text.lines();
        let (index, folder) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let entry = |line: &str| {
            let mut words = line.split(' ');
            Some((
                words.next()?.to_owned(),
                (words.next()?.to_owned(), words.next()?.to_owned()),
            ))
        };
        Self {
            index: index.to_owned(),
            folder: folder.to_owned(),
            issues: lines.filter_map(entry).collect(),
        }
    }

    pub fn save(&self, git_dir: &Path) -> io::Result<()> {
        let mut text = format!("{}\n{}\n", self.index, self.folder);
        for (id, (issue, folder)) in &self.issues {
            text.push_str(&format!("{id} {issue} {folder}\n"));
        }
        file::refresh(&path(git_dir), text.as_bytes())
    }

    /// Which issues are to be read, and what will have been seen once they are. `now` is the wall clock in ns.
    pub fn look(&self, git_dir: &Path, issues: &Path, now: i128) -> io::Result<(Vec<IssueId>, Self)> {
        let fresh = |at: i128| at + BLUR_NS > now;
        let (index, _) = signature(&git_dir.join("index"));
        let (folder, folder_at) = signature(issues);
        let git_moved = index != self.index;
        let known: Vec<IssueId> = if folder == self.folder && !fresh(folder_at) {
            self.issues.keys().filter_map(|id| id.parse().ok()).collect()
        } else {
            super::tree::names(issues)?.0
        };
        let mut seen = Self {
            index,
            folder,
            issues: HashMap::with_capacity(known.len()),
        };
        let mut look_at = Vec::new();
        for id in known {
            let before = self.issues.get(id.as_str());
            let place = issues.join(id.as_str());
            let (issue, issue_at) = signature(&place.join(ISSUE));
            let (folder, folder_at) = match before {
                Some((_, folder)) if !git_moved => (folder.clone(), 0),
                _ => signature(&place),
            };
            if before.is_none_or(|(i, f)| *i != issue || *f != folder) {
                look_at.push(id.clone());
            }
            // Too young to be told from what comes next: to be read again.
            let seen_as = if fresh(issue_at) || fresh(folder_at) {
                ("?".to_owned(), "?".to_owned())
            } else {
                (issue, folder)
            };
            seen.issues.insert(id.to_string(), seen_as);
        }
        look_at.sort();
        Ok((look_at, seen))
    }

    /// To be read again at the next look.
    pub fn forget(&mut self, id: &IssueId) {
        self.issues
            .insert(id.to_string(), ("?".to_owned(), "?".to_owned()));
    }
}
