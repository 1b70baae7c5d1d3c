//! The journal: recent changes of the folded state, and the list of runs that hold the rest.
//!
//! # Format
//!
//! A header (magic, length, checksum, body) that names the runs, newest first, and the log position they cover; then
//! batches (length u32, checksum u64, body), one for each transaction: where it ends in the log, what the views looked
//! like after it, the log's own bytes, and the changed keys.
//!
//! # Invariants
//!
//! - The lines of its batches are a second copy of the log's end: each of the two restores lines that the other lost.
//! - Runs cover only lines that had been synced. The journal may be ahead of the log after a power loss. It is discarded if
//!   its last batch does not end at a line of the log with the same checksum.
//! - Writers append to it under the store's lock, or replace it by a rename, so a reader sees an old or a new one. A batch
//!   that is cut off at the end counts as not written: the log has its lines.

use std::cell::{Cell, OnceCell};
use std::io;

use jit_core::log::table::TableChanges;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::sorted_run::{Cursor, put_record};

/// Up to this many lookups, a linear search is cheaper than sorting the changes.
const PATIENCE: usize = 40;

const MAGIC: &[u8; 12] = b"jit-state 5\n";

/// A place in the log: the end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// First sequence of the segment the line is in.
    pub segment: u64,
    /// Byte offset of the line's end in that segment.
    pub offset: u64,
    pub sequence: u64,
    /// The line's checksum.
    pub sum: u64,
}

impl Position {
    /// The beginning of a segment: before its first line, after the line whose checksum is `prev`.
    pub fn beginning(first: u64, prev: u64) -> Self {
        Self {
            segment: first,
            offset: 0,
            sequence: first - 1,
            sum: prev,
        }
    }
}

/// The state of the views for other programs when the store last wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ViewMarks {
    /// Length of `claims.jsonl`, and when it was last changed.
    pub claims_len: u64,
    pub claims_changed: i64,
    /// Checksum of the end of `claims.jsonl`: distinguishes a copied or touched file from an edited one without reading
    /// all of it.
    pub claims_sum: u64,
    /// Sequence up to which `claims.index.json` is complete.
    pub index_sequence: u64,
    pub index_len: u64,
    pub index_sum: u64,
    pub index_inode: u64,
    pub index_changed: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunName {
    pub name: String,
    pub len: u64,
    pub records: u64,
}

/// The start of a journal: the runs it builds on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Header {
    /// Newest first.
    pub runs: Vec<RunName>,
    /// The log position that the runs cover.
    pub covers: Position,
    pub marks: ViewMarks,
    /// Up to where `claims.jsonl` was compared with sealed segments and synced.
    #[serde(default)]
    pub ground: Ground,
}

/// A place in `claims.jsonl`: the end of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ground {
    pub len: u64,
    /// The sequence of that record.
    pub sequence: u64,
}

/// One transaction's changes.
#[derive(Debug, Clone, Copy)]
struct Batch {
    position: Position,
    marks: ViewMarks,
    /// Where the log's bytes are in the journal.
    lines: (usize, usize),
}

/// A change: where its key and value are in the journal's bytes.
#[derive(Debug, Clone, Copy)]
struct JournalChange {
    key: (usize, usize),
    value: Option<(usize, usize)>,
}

/// A journal that was read.
#[derive(Debug)]
pub struct Journal {
    bytes: Vec<u8>,
    pub header: Header,
    batches: Vec<(Batch, usize, usize)>,
    changes: Vec<JournalChange>,
    /// Where the next batch goes.
    pub end: u64,
    /// Places in `changes` in the order of their keys; sorted after [`PATIENCE`] lookups.
    sorted: OnceCell<Vec<usize>>,
    /// Number of lookups before that.
    asked: Cell<usize>,
}

pub fn encode_header(header: &Header) -> Vec<u8> {
    let body = jit_core::model::json::json_bytes(header);
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&xxh3_64(&body).to_le_bytes());
    out.extend_from_slice(&body);
    out
}

/// `lines` are the log's bytes that end at `position`.
pub fn encode_batch(
    position: &Position,
    marks: &ViewMarks,
    lines: &[u8],
    changes: &TableChanges,
) -> io::Result<Vec<u8>> {
    let mut body = Vec::with_capacity(2048 + lines.len());
    for number in [position.segment, position.offset, position.sequence, position.sum] {
        body.extend_from_slice(&number.to_le_bytes());
    }
    for number in [
        marks.claims_len,
        marks.claims_sum,
        marks.index_sequence,
        marks.index_len,
        marks.index_sum,
        marks.index_inode,
    ] {
        body.extend_from_slice(&number.to_le_bytes());
    }
    body.extend_from_slice(&marks.index_changed.to_le_bytes());
    body.extend_from_slice(&marks.claims_changed.to_le_bytes());
    let lines_len = u32::try_from(lines.len()).map_err(|_| io::Error::other("a transaction is too large"))?;
    body.extend_from_slice(&lines_len.to_le_bytes());
    body.extend_from_slice(lines);
    for (key, value) in changes {
        put_record(&mut body, key, value.as_deref())?;
    }
    let mut out = Vec::with_capacity(body.len() + 12);
    let len = u32::try_from(body.len()).map_err(|_| io::Error::other("a transaction is too large"))?;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&xxh3_64(&body).to_le_bytes());
    out.extend_from_slice(&body);
    Ok(out)
}

impl Journal {
    /// `None` if the header is corrupt; batches after the last good one are left out.
    pub fn decode(bytes: Vec<u8>) -> Option<Self> {
        let mut cursor = Cursor(&bytes);
        if cursor.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let len = cursor.u32()?;
        let sum = cursor.u64()?;
        let body = cursor.take(len as usize)?;
        if xxh3_64(body) != sum {
            return None;
        }
        let header: Header = serde_json::from_slice(body).ok()?;
        let mut batches = Vec::new();
        let mut changes = Vec::new();
        let mut end = bytes.len() - cursor.0.len();
        while let Some(next) = decode_batch(&bytes, end, &mut batches, &mut changes) {
            end = next;
        }
        Some(Self {
            header,
            batches,
            changes,
            end: end as u64,
            bytes,
            sorted: OnceCell::new(),
            asked: Cell::new(0),
        })
    }

    /// The log position of the newest state it has.
    pub fn position(&self) -> Position {
        self.batches
            .last()
            .map_or(self.header.covers, |(batch, ..)| batch.position)
    }

    pub fn marks(&self) -> ViewMarks {
        self.batches
            .last()
            .map_or(self.header.marks, |(batch, ..)| batch.marks)
    }

    /// Length of the whole batches, without the header.
    pub fn weight(&self) -> u64 {
        self.batches
            .first()
            .map_or(0, |(_, start, _)| self.end - *start as u64)
    }

    fn key(&self, change: &JournalChange) -> &[u8] {
        &self.bytes[change.key.0..change.key.1]
    }

    /// `None`: not in the journal. `Some(None)`: removed.
    pub fn get(&self, key: &str) -> Option<Option<Vec<u8>>> {
        let found = if self.is_asked_little() {
            // Newest first. Comparing lengths is cheap.
            self.changes
                .iter()
                .rev()
                .find(|c| c.key.1 - c.key.0 == key.len() && &self.bytes[c.key.0..c.key.1] == key.as_bytes())?
        } else {
            let sorted = self.sorted();
            let after = sorted.partition_point(|n| self.key(&self.changes[*n]) <= key.as_bytes());
            let newest = &self.changes[*sorted[..after].last()?];
            (self.key(newest) == key.as_bytes()).then_some(newest)?
        };
        Some(found.value.map(|(from, to)| self.bytes[from..to].to_vec()))
    }

    /// Whether a linear search is still the cheaper way. A claim makes a dozen lookups, a list thousands.
    fn is_asked_little(&self) -> bool {
        let asked = self.asked.get();
        self.asked.set(asked + 1);
        asked < PATIENCE
    }

    /// The changes by key, and those of one key from the oldest to the newest.
    fn sorted(&self) -> &[usize] {
        self.sorted.get_or_init(|| {
            let mut all: Vec<usize> = (0..self.changes.len()).collect();
            all.sort_by(|a, b| {
                let key = |n: &usize| self.key(&self.changes[*n]);
                key(a).cmp(key(b)).then(a.cmp(b))
            });
            all
        })
    }

    /// The newest change of every key with the prefix, up to and including log sequence `upto`.
    pub fn changes(&self, prefix: &str, upto: u64) -> TableChanges {
        let count = self
            .batches
            .iter()
            .take_while(|(b, ..)| b.position.sequence <= upto)
            .last()
            .map_or(0, |(.., n)| *n);
        let mut found = TableChanges::new();
        if !prefix.is_empty() && !self.is_asked_little() {
            let sorted = self.sorted();
            let first = sorted.partition_point(|n| self.key(&self.changes[*n]) < prefix.as_bytes());
            for n in sorted[first..].iter().filter(|n| **n < count) {
                let change = &self.changes[*n];
                let key = self.key(change);
                if !key.starts_with(prefix.as_bytes()) {
                    break;
                }
                let value = change.value.map(|(from, to)| self.bytes[from..to].to_vec());
                found.insert(String::from_utf8_lossy(key).into_owned(), value);
            }
            return found;
        }
        for change in &self.changes[..count] {
            let key = self.key(change);
            if key.starts_with(prefix.as_bytes()) {
                let value = change.value.map(|(from, to)| self.bytes[from..to].to_vec());
                found.insert(String::from_utf8_lossy(key).into_owned(), value);
            }
        }
        found
    }

    /// The position of the last batch that ends at or before log sequence `upto`, with the marks after it.
    pub fn position_upto(&self, upto: u64) -> Option<(Position, ViewMarks)> {
        let last = self
            .batches
            .iter()
            .take_while(|(b, ..)| b.position.sequence <= upto)
            .last();
        last.map(|(batch, ..)| (batch.position, batch.marks))
    }

    /// The journal's copies of log bytes in a segment, each with its offset there.
    pub fn lines_in(&self, segment: u64) -> impl Iterator<Item = (u64, &[u8])> {
        Self::lines_of(&self.bytes, &self.batches, segment)
    }

    /// The last lines of that copy, at most `limit` bytes, with their offset in the position's segment.
    pub fn last_lines(&self, limit: usize) -> Option<(u64, &[u8])> {
        let (at, lines) = self
            .lines_in(self.position().segment)
            .filter(|(_, lines)| !lines.is_empty())
            .last()?;
        let skipped = lines.len().saturating_sub(limit);
        Some((at + skipped as u64, &lines[skipped..]))
    }

    fn lines_of<'a>(
        bytes: &'a [u8],
        batches: &'a [(Batch, usize, usize)],
        segment: u64,
    ) -> impl Iterator<Item = (u64, &'a [u8])> {
        let here = batches
            .iter()
            .filter(move |(b, ..)| b.position.segment == segment);
        here.map(|(batch, ..)| {
            let lines = &bytes[batch.lines.0..batch.lines.1];
            (batch.position.offset.saturating_sub(lines.len() as u64), lines)
        })
    }

    /// Like [`Self::lines_in`], for transactions that end after log sequence `after`.
    pub fn lines_after(&self, segment: u64, after: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let known = self
            .batches
            .partition_point(|(b, ..)| b.position.sequence <= after);
        Self::lines_of(&self.bytes, &self.batches[known..], segment)
    }

    /// The sequence before the last batch. A run may cover up to there, so that the journal keeps a copy of the log's end.
    pub fn all_but_last(&self) -> u64 {
        let before = self
            .batches
            .len()
            .checked_sub(2)
            .map(|n| self.batches[n].0.position.sequence);
        before.unwrap_or(self.header.covers.sequence)
    }

    /// The raw batches that come after log sequence `after`.
    pub fn batches_after(&self, after: u64) -> &[u8] {
        let first = self.batches.iter().find(|(b, ..)| b.position.sequence > after);
        first.map_or(&[], |(_, start, _)| &self.bytes[*start..self.end as usize])
    }
}

/// Reads the batch at `start` and returns where the next one begins.
fn decode_batch(
    bytes: &[u8],
    start: usize,
    batches: &mut Vec<(Batch, usize, usize)>,
    changes: &mut Vec<JournalChange>,
) -> Option<usize> {
    let mut cursor = Cursor(bytes.get(start..)?);
    let len = cursor.u32()? as usize;
    let sum = cursor.u64()?;
    let body_at = start + 12;
    let body = cursor.take(len)?;
    if xxh3_64(body) != sum {
        return None;
    }
    let mut body = Cursor(body);
    let position = Position {
        segment: body.u64()?,
        offset: body.u64()?,
        sequence: body.u64()?,
        sum: body.u64()?,
    };
    let marks = ViewMarks {
        claims_len: body.u64()?,
        claims_sum: body.u64()?,
        index_sequence: body.u64()?,
        index_len: body.u64()?,
        index_sum: body.u64()?,
        index_inode: body.u64()?,
        index_changed: i64::from_le_bytes(body.take(8)?.try_into().ok()?),
        claims_changed: i64::from_le_bytes(body.take(8)?.try_into().ok()?),
    };
    let lines_len = body.u32()? as usize;
    let lines_at = body_at + len - body.0.len();
    body.take(lines_len)?;
    let lines = (lines_at, lines_at + lines_len);
    let known = changes.len();
    while !body.0.is_empty() {
        let at = body_at + len - body.0.len();
        let Some((key, value)) = body.raw_record() else {
            changes.truncate(known);
            return None;
        };
        let key_at = at + 6;
        let value_at = key_at + key.len();
        changes.push(JournalChange {
            key: (key_at, value_at),
            value: value.map(|value| (value_at, value_at + value.len())),
        });
    }
    batches.push((
        Batch {
            position,
            marks,
            lines,
        },
        start,
        changes.len(),
    ));
    Some(body_at + len)
}
