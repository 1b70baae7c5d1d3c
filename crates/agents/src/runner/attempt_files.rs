//! The folder of an attempt: its file names, and how they are read and written.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jit_os::process::ProcessRef;
use jit_os::{clock, file, random};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::job::{Exit, Job, Stop};

/// Maximum size of our files, except events and logs.
const MOST: u64 = 8 << 20;
/// Bytes of reserved disk space, released for `exit.json` if the disk is full.
const SPARE: usize = 32 << 10;
/// The variable that identifies all processes that an agent started.
const MARK: &str = "JIT_MARK";

/// The lock of an attempt. Unlocked explicitly: a process that is being spawned may hold a copy of the descriptor, and
/// closing ours would keep the lock held until that copy is closed.
#[derive(Debug)]
pub struct AttemptLock(File);

impl Drop for AttemptLock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// The path of an attempt's folder. Nothing is read yet.
#[derive(Debug, Clone)]
pub struct AttemptFiles {
    pub folder: PathBuf,
}

/// The processes of an attempt: `process.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// The boot id of the machine; pids are valid only within one boot.
    pub boot: String,
    /// `NAME=value` in the environment of all processes that the agent started.
    pub mark: String,
    /// Wall clock, milliseconds.
    pub started_at: i64,
    pub shim: ProcessRef,
    /// Missing if the agent exited before it could be inspected.
    pub agent: Option<ProcessRef>,
    /// All descendants of the shim at its last scan.
    #[serde(default)]
    pub family: Vec<ProcessRef>,
}

impl Processes {
    /// The processes that may be signaled: none if the machine has been rebooted.
    pub fn to_end(&self) -> Vec<ProcessRef> {
        if clock::boot_id().ok().as_deref() != Some(self.boot.as_str()) {
            return Vec::new();
        }
        self.agent
            .into_iter()
            .chain(self.family.iter().copied())
            .collect()
    }
}

impl AttemptFiles {
    pub fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    pub fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let Some(bytes) = file::read_real(&self.path(name), MOST)? else {
            return Ok(None);
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: {e}", self.path(name).display()),
            )
        })
    }

    pub fn job(&self) -> io::Result<Job> {
        let mut job: Job = self.read("job.json")?.ok_or_else(|| {
            let message = format!("{} is not there", self.path("job.json").display());
            io::Error::new(io::ErrorKind::NotFound, message)
        })?;
        if job.prompt_file.as_os_str().is_empty() {
            job.prompt_file = self.path("prompt.md");
        }
        Ok(job)
    }

    pub fn exit(&self) -> io::Result<Option<Exit>> {
        self.read("exit.json")
    }

    pub fn processes(&self) -> io::Result<Option<Processes>> {
        self.read("process.json")
    }

    pub fn stop(&self) -> io::Result<Option<Stop>> {
        self.read("stop")
    }

    /// Atomic and synced.
    pub fn put(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        file::put_like_parent(&self.path(name), &json(value)?)
    }

    /// Atomic, not synced: useless after a power loss.
    pub fn put_quick(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        file::replace_unsynced(&self.path(name), &json(value)?)
    }

    /// Marks this attempt as started and returns the mark for its agent. `None` if it was started before.
    pub fn begin(&self) -> io::Result<Option<String>> {
        let mark = format!("{MARK}={:032x}", random::u128()?);
        let line = format!("{mark}\n");
        let mode = file::mode_within(&self.folder)?;
        let begun = file::create_with(&self.path("started"), line.as_bytes(), Some(mode))?;
        Ok(begun.then_some(mark))
    }

    /// The mark of a started attempt. `None` if it was not started, or the file is damaged.
    pub fn mark(&self) -> io::Result<Option<String>> {
        let bytes = file::read_real(&self.path("started"), MOST)?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text
            .map(|text| text.trim_end().to_owned())
            .filter(|mark| mark.len() == MARK.len() + 33 && mark.starts_with(MARK)))
    }

    /// Acquires the lock that a shim holds while it lives. `None` if it stays locked for `patience`. Readers hold it
    /// briefly.
    pub fn lock(&self, patience: Duration, give_up: impl Fn() -> bool) -> io::Result<Option<AttemptLock>> {
        let until = Instant::now() + patience;
        let file = file::open_lock(&self.path("shim.lock"))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(AttemptLock(file))),
                Err(std::fs::TryLockError::Error(e)) => return Err(e),
                Err(std::fs::TryLockError::WouldBlock) if give_up() || Instant::now() >= until => {
                    return Ok(None);
                }
                Err(std::fs::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Whether a shim lives, or the attempt is being buried.
    pub fn is_locked(&self) -> io::Result<bool> {
        file::is_locked(&self.path("shim.lock"))
    }

    /// Reserves disk space for [`AttemptFiles::free_spare`]. The agent starts even if that fails.
    pub fn take_spare(&self) {
        let path = self.path("spare");
        let _ = file::replace_unsynced(&path, &vec![b'.'; SPARE]);
    }

    pub fn free_spare(&self) {
        let _ = std::fs::remove_file(self.path("spare"));
    }
}

fn json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value).map_err(io::Error::other)?;
    bytes.push(b'\n');
    Ok(bytes)
}
