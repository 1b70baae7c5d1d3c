//! What a tree looked like when it was last looked at, so that looking again costs a `stat` an issue and not a read.
//!
//! Kept in the worktree's own git directory, as `jit-seen`. Format: a line with the signatures of git's index and of the
//! folder of issues, then one line an issue: its id and the signatures of its `issue.json` and of its folder. A signature
//! is a hash of inode, length and times of the last change, in hex. It is a cache: whatever is missing or unreadable in
//! it is looked at again.
//!
//! Limitation: an edit in place of a file other than `issue.json`, by a program that neither makes nor renames a file, is
//! seen when the issue is next asked for by name, not by a list.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use jit_core::ids::IssueId;
use jit_core::issue_file::ISSUE;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, statat};
use xxhash_rust::xxh3::xxh3_64;

use crate::os::file;

/// Changes within so much time before looking may be followed by others that leave the same time behind.
const BLUR_NS: i128 = 20_000_000;
/// No file has this one: to be looked at again.
const UNSURE: u64 = 0;
/// Beyond so many issues several threads look.
const MANY: usize = 1000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    index: u64,
    folder: u64,
    /// By id, in order.
    issues: Vec<One>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct One {
    id: String,
    issue: u64,
    folder: u64,
}

/// The signature of a file and when it was last changed.
fn signature(dir: impl AsFd, path: impl rustix::path::Arg) -> (u64, i128) {
    let Ok(stat) = statat(dir, path, AtFlags::SYMLINK_NOFOLLOW) else {
        return (1, 0);
    };
    let mut bytes = [0; 64];
    let time = |secs: i128, nanos: i128| -> i128 { secs * 1_000_000_000 + nanos };
    let changed = time(stat.st_ctime.into(), stat.st_ctime_nsec.into());
    let numbers: [i128; 4] = [
        stat.st_ino.into(),
        stat.st_size.into(),
        time(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
        changed,
    ];
    for (n, number) in numbers.iter().enumerate() {
        bytes[n * 16..n * 16 + 16].copy_from_slice(&number.to_le_bytes());
    }
    (xxh3_64(&bytes).max(2), changed)
}

pub fn path(git_dir: &Path) -> PathBuf {
    git_dir.join("jit-seen")
}

fn index_signature(git_dir: &Path) -> u64 {
    signature(CWD, git_dir.join("index")).0
}

/// Whether git has moved since the tree was looked at.
pub fn git_moved(git_dir: &Path) -> bool {
    let mut head = [0; 16];
    let read = fs::File::open(path(git_dir)).and_then(|mut file| io::Read::read_exact(&mut file, &mut head));
    read.is_err() || head != format!("{:016x}", index_signature(git_dir)).as_bytes()
}

impl Seen {
    pub fn load(git_dir: &Path) -> Self {
        fs::read_to_string(path(git_dir))
            .ok()
            .and_then(|text| Self::parse(&text))
            .unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        let hex = |word: Option<&str>| u64::from_str_radix(word?, 16).ok();
        let mut lines = text.lines();
        let mut head = lines.next()?.split(' ');
        let (index, folder) = (hex(head.next())?, hex(head.next())?);
        let mut issues = Vec::with_capacity(text.len() / 45);
        for line in lines {
            let mut words = line.split(' ');
            issues.push(One {
                id: words.next()?.to_owned(),
                issue: hex(words.next())?,
                folder: hex(words.next())?,
            });
        }
        Some(Self {
            index,
            folder,
            issues,
        })
    }

    pub fn save(&self, git_dir: &Path) -> io::Result<()> {
        let mut text = format!("{:016x} {:016x}\n", self.index, self.folder);
        for one in &self.issues {
            text.push_str(&format!("{} {:x} {:x}\n", one.id, one.issue, one.folder));
        }
        file::refresh(&path(git_dir), text.as_bytes())
    }

    /// To be read again at the next look.
    pub fn forget(&mut self, id: &IssueId) {
        if let Ok(n) = self
            .issues
            .binary_search_by(|one| one.id.as_str().cmp(id.as_str()))
        {
            self.issues[n].issue = UNSURE;
        }
    }

    /// Which issues are to be read, and what will have been seen once they are. `now` is the wall clock in ns.
    pub fn look(&self, git_dir: &Path, issues: &Path, now: i128) -> io::Result<(Vec<IssueId>, Self)> {
        let index = index_signature(git_dir);
        let (mut folder, folder_at) = signature(CWD, issues);
        if folder_at + BLUR_NS > now {
            folder = UNSURE;
        }
        let git_moved = index != self.index;
        let unknown = |id: String| One {
            id,
            issue: UNSURE,
            folder: UNSURE,
        };
        let mut known = if folder == self.folder && folder != UNSURE {
            self.issues.clone()
        } else {
            let mut names: Vec<String> = super::tree::names(issues)?
                .0
                .into_iter()
                .map(String::from)
                .collect();
            names.sort();
            let mut before = self.issues.iter().peekable();
            names
                .into_iter()
                .map(|id| {
                    while before.next_if(|one| one.id < id).is_some() {}
                    before
                        .next_if(|one| one.id == id)
                        .cloned()
                        .unwrap_or_else(|| unknown(id))
                })
                .collect()
        };
        let dir = rustix::fs::open(
            issues,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let look = |some: &mut [One]| -> Vec<String> {
            let mut path = String::new();
            let mut changed = Vec::new();
            for one in some {
                path.clear();
                path.push_str(&one.id);
                // Git makes its files anew, which the folder shows.
                let (folder, folder_at) = if git_moved || one.folder == UNSURE {
                    signature(&dir, path.as_str())
                } else {
                    (one.folder, 0)
                };
                path.push('/');
                path.push_str(ISSUE);
                let (issue, issue_at) = signature(&dir, path.as_str());
                if one.issue != issue || one.folder != folder {
                    changed.push(one.id.clone());
                }
                // Too young to be told from what comes next: to be read again.
                let young = issue_at.max(folder_at) + BLUR_NS > now;
                (one.issue, one.folder) = if young { (UNSURE, UNSURE) } else { (issue, folder) };
            }
            changed
        };
        let threads = match std::thread::available_parallelism() {
            Ok(many) if known.len() > MANY => many.get().min(8),
            _ => 1,
        };
        let share = known.len().div_ceil(threads).max(1);
        let changed: Vec<String> = if threads == 1 {
            look(&mut known)
        } else {
            std::thread::scope(|scope| {
                let all: Vec<_> = known
                    .chunks_mut(share)
                    .map(|some| scope.spawn(|| look(some)))
                    .collect();
                all.into_iter()
                    .flat_map(|one| one.join().unwrap_or_default())
                    .collect()
            })
        };
        let seen = Self {
            index,
            folder,
            issues: known,
        };
        Ok((changed.iter().filter_map(|id| id.parse().ok()).collect(), seen))
    }
}
