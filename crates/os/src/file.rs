//! Whole files that appear at once or not at all.
//!
//! Invariants: a reader sees the old content or the new one, never a part; what was written is on the disk before it
//! gets its name; of any number of writers of a new file exactly one succeeds.
//! Format: a file being written is called `<name>.<16 hex digits>.tmp` and lies beside its goal. A crash may leave
//! one behind; nobody ever reads it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::random;

/// Creates `path` with this content unless it exists. Says whether it did.
pub fn create(path: &Path, content: &[u8]) -> io::Result<bool> {
    create_with(path, content, None)
}

/// The same, with these permissions instead of what the umask leaves.
pub fn create_with(
    path: &Path,
    content: &[u8],
    permissions: Option<std::fs::Permissions>,
) -> io::Result<bool> {
    let temporary = Temporary::write(path, content, permissions)?;
    let moved = rustix::fs::renameat_with(
        rustix::fs::CWD,
        &temporary.path,
        rustix::fs::CWD,
        path,
        RenameFlags::NOREPLACE,
    );
    match moved {
        Ok(()) => {
            temporary.taken();
            sync_folder(path)?;
            Ok(true)
        }
        Err(Errno::EXIST) => Ok(false),
        // Some file systems cannot do that; a second name for the same file has the same effect.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            match std::fs::hard_link(&temporary.path, path) {
                Ok(()) => {
                    sync_folder(path)?;
                    Ok(true)
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Puts this content in place of whatever `path` holds, keeping its permissions. A symbolic link stays one: what it
/// leads to is replaced.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let goal = match std::fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let permissions = std::fs::metadata(&goal).ok().map(|meta| meta.permissions());
    let temporary = Temporary::write(&goal, content, permissions)?;
    std::fs::rename(&temporary.path, &goal)?;
    temporary.taken();
    sync_folder(&goal)
}

/// The same, but nothing is followed: a symbolic link in the file's place is replaced itself. For folders whose content
/// may come from a clone.
pub fn replace_here(path: &Path, content: &[u8]) -> io::Result<()> {
    let old = std::fs::symlink_metadata(path)
        .ok()
        .filter(std::fs::Metadata::is_file);
    let temporary = Temporary::write(path, content, old.map(|meta| meta.permissions()))?;
    std::fs::rename(&temporary.path, path)?;
    temporary.taken();
    sync_folder(path)
}

/// Replaces a file whole, or not at all, without waiting for the disk: for what can be made again. A symbolic link is
/// replaced, not followed. A new file is as open to others as its folder.
pub fn refresh(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = Temporary { path: beside(path)? };
    let file = match std::fs::symlink_metadata(path)
        .ok()
        .filter(std::fs::Metadata::is_file)
    {
        Some(old) => {
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&temporary.path)?;
            file.set_permissions(old.permissions())?;
            file
        }
        None => create_like_parent(&temporary.path)?,
    };
    (&file).write_all(content)?;
    std::fs::rename(&temporary.path, path)?;
    temporary.taken();
    Ok(())
}

/// Puts this content in place of whatever is there, synced, with the permissions of its folder.
pub fn put_like_parent(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = Temporary { path: beside(path)? };
    let mut file = create_like_parent(&temporary.path)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&temporary.path, path)?;
    temporary.taken();
    sync_folder(path)
}

/// Permissions of a new file in this folder.
pub fn mode_within(folder: &Path) -> io::Result<std::fs::Permissions> {
    let mode = std::fs::metadata(folder)?.permissions().mode() & 0o666;
    Ok(std::fs::Permissions::from_mode(mode))
}

/// Waits until these files and folders, all on the file system of `folder`, are on disk. Of many the whole file system is
/// synced instead, where that can be done: each by itself would wait for the disk once.
pub fn sync_all(folder: &Path, paths: &[std::path::PathBuf]) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if paths.len() > 64 {
        return Ok(rustix::fs::syncfs(File::open(folder)?)?);
    }
    let _ = folder;
    for path in paths {
        File::open(path)?.sync_all()?;
    }
    Ok(())
}

/// The content of a file, at most `most` bytes; `None` when there is none. Follows no symbolic link, waits for no pipe and
/// reads no device.
pub fn read_real(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    use std::io::Read as _;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    // A device may do something when it is opened: asked first, and again of what was opened.
    let not_a_file = || io::Error::new(io::ErrorKind::InvalidInput, "not a file");
    match path.symlink_metadata() {
        Ok(meta) if meta.is_file() => {}
        Ok(_) => return Err(not_a_file()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    }
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(not_a_file());
    }
    let larger = || {
        io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {} MiB", most >> 20),
        )
    };
    if meta.len() > most {
        return Err(larger());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(larger());
    }
    Ok(Some(bytes))
}

/// Makes a folder unless it is there. A symbolic link does not count as one.
pub fn ensure_real_dir(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match std::fs::symlink_metadata(path)?.is_dir() {
                true => Ok(()),
                false => Err(io::Error::new(
                    io::ErrorKind::NotADirectory,
                    format!(
                        "{} is a symbolic link or a file; jit does not write through it",
                        path.display()
                    ),
                )),
            }
        }
        made => made,
    }
}

/// Holds a kernel lock on a folder until dropped, waiting for it if need be. The folder itself is locked, so nothing
/// is left lying about. Not to be taken twice by one thread: the second would wait for the first.
pub fn lock_folder(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    file.lock()?;
    Ok(file)
}

/// Opens a file that is there to be locked, and makes it if need be. Never removed: of two files of one name two could be
/// locked.
pub fn open_lock(path: &Path) -> io::Result<File> {
    let open = || File::options().read(true).write(true).open(path);
    match open() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => match create_like_parent(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => open(),
            made => made,
        },
        opened => opened,
    }
}

/// Whether somebody has the lock of a file. To find out it is had for a moment: who takes such a lock needs some patience.
pub fn is_locked(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    match file.try_lock_shared() {
        // By hand: a copy of the descriptor may be in a process that somebody is just starting.
        Ok(()) => file.unlock().map(|()| false),
        Err(std::fs::TryLockError::WouldBlock) => Ok(true),
        Err(std::fs::TryLockError::Error(e)) => Err(e),
    }
}

/// A file as it was at some time: another file, or one that was written to, has another stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

/// The stamp of what is there; nothing is followed.
pub fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = path.symlink_metadata().ok()?;
    Some(Stamp {
        inode: meta.ino(),
        len: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
    })
}

/// Makes a folder unless it is there, with its parent's permissions: the control plane is private, or shared with a
/// group, as a whole.
pub fn make_dir_like_parent(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Ok(()) => std::fs::set_permissions(path, std::fs::metadata(folder_of(path))?.permissions()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ensure_real_dir(path),
        Err(error) => Err(error),
    }
}

/// A new file with its folder's permissions, less the right to search.
pub fn create_like_parent(path: &Path) -> io::Result<File> {
    let mode = std::fs::metadata(folder_of(path))?.permissions().mode() & 0o666;
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    if mode & 0o066 != 0 {
        // The umask may have taken bits that a shared repository needs.
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    }
    Ok(file)
}

/// Whether a file of this name is one that somebody was writing.
pub fn is_left_over(name: &str) -> bool {
    let digits = name.strip_suffix(".tmp").and_then(|name| name.rsplit_once('.'));
    digits.is_some_and(|(_, digits)| digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn left_overs(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(is_left_over)
                && entry.file_type().is_ok_and(|kind| kind.is_file())
        })
        .map(|entry| entry.path())
}

/// Whether there is something to [`sweep`].
pub fn has_left_overs(folder: &Path) -> bool {
    left_overs(folder).next().is_some()
}

/// Removes what killed writers left in a folder, and says how many that were. Only while nobody writes there.
pub fn sweep(folder: &Path) -> usize {
    left_overs(folder)
        .filter(|path| std::fs::remove_file(path).is_ok())
        .count()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// Removed when dropped, unless it became something.
struct Temporary {
    path: PathBuf,
}

/// A name of its own in the same folder.
fn beside(goal: &Path) -> io::Result<PathBuf> {
    let name = goal
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?;
    let mut own = OsString::from(name);
    own.push(format!(".{:016x}.tmp", random::u64()?));
    Ok(folder_of(goal).join(own))
}

impl Temporary {
    fn write(goal: &Path, content: &[u8], permissions: Option<std::fs::Permissions>) -> io::Result<Self> {
        let path = beside(goal)?;
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let temporary = Self { path };
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.write_all(content)?;
        file.sync_all()?;
        Ok(temporary)
    }

    fn taken(self) {
        std::mem::forget(self);
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing depends on it being gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether nobody but us has this file open. `false` also where the system cannot tell.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "leases on files have no safe interface")]
pub fn only_ours(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    // From fcntl.h; the libc crate does not have it.
    const F_SETSIG: libc::c_int = 10;
    let fd = file.as_raw_fd();
    // The kernel grants a write lease only to the one who has the file open. Should somebody open it while the lease
    // is there, it tells us by a signal: one that does nothing.
    // SAFETY: numbers only; the descriptor is open.
    unsafe {
        libc::fcntl(fd, F_SETSIG, libc::SIGCHLD) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) == 0
    }
}

#[cfg(not(target_os = "linux"))]
pub fn only_ours(_file: &File) -> bool {
    false
}

/// Puts a file in place whole, without waiting for the disk: for what means nothing after a power loss.
pub fn replace_unsynced(goal: &Path, content: &[u8]) -> io::Result<()> {
    let beside = goal.with_extension(format!("{:016x}.tmp", random::u64()?));
    let written = create_like_parent(&beside)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| std::fs::rename(&beside, goal));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_creates_and_nothing_is_left_over() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("x");
        let winners: usize = std::thread::scope(|scope| {
            let all: Vec<_> = (0..16)
                .map(|n| {
                    let path = &path;
                    scope.spawn(move || create(path, format!("{n}").as_bytes()).expect("create"))
                })
                .collect();
            all.into_iter()
                .map(|one| usize::from(one.join().expect("thread")))
                .sum()
        });
        assert_eq!(winners, 1);
        assert_eq!(std::fs::read_dir(folder.path()).expect("list").count(), 1);
    }

    #[test]
    fn replacing_keeps_mode_and_link() {
        let folder = tempfile::tempdir().expect("folder");
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, "old").expect("write");
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).expect("mode");
        std::os::unix::fs::symlink("real", &link).expect("link");
        replace(&link, b"new").expect("replace");
        assert_eq!(std::fs::read(&real).expect("read"), b"new");
        assert!(link.is_symlink());
        let mode = std::fs::metadata(&real).expect("meta").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }
}
