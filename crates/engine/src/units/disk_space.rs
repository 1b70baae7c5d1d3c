//! Checks that the disk has space for another checkout (G16).
//!
//! The estimate is the sum of the file sizes in the index of a checkout. It needs one read, no process and no
//! directory walk. It covers only the files that git checks out; the size that provisioning adds is unknown.

use std::io;
use std::path::Path;

/// Free and total space of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub free: u64,
    pub total: u64,
}

/// Returns the space on the file system of `path`, or of its nearest existing parent folder.
pub fn of(path: &Path) -> io::Result<Room> {
    let there = path
        .ancestors()
        .find(|folder| folder.is_dir())
        .unwrap_or(Path::new("/"));
    let disk = rustix::fs::statvfs(there)?;
    Ok(Room {
        free: disk.f_bavail.saturating_mul(disk.f_frsize),
        total: disk.f_blocks.saturating_mul(disk.f_frsize),
    })
}

impl Room {
    pub fn percent_used(self) -> u64 {
        match self.total {
            0 => 0,
            total => (total - self.free.min(total)).saturating_mul(100) / total,
        }
    }
}

/// Returns the checked-out size in bytes of the files of an index; `None` if the index cannot be parsed.
pub fn checkout_size(index: &Path) -> io::Result<Option<u64>> {
    match std::fs::read(index) {
        Ok(bytes) => Ok(sum_of_sizes(&bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Entries of versions 2 and 3 are padded to eight bytes. Entries of version 4 share the start of their names.
fn sum_of_sizes(bytes: &[u8]) -> Option<u64> {
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let version = number(4)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut at = 12;
    let mut sum = 0u64;
    for _ in 0..number(8)? {
        sum += u64::from(number(at + 36)?);
        let flags = u16::from_be_bytes(bytes.get(at + 60..at + 62)?.try_into().ok()?);
        let extended = version >= 3 && flags & 0x4000 != 0;
        let name = at + if extended { 64 } else { 62 };
        let end = |from: usize| Some(from + bytes.get(from..)?.iter().position(|b| *b == 0)?);
        at = if version == 4 {
            // The number of bytes to drop from the previous name, as a variable-length integer.
            let mut start = name;
            while bytes.get(start)? & 0x80 != 0 {
                start += 1;
            }
            end(start + 1)? + 1
        } else {
            let len = end(name)? - at;
            // At least one NUL, up to the next multiple of eight.
            at + (len + 8) / 8 * 8
        };
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g16_garbage_is_no_index() {
        for bytes in [
            &b""[..],
            b"DIRC",
            b"DIRC\0\0\0\x02\0\0\0\x05short",
            b"XXXX\0\0\0\x02\0\0\0\0",
        ] {
            assert_eq!(sum_of_sizes(bytes), None);
        }
        assert_eq!(sum_of_sizes(b"DIRC\0\0\0\x02\0\0\0\0"), Some(0));
    }
}
