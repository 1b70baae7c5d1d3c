//! Large files that are in no commit: hashed once, and again only when they change.
//!
//! A look at a worktree begins with a copy of its index, which knows nothing of untracked files. Git would read each of
//! them at each look.
//!
//! What must hold: a file counts as unchanged only if its inode, its length and its times are as when it was hashed, and
//! it was older than a moment then. In doubt git reads it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jit_git::{Git, GitError};

/// Smaller files are quickly read.
const LARGE: u64 = 1 << 20;
/// A younger file may still be written within the same tick of its clock.
const SETTLED: Duration = Duration::from_secs(2);

/// Inode, length, and the times of the last changes of content and state.
type State = (u64, u64, (i64, i64), (i64, i64));

/// A large file, as it was when git hashed it.
#[derive(Debug, Clone)]
struct Hashed {
    path: PathBuf,
    mode: String,
    object: String,
    state: State,
}

/// The large files of one worktree that are in no commit.
#[derive(Debug, Clone, Default)]
pub(super) struct LargeFiles(Vec<Hashed>);

fn state(path: &Path) -> Option<(State, SystemTime)> {
    let meta = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    let times = (
        (meta.mtime(), meta.mtime_nsec()),
        (meta.ctime(), meta.ctime_nsec()),
    );
    Some(((meta.ino(), meta.len(), times.0, times.1), meta.modified().ok()?))
}

impl LargeFiles {
    /// The large files that a captured tree has and the commit below it has not.
    pub(super) fn of(git: Git, root: &Path, head_tree: &str, tree: &str) -> Result<Self, GitError> {
        let listed = git
            .args(["diff-tree", "-r", "-z", "--no-renames", "--diff-filter=A"])
            .args([head_tree, tree])
            .run()?;
        let mut found = Vec::new();
        let mut records = listed.split(|b| *b == 0);
        while let (Some(head), Some(path)) = (records.next(), records.next()) {
            let head = String::from_utf8_lossy(head);
            let words: Vec<&str> = head.split(' ').collect();
            let path = PathBuf::from(OsStr::from_bytes(path));
            let [_, mode @ ("100644" | "100755"), _, object, _] = words.as_slice() else {
                continue;
            };
            let Some((state, modified)) = state(&root.join(&path)) else {
                continue;
            };
            let is_settled = modified.elapsed().is_ok_and(|age| age > SETTLED);
            if state.1 >= LARGE && is_settled {
                found.push(Hashed {
                    path,
                    mode: (*mode).to_owned(),
                    object: (*object).to_owned(),
                    state,
                });
            }
        }
        Ok(Self(found))
    }

    /// Keeps those that are as they were and that git does not ignore now.
    fn unchanged(&self, git: Git, root: &Path) -> Vec<&Hashed> {
        let is_same = |one: &&Hashed| state(&root.join(&one.path)).is_some_and(|(now, _)| now == one.state);
        let same: Vec<&Hashed> = self.0.iter().filter(is_same).collect();
        if same.is_empty() {
            return same;
        }
        let mut names = Vec::new();
        for one in &same {
            names.extend_from_slice(one.path.as_os_str().as_bytes());
            names.push(0);
        }
        match git.args(["check-ignore", "-z", "--stdin"]).stdin(names).try_run() {
            // None of them.
            Ok((Some(1), ..)) => same,
            _ => Vec::new(),
        }
    }

    /// Puts the unchanged ones into the index. Returns pathspecs that leave them out of `git add`.
    pub(super) fn put(&self, git: &dyn Fn() -> Git, root: &Path) -> Vec<OsString> {
        let unchanged = self.unchanged(git(), root);
        let mut lines = Vec::new();
        for one in &unchanged {
            lines.extend_from_slice(format!("{} {} 0\t", one.mode, one.object).as_bytes());
            lines.extend_from_slice(one.path.as_os_str().as_bytes());
            lines.push(0);
        }
        if lines.is_empty() {
            return Vec::new();
        }
        let put = git()
            .args(["update-index", "-z", "--index-info"])
            .stdin(lines)
            .run();
        if put.is_err() {
            return Vec::new();
        }
        let spec = |one: &&Hashed| {
            let mut spec = OsString::from(":(top,exclude,literal)");
            spec.push(&one.path);
            spec
        };
        unchanged.iter().map(spec).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use jit_git::SystemGit;

    use super::*;
    use crate::landing::Repo;
    use crate::landing::radar::{Live, Touched};

    /// A repository that counts how often git reads `*.bin`, with one commit.
    fn repository(root: &Path) -> PathBuf {
        let log = root.join("read");
        fs::write(&log, "").expect("a file");
        let dir = root.join("repo");
        let git = |args: &[&str]| {
            let git = Git::at(&dir)
                .env("GIT_AUTHOR_NAME", "n")
                .env("GIT_AUTHOR_EMAIL", "e");
            let git = git.env("GIT_COMMITTER_NAME", "n").env("GIT_COMMITTER_EMAIL", "e");
            git.args(args).run().expect("git");
        };
        fs::create_dir(&dir).expect("a folder");
        git(&["init", "-q", "-b", "main"]);
        let clean = format!("echo x >> '{}'; cat", log.display());
        git(&["config", "filter.count.clean", &clean]);
        fs::write(dir.join(".git/info/attributes"), "*.bin filter=count\n").expect("a file");
        fs::write(dir.join("file"), "file\n").expect("a file");
        git(&["add", "file"]);
        git(&["commit", "-q", "-m", "first"]);
        dir
    }

    #[test]
    fn h8_an_unchanged_large_untracked_file_is_read_once() {
        let root = tempfile::tempdir().expect("a folder");
        let dir = repository(root.path());
        // The user approved the filter that counts.
        jit_git::set_approver(jit_git::Approver {
            is_approved: |_, _, _| true,
            own: |_, _| None,
        });
        let large = dir.join("large.bin");
        fs::write(&large, vec![7; 2 << 20]).expect("a file");
        let old = SystemTime::now() - Duration::from_secs(60);
        let file = fs::File::options().append(true).open(&large).expect("a file");
        file.set_modified(old).expect("a time");
        let control = root.path().join("control");
        fs::create_dir(&control).expect("a folder");
        let repo = Repo::new(Arc::new(SystemGit), &dir.join(".git"), &control).expect("a repository");
        let mut live = Live::new(&repo).expect("a look");
        let mut look = || {
            let picture = live.look("main", |_| None, |_| Touched::All).expect("a picture");
            let [only] = picture.worktrees.as_slice() else {
                panic!("{:?}", picture.worktrees)
            };
            assert!(only.uncommitted && only.unknown.is_none(), "{only:?}");
        };
        let read = || {
            fs::read_to_string(root.path().join("read"))
                .expect("a file")
                .len()
                / 2
        };
        look();
        assert_eq!(read(), 1);
        look();
        look();
        assert_eq!(read(), 1, "it has not changed");
        file.set_modified(old + Duration::from_secs(1)).expect("a time");
        look();
        assert_eq!(read(), 2, "it may have changed");
        fs::write(dir.join(".gitignore"), "*.bin\n").expect("a file");
        look();
        assert_eq!(read(), 2, "it is ignored now");
    }
}
