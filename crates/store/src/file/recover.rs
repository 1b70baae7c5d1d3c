//! Mending, checking and salvaging.
//!
//! - *Mending* happens at the next command, under the store's lock: the journal holds a second copy of the log's end, so
//!   what one of the two lost the other gives back; then the state and the views are folded again.
//! - *Checking* (`jit validate`) reads every byte and compares, and changes nothing.
//! - *Salvaging* (`jit recover`) is for damage that neither copy can mend. It never throws anything away: all files go to
//!   a backup, and a new segment begins that says what survived.

use std::io;

use jit_core::event::{Did, Event, SegmentReason, Stamped};
use jit_core::lease::Actor;
use jit_core::refusal::{Code, Refusal};
use jit_core::state;
use jit_core::table::{Memory, Overlay, Table};
use jit_core::time::Now;
use jit_core::wire::{self, Line, decode_line, encode_line};

use super::disk::{DiskFile, How, open_if_there, read_range, write_all_at};
use super::file::{DIRS, FileStore, LOCK, SUSPECT_AT, Slots, Snag, boot_mark, damaged, ends_line};
use super::folded::{self, Folded};
use super::journal::{Ground, Header, Journal, Position, ViewMarks, encode_batch};
use super::log::{self, Damage, Rules, Segment, Source, Trouble};
use super::{LogProblem, LogReport, Outcome, Recovered, View, refusals, views};

/// How many events are applied before they are folded into the table under them.
const FOLD_EVERY: usize = 4096;

/// A new log in the making, before it takes the place of an older one in the making.
const RECOVERED: &str = "events/recovered.jsonl";

/// The active segment as it should be.
struct Picture {
    first: u64,
    bytes: Vec<u8>,
    /// End of the last whole transaction.
    end: Position,
    /// Bytes after it that do not count.
    torn: u64,
    /// It differs from the file: lines were given back by the journal.
    patched: bool,
}

/// Whether the part of `claims.jsonl` about sealed segments may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// If nobody has changed the file since, or the machine was started anew.
    AsLeft,
    No,
}

impl FileStore {
    fn read_active(&self, log: &dyn DiskFile) -> Outcome<Vec<u8>> {
        let read = || read_range(log, 0, usize::try_from(log.meta()?.len).unwrap_or(usize::MAX));
        read().map_err(|e| self.io("read", log::ACTIVE, &e))
    }

    /// A failed sync is a small power loss: pages may be missing that nobody was told yes about.
    pub(super) fn rules(slots: Slots, now: &Now, covered: u64) -> Rules {
        Rules {
            power_loss: slots.boot != boot_mark(&now.boot) || slots.suspect != 0,
            durable: slots.synced.max(covered),
        }
    }

    /// Chooses between the log as it is and the log with the journal's copy of its end.
    fn picture(&self, log: &dyn DiskFile, journal: Option<&Journal>, rules: Rules) -> Outcome<Picture> {
        let bytes = self.read_active(log)?;
        let scan = |bytes: &Vec<u8>| -> Result<(u64, log::End), Trouble> {
            let Some((first, prev)) = log::first_of(bytes)? else {
                return Err(Trouble::Damage(Damage {
                    path: log::ACTIVE.into(),
                    line: 1,
                    offset: 0,
                    sequence: 0,
                    why: "its first line is missing or unreadable".into(),
                }));
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

    /// All segments that count, oldest first; the last one is the active one.
    fn segments(&self, active_first: u64) -> Outcome<Vec<Segment>> {
        let mut segments = self.sealed()?;
        segments.retain(|segment| segment.first < active_first);
        segments.push(Segment {
            path: log::ACTIVE.into(),
            first: active_first,
        });
        Ok(segments)
    }

    /// Reads every line after `from` (or from the beginning), across segments, checking that they belong together.
    fn replay(
        &self,
        from: Option<Position>,
        active: &Picture,
        rules: Rules,
        each: &mut dyn FnMut(Line) -> Result<(), Trouble>,
    ) -> Outcome<Position> {
        let segments = self.segments(active.first)?;
        let mut at: Option<Position> = None;
        for (n, segment) in segments.iter().enumerate() {
            let until = segments.get(n + 1).map(|next| next.first);
            let before = |from: Position| {
                // A segment that was left because of a failed sync counts only up to where the next one begins: what
                // was known of its end is continued there.
                segment.first < from.segment
                    || (segment.first == from.segment && until.is_some_and(|until| until <= from.sequence))
            };
            if from.is_some_and(before) {
                continue;
            }
            let file;
            let on_disk: &dyn DiskFile;
            let source: &dyn Source = if until.is_none() {
                &active.bytes
            } else {
                file = self
                    .disk
                    .open(&segment.path, How::Read)
                    .map_err(|e| self.io("open", &segment.path, &e))?;
                on_disk = &*file;
                &on_disk
            };
            let start = if let Some(from) = from.filter(|from| from.segment == segment.first) {
                from
            } else {
                let first = log::first_of(source).map_err(|e| self.io("read", &segment.path, &e))?;
                let expected = at.map(|at| (at.sequence + 1, at.sum));
                match first {
                    Some((first, prev))
                        if first == segment.first && expected.is_none_or(|e| e == (first, prev)) =>
                    {
                        Position::beginning(first, prev)
                    }
                    _ => {
                        return Err(damaged(
                            &Damage {
                                path: segment.path.clone(),
                                line: 1,
                                offset: 0,
                                sequence: expected.map_or(segment.first, |(sequence, _)| sequence),
                                why: "it does not continue the segment before".into(),
                            },
                            &*self.disk,
                        ));
                    }
                }
            };
            let mut opening = at.is_none() && from.is_none();
            let rules = if until.is_none() { rules } else { Rules::SEALED };
            let end = log::read_segment(source, &segment.path, start, until, rules, &mut |line, _, end| {
                if let Some(from) = from
                    && line.stamped.sequence <= from.sequence
                {
                    return if line.stamped.sequence < from.sequence || line.sum == from.sum {
                        Ok(())
                    } else {
                        Err(Trouble::Damage(Damage {
                            path: segment.path.clone(),
                            line: 0,
                            offset: end,
                            sequence: from.sequence,
                            why: "it is not the line that was there before".into(),
                        }))
                    };
                }
                if std::mem::take(&mut opening) && !line.begins_log() {
                    return Err(Trouble::Damage(Damage {
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
    /// journal that can stand on those runs.
    fn fold(
        &self,
        journal: Option<&Journal>,
        active: &Picture,
        rules: Rules,
    ) -> Outcome<(Folded, Option<Header>)> {
        if let Some(header) = journal
            .map(|journal| &journal.header)
            .filter(|h| h.covers.sequence > 0)
            && self.still_there(&header.covers, active)
            && let Ok(runs) = folded::open_runs(&*self.disk, header, true)
        {
            let mut folded = Folded::without_journal(runs);
            let mut overlay = Overlay::new(&folded);
            self.replay(Some(header.covers), active, rules, &mut |line| {
                state::apply(&mut overlay, &line.stamped).map_err(|e| Trouble::Io(io::Error::other(e)))
            })?;
            folded.fresh = overlay.changes;
            return Ok((folded, Some(header.clone())));
        }
        let mut memory = Memory::default();
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
        Ok((Folded::whole(memory), None))
    }

    /// Whether the log still has the line that `position` speaks of.
    fn still_there(&self, position: &Position, active: &Picture) -> bool {
        if position.segment == active.first {
            let upto = usize::try_from(position.offset).unwrap_or(usize::MAX);
            return active.bytes.get(..upto).is_some_and(|bytes| {
                bytes.ends_with(b"\n") && wire::trailing_sum(bytes) == Some(position.sum)
            });
        }
        let file = self.disk.open(&log::sealed_path(position.segment), How::Read);
        file.is_ok_and(|file| ends_line(&*file, position).unwrap_or(false))
    }

    /// Puts log, journal, state and views right. Call with the store's lock held.
    pub(super) fn repair(&self, now: &Now, slots: Slots, why: &str, trust: Trust) -> Outcome<Vec<String>> {
        let mut notices = Vec::new();
        let log = self.open_log(How::Existing)?;
        for dir in DIRS {
            // Somebody may have deleted what can be made again, folder and all.
            self.disk.make_dir(dir).map_err(|e| self.io("create", dir, &e))?;
        }
        let journal = folded::read_journal(&*self.disk).map_err(|e| self.io("read", folded::JOURNAL, &e))?;
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
        // Whoever made the names may have been killed before they were durable.
        self.sync_names()?;
        let (folded, header) = folded?;
        let mut marks = journal.as_ref().map_or_else(ViewMarks::default, Journal::marks);
        let mut ground = Ground::default();
        let position = picture.end;
        let views = || -> io::Result<Vec<String>> {
            let mut found = Vec::new();
            let was = marks;
            let as_left = slots.boot != boot_mark(&now.boot)
                || (marks.claims_changed > 0 && views::claims_untouched(&*self.disk, &marks)?);
            let before = journal.as_ref().map_or_else(Ground::default, |j| j.header.ground);
            let trusted = (trust == Trust::AsLeft && as_left).then_some(before);
            ground = self.mend_claims(&mut marks, position.sequence, trusted)?;
            if was.claims_len != 0 && was.claims_len > marks.claims_len {
                found.push("claims.jsonl was ahead of the log; it was cut back".to_owned());
            }
            views::rebuild_index(&*self.disk, &mut marks, &folded, &position, now.wall)?;
            Ok(found)
        };
        let mut views = views;
        match views() {
            Ok(found) => notices.extend(found),
            Err(e) => {
                marks = ViewMarks {
                    claims_changed: views::NOT_MENDED,
                    ..ViewMarks::default()
                };
                notices.push(format!(
                    "the views could not be written ({e}); the next command will try again"
                ));
            }
        }
        let write = || -> io::Result<()> {
            match &header {
                Some(header) => {
                    let mut batch = Vec::new();
                    if position.sequence > header.covers.sequence {
                        // The journal's copy of the log holds what is in the position's own segment.
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
                        ..header.clone()
                    };
                    folded::replace_journal(&*self.disk, &header, &batch)
                }
                None => {
                    // Runs cover only what is durable. A sync that failed before, unknown to us, may have left pages
                    // that look clean and are not on disk.
                    if position.sequence > slots.synced {
                        write_all_at(&*log, &picture.bytes[..position.offset as usize], 0)?;
                    }
                    log.sync()?;
                    folded::write_whole(&*self.disk, &folded, &position, &marks, ground)
                }
            }
        };
        write().map_err(|e| self.io("write", folded::JOURNAL, &e))?;
        if !why.is_empty() {
            notices.insert(0, why.to_owned());
        }
        Ok(notices)
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
                write_all_at(&*self.disk.open(&path, How::Fresh)?, &old[same..], 0)?;
            }
            write_all_at(log, &good[same..], same as u64)?;
            log.set_len(good.len() as u64)
        };
        attempt().map_err(|e| self.io("mend", log::ACTIVE, &e))
    }

    /// Throws the folded state away; the next load folds it again.
    pub(super) fn discard_state(&self) -> Outcome<()> {
        match self.disk.remove(folded::JOURNAL) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.io("remove", folded::JOURNAL, &e)),
            _ => Ok(()),
        }
    }

    /// Reads without trusting anything but the log, and without writing.
    pub(super) fn fold_in_memory(&self, now: Now) -> Result<View, Snag> {
        // What is promised is asked first, and what rests on the log before the log: that goes on meanwhile.
        let slots = self.slots()?;
        let journal = folded::read_journal(&*self.disk).map_err(|e| self.io("read", folded::JOURNAL, &e))?;
        let log = self.open_log(How::Read)?;
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

    pub(super) fn slots(&self) -> Outcome<Slots> {
        let read = || match open_if_there(&*self.disk, LOCK)? {
            Some(file) => Slots::read(&*file),
            None => Ok(Slots::default()),
        };
        read().map_err(|e| self.io("read", LOCK, &e))
    }

    /// Compares everything with the log, changing nothing. Takes the store's lock, so that nothing moves meanwhile.
    pub fn validate(&self, actor: &Actor) -> Outcome<LogReport> {
        let _guard = self.lock(actor)?;
        let now = self.now()?;
        let slots = self.slots()?;
        let mut report = LogReport::default();
        let log = self.open_log(How::Read)?;
        let journal = folded::read_journal(&*self.disk).map_err(|e| self.io("read", folded::JOURNAL, &e))?;
        let covered = journal
            .as_ref()
            .map_or(0, |journal| journal.header.covers.sequence);
        let rules = Self::rules(slots, &now, covered);
        let problem = |check, message: String, heals| LogProblem {
            check,
            message,
            heals,
            help: if heals {
                "any jit command that writes mends it".into()
            } else {
                "jit recover".into()
            },
        };
        let (mut claims_upto, mut claims_fine) = (0, true);
        let whole = self.picture(&*log, None, rules).and_then(|picture| {
            if picture.torn > 0 {
                report.problems.push(problem(
                    "log",
                    format!("{} bytes of an unfinished write at its end", picture.torn),
                    true,
                ));
            }
            let mut memory = Memory::default();
            let mut waiting = Vec::new();
            let segments = self.segments(picture.first)?;
            report.segments = segments.len() as u64;
            let oldest = segments.first().map_or(picture.first, |segment| segment.first);
            claims_upto =
                views::trusted_claims(&*self.disk, Ground::default(), oldest - 1).map_or(0, |(len, _)| len);
            let mut records = Vec::new();
            self.replay(None, &picture, rules, &mut |line| {
                report.lines += 1;
                records.extend(wire::claims_record(&line.stamped).unwrap_or_default());
                if records.len() > 1 << 18 || line.stamped.sequence == picture.end.sequence {
                    claims_fine &= views::claims_say(&*self.disk, claims_upto, &records).unwrap_or(false);
                    claims_upto += records.len() as u64;
                    records.clear();
                }
                waiting.push(line.stamped);
                if waiting.len() >= FOLD_EVERY {
                    absorb(&mut memory, &mut waiting)
                } else {
                    Ok(())
                }
            })?;
            absorb(&mut memory, &mut waiting).map_err(|trouble| self.trouble(log::ACTIVE, trouble))?;
            Ok((memory, picture))
        });
        let (memory, picture) = match whole {
            Ok(found) => found,
            Err(refusal) if refusal.code == Code::Damaged => {
                let heals = self
                    .picture(&*log, journal.as_ref(), rules)
                    .is_ok_and(|picture| picture.patched);
                report.problems.push(LogProblem {
                    // Everyday commands do not read that far back.
                    help: "jit recover".into(),
                    ..problem("log", refusal.message, heals)
                });
                return Ok(report);
            }
            Err(refusal) => return Err(refusal),
        };
        let unreadable = |e: jit_core::table::Unreadable| Box::new(Refusal::new(Code::Io, e.to_string()));
        let leases = state::leases(&memory).map_err(unreadable)?;
        report.leases = leases.len() as u64;
        report.issues = state::issues(&memory).map_err(unreadable)?.len() as u64;
        self.check_state(&memory, journal, picture.end.sequence, &mut report);
        let marks = folded::read_journal(&*self.disk)
            .ok()
            .flatten()
            .map_or_else(ViewMarks::default, |j| j.marks());
        self.check_views(&memory, &marks, &mut report);
        let len = self
            .disk
            .meta(views::CLAIMS)
            .ok()
            .flatten()
            .map_or(0, |meta| meta.len);
        if !claims_fine || len != claims_upto {
            let mut found = problem(
                "claims",
                "claims.jsonl is missing, torn or was changed by somebody else".into(),
                true,
            );
            if !views::claims_will_be_mended(&*self.disk, &marks).unwrap_or(false) {
                // Everyday commands look only at its end.
                found.help = "jit recover".into();
            }
            report.problems.push(found);
        }
        Ok(report)
    }

    fn check_state(&self, memory: &Memory, journal: Option<Journal>, end: u64, report: &mut LogReport) {
        let mut problem = |message: String| {
            report.problems.push(LogProblem {
                check: "state",
                message,
                heals: true,
                help: "jit recover".into(),
            });
        };
        let Some(journal) = journal else {
            return problem("the journal is missing or unreadable".into());
        };
        let position = journal.position();
        let runs = match folded::open_runs(&*self.disk, &journal.header, true) {
            Ok(runs) => runs,
            Err(e) => return problem(e.to_string()),
        };
        let folded = Folded::from_runs(journal, runs);
        match folded.scan("", usize::MAX) {
            Err(e) => problem(e.to_string()),
            Ok(records) => {
                // Forgotten requests may be missing; the journal may end before a killed writer's last lines.
                let same = |k: &String| !k.starts_with("q/");
                let on_disk: std::collections::BTreeMap<_, _> =
                    records.into_iter().filter(|(k, _)| same(k)).collect();
                let expected = memory.0.iter().filter(|(k, _)| same(k));
                let differs = !expected.eq(on_disk.iter());
                if differs && position.sequence >= end {
                    problem("the folded state does not say what the log says".into());
                }
            }
        }
    }

    fn check_views(&self, memory: &Memory, marks: &ViewMarks, report: &mut LogReport) {
        let mut problem = |check, message: &str| {
            report.problems.push(LogProblem {
                check,
                message: message.into(),
                heals: true,
                help: "any jit command that writes mends it".into(),
            });
        };
        match views::index_untouched(&*self.disk, marks) {
            Ok(true) => {
                let active = state::active_count(memory).unwrap_or(0);
                if active <= views::EXACT_UPTO && !views::index_says(&*self.disk, memory).unwrap_or(false) {
                    problem("index", "claims.index.json does not say what the log says");
                }
            }
            _ => problem(
                "index",
                "claims.index.json is missing or was changed by somebody else",
            ),
        }
    }

    /// Saves what can be saved from a damaged log. The old files are moved to a backup, never deleted.
    pub fn salvage(&self, actor: &Actor) -> Outcome<Recovered> {
        for dir in DIRS {
            self.disk.make_dir(dir).map_err(|e| self.io("create", dir, &e))?;
        }
        let guard = self.lock(actor)?;
        let now = self.now()?;
        let slots = self.slots()?;
        let sound = self.repair(&now, slots, "", Trust::No).and_then(|mended| {
            let log = self.open_log(How::Read)?;
            let rules = Self::rules(slots, &now, 0);
            let picture = self.picture(&*log, None, rules)?;
            let mut lines = 0;
            self.replay(None, &picture, rules, &mut |_| {
                lines += 1;
                Ok(())
            })?;
            // The log is there and sound, so a segment in the making is a leftover.
            match self.disk.remove(log::NEXT) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.io("remove", log::NEXT, &e)),
                _ => Ok(Recovered::Sound { lines, mended }),
            }
        });
        match sound {
            Err(refusal) if refusal.code == Code::Damaged => {}
            other => return other,
        }
        let (memory, last, lost) = self.survivors(&now, slots.synced)?;
        state::refuse_newer(&memory).map_err(refusals::from_stop)?;
        // Tokens up to there were given out, even if nothing else is known of them.
        let last = last.max(slots.synced);
        let backup = self.fresh_backup(&now)?;
        let bytes = self.restatement(&memory, last, lost, &backup, &now, actor)?;
        // Whatever happens in between: either the damaged log is still there to be salvaged again, or everything of
        // it is in the backup and the new one only waits for its name.
        let attempt = || -> io::Result<()> {
            // Not in place: what an earlier recovery wrote there may be all that is left.
            self.write_durably(RECOVERED, &bytes)?;
            self.disk.rename(RECOVERED, log::NEXT)?;
            self.disk.sync_dir("events")?;
            let away = |path: String, name: &str| self.disk.rename(&path, &format!("{backup}/{name}"));
            for dir in ["state", "events"] {
                for name in self.disk.list(dir)? {
                    let path = format!("{dir}/{name}");
                    if path != log::ACTIVE && path != log::NEXT {
                        away(path, &name)?;
                    }
                }
                self.disk.sync_dir(dir)?;
            }
            if self.disk.meta(log::ACTIVE)?.is_some() {
                away(log::ACTIVE.to_owned(), "control.jsonl")?;
            }
            self.disk.sync_dir(&backup)?;
            self.disk.sync_dir("events")?;
            self.disk.rename(log::NEXT, log::ACTIVE)
        };
        attempt().map_err(|e| self.io("set aside", "events", &e))?;
        self.sync_names()?;
        Slots::write(guard.file(), SUSPECT_AT, 0).map_err(|e| self.io("write", LOCK, &e))?;
        self.repair(&now, self.slots()?, "", Trust::No)?;
        let count = |prefix: &str| {
            memory
                .scan(prefix, usize::MAX)
                .map_or(0, |found| found.len() as u64)
        };
        Ok(Recovered::Salvaged {
            backup: self.disk.show(&backup).display().to_string(),
            lost,
            leases: count("L/"),
            issues: count("i/"),
        })
    }

    /// A directory for the old files that has never been used before.
    fn fresh_backup(&self, now: &Now) -> Outcome<String> {
        let name = format!("backup-{}", now.wall.to_string().replace([':', '.'], "-"));
        let attempt = || -> io::Result<String> {
            let mut path = name.clone();
            let mut n = 1;
            while self.disk.meta(&path)?.is_some() {
                n += 1;
                path = format!("{name}-{n}");
            }
            self.disk.make_dir(&path)?;
            self.disk.sync_dir("")?;
            Ok(path)
        };
        attempt().map_err(|e| self.io("create", &name, &e))
    }

    /// The state that every readable line adds up to, the highest sequence seen, and how many lines are lost. Where the
    /// folded state is sound it is the better witness: it remembers lines that can no longer be read.
    fn survivors(&self, now: &Now, synced: u64) -> Outcome<(Memory, u64, u64)> {
        let mut memory = Memory::default();
        let mut known = 0;
        if let Ok(Some(journal)) = folded::read_journal(&*self.disk)
            && let Ok(runs) = folded::open_runs(&*self.disk, &journal.header, true)
        {
            let position = journal.position();
            if let Ok(records) = Folded::from_runs(journal, runs).scan("", usize::MAX) {
                memory.0 = records.into_iter().collect();
                known = position.sequence;
            }
        }
        let (mut last, mut lost) = (0u64, 0u64);
        let mut waiting = Vec::new();
        let mut paths: Vec<String> = self.sealed()?.into_iter().map(|segment| segment.path).collect();
        paths.extend([log::ACTIVE.to_owned(), log::NEXT.to_owned()]);
        for path in paths {
            let file = open_if_there(&*self.disk, &path).map_err(|e| self.io("open", &path, &e))?;
            let Some(file) = file else {
                continue;
            };
            let bytes = self.read_active(&*file)?;
            // A segment in the making counts when it is whole: an earlier recovery that was interrupted says all
            // there is to say, half of one says less than the files it was made from. When the log has gone on
            // since, it is out of date and says nothing.
            if path == log::NEXT {
                let seen = last.max(known).max(synced);
                let first = log::first_if_whole(&bytes).map_err(|e| self.io("read", &path, &e))?;
                if first.is_none_or(|first| first <= seen) {
                    continue;
                }
            }
            for text in bytes.split(|b| *b == b'\n').filter(|text| !text.is_empty()) {
                match decode_line(text) {
                    Ok(line) if line.stamped.sequence > last => {
                        lost += line.stamped.sequence - last - 1;
                        last = line.stamped.sequence;
                        if last > known {
                            waiting.push(line.stamped);
                        }
                    }
                    _ => {}
                }
                if waiting.len() >= FOLD_EVERY {
                    absorb(&mut memory, &mut waiting).map_err(|trouble| self.trouble(&path, trouble))?;
                }
            }
        }
        absorb(&mut memory, &mut waiting).map_err(|trouble| self.trouble(log::ACTIVE, trouble))?;
        let before = memory.clone();
        let mut overlay = Overlay::new(&before);
        if state::anchor(&before)
            .ok()
            .flatten()
            .is_none_or(|anchor| anchor.boot_id != now.boot)
        {
            state::reanchor(&mut overlay, &now.boot, now.ticks, now.wall)
                .map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
        }
        memory.absorb(overlay.changes);
        Ok((memory, last.max(known), lost))
    }

    /// The new first segment: what survived, said again.
    fn restatement(
        &self,
        memory: &Memory,
        last: u64,
        lost: u64,
        backup: &str,
        now: &Now,
        actor: &Actor,
    ) -> Outcome<Vec<u8>> {
        let unreadable = |e: jit_core::table::Unreadable| Box::new(Refusal::new(Code::Io, e.to_string()));
        let mut events = vec![
            Event::SegmentStarted {
                reason: SegmentReason::Recovered,
            },
            Event::LogRecovered {
                lost,
                backup: backup.to_owned(),
            },
            Event::Boot {
                boot: now.boot.clone(),
                ticks: now.ticks,
            },
        ];
        for issue in [
            state::issues(memory).map_err(unreadable)?,
            state::tombstones(memory).map_err(unreadable)?,
        ]
        .concat()
        {
            let sheet = state::sheet(memory, &issue.id).map_err(unreadable)?;
            let id = issue.id.clone();
            events.push(Event::Issue {
                did: Did::Restored,
                issue,
                sheet,
            });
            for comment in state::comments(memory, &id).map_err(unreadable)? {
                events.push(Event::Commented {
                    issue_id: id.clone(),
                    comment,
                });
            }
            for (gate, result) in state::gate_results(memory, &id).map_err(unreadable)? {
                events.push(Event::GateJudged {
                    issue_id: id.clone(),
                    gate,
                    result,
                });
            }
        }
        for unit in state::units(memory).map_err(unreadable)? {
            events.push(Event::Unit {
                input: jit_core::unit::Input::CreateWorktree,
                unit: Box::new(unit),
            });
        }
        for account in state::accounts(memory).map_err(unreadable)? {
            events.push(Event::Account {
                did: jit_core::account::Did::Parked,
                account: Box::new(account),
            });
        }
        for session in state::sessions(memory).map_err(unreadable)? {
            events.push(Event::SessionStarted { session });
        }
        let mut leases = state::leases(memory).map_err(unreadable)?;
        leases.sort_by_key(|lease| lease.token);
        events.extend(leases.into_iter().map(|lease| Event::Restored { lease }));
        let total = u32::try_from(events.len()).unwrap_or(u32::MAX);
        let (mut bytes, mut sum) = (Vec::new(), 0);
        for (n, event) in events.into_iter().enumerate() {
            let line = Stamped {
                sequence: last + 1 + n as u64,
                at: now.wall,
                actor: actor.clone(),
                request: None,
                part: (n as u32 + 1, total),
                event,
            };
            sum = encode_line(&mut bytes, &line, 0, sum);
        }
        Ok(bytes)
    }
}

fn absorb(memory: &mut Memory, waiting: &mut Vec<Stamped>) -> Result<(), Trouble> {
    let mut overlay = Overlay::new(memory);
    for stamped in waiting.drain(..) {
        state::apply(&mut overlay, &stamped).map_err(|e| Trouble::Io(io::Error::other(e)))?;
    }
    let changes = overlay.changes;
    memory.absorb(changes);
    Ok(())
}
