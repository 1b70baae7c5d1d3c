//! The port to the file system: the few operations that the store needs.
//!
//! The store reads and writes every byte through [`Disk`]. So tests can use a disk that fails at the n-th call, loses
//! unsynced data, or stops a process in between. Paths are relative to the control directory and consist of the store's
//! own names only.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jit_os::alarm::Alarm;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    Read,
    /// Read and write; must be there.
    Existing,
    /// Read and write; created empty when missing.
    Write,
    /// Read and write; emptied when there.
    Fresh,
    /// Read and write; a file that no other process has open. Its content is arbitrary.
    Spare,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta {
    pub len: u64,
    pub inode: u64,
    /// Nanoseconds of the last change of the inode.
    pub changed: i128,
    /// It is not a file.
    pub special: bool,
}

pub trait DiskFile: Debug + Send {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize>;
    /// Reads into the spare capacity of `buf`, which need not be zeroed.
    fn read_more(&self, buf: &mut Vec<u8>, at: u64) -> io::Result<usize> {
        let len = buf.len();
        buf.resize(buf.capacity(), 0);
        let read = self.read_at(&mut buf[len..], at);
        buf.truncate(len + read.as_ref().unwrap_or(&0));
        read
    }
    /// May write less than asked for, as the system call may.
    fn write_at(&self, buf: &[u8], at: u64) -> io::Result<usize>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    fn meta(&self) -> io::Result<Meta>;
    /// Syncs the data, and as much metadata as reading it back needs.
    fn sync(&self) -> io::Result<()>;
}

/// Dropping it releases the lock; the file stays.
pub trait LockGuard: Debug {
    /// The lock file itself; the store keeps a few bytes in it.
    fn file(&self) -> &dyn DiskFile;
    /// Releases the lock but keeps the file open.
    fn release(&mut self) -> io::Result<()>;
    /// A second descriptor of the lock, to pass to child processes: the lock is held until the last process that has it
    /// exits, or until [`Self::release`]. `None` if the lock is not a kernel lock.
    fn shared(&self) -> Option<File> {
        None
    }
}

pub trait Disk: Debug + Send + Sync {
    fn open(&self, path: &str, how: OpenMode) -> io::Result<Box<dyn DiskFile>>;
    fn meta(&self, path: &str) -> io::Result<Option<Meta>>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Like `rename` over an existing file, but a power loss may leave any of its content. The old file may stay behind
    /// as `from`.
    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename(from, to)
    }
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Moves away what is not a file where the store keeps a file of its own. Returns whether there was something.
    fn put_aside(&self, _path: &str) -> io::Result<bool> {
        Ok(false)
    }
    /// Names in a directory, in no order; empty if there is no such directory.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    fn make_dir(&self, dir: &str) -> io::Result<()>;
    /// The empty name is the control directory itself.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;
    /// Waits in the kernel's queue; fails with `ErrorKind::TimedOut` after `wait`.
    fn lock(&self, path: &str, wait: Duration) -> io::Result<Box<dyn LockGuard>>;
    /// Like [`Self::lock`], for a program that waits in its first thread and has no other use for the alarm timer of the
    /// process. It needs no thread: if many processes wait, threads are most of the cost.
    fn lock_alone(&self, path: &str, wait: Duration) -> io::Result<Box<dyn LockGuard>> {
        self.lock(path, wait)
    }
    /// For messages only.
    fn show(&self, path: &str) -> PathBuf;
}

/// Writes all of `buf`. After an error any part of it may have been written.
pub fn write_all_at(file: &dyn DiskFile, mut buf: &[u8], mut at: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match file.write_at(buf, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                buf = &buf[n..];
                at += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads up to `len` bytes, less only at the end of the file.
pub fn read_range(file: &dyn DiskFile, at: u64, len: usize) -> io::Result<Vec<u8>> {
    read_range_into(file, at, len, Vec::new())
}

/// Like [`read_range`], reusing the memory of `buf`.
pub fn read_range_into(file: &dyn DiskFile, at: u64, len: usize, mut buf: Vec<u8>) -> io::Result<Vec<u8>> {
    // Grows with the data that is read: `len` may come from a corrupt file.
    const STEP: usize = 4 << 20;
    buf.clear();
    buf.reserve_exact(len.min(STEP));
    while buf.len() < len {
        if buf.len() == buf.capacity() {
            buf.reserve_exact(buf.len().min(len - buf.len()));
        }
        let next = at + buf.len() as u64;
        match file.read_more(&mut buf, next) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    // The buffer may have more capacity than `len`.
    buf.truncate(len);
    Ok(buf)
}

/// `None` when the file is not there.
pub fn open_if_there(disk: &dyn Disk, path: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
    match disk.open(path, OpenMode::Read) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Opens a file of the store that can be made again. Moves away what is not a file in its place.
pub fn open_in_place(disk: &dyn Disk, path: &str, how: OpenMode) -> io::Result<Box<dyn DiskFile>> {
    match disk.open(path, how) {
        Err(e) if disk.put_aside(path).unwrap_or(false) => {
            drop(e);
            disk.open(path, how)
        }
        opened => opened,
    }
}

/// A real directory.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    dir: OwnedFd,
    /// Permission bits for new files, taken from the directory: 0700 gives 0600, a shared 2770 gives 0660.
    file_mode: Mode,
    dir_mode: Mode,
}

impl RealDisk {
    /// Opens the control directory. Refuses a symbolic link or a file in its place: they could redirect the store.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::open(root, flags, Mode::empty()) {
            Ok(dir) => dir,
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
                return Err(io::Error::new(
                    io::ErrorKind::NotADirectory,
                    "it is a symbolic link or a file where jit keeps its own directory; move it away",
                ));
            }
            Err(e) => return Err(e.into()),
        };
        let bits = rustix::fs::fstat(&dir)?.st_mode & 0o7777;
        Ok(Self {
            root: root.to_owned(),
            dir,
            file_mode: Mode::from_bits_truncate(bits & 0o666),
            dir_mode: Mode::from_bits_truncate(bits),
        })
    }

    /// Opens a regular file, without following symbolic links and without waiting for a pipe.
    fn open_file(&self, path: &str, flags: OFlags, mode: Mode) -> io::Result<File> {
        use rustix::io::Errno;
        let quick = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = match self.openat(path, quick, mode) {
            // Another process has a lease on the file for a moment. What is not a file has no leases.
            Err(Errno::AGAIN) if self.is_file(path)? => {
                self.openat(path, quick.difference(OFlags::NONBLOCK), mode)?
            }
            // A pipe without a reader, or a socket.
            Err(Errno::NXIO) => return Err(jit_os::file::not_a_file()),
            opened => opened?,
        };
        match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
            FileType::RegularFile => Ok(fd.into()),
            _ => Err(jit_os::file::not_a_file()),
        }
    }

    fn is_file(&self, path: &str) -> io::Result<bool> {
        let stat = rustix::fs::statat(&self.dir, path, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    /// Opens without following symbolic links, neither for the file nor for its folder.
    #[cfg(target_os = "linux")]
    fn openat(&self, path: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        use rustix::fs::ResolveFlags;
        use rustix::io::Errno;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        match rustix::fs::openat2(&self.dir, path, flags, mode, resolve) {
            // Kernels before 5.6, and sandboxes that deny the call.
            Err(Errno::NOSYS | Errno::PERM) => rustix::fs::openat(&self.dir, path, flags, mode),
            // Interrupted by a rename elsewhere: the kernel asks to try again.
            Err(Errno::AGAIN) => rustix::fs::openat(&self.dir, path, flags, mode),
            opened => opened,
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn openat(&self, path: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(&self.dir, path, flags, mode)
    }

    fn open_raw(&self, path: &str, flags: OFlags) -> io::Result<File> {
        // Opening first without creating saves the change of mode that follows a creation.
        match self.open_file(path, flags, Mode::empty()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && flags.contains(OFlags::RDWR) => {
                let file = self.open_file(path, flags | OFlags::CREATE, self.file_mode)?;
                // The umask may have taken bits that a shared repository needs.
                if self.file_mode.intersects(Mode::RWXG | Mode::RWXO) {
                    rustix::fs::fchmod(&file, self.file_mode)?;
                }
                Ok(file)
            }
            opened => opened,
        }
    }
}

impl RealDisk {
    fn open_spare(&self, path: &str) -> io::Result<File> {
        let file = self.open_raw(path, OFlags::RDWR)?;
        if jit_os::file::only_ours(&file) {
            return Ok(file);
        }
        // A reader that opened the file under its other name may still be reading.
        self.remove(path)?;
        self.open_raw(path, OFlags::RDWR)
    }
}

/// The result of an attempt to lock without waiting.
enum Tried {
    Have(RealLock),
    Taken(File),
}

impl RealDisk {
    fn try_lock(&self, path: &str, wait: Duration) -> io::Result<Tried> {
        let file = self.open_raw(path, OFlags::RDWR)?;
        match file.try_lock() {
            Ok(()) => Ok(Tried::Have(RealLock(RealFile(file)))),
            Err(std::fs::TryLockError::WouldBlock) if wait.is_zero() => Err(io::ErrorKind::TimedOut.into()),
            Err(std::fs::TryLockError::WouldBlock) => Ok(Tried::Taken(file)),
            Err(std::fs::TryLockError::Error(e)) => Err(e),
        }
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &str, how: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let flags = match how {
            OpenMode::Read => OFlags::RDONLY,
            OpenMode::Existing => {
                let file = self.open_file(path, OFlags::RDWR, Mode::empty())?;
                return Ok(Box::new(RealFile(file)));
            }
            OpenMode::Write => OFlags::RDWR,
            OpenMode::Fresh => OFlags::RDWR | OFlags::TRUNC,
            OpenMode::Spare => return Ok(Box::new(RealFile(self.open_spare(path)?))),
        };
        Ok(Box::new(RealFile(self.open_raw(path, flags)?)))
    }

    fn meta(&self, path: &str) -> io::Result<Option<Meta>> {
        match rustix::fs::statat(&self.dir, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(meta_of(&stat))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.dir, from, &self.dir, to)?)
    }

    /// A plain rename over a file makes ext4 write the new one out at once (`auto_da_alloc`). That costs more than
    /// everything else in a command except its sync, and slows the sync down. Exchanging the two names is as atomic for
    /// readers and writes nothing. The old file is reused the next time ([`OpenMode::Spare`]), which saves creating an
    /// inode and freeing one.
    #[cfg(target_os = "linux")]
    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        match rustix::fs::renameat_with(&self.dir, from, &self.dir, to, flags) {
            Ok(()) => Ok(()),
            // There is no old file, or the file system has no exchange.
            Err(_) => self.rename(from, to),
        }
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.dir, path, AtFlags::empty())?)
    }

    fn put_aside(&self, path: &str) -> io::Result<bool> {
        match self.is_file(path) {
            Ok(false) => {}
            Ok(true) => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        }
        let aside = format!("{path}.{:016x}.aside", jit_os::random::u64()?);
        self.rename(path, &aside)?;
        Ok(true)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.dir, dir, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(rustix::io::Errno::NOENT) => return Ok(Vec::new()),
            Err(e) => return Err(e.into()),
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(fd)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
                && entry.file_type() != FileType::Directory
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn make_dir(&self, dir: &str) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.dir, dir, self.dir_mode) {
            Ok(()) => {
                if self.dir_mode.intersects(Mode::RWXG | Mode::RWXO) {
                    rustix::fs::chmodat(&self.dir, dir, self.dir_mode, AtFlags::empty())?;
                }
                Ok(())
            }
            Err(rustix::io::Errno::EXIST) => {
                let stat = rustix::fs::statat(&self.dir, dir, AtFlags::SYMLINK_NOFOLLOW)?;
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => Ok(()),
                    _ => Err(io::ErrorKind::NotADirectory.into()),
                }
            }
            Err(e) => Err(e.into()),
        }
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = if dir.is_empty() { "." } else { dir };
        let fd = rustix::fs::openat(&self.dir, dir, flags, Mode::empty())?;
        Ok(rustix::fs::fsync(fd)?)
    }

    fn lock(&self, path: &str, wait: Duration) -> io::Result<Box<dyn LockGuard>> {
        let file = match self.try_lock(path, wait)? {
            Tried::Have(lock) => return Ok(Box::new(lock)),
            Tried::Taken(file) => file,
        };
        // Polling would starve some processes, so a thread waits in the kernel's queue and this one watches the time.
        // After a timeout that thread stays behind. If it acquires the lock later, sending fails, the file is dropped,
        // and that releases the lock.
        let (give, take) = std::sync::mpsc::channel();
        std::thread::Builder::new()
            .name("lock-wait".into())
            .spawn(move || {
                let locked = file.lock().map(|()| file);
                let _ = give.send(locked);
            })?;
        match take.recv_timeout(wait) {
            Ok(locked) => Ok(Box::new(RealLock(RealFile(locked?)))),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn lock_alone(&self, path: &str, wait: Duration) -> io::Result<Box<dyn LockGuard>> {
        let file = match self.try_lock(path, wait)? {
            Tried::Have(lock) => return Ok(Box::new(lock)),
            Tried::Taken(file) => file,
        };
        let since = Instant::now();
        let _alarm = Alarm::after(wait)?;
        loop {
            match rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Box::new(RealLock(RealFile(file)))),
                // Another signal, such as the one for a resized terminal.
                Err(rustix::io::Errno::INTR) if since.elapsed() < wait => {}
                Err(rustix::io::Errno::INTR) => return Err(io::ErrorKind::TimedOut.into()),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn show(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }
}

#[derive(Debug)]
struct RealFile(File);

#[cfg_attr(
    target_os = "linux",
    expect(clippy::unnecessary_cast, reason = "the field types differ between systems")
)]
fn meta_of(stat: &rustix::fs::Stat) -> Meta {
    Meta {
        len: u64::try_from(stat.st_size).unwrap_or(0),
        inode: stat.st_ino as u64,
        changed: i128::from(stat.st_ctime as i64) * 1_000_000_000 + stat.st_ctime_nsec as i128,
        special: FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile,
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(buf, at)
    }

    fn read_more(&self, buf: &mut Vec<u8>, at: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(
            &self.0,
            rustix::buffer::spare_capacity(buf),
            at,
        )?)
    }

    fn write_at(&self, buf: &[u8], at: u64) -> io::Result<usize> {
        self.0.write_at(buf, at)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn meta(&self) -> io::Result<Meta> {
        Ok(meta_of(&rustix::fs::fstat(self.0.as_fd())?))
    }

    fn sync(&self) -> io::Result<()> {
        // On macOS the standard library asks the drive itself (F_FULLFSYNC). Not run here.
        self.0.sync_data()
    }
}

#[derive(Debug)]
struct RealLock(RealFile);

impl LockGuard for RealLock {
    fn file(&self) -> &dyn DiskFile {
        &self.0
    }

    fn release(&mut self) -> io::Result<()> {
        self.0.0.unlock()
    }

    fn shared(&self) -> Option<File> {
        self.0.0.try_clone().ok()
    }
}
