//! The entries of git's index, read without starting git.
//!
//! Format read: git's index, versions 2 to 4, and the names of the parts after its entries.
//! Limitations: an index that is one of several, or that has whole folders as entries, is read by git.

use crate::gitlinks::{self, STAT};

/// The flag of an entry that git takes for unchanged without looking.
const VALID: u16 = 0x8000;
/// The flag of an entry whose file need not be there, among its further flags.
const SKIPPED: u16 = 0x4000;

/// One entry of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    pub mode: u32,
    pub oid: String,
    /// 0, or of a conflict the side: 1 the common ancestor, 2 ours, 3 theirs.
    pub stage: u8,
    pub path: Vec<u8>,
    /// Git does not look whether its file changed.
    pub hidden: bool,
}

/// The index as its file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    pub entries: Vec<IndexEntry>,
    /// It keeps the sides of resolved conflicts.
    pub has_resolved: bool,
}

/// Reads the content of an index file. `oid` is the length of an object id in bytes. `None`: git has to be asked.
pub fn parse(index: &[u8], oid: usize) -> Option<Index> {
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    let (version, count) = (number(4)?, number(8)?);
    if !index.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let flags_at = |rest: &[u8], at: usize| Some(u16::from_be_bytes(rest.get(at..at + 2)?.try_into().ok()?));
    let mut found = Index::default();
    let mut path: Vec<u8> = Vec::new();
    let mut rest = index.get(12..)?;
    for _ in 0..count {
        let id = rest.get(STAT..STAT + oid)?;
        let flags = flags_at(rest, STAT + oid)?;
        let more = match version >= 3 && flags & gitlinks::EXTENDED != 0 {
            true => flags_at(rest, STAT + oid + 2)?,
            false => 0,
        };
        let (mode, after) = gitlinks::entry(rest, oid, version, &mut path)?;
        found.entries.push(IndexEntry {
            mode,
            oid: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            stage: u8::try_from(flags >> 12 & 3).unwrap_or_default(),
            path: path.clone(),
            hidden: flags & VALID != 0 || more & SKIPPED != 0,
        });
        rest = after;
    }
    // A checksum ends the file.
    while rest.len() > oid {
        let (name, size) = (rest.get(..4)?, rest.get(4..8)?);
        // A part whose name begins with a small letter changes what the entries mean.
        if !name.first()?.is_ascii_uppercase() {
            return None;
        }
        found.has_resolved |= name == b"REUC";
        let size = u32::from_be_bytes(size.try_into().ok()?);
        rest = rest.get(8 + usize::try_from(size).ok()?..)?;
    }
    (rest.len() == oid).then_some(found)
}
