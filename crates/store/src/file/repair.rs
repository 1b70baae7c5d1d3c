//! Repair at the next command, under the store's lock: the journal holds a second copy of the log's end, so each of the
//! two restores what the other lost. Then the state and the views are folded again.

use std::io;

use jit_core::log::event::Stamped;
use jit_core::log::line::{self, LogLine};
use jit_core::log::table::{MemoryTable, Overlay};
use jit_core::log::{fold, state};
use jit_core::model::time::Now;

use super::lock_file::{Slots, boot_mark};
use super::segments::{DIRS, Trust, ends_line};
use super::{FileStore, LoadError};
use crate::disk::{DiskFile, OpenMode, read_range, write_all_at};
use crate::folded_state::{self, FoldedState};
use crate::journal::{Ground, Header, Journal, Position, ViewMarks, encode_batch};
use crate::log::{self, Damage, LogTrouble, ReadRules};
use crate::port::{Outcome, View};
use crate::segment_bytes::SegmentBytes;
use crate::{refusals, views};

/// Number of events that are applied before they are merged into the table.
pub(super) const FOLD_EVERY: usize = 4096;

/// The active segment as it should be.
pub(super) struct Picture {
    pub(super) first: u64,
    pub(super) bytes: Vec<u8>,
    /// End of the last whole transaction.
    pub(super) end: Position,
    /// Bytes after it that do not count.
    pub(super) torn: u64,
    /// It differs from the file: the journal restored lines.
    pub(super) patched: bool,
}

/// The views after a repair.
#[derive(Clone, Copy)]
struct RebuiltViews {
    marks: ViewMarks,
    /// How far `claims.jsonl` may be believed next time.
    ground: Ground,
}

impl FileStore {
    /// Repairs log, journal, state and views. Call with the store's lock held.
    pub(super) fn repair(&self, now: &Now, slots: Slots, why: &str, trust: Trust) -> Outcome<Vec<String>> {
        let mut notices = Vec::new();
        let log = self.open_log(OpenMode::Existing)?;
        for dir in DIRS {
            // The user may have deleted files that can be made again, with their folder.
            self.disk.make_dir(dir).map_err(|e| self.io("create", dir, &e))?;
        }
        let journal = folded_state::read_journal(&*self.disk)
            .map_err(|e| self.io("read", folded_state::JOURNAL, &e))?;
        let covered = journal
            .as_ref()
            .map_or(0, |journal| journal.header.covers.sequence);
        let rules = Self::rules(slots, now, covered);
        let picture = self.picture(&*log, journal.as_ref(), rules)?;
        let folded = self.fold(journal.as_ref(), &picture, rules);
        if let Ok((folded, _)) = &folded {
            // Before anything is written.
            state::refuse_newer(folded).map_err(refusals::from_stop)?;
        }
        if picture.patched {
            self.write_picture(&*log, &picture)?;
            notices
                .push("the end of the log was torn or garbled; it was restored from the journal".to_owned());
        } else if picture.torn > 0 {
            notices.push(self.set_aside(&*log, &picture.end)?);
        }
        // The process that created the names may have been killed before they were durable.
        self.sync_names()?;
        let (folded, header) = folded?;
        let mut views = RebuiltViews {
            marks: journal.as_ref().map_or_else(ViewMarks::default, Journal::marks),
            ground: Ground::default(),
        };
        let before = journal.as_ref().map_or_else(Ground::default, |j| j.header.ground);
        let trusted = |marks: &ViewMarks| -> io::Result<Option<Ground>> {
            let as_left = slots.boot != boot_mark(&now.boot)
                || (marks.claims_changed > 0 && views::claims_untouched(&*self.disk, marks)?);
            Ok((trust == Trust::AsLeft && as_left).then_some(before))
        };
        match self.rebuild_views(&mut views, &folded, &picture.end, now, &trusted) {
            Ok(found) => notices.extend(found),
            Err(e) => {
                views.marks = ViewMarks {
                    claims_changed: views::NOT_MENDED,
                    ..ViewMarks::default()
                };
                notices.push(format!(
                    "the views could not be written ({e}); the next command will try again"
                ));
            }
        }
        self.rewrite_journal(&*log, &picture, &folded, header, slots, &views)
            .map_err(|e| self.io("write", folded_state::JOURNAL, &e))?;
        if !why.is_empty() {
            notices.insert(0, why.to_owned());
        }
        Ok(notices)
    }

    /// Makes `claims.jsonl` and the index say what the log says, up to `end`. `trusted` tells how far `claims.jsonl` may
    /// be believed unread.
    fn rebuild_views(
        &self,
        views: &mut RebuiltViews,
        folded: &FoldedState,
        end: &Position,
        now: &Now,
        trusted: &dyn Fn(&ViewMarks) -> io::Result<Option<Ground>>,
    ) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        let was = views.marks;
        let trusted = trusted(&was)?;
        views.ground = self.mend_claims(&mut views.marks, end.sequence, trusted)?;
        if was.claims_len != 0 && was.claims_len > views.marks.claims_len {
            found.push("claims.jsonl was ahead of the log; it was cut back".to_owned());
        }
        views::rebuild_index(&*self.disk, &mut views.marks, folded, end, now.wall)?;
        Ok(found)
    }

    /// Writes a journal for the state: on the runs that `header` names, or on a new run with all of it.
    fn rewrite_journal(
        &self,
        log: &dyn DiskFile,
        picture: &Picture,
        folded: &FoldedState,
        header: Option<Header>,
        slots: Slots,
        views: &RebuiltViews,
    ) -> io::Result<()> {
        let (position, RebuiltViews { marks, ground }) = (picture.end, *views);
        let Some(header) = header else {
            // Runs cover only what is durable. A sync that failed before, unknown to us, may have left pages that look
            // clean and are not on disk.
            if position.sequence > slots.synced {
                write_all_at(log, &picture.bytes[..position.offset as usize], 0)?;
            }
            log.sync()?;
            return folded_state::write_whole(&*self.disk, folded, &position, &marks, ground);
        };
        let mut batch = Vec::new();
        if position.sequence > header.covers.sequence {
            // The journal's copy of the log holds only lines of the position's own segment.
            let from = if header.covers.segment == picture.first {
                header.covers.offset
            } else {
                0
            };
            let lines = &picture.bytes[from as usize..position.offset as usize];
            batch = encode_batch(&position, &marks, lines, &folded.fresh)?;
        }
        let header = Header {
            marks,
            ground,
            ..header
        };
        folded_state::replace_journal(&*self.disk, &header, &batch)
    }

    /// A failed sync is like a power loss: pages of unacknowledged lines may be missing.
    pub(super) fn rules(slots: Slots, now: &Now, covered: u64) -> ReadRules {
        ReadRules {
            power_loss: slots.boot != boot_mark(&now.boot) || slots.suspect != 0,
            durable: slots.synced.max(covered),
        }
    }

    /// Chooses between the log as it is and the log with the journal's copy of its end.
    pub(super) fn picture(
        &self,
        log: &dyn DiskFile,
        journal: Option<&Journal>,
        rules: ReadRules,
    ) -> Outcome<Picture> {
        let bytes = self.read_active(log)?;
        let scan = |bytes: &Vec<u8>| -> Result<(u64, log::SegmentEnd), LogTrouble> {
            let Some((first, prev)) = log::first_of(bytes)? else {
                let why = "its first line is missing or unreadable";
                return Err(LogTrouble::Damage(Damage::at_start(log::ACTIVE, 0, why)));
            };
            let start = Position::beginning(first, prev);
            Ok((
                first,
                log::read_segment(bytes, log::ACTIVE, start, None, rules, &mut |_, _, _| Ok(()))?,
            ))
        };
        let as_is = scan(&bytes);
        if let Some(journal) = journal {
            let segment = match &as_is {
                Ok((first, _)) => *first,
                Err(_) => journal.position().segment,
            };
            let mut patched = bytes.clone();
            for (at, lines) in journal.lines_in(segment) {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                if at <= patched.len() {
                    let kept = patched.len().min(at + lines.len());
                    patched.splice(at..kept, lines.iter().copied());
                }
            }
            if patched != bytes
                && let Ok((first, end)) = scan(&patched)
                && as_is.as_ref().map_or(true, |(_, before)| {
                    before.position.sequence < end.position.sequence
                })
            {
                return Ok(Picture {
                    first,
                    bytes: patched,
                    end: end.position,
                    torn: end.torn,
                    patched: true,
                });
            }
        }
        let (first, end) = as_is.map_err(|trouble| self.trouble(log::ACTIVE, trouble))?;
        Ok(Picture {
            first,
            bytes,
            end: end.position,
            torn: end.torn,
            patched: false,
        })
    }

    pub(super) fn read_active(&self, log: &dyn DiskFile) -> Outcome<Vec<u8>> {
        let read = || read_range(log, 0, usize::try_from(log.meta()?.len).unwrap_or(usize::MAX));
        read().map_err(|e| self.io("read", log::ACTIVE, &e))
    }

    /// Reads every line after `from` (or from the beginning), across segments, checking that they belong together.
    pub(super) fn replay(
        &self,
        from: Option<Position>,
        active: &Picture,
        rules: ReadRules,
        each: &mut dyn FnMut(LogLine) -> Result<(), LogTrouble>,
    ) -> Outcome<Position> {
        let segments = self.segments(active.first)?;
        let mut at: Option<Position> = None;
        for (n, segment) in segments.iter().enumerate() {
            let until = segments.get(n + 1).map(|next| next.first);
            let before = |from: Position| {
                // A segment that was left because of a failed sync counts only up to the beginning of the next one,
                // which has its last lines again.
                segment.first < from.segment
                    || (segment.first == from.segment && until.is_some_and(|until| until <= from.sequence))
            };
            if from.is_some_and(before) {
                continue;
            }
            let sealed;
            let source: &dyn SegmentBytes = if until.is_none() {
                &active.bytes
            } else {
                sealed = self.open_sealed(segment)?;
                &*sealed
            };
            let start = match from.filter(|from| from.segment == segment.first) {
                Some(from) => from,
                None => self.segment_start(segment, source, at)?,
            };
            let mut opening = at.is_none() && from.is_none();
            let rules = if until.is_none() { rules } else { ReadRules::SEALED };
            let end = log::read_segment(source, &segment.path, start, until, rules, &mut |line, _, end| {
                if let Some(from) = from
                    && line.stamped.sequence <= from.sequence
                {
                    return if line.stamped.sequence < from.sequence || line.sum == from.sum {
                        Ok(())
                    } else {
                        Err(LogTrouble::Damage(Damage {
                            path: segment.path.clone(),
                            line: 0,
                            offset: end,
                            sequence: from.sequence,
                            why: "it is not the line that was there before".into(),
                        }))
                    };
                }
                if std::mem::take(&mut opening) && !line.begins_log() {
                    return Err(LogTrouble::Damage(Damage {
                        path: segment.path.clone(),
                        line: 1,
                        offset: end,
                        sequence: line.stamped.sequence,
                        why: "an earlier segment is missing".into(),
                    }));
                }
                each(line)
            })
            .map_err(|trouble| self.trouble(&segment.path, trouble))?;
            at = Some(end.position);
        }
        Ok(at.unwrap_or_default())
    }

    /// Folds the state: from the runs if they can be trusted, else from the whole log. Also returns the header of a
    /// journal that can build on those runs.
    fn fold(
        &self,
        journal: Option<&Journal>,
        active: &Picture,
        rules: ReadRules,
    ) -> Outcome<(FoldedState, Option<Header>)> {
        if let Some(header) = journal
            .map(|journal| &journal.header)
            .filter(|h| h.covers.sequence > 0)
            && self.still_there(&header.covers, active)
            && let Ok(runs) = folded_state::open_runs(&*self.disk, header, true)
        {
            let mut folded = FoldedState::without_journal(runs);
            let mut overlay = Overlay::new(&folded);
            self.replay(Some(header.covers), active, rules, &mut |line| {
                fold::apply(&mut overlay, &line.stamped).map_err(|e| LogTrouble::Io(io::Error::other(e)))
            })?;
            folded.fresh = overlay.changes;
            return Ok((folded, Some(header.clone())));
        }
        let mut memory = MemoryTable::default();
        let mut waiting: Vec<Stamped> = Vec::new();
        self.replay(None, active, rules, &mut |line| {
            waiting.push(line.stamped);
            if waiting.len() >= FOLD_EVERY {
                absorb(&mut memory, &mut waiting)
            } else {
                Ok(())
            }
        })?;
        absorb(&mut memory, &mut waiting).map_err(|trouble| self.trouble(log::ACTIVE, trouble))?;
        Ok((FoldedState::whole(memory), None))
    }

    /// Whether the log still has the line that `position` speaks of.
    fn still_there(&self, position: &Position, active: &Picture) -> bool {
        if position.segment == active.first {
            let upto = usize::try_from(position.offset).unwrap_or(usize::MAX);
            return active.bytes.get(..upto).is_some_and(|bytes| {
                bytes.ends_with(b"\n") && line::trailing_sum(bytes) == Some(position.sum)
            });
        }
        log::open_sealed(&*self.disk, position.segment)
            .is_ok_and(|sealed| ends_line(&*sealed, position).unwrap_or(false))
    }

    fn write_picture(&self, log: &dyn DiskFile, picture: &Picture) -> Outcome<()> {
        let good = &picture.bytes[..usize::try_from(picture.end.offset).unwrap_or(0)];
        let attempt = || -> io::Result<()> {
            let old = read_range(log, 0, usize::try_from(log.meta()?.len).unwrap_or(usize::MAX))?;
            let same = old.iter().zip(good).take_while(|(a, b)| a == b).count();
            if same < old.len() {
                let path = format!(
                    "events/torn-{:016}-{:016x}",
                    picture.end.sequence,
                    xxhash_rust::xxh3::xxh3_64(&old[same..])
                );
                write_all_at(&*self.disk.open(&path, OpenMode::Fresh)?, &old[same..], 0)?;
            }
            write_all_at(log, &good[same..], same as u64)?;
            log.set_len(good.len() as u64)
        };
        attempt().map_err(|e| self.io("mend", log::ACTIVE, &e))
    }

    /// Discards the folded state; the next load folds it again.
    pub(super) fn discard_state(&self) -> Outcome<()> {
        match self.disk.remove(folded_state::JOURNAL) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(self.io("remove", folded_state::JOURNAL, &e))
            }
            _ => Ok(()),
        }
    }

    /// Folds the state from the log alone, without writing.
    pub(super) fn fold_in_memory(&self, now: Now) -> Result<View, LoadError> {
        // The durable sequence is read first, and the journal before the log: the log can grow meanwhile.
        let slots = self.slots()?;
        let journal = folded_state::read_journal(&*self.disk)
            .map_err(|e| self.io("read", folded_state::JOURNAL, &e))?;
        let log = self.open_log(OpenMode::Read)?;
        let covered = journal
            .as_ref()
            .map_or(0, |journal| journal.header.covers.sequence);
        let rules = Self::rules(slots, &now, covered);
        let picture = self.picture(&*log, journal.as_ref(), rules)?;
        let (folded, _) = self.fold(journal.as_ref(), &picture, rules)?;
        self.view_of(
            folded,
            picture.end,
            now,
            vec!["the state beside the log cannot be used; it was folded in memory".into()],
        )
    }
}

pub(super) fn absorb(memory: &mut MemoryTable, waiting: &mut Vec<Stamped>) -> Result<(), LogTrouble> {
    let mut overlay = Overlay::new(memory);
    for stamped in waiting.drain(..) {
        fold::apply(&mut overlay, &stamped).map_err(|e| LogTrouble::Io(io::Error::other(e)))?;
    }
    let changes = overlay.changes;
    memory.absorb(changes);
    Ok(())
}
