//! Computes one hash for the content of a worktree.
//!
//! What must hold:
//! - The hash is that of the tree that git would commit after `git add -A`: tracked and untracked files, not ignored ones,
//!   filters applied. The folder `.jit` at the top is left out, so that records there do not change the hash.
//! - The user's index and the objects of the repository do not change: both go to a scratch folder that is removed
//!   afterwards.
//! - The same content has the same hash: nothing else goes into it.
//!
//! Limitations: a submodule or a nested repository counts by its checked-out commit only, and one without a commit is an
//! error, as it is for `git add`. A killed process leaves `jit-tree-<16 hex digits>` in the git folder. The next process
//! deletes it: a process that uses such a folder holds a kernel lock on it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use jit_os::random;

use crate::discover::Place;
use crate::run::{Git, GitError};

/// The hash could not be computed.
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
            // No daemon, no hook, no second index file, and no effort for objects that are deleted soon.
            .setting("core.splitIndex", "false")
            .setting("core.untrackedCache", "false")
            .setting("core.fsync", "none")
            .setting("core.looseCompression", "0")
            .setting("core.safecrlf", "false")
            .setting("add.ignoreErrors", "false")
            .setting("advice.addEmbeddedRepo", "false")
    };
    git()
        .args(["add", "-A", "--", ".", ":(top,exclude,literal).jit"])
        .run()?;
    let whole = git().arg("write-tree").line()?;
    let listing = git().args(["ls-tree", "-z", "--full-tree", &whole]).run()?;
    let tree = git().args(["mktree", "-z"]).stdin(without_jit(&listing)).line()?;
    Ok(Some(tree))
}

/// Removes `.jit` from a listing of `git ls-tree -z`: the copied index still has its committed files.
pub fn without_jit(listing: &[u8]) -> Vec<u8> {
    listing
        .split_inclusive(|b| *b == 0)
        .filter(|entry| !entry.ends_with(b"\t.jit\0"))
        .flatten()
        .copied()
        .collect()
}

/// Copies the index, so that git need not read unchanged files. Keeps its time: by that git knows which files may have
/// changed in the same instant.
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

/// Quotes a path for a list that is separated by colons, as git reads it.
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

/// A scratch folder; deleted with its content when dropped.
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
        // Locked as long as this process lives, so that no other process deletes it. Renamed only after that.
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

/// Free space that `/dev/shm` must have for a folder there.
const ROOM: u64 = 256 << 20;
/// Prefixes of the names of scratch folders: locked ones, and those that are not locked yet.
const MADE: &str = "jit-tree-";
const MAKING: &str = "jit-new-tree-";
/// A folder that was never locked may be deleted after this time.
const STALE: std::time::Duration = std::time::Duration::from_secs(60);

impl Folder {
    /// For many small, temporary files: in memory if the system has a place with enough space, else in `otherwise`.
    pub fn in_memory(otherwise: &Path) -> Result<Self, SnapshotError> {
        let shared = Path::new("/dev/shm");
        let room = rustix::fs::statvfs(shared).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        if !cfg!(target_os = "linux") || room.unwrap_or(0) < ROOM {
            return Self::make(otherwise);
        }
        Self::make(shared).or_else(|_| Self::make(otherwise))
    }
}

/// Deletes scratch folders in `parent` that dead processes of this user left.
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
        // Correctness does not depend on the removal.
        let _ = fs::remove_dir_all(&self.path);
    }
}
