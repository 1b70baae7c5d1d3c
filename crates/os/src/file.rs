//! Files that are written atomically.
//!
//! What must hold:
//! - A reader sees the old content or the new content, never a part.
//! - Content is on disk before the file gets its name.
//! - Of several writers that create the same file, exactly one succeeds.
//!
//! Format: a file that is being written is called `<name>.<16 hex digits>.tmp` and lies beside its target. A crash may
//! leave one behind; it is never read.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::random;

/// Creates `path` with this content unless it exists. Returns whether it did.
pub fn create(path: &Path, content: &[u8]) -> io::Result<bool> {
    create_with(path, content, None)
}

/// Like [`create`], with these permissions instead of those of the umask.
pub fn create_with(
    path: &Path,
    content: &[u8],
    permissions: Option<std::fs::Permissions>,
) -> io::Result<bool> {
    let temporary = Temporary::write(path, content, permissions)?;
    let made = temporary.take_name(path)?;
    if made {
        sync_folder(path)?;
    }
    Ok(made)
}

/// Creates `path` with this content unless it exists, without waiting for the disk. The file gets the permissions of its
/// folder. Returns whether it did.
pub fn create_unsynced(path: &Path, content: &[u8]) -> io::Result<bool> {
    let temporary = Temporary { path: beside(path)? };
    create_like_parent(&temporary.path)?.write_all(content)?;
    temporary.take_name(path)
}

/// Replaces the content of `path` and keeps its permissions. Follows a symbolic link: its target is replaced.
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

/// Like [`replace`], with these permissions.
pub fn replace_with(path: &Path, content: &[u8], permissions: std::fs::Permissions) -> io::Result<()> {
    let temporary = Temporary::write(path, content, Some(permissions))?;
    std::fs::rename(&temporary.path, path)?;
    temporary.taken();
    sync_folder(path)
}

/// Like [`replace`], but replaces a symbolic link itself. For folders whose content may come from a clone.
pub fn replace_here(path: &Path, content: &[u8]) -> io::Result<()> {
    let old = std::fs::symlink_metadata(path)
        .ok()
        .filter(std::fs::Metadata::is_file);
    let temporary = Temporary::write(path, content, old.map(|meta| meta.permissions()))?;
    std::fs::rename(&temporary.path, path)?;
    temporary.taken();
    sync_folder(path)
}

/// Like [`replace_here`], with these permissions.
pub fn replace_here_with(path: &Path, content: &[u8], permissions: std::fs::Permissions) -> io::Result<()> {
    let temporary = Temporary::write(path, content, Some(permissions))?;
    std::fs::rename(&temporary.path, path)?;
    temporary.taken();
    sync_folder(path)
}

/// Replaces a file atomically without waiting for the disk: for content that can be made again. Replaces a symbolic link
/// itself. A new file gets the permissions of its folder.
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

/// Replaces a file atomically without waiting for the disk. The file gets these permissions.
pub fn refresh_with(path: &Path, content: &[u8], permissions: std::fs::Permissions) -> io::Result<()> {
    let temporary = Temporary { path: beside(path)? };
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary.path)?;
    // The umask may have taken bits.
    file.set_permissions(permissions)?;
    (&file).write_all(content)?;
    std::fs::rename(&temporary.path, path)?;
    temporary.taken();
    Ok(())
}

/// Replaces a file and syncs it. The file gets the permissions of its folder.
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

/// Syncs these files and folders, which are all on the file system of `folder`. If there are many, syncs the whole file
/// system instead, where possible: that waits for the disk once and not once for each.
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

/// Reads a file of at most `most` bytes; `None` if it does not exist. Follows no symbolic link, waits for no pipe and reads
/// no device.
pub fn read_real(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    match open_and_look(path, OpenOptions::new().read(true)) {
        Ok((file, meta)) => read_open(&file, meta.len(), most).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads an open file to its end, and fails if it has more than `most` bytes. If it has no more than `expected`, that is one
/// system call: a short read has reached the end.
pub fn read_open(mut file: &File, expected: u64, most: u64) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let room = |expected: u64| usize::try_from(expected.min(most).saturating_add(1)).unwrap_or(usize::MAX);
    let larger = || {
        let why = format!("larger than {} MiB", most >> 20);
        io::Error::new(io::ErrorKind::FileTooLarge, why)
    };
    if expected > most {
        return Err(larger());
    }
    let mut bytes = vec![0; room(expected)];
    let mut filled = 0;
    loop {
        match file.read(bytes.get_mut(filled..).unwrap_or_default()) {
            Ok(count) => filled += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        if filled as u64 > most {
            return Err(larger());
        }
        if filled < bytes.len() {
            bytes.truncate(filled);
            return Ok(bytes);
        }
        let length = file.metadata()?.len();
        bytes.resize(room(length.max(2 * filled as u64)), 0);
    }
}

/// Reads a file of the system: one that only the system writes, or one of `/proc`.
pub(crate) fn read_systems(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read_open(&File::open(path)?, 4095, u64::MAX - 1)
}

/// Whether a regular file has exactly this content. Reads nothing if its length differs. Follows no symbolic link, waits for
/// no pipe and reads no device.
pub fn has_content(path: &Path, content: &[u8]) -> io::Result<bool> {
    use std::io::Read as _;
    let meta = path.symlink_metadata()?;
    if !meta.is_file() || meta.len() != content.len() as u64 {
        return Ok(false);
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut there = vec![0; content.len()];
    match file.read_exact(&mut there) {
        Ok(()) => Ok(there == content),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// The error for something that is not a file in the place of one.
pub fn not_a_file() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is not a regular file; move it away",
    )
}

/// Opens a file that must exist. Follows no symbolic link, waits for no pipe and opens no device.
pub fn open_real(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open_and_look(path, options).map(|(file, _)| file)
}

/// As [`open_real`]. Also returns what the system knows about the open file.
fn open_and_look(path: &Path, options: &mut OpenOptions) -> io::Result<(File, std::fs::Metadata)> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    // Opening a device may have an effect, so the type is checked before and after.
    if !path.symlink_metadata()?.is_file() {
        return Err(not_a_file());
    }
    let file = options.custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    match meta.is_file() {
        true => Ok((file, meta)),
        false => Err(not_a_file()),
    }
}

/// Creates a folder unless it exists. A symbolic link does not count as a folder.
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

/// Refuses a symbolic link at a path whose content may come from a clone. A path that does not exist is accepted.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_symlink() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is a symbolic link; jit follows no link there", path.display()),
        )),
        _ => Ok(()),
    }
}

/// Acquires a kernel lock on a folder, waiting for it if necessary; dropping the file releases it. The folder itself is
/// locked, so no lock file is left behind. Not reentrant: a thread that locks twice waits for itself.
pub fn lock_folder(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    file.lock()?;
    Ok(file)
}

/// Opens a lock file, creating it if necessary. Lock files are never removed: otherwise two processes could lock two files
/// of the same name.
pub fn open_lock(path: &Path) -> io::Result<File> {
    let open = || open_real(path, File::options().read(true).write(true));
    match open() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => match create_like_parent(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => open(),
            made => made,
        },
        opened => opened,
    }
}

/// Whether a process holds the lock of a file. The check acquires the lock for a moment, so callers that acquire it must
/// wait a little rather than fail at once.
pub fn is_locked(path: &Path) -> io::Result<bool> {
    let file = match open_real(path, File::options().read(true)) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    match file.try_lock_shared() {
        // Unlocked explicitly: a process that is just being started may have a copy of the descriptor.
        Ok(()) => file.unlock().map(|()| false),
        Err(std::fs::TryLockError::WouldBlock) => Ok(true),
        Err(std::fs::TryLockError::Error(e)) => Err(e),
    }
}

/// Identifies a version of a file: another file, or the same file after a write, has another stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

/// The stamp of a file; does not follow symbolic links.
pub fn stamp(path: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = path.symlink_metadata().ok()?;
    Some(Stamp {
        inode: meta.ino(),
        len: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
    })
}

/// Creates a folder unless it exists, with the permissions of its parent: the control plane is private, or shared with a
/// group, as a whole.
pub fn make_dir_like_parent(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Ok(()) => std::fs::set_permissions(path, std::fs::metadata(folder_of(path))?.permissions()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ensure_real_dir(path),
        Err(error) => Err(error),
    }
}

/// Creates a file with the permissions of its folder, without the executable bits.
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

/// Whether this is the name of a file that was being written.
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

/// Removes files that killed writers left in a folder and returns their number. Call only while nothing writes there.
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

/// A temporary file; removed when dropped, unless it was renamed.
struct Temporary {
    path: PathBuf,
}

/// An unused name in the same folder.
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
        let mut options = OpenOptions::new();
        if permissions.is_some() {
            // Not readable by others before it has its permissions.
            options.mode(0o600);
        }
        let mut file = options.write(true).create_new(true).open(&path)?;
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

    /// Gives the file this name unless it exists. Returns whether it did.
    fn take_name(self, path: &Path) -> io::Result<bool> {
        let moved = rustix::fs::renameat_with(
            rustix::fs::CWD,
            &self.path,
            rustix::fs::CWD,
            path,
            RenameFlags::NOREPLACE,
        );
        match moved {
            Ok(()) => {
                self.taken();
                Ok(true)
            }
            Err(Errno::EXIST) => Ok(false),
            // Some file systems have no such rename; a hard link has the same effect.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match std::fs::hard_link(&self.path, path)
            {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error),
            },
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Correctness does not depend on the removal.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether no other process has this file open. Also `false` if the system cannot tell.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "leases on files have no safe interface")]
pub fn only_ours(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    // From fcntl.h; the libc crate does not have it.
    const F_SETSIG: libc::c_int = 10;
    let fd = file.as_raw_fd();
    // The kernel grants a write lease only if no other process has the file open. If one opens it while the lease
    // exists, the kernel sends a signal: SIGCHLD, which does nothing.
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

/// Replaces a file atomically without waiting for the disk: for content that means nothing after a power loss.
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
    fn a2_an_open_file_is_read_to_its_end_whatever_was_expected() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("x");
        for length in [0, 1, 9, 10, 11, 5000, 100_000] {
            let content: Vec<u8> = (0..length).map(|at: u32| at as u8).collect();
            std::fs::write(&path, &content).expect("write");
            let read = |most| read_open(&File::open(&path).expect("open"), 10, most);
            assert_eq!(read(100_000).expect("read"), content);
            assert_eq!(read(u64::from(length).max(10)).expect("read"), content);
            if length > 10 {
                let error = read(u64::from(length) - 1).expect_err("too large");
                assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
            }
            let real = read_real(&path, u64::from(length)).expect("read");
            assert_eq!(real.expect("it is there"), content);
        }
    }

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
    fn only_the_same_content_of_a_regular_file_counts() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("x");
        assert!(has_content(&path, b"").is_err(), "not there");
        std::fs::write(&path, "abc").expect("write");
        for (content, same) in [
            ("abc", true),
            ("abd", false),
            ("ab", false),
            ("abcd", false),
            ("", false),
        ] {
            assert_eq!(
                has_content(&path, content.as_bytes()).expect("read"),
                same,
                "{content}"
            );
        }
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("x", &link).expect("link");
        assert!(!has_content(&link, b"abc").expect("a link"));
        assert!(!has_content(folder.path(), b"").expect("a folder"));
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
