//! Reads from git's index where submodules are.
//!
//! Format: git's index, versions 2 to 4. Only the mode and the path of each entry are read.
//!
//! What must hold: an index is read as git reads it, or not at all. Git looks neither at the checksum nor at unused bits
//! of a mode, and takes the length of a name from its flags.
//!
//! Limitations: what follows the entries is ignored.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The bits of a mode that say the kind of an entry.
const KIND: u32 = 0o170_000;
/// The kind of a submodule.
const GITLINK: u32 = 0o160_000;
/// Bytes of an entry before the object id: times, device, inode, mode, owner, size.
pub(crate) const STAT: usize = 40;
/// Where the mode is.
const MODE: usize = 24;
/// The flag of an entry that has two more bytes of flags.
pub(crate) const EXTENDED: u16 = 0x4000;
/// The bits of the flags with the length of the name; all are set if it is longer.
const LENGTH: u16 = 0xfff;

/// The entries that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Submodules,
    Every,
}

/// The paths of entries; `None` if the index is damaged. A path is empty if the entry's name is in another file. `oid` is
/// the length of an object id in bytes.
pub(crate) fn paths(index: &[u8], oid: usize, wanted: Wanted) -> Option<Vec<PathBuf>> {
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    let (version, count) = (number(4)?, number(8)?);
    if !index.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let mut found = Vec::new();
    let mut path: Vec<u8> = Vec::new();
    let mut rest = index.get(12..)?;
    for _ in 0..count {
        let (mode, after) = entry(rest, oid, version, &mut path)?;
        if wanted == Wanted::Every || mode & KIND == GITLINK {
            found.push(PathBuf::from(OsStr::from_bytes(&path)));
        }
        rest = after;
    }
    Some(found)
}

/// Reads an entry. Returns its mode and what follows it, and replaces `path`, which is that of the entry before.
pub(crate) fn entry<'a>(
    rest: &'a [u8],
    oid: usize,
    version: u32,
    path: &mut Vec<u8>,
) -> Option<(u32, &'a [u8])> {
    let mode = u32::from_be_bytes(rest.get(MODE..MODE + 4)?.try_into().ok()?);
    let flags = rest.get(STAT + oid..STAT + oid + 2)?;
    let flags = u16::from_be_bytes(flags.try_into().ok()?);
    let mut begin = STAT + oid + 2;
    if flags & EXTENDED != 0 {
        begin += 2;
    }
    if version == 4 {
        let (cut, used) = varint(rest.get(begin..)?)?;
        begin += used;
        path.truncate(path.len().checked_sub(cut)?);
    } else {
        path.clear();
    }
    let name = rest.get(begin..)?;
    let len = name.iter().position(|byte| *byte == 0)?;
    path.extend_from_slice(name.get(..len)?);
    if usize::from(flags & LENGTH) != path.len().min(LENGTH.into()) {
        return None;
    }
    let end = match version {
        4 => begin + len + 1,
        // One to eight zeros: the length is a multiple of eight.
        _ => (begin + len + 8) & !7,
    };
    Some((mode, rest.get(end..)?))
}

/// A number as git writes it into its packs: seven bits a byte, each byte but the last one more than it says.
fn varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (at, byte) in bytes.iter().enumerate().take(8) {
        value = value.checked_shl(7)? | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
        value += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of version 2: for each entry the mode, the flags without the length, the length, and the name.
    fn index(entries: &[(u32, u16, usize, &str)]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x02\0\0\0".to_vec();
        bytes.push(entries.len() as u8);
        for (mode, flags, length, name) in entries {
            let mut entry = vec![0; MODE];
            entry.extend(mode.to_be_bytes());
            entry.resize(STAT + 20, 0);
            entry.extend((flags | *length as u16).to_be_bytes());
            entry.extend(if flags & EXTENDED == 0 { &[][..] } else { &[0, 0] });
            entry.extend(name.as_bytes());
            entry.resize((entry.len() + 8) & !7, 0);
            bytes.extend(entry);
        }
        bytes
    }

    #[test]
    fn l2_no_entry_hides_a_submodule() {
        let links = |index: &[u8]| paths(index, 20, Wanted::Submodules);
        let (file, plain) = (0o100_644, (GITLINK, 0, 3, "sub"));
        let sub = Some(vec![PathBuf::from("sub")]);
        assert_eq!(links(&index(&[(file, 0, 1, "a"), plain])), sub);
        assert_eq!(links(&index(&[(GITLINK | 0o644, 0, 3, "sub")])), sub);
        assert_eq!(links(&index(&[(file, EXTENDED, 1, "a"), plain])), sub);
        // Git would find the next entry elsewhere.
        assert_eq!(links(&index(&[(file, 0, 1, "abcdefghi"), plain])), None);
        assert_eq!(links(&index(&[(file, 0, 9, "a"), plain])), None);
        let mut cut = index(&[(file, 0, 1, "a"), plain]);
        cut.truncate(cut.len() - 20);
        assert_eq!(links(&cut), None);
        // Its name is in the shared index.
        let replaced = index(&[(GITLINK, 0, 0, "")]);
        assert_eq!(links(&replaced), Some(vec![PathBuf::new()]));
        let every = paths(&index(&[(file, 0, 1, "a"), plain]), 20, Wanted::Every);
        assert_eq!(every.map(|all| all.len()), Some(2));
    }

    proptest::proptest! {
        #[test]
        fn l2_no_index_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), version in 2u8..5) {
            let mut index = b"DIRC\0\0\0".to_vec();
            index.extend([version, 0, 0, 0, 9]);
            index.extend(bytes);
            let _ = paths(&index, 20, Wanted::Submodules);
        }
    }
}
