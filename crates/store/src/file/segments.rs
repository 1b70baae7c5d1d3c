//! The files of the log: creating it, opening its active segment, placing a new one, and reading events across segments.

use std::io;
use std::ops::ControlFlow;

use jit_core::log::event::{Event, SegmentReason, Stamped};
use jit_core::log::line::{encode_line, trailing_sum};
use jit_core::model::actor::Actor;
use jit_core::model::refusal::{Code, Refusal};
use xxhash_rust::xxh3::Xxh3;

use super::lock_file::{BOOT_AT, LOCK, Slots, boot_mark};
use super::{FileStore, damaged};
use crate::disk::{DiskFile, OpenMode, open_if_there, read_range, write_all_at};
use crate::journal::Position;
use crate::log::{self, Damage, LogTrouble, ReadRules, Segment};
use crate::port::Outcome;
use crate::refusals;
use crate::segment_bytes::SegmentBytes;

/// Created by `create`, in this order.
pub(super) const DIRS: &[&str] = &["events", "state", "locks", "heartbeat"];

/// Whether the part of `claims.jsonl` about sealed segments may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// If the file is unchanged since, or the machine was rebooted.
    AsLeft,
    No,
}

impl FileStore {
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

    /// Creates the directories and the first segment. Returns whether there was none before.
    pub fn create(&self, actor: &Actor) -> Outcome<bool> {
        for dir in DIRS {
            self.disk.make_dir(dir).map_err(|e| self.io("create", dir, &e))?;
        }
        let guard = self.lock(actor)?;
        if self.exists()? {
            // The process that created it may have been killed before the names were durable.
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

    /// Whether the next segment is complete and only its rename is missing. It is synced before the rename: if its first
    /// transaction is incomplete, it is not a segment yet.
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

    pub(super) fn open_sealed(&self, segment: &Segment) -> Outcome<Box<dyn SegmentBytes>> {
        log::open_sealed(&*self.disk, segment.first).map_err(|e| self.io("open", &segment.path, &e))
    }

    /// All segments that count, oldest first; the last one is the active one.
    pub(super) fn segments(&self, active_first: u64) -> Outcome<Vec<Segment>> {
        let mut segments = self.sealed()?;
        segments.retain(|segment| segment.first < active_first);
        segments.push(Segment {
            path: log::ACTIVE.into(),
            first: active_first,
        });
        Ok(segments)
    }

    /// Makes the names of the log and of the directories durable.
    pub(super) fn sync_names(&self) -> Outcome<()> {
        for dir in ["events", ""] {
            self.disk.sync_dir(dir).map_err(|e| self.io("sync", dir, &e))?;
        }
        Ok(())
    }

    /// Writes a new active segment, makes it durable, and then seals the old one.
    ///
    /// The directory is synced between the steps: a power loss may reorder renames.
    pub(super) fn place_segment(&self, bytes: &[u8], old: Option<u64>) -> io::Result<()> {
        self.write_next(bytes)?;
        if let Some(first) = old {
            self.disk.rename(log::ACTIVE, &log::sealed_path(first))?;
            self.disk.sync_dir("events")?;
        }
        self.disk.rename(log::NEXT, log::ACTIVE)?;
        self.disk.sync_dir("events")
    }

    /// Writes the next segment durably, under a temporary name.
    fn write_next(&self, bytes: &[u8]) -> io::Result<()> {
        self.write_durably(log::NEXT, bytes)
    }

    pub(super) fn write_durably(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.disk.open(path, OpenMode::Fresh)?;
        write_all_at(&*file, bytes, 0)?;
        file.sync()?;
        self.disk.sync_dir("events")
    }

    /// Opens the active segment. A writer also finishes a sealing that was interrupted.
    pub(super) fn open_log(&self, how: OpenMode) -> Outcome<Box<dyn DiskFile>> {
        let missing = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
        // Another process may rename the files meanwhile.
        for _ in 0..3 {
            match self.disk.open(log::ACTIVE, how) {
                Ok(file) => return Ok(file),
                Err(e) if missing(&e) => {}
                Err(e) => return Err(self.io("open", log::ACTIVE, &e)),
            }
            if how == OpenMode::Existing {
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

    pub(super) fn no_log(&self) -> Box<Refusal> {
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

    /// Cuts the log at `end` and moves the bytes after it to another file.
    pub(super) fn set_aside(&self, log: &dyn DiskFile, end: &Position) -> Outcome<String> {
        let attempt = || -> io::Result<String> {
            let len = log.meta()?.len - end.offset;
            // In pieces: another program may have appended any amount.
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
            let copy = self.disk.open(&path, OpenMode::Fresh)?;
            each_piece(&mut |piece, at| write_all_at(&*copy, piece, at))?;
            log.set_len(end.offset)?;
            Ok(format!(
                "the log ended in {len} bytes of an unfinished write; they were moved to {}",
                self.disk.show(&path).display()
            ))
        };
        attempt().map_err(|e| self.io("mend", log::ACTIVE, &e))
    }

    /// The position before the first line of a segment. It is damage if the segment does not continue `before`, the end
    /// of the one before it.
    pub(super) fn segment_start(
        &self,
        segment: &Segment,
        source: &dyn SegmentBytes,
        before: Option<Position>,
    ) -> Outcome<Position> {
        let first = log::first_of(source).map_err(|e| self.io("read", &segment.path, &e))?;
        let expected = before.map(|before| (before.sequence + 1, before.sum));
        match first {
            Some((first, prev)) if first == segment.first && expected.is_none_or(|e| e == (first, prev)) => {
                Ok(Position::beginning(first, prev))
            }
            _ => {
                let sequence = expected.map_or(segment.first, |(sequence, _)| sequence);
                let why = "it does not continue the segment before";
                let damage = Damage::at_start(&segment.path, sequence, why);
                Err(damaged(&damage, &*self.disk))
            }
        }
    }

    /// Events of `after + 1 ..= upto`, while segments may be sealed meanwhile.
    pub(super) fn events_between(
        &self,
        after: u64,
        upto: u64,
        each: &mut dyn FnMut(Stamped) -> ControlFlow<()>,
    ) -> Outcome<()> {
        // The durable sequence is read first: the log can only grow meanwhile.
        let rules = Self::rules(self.slots()?, &self.now()?, 0);
        // The active segment is opened first: if it is sealed afterwards, this open file still continues the sealed ones.
        let active = self.open_log(OpenMode::Read)?;
        let first = log::first_of(&active).map_err(|e| self.io("read", log::ACTIVE, &e))?;
        let Some((active_first, _)) = first else {
            // A segment gets its name when its first transaction is on disk.
            let damage = Damage::at_start(log::ACTIVE, 0, "its first line is missing or unreadable");
            return Err(damaged(&damage, &*self.disk));
        };
        let segments = self.segments(active_first)?;
        let mut stopped = false;
        let mut before: Option<Position> = None;
        for (n, segment) in segments.iter().enumerate() {
            let until = segments.get(n + 1).map(|next| next.first);
            if stopped || segment.first > upto || until.is_some_and(|until| until <= after.saturating_add(1))
            {
                continue;
            }
            let sealed;
            let source: &dyn SegmentBytes = if until.is_none() {
                &active
            } else {
                sealed = self.open_sealed(segment)?;
                &*sealed
            };
            let start = self.segment_start(segment, source, before)?;
            let rules = if until.is_none() { rules } else { ReadRules::SEALED };
            // The caller asked for lines before the oldest segment, so that must be the beginning of the log.
            let mut opening = n == 0 && after + 1 < segment.first;
            // To stop early, the callback returns an error that is ignored below.
            let outcome = log::read_segment(source, &segment.path, start, until, rules, &mut |line, _, _| {
                if std::mem::take(&mut opening) && !line.begins_log() {
                    let why = "an earlier segment is missing";
                    return Err(LogTrouble::Damage(Damage::at_start(
                        &segment.path,
                        segment.first,
                        why,
                    )));
                }
                let sequence = line.stamped.sequence;
                if sequence > upto || (sequence > after && each(line.stamped).is_break()) {
                    stopped = true;
                    return Err(LogTrouble::Io(io::ErrorKind::Interrupted.into()));
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
}

/// Whether a line with the position's checksum ends at the position's offset.
pub(super) fn ends_line(log: &dyn SegmentBytes, position: &Position) -> io::Result<bool> {
    const TAIL: u64 = 27;
    let Some(at) = position.offset.checked_sub(TAIL) else {
        return Ok(false);
    };
    let tail = log.read(at, TAIL as usize)?;
    Ok(tail.len() == TAIL as usize && tail.ends_with(b"\n") && trailing_sum(&tail) == Some(position.sum))
}
