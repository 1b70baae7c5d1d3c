//! The landing locks in files: `locks/land-<target>.lock` in the control directory.
//!
//! What must hold: opening a context costs nothing here. Files are opened when a lock is asked for.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_os::io_refusal;
use jit_store::Outcome;
use jit_store::disk::{Disk as _, LockGuard, RealDisk};

use crate::git_locks::holders;
use crate::ports::{HeldLock, TargetLock, TargetLocks};

const FOLDER: &str = "locks";

#[derive(Debug, Clone)]
pub struct FileTargetLocks {
    control: PathBuf,
}

impl FileTargetLocks {
    pub fn at(control_dir: &Path) -> Self {
        Self {
            control: control_dir.to_owned(),
        }
    }

    /// Opens the control directory, and makes the folder of locks.
    fn disk(&self) -> Outcome<RealDisk> {
        let disk = RealDisk::open(&self.control).map_err(|e| io_refusal("open", &self.control, &e))?;
        disk.make_dir(FOLDER)
            .map_err(|e| io_refusal("use", &self.control.join(FOLDER), &e))?;
        Ok(disk)
    }
}

/// The name of the lock file of a target.
fn file_name(target: &str) -> String {
    format!("{FOLDER}/land-{target}.lock")
}

impl TargetLocks for FileTargetLocks {
    fn lock(&self, target: &str, wait: Duration) -> Outcome<Option<TargetLock>> {
        let name = file_name(target);
        match self.disk()?.lock(&name, wait) {
            Ok(lock) => Ok(Some(TargetLock::new(KernelLock(lock)))),
            Err(e) if e.kind() == io::ErrorKind::TimedOut => Ok(None),
            Err(e) => Err(io_refusal("lock", &self.control.join(&name), &e)),
        }
    }

    fn known(&self) -> Outcome<Vec<String>> {
        self.disk()?;
        let folder = self.control.join(FOLDER);
        let unreadable = |e: io::Error| io_refusal("read", &folder, &e);
        let mut known = Vec::new();
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let name = name.to_string_lossy();
            let target = name
                .strip_prefix("land-")
                .and_then(|rest| rest.strip_suffix(".lock"));
            known.extend(target.map(str::to_owned));
        }
        Ok(known)
    }

    fn holders(&self, target: &str) -> Vec<String> {
        let all = holders(&[self.control.join(file_name(target))]).unwrap_or_default();
        all.iter().map(ToString::to_string).collect()
    }
}

#[derive(Debug)]
struct KernelLock(Box<dyn LockGuard>);

impl HeldLock for KernelLock {
    fn shared(&self) -> Option<File> {
        self.0.shared()
    }

    fn release(&mut self) {
        // The kernel releases it too, when the last process that has it exits.
        let _ = self.0.release();
    }
}
