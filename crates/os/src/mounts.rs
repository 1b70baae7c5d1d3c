//! Finds mount points below a folder. Renaming the folder would move them and deleting it would delete their files, which
//! also belong to another place.
//!
//! Limitations: only Linux lists mounts. Elsewhere another file system is known by its device number alone.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The first mount point at `path` or below it.
pub fn first_in(path: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(path).ok()?;
    let table = fs::read("/proc/self/mountinfo").ok()?;
    let mut places = table.split(|b| *b == b'\n').filter_map(place);
    places.find(|place| place.starts_with(&real))
}

/// Like [`fs::remove_dir_all`], but refuses if something is mounted inside.
pub fn remove_dir_all(path: &Path) -> io::Result<()> {
    match first_in(path) {
        Some(place) => Err(io::Error::other(format!(
            "something is mounted on {}: umount it first",
            place.display()
        ))),
        None => fs::remove_dir_all(path),
    }
}

/// The fifth field of a line of `mountinfo`; blanks, tabs, line ends and backslashes in it are `\ooo`.
fn place(line: &[u8]) -> Option<PathBuf> {
    let mut rest = line.split(|b| *b == b' ').nth(4)?;
    let mut out = Vec::with_capacity(rest.len());
    while let [first, more @ ..] = rest {
        let octal = more.get(..3).filter(|_| *first == b'\\');
        let byte = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(byte.unwrap_or(*first));
        rest = match byte {
            Some(_) => more.get(3..).unwrap_or_default(),
            None => more,
        };
    }
    Some(PathBuf::from(OsString::from_vec(out)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h7_places_of_mounts_are_read_as_they_are() {
        let line = br"36 35 98:0 /mnt1 /a\040b\134c/\303\244 rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(place(line), Some(PathBuf::from("/a b\\c/\u{e4}")));
        assert_eq!(place(b""), None);
    }
}
