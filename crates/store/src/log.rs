//! The log: the active segment, which writers append to, and the sealed segments before it.
//!
//! # Format
//!
//! `events/control.jsonl` is the active segment; `events/control-<first sequence>.jsonl` are sealed ones, whose text never
//! changes again; later they are compressed, with `.gz` at the end of the name ([`crate::compressed`]). A segment counts up
//! to the first sequence of the next one. Lines are as in `jit_core::log::line`.
//!
//! # Invariants
//!
//! - Sequences have no gaps and each line names the checksum of the one before, across segments.
//! - A transaction counts when all of its lines are there.
//! - An unfinished end (no newline, or part of a transaction) is *torn*: it was never acknowledged and is cut off. Any other
//!   mismatch is *damage* and is refused with line and offset. After a power loss or a failed sync the first bad line is
//!   torn too, unless it is known to have been durable: then it is damage.
//! - A log that ends before a line that is known to have been durable is damaged, even if its last line is complete.

use std::io;

use jit_core::log::line::{LogLine, decode_line};

use crate::compressed::Compressed;
use crate::disk::{Disk, OpenMode, open_if_there};
use crate::journal::Position;
use crate::segment_bytes::SegmentBytes;

pub const ACTIVE: &str = "events/control.jsonl";
/// A new segment in the making.
pub const NEXT: &str = "events/next.jsonl";
const CHUNK: usize = 1 << 18;
/// No line of ours comes near this; a longer one is damage and must not fill the memory.
const MAX_LINE: usize = 16 << 20;
/// No longer line is written, so that every line can be read.
pub const LONGEST: usize = MAX_LINE / 2;

/// A segment's file and its first sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub path: String,
    pub first: u64,
}

pub fn sealed_path(first: u64) -> String {
    format!("events/control-{first:016}.jsonl")
}

pub fn compressed_path(first: u64) -> String {
    format!("{}.gz", sealed_path(first))
}

impl Segment {
    pub fn is_compressed(&self) -> bool {
        self.path.ends_with(".gz")
    }
}

/// Sealed segments, oldest first. If a segment is there in both forms, the plain one.
pub fn sealed(disk: &dyn Disk) -> io::Result<Vec<Segment>> {
    let mut found: Vec<Segment> = Vec::new();
    for name in disk.list("events")? {
        let digits = name
            .strip_prefix("control-")
            .and_then(|n| n.strip_suffix(".gz").unwrap_or(n).strip_suffix(".jsonl"));
        if let Some(first) = digits.filter(|d| d.len() == 16).and_then(|d| d.parse().ok()) {
            found.push(Segment {
                path: format!("events/{name}"),
                first,
            });
        }
    }
    found.sort_by_key(|segment| (segment.first, segment.is_compressed()));
    found.dedup_by_key(|segment| segment.first);
    Ok(found)
}

/// Opens a sealed segment, while another process may compress it.
pub fn open_sealed(disk: &dyn Disk, first: u64) -> io::Result<Box<dyn SegmentBytes>> {
    if let Some(plain) = open_if_there(disk, &sealed_path(first))? {
        return Ok(Box::new(plain));
    }
    let file = disk.open(&compressed_path(first), OpenMode::Read)?;
    Ok(Box::new(Compressed::new(file)))
}

/// The place where the log is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub path: String,
    /// Counted from 1 within the file.
    pub line: u64,
    pub offset: u64,
    /// The sequence that should have been there.
    pub sequence: u64,
    pub why: String,
}

impl Damage {
    /// At the first line of a segment.
    pub fn at_start(path: &str, sequence: u64, why: &str) -> Self {
        Self {
            path: path.to_owned(),
            line: 1,
            offset: 0,
            sequence,
            why: why.to_owned(),
        }
    }
}

#[derive(Debug)]
pub enum LogTrouble {
    Io(io::Error),
    Damage(Damage),
}

impl From<io::Error> for LogTrouble {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// How to treat lines that do not fit.
#[derive(Debug, Clone, Copy)]
pub struct ReadRules {
    /// Unsynced pages may be missing anywhere.
    pub power_loss: bool,
    /// Sequences up to this one had surely been durable.
    pub durable: u64,
}

impl ReadRules {
    /// A sealed segment was synced before it was sealed, and another follows: nothing of it may be torn.
    pub const SEALED: Self = Self {
        power_loss: false,
        durable: u64::MAX,
    };
}

/// Takes a line, its text, and the offset of its end.
pub type EachLine<'a> = dyn FnMut(LogLine, &[u8], u64) -> Result<(), LogTrouble> + 'a;

/// The outcome of reading a segment to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEnd {
    /// The end of the last whole transaction.
    pub position: Position,
    /// Bytes after it that do not count.
    pub torn: u64,
}

/// Reads the lines of one segment after `from`, in whole transactions, and hands each on with its end offset.
///
/// `until` is the first sequence of the next segment: lines from there on are not looked at.
pub fn read_segment(
    source: &dyn SegmentBytes,
    path: &str,
    from: Position,
    until: Option<u64>,
    rules: ReadRules,
    each: &mut EachLine<'_>,
) -> Result<SegmentEnd, LogTrouble> {
    let mut reader = LineReader {
        source,
        at: from.offset,
        buffer: Vec::new(),
        start: 0,
    };
    let mut good = from;
    // Lines of the transaction being read: the line, its text, where it ends.
    let mut pending: Vec<(LogLine, Vec<u8>, u64)> = Vec::new();
    let (mut sequence, mut sum) = (from.sequence, from.sum);
    loop {
        let offset = reader.at;
        if until.is_some_and(|until| sequence + 1 >= until) && pending.is_empty() {
            return Ok(SegmentEnd {
                position: good,
                torn: 0,
            });
        }
        let text = match reader.next()? {
            NextLine::Line(text) => text,
            NextLine::Rest(rest) => {
                return match wrong_end(rest, good, until, rules) {
                    Some(why) => Err(damage(path, source, offset, sequence + 1, why)),
                    None => Ok(SegmentEnd {
                        position: good,
                        torn: reader.at + rest as u64 - good.offset,
                    }),
                };
            }
        };
        let parts = pending.first().map(|(first, ..)| first.stamped.part.1);
        let expected = Expected {
            sequence: sequence + 1,
            prev: sum,
            part: pending.len() + 1,
            parts,
        };
        match decode_line(&text).and_then(|line| expected.check(line)) {
            Ok(line) => {
                (sequence, sum) = (line.stamped.sequence, line.sum);
                let whole = line.stamped.part.0 == line.stamped.part.1;
                pending.push((line, text, reader.at));
                if whole {
                    good = Position {
                        offset: reader.at,
                        sequence,
                        sum,
                        ..good
                    };
                    for (line, text, end) in pending.drain(..) {
                        each(line, &text, end)?;
                    }
                }
            }
            Err(why) => {
                let expected = expected.sequence;
                let cut_here = rules.power_loss
                    && until.is_none()
                    && rules.durable < expected
                    && !proves_durable(&mut reader, &text, expected)?;
                if !cut_here {
                    return Err(damage(path, source, offset, expected, &why));
                }
                return Ok(SegmentEnd {
                    position: good,
                    torn: source.size()?.saturating_sub(good.offset),
                });
            }
        }
    }
}

/// The next line as it must be to continue the lines before it.
struct Expected {
    sequence: u64,
    /// Checksum of the line before.
    prev: u64,
    /// Its number within its transaction, and how many that has if a line of it was read.
    part: usize,
    parts: Option<u32>,
}

impl Expected {
    fn check(&self, line: LogLine) -> Result<LogLine, String> {
        let (part, parts) = line.stamped.part;
        if line.stamped.sequence != self.sequence {
            let found = line.stamped.sequence;
            return Err(format!("sequence {found} where {} was expected", self.sequence));
        }
        if line.prev != self.prev {
            return Err("it does not continue the line before".into());
        }
        if part as usize != self.part || part > parts || self.parts.is_some_and(|all| all != parts) {
            return Err(format!(
                "part {part} of {parts} of a transaction does not fit here"
            ));
        }
        Ok(line)
    }
}

/// Why a segment may not end after `good`, with `rest` bytes that have no newline; `None` if it may.
fn wrong_end(rest: usize, good: Position, until: Option<u64>, rules: ReadRules) -> Option<&'static str> {
    match until {
        // Durable lines are gone, at the end of a line or within one.
        None if good.sequence < rules.durable => Some("it is cut off"),
        _ if rest > MAX_LINE && !rules.power_loss => Some("it has no end"),
        Some(_) => Some("lines are missing at its end"),
        None => None,
    }
}

/// Whether this line or a later one was written when `sequence` was already on disk.
fn proves_durable(reader: &mut LineReader<'_>, first: &[u8], sequence: u64) -> io::Result<bool> {
    let proves = |text: &[u8]| decode_line(text).is_ok_and(|line| line.durable >= sequence);
    if proves(first) {
        return Ok(true);
    }
    while let NextLine::Line(text) = reader.next()? {
        if proves(&text) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn damage(path: &str, source: &dyn SegmentBytes, offset: u64, sequence: u64, why: &str) -> LogTrouble {
    // Lines are counted only now, for the error message.
    let line = count_lines(source, offset).unwrap_or(0) + 1;
    LogTrouble::Damage(Damage {
        path: path.to_owned(),
        line,
        offset,
        sequence,
        why: why.to_owned(),
    })
}

fn count_lines(source: &dyn SegmentBytes, upto: u64) -> io::Result<u64> {
    let (mut at, mut lines) = (0, 0);
    while at < upto {
        let bytes = source.read(at, CHUNK.min((upto - at) as usize))?;
        if bytes.is_empty() {
            break;
        }
        lines += bytes.iter().filter(|b| **b == b'\n').count() as u64;
        at += bytes.len() as u64;
    }
    Ok(lines)
}

enum NextLine {
    /// Without its newline.
    Line(Vec<u8>),
    /// No further newline; this many bytes are left.
    Rest(usize),
}

struct LineReader<'a> {
    source: &'a dyn SegmentBytes,
    /// Offset of the next line.
    at: u64,
    buffer: Vec<u8>,
    start: usize,
}

impl LineReader<'_> {
    fn next(&mut self) -> io::Result<NextLine> {
        let mut searched = self.start;
        loop {
            if let Some(n) = self.buffer[searched..].iter().position(|b| *b == b'\n') {
                let end = searched + n;
                let line = self.buffer[self.start..end].to_vec();
                self.at += line.len() as u64 + 1;
                self.start = end + 1;
                return Ok(NextLine::Line(line));
            }
            let have = self.buffer.len() - self.start;
            let more = if have > MAX_LINE {
                Vec::new()
            } else {
                self.source.read(self.at + have as u64, CHUNK)?
            };
            if more.is_empty() {
                return Ok(NextLine::Rest(have));
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            searched = self.buffer.len();
            self.buffer.extend_from_slice(&more);
        }
    }
}

/// Whether the segment's first transaction is complete.
pub fn has_transaction(source: &dyn SegmentBytes, path: &str) -> io::Result<bool> {
    let Some((first, prev)) = first_of(source)? else {
        return Ok(false);
    };
    let start = Position::beginning(first, prev);
    let rules = ReadRules {
        power_loss: true,
        durable: 0,
    };
    match read_segment(source, path, start, None, rules, &mut |_, _, _| Ok(())) {
        Ok(end) => Ok(end.position.offset > 0),
        Err(LogTrouble::Damage(_)) => Ok(false),
        Err(LogTrouble::Io(e)) => Err(e),
    }
}

/// The first sequence of a segment of which every byte belongs to a whole transaction.
pub fn first_if_whole(source: &dyn SegmentBytes) -> io::Result<Option<u64>> {
    let Some((first, prev)) = first_of(source)? else {
        return Ok(None);
    };
    let start = Position::beginning(first, prev);
    let rules = ReadRules {
        power_loss: false,
        durable: 0,
    };
    match read_segment(source, NEXT, start, None, rules, &mut |_, _, _| Ok(())) {
        Ok(end) => Ok((end.torn == 0 && end.position.offset > 0).then_some(first)),
        Err(LogTrouble::Damage(_)) => Ok(None),
        Err(LogTrouble::Io(e)) => Err(e),
    }
}

/// The first sequence in a segment and the checksum before it, from its first line; `None` if that cannot be read.
pub fn first_of(source: &dyn SegmentBytes) -> io::Result<Option<(u64, u64)>> {
    let mut reader = LineReader {
        source,
        at: 0,
        buffer: Vec::new(),
        start: 0,
    };
    Ok(match reader.next()? {
        NextLine::Line(text) => decode_line(&text)
            .ok()
            .map(|line| (line.stamped.sequence, line.prev))
            .filter(|(sequence, _)| *sequence > 0),
        NextLine::Rest(_) => None,
    })
}
