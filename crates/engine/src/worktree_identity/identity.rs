//! The identity of this worktree (A5).
//!
//! Format: see [`super::identity_file`]. The truth is `<git dir>/jit-worktree.json`. `git clean -fdx` cannot reach
//! it, and git removes it together with the worktree. `.jit/worktree.json` is a view of it. Without git,
//! `.jit/worktree.json` is the truth.
//!
//! What must hold:
//!
//! - An id is `wt:` and eight hex digits of SHA-256(root, NUL, creation time). It never changes after its creation.
//! - Any number of processes that start at once in a new worktree get the same id.
//! - A worktree that was moved keeps its id. Of two folders with one id, the folder that is not at the recorded path
//!   gets a new id. A copy that still uses the git folder of the original has its own file there, `jit-worktree-<hash
//!   of its root>.json`.
//! - Variables such as GIT_DIR, which hooks inherit, do not make a second worktree out of the folder a command runs
//!   in.
//! - A damaged file is never used as an identity, and a file of a newer schema is never rewritten.
//!
//! Limitations: a worktree used alternately under two mount points (host and container) counts as moved each time,
//! but keeps its id. If the original of a copy is deleted before jit runs in the copy, the copy counts as moved. The
//! wait for another process that repairs the same file is not bounded.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use jiff::Timestamp;
use jit_core::model::ids::WorktreeId;
use sha2::{Digest, Sha256};

use super::exclude::UNFINISHED_PATTERN;
use super::exclude::ensure_excluded;
pub use super::identity_file::{IdentityError, WorktreeIdentity};
use super::identity_file::{SCHEMA, Stored, load};
use jit_git::config::Shared;
use jit_git::discover::is_place;
use jit_git::{GitEnv, Place};
use jit_os::file;

/// The pattern of the view in git's exclude file.
pub const VIEW_PATTERN: &str = "/.jit/worktree.json";

/// Whether the caller accepts an identity that could not be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A command that only shows something: it shows the identity even if it cannot be stored.
    Read,
    /// A command that writes the id into the log: the next command must get the same id.
    Write,
}

/// A message for the user about a changed identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    Relocated {
        from: PathBuf,
        to: PathBuf,
    },
    Copied {
        from: PathBuf,
        to: PathBuf,
        was: WorktreeId,
    },
    /// The file was missing or damaged; the id came from the view.
    Restored {
        file: PathBuf,
    },
    /// The file was damaged, and the id was not stored anywhere else.
    Replaced {
        file: PathBuf,
        why: String,
    },
    NotStored {
        file: PathBuf,
        why: String,
    },
    ViewNotWritten {
        file: PathBuf,
        why: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relocated { from, to } => write!(
                f,
                "this worktree was moved from {from:?} to {to:?}; it keeps its id"
            ),
            Self::Copied { from, to, was } => {
                write!(
                    f,
                    "{to:?} is a copy of {from:?}, which is {was}; the copy has an id of its own now"
                )
            }
            Self::Restored { file } => write!(
                f,
                "{file:?} was missing or damaged; the id was taken from .jit/worktree.json"
            ),
            Self::Replaced { file, why } => {
                write!(
                    f,
                    "{file:?} was damaged ({why}); this worktree has a new id, and leases of the old one must run out"
                )
            }
            Self::NotStored { file, why } => {
                write!(f, "cannot write {file:?}: {why}; the id shown is not kept")
            }
            Self::ViewNotWritten { file, why } => write!(f, "cannot write {file:?}: {why}"),
        }
    }
}

/// Returns the identity of this worktree; creates it at first use. Normally this opens and reads one file, and for a
/// command that writes looks whether the view is there.
pub fn load_or_create(
    place: &Place,
    now: Timestamp,
    need: Need,
) -> Result<(WorktreeIdentity, Vec<Notice>), IdentityError> {
    let root = place.worktree_root.as_deref().ok_or(IdentityError::NoWorktree)?;
    let scene = Scene {
        place,
        root,
        file: truth_file(place).ok_or(IdentityError::NoWorktree)?,
        now,
    };
    match load(&scene.file)? {
        Stored::Good(identity) if identity.root == root => {
            let mut notices = Vec::new();
            // `git clean -fdx` removes it. A command that writes anyway brings it back.
            if need == Need::Write && scene.lacks_view() {
                scene.show(&identity, &mut notices);
            }
            Ok((identity, notices))
        }
        stored => scene.settle(stored, need),
    }
}

/// Returns the identity for a command that reads. `None` outside a worktree, and in a folder without git that was not set
/// up: nothing is created there (A3).
pub fn for_reader(
    place: &Place,
    now: Timestamp,
) -> Result<(Option<WorktreeIdentity>, Vec<Notice>), IdentityError> {
    let Some(file) = truth_file(place) else {
        return Ok((None, Vec::new()));
    };
    let is_plain = !place.has_git() && !place.local_jit.as_deref().is_some_and(is_place);
    if is_plain && matches!(load(&file)?, Stored::Missing) {
        return Ok((None, Vec::new()));
    }
    load_or_create(place, now, Need::Read).map(|(identity, notices)| (Some(identity), notices))
}

/// Writes the view if `.jit/` exists and the view is wrong. It is read only where the true identity is lost.
pub fn ensure_view(place: &Place, identity: &WorktreeIdentity) -> io::Result<bool> {
    let (Some(local), Some(common)) = (&place.local_jit, &place.common_dir) else {
        return Ok(false);
    };
    let view = local.join("worktree.json");
    let content = identity.to_json();
    let real = |path: &Path| path.symlink_metadata();
    // A link from a clone is neither read nor written through.
    let there = real(&view).is_ok_and(|meta| meta.is_file());
    if !real(local).is_ok_and(|meta| meta.is_dir())
        || (there && std::fs::read(&view).is_ok_and(|old| old == content))
    {
        return Ok(false);
    }
    // Ignored first, then created: otherwise `git status` in between would show it.
    ensure_excluded(common, &[VIEW_PATTERN, UNFINISHED_PATTERN])?;
    let _lock = file::lock_folder(local)?;
    file::sweep(local);
    file::replace_here(&view, &content)?;
    Ok(true)
}

/// Returns the file with the true identity of this worktree; `None` outside a worktree.
pub fn truth_file(place: &Place) -> Option<PathBuf> {
    match (&place.git_dir, &place.local_jit) {
        (Some(git_dir), Some(_)) => Some(git_dir.join("jit-worktree.json")),
        (None, Some(local)) => Some(local.join("worktree.json")),
        (_, None) => None,
    }
}

/// Returns the valid identity stored in this git folder, if there is one. Changes nothing.
pub fn peek(git_dir: &Path) -> Option<WorktreeIdentity> {
    match load(&git_dir.join("jit-worktree.json")) {
        Ok(Stored::Good(identity)) => Some(identity),
        Ok(Stored::Missing | Stored::Damaged(_)) | Err(_) => None,
    }
}

/// Returns the permissions of files in the git folder: only the owner may read them, unless git shares the repository.
pub(crate) fn file_mode(shared: &Shared) -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = match shared {
        Shared::Umask => 0o600,
        Shared::Group => 0o660,
        Shared::Everybody => 0o664,
        Shared::Mode(mode) => mode & 0o666,
    };
    std::fs::Permissions::from_mode(mode)
}

struct Scene<'a> {
    place: &'a Place,
    root: &'a Path,
    file: PathBuf,
    now: Timestamp,
}

/// How a worktree came to a root that differs from the stored one.
enum Fate {
    Moved,
    /// The original still exists, with its own git folder.
    Copied,
    /// The original still exists, and both use this git folder.
    Shares,
    /// Only variables such as GIT_DIR and GIT_WORK_TREE name this root; it is the same worktree.
    Same,
}

impl Scene<'_> {
    fn settle(&self, first: Stored, need: Need) -> Result<(WorktreeIdentity, Vec<Notice>), IdentityError> {
        let mut notices = Vec::new();
        let result = match first {
            Stored::Missing => self.found(&mut notices),
            Stored::Damaged(_) => self.mend(&mut notices),
            Stored::Good(stored) => match self.own_copy()? {
                Some(mine) => return Ok((mine, notices)),
                None => self.displaced(stored, &mut notices),
            },
        };
        match result {
            Ok(identity) => {
                if identity.root == self.root {
                    self.show(&identity, &mut notices);
                }
                Ok((identity, notices))
            }
            Err(failed) if need == Need::Read => {
                let why = failed.source.to_string();
                notices.push(Notice::NotStored {
                    file: failed.file,
                    why,
                });
                Ok((failed.identity, notices))
            }
            Err(failed) => Err(IdentityError::Write {
                file: failed.file,
                source: failed.source,
            }),
        }
    }

    fn lacks_view(&self) -> bool {
        let local = self.place.local_jit.as_deref().filter(|_| self.place.has_git());
        local.is_some_and(|local| {
            let view = local.join("worktree.json").symlink_metadata();
            view.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        })
    }

    /// Writes the view, if it is wrong.
    fn show(&self, identity: &WorktreeIdentity, notices: &mut Vec<Notice>) {
        if let Err(error) = ensure_view(self.place, identity) {
            let local = self.place.local_jit.as_deref().unwrap_or(self.root);
            notices.push(Notice::ViewNotWritten {
                file: local.join("worktree.json"),
                why: error.to_string(),
            });
        }
    }

    /// First use: one of several concurrent processes creates the file, and the others read it.
    fn found(&self, notices: &mut Vec<Notice>) -> Result<WorktreeIdentity, Box<Failed>> {
        let identity = self.known_to_view(notices).unwrap_or_else(|| self.fresh());
        self.create(&self.file, identity)
    }

    fn create(&self, path: &Path, identity: WorktreeIdentity) -> Result<WorktreeIdentity, Box<Failed>> {
        let make = || -> io::Result<bool> {
            if self.place.git_dir.is_none()
                && let Some(local) = &self.place.local_jit
            {
                std::fs::create_dir_all(local)?;
            }
            file::create_with(path, &identity.to_json(), Some(file_mode(&self.place.shared)))
        };
        match make() {
            Ok(true) => Ok(identity),
            Ok(false) => match load(path) {
                Ok(Stored::Good(theirs)) => Ok(theirs),
                _ => Err(Failed::new(
                    identity,
                    path,
                    io::Error::other("another process is writing it; try again"),
                )),
            },
            Err(error) => Err(Failed::new(identity, path, error)),
        }
    }

    /// Checks again with the folder locked, and replaces a file that is still wrong.
    fn mend(&self, notices: &mut Vec<Notice>) -> Result<WorktreeIdentity, Box<Failed>> {
        let failed = |source| Failed::new(self.fresh(), &self.file, source);
        let _lock = self.lock().map_err(failed)?;
        match load(&self.file) {
            Ok(Stored::Good(identity)) => Ok(identity),
            Ok(Stored::Missing) => self.found(notices),
            Ok(Stored::Damaged(why)) => {
                let identity = self.known_to_view(notices).unwrap_or_else(|| {
                    let file = self.file.clone();
                    notices.push(Notice::Replaced { file, why });
                    self.fresh()
                });
                self.replace(identity)
            }
            Err(error) => Err(failed(io::Error::other(error))),
        }
    }

    fn displaced(
        &self,
        stored: WorktreeIdentity,
        notices: &mut Vec<Notice>,
    ) -> Result<WorktreeIdentity, Box<Failed>> {
        let copied = Notice::Copied {
            from: stored.root.clone(),
            to: self.root.to_owned(),
            was: stored.worktree_id.clone(),
        };
        let changed = match self.fate(&stored) {
            Fate::Same => return Ok(stored),
            Fate::Shares => {
                notices.push(copied);
                return self.create(&self.copy_file(), self.fresh());
            }
            Fate::Copied => {
                notices.push(copied);
                self.fresh()
            }
            Fate::Moved => {
                notices.push(Notice::Relocated {
                    from: stored.root.clone(),
                    to: self.root.to_owned(),
                });
                WorktreeIdentity {
                    branch: self.branch(),
                    root: self.root.to_owned(),
                    relocated_at: Some(self.now),
                    ..stored.clone()
                }
            }
        };
        if stored.schema_version > SCHEMA {
            let why = io::Error::other("it was written by a newer jit");
            return Err(Failed::new(changed, &self.file, why));
        }
        let _lock = match self.lock() {
            Ok(lock) => lock,
            Err(error) => return Err(Failed::new(changed, &self.file, error)),
        };
        // The first process decides for all others.
        match load(&self.file) {
            Ok(Stored::Good(theirs)) if theirs.root == self.root => Ok(theirs),
            _ => self.replace(changed),
        }
    }

    fn fate(&self, stored: &WorktreeIdentity) -> Fate {
        let Ok(there) = Place::discover(&stored.root, &GitEnv::elsewhere()) else {
            return Fate::Moved;
        };
        let is_worktree = there.worktree_root.as_deref() == Some(stored.root.as_path());
        let Some(file) = truth_file(&there).filter(|_| is_worktree) else {
            return Fate::Moved;
        };
        if file == self.file {
            let here = Place::discover(self.root, &GitEnv::elsewhere());
            let own = here.is_ok_and(|here| {
                here.worktree_root.as_deref() == Some(self.root) && here.git_dir == self.place.git_dir
            });
            return if own { Fate::Shares } else { Fate::Same };
        }
        match load(&file) {
            Ok(Stored::Good(theirs)) if theirs.worktree_id == stored.worktree_id => Fate::Copied,
            _ => Fate::Moved,
        }
    }

    /// Returns the file of a copy that shares the git folder of its original.
    fn copy_file(&self) -> PathBuf {
        let hash = xxhash_rust::xxh3::xxh3_64(self.root.as_os_str().as_bytes());
        self.file.with_file_name(format!("jit-worktree-{hash:016x}.json"))
    }

    fn own_copy(&self) -> Result<Option<WorktreeIdentity>, IdentityError> {
        if self.place.git_dir.is_none() {
            return Ok(None);
        }
        match load(&self.copy_file())? {
            Stored::Good(mine) if mine.root == self.root => Ok(Some(mine)),
            _ => Ok(None),
        }
    }

    /// Returns the identity from the view, if it was written for this root. A view that was committed or copied was
    /// not.
    fn known_to_view(&self, notices: &mut Vec<Notice>) -> Option<WorktreeIdentity> {
        let view = self.place.local_jit.as_deref()?.join("worktree.json");
        if view == self.file {
            return None;
        }
        match load(&view) {
            Ok(Stored::Good(identity)) if identity.root == self.root && identity.schema_version <= SCHEMA => {
                let file = self.file.clone();
                notices.push(Notice::Restored { file });
                Some(identity)
            }
            _ => None,
        }
    }

    fn fresh(&self) -> WorktreeIdentity {
        WorktreeIdentity {
            schema_version: SCHEMA,
            worktree_id: new_id(self.root, self.now),
            branch: self.branch(),
            root: self.root.to_owned(),
            created_at: self.now,
            relocated_at: None,
        }
    }

    fn branch(&self) -> Option<String> {
        // For people only; an unreadable HEAD must not prevent an identity.
        self.place.branch().ok().flatten()
    }

    fn lock(&self) -> io::Result<std::fs::File> {
        file::lock_folder(self.file.parent().unwrap_or(self.root))
    }

    fn replace(&self, identity: WorktreeIdentity) -> Result<WorktreeIdentity, Box<Failed>> {
        match file::replace_here_with(&self.file, &identity.to_json(), file_mode(&self.place.shared)) {
            Ok(()) => Ok(identity),
            Err(error) => Err(Failed::new(identity, &self.file, error)),
        }
    }
}

/// An identity that was decided but not stored.
struct Failed {
    identity: WorktreeIdentity,
    file: PathBuf,
    source: io::Error,
}

impl Failed {
    fn new(identity: WorktreeIdentity, file: &Path, source: io::Error) -> Box<Self> {
        let file = file.to_owned();
        Box::new(Self {
            identity,
            file,
            source,
        })
    }
}

fn new_id(root: &Path, created_at: Timestamp) -> WorktreeId {
    let mut hasher = Sha256::new();
    hasher.update(root.as_os_str().as_bytes());
    hasher.update([0]);
    hasher.update(created_at.to_string().as_bytes());
    let hash = hasher.finalize();
    let text = format!("wt:{:02x}{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2], hash[3]);
    match text.parse() {
        Ok(id) => id,
        Err(error) => unreachable!("{error}"),
    }
}
