//! The lock file `locks/control.lock`: the kernel's lock that serializes writers, and a few bytes kept in the file.
//!
//! Format: three slots at offsets 0, 64 and 128 (a number of twenty digits, a space, its checksum, a newline), then the
//! last holder as JSON at offset 256, padded with spaces to 512 bytes. All are written in place.
//!
//! What must hold: the file is never unlinked. A slot that fails its checksum counts as unset, except the suspect slot:
//! that one then suspects every segment.

use std::io;

use jit_core::model::actor::Actor;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::model::time::BootId;
use xxhash_rust::xxh3::xxh3_64;

use super::FileStore;
use crate::disk::{DiskFile, LockGuard, open_if_there, read_range, write_all_at};
use crate::port::Outcome;

pub(super) const LOCK: &str = "locks/control.lock";

/// The three numbers in the lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Slots {
    /// Lines up to this sequence are surely on disk.
    pub synced: u64,
    /// A sync of the segment with this first sequence has failed.
    pub suspect: u64,
    /// Identifies the boot of the last writer.
    pub boot: u64,
}

pub(super) const SYNCED_AT: u64 = 0;
pub(super) const SUSPECT_AT: u64 = 64;
pub(super) const BOOT_AT: u64 = 128;
/// The last holder as JSON, padded with spaces to [`HOLDER_LEN`].
const HOLDER_AT: u64 = 256;
const HOLDER_LEN: usize = 512;
/// Twenty digits, a space, sixteen hex digits, a newline.
const SLOT_LEN: usize = 38;
const ANY_SEGMENT: u64 = u64::MAX;

impl Slots {
    pub fn read(file: &dyn DiskFile) -> io::Result<Self> {
        let bytes = read_range(file, 0, BOOT_AT as usize + SLOT_LEN)?;
        let slot = |at: u64| -> Option<u64> {
            let text = bytes.get(at as usize..at as usize + 37)?;
            let (number, sum) = std::str::from_utf8(text).ok()?.split_once(' ')?;
            let sum = u64::from_str_radix(sum, 16).ok()?;
            (sum == xxh3_64(number.as_bytes())).then_some(number.parse().ok()?)
        };
        // A corrupt or half-written suspect mark counts as a mark on every segment.
        let marked = bytes
            .iter()
            .skip(SUSPECT_AT as usize)
            .take(SLOT_LEN)
            .any(|b| *b != 0);
        let garbled = if marked { ANY_SEGMENT } else { 0 };
        Ok(Self {
            synced: slot(SYNCED_AT).unwrap_or(0),
            suspect: slot(SUSPECT_AT).unwrap_or(garbled),
            boot: slot(BOOT_AT).unwrap_or(0),
        })
    }

    /// Whether a sync of that segment has failed.
    pub fn suspects(self, segment: u64) -> bool {
        self.suspect == segment || self.suspect == ANY_SEGMENT
    }

    pub fn write(file: &dyn DiskFile, at: u64, number: u64) -> io::Result<()> {
        let number = format!("{number:020}");
        let text = format!("{number} {:016x}\n", xxh3_64(number.as_bytes()));
        write_all_at(file, text.as_bytes(), at)
    }
}

pub(super) fn boot_mark(boot: &BootId) -> u64 {
    xxh3_64(boot.0.as_bytes())
}

impl FileStore {
    /// Stops all writers while the guard is held. Not reentrant.
    pub fn hold_still(&self, actor: &Actor) -> Outcome<Box<dyn LockGuard>> {
        self.lock(actor)
    }

    /// Acquires the store's lock and writes the holder into its file.
    pub(super) fn lock(&self, actor: &Actor) -> Outcome<Box<dyn LockGuard>> {
        let locked = if self.alone {
            self.disk.lock_alone(LOCK, self.lock_wait)
        } else {
            self.disk.lock(LOCK, self.lock_wait)
        };
        let guard = match locked {
            Ok(guard) => guard,
            Err(e) if e.kind() == io::ErrorKind::TimedOut => return Err(self.busy()),
            // The folder for locks is created with the log.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(self.no_log()),
            Err(e) => return Err(self.io("lock", LOCK, &e)),
        };
        // The holder is for people only, so an error is ignored.
        let _ = self.write_holder(guard.file(), actor);
        Ok(guard)
    }

    fn write_holder(&self, lock: &dyn DiskFile, actor: &Actor) -> io::Result<()> {
        let now = self.clock.now()?;
        let mut text = format!(
            "{{\"pid\":{},\"agent_id\":{},\"since\":\"{}\",\"ticks\":{}}}",
            std::process::id(),
            serde_json::to_string(actor.agent_id.as_str())?,
            now.wall,
            now.ticks,
        )
        .into_bytes();
        // Always the same length, so that it can be overwritten in place.
        text.resize(HOLDER_LEN - 1, b' ');
        text.push(b'\n');
        write_all_at(lock, &text, HOLDER_AT)
    }

    /// The last holder of the store's lock, from its file.
    pub fn lock_holder(&self) -> Option<serde_json::Value> {
        let file = open_if_there(&*self.disk, LOCK).ok()??;
        serde_json::from_slice(&read_range(&*file, HOLDER_AT, HOLDER_LEN).ok()?).ok()
    }

    fn busy(&self) -> Box<Refusal> {
        let waited = self.lock_wait.as_secs_f32();
        let mut message = format!("the store's lock was not free within {waited} s");
        let mut facts = vec![("lock", self.disk.show(LOCK).display().to_string())];
        if let Some(holder) = self.lock_holder() {
            let text = |name: &str| {
                holder
                    .get(name)
                    .map(|v| v.to_string().trim_matches('"').to_owned())
            };
            let (pid, agent, since) = (text("pid"), text("agent_id"), text("since"));
            // The file names the last holder that is jit; another program may hold the lock.
            let alive = |pid: u32| matches!(jit_os::process::start_time(pid), Ok(Some(_)));
            let there = pid.as_deref().and_then(|pid| pid.parse().ok()).is_some_and(alive);
            let how = if there {
                "held"
            } else {
                "held by a process that jit does not know; last held"
            };
            message.push_str(&format!(
                ": {how} by process {} of {} since {}",
                pid.as_deref().unwrap_or("?"),
                agent.as_deref().unwrap_or("?"),
                since.as_deref().unwrap_or("?")
            ));
            facts.extend(pid.map(|v| ("pid", v)));
            facts.extend(agent.map(|v| ("agent_id", v)));
            facts.extend(since.map(|v| ("since", v)));
        }
        Box::new(
            Refusal::new(Code::Busy, message)
                .help("run the command again, or give it more time with --lock-timeout 60s")
                .help("jit doctor")
                .details(Details::Facts(facts)),
        )
    }

    pub(super) fn slots(&self) -> Outcome<Slots> {
        let read = || match open_if_there(&*self.disk, LOCK)? {
            Some(file) => Slots::read(&*file),
            None => Ok(Slots::default()),
        };
        read().map_err(|e| self.io("read", LOCK, &e))
    }
}
