//! Reads git's small files in few system calls, and normalizes paths.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// The largest file that is read. An index has about a hundred bytes for each file.
const LARGEST: u64 = 512 << 20;

/// Reads a whole file. Waits for no pipe and reads no device (L6).
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_with(path, OFlags::empty())
}

fn read_with(path: &Path, more: OFlags) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | more;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Errno::ISDIR.into()),
        _ => return Err(jit_os::file::not_a_file()),
    }
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    jit_os::file::read_open(&File::from(fd), size, LARGEST)
}

/// Whether a read failed because the path or a folder above it is not there.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Whether a read failed because there is no file of this name: a folder is not one.
pub(super) fn is_no_file(error: &io::Error) -> bool {
    is_missing(error) || error.kind() == io::ErrorKind::IsADirectory
}

/// The content of a HEAD file. Very old repositories have a symbolic link instead of `ref: …`.
pub(super) fn read_head(git_dir: &Path) -> io::Result<Vec<u8>> {
    let path = git_dir.join("HEAD");
    match read_with(&path, OFlags::NOFOLLOW) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            let target = rustix::fs::readlink(&path, Vec::new())?;
            if target.as_bytes().starts_with(b"refs/") {
                Ok([b"ref: ", target.as_bytes()].concat())
            } else {
                read(&path)
            }
        }
        result => result,
    }
}

/// The path without symbolic links, `.` and `..`; it must exist.
pub(super) fn physical(path: &Path) -> io::Result<PathBuf> {
    if path == Path::new(".") {
        return std::env::current_dir();
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // The kernel resolves it in one step; realpath would look at every component.
        use std::ffi::OsString;
        use std::os::fd::AsRawFd;
        use std::os::unix::ffi::OsStringExt;
        let fd = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        if let Ok(found) = rustix::fs::readlink(link, Vec::with_capacity(256)) {
            let found = found.into_bytes();
            // A deleted folder, or one outside this process's root, has no valid name.
            if found.starts_with(b"/") && !found.ends_with(b" (deleted)") {
                return Ok(PathBuf::from(OsString::from_vec(found)));
            }
        }
    }
    std::fs::canonicalize(path)
}

/// `path` seen from `base`, which is physical. Leading `..` are resolved by text (right, since `base` has no links);
/// anything else asks the system.
pub(super) fn physical_from(base: &Path, path: &Path) -> io::Result<PathBuf> {
    if path.is_relative()
        && path
            .components()
            .all(|part| matches!(part, Component::ParentDir | Component::CurDir))
    {
        return Ok(plain(&base.join(path)));
    }
    physical(&base.join(path))
}

/// The path without `.` and `..`, by text alone: for paths that need not exist.
pub fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// The physical path if it exists, else the plain one: a control folder may be named before it is created.
pub(super) fn physical_or_plain(path: &Path) -> PathBuf {
    physical(path).unwrap_or_else(|_| plain(path))
}

/// Without the line ends that git's path files have at their end.
pub(super) fn without_line_end(bytes: &[u8]) -> &[u8] {
    let mut bytes = bytes;
    while let [rest @ .., b'\n' | b'\r'] = bytes {
        bytes = rest;
    }
    bytes
}
