//! Lists everything below a folder, with its metadata.
//!
//! What must hold:
//!
//! - Links are never followed.
//! - Another file system that is mounted inside is an error, because a rename would not move it.
//! - A path that cannot be read is an error.
//! - The order is that of the bytes of the paths.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use jit_os::io_refusal;
use jit_store::Outcome;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Folder,
    File,
    Link,
    /// A pipe, a socket or a device: recorded, never read.
    Special(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Relative to the folder that was walked.
    pub path: PathBuf,
    pub what: What,
    pub mode: u32,
    pub size: u64,
    pub inode: u64,
    pub links: u64,
    /// The last change of its content or its permissions; no program can set this time.
    changed: (i64, i64),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    pub found: Vec<Found>,
}

impl Walk {
    /// Everything below `root`, without `root` itself. Empty if there is no such folder.
    pub fn of(root: &Path) -> Outcome<Self> {
        let mut walk = Self::default();
        let device = match root.symlink_metadata() {
            Ok(meta) => meta.dev(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(walk),
            Err(e) => return Err(io_refusal("read", root, &e)),
        };
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let full = root.join(&folder);
            let failed = |e: io::Error| io_refusal("read", &full, &e);
            for entry in fs::read_dir(&full).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let path = folder.join(entry.file_name());
                let found = look(root, path, device)?;
                if found.what == What::Folder {
                    folders.push(found.path.clone());
                }
                walk.found.push(found);
            }
        }
        walk.found
            .sort_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
        Ok(walk)
    }

    pub fn at(&self, path: &Path) -> Option<&Found> {
        let wanted = path.as_os_str().as_bytes();
        let place = self
            .found
            .binary_search_by(|one| one.path.as_os_str().as_bytes().cmp(wanted));
        place.ok().and_then(|n| self.found.get(n))
    }

    /// Everything below one of its folders, including that folder.
    pub fn below<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = &'a Found> {
        self.found.iter().filter(move |one| one.path.starts_with(folder))
    }

    /// Folders that are a git folder with another name than `.git`: repositories without a checkout. Of two nested
    /// ones only the outer one.
    pub fn bare_repositories(&self) -> Vec<PathBuf> {
        let mut bare: Vec<PathBuf> = Vec::new();
        for head in &self.found {
            let Some(folder) = head.path.parent().filter(|_| head.path.ends_with("HEAD")) else {
                continue;
            };
            let has = |name: &str| {
                self.at(&folder.join(name))
                    .is_some_and(|one| one.what == What::Folder)
            };
            let known = folder.iter().any(|name| name == ".git") || folder.as_os_str().is_empty();
            if !known && has("objects") && has("refs") && !bare.iter().any(|one| folder.starts_with(one)) {
                bare.push(folder.to_owned());
            }
        }
        bare
    }

    /// Folders that contain an entry named `.git`.
    pub fn repositories(&self) -> Vec<PathBuf> {
        let inner = self.found.iter().filter(|one| {
            one.path.file_name() == Some(OsStr::new(".git")) && one.path.components().count() > 1
        });
        inner
            .filter_map(|one| one.path.parent().map(Path::to_owned))
            .collect()
    }
}

fn look(root: &Path, path: PathBuf, device: u64) -> Outcome<Found> {
    let full = root.join(&path);
    let meta = full
        .symlink_metadata()
        .map_err(|e| io_refusal("read", &full, &e))?;
    let kind = meta.file_type();
    let what = if kind.is_dir() {
        What::Folder
    } else if kind.is_file() {
        What::File
    } else if kind.is_symlink() {
        What::Link
    } else if kind.is_fifo() {
        What::Special("pipe")
    } else if kind.is_socket() {
        What::Special("socket")
    } else {
        What::Special("device")
    };
    if meta.dev() != device {
        let e = io::Error::other("another file system is mounted there");
        return Err(io_refusal("move", &full, &e));
    }
    Ok(Found {
        path,
        what,
        mode: meta.mode() & 0o7777,
        size: meta.len(),
        inode: meta.ino(),
        links: meta.nlink(),
        changed: (meta.ctime(), meta.ctime_nsec()),
    })
}
