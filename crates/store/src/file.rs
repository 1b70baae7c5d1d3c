//! The store in files: the write path and the read path.
//!
//! # The write path, and what each step may rely on
//!
//! 1. Wait for the kernel lock on `locks/control.lock`. The file is never unlinked.
//! 2. Load: the journal's last position must be the end of the log, checksum included; otherwise repair first.
//! 3. Decide.
//! 4. Append to the log with one write. Anything short of all of it is taken back.
//! 5. Bring the views and the journal up to date. They may fail: the log has the truth.
//! 6. Let the lock go, then sync the log. Many processes share one flush, and a yes covers every earlier line.
//! 7. If no sync of this segment has failed meanwhile, note how far it is synced, and say yes.
//!
//! A failed sync may have thrown dirty pages away while later syncs succeed. So the segment is marked suspect (in the
//! lock file), nobody says yes on top of it, and the next writer copies every line that is not surely on disk into a new
//! segment first. And should the process that saw the failure die before it could say so: step 4 writes the lines that
//! nobody has vouched for once more, together with the new ones, so that their pages are dirty again.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use jit_core::decide::{Answer, Draft, decide};
use jit_core::event::{Event, Request, SegmentReason, Stamped};
use jit_core::lease::Actor;
use jit_core::refusal::{Code, Details, Refusal, Stop};
use jit_core::state;
use jit_core::table::{Changes, Overlay, Table, Unreadable};
use jit_core::time::{BootId, Now, Wall};
use jit_core::wire::{encode_line, trailing_sum};
use jit_os::io_refusal;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::disk::{Disk, DiskFile, How, LockGuard, open_if_there, read_range, write_all_at};
use super::folded::{self, Folded};
use super::journal::{Ground, Position, ViewMarks};
use super::log::{self, Damage, Rules, Trouble};
use super::recover::Trust;
use super::{
    Ask, Clock, Done, LockHolder, LogReport, LogStamp, Outcome, Recovered, Store, Upkeep, View, WriteLock,
    refusals, views,
};

pub(super) const LOCK: &str = "locks/control.lock";
const COMPACT_LOCK: &str = "locks/compact.lock";
/// Made by `create`, in this order.
pub(super) const DIRS: &[&str] = &["events", "state", "locks", "heartbeat"];
/// A segment larger than this is sealed.
pub const SEGMENT_LIMIT: u64 = 16 << 20;
/// How long answers to requests are remembered.
const REQUEST_MEMORY_MS: i64 = 24 * 3600 * 1000;
const REQUEST_MEMORY_LINES: u64 = 10_000;

/// How much of the log's end is compared with the journal's copy by every command.
const LAST_LINES: usize = 16 * 1024;

/// A repository's control directory.
#[derive(Debug, Clone)]
pub struct FileStore {
    pub(super) disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    lock_wait: Duration,
    segment_limit: u64,
    journal_limit: u64,
    alone: bool,
}

/// What is kept in the lock file itself, before who holds it: three numbers, each with a checksum, written in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Slots {
    /// Lines up to this sequence are surely on disk.
    pub synced: u64,
    /// A sync of the segment with this first sequence has failed.
    pub suspect: u64,
    /// Which boot the last writer saw.
    pub boot: u64,
}

const SYNCED_AT: u64 = 0;
pub(super) const SUSPECT_AT: u64 = 64;
const BOOT_AT: u64 = 128;
/// Who took the lock last, as JSON, filled up with spaces to [`HOLDER_LEN`].
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
        // A mark that is garbled, or half written at this moment, may have been one: nobody builds on that.
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
    fn suspects(self, segment: u64) -> bool {
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

/// The log, the state at its end, and what is still to be put into journal and views.
struct Loaded {
    log: Box<dyn DiskFile>,
    folded: Folded,
    position: Position,
    marks: ViewMarks,
    /// Lines that are in the log but not in the journal: as events and as bytes.
    tail: Vec<Stamped>,
    tail_bytes: Vec<u8>,
    notices: Vec<String>,
}

/// Why loading did not work.
pub(super) enum Snag {
    Refused(Box<Refusal>),
    /// The folded state is not to be trusted: fold again.
    Repair(String),
}

impl From<Box<Refusal>> for Snag {
    fn from(refusal: Box<Refusal>) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unreadable> for Snag {
    fn from(trouble: Unreadable) -> Self {
        Self::Repair(trouble.to_string())
    }
}

impl From<Stop> for Snag {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Refused(refusal) => Self::Refused(refusal),
            Stop::Unreadable(trouble) => trouble.into(),
        }
    }
}

pub(super) fn damaged(damage: &Damage, disk: &dyn Disk) -> Box<Refusal> {
    Box::new(
        Refusal::new(
            Code::Damaged,
            format!(
                "the log is damaged: {} line {}, byte {}: {} (sequence {})",
                disk.show(&damage.path).display(),
                damage.line,
                damage.offset,
                damage.why,
                damage.sequence
            ),
        )
        .help("jit recover")
        .details(Details::Facts(vec![
            ("file", disk.show(&damage.path).display().to_string()),
            ("line", damage.line.to_string()),
            ("offset", damage.offset.to_string()),
            ("sequence", damage.sequence.to_string()),
        ])),
    )
}

impl FileStore {
    pub fn new(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, lock_wait: Duration) -> Self {
        Self {
            disk,
            clock,
            lock_wait,
            segment_limit: SEGMENT_LIMIT,
            journal_limit: folded::JOURNAL_LIMIT,
            alone: false,
        }
    }

    /// For a program that uses the store from its first thread only, and the alarm clock of the process for nothing
    /// else: waiting for the lock costs less then.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// The same store for somebody who waits no longer than this for the lock.
    #[must_use]
    pub fn waiting(mut self, wait: Duration) -> Self {
        self.lock_wait = self.lock_wait.min(wait);
        self
    }

    /// For tests that want to see segments sealed.
    #[must_use]
    pub fn with_segment_limit(mut self, bytes: u64) -> Self {
        self.segment_limit = bytes;
        self
    }

    /// For tests that want to see the journal folded into runs.
    #[must_use]
    pub fn with_journal_limit(mut self, bytes: u64) -> Self {
        self.journal_limit = bytes;
        self
    }

    pub(super) fn io(&self, what: &str, path: &str, e: &io::Error) -> Box<Refusal> {
        io_refusal(what, &self.disk.show(path), e)
    }

    pub(super) fn trouble(&self, path: &str, trouble: Trouble) -> Box<Refusal> {
        match trouble {
            Trouble::Io(e) => self.io("read", path, &e),
            Trouble::Damage(damage) => damaged(&damage, &*self.disk),
        }
    }

    pub fn now(&self) -> Outcome<Now> {
        self.clock.now().map_err(|e| refusals::clock_unreadable(&e))
    }

    /// The log as it is now: one that was written to since is not the same. `None` when that cannot be told.
    pub fn stamp(&self) -> Option<super::disk::Meta> {
        self.disk.meta(log::ACTIVE).ok().flatten()
    }

    /// Whether there is a log.
    pub fn exists(&self) -> Outcome<bool> {
        let there = |path| {
            self.disk
                .meta(path)
                .map(|m| m.is_some())
                .map_err(|e| self.io("look at", path, &e))
        };
        Ok(there(log::ACTIVE)? || !self.sealed()?.is_empty() || self.next_is_whole()?)
    }

    /// Whether a segment in the making was finished and only its name is missing: it is synced before it is renamed,
    /// so its first transaction is all there or it is not a segment yet.
    fn next_is_whole(&self) -> Outcome<bool> {
        let look = || -> io::Result<bool> {
            let Some(file) = open_if_there(&*self.disk, log::NEXT)? else {
                return Ok(false);
            };
            let source: &dyn DiskFile = &*file;
            log::has_transaction(&source, log::NEXT)
        };
        look().map_err(|e| self.io("read", log::NEXT, &e))
    }

    pub(super) fn sealed(&self) -> Outcome<Vec<log::Segment>> {
        log::sealed(&*self.disk).map_err(|e| self.io("list", "events", &e))
    }

    /// Makes the directories and the first segment; says whether there was anything to make.
    pub fn create(&self, actor: &Actor) -> Outcome<bool> {
        for dir in DIRS {
            self.disk.make_dir(dir).map_err(|e| self.io("create", dir, &e))?;
        }
        let guard = self.lock(actor)?;
        if self.exists()? {
            // Whoever made it may have been killed before the names were on disk.
            self.sync_names()?;
            return Ok(false);
        }
        let now = self.now()?;
        let events = [
            Event::SegmentStarted {
                reason: SegmentReason::Created,
            },
            Event::Boot {
                boot: now.boot.clone(),
                ticks: now.ticks,
            },
        ];
        let mut bytes = Vec::new();
        let mut sum = 0;
        for (n, event) in events.into_iter().enumerate() {
            let sequence = n as u64 + 1;
            let line = Stamped {
                sequence,
                at: now.wall,
                actor: actor.clone(),
                request: None,
                part: (sequence as u32, 2),
                event,
            };
            sum = encode_line(&mut bytes, &line, 0, sum);
        }
        self.place_segment(&bytes, None)
            .map_err(|e| self.io("create", log::ACTIVE, &e))?;
        self.disk.sync_dir("").map_err(|e| self.io("sync", "", &e))?;
        Slots::write(guard.file(), BOOT_AT, boot_mark(&now.boot)).map_err(|e| self.io("write", LOCK, &e))?;
        let slots = Slots::read(guard.file()).map_err(|e| self.io("read", LOCK, &e))?;
        self.repair(&now, slots, "", Trust::AsLeft)?;
        Ok(true)
    }

    /// Makes the names of the log and of the directories durable, whoever made them.
    pub(super) fn sync_names(&self) -> Outcome<()> {
        for dir in ["events", ""] {
            self.disk.sync_dir(dir).map_err(|e| self.io("sync", dir, &e))?;
        }
        Ok(())
    }

    /// Writes a new active segment, durable before it takes the place of the old one, which is sealed.
    ///
    /// The directory is synced between the steps: nobody promises that a power loss keeps renames in their order.
    pub(super) fn place_segment(&self, bytes: &[u8], old: Option<u64>) -> io::Result<()> {
        self.write_next(bytes)?;
        if let Some(first) = old {
            self.disk.rename(log::ACTIVE, &log::sealed_path(first))?;
            self.disk.sync_dir("events")?;
        }
        self.disk.rename(log::NEXT, log::ACTIVE)?;
        self.disk.sync_dir("events")
    }

    /// Writes a segment under a name that does not count yet, durably.
    fn write_next(&self, bytes: &[u8]) -> io::Result<()> {
        self.write_durably(log::NEXT, bytes)
    }

    pub(super) fn write_durably(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.disk.open(path, How::Fresh)?;
        write_all_at(&*file, bytes, 0)?;
        file.sync()?;
        self.disk.sync_dir("events")
    }

    /// Nobody writes while this is held. Not to be taken twice by one process.
    pub fn hold_still(&self, actor: &Actor) -> Outcome<Box<dyn LockGuard>> {
        self.lock(actor)
    }

    /// Takes the store's lock, and says in its file who has it.
    pub(super) fn lock(&self, actor: &Actor) -> Outcome<Box<dyn LockGuard>> {
        let locked = if self.alone {
            self.disk.lock_alone(LOCK, self.lock_wait)
        } else {
            self.disk.lock(LOCK, self.lock_wait)
        };
        let guard = match locked {
            Ok(guard) => guard,
            Err(e) if e.kind() == io::ErrorKind::TimedOut => return Err(self.busy()),
            // The folder for locks is made with the log.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(self.no_log()),
            Err(e) => return Err(self.io("lock", LOCK, &e)),
        };
        // For people only: a failure here is not a failure.
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

    /// Who had the store's lock last, as written in its file.
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
            // In its file stands who took it last through jit; somebody else may have it by other means.
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

    /// Opens the active segment; a writer finishes a sealing that was interrupted.
    pub(super) fn open_log(&self, how: How) -> Outcome<Box<dyn DiskFile>> {
        let missing = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
        // Names move while a reader looks from one to the other.
        for _ in 0..3 {
            match self.disk.open(log::ACTIVE, how) {
                Ok(file) => return Ok(file),
                Err(e) if missing(&e) => {}
                Err(e) => return Err(self.io("open", log::ACTIVE, &e)),
            }
            if how == How::Existing {
                if !self.next_is_whole()? {
                    break;
                }
                self.disk
                    .rename(log::NEXT, log::ACTIVE)
                    .map_err(|e| self.io("rename", log::NEXT, &e))?;
                self.sync_names()?;
                continue;
            }
            match self.disk.open(log::NEXT, how) {
                Ok(file) => {
                    let source: &dyn DiskFile = &*file;
                    if log::has_transaction(&source, log::NEXT).map_err(|e| self.io("read", log::NEXT, &e))? {
                        return Ok(file);
                    }
                }
                Err(e) if missing(&e) => {}
                Err(e) => return Err(self.io("open", log::NEXT, &e)),
            }
        }
        Err(self.no_log())
    }

    fn no_log(&self) -> Box<Refusal> {
        if self.sealed().is_ok_and(|sealed| !sealed.is_empty()) {
            return Box::new(
                Refusal::new(
                    Code::Damaged,
                    format!("{} is missing", self.disk.show(log::ACTIVE).display()),
                )
                .help("jit recover"),
            );
        }
        refusals::not_initialized()
    }

    /// The quick way in: the journal ends where the log ends, or the log has a few whole lines more. To `write` is
    /// refused where a newer program wrote something this one does not know, before anything is changed.
    fn load(&self, log: Box<dyn DiskFile>, now: &Now, slots: Slots, write: bool) -> Result<Loaded, Snag> {
        let repair = |why: &str| Snag::Repair(why.to_owned());
        let journal = folded::read_journal(&*self.disk)
            .map_err(|e| self.io("read", folded::JOURNAL, &e))?
            .ok_or_else(|| {
                repair("the folded state was missing or unreadable; it was made anew from the log")
            })?;
        let runs = folded::open_runs(&*self.disk, &journal.header, false)
            .map_err(|e| Snag::Repair(format!("{e}; the state was made anew from the log")))?;
        let from = journal.position();
        let len = log.meta().map_err(|e| self.io("read", log::ACTIVE, &e))?.len;
        if !ends_line(&*log, &from).map_err(|e| self.io("read", log::ACTIVE, &e))? {
            return Err(repair(
                "journal and log did not agree; they were compared and mended",
            ));
        }
        // The checksum at the end is only what the line says of itself.
        if let Some((at, lines)) = journal.last_lines(LAST_LINES)
            && read_range(&*log, at, lines.len()).map_err(|e| self.io("read", log::ACTIVE, &e))? != lines
        {
            return Err(repair(
                "journal and log did not agree; they were compared and mended",
            ));
        }
        let marks = journal.marks();
        let mut loaded = Loaded {
            log,
            folded: Folded::from_runs(journal, runs),
            position: from,
            marks,
            tail: Vec::new(),
            tail_bytes: Vec::new(),
            notices: Vec::new(),
        };
        if len == from.offset {
            if write {
                state::refuse_newer(&loaded.folded)?;
            }
            return Ok(loaded);
        }
        // Lines of a writer that was killed before it reached the journal, or that is at work right now.
        let rules = Self::rules(slots, now, 0);
        let (mut tail, mut bytes) = (Vec::new(), Vec::new());
        let source: &dyn DiskFile = &*loaded.log;
        let end = log::read_segment(&source, log::ACTIVE, from, None, rules, &mut |line, text, _| {
            bytes.extend_from_slice(text);
            bytes.push(b'\n');
            tail.push(line.stamped);
            Ok(())
        })
        .map_err(|trouble| match trouble {
            Trouble::Io(e) => Snag::Refused(self.io("read", log::ACTIVE, &e)),
            // The journal may still have what the log lost.
            Trouble::Damage(damage) => Snag::Repair(damaged(&damage, &*self.disk).message),
        })?;
        let mut overlay = Overlay::new(&loaded.folded);
        for line in &tail {
            state::apply(&mut overlay, line).map_err(|e| Snag::Repair(e.to_string()))?;
        }
        loaded.folded.fresh = overlay.changes;
        if write {
            state::refuse_newer(&loaded.folded)?;
            if end.torn > 0 {
                let note = self.set_aside(&*loaded.log, &end.position)?;
                loaded.notices.push(note);
            }
        }
        loaded.position = end.position;
        loaded.tail = tail;
        loaded.tail_bytes = bytes;
        Ok(loaded)
    }

    /// Cuts the log at `end`, keeping what was after it in a file of its own.
    pub(super) fn set_aside(&self, log: &dyn DiskFile, end: &Position) -> Outcome<String> {
        let attempt = || -> io::Result<String> {
            let len = log.meta()?.len - end.offset;
            // In pieces: nobody knows how much somebody may have appended.
            let each_piece = |each: &mut dyn FnMut(&[u8], u64) -> io::Result<()>| {
                let mut at = 0;
                while at < len {
                    let piece = read_range(log, end.offset + at, (len - at).min(1 << 18) as usize)?;
                    if piece.is_empty() {
                        break;
                    }
                    each(&piece, at)?;
                    at += piece.len() as u64;
                }
                Ok::<_, io::Error>(())
            };
            let mut sum = Xxh3::new();
            each_piece(&mut |piece, _| {
                sum.update(piece);
                Ok(())
            })?;
            let path = format!("events/torn-{:016}-{:016x}", end.sequence + 1, sum.digest());
            let copy = self.disk.open(&path, How::Fresh)?;
            each_piece(&mut |piece, at| write_all_at(&*copy, piece, at))?;
            log.set_len(end.offset)?;
            Ok(format!(
                "the log ended in {len} bytes of an unfinished write; they were moved to {}",
                self.disk.show(&path).display()
            ))
        };
        attempt().map_err(|e| self.io("mend", log::ACTIVE, &e))
    }

    /// Loads for writing, with whatever repair that takes.
    fn load_for_write(&self, guard: &dyn LockGuard, actor: &Actor) -> Result<(Loaded, Now, Slots), Snag> {
        let now = self.now()?;
        let read_slots = || Slots::read(guard.file()).map_err(|e| self.io("read", LOCK, &e));
        let mut slots = read_slots()?;
        let mut notices = Vec::new();
        let first_look = if slots.boot != boot_mark(&now.boot) || slots.suspect != 0 {
            // Journal and views were not synced, or pages of the log were lost: look at everything once.
            Err(Snag::Repair(String::new()))
        } else {
            self.load(self.open_log(How::Existing)?, &now, slots, true)
        };
        let mut loaded = match first_look {
            Ok(loaded) => loaded,
            Err(Snag::Refused(refusal)) => return Err(refusal.into()),
            Err(Snag::Repair(why)) => {
                notices.extend(self.repair(&now, slots, &why, Trust::AsLeft)?);
                // Repaired and verified: from here on this boot's rules hold.
                Slots::write(guard.file(), BOOT_AT, boot_mark(&now.boot))
                    .map_err(|e| self.io("write", LOCK, &e))?;
                slots = read_slots()?;
                self.load_again(&now, slots)?
            }
        };
        if slots.suspects(loaded.position.segment) {
            self.leave_suspect(&loaded, &now, slots, actor)?;
            notices.push("a sync of the log had failed; a new segment was begun".into());
            loaded = self.load_again(&now, slots)?;
        }
        if slots.suspect != 0 {
            Slots::write(guard.file(), SUSPECT_AT, 0).map_err(|e| self.io("write", LOCK, &e))?;
            slots = read_slots()?;
        }
        if loaded.position.offset > self.segment_limit {
            // So that what a killed writer left is not taken for somebody else's work.
            self.tend(&mut loaded, now.wall);
            self.seal(&loaded, &now, slots, actor)?;
            loaded = self.load_again(&now, slots)?;
        }
        let anchor = state::anchor(&loaded.folded)?;
        if anchor.is_none_or(|anchor| anchor.boot_id != now.boot) {
            let mut draft = Draft::new(&loaded.folded, loaded.position.sequence, now.wall, actor.clone());
            draft.emit(Event::Boot {
                boot: now.boot.clone(),
                ticks: now.ticks,
            })?;
            let (lines, changes) = draft.finish(None)?;
            self.commit(&mut loaded, &lines, changes, slots, now.wall)?;
            notices.append(&mut loaded.notices);
            loaded = self.load_again(&now, slots)?;
        }
        notices.append(&mut loaded.notices);
        loaded.notices = notices;
        Ok((loaded, now, slots))
    }

    fn load_again(&self, now: &Now, slots: Slots) -> Outcome<Loaded> {
        self.load(self.open_log(How::Existing)?, now, slots, true)
            .map_err(|snag| match snag {
                Snag::Refused(refusal) => refusal,
                Snag::Repair(why) => Box::new(Refusal::new(
                    Code::Io,
                    format!("the state could not be mended: {why}"),
                )),
            })
    }

    /// Begins a new segment because the active one has grown large.
    fn seal(&self, loaded: &Loaded, now: &Now, slots: Slots, actor: &Actor) -> Outcome<()> {
        let attempt = || -> io::Result<()> {
            Self::write_unsynced(loaded, slots)?;
            loaded.log.sync()?;
            self.sync_claims()?;
            let mut bytes = Vec::new();
            let line = segment_line(SegmentReason::Size, loaded.position.sequence + 1, now, actor);
            encode_line(
                &mut bytes,
                &line,
                slots.synced.max(loaded.position.sequence),
                loaded.position.sum,
            );
            self.place_segment(&bytes, Some(loaded.position.segment))
        };
        attempt().map_err(|e| self.io("seal", log::ACTIVE, &e))?;
        self.rejournal(now, slots)
    }

    /// Sealed segments are the ground that the views are checked against.
    fn sync_claims(&self) -> io::Result<()> {
        match open_if_there(&*self.disk, views::CLAIMS)? {
            Some(claims) => views::sync_claims(&*self.disk, &*claims),
            None => Ok(()),
        }
    }

    /// Begins a new segment with every line that is not surely on disk, because a sync of the active one failed.
    fn leave_suspect(&self, loaded: &Loaded, now: &Now, slots: Slots, actor: &Actor) -> Outcome<()> {
        let position = loaded.position;
        let source: &dyn DiskFile = &*loaded.log;
        let first = log::first_of(&source).map_err(|e| self.io("read", log::ACTIVE, &e))?;
        let start = first.map_or(position, |(first, prev)| Position::beginning(first, prev));
        let mut kept = Vec::new();
        // What runs cover had been synced, whether or not that was noted.
        let covered = loaded
            .folded
            .journal
            .as_ref()
            .map_or(0, |j| j.header.covers.sequence);
        let sure = slots.synced.max(covered);
        let rules = Rules {
            power_loss: false,
            durable: 0,
        };
        log::read_segment(&source, log::ACTIVE, start, None, rules, &mut |line, text, _| {
            if line.stamped.sequence > sure {
                kept.extend_from_slice(text);
                kept.push(b'\n');
            }
            Ok(())
        })
        .map_err(|trouble| self.trouble(log::ACTIVE, trouble))?;
        let line = segment_line(SegmentReason::Suspect, position.sequence + 1, now, actor);
        encode_line(&mut kept, &line, sure, position.sum);
        self.sync_claims()
            .and_then(|()| self.place_segment(&kept, Some(position.segment)))
            .map_err(|e| self.io("write", log::NEXT, &e))?;
        self.rejournal(now, slots)
    }

    /// After the log went on in a new file: journal and views follow.
    fn rejournal(&self, now: &Now, slots: Slots) -> Outcome<()> {
        self.repair(now, slots, "", Trust::AsLeft).map(|_| ())
    }

    /// The lines at the end of the log that nobody has vouched for yet, from the journal's copy, and where they begin.
    fn unsynced(loaded: &Loaded, slots: Slots) -> (u64, Vec<u8>) {
        let mut found: Option<(u64, Vec<u8>)> = None;
        if let Some(journal) = &loaded.folded.journal {
            for (at, lines) in journal.lines_after(loaded.position.segment, slots.synced) {
                let (_, bytes) = found.get_or_insert_with(|| (at, Vec::new()));
                bytes.extend_from_slice(lines);
            }
        }
        let tail_at = loaded.position.offset - loaded.tail_bytes.len() as u64;
        let (at, mut bytes) = found
            .filter(|(at, bytes)| at + bytes.len() as u64 == tail_at)
            .unwrap_or((tail_at, Vec::new()));
        bytes.extend_from_slice(&loaded.tail_bytes);
        (at, bytes)
    }

    /// Makes the pages of lines dirty again that nobody has vouched for.
    fn write_unsynced(loaded: &Loaded, slots: Slots) -> io::Result<()> {
        let (at, bytes) = Self::unsynced(loaded, slots);
        write_all_at(&*loaded.log, &bytes, at)
    }

    /// Appends a transaction to the log and brings everything else up to date. The caller syncs.
    fn commit(
        &self,
        loaded: &mut Loaded,
        lines: &[Stamped],
        changes: Changes,
        slots: Slots,
        wall: Wall,
    ) -> Outcome<()> {
        let before = loaded.position;
        let mut bytes = Vec::with_capacity(lines.len() * 640);
        let mut sum = before.sum;
        for line in lines {
            let begin = bytes.len();
            sum = encode_line(&mut bytes, line, slots.synced, sum);
            refusals::refuse_long_line(bytes.len() - begin)?;
        }
        let (at, mut all) = Self::unsynced(loaded, slots);
        all.extend_from_slice(&bytes);
        if let Err(e) = write_all_at(&*loaded.log, &all, at) {
            // What got there is taken back; should that fail too, the next writer finds a torn end.
            let _ = loaded.log.set_len(before.offset);
            let mut refusal = self.io("write", log::ACTIVE, &e);
            refusal.message.push_str("; nothing was changed");
            return Err(refusal);
        }
        loaded.position = Position {
            offset: before.offset + bytes.len() as u64,
            sequence: before.sequence + lines.len() as u64,
            sum,
            ..before
        };
        loaded.folded.fresh.extend(changes);
        if let Err(e) = self.catch_up(loaded, lines, &bytes, wall) {
            loaded.notices.push(format!(
                "files beside the log could not be brought up to date ({e}); the next command will"
            ));
        }
        Ok(())
    }

    /// Views and journal after an append.
    fn catch_up(&self, loaded: &mut Loaded, lines: &[Stamped], bytes: &[u8], wall: Wall) -> io::Result<()> {
        let disk = &*self.disk;
        let mut all = std::mem::take(&mut loaded.tail);
        all.extend_from_slice(lines);
        if !views::append_claims(disk, &mut loaded.marks, &all)? {
            loaded
                .notices
                .push("claims.jsonl was not as it was left; it was mended from the log".into());
            let mended = self.mend_claims(&mut loaded.marks, loaded.position.sequence, None);
            if let Err(e) = mended {
                // The journal must not fall behind because of it.
                loaded.marks.claims_changed = views::NOT_MENDED;
                loaded.notices.push(format!(
                    "claims.jsonl could not be mended ({e}); the next command will try"
                ));
            }
        }
        let found = views::update_index(
            disk,
            &mut loaded.marks,
            &loaded.folded,
            &all,
            &loaded.position,
            wall,
        )?;
        if let views::Found::Repaired(note) = found {
            loaded.notices.push(note.into());
        }
        loaded.tail_bytes.extend_from_slice(bytes);
        if let Some(journal) = &loaded.folded.journal {
            let (marks, fresh) = (&loaded.marks, &loaded.folded.fresh);
            folded::append(disk, journal, &loaded.position, marks, &loaded.tail_bytes, fresh)?;
        }
        Ok(())
    }

    /// Puts right what a killed writer or somebody else left wrong beside the log, where nothing else is to be written.
    fn tend(&self, loaded: &mut Loaded, wall: Wall) {
        let wrong = !loaded.tail.is_empty() || !self.views_untouched(&loaded.marks);
        if wrong && let Err(e) = self.catch_up(loaded, &[], &[], wall) {
            loaded.notices.push(format!(
                "files beside the log could not be brought up to date: {e}"
            ));
        }
    }

    fn views_untouched(&self, marks: &ViewMarks) -> bool {
        views::index_untouched(&*self.disk, marks).unwrap_or(false)
            && views::claims_untouched(&*self.disk, marks).unwrap_or(false)
    }

    /// For a command that only reads and found that the views need mending: does it if nobody is writing. Never waits.
    /// Says what it did.
    pub fn mend_views(&self, actor: &Actor) -> Vec<String> {
        let quick = Self {
            lock_wait: Duration::ZERO,
            ..self.clone()
        };
        let mend = || -> Result<Vec<String>, Snag> {
            let guard = quick.lock(actor)?;
            let now = self.now()?;
            let slots = Slots::read(guard.file()).map_err(|e| self.io("read", LOCK, &e))?;
            if slots.boot != boot_mark(&now.boot) {
                // The first writer of this boot looks at everything anyway.
                return Ok(Vec::new());
            }
            // Opened for reading: whatever is wrong with the log itself is not a reader's business.
            let mut loaded = self.load(self.open_log(How::Read)?, &now, slots, false)?;
            state::refuse_newer(&loaded.folded)?;
            self.tend(&mut loaded, now.wall);
            Ok(loaded.notices)
        };
        mend().unwrap_or_default()
    }

    /// Makes `claims.jsonl` what the log says it is, up to sequence `upto`. Its part about sealed segments was synced
    /// when they were sealed: if `trusted` it is believed, and what comes before that place is not even looked at. That
    /// is not for a file that somebody else may have changed. Returns up to where it may be believed next time.
    pub(super) fn mend_claims(
        &self,
        marks: &mut ViewMarks,
        upto: u64,
        trusted: Option<Ground>,
    ) -> io::Result<Ground> {
        let refused = |refusal: Box<Refusal>| io::Error::other(refusal.message);
        let source = self.open_log(How::Read).map_err(refused)?;
        let active = log::first_of(&&*source)?.map_or(1, |(first, _)| first);
        let sealed = log::sealed(&*self.disk)?;
        let oldest = sealed.first().map_or(active, |segment| segment.first.min(active));
        let believed = if trusted.is_some() { active } else { oldest } - 1;
        let ground = trusted.unwrap_or_default();
        let (len, sequence) = views::trusted_claims(&*self.disk, ground, believed.min(upto))?;
        let mut mender = views::ClaimsMender::from(&*self.disk, len)?;
        let mut outcome = Ok(());
        let mut found = Ground { len, sequence };
        self.events_between(sequence, upto, &mut |line| {
            let record = jit_core::wire::claims_record(&line).unwrap_or_default();
            outcome = mender.put(&record);
            if line.sequence < active && !record.is_empty() {
                found = Ground {
                    len: mender.end(),
                    sequence: line.sequence,
                };
            }
            if outcome.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .map_err(refused)?;
        outcome?;
        // Nobody is going to look at that part again: it must not be lost.
        mender.finish(&*self.disk, marks, trusted.is_none() || found != ground)?;
        Ok(found)
    }

    /// Makes sure that everything up to the end of what was loaded is on disk, and notes it.
    fn make_durable(&self, guard: &mut dyn LockGuard, loaded: &Loaded) -> Outcome<()> {
        // Should it fail, others wait a little longer.
        let _ = guard.release();
        let segment = loaded.position.segment;
        if let Err(e) = loaded.log.sync() {
            // Segments are numbered upwards: a mark on a later one must stay.
            if Slots::read(guard.file()).map_or(true, |slots| slots.suspect <= segment) {
                let _ = Slots::write(guard.file(), SUSPECT_AT, segment);
            }
            return Err(self.unknown(&format!("the log could not be synced: {e}")));
        }
        let slots = Slots::read(guard.file()).map_err(|e| self.unknown(&e.to_string()))?;
        if slots.suspects(segment) {
            return Err(self.unknown("another process could not sync the log"));
        }
        if slots.synced < loaded.position.sequence {
            Slots::write(guard.file(), SYNCED_AT, loaded.position.sequence)
                .map_err(|e| self.unknown(&e.to_string()))?;
        }
        Ok(())
    }

    fn unknown(&self, why: &str) -> Box<Refusal> {
        Box::new(Refusal::new(
            Code::Unknown,
            format!("it is not known whether it was done: {why}"),
        ))
    }

    /// Folds the journal into runs when it has grown. Failing is harmless: the next command tries again.
    fn compact_if_heavy(&self, loaded: &Loaded, wall: Wall, actor: &Actor) {
        let weight = loaded
            .folded
            .journal
            .as_ref()
            .map_or(0, super::journal::Journal::weight);
        if weight < self.journal_limit {
            return;
        }
        let Ok(_turn) = self.disk.lock(COMPACT_LOCK, Duration::ZERO) else {
            return;
        };
        // The wall clock may jump, so what is near in the log is kept whatever the clock says.
        let forgotten = |key: &str, value: &[u8]| {
            key.starts_with("q/")
                && serde_json::from_slice::<state::Answered>(value).is_ok_and(|answered| {
                    answered.at.ms() + REQUEST_MEMORY_MS < wall.ms()
                        && answered.last + REQUEST_MEMORY_LINES < loaded.position.sequence
                })
        };
        if let Ok(Some(compaction)) = folded::compact(&*self.disk, loaded.position.sequence, &forgotten)
            && let Ok(_guard) = self.lock(actor)
        {
            let _ = folded::install(&*self.disk, &compaction);
        }
    }

    /// The events that answered a request before, if any did.
    fn answer_of(&self, loaded: &Loaded, request: &Request) -> Result<Option<Vec<Event>>, Snag> {
        let range = if request.id.is_made_up() {
            // These are not kept in the state, only in the log.
            Some((0, loaded.position.sequence, None))
        } else {
            let answered = state::answered(&loaded.folded, &request.id)?;
            answered.map(|a| (a.first - 1, a.last, Some(a.digest)))
        };
        let Some((after, upto, digest)) = range else {
            return Ok(None);
        };
        if digest.is_some_and(|digest| digest != request.digest) {
            return Err(refusals::request_reused(&request.id).into());
        }
        let mut events = Vec::new();
        let mut reused = false;
        self.events_between(after, upto, &mut |line| {
            if let Some(found) = line.request.filter(|r| r.id == request.id) {
                reused |= found.digest != request.digest;
                events.push(line.event);
            }
            ControlFlow::Continue(())
        })?;
        if reused {
            return Err(refusals::request_reused(&request.id).into());
        }
        if events.is_empty() && digest.is_some() {
            // Doing it again would do it twice.
            let damage = Damage {
                path: log::ACTIVE.into(),
                line: 0,
                offset: 0,
                sequence: after + 1,
                why: format!("the lines that answered the request {} are not there", request.id),
            };
            return Err(damaged(&damage, &*self.disk).into());
        }
        Ok(if events.is_empty() { None } else { Some(events) })
    }

    /// One attempt at a transaction. `Err(Snag::Repair)` when the state turned out to be unreadable on the way.
    fn attempt(&self, ask: &mut Ask<'_>) -> Result<Done, Snag> {
        let mut guard = self.lock(ask.actor)?;
        let (mut loaded, now, slots) = self.load_for_write(&*guard, ask.actor)?;
        let request = Request {
            id: ask.request.clone(),
            digest: ask.command.digest(ask.actor),
        };
        let earlier = if ask.repeatable {
            self.answer_of(&loaded, &request)?
        } else {
            None
        };
        let repeated = earlier.is_some();
        let own_in = |table: &dyn Table| state::leases_of(table, &ask.actor.agent_id);
        let mut wrote = false;
        let (reply, own) = if let Some(events) = earlier {
            (ask.command.reply(&events), own_in(&loaded.folded)?)
        } else {
            let mut draft = Draft::new(
                &loaded.folded,
                loaded.position.sequence,
                now.wall,
                ask.actor.clone(),
            );
            match decide(&mut draft, ask.command, &ask.context(&now)) {
                Err(stop) => {
                    drop(draft);
                    self.tend(&mut loaded, now.wall);
                    return Err(stop.into());
                }
                Ok(Answer::Already(reply)) => {
                    let notices = draft.take_notices();
                    drop(draft);
                    self.tend(&mut loaded, now.wall);
                    loaded.notices.extend(notices);
                    (Some(reply), own_in(&loaded.folded)?)
                }
                Ok(Answer::Done) => {
                    let events = draft.events().to_vec();
                    // Everything that may have to be tried again comes before the append.
                    let own = own_in(draft.state())?;
                    let notices = draft.take_notices();
                    let (lines, changes) = draft.finish(Some(&request))?;
                    (ask.prepare)(&events).map_err(|e| self.io("write", "issues", &e))?;
                    self.commit(&mut loaded, &lines, changes, slots, now.wall)?;
                    wrote = true;
                    loaded.notices.extend(notices);
                    loaded.notices.extend((ask.publish)(&lines, &loaded.folded));
                    (ask.command.reply(&events), own)
                }
            }
        };
        // A yes rests on every line before it, so these must be durable even when nothing was written now.
        if loaded.position.sequence > slots.synced {
            if !wrote {
                Self::write_unsynced(&loaded, slots).map_err(|e| self.io("write", log::ACTIVE, &e))?;
            }
            self.make_durable(&mut *guard, &loaded)?;
        }
        drop(guard);
        self.compact_if_heavy(&loaded, now.wall, ask.actor);
        Ok(Done {
            reply: reply.ok_or_else(refusals::no_reply)?,
            sequence: loaded.position.sequence,
            now,
            repeated,
            own,
            notices: loaded.notices,
        })
    }

    /// Events of `after + 1 ..= upto`, while segments may be sealed meanwhile.
    pub(super) fn events_between(
        &self,
        after: u64,
        upto: u64,
        each: &mut dyn FnMut(Stamped) -> ControlFlow<()>,
    ) -> Outcome<()> {
        // What is known to be durable is asked first: the log may only grow meanwhile.
        let rules = Self::rules(self.slots()?, &self.now()?, 0);
        // The active one first: whatever is sealed afterwards, this open file goes on from the sealed ones before it.
        let active = self.open_log(How::Read)?;
        let source: &dyn DiskFile = &*active;
        let unfit = |path: &str, sequence: u64, why: &str| {
            let damage = Damage {
                path: path.to_owned(),
                line: 1,
                offset: 0,
                sequence,
                why: why.to_owned(),
            };
            damaged(&damage, &*self.disk)
        };
        let first = log::first_of(&source).map_err(|e| self.io("read", log::ACTIVE, &e))?;
        let Some((active_first, _)) = first else {
            // A segment gets its name when its first transaction is on disk.
            return Err(unfit(log::ACTIVE, 0, "its first line is missing or unreadable"));
        };
        let mut segments = self.sealed()?;
        segments.retain(|segment| segment.first < active_first);
        segments.push(log::Segment {
            path: log::ACTIVE.into(),
            first: active_first,
        });
        let mut stopped = false;
        let mut before: Option<Position> = None;
        for (n, segment) in segments.iter().enumerate() {
            let until = segments.get(n + 1).map(|next| next.first);
            if stopped || segment.first > upto || until.is_some_and(|until| until <= after + 1) {
                continue;
            }
            let file;
            let source: &dyn DiskFile = if until.is_none() {
                &*active
            } else {
                file = self
                    .disk
                    .open(&segment.path, How::Read)
                    .map_err(|e| self.io("open", &segment.path, &e))?;
                &*file
            };
            let first = log::first_of(&source).map_err(|e| self.io("read", &segment.path, &e))?;
            let continues = |(first, prev): &(u64, u64)| {
                *first == segment.first && before.is_none_or(|b| (b.sequence + 1, b.sum) == (*first, *prev))
            };
            let Some((first, prev)) = first.filter(continues) else {
                let expected = before.map_or(segment.first, |b| b.sequence + 1);
                return Err(unfit(
                    &segment.path,
                    expected,
                    "it does not continue the segment before",
                ));
            };
            let start = Position::beginning(first, prev);
            let rules = if until.is_none() { rules } else { Rules::SEALED };
            // Lines before the oldest segment are asked for: it must be one that nothing comes before.
            let mut opening = n == 0 && after + 1 < first;
            // Stopping early is told to the reader of lines as an error of our own.
            let outcome =
                log::read_segment(&source, &segment.path, start, until, rules, &mut |line, _, _| {
                    if std::mem::take(&mut opening) && !line.begins_log() {
                        return Err(Trouble::Damage(Damage {
                            path: segment.path.clone(),
                            line: 1,
                            offset: 0,
                            sequence: first,
                            why: "an earlier segment is missing".into(),
                        }));
                    }
                    let sequence = line.stamped.sequence;
                    if sequence > upto || (sequence > after && each(line.stamped).is_break()) {
                        stopped = true;
                        return Err(Trouble::Io(io::ErrorKind::Interrupted.into()));
                    }
                    Ok(())
                });
            match outcome {
                Ok(end) => before = Some(end.position),
                Err(_) if stopped => {}
                Err(trouble) => return Err(self.trouble(&segment.path, trouble)),
            }
        }
        Ok(())
    }

    /// One attempt at reading. The log may move on under a reader; then it looks again.
    fn look(&self) -> Result<View, Snag> {
        let now = self.now()?;
        let slots = match open_if_there(&*self.disk, LOCK).map_err(|e| self.io("open", LOCK, &e))? {
            Some(file) => Slots::read(&*file).map_err(|e| self.io("read", LOCK, &e))?,
            None => Slots::default(),
        };
        let log = self.open_log(How::Read)?;
        let loaded = self.load(log, &now, slots, false)?;
        let views_fine = loaded.tail.is_empty() && self.views_untouched(&loaded.marks);
        let view = self.view_of(loaded.folded, loaded.position, now, Vec::new())?;
        Ok(View { views_fine, ..view })
    }

    pub(super) fn view_of(
        &self,
        mut folded: Folded,
        position: Position,
        now: Now,
        notices: Vec<String>,
    ) -> Result<View, Snag> {
        let unreadable = |e: Unreadable| Snag::Repair(e.to_string());
        let anchor = state::anchor(&folded).map_err(unreadable)?;
        if anchor.is_some_and(|anchor| anchor.boot_id != now.boot) {
            // What the first writer of this boot will record, seen already.
            let mut overlay = Overlay::new(&folded);
            state::reanchor(&mut overlay, &now.boot, now.ticks, now.wall).map_err(unreadable)?;
            let changes = overlay.changes;
            folded.fresh.extend(changes);
        }
        Ok(View {
            table: Box::new(folded),
            sequence: position.sequence,
            now,
            notices,
            views_fine: false,
        })
    }
}

fn segment_line(reason: SegmentReason, sequence: u64, now: &Now, actor: &Actor) -> Stamped {
    Stamped {
        sequence,
        at: now.wall,
        actor: actor.clone(),
        request: None,
        part: (1, 1),
        event: Event::SegmentStarted { reason },
    }
}

/// Whether a line with the position's checksum ends at the position's offset.
pub(super) fn ends_line(log: &dyn DiskFile, position: &Position) -> io::Result<bool> {
    const TAIL: u64 = 27;
    let Some(at) = position.offset.checked_sub(TAIL) else {
        return Ok(false);
    };
    let tail = read_range(log, at, TAIL as usize)?;
    Ok(tail.len() == TAIL as usize && tail.ends_with(b"\n") && trailing_sum(&tail) == Some(position.sum))
}

impl FileStore {
    /// Decides and appends; folds the log again, once, if the folded state turns out to be garbled.
    fn transact_or_refold(&self, ask: &mut Ask<'_>) -> Outcome<Done> {
        match self.attempt(ask) {
            Ok(done) => Ok(done),
            Err(Snag::Refused(refusal)) => Err(refusal),
            Err(Snag::Repair(why)) => {
                // A record of the folded state was garbled. Nothing has been written: fold the log again, once.
                {
                    let _guard = self.lock(ask.actor)?;
                    self.discard_state()?;
                }
                match self.attempt(ask) {
                    Ok(mut done) => {
                        done.notices
                            .push(format!("{why}; the state was made anew from the log"));
                        Ok(done)
                    }
                    Err(Snag::Refused(refusal)) => Err(refusal),
                    Err(Snag::Repair(why)) => Err(Box::new(Refusal::new(Code::Io, why).help("jit doctor"))),
                }
            }
        }
    }
}

impl Store for FileStore {
    fn transact(&self, ask: &mut Ask<'_>) -> Outcome<Done> {
        match ask.wait {
            Some(wait) => self.clone().waiting(wait).transact_or_refold(ask),
            None => self.transact_or_refold(ask),
        }
    }

    fn view(&self) -> Outcome<View> {
        for _ in 0..3 {
            match self.look() {
                Ok(view) => return Ok(view),
                Err(Snag::Refused(refusal)) if refusal.code == Code::NotInitialized => return Err(refusal),
                Err(_) => {}
            }
        }
        // Not a passing thing: fold the log in memory, without touching anything. That may be overtaken too.
        let mut tries = 1;
        loop {
            match self.fold_in_memory(self.now()?) {
                Ok(view) => return Ok(view),
                Err(_) if tries < 3 => tries += 1,
                Err(Snag::Refused(refusal)) => return Err(refusal),
                Err(Snag::Repair(why)) => {
                    return Err(Box::new(Refusal::new(Code::Io, why).help("jit doctor")));
                }
            }
        }
    }

    fn events(&self, after: u64, each: &mut dyn FnMut(Stamped) -> ControlFlow<()>) -> Outcome<()> {
        self.events_between(after, u64::MAX, each)
    }

    fn now(&self) -> Outcome<Now> {
        Self::now(self)
    }

    fn exists(&self) -> Outcome<bool> {
        Self::exists(self)
    }

    fn create(&self, actor: &Actor) -> Outcome<bool> {
        Self::create(self, actor)
    }

    fn hold_still(&self, actor: &Actor) -> Outcome<WriteLock> {
        Ok(WriteLock::new(self.lock(actor)?))
    }

    fn upkeep(&self) -> &dyn Upkeep {
        self
    }
}

impl Upkeep for FileStore {
    fn stamp(&self) -> Option<LogStamp> {
        let meta = Self::stamp(self)?;
        Some(LogStamp {
            len: meta.len,
            inode: meta.inode,
            changed: meta.changed,
        })
    }

    fn lock_holder(&self) -> Option<LockHolder> {
        serde_json::from_value(Self::lock_holder(self)?).ok()
    }

    fn mend_views(&self, actor: &Actor) -> Vec<String> {
        Self::mend_views(self, actor)
    }

    fn validate(&self, actor: &Actor) -> Outcome<LogReport> {
        Self::validate(self, actor)
    }

    fn salvage(&self, actor: &Actor) -> Outcome<Recovered> {
        Self::salvage(self, actor)
    }
}
