//! The views: two files beside the log for other programs, `claims.jsonl` and `claims.index.json`.
//!
//! `jit` itself decides nothing from them. They are written under the store's lock and not synced. The journal records
//! their state, so the next command detects a missing, torn, edited or foreign one and rebuilds it from the log.
//!
//! # Format of the index
//!
//! One JSON object in several lines: a first line that ends in `"active":[`, one line for each lease, a last line `]}`.
//! So changing one lease means copying bytes. Beyond [`EXACT_UPTO`] leases it is not written every time, and is at most
//! [`LAG`] sequences or a fifth of its length behind.

use std::borrow::Cow;
use std::io;

use jit_core::log::event::{Event, Stamped};
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::time::Wall;
use jit_core::query::claim_views;
use xxhash_rust::xxh3::xxh3_64;

use crate::disk::{Disk, DiskFile, Meta, OpenMode, open_if_there, open_in_place, read_range, write_all_at};
use crate::journal::{Ground, Position, ViewMarks};

pub const CLAIMS: &str = "claims.jsonl";
pub const INDEX: &str = "claims.index.json";
const INDEX_NEW: &str = "claims.index.json.new";

/// Up to this many leases the index is always current.
pub const EXACT_UPTO: u64 = 500;
/// Beyond that it may be this many sequences behind, or a fifth of the number of leases: writing it costs as much.
pub const LAG: u64 = 100;

/// Stands for the time of the last change if `claims.jsonl` differs from the log.
pub const NOT_MENDED: i64 = -1;

/// The state of the index before an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexCheck {
    Fine,
    /// It was rebuilt.
    Repaired(&'static str),
}

/// How much of the end of `claims.jsonl` is remembered by a checksum.
const CLAIMS_END: u64 = 4 * 1024;
/// Longer than any record of `claims.jsonl`.
const RECORD_MAX: u64 = 16 * 1024;

/// Appends the claims among `lines` to `claims.jsonl`. `Ok(false)` if another program changed the file: the caller repairs
/// it first.
pub fn append_claims(disk: &dyn Disk, marks: &mut ViewMarks, lines: &[Stamped]) -> io::Result<bool> {
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend(claim_views::claims_record(line).unwrap_or_default());
    }
    let file = open_in_place(disk, CLAIMS, OpenMode::Write)?;
    let meta = file.meta()?;
    if !unchanged(&meta, marks) {
        if marks.claims_changed == NOT_MENDED || end_sum(&*file, marks.claims_len)? != Some(marks.claims_sum)
        {
            return Ok(false);
        }
        // It was copied or touched, or a writer was killed after it had written these records, or some of them.
        let more = meta.len - marks.claims_len;
        let there = read_range(&*file, marks.claims_len, bytes.len())?;
        if more > bytes.len() as u64 || !bytes.starts_with(&there) {
            return Ok(false);
        }
    }
    if !bytes.is_empty() {
        write_all_at(&*file, &bytes, marks.claims_len)?;
    }
    let end = marks.claims_len + bytes.len() as u64;
    mark_claims(&*file, marks, end)?;
    Ok(true)
}

fn mark_claims(file: &dyn DiskFile, marks: &mut ViewMarks, len: u64) -> io::Result<()> {
    marks.claims_len = len;
    marks.claims_sum = end_sum(file, len)?.unwrap_or(0);
    marks.claims_changed = changed(&file.meta()?);
    Ok(())
}

/// The checksum of the bytes before `len`; `None` if the file is shorter.
fn end_sum(file: &dyn DiskFile, len: u64) -> io::Result<Option<u64>> {
    let want = len.min(CLAIMS_END);
    let bytes = read_range(file, len - want, want as usize)?;
    Ok((bytes.len() as u64 == want).then(|| xxh3_64(&bytes)))
}

fn unchanged(meta: &Meta, marks: &ViewMarks) -> bool {
    if meta.special {
        return false;
    }
    // No mark yet: the file has just been created.
    meta.len == marks.claims_len && (marks.claims_changed == changed(meta) || marks.claims_changed == 0)
}

/// Whether `claims.jsonl` is unchanged since the store last wrote it.
pub fn claims_untouched(disk: &dyn Disk, marks: &ViewMarks) -> io::Result<bool> {
    Ok(unchanged(&disk.meta(CLAIMS)?.unwrap_or_default(), marks))
}

/// Whether the next writer will detect that `claims.jsonl` was changed.
pub fn claims_will_be_mended(disk: &dyn Disk, marks: &ViewMarks) -> io::Result<bool> {
    let Some(file) = open_if_there(disk, CLAIMS)? else {
        return Ok(true);
    };
    let same_end = end_sum(&*file, marks.claims_len)? == Some(marks.claims_sum);
    Ok(marks.claims_changed == NOT_MENDED || file.meta()?.len != marks.claims_len || !same_end)
}

fn changed(meta: &Meta) -> i64 {
    i64::try_from(meta.changed).unwrap_or(0)
}

/// Whether `claims.jsonl` has exactly these bytes at `at`.
pub fn claims_say(disk: &dyn Disk, at: u64, records: &[u8]) -> io::Result<bool> {
    match open_if_there(disk, CLAIMS)? {
        Some(file) => Ok(read_range(&*file, at, records.len())? == records),
        None => Ok(records.is_empty()),
    }
}

#[derive(serde::Deserialize)]
struct Numbered {
    sequence: u64,
}

/// Whether a record with this sequence ends at this length.
fn stands(file: &dyn DiskFile, ground: Ground) -> io::Result<bool> {
    let want = ground.len.min(RECORD_MAX);
    let bytes = read_range(file, ground.len - want, want as usize)?;
    let Some(text) = bytes.strip_suffix(b"\n").filter(|_| bytes.len() as u64 == want) else {
        return Ok(false);
    };
    let start = text.iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
    let record = serde_json::from_slice::<Numbered>(&text[start..]);
    Ok(record.is_ok_and(|record| record.sequence == ground.sequence))
}

/// How far `claims.jsonl` can be trusted: up to the first line that is not a record with a growing sequence, and not
/// beyond sequence `upto`. Returns its length up to there and the last sequence in it. If `ground` fits the file, bytes
/// before it are not read.
pub fn trusted_claims(disk: &dyn Disk, ground: Ground, upto: u64) -> io::Result<(u64, u64)> {
    if disk.meta(CLAIMS)?.is_some_and(|meta| meta.special) {
        return Ok((0, 0));
    }
    let Some(file) = open_if_there(disk, CLAIMS)? else {
        return Ok((0, 0));
    };
    let from = if ground.len > 0 && ground.sequence <= upto && stands(&*file, ground)? {
        ground
    } else {
        Ground::default()
    };
    let mut bytes = Vec::new();
    let (mut at, mut good, mut last) = (from.len, from.len, from.sequence);
    loop {
        let more = read_range(&*file, at, 1 << 18)?;
        if more.is_empty() {
            return Ok((good, last));
        }
        at += more.len() as u64;
        bytes.extend_from_slice(&more);
        let mut start = 0;
        while let Some(n) = bytes[start..].iter().position(|b| *b == b'\n') {
            let sequence = serde_json::from_slice::<Numbered>(&bytes[start..start + n]).map(|r| r.sequence);
            match sequence {
                Ok(sequence) if sequence > last && sequence <= upto => last = sequence,
                _ => return Ok((good, last)),
            }
            good += n as u64 + 1;
            start += n + 1;
        }
        bytes.drain(..start);
    }
}

/// Syncs `claims.jsonl`. After a failure its pages may be lost although they look written, and a later sync would not
/// save them. So the file is deleted, and the next command rebuilds it from the log.
pub fn sync_claims(disk: &dyn Disk, file: &dyn DiskFile) -> io::Result<()> {
    file.sync().inspect_err(|_| {
        let _ = disk.remove(CLAIMS);
    })
}

/// Rewrites `claims.jsonl` from some offset on, piece by piece.
#[derive(Debug)]
pub struct ClaimsMender {
    file: Box<dyn DiskFile>,
    at: u64,
    waiting: Vec<u8>,
}

impl ClaimsMender {
    pub fn from(disk: &dyn Disk, at: u64) -> io::Result<Self> {
        Ok(Self {
            file: open_in_place(disk, CLAIMS, OpenMode::Write)?,
            at,
            waiting: Vec::new(),
        })
    }

    /// The length of the file with all records so far.
    pub fn end(&self) -> u64 {
        self.at + self.waiting.len() as u64
    }

    pub fn put(&mut self, record: &[u8]) -> io::Result<()> {
        self.waiting.extend_from_slice(record);
        if self.waiting.len() > 1 << 18 {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if read_range(&*self.file, self.at, self.waiting.len())? != self.waiting {
            write_all_at(&*self.file, &self.waiting, self.at)?;
        }
        self.at += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    pub fn finish(mut self, disk: &dyn Disk, marks: &mut ViewMarks, sync: bool) -> io::Result<()> {
        self.flush()?;
        if self.file.meta()?.len > self.at {
            self.file.set_len(self.at)?;
        }
        if sync {
            sync_claims(disk, &*self.file)?;
        }
        mark_claims(&*self.file, marks, self.at)
    }
}

/// Whether the index on disk is the one that the store wrote.
pub fn index_untouched(disk: &dyn Disk, marks: &ViewMarks) -> io::Result<bool> {
    let Some(meta) = disk.meta(INDEX)?.filter(|meta| !meta.special) else {
        return Ok(false);
    };
    if same_file(&meta, marks) {
        return Ok(true);
    }
    if meta.len != marks.index_len {
        return Ok(false);
    }
    // It may have been copied or restored from a backup: the content decides.
    let Some(file) = open_if_there(disk, INDEX)? else {
        return Ok(false);
    };
    let bytes = read_range(&*file, 0, usize::try_from(meta.len).unwrap_or(0))?;
    Ok(xxh3_64(&bytes) == marks.index_sum)
}

fn same_file(meta: &Meta, marks: &ViewMarks) -> bool {
    meta.len == marks.index_len && meta.inode == marks.index_inode && changed(meta) == marks.index_changed
}

/// Updates the index after `lines`, by editing the old one if it is unchanged.
pub fn update_index(
    disk: &dyn Disk,
    marks: &mut ViewMarks,
    table: &dyn Table,
    lines: &[Stamped],
    position: &Position,
    wall: Wall,
) -> io::Result<IndexCheck> {
    let active = state::active_count(table).map_err(io::Error::other)?;
    let untouched = marks.index_len > 0 && index_untouched(disk, marks)?;
    let found = if untouched || marks.index_len == 0 {
        IndexCheck::Fine
    } else {
        IndexCheck::Repaired(
            "claims.index.json was missing or not as it was left; it was made anew from the log",
        )
    };
    if untouched && active > EXACT_UPTO && position.sequence - marks.index_sequence < LAG.max(active / 5) {
        return Ok(found);
    }
    let touched = lines
        .iter()
        .any(|line| is_claim(&line.event) || matches!(line.event, Event::Boot { .. }));
    if untouched && !touched && marks.index_sequence + 1 == lines_start(lines, position) {
        // The lines change nothing in it: it stays current.
        marks.index_sequence = position.sequence;
        return Ok(found);
    }
    let entries =
        if untouched && active <= EXACT_UPTO && marks.index_sequence + 1 == lines_start(lines, position) {
            edited(disk, lines)?
        } else {
            None
        };
    let entries = match entries {
        Some(entries) => entries,
        None => whole(table)?,
    };
    write_index(disk, marks, &entries, position, wall)?;
    Ok(found)
}

fn is_claim(event: &Event) -> bool {
    event
        .lease()
        .is_some_and(|lease| lease.resource.issue().is_some())
}

fn lines_start(lines: &[Stamped], position: &Position) -> u64 {
    lines.first().map_or(position.sequence + 1, |line| line.sequence)
}

/// Writes the index from the state alone.
pub fn rebuild_index(
    disk: &dyn Disk,
    marks: &mut ViewMarks,
    table: &dyn Table,
    position: &Position,
    wall: Wall,
) -> io::Result<()> {
    write_index(disk, marks, &whole(table)?, position, wall)
}

fn whole(table: &dyn Table) -> io::Result<Vec<u8>> {
    let mut leases = state::claims(table).map_err(io::Error::other)?;
    leases.sort_by_key(|lease| lease.token);
    let entries: Vec<Vec<u8>> = leases.iter().map(claim_views::index_entry).collect();
    Ok(entries.join(&b",\n"[..]))
}

/// The entries of the index on disk with the changes of `lines`; `None` if its format is not the expected one.
fn edited(disk: &dyn Disk, lines: &[Stamped]) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_if_there(disk, INDEX)? else {
        return Ok(None);
    };
    let bytes = read_range(&*file, 0, usize::try_from(file.meta()?.len).unwrap_or(0))?;
    let Some(head) = bytes.iter().position(|b| *b == b'\n') else {
        return Ok(None);
    };
    let Some(body) = bytes[head + 1..].strip_suffix(b"\n]}\n") else {
        return Ok(None);
    };
    let mut entries: Vec<Cow<'_, [u8]>> = body
        .split(|b| *b == b'\n')
        .map(|entry| entry.strip_suffix(b",").unwrap_or(entry))
        .filter(|entry| !entry.is_empty())
        .map(Cow::Borrowed)
        .collect();
    for line in lines
        .iter()
        .filter(|line| line.event.lease().is_none() || is_claim(&line.event))
    {
        let (gone, come) = match &line.event {
            Event::Acquired { lease, .. } | Event::Renewed { lease } | Event::Restored { lease } => {
                (&lease.lease_id, Some(lease))
            }
            Event::Transferred {
                lease, from_lease_id, ..
            } => (from_lease_id, Some(lease)),
            Event::Released { lease, .. }
            | Event::AutoEvicted { lease }
            | Event::ForceEvicted { lease, .. } => (&lease.lease_id, None),
            Event::LogRecovered { .. } => return Ok(None),
            _ => continue,
        };
        let name = format!("{{\"lease_id\":\"{gone}\"");
        entries.retain(|entry| !entry.starts_with(name.as_bytes()));
        entries.extend(come.map(|lease| Cow::Owned(claim_views::index_entry(lease))));
    }
    Ok(Some(entries.join(&b",\n"[..])))
}

fn write_index(
    disk: &dyn Disk,
    marks: &mut ViewMarks,
    entries: &[u8],
    position: &Position,
    wall: Wall,
) -> io::Result<()> {
    let mut bytes = format!(
        "{{\"schema_version\":1,\"generated_at\":\"{wall}\",\"sequence\":{},\"log\":{{\"segment\":{},\"offset\":{},\"sum\":\"{:016x}\"}},\"active\":[\n",
        position.sequence, position.segment, position.offset, position.sum
    )
    .into_bytes();
    bytes.extend_from_slice(entries);
    bytes.extend_from_slice(b"\n]}\n");
    let file = open_in_place(disk, INDEX_NEW, OpenMode::Spare)?;
    write_all_at(&*file, &bytes, 0)?;
    if file.meta()?.len != bytes.len() as u64 {
        file.set_len(bytes.len() as u64)?;
    }
    match disk.replace(INDEX_NEW, INDEX) {
        // A folder cannot be replaced by a file.
        Err(_) if disk.put_aside(INDEX)? => disk.replace(INDEX_NEW, INDEX)?,
        replaced => replaced?,
    }
    let meta = file.meta()?;
    marks.index_sequence = position.sequence;
    marks.index_len = bytes.len() as u64;
    marks.index_sum = xxh3_64(&bytes);
    marks.index_inode = meta.inode;
    marks.index_changed = changed(&meta);
    Ok(())
}

/// Whether the index lists exactly the leases of the table.
pub fn index_says(disk: &dyn Disk, table: &dyn Table) -> io::Result<bool> {
    let Some(file) = open_if_there(disk, INDEX)? else {
        return Ok(false);
    };
    let bytes = read_range(&*file, 0, usize::try_from(file.meta()?.len).unwrap_or(0))?;
    let parse = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap_or_default();
    let sorted = |value: &serde_json::Value| {
        let mut entries: Vec<String> = value
            .as_array()
            .map(|list| list.iter().map(ToString::to_string).collect())
            .unwrap_or_default();
        entries.sort();
        entries
    };
    let mut expected = b"[".to_vec();
    expected.extend(whole(table)?);
    expected.push(b']');
    Ok(sorted(&parse(&bytes)["active"]) == sorted(&parse(&expected)))
}
