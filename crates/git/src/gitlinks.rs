//! Reads from git's index where submodules are.
//!
//! Format: git's index, versions 2 to 4. Only the mode and the path of each entry are read.
//! Limitations: what follows the entries is ignored. A damaged index gives the entries up to the damage; git refuses it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The mode of a submodule in the index.
const GITLINK: [u8; 4] = [0, 0, 0xe0, 0];
/// Bytes of an entry before the object id: times, device, inode, mode, owner, size.
pub(crate) const STAT: usize = 40;
/// Where the mode is.
const MODE: usize = 24;
/// The flag of an entry that has two more bytes of flags.
pub(crate) const EXTENDED: u16 = 0x4000;

/// The paths of the submodules. `oid` is the length of an object id in bytes.
pub(crate) fn gitlinks(index: &[u8], oid: usize) -> Vec<PathBuf> {
    // Nearly every index has none, and most are large.
    let may_have_one = index.windows(GITLINK.len()).any(|bytes| bytes == GITLINK);
    match may_have_one {
        true => entries(index, oid).unwrap_or_default(),
        false => Vec::new(),
    }
}

fn entries(index: &[u8], oid: usize) -> Option<Vec<PathBuf>> {
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    let (version, count) = (number(4)?, number(8)?);
    if !index.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let mut found = Vec::new();
    let mut path: Vec<u8> = Vec::new();
    let mut rest = index.get(12..)?;
    for _ in 0..count {
        let Some((entry, after)) = entry(rest, oid, version, &mut path) else {
            break;
        };
        if entry == GITLINK && !path.is_empty() {
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
) -> Option<([u8; 4], &'a [u8])> {
    let mode = rest.get(MODE..MODE + 4)?.try_into().ok()?;
    let flags = rest.get(STAT + oid..STAT + oid + 2)?;
    let flags = u16::from_be_bytes(flags.try_into().ok()?);
    let mut begin = STAT + oid + 2;
    if version >= 3 && flags & EXTENDED != 0 {
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

    proptest::proptest! {
        #[test]
        fn l2_no_index_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), version in 2u8..5) {
            let mut index = b"DIRC\0\0\0".to_vec();
            index.extend([version, 0, 0, 0, 9]);
            index.extend(bytes);
            index.extend(GITLINK);
            let _ = gitlinks(&index, 20);
        }
    }
}
