//! Which content a worktree has, as one hash.
//!
//! Invariants:
//! - the hash is that of the tree git would commit now after `git add -A`: tracked and untracked files, not ignored
//!   ones, filters applied; the folder `.jit` at the top is left out, so that recording something there changes
//!   nothing;
//! - the user's index is not touched, and the repository gets no object: both go to a folder of their own that is
//!   removed afterwards;
//! - same content, same hash: nothing else goes into it.
//!
//! Limitations: a submodule or a repository inside counts by its checked-out commit only, and one without a commit is
//! an error, as it is for `git add`. A killed process leaves `jit-tree-<16 hex digits>` in the git folder, which the next
//! one deletes: whoever uses such a folder holds the kernel's lock on it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use jit_os::random;

use crate::discover::Place;
use crate::run::{Git, GitError};

/// Why the content has no hash.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("cannot prepare {path:?}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] GitError),
}

/// The tree git would commit now, without `.jit`. `None` without git and where nothing is checked out.
pub fn content_tree(place: &Place) -> Result<Option<String>, SnapshotError> {
    let (Some(git_dir), Some(common_dir), Some(root)) =
        (&place.git_dir, &place.common_dir, &place.worktree_root)
    else {
        return Ok(None);
    };
    let folder = Folder::make(git_dir)?;
    let index = folder.path.join("index");
    copy_index(&git_dir.join("index"), &index).map_err(|source| SnapshotError::Io {
        path: index.clone(),
        source,
    })?;
    let git = || {
        Git::at(root)
            .arg(option("--git-dir=", git_dir))
            .arg(option("--work-tree=", root))
            .env("GIT_INDEX_FILE", &index)
            .env("GIT_OBJECT_DIRECTORY", folder.path.join("objects"))
            .env(
                "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                quoted(&common_dir.join("objects")),
            )
            // No daemon, no hook, no second index file, and no effort for objects that are thrown away.
            .setting("core.fsmonitor", "false")
            .setting("core.splitIndex", "false")
            .setting("core.untrackedCache", "false")
            .setting("core.fsync", "none")
            .setting("core.looseCompression", "0")
            .setting("core.safecrlf", "false")
            .setting("add.ignoreErrors", "false")
            .setting("advice.addEmbeddedRepo", "false")
            .without_hooks()
    };
    git()
        .args(["add", "-A", "--", ".", ":(top,exclude,literal).jit"])
        .run()?;
    let whole = git().arg("write-tree").line()?;
    let listing = git().args(["ls-tree", "-z", "--full-tree", &whole]).run()?;
    let tree = git().args(["mktree", "-z"]).stdin(without_jit(&listing)).line()?;
    Ok(Some(tree))
}

/// What was committed of `.jit` is still in the copy of the index; it is taken out here.
pub fn without_jit(listing: &[u8]) -> Vec<u8> {
    listing
        .split_inclusive(|b| *b == 0)
        .filter(|entry| !entry.ends_with(b"\t.jit\0"))
        .flatten()
        .copied()
        .collect()
}

/// Copies the index, so that unchanged files need not be read. Its time goes with it: by that git knows which files
/// may have changed in the same instant.
pub fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = match File::open(from) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let time = source.metadata()?.modified()?;
    let mut copy = File::create_new(to)?;
    io::copy(&mut source, &mut copy)?;
    copy.set_modified(time)
}

pub fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

/// A path as git reads it in a list that is separated by colons.
pub fn quoted(path: &Path) -> OsString {
    let mut out = vec![b'"'];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'\n' => out.extend(b"\\n"),
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
    OsString::from_vec(out)
}

/// Removed with everything in it when dropped.
#[derive(Debug)]
pub struct Folder {
    pub path: PathBuf,
    _held: Option<File>,
}

impl Folder {
    pub fn make(git_dir: &Path) -> Result<Self, SnapshotError> {
        let make = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        let named = |path: &Path| {
            let path = path.to_owned();
            move |source| SnapshotError::Io { path, source }
        };
        sweep(git_dir);
        let number = random::u64().map_err(named(git_dir))?;
        let making = git_dir.join(OsStr::new(&format!("{MAKING}{number:016x}")));
        let path = git_dir.join(OsStr::new(&format!("{MADE}{number:016x}")));
        make(&making).map_err(named(&making))?;
        // As long as this process lives: so nobody takes it for one that was left. It has its name only then.
        let held = File::open(&making).ok().filter(|held| {
            rustix::fs::flock(held, rustix::fs::FlockOperation::NonBlockingLockShared).is_ok()
        });
        let mut folder = Self {
            path: making,
            _held: held,
        };
        make(&folder.path.join("objects")).map_err(named(&folder.path))?;
        fs::rename(&folder.path, &path).map_err(named(&path))?;
        folder.path = path;
        Ok(folder)
    }
}

/// How much has to be free in memory for a folder there.
const ROOM: u64 = 256 << 20;
/// How folders are called, and before they are locked.
const MADE: &str = "jit-tree-";
const MAKING: &str = "jit-new-tree-";
/// One that a killed process left before it was locked may be removed after this time.
const STALE: std::time::Duration = std::time::Duration::from_secs(60);

impl Folder {
    /// For many small files that nobody needs afterwards: in memory where the system has a place for that, with enough
    /// room in it, else in `otherwise`.
    pub fn in_memory(otherwise: &Path) -> Result<Self, SnapshotError> {
        let shared = Path::new("/dev/shm");
        let room = rustix::fs::statvfs(shared).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        if !cfg!(target_os = "linux") || room.unwrap_or(0) < ROOM {
            return Self::make(otherwise);
        }
        Self::make(shared).or_else(|_| Self::make(otherwise))
    }
}

/// Removes what processes of this user left in `parent` that are gone.
pub fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_called = |word: &str| name.as_bytes().starts_with(word.as_bytes());
        let left = (is_called(MADE) || is_called(MAKING))
            && entry.metadata().is_ok_and(|meta| {
                let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
                meta.is_dir()
                    && meta.uid() == rustix::process::getuid().as_raw()
                    && (is_called(MADE) || age.is_some_and(|age| age > STALE))
            });
        if left && !is_locked(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_locked(folder: &Path) -> bool {
    let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    File::open(folder).is_ok_and(|file| rustix::fs::flock(&file, exclusive).is_err())
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing depends on it being gone.
        let _ = fs::remove_dir_all(&self.path);
    }
}
