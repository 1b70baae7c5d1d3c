//! Watches whole trees of folders for changes.
//!
//! What must hold:
//! - [`Trees::wait`] reports every change that begins after [`Trees::add`] returned, with its tree.
//! - [`Changes::folders`] lists new folders, so that the caller can watch them too.
//! - If the kernel's event queue overflows, [`Changes::anything`] is set: every tree may have changed.
//!
//! Limitations: only Linux reports changes (inotify). Elsewhere, and when the kernel's number of watches is used up, every
//! wait sleeps for its whole time and sets [`Changes::anything`]. Writes through a memory map are not reported.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Changes since the last wait.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Folders with changes, by the caller's number of their tree.
    pub trees: BTreeMap<usize, BTreeSet<PathBuf>>,
    /// The changes are unknown: compare everything.
    pub anything: bool,
    /// New folders, each with its tree. They are watched once the caller passes them to [`Trees::add`].
    pub folders: Vec<(usize, PathBuf)>,
}

#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Trees {
    fd: std::os::fd::OwnedFd,
    watched: std::collections::HashMap<i32, (usize, PathBuf)>,
    /// The kernel allows no more watches.
    full: bool,
}

#[cfg(target_os = "linux")]
impl Trees {
    pub fn new() -> io::Result<Self> {
        use rustix::fs::inotify::{self, CreateFlags};
        Ok(Self {
            fd: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            watched: std::collections::HashMap::new(),
            full: false,
        })
    }

    /// Whether changes are not reported, so that the caller has to poll.
    pub fn is_blind(&self) -> bool {
        self.full
    }

    /// Watches a folder and, if `deep`, all folders below it except those that `leave_out` names.
    pub fn add(&mut self, tree: usize, folder: &Path, deep: bool, leave_out: &dyn Fn(&Path) -> bool) {
        use rustix::fs::inotify::{self, WatchFlags};
        let what = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DONT_FOLLOW
            | WatchFlags::ONLYDIR;
        let mut next = vec![folder.to_owned()];
        while let Some(folder) = next.pop() {
            match inotify::add_watch(&self.fd, &folder, what) {
                Ok(wd) => drop(self.watched.insert(wd, (tree, folder.clone()))),
                Err(rustix::io::Errno::NOSPC | rustix::io::Errno::NOMEM) => {
                    self.full = true;
                    return;
                }
                // Already deleted, or not a folder.
                Err(_) => continue,
            }
            if !deep {
                continue;
            }
            // Listed after the watch is set: a folder that appears in between is seen twice rather than never.
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !leave_out(&path) {
                    next.push(path);
                }
            }
        }
    }

    /// Waits for a change, at most `longest`.
    pub fn wait(&mut self, longest: Duration) -> io::Result<Changes> {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::fs::inotify::{ReadFlags, Reader};
        use std::os::unix::ffi::OsStrExt as _;
        if self.full {
            std::thread::sleep(longest);
            return Ok(Changes {
                anything: true,
                ..Changes::default()
            });
        }
        let time = rustix::time::Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Changes::default()),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let mut changes = Changes::default();
        let mut buffer = [std::mem::MaybeUninit::<u8>::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        // An error means that no event is left.
        while let Ok(event) = reader.next() {
            let (wd, flags) = (event.wd(), event.events());
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                changes.anything = true;
                continue;
            }
            if flags.contains(ReadFlags::IGNORED) {
                self.watched.remove(&wd);
                continue;
            }
            let Some((tree, folder)) = self.watched.get(&wd) else {
                continue;
            };
            changes.trees.entry(*tree).or_default().insert(folder.clone());
            let appeared = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
            if let Some(name) = event.file_name()
                && appeared
                && flags.contains(ReadFlags::ISDIR)
            {
                let name = std::ffi::OsStr::from_bytes(name.to_bytes());
                changes.folders.push((*tree, folder.join(name)));
            }
        }
        Ok(changes)
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Trees;

#[cfg(not(target_os = "linux"))]
impl Trees {
    pub fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub fn is_blind(&self) -> bool {
        true
    }

    pub fn add(&mut self, _tree: usize, _folder: &Path, _deep: bool, _leave_out: &dyn Fn(&Path) -> bool) {}

    pub fn wait(&mut self, longest: Duration) -> io::Result<Changes> {
        std::thread::sleep(longest);
        Ok(Changes {
            anything: true,
            ..Changes::default()
        })
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h8_a_change_deep_in_a_tree_is_told_with_its_tree() {
        let dir = tempfile::tempdir().expect("a folder");
        for below in ["a/b/c", "a/skipped/x", "z"] {
            std::fs::create_dir_all(dir.path().join(below)).expect("a folder");
        }
        let mut trees = Trees::new().expect("a watch");
        let leave_out = |path: &Path| path.ends_with("skipped");
        trees.add(0, &dir.path().join("a"), true, &leave_out);
        trees.add(7, &dir.path().join("z"), true, &leave_out);
        let quiet = Duration::ZERO;
        assert_eq!(trees.wait(quiet).expect("waits"), Changes::default());
        std::fs::write(dir.path().join("a/skipped/x/f"), "1").expect("writes");
        assert_eq!(trees.wait(quiet).expect("waits"), Changes::default());
        std::fs::write(dir.path().join("a/b/c/f"), "1").expect("writes");
        let told = trees.wait(quiet).expect("waits");
        let there = BTreeSet::from([dir.path().join("a/b/c")]);
        assert_eq!(told.trees, BTreeMap::from([(0, there)]));
        std::fs::create_dir(dir.path().join("z/new")).expect("a folder");
        let told = trees.wait(quiet).expect("waits");
        assert_eq!(told.folders, [(7, dir.path().join("z/new"))]);
        trees.add(7, &dir.path().join("z/new"), true, &leave_out);
        std::fs::remove_file(dir.path().join("a/b/c/f")).expect("removes");
        std::fs::write(dir.path().join("z/new/f"), "1").expect("writes");
        let told = trees.wait(quiet).expect("waits");
        assert_eq!(told.trees.keys().copied().collect::<Vec<_>>(), [0, 7]);
    }
}
