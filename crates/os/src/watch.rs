//! Watches one folder for changes.
//!
//! Limitation: only Linux reports changes (inotify). Elsewhere the wait ends early and the caller polls.

use std::io;
use std::path::Path;
use std::time::Duration;

#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Watch(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl Watch {
    /// Watches for changes from now on, including those before the first [`Watch::wait`].
    pub fn on(folder: &Path) -> io::Result<Self> {
        use rustix::fs::inotify::WatchFlags;
        Self::of(
            folder,
            WatchFlags::MODIFY | WatchFlags::MOVED_TO | WatchFlags::CREATE,
        )
    }

    /// Watches for new files only, not for writes. For polling, see [`Watch::handle`].
    pub fn on_new_files(folder: &Path) -> io::Result<Self> {
        use rustix::fs::inotify::WatchFlags;
        Self::of(folder, WatchFlags::MOVED_TO | WatchFlags::CREATE)
    }

    fn of(folder: &Path, what: rustix::fs::inotify::WatchFlags) -> io::Result<Self> {
        use rustix::fs::inotify::{self, CreateFlags};
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&fd, folder, what)?;
        Ok(Self(fd))
    }

    /// A descriptor that is readable after a change.
    pub fn handle(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        use std::os::fd::AsFd as _;
        Some(self.0.as_fd())
    }

    /// Discards the changes up to now.
    pub fn clear(&self) {
        let mut buffer = [0u8; 4096];
        while rustix::io::read(&self.0, &mut buffer).is_ok_and(|n| n > 0) {}
    }

    /// Waits for a change, at most `longest`.
    pub fn wait(&self, longest: Duration) -> io::Result<()> {
        use rustix::event::{PollFd, PollFlags, poll};
        let time = rustix::time::Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        self.clear();
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Watch;

#[cfg(not(target_os = "linux"))]
impl Watch {
    pub fn on(_folder: &Path) -> io::Result<Self> {
        Ok(Self)
    }

    pub fn on_new_files(_folder: &Path) -> io::Result<Self> {
        Ok(Self)
    }

    /// This system has no descriptor to poll.
    pub fn handle(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    pub fn clear(&self) {}

    pub fn wait(&self, longest: Duration) -> io::Result<()> {
        std::thread::sleep(longest.min(Duration::from_millis(200)));
        Ok(())
    }
}
