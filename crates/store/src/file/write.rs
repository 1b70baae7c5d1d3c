//! The write path: load, decide, append, bring journal and views up to date, make durable. See the header of
//! [`crate::file`] for the order of the steps.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use jit_core::decide::{Decision, Draft, decide};
use jit_core::log::event::{Event, LoggedRequest, SegmentReason, Stamped};
use jit_core::log::line::encode_line;
use jit_core::log::table::{Overlay, Table, TableChanges};
use jit_core::log::{fold, state};
use jit_core::model::actor::Actor;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::{Now, Wall};

use super::lock_file::{BOOT_AT, LOCK, SUSPECT_AT, SYNCED_AT, Slots, boot_mark};
use super::segments::{Trust, ends_line};
use super::{FileStore, LoadError, damaged};
use crate::compressed::{self, Compressed};
use crate::disk::{DiskFile, LockGuard, OpenMode, open_if_there, read_range, write_all_at};
use crate::folded_state::{self, FoldedState};
use crate::journal::{Ground, Position, ViewMarks};
use crate::log::{self, Damage, LogTrouble, ReadRules};
use crate::port::{Ask, Done, Outcome};
use crate::{refusals, views};

const COMPACT_LOCK: &str = "locks/compact.lock";
/// The compressed form of a sealed segment, before it is known to be right.
const COMPRESSING: &str = "events/compressing.gz";
/// Requests are remembered at least this long, and for this many lines.
const REQUEST_MEMORY_MS: i64 = 24 * 3600 * 1000;
const REQUEST_MEMORY_LINES: u64 = 10_000;

/// How many bytes of the log's end every command compares with the journal's copy.
const LAST_LINES: usize = 16 * 1024;

/// The log, the state at its end, and the lines that are missing in journal and views.
pub(super) struct Loaded {
    log: Box<dyn DiskFile>,
    pub(super) folded: FoldedState,
    pub(super) position: Position,
    pub(super) marks: ViewMarks,
    /// Lines that are in the log but not in the journal, as events and as bytes.
    pub(super) tail: Vec<Stamped>,
    tail_bytes: Vec<u8>,
    notices: Vec<String>,
}

impl FileStore {
    /// One attempt at a transaction. `Err(LoadError::Repair)` if the state turned out to be unreadable on the way.
    pub(super) fn attempt(&self, ask: &mut Ask<'_>) -> Result<Done, LoadError> {
        let mut guard = self.lock(ask.actor)?;
        let (mut loaded, now, slots) = self.load_for_write(&*guard, ask.actor)?;
        let request = LoggedRequest {
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
                Ok(Decision::Already(reply)) => {
                    let notices = draft.take_notices();
                    drop(draft);
                    self.tend(&mut loaded, now.wall);
                    loaded.notices.extend(notices);
                    (Some(reply), own_in(&loaded.folded)?)
                }
                Ok(Decision::Done) => {
                    let events = draft.events().to_vec();
                    // Steps that may fail and be repeated come before the append.
                    let own = own_in(draft.state())?;
                    let notices = draft.take_notices();
                    let (lines, changes) = draft.finish(Some(&request))?;
                    (ask.prepare)(&events)?;
                    self.commit(&mut loaded, &lines, changes, slots, now.wall)?;
                    wrote = true;
                    loaded.notices.extend(notices);
                    loaded.notices.extend((ask.publish)(&lines, &loaded.folded));
                    (ask.command.reply(&events), own)
                }
            }
        };
        // A yes depends on every line before it, so these must be durable even if nothing was written now.
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

    /// The events of an earlier run of the same request, if there was one.
    fn answer_of(&self, loaded: &Loaded, request: &LoggedRequest) -> Result<Option<Vec<Event>>, LoadError> {
        let range = if request.id.is_made_up() {
            // Made-up ids are only in the log, not in the state.
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
            // Repeating the command would carry it out twice.
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

    /// Loads for writing, after any repair that is necessary.
    fn load_for_write(
        &self,
        guard: &dyn LockGuard,
        actor: &Actor,
    ) -> Result<(Loaded, Now, Slots), LoadError> {
        let now = self.now()?;
        let read_slots = || Slots::read(guard.file()).map_err(|e| self.io("read", LOCK, &e));
        let mut slots = read_slots()?;
        let mut notices = Vec::new();
        let first_look = if slots.boot != boot_mark(&now.boot) || slots.suspect != 0 {
            // Journal and views were not synced, or pages of the log were lost: check everything once.
            Err(LoadError::Repair(String::new()))
        } else {
            self.load(self.open_log(OpenMode::Existing)?, &now, slots, true)
        };
        let mut loaded = match first_look {
            Ok(loaded) => loaded,
            Err(LoadError::Refused(refusal)) => return Err(refusal.into()),
            Err(LoadError::Repair(why)) => {
                notices.extend(self.repair(&now, slots, &why, Trust::AsLeft)?);
                // Repaired and verified: from here on the rules of this boot hold.
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
            // So that lines of a killed writer are not mistaken for changes by another program.
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

    /// Loads the state if the journal ends where the log ends, or the log has a few complete lines more. With `write`,
    /// refuses a log with events of a newer jit, before anything is changed.
    pub(super) fn load(
        &self,
        log: Box<dyn DiskFile>,
        now: &Now,
        slots: Slots,
        write: bool,
    ) -> Result<Loaded, LoadError> {
        let repair = |why: &str| LoadError::Repair(why.to_owned());
        let journal = folded_state::read_journal(&*self.disk)
            .map_err(|e| self.io("read", folded_state::JOURNAL, &e))?
            .ok_or_else(|| {
                repair("the folded state was missing or unreadable; it was made anew from the log")
            })?;
        let runs = folded_state::open_runs(&*self.disk, &journal.header, false)
            .map_err(|e| LoadError::Repair(format!("{e}; the state was made anew from the log")))?;
        let from = journal.position();
        let len = log.meta().map_err(|e| self.io("read", log::ACTIVE, &e))?.len;
        if !ends_line(&log, &from).map_err(|e| self.io("read", log::ACTIVE, &e))? {
            return Err(repair(
                "journal and log did not agree; they were compared and mended",
            ));
        }
        // The checksum at the end proves only the last line, so earlier lines are compared too.
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
            folded: FoldedState::from_runs(journal, runs),
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
        // Lines of a writer that was killed before it wrote the journal, or that is at work right now.
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
            LogTrouble::Io(e) => LoadError::Refused(self.io("read", log::ACTIVE, &e)),
            // The journal may still have the lines that the log lost.
            LogTrouble::Damage(damage) => LoadError::Repair(damaged(&damage, &*self.disk).message),
        })?;
        let mut overlay = Overlay::new(&loaded.folded);
        for line in &tail {
            fold::apply(&mut overlay, line).map_err(|e| LoadError::Repair(e.to_string()))?;
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

    fn load_again(&self, now: &Now, slots: Slots) -> Outcome<Loaded> {
        self.load(self.open_log(OpenMode::Existing)?, now, slots, true)
            .map_err(|snag| match snag {
                LoadError::Refused(refusal) => refusal,
                LoadError::Repair(why) => Box::new(Refusal::new(
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

    /// Begins a new segment with every line that is not surely on disk, because a sync of the active one failed.
    fn leave_suspect(&self, loaded: &Loaded, now: &Now, slots: Slots, actor: &Actor) -> Outcome<()> {
        let position = loaded.position;
        let source: &dyn DiskFile = &*loaded.log;
        let first = log::first_of(&source).map_err(|e| self.io("read", log::ACTIVE, &e))?;
        let start = first.map_or(position, |(first, prev)| Position::beginning(first, prev));
        let mut kept = Vec::new();
        // Lines that runs cover had been synced, even if the lock file does not say so.
        let covered = loaded
            .folded
            .journal
            .as_ref()
            .map_or(0, |j| j.header.covers.sequence);
        let sure = slots.synced.max(covered);
        let rules = ReadRules {
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

    /// Sealed segments are the ground that the views are checked against.
    fn sync_claims(&self) -> io::Result<()> {
        match open_if_there(&*self.disk, views::CLAIMS)? {
            Some(claims) => views::sync_claims(&*self.disk, &*claims),
            None => Ok(()),
        }
    }

    /// Updates journal and views after the log continued in a new segment.
    fn rejournal(&self, now: &Now, slots: Slots) -> Outcome<()> {
        self.repair(now, slots, "", Trust::AsLeft).map(|_| ())
    }

    /// Appends a transaction to the log and updates views and journal. The caller syncs.
    fn commit(
        &self,
        loaded: &mut Loaded,
        lines: &[Stamped],
        changes: TableChanges,
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
            // Cuts off the part that was written. If that fails too, the next writer finds a torn end.
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

    /// The lines at the end of the log that are not known to be synced, from the journal's copy, with their offset.
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

    /// Makes the pages of lines that are not known to be synced dirty again.
    fn write_unsynced(loaded: &Loaded, slots: Slots) -> io::Result<()> {
        let (at, bytes) = Self::unsynced(loaded, slots);
        write_all_at(&*loaded.log, &bytes, at)
    }

    /// Updates views and journal after an append.
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
                // The journal must be written all the same.
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
        if let views::IndexCheck::Repaired(note) = found {
            loaded.notices.push(note.into());
        }
        loaded.tail_bytes.extend_from_slice(bytes);
        if let Some(journal) = &loaded.folded.journal {
            let (marks, fresh) = (&loaded.marks, &loaded.folded.fresh);
            folded_state::append(disk, journal, &loaded.position, marks, &loaded.tail_bytes, fresh)?;
        }
        Ok(())
    }

    /// Repairs journal and views after a killed writer or a change by another program, when no line is appended.
    fn tend(&self, loaded: &mut Loaded, wall: Wall) {
        let wrong = !loaded.tail.is_empty() || !self.views_untouched(&loaded.marks);
        if wrong && let Err(e) = self.catch_up(loaded, &[], &[], wall) {
            loaded.notices.push(format!(
                "files beside the log could not be brought up to date: {e}"
            ));
        }
    }

    pub(super) fn views_untouched(&self, marks: &ViewMarks) -> bool {
        views::index_untouched(&*self.disk, marks).unwrap_or(false)
            && views::claims_untouched(&*self.disk, marks).unwrap_or(false)
    }

    /// Repairs the views for a command that only reads, if no process is writing. Never waits. Returns a line for each
    /// repair.
    pub fn mend_views(&self, actor: &Actor) -> Vec<String> {
        let quick = Self {
            lock_wait: Duration::ZERO,
            ..self.clone()
        };
        let mend = || -> Result<Vec<String>, LoadError> {
            let guard = quick.lock(actor)?;
            let now = self.now()?;
            let slots = Slots::read(guard.file()).map_err(|e| self.io("read", LOCK, &e))?;
            if slots.boot != boot_mark(&now.boot) {
                // The first writer of this boot checks everything anyway.
                return Ok(Vec::new());
            }
            // Opened for reading: a reader does not repair the log itself.
            let mut loaded = self.load(self.open_log(OpenMode::Read)?, &now, slots, false)?;
            state::refuse_newer(&loaded.folded)?;
            self.tend(&mut loaded, now.wall);
            Ok(loaded.notices)
        };
        mend().unwrap_or_default()
    }

    /// Makes `claims.jsonl` agree with the log up to sequence `upto`. Its part about sealed segments was synced when they
    /// were sealed: bytes before `trusted` are believed without reading them. Pass `None` if another program may have
    /// changed the file. Returns how far it may be believed next time.
    pub(super) fn mend_claims(
        &self,
        marks: &mut ViewMarks,
        upto: u64,
        trusted: Option<Ground>,
    ) -> io::Result<Ground> {
        let refused = |refusal: Box<Refusal>| io::Error::other(refusal.message);
        let source = self.open_log(OpenMode::Read).map_err(refused)?;
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
            let record = jit_core::query::claim_views::claims_record(&line).unwrap_or_default();
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
        // That part is not compared again, so it must be durable.
        mender.finish(&*self.disk, marks, trusted.is_none() || found != ground)?;
        Ok(found)
    }

    /// Syncs the log up to the loaded position and records that in the lock file.
    fn make_durable(&self, guard: &mut dyn LockGuard, loaded: &Loaded) -> Outcome<()> {
        // If it fails, other writers wait a little longer.
        let _ = guard.release();
        let segment = loaded.position.segment;
        if let Err(e) = loaded.log.sync() {
            // Segment numbers grow: a mark on a later segment must stay.
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

    /// Folds the journal into runs when it has grown, and compresses a sealed segment if there is one to compress. A
    /// failure is harmless: a later command tries again.
    fn compact_if_heavy(&self, loaded: &Loaded, wall: Wall, actor: &Actor) {
        let weight = loaded
            .folded
            .journal
            .as_ref()
            .map_or(0, crate::journal::Journal::weight);
        if weight < self.journal_limit {
            return;
        }
        let Ok(_turn) = self.disk.lock(COMPACT_LOCK, Duration::ZERO) else {
            return;
        };
        // The wall clock may jump, so requests near the end of the log are kept whatever the clock says.
        let forgotten = |key: &str, value: &[u8]| {
            key.starts_with("q/")
                && serde_json::from_slice::<state::Answered>(value).is_ok_and(|answered| {
                    answered.at.ms() + REQUEST_MEMORY_MS < wall.ms()
                        && answered.last + REQUEST_MEMORY_LINES < loaded.position.sequence
                })
        };
        if let Ok(Some(compaction)) = folded_state::compact(&*self.disk, loaded.position.sequence, &forgotten)
            && let Ok(_guard) = self.lock(actor)
        {
            let _ = folded_state::install(&*self.disk, &compaction);
        }
        let _ = self.compress_oldest(actor);
    }

    /// Compresses the oldest sealed segment that is plain. Call with the lock of the compaction held, so that one process
    /// writes the file. See [`crate::compressed`].
    fn compress_oldest(&self, actor: &Actor) -> io::Result<()> {
        let mut sealed = log::sealed(&*self.disk)?.into_iter();
        let Some(segment) = sealed.find(|segment| !segment.is_compressed()) else {
            return Ok(());
        };
        let plain = self.disk.open(&segment.path, OpenMode::Read)?;
        let read = plain.meta()?;
        let file = self.disk.open(COMPRESSING, OpenMode::Fresh)?;
        compressed::write(&plain, &*file)?;
        file.sync()?;
        if !compressed::same_text(&plain, &Compressed::new(file))? {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let _guard = self
            .lock(actor)
            .map_err(|refusal| io::Error::other(refusal.message))?;
        if self.disk.meta(&segment.path)? != Some(read) {
            // A recovery moved it away.
            return Ok(());
        }
        self.disk
            .rename(COMPRESSING, &log::compressed_path(segment.first))?;
        self.disk.sync_dir("events")?;
        self.disk.remove(&segment.path)
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
