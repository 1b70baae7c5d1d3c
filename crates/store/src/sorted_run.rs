//! Sorted runs: immutable files of keys and values that hold most of the folded state.
//!
//! # Format
//!
//! Blocks of records, then an index, then a footer of 48 bytes. A record is key length (u16), value length (u32, all
//! ones for a removed key), key, value. The index has for each block: offset (u64), length (u32), checksum (u64), length
//! of its first key (u16), first key. The footer has index offset, index length, index checksum, number of records,
//! checksum of the whole data part, magic. All integers are little-endian.
//!
//! # Invariants
//!
//! - Keys are unique and ascending. A run is never changed in place.
//! - Every byte that is read is checked first: a run that does not match its checksums is an error, never a wrong answer.
//!   The state can always be folded from the log again.
//! - A lookup reads the end of the file, its index and then one block: its cost hardly grows with the size of the state.

use std::cell::RefCell;
use std::io;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::disk::{Disk, DiskFile, OpenMode, read_range, read_range_into, write_all_at};

const MAGIC: u64 = 0x3172_756e_2d74_696a; // "jit-nur1", read backwards
const FOOTER: usize = 48;
const REMOVED: u32 = u32::MAX;
/// How much of the file's end is read at once: the footer and, unless the run is large, the whole index.
const TAIL: usize = 4 * 1024;

/// A key with its value, or without one when it was removed.
pub type Record = (String, Option<Vec<u8>>);

/// Number of blocks of a run that are kept in memory.
const KEPT: usize = 4;

fn corrupt(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("state run: {what}"))
}

/// Bounds-checked reading of little-endian integers.
#[derive(Debug)]
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// A record: key, and value unless removed.
    pub fn record(&mut self) -> Option<(&'a str, Option<&'a [u8]>)> {
        let (key, value) = self.raw_record()?;
        Some((std::str::from_utf8(key).ok()?, value))
    }

    /// Like [`Self::record`], without checking that the key is text.
    pub fn raw_record(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let key_len = self.u16()?;
        let value_len = self.u32()?;
        let key = self.take(key_len.into())?;
        if value_len == REMOVED {
            return Some((key, None));
        }
        Some((key, Some(self.take(usize::try_from(value_len).ok()?)?)))
    }
}

/// Appends a record in the form that [`Cursor::record`] reads.
pub fn put_record(out: &mut Vec<u8>, key: &str, value: Option<&[u8]>) -> io::Result<()> {
    let key_len = u16::try_from(key.len()).map_err(|_| corrupt("a key is too long"))?;
    let value_len = match value {
        Some(v) => u32::try_from(v.len())
            .ok()
            .filter(|n| *n != REMOVED)
            .ok_or_else(|| corrupt("a value is too long"))?,
        None => REMOVED,
    };
    out.extend_from_slice(&key_len.to_le_bytes());
    out.extend_from_slice(&value_len.to_le_bytes());
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(value.unwrap_or_default());
    Ok(())
}

/// Writes a run and returns its length. Not synced: a lost or corrupt run is folded again.
pub fn write(
    disk: &dyn Disk,
    path: &str,
    records: &mut dyn Iterator<Item = io::Result<Record>>,
    size_hint: u64,
) -> io::Result<u64> {
    let file = disk.open(path, OpenMode::Fresh)?;
    // Blocks grow with the run so that the index stays small enough to be read with the footer.
    let block_size = usize::try_from((size_hint / 512).clamp(4096, 1 << 20)).unwrap_or(4096);
    let mut writer = Writer {
        file: &*file,
        at: 0,
        buffer: Vec::new(),
        sum: Xxh3::new(),
    };
    let mut index = Vec::new();
    let mut block = Vec::with_capacity(block_size * 2);
    let mut first_key = String::new();
    let mut count = 0u64;
    let mut close = |block: &mut Vec<u8>, first_key: &str, writer: &mut Writer<'_>| -> io::Result<()> {
        let len = u32::try_from(block.len()).map_err(|_| corrupt("a block is too long"))?;
        index.extend_from_slice(&writer.at.to_le_bytes());
        index.extend_from_slice(&len.to_le_bytes());
        index.extend_from_slice(&xxh3_64(block).to_le_bytes());
        index.extend_from_slice(&(first_key.len() as u16).to_le_bytes());
        index.extend_from_slice(first_key.as_bytes());
        writer.write(block)?;
        block.clear();
        Ok(())
    };
    for record in records {
        let (key, value) = record?;
        if block.is_empty() {
            first_key.clone_from(&key);
        }
        put_record(&mut block, &key, value.as_deref())?;
        count += 1;
        if block.len() >= block_size {
            close(&mut block, &first_key, &mut writer)?;
        }
    }
    if !block.is_empty() {
        close(&mut block, &first_key, &mut writer)?;
    }
    let index_at = writer.at;
    let data_sum = writer.sum.digest();
    writer.write(&index)?;
    let mut footer = Vec::with_capacity(FOOTER);
    for number in [
        index_at,
        index.len() as u64,
        xxh3_64(&index),
        count,
        data_sum,
        MAGIC,
    ] {
        footer.extend_from_slice(&number.to_le_bytes());
    }
    writer.write(&footer)?;
    writer.flush()?;
    Ok(writer.at)
}

struct Writer<'a> {
    file: &'a dyn DiskFile,
    at: u64,
    buffer: Vec<u8>,
    sum: Xxh3,
}

impl Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.buffer.extend_from_slice(bytes);
        self.at += bytes.len() as u64;
        if self.buffer.len() >= 1 << 18 {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        write_all_at(self.file, &self.buffer, self.at - self.buffer.len() as u64)?;
        self.buffer.clear();
        Ok(())
    }
}

struct Block {
    at: u64,
    len: u32,
    sum: u64,
    /// Place of its first key in the index. Not copied: there are many blocks, and most are never read.
    first_key: (usize, usize),
}

/// An open run.
pub struct Run {
    file: Box<dyn DiskFile>,
    blocks: Vec<Block>,
    index: Vec<u8>,
    data_sum: u64,
    index_at: u64,
    /// The blocks read last, newest first: neighboring keys of a few kinds are often read in turn.
    last: RefCell<Vec<(usize, std::rc::Rc<Vec<u8>>)>>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("blocks", &self.blocks.len())
            .finish_non_exhaustive()
    }
}

impl Run {
    /// `len` is the length the run had when it was written.
    pub fn open(disk: &dyn Disk, path: &str, len: u64) -> io::Result<Self> {
        let file = disk.open(path, OpenMode::Read)?;
        let tail_at = len.saturating_sub(TAIL as u64);
        let tail = read_range(&*file, tail_at, (len - tail_at) as usize)?;
        if tail_at + tail.len() as u64 != len || tail.len() < FOOTER {
            return Err(corrupt("its length is wrong"));
        }
        let mut footer = Cursor(&tail[tail.len() - FOOTER..]);
        let mut next = || footer.u64().ok_or_else(|| corrupt("no footer"));
        let (index_at, index_len, index_sum) = (next()?, next()?, next()?);
        let (_count, data_sum, magic) = (next()?, next()?, next()?);
        if magic != MAGIC || index_at.checked_add(index_len) != Some(len - FOOTER as u64) {
            return Err(corrupt("its footer is wrong"));
        }
        let index: Vec<u8> = if index_at >= tail_at {
            tail[(index_at - tail_at) as usize..tail.len() - FOOTER].to_vec()
        } else {
            read_range(&*file, index_at, index_len as usize)?
        };
        if xxh3_64(&index) != index_sum {
            return Err(corrupt("its index does not match its checksum"));
        }
        let mut blocks = Vec::new();
        let mut cursor = Cursor(&index);
        while !cursor.0.is_empty() {
            let block = (|| {
                let (at, len, sum) = (cursor.u64()?, cursor.u32()?, cursor.u64()?);
                let key_len = cursor.u16()?;
                let key = cursor.take(key_len.into())?;
                let from = offset(&index, key);
                let first_key = (from, from + key.len());
                Some(Block {
                    at,
                    len,
                    sum,
                    first_key,
                })
            })();
            blocks.push(block.ok_or_else(|| corrupt("its index is cut off"))?);
        }
        Ok(Self {
            file,
            blocks,
            index,
            data_sum,
            index_at,
            last: RefCell::new(Vec::new()),
        })
    }

    /// Reads everything once and compares checksums: after a power loss, and for `jit validate`.
    pub fn verify(&self) -> io::Result<()> {
        let mut sum = Xxh3::new();
        let mut at = 0;
        while at < self.index_at {
            let want = (self.index_at - at).min(1 << 18) as usize;
            let bytes = read_range(&*self.file, at, want)?;
            if bytes.len() != want {
                return Err(corrupt("it is cut off"));
            }
            sum.update(&bytes);
            at += want as u64;
        }
        if sum.digest() == self.data_sum {
            Ok(())
        } else {
            Err(corrupt("its data does not match its checksum"))
        }
    }

    fn block(&self, n: usize) -> io::Result<std::rc::Rc<Vec<u8>>> {
        let mut last = self.last.borrow_mut();
        if let Some(at) = last.iter().position(|(at, _)| *at == n) {
            last[..=at].rotate_right(1);
            return Ok(last[0].1.clone());
        }
        let block = &self.blocks[n];
        // The memory of the oldest block can be reused, unless an iterator still holds it.
        let oldest = if last.len() == KEPT { last.pop() } else { None };
        let room = oldest
            .and_then(|(_, bytes)| std::rc::Rc::into_inner(bytes))
            .unwrap_or_default();
        let bytes = read_range_into(&*self.file, block.at, block.len as usize, room)?;
        if xxh3_64(&bytes) != block.sum {
            return Err(corrupt("a block does not match its checksum"));
        }
        let bytes = std::rc::Rc::new(bytes);
        last.insert(0, (n, bytes.clone()));
        Ok(bytes)
    }

    fn block_for(&self, key: &str) -> Option<usize> {
        self.blocks
            .partition_point(|block| &self.index[block.first_key.0..block.first_key.1] <= key.as_bytes())
            .checked_sub(1)
    }

    /// `None`: not in this run. `Some(None)`: removed.
    pub fn get(&self, key: &str) -> io::Result<Option<Option<Vec<u8>>>> {
        let Some(n) = self.block_for(key) else {
            return Ok(None);
        };
        let bytes = self.block(n)?;
        let mut cursor = Cursor(&bytes);
        while !cursor.0.is_empty() {
            let (found, value) = cursor
                .raw_record()
                .ok_or_else(|| corrupt("a record is cut off"))?;
            match found.cmp(key.as_bytes()) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok(Some(value.map(<[u8]>::to_vec))),
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok(None)
    }

    /// Records from the first key that is at least `from`, in order.
    pub fn iter_from(&self, from: &str) -> RunIter<'_> {
        RunIter {
            run: self,
            block: self.block_for(from).unwrap_or(0),
            bytes: None,
            at: 0,
            from: from.to_owned(),
        }
    }
}

/// Records of a run in order.
pub struct RunIter<'a> {
    run: &'a Run,
    block: usize,
    bytes: Option<std::rc::Rc<Vec<u8>>>,
    at: usize,
    from: String,
}

impl std::fmt::Debug for RunIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunIter")
            .field("block", &self.block)
            .finish_non_exhaustive()
    }
}

impl RunIter<'_> {
    /// Moves to the next record from `from` on and returns its place.
    fn step(&mut self) -> io::Result<Option<Spot>> {
        loop {
            let bytes = match &self.bytes {
                Some(bytes) => bytes,
                None if self.block >= self.run.blocks.len() => return Ok(None),
                None => {
                    self.at = 0;
                    self.bytes.insert(self.run.block(self.block)?)
                }
            };
            let mut cursor = Cursor(&bytes[self.at..]);
            if cursor.0.is_empty() {
                self.bytes = None;
                self.block += 1;
                continue;
            }
            let at = self.at;
            let (key, value) = cursor
                .raw_record()
                .ok_or_else(|| corrupt("a record is cut off"))?;
            let end = bytes.len() - cursor.0.len();
            self.at = end;
            if key >= self.from.as_bytes() {
                // Only the places are kept; the block is shared.
                let key_from = offset(bytes, key);
                return Ok(Some(Spot {
                    key: (key_from, key_from + key.len()),
                    value: value.map(|value| (offset(bytes, value), offset(bytes, value) + value.len())),
                    bytes: bytes.clone(),
                }));
            }
            debug_assert!(at < end);
        }
    }
}

/// The offset of a slice within the buffer that it is a part of.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// A record within its block, not copied.
pub struct Spot {
    bytes: std::rc::Rc<Vec<u8>>,
    key: (usize, usize),
    value: Option<(usize, usize)>,
}

impl std::fmt::Debug for Spot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spot")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Spot {
    pub fn key(&self) -> &[u8] {
        &self.bytes[self.key.0..self.key.1]
    }

    /// `None`: removed.
    pub fn value(&self) -> Option<&[u8]> {
        self.value.map(|(from, to)| &self.bytes[from..to])
    }
}

impl RunIter<'_> {
    /// The next record, not copied.
    pub fn spot(&mut self) -> io::Result<Option<Spot>> {
        self.step()
    }
}

impl Iterator for RunIter<'_> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let owned = |spot: Spot| -> io::Result<Record> {
            let key = std::str::from_utf8(spot.key()).map_err(|_| corrupt("a key is not text"))?;
            Ok((key.to_owned(), spot.value().map(<[u8]>::to_vec)))
        };
        self.step().transpose().map(|spot| spot.and_then(owned))
    }
}

/// Merges sorted sources; where several have a key, the first source wins.
pub struct Merge<'a> {
    sources: Vec<std::iter::Peekable<Box<dyn Iterator<Item = io::Result<Record>> + 'a>>>,
}

impl std::fmt::Debug for Merge<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merge")
            .field("sources", &self.sources.len())
            .finish()
    }
}

impl<'a> Merge<'a> {
    /// Newest source first.
    pub fn new(sources: Vec<Box<dyn Iterator<Item = io::Result<Record>> + 'a>>) -> Self {
        Self {
            sources: sources.into_iter().map(Iterator::peekable).collect(),
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut best: Option<(usize, &String)> = None;
        for (n, source) in self.sources.iter_mut().enumerate() {
            match source.peek() {
                None => {}
                Some(Err(_)) => return self.sources[n].next(),
                Some(Ok((key, _))) if best.as_ref().is_none_or(|(_, least)| key < *least) => {
                    best = Some((n, key));
                }
                Some(Ok(_)) => {}
            }
        }
        let (winner, _) = best?;
        let record = self.sources[winner].next();
        if let Some(Ok((key, _))) = &record {
            for source in &mut self.sources[winner + 1..] {
                source.next_if(|r| r.as_ref().is_ok_and(|(k, _)| k == key));
            }
        }
        record
    }
}
