//! The folded state on disk: a journal of recent changes over sorted runs, read as one table.
//!
//! What must hold: it can always be folded again from the log. A corrupt journal or run is discarded, never repaired.

use std::io;

use jit_core::log::table::{MemoryTable, Read, Table, TableChanges, Unreadable};

use crate::disk::{Disk, OpenMode, open_if_there, read_range, write_all_at};
use crate::journal::{Ground, Header, Journal, Position, RunName, ViewMarks, encode_batch, encode_header};
use crate::sorted_run::{self, Merge, Record, Run, RunIter, Spot};

pub const JOURNAL: &str = "state/journal";
const JOURNAL_NEW: &str = "state/journal.new";

/// The store never writes a journal this long; a longer one is foreign and is not read into memory.
const JOURNAL_MAX: u64 = 64 << 20;

/// The table under the journal.
#[derive(Debug)]
enum Base {
    Runs(Vec<Run>),
    /// Folded from the whole log just now.
    Whole(MemoryTable),
}

/// The state as a table of three layers: lines replayed just now, over the journal, over the base.
#[derive(Debug)]
pub struct FoldedState {
    pub journal: Option<Journal>,
    base: Base,
    /// Newer than the journal.
    pub fresh: TableChanges,
}

fn unreadable(e: io::Error) -> Unreadable {
    Unreadable(e.to_string())
}

impl Table for FoldedState {
    fn get(&self, key: &str) -> Read<Option<Vec<u8>>> {
        if let Some(change) = self.fresh.get(key) {
            return Ok(change.clone());
        }
        if let Some(change) = self.journal.as_ref().and_then(|journal| journal.get(key)) {
            return Ok(change);
        }
        match &self.base {
            Base::Whole(memory) => memory.get(key),
            Base::Runs(runs) => {
                for run in runs {
                    if let Some(found) = run.get(key).map_err(unreadable)? {
                        return Ok(found);
                    }
                }
                Ok(None)
            }
        }
    }

    fn scan(&self, prefix: &str, limit: usize) -> Read<Vec<(String, Vec<u8>)>> {
        let mut found = Vec::new();
        for record in self.merged(prefix) {
            let (key, value) = record.map_err(unreadable)?;
            if !key.starts_with(prefix) || found.len() >= limit {
                break;
            }
            found.extend(value.map(|value| (key, value)));
        }
        Ok(found)
    }

    fn visit(&self, prefix: &str, each: &mut dyn FnMut(&str, &[u8]) -> Read<()>) -> Read<()> {
        let Base::Runs(runs) = &self.base else {
            for (key, value) in self.scan(prefix, usize::MAX)? {
                each(&key, &value)?;
            }
            return Ok(());
        };
        let mut sources = Vec::new();
        let fresh: TableChanges = self
            .fresh
            .range(prefix.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        sources.push(MergeSource::Changes(fresh.into_iter().peekable()));
        if let Some(journal) = &self.journal {
            let changes = journal.changes(prefix, u64::MAX);
            sources.push(MergeSource::Changes(changes.into_iter().peekable()));
        }
        for run in runs {
            let mut source = MergeSource::Run(Box::new(run.iter_from(prefix)), None);
            source.advance().map_err(unreadable)?;
            sources.push(source);
        }
        let mut key = Vec::new();
        loop {
            let mut winner: Option<usize> = None;
            for (n, source) in sources.iter_mut().enumerate() {
                match source.key() {
                    Some(found) if winner.is_none() || found < key.as_slice() => {
                        key.clear();
                        key.extend_from_slice(found);
                        winner = Some(n);
                    }
                    _ => {}
                }
            }
            let Some(winner) = winner.filter(|_| key.starts_with(prefix.as_bytes())) else {
                return Ok(());
            };
            if let Some(value) = sources[winner].value() {
                let key = std::str::from_utf8(&key).map_err(|_| Unreadable("a key is not text".into()))?;
                each(key, value)?;
            }
            for source in &mut sources[winner..] {
                if source.key() == Some(key.as_slice()) {
                    source.advance().map_err(unreadable)?;
                }
            }
        }
    }
}

/// A layer in a merge; newer layers come first.
enum MergeSource<'a> {
    Changes(std::iter::Peekable<std::collections::btree_map::IntoIter<String, Option<Vec<u8>>>>),
    Run(Box<RunIter<'a>>, Option<Spot>),
}

impl MergeSource<'_> {
    fn key(&mut self) -> Option<&[u8]> {
        match self {
            Self::Changes(changes) => changes.peek().map(|(key, _)| key.as_bytes()),
            Self::Run(_, spot) => spot.as_ref().map(Spot::key),
        }
    }

    fn advance(&mut self) -> io::Result<()> {
        match self {
            Self::Changes(changes) => {
                changes.next();
            }
            Self::Run(run, spot) => {
                // Dropped first: if it was the last record of its block, the block's memory is reused for the next.
                *spot = None;
                *spot = run.spot()?;
            }
        }
        Ok(())
    }

    fn value(&mut self) -> Option<&[u8]> {
        match self {
            Self::Changes(changes) => changes.peek().and_then(|(_, value)| value.as_deref()),
            Self::Run(_, spot) => spot.as_ref().and_then(Spot::value),
        }
    }
}

impl FoldedState {
    /// The journal over its runs.
    pub fn from_runs(journal: Journal, runs: Vec<Run>) -> Self {
        Self {
            journal: Some(journal),
            base: Base::Runs(runs),
            fresh: TableChanges::new(),
        }
    }

    /// The runs alone, if the journal cannot be trusted.
    pub fn without_journal(runs: Vec<Run>) -> Self {
        Self {
            journal: None,
            base: Base::Runs(runs),
            fresh: TableChanges::new(),
        }
    }

    pub fn whole(memory: MemoryTable) -> Self {
        Self {
            journal: None,
            base: Base::Whole(memory),
            fresh: TableChanges::new(),
        }
    }

    fn merged(&self, from: &str) -> Merge<'_> {
        fn records<'a>(changes: TableChanges) -> Box<dyn Iterator<Item = io::Result<Record>> + 'a> {
            Box::new(changes.into_iter().map(Ok))
        }
        let mut sources: Vec<Box<dyn Iterator<Item = io::Result<Record>> + '_>> = Vec::new();
        if !self.fresh.is_empty() {
            let with_prefix = self.fresh.range(from.to_owned()..);
            sources.push(Box::new(with_prefix.map(|(k, v)| Ok((k.clone(), v.clone())))));
        }
        if let Some(journal) = &self.journal {
            sources.push(records(journal.changes(from, u64::MAX)));
        }
        match &self.base {
            Base::Whole(memory) => {
                let from = memory.0.range(from.to_owned()..);
                sources.push(Box::new(from.map(|(k, v)| Ok((k.clone(), Some(v.clone()))))));
            }
            Base::Runs(runs) => {
                for run in runs {
                    sources.push(Box::new(run.iter_from(from)));
                }
            }
        }
        Merge::new(sources)
    }
}

/// Reads the journal, if there is one with a valid header.
pub fn read_journal(disk: &dyn Disk) -> io::Result<Option<Journal>> {
    let Some(file) = open_if_there(disk, JOURNAL)? else {
        return Ok(None);
    };
    let len = file.meta()?.len;
    if len > JOURNAL_MAX {
        return Ok(None);
    }
    Ok(Journal::decode(read_range(&*file, 0, len as usize)?))
}

pub fn open_runs(disk: &dyn Disk, header: &Header, verify: bool) -> io::Result<Vec<Run>> {
    let mut runs = Vec::with_capacity(header.runs.len());
    for name in &header.runs {
        let run = Run::open(disk, &name.name, name.len)?;
        if verify {
            run.verify()?;
        }
        runs.push(run);
    }
    Ok(runs)
}

/// Appends a batch to the journal that was read.
pub fn append(
    disk: &dyn Disk,
    journal: &Journal,
    position: &Position,
    marks: &ViewMarks,
    lines: &[u8],
    changes: &TableChanges,
) -> io::Result<()> {
    let batch = encode_batch(position, marks, lines, changes)?;
    let file = disk.open(JOURNAL, OpenMode::Existing)?;
    write_all_at(&*file, &batch, journal.end)
}

/// Replaces the journal.
pub fn replace_journal(disk: &dyn Disk, header: &Header, batches: &[u8]) -> io::Result<()> {
    let mut bytes = encode_header(header);
    bytes.extend_from_slice(batches);
    let file = disk.open(JOURNAL_NEW, OpenMode::Fresh)?;
    write_all_at(&*file, &bytes, 0)?;
    disk.rename(JOURNAL_NEW, JOURNAL)
}

/// Writes a state that was folded from the whole log as one run, and a journal on top of it.
///
/// `position` must be synced: runs cover only durable lines.
pub fn write_whole(
    disk: &dyn Disk,
    folded: &FoldedState,
    position: &Position,
    marks: &ViewMarks,
    ground: Ground,
) -> io::Result<()> {
    let name = run_name(position.sequence, "whole");
    let mut records = 0;
    let mut size = 0;
    for record in folded.merged("") {
        let (key, value) = record?;
        size += (key.len() + value.map_or(0, |v| v.len()) + 6) as u64;
        records += 1;
    }
    let len = sorted_run::write(disk, &name, &mut folded.merged(""), size)?;
    let header = Header {
        runs: vec![RunName { name, len, records }],
        covers: *position,
        marks: *marks,
        ground,
    };
    let old = read_journal(disk)
        .ok()
        .flatten()
        .map(|j| j.header.runs)
        .unwrap_or_default();
    replace_journal(disk, &header, &[])?;
    remove_unused(disk, &old, &header.runs);
    Ok(())
}

fn run_name(sequence: u64, kind: &str) -> String {
    format!("state/run-{sequence:016}-{kind}")
}

fn remove_unused(disk: &dyn Disk, old: &[RunName], new: &[RunName]) {
    for run in old {
        if !new.iter().any(|kept| kept.name == run.name) {
            let _ = disk.remove(&run.name);
        }
    }
}

/// Journals heavier than this are folded into runs.
pub const JOURNAL_LIMIT: u64 = 32 * 1024;
/// A run is merged with the next older one unless that is this many times larger.
const GROWTH: u64 = 4;

/// A finished run that is not installed yet.
#[derive(Debug)]
pub struct Compaction {
    before: Header,
    after: Header,
    upto: u64,
}

/// Folds the journal up to log sequence `synced` into a new run, merging it with older runs of similar size. Needs no
/// lock on the store: runs never change and the journal is only read. `None` if there is nothing to fold.
pub fn compact(
    disk: &dyn Disk,
    synced: u64,
    drop_key: &dyn Fn(&str, &[u8]) -> bool,
) -> io::Result<Option<Compaction>> {
    let Some(journal) = read_journal(disk)? else {
        return Ok(None);
    };
    let upto = synced.min(journal.all_but_last());
    let Some((covers, marks)) = journal.position_upto(upto) else {
        return Ok(None);
    };
    let changes = journal.changes("", upto);
    let runs = open_runs(disk, &journal.header, false)?;
    let names = &journal.header.runs;
    let mut size: u64 = changes
        .iter()
        .map(|(k, v)| (k.len() + v.as_ref().map_or(0, Vec::len) + 6) as u64)
        .sum();
    let mut merged = 0;
    while merged < names.len() && names[merged].len <= size.saturating_mul(GROWTH) {
        size += names[merged].len;
        merged += 1;
    }
    let bottom = merged == names.len();
    let mut sources: Vec<Box<dyn Iterator<Item = io::Result<Record>> + '_>> =
        vec![Box::new(changes.into_iter().map(Ok))];
    for run in &runs[..merged] {
        sources.push(Box::new(run.iter_from("")));
    }
    // A removal is kept only as long as an older run still has the key.
    let older = &runs[merged..];
    let removes = |key: &str| {
        let found = older.iter().find_map(|run| run.get(key).transpose());
        !matches!(found, None | Some(Ok(None)))
    };
    let mut records = 0;
    let mut kept = Merge::new(sources)
        .filter(|record| match record {
            Ok((key, None)) => removes(key),
            Ok((key, Some(value))) => !(bottom && drop_key(key, value)),
            Err(_) => true,
        })
        .inspect(|_| records += 1);
    let name = run_name(covers.sequence, &format!("{merged}"));
    let len = sorted_run::write(disk, &name, &mut kept, size)?;
    drop(kept);
    let ground = journal.header.ground;
    let mut after = vec![RunName { name, len, records }];
    after.extend_from_slice(&names[merged..]);
    Ok(Some(Compaction {
        before: journal.header,
        after: Header {
            runs: after,
            covers,
            marks,
            ground,
        },
        upto,
    }))
}

/// Installs a finished compaction. Call with the store's lock held.
pub fn install(disk: &dyn Disk, compaction: &Compaction) -> io::Result<()> {
    let Some(journal) = read_journal(disk)? else {
        return Ok(());
    };
    if journal.header != compaction.before {
        // Another process folded the whole log meanwhile, so this run is not needed.
        remove_unused(disk, &compaction.after.runs[..1], &journal.header.runs);
        return Ok(());
    }
    replace_journal(disk, &compaction.after, journal.batches_after(compaction.upto))?;
    // Deletes all other runs, also those that a killed compaction left: there is only one compaction at a time.
    for name in disk.list("state")? {
        let path = format!("state/{name}");
        if name.starts_with("run-") && !compaction.after.runs.iter().any(|run| run.name == path) {
            let _ = disk.remove(&path);
        }
    }
    Ok(())
}
