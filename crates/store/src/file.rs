//! The store in files.
//!
//! # The write path, and what each step may rely on
//!
//! 1. Wait for the kernel lock on `locks/control.lock`. The file is never unlinked.
//! 2. Load: the journal's last position must be the end of the log, checksum included; otherwise repair first.
//! 3. Decide.
//! 4. Append to the log with one write. A short write is cut off again.
//! 5. Update the views and the journal. They may fail: the log is the truth.
//! 6. Release the lock, then sync the log. Many processes share one flush, and a yes covers every earlier line.
//! 7. If no sync of this segment has failed meanwhile, record how far it is synced, and say yes.
//! 8. If the journal has grown, fold it into runs, and compress one sealed segment ([`crate::compressed`]). This
//!    process answers after that; no other process waits. If it fails, a later command does it.
//!
//! A failed sync may have lost dirty pages while later syncs succeed. So the process that saw the failure marks the segment
//! suspect in the lock file. No process says yes on top of a suspect segment; the next writer first copies every line that
//! is not known to be on disk into a new segment. The process that saw the failure may die before it sets the mark.
//! Therefore step 4 writes the lines that are not known to be synced once more, together with the new ones, so that their
//! pages are dirty again.

mod lock_file;
mod recover;
mod repair;
mod segments;
mod write;

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use jit_core::log::event::Stamped;
use jit_core::log::stop::Stop;
use jit_core::log::table::{Overlay, Unreadable};
use jit_core::log::{fold, state};
use jit_core::model::actor::Actor;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::model::time::Clock;
use jit_core::model::time::Now;
use jit_os::io_refusal;

use crate::disk::{Disk, Meta, OpenMode, open_if_there};
use crate::folded_state::{self, FoldedState};
use crate::journal::Position;
use crate::log::{self, Damage, LogTrouble};
use crate::port::{
    Ask, Done, LockHolder, LogReport, LogStamp, Outcome, Recovered, Store, Upkeep, View, WriteLock,
};
use crate::{claim_records, refusals, views};
use lock_file::{LOCK, Slots};

/// A segment larger than this is sealed.
pub const SEGMENT_LIMIT: u64 = 16 << 20;

/// A repository's control directory.
#[derive(Debug, Clone)]
pub struct FileStore {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    lock_wait: Duration,
    segment_limit: u64,
    journal_limit: u64,
    alone: bool,
}

/// Loading the state failed.
enum LoadError {
    Refused(Box<Refusal>),
    /// The folded state cannot be trusted: fold the log again.
    Repair(String),
}

impl From<Box<Refusal>> for LoadError {
    fn from(refusal: Box<Refusal>) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unreadable> for LoadError {
    fn from(trouble: Unreadable) -> Self {
        Self::Repair(trouble.to_string())
    }
}

impl From<Stop> for LoadError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Refused(refusal) => Self::Refused(refusal),
            Stop::Unreadable(trouble) => trouble.into(),
        }
    }
}

fn damaged(damage: &Damage, disk: &dyn Disk) -> Box<Refusal> {
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
            journal_limit: folded_state::JOURNAL_LIMIT,
            alone: false,
        }
    }

    /// For a program that uses the store from its first thread only, and the alarm timer of the process for nothing else:
    /// waiting for the lock is cheaper then.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// The same store for a caller that waits at most this long for the lock.
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

    fn io(&self, what: &str, path: &str, e: &io::Error) -> Box<Refusal> {
        io_refusal(what, &self.disk.show(path), e)
    }

    fn trouble(&self, path: &str, trouble: LogTrouble) -> Box<Refusal> {
        match trouble {
            LogTrouble::Io(e) => self.io("read", path, &e),
            LogTrouble::Damage(damage) => damaged(&damage, &*self.disk),
        }
    }

    pub fn now(&self) -> Outcome<Now> {
        self.clock.now().map_err(|e| refusals::clock_unreadable(&e))
    }

    /// Identifies the present content of the log: it changes with every append. `None` if it cannot be read.
    pub fn stamp(&self) -> Option<Meta> {
        self.disk.meta(log::ACTIVE).ok().flatten()
    }

    /// Decides and appends; folds the log again, once, if the folded state turns out to be garbled.
    fn transact_or_refold(&self, ask: &mut Ask<'_>) -> Outcome<Done> {
        match self.attempt(ask) {
            Ok(done) => Ok(done),
            Err(LoadError::Refused(refusal)) => Err(refusal),
            Err(LoadError::Repair(why)) => {
                // A record of the folded state was corrupt. Nothing was written: fold the log again, once.
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
                    Err(LoadError::Refused(refusal)) => Err(refusal),
                    Err(LoadError::Repair(why)) => {
                        Err(Box::new(Refusal::new(Code::Io, why).help("jit doctor")))
                    }
                }
            }
        }
    }

    /// One attempt at reading. It can fail if a writer changes the files meanwhile; then the caller tries again.
    fn look(&self) -> Result<View, LoadError> {
        let now = self.now()?;
        let slots = match open_if_there(&*self.disk, LOCK).map_err(|e| self.io("open", LOCK, &e))? {
            Some(file) => Slots::read(&*file).map_err(|e| self.io("read", LOCK, &e))?,
            None => Slots::default(),
        };
        let log = self.open_log(OpenMode::Read)?;
        let loaded = self.load(log, &now, slots, false)?;
        let views_fine = loaded.tail.is_empty() && self.views_untouched(&loaded.marks);
        let view = self.view_of(loaded.folded, loaded.position, now, Vec::new())?;
        Ok(View { views_fine, ..view })
    }

    fn view_of(
        &self,
        mut folded: FoldedState,
        position: Position,
        now: Now,
        notices: Vec<String>,
    ) -> Result<View, LoadError> {
        let unreadable = |e: Unreadable| LoadError::Repair(e.to_string());
        let anchor = state::anchor(&folded).map_err(unreadable)?;
        if anchor.is_some_and(|anchor| anchor.boot_id != now.boot) {
            // The first writer of this boot will record it; readers see its effect already.
            let mut overlay = Overlay::new(&folded);
            fold::reanchor(&mut overlay, &now.boot, now.ticks, now.wall).map_err(unreadable)?;
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
                Err(LoadError::Refused(refusal)) if refusal.code == Code::NotInitialized => {
                    return Err(refusal);
                }
                Err(_) => {}
            }
        }
        // The failure lasts: fold the log in memory, without writing. A writer may interfere with that too.
        let mut tries = 1;
        loop {
            match self.fold_in_memory(self.now()?) {
                Ok(view) => return Ok(view),
                Err(_) if tries < 3 => tries += 1,
                Err(LoadError::Refused(refusal)) => return Err(refusal),
                Err(LoadError::Repair(why)) => {
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

    fn earlier_claims(&self, before: u64) -> Outcome<Vec<Vec<u8>>> {
        claim_records::earlier(&*self.disk, before).map_err(|e| self.io("read", views::CLAIMS, &e))
    }

    fn validate(&self, actor: &Actor) -> Outcome<LogReport> {
        Self::validate(self, actor)
    }

    fn salvage(&self, actor: &Actor) -> Outcome<Recovered> {
        Self::salvage(self, actor)
    }
}
