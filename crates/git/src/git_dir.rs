//! Finds git folders by reading files, without starting a process.
//!
//! What must hold: a folder counts as a git folder by git's own test, a sane HEAD, and `objects` and `refs` in the
//! folder that it shares.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType};
use rustix::io::Errno;

use crate::files::{
    is_no_file, physical, physical_from, physical_or_plain, read, read_head, without_line_end,
};

/// A git folder that cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    NotARepository { path: PathBuf },
    BadGitFile { file: PathBuf },
    Dangling { file: PathBuf, target: PathBuf },
    Io { path: PathBuf, source: io::Error },
}

/// The content of a HEAD file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HeadFile {
    /// A full ref name.
    Ref(Vec<u8>),
    Detached(String),
    /// Kept in a reftable, which only git reads.
    Elsewhere,
}

/// A git folder that was found.
#[derive(Debug)]
pub(crate) struct GitFolder {
    pub(crate) git_dir: PathBuf,
    pub(crate) common_dir: PathBuf,
    pub(crate) head: Vec<u8>,
    /// Whether the settings for bare and worktree in the common configuration are this git folder's own.
    pub(crate) has_common: bool,
}

/// Parses a HEAD file; `None` if it is not one.
pub(crate) fn parse_head(bytes: &[u8]) -> Option<HeadFile> {
    let bytes = bytes.trim_ascii_end();
    if let Some(name) = bytes.strip_prefix(b"ref:") {
        let name = name.trim_ascii_start();
        if name == b"refs/heads/.invalid" {
            return Some(HeadFile::Elsewhere);
        }
        return name.starts_with(b"refs/").then(|| HeadFile::Ref(name.to_vec()));
    }
    let hex = std::str::from_utf8(bytes).ok()?;
    let right = matches!(hex.len(), 40 | 64) && hex.bytes().all(|b| b.is_ascii_hexdigit());
    right.then(|| HeadFile::Detached(hex.to_owned()))
}

fn failed(path: &Path, source: io::Error) -> Unusable {
    Unusable::Io {
        path: path.to_owned(),
        source,
    }
}

/// Reads `<folder>/.git`: nothing known, a git folder, or a file that names one.
pub(crate) fn probe(dot_git: &Path, common: Option<&Path>) -> Result<Option<GitFolder>, Unusable> {
    let stat = match rustix::fs::lstat(dot_git) {
        Ok(stat) => stat,
        // Missing or unreadable: git continues upwards too.
        Err(_) => return Ok(None),
    };
    let mut kind = FileType::from_raw_mode(stat.st_mode);
    let mut real = Cow::Borrowed(dot_git);
    if kind == FileType::Symlink {
        let stat = rustix::fs::stat(dot_git).map_err(|error| match error {
            Errno::NOENT => Unusable::Dangling {
                file: dot_git.to_owned(),
                target: std::fs::read_link(dot_git).unwrap_or_default(),
            },
            error => failed(dot_git, error.into()),
        })?;
        kind = FileType::from_raw_mode(stat.st_mode);
        real = Cow::Owned(physical(dot_git).map_err(|source| Unusable::Io {
            path: dot_git.to_owned(),
            source,
        })?);
    }
    match kind {
        FileType::Directory => git_folder(&real, common),
        // A relative path in the file starts at the place where it was found, even if that is a link to the file.
        FileType::RegularFile => follow_git_file(dot_git, common).map(Some),
        _ => Err(Unusable::BadGitFile {
            file: dot_git.to_owned(),
        }),
    }
}

/// The folder that a `.git` file names in `gitdir: <path>`.
fn git_file_target(file: &Path) -> Result<PathBuf, Unusable> {
    let bytes = read(file).map_err(|error| failed(file, error))?;
    let target = bytes
        .strip_prefix(b"gitdir: ")
        .map(without_line_end)
        .filter(|target| !target.is_empty());
    let Some(target) = target else {
        return Err(Unusable::BadGitFile {
            file: file.to_owned(),
        });
    };
    let folder = file.parent().unwrap_or(Path::new("/"));
    Ok(folder.join(OsStr::from_bytes(target)))
}

fn follow_git_file(file: &Path, common: Option<&Path>) -> Result<GitFolder, Unusable> {
    let target = git_file_target(file)?;
    let dangling = || Unusable::Dangling {
        file: file.to_owned(),
        target: crate::files::plain(&target),
    };
    let real = physical(&target).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => dangling(),
        _ => Unusable::Io {
            path: target.clone(),
            source: error,
        },
    })?;
    git_folder(&real, common)?.ok_or_else(dangling)
}

pub(crate) fn explicit_git_dir(path: &Path, common: Option<&Path>) -> Result<GitFolder, Unusable> {
    let not = || Unusable::NotARepository {
        path: path.to_owned(),
    };
    let real = physical(path).map_err(|_| not())?;
    if real.is_file() {
        return follow_git_file(&real, common);
    }
    git_folder(&real, common)?.ok_or_else(not)
}

/// Whether this physical folder is a git folder, by git's own test: a sane HEAD, and `objects` and `refs` in what it
/// shares.
pub(crate) fn git_folder(folder: &Path, common: Option<&Path>) -> Result<Option<GitFolder>, Unusable> {
    let head = match read_head(folder) {
        Ok(head) => head,
        Err(error) if is_no_file(&error) => return Ok(None),
        Err(error) => {
            // An unreadable HEAD: ignoring it would mean "no git here".
            return if folder.file_name() == Some(OsStr::new(".git")) {
                Err(failed(&folder.join("HEAD"), error))
            } else {
                Ok(None)
            };
        }
    };
    if parse_head(&head).is_none() {
        return Ok(None);
    }
    let (common_dir, has_common) = match common {
        Some(path) => (physical_or_plain(path), true),
        None => common_of(folder)?,
    };
    for needed in ["objects", "refs"] {
        let path = common_dir.join(needed);
        if rustix::fs::accessat(rustix::fs::CWD, &path, Access::EXEC_OK, AtFlags::empty()).is_err() {
            return Ok(None);
        }
    }
    Ok(Some(GitFolder {
        git_dir: folder.to_owned(),
        common_dir,
        head,
        has_common,
    }))
}

/// The common folder of a git folder, and whether it is another folder.
pub(crate) fn common_of(git_dir: &Path) -> Result<(PathBuf, bool), Unusable> {
    let file = git_dir.join("commondir");
    match read(&file) {
        Ok(bytes) => {
            let path = Path::new(OsStr::from_bytes(without_line_end(&bytes)));
            let common = physical_from(git_dir, path).map_err(|source| Unusable::Io {
                path: git_dir.join(path),
                source,
            })?;
            Ok((common, true))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((git_dir.to_owned(), false)),
        Err(error) => Err(failed(&file, error)),
    }
}
