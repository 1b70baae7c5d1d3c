//! The records of `claims.jsonl` from before the log was recovered: only this file still has them.

use std::collections::BTreeMap;
use std::io;

use crate::disk::{Disk, OpenMode, open_if_there, read_range, write_all_at};
use crate::views::CLAIMS;

/// The file while it is written.
const NEW: &str = "claims.jsonl.new";

#[derive(serde::Deserialize)]
struct Numbered {
    sequence: u64,
}

/// The whole file; nothing where there is none.
fn content(disk: &dyn Disk) -> io::Result<Vec<u8>> {
    let Some(file) = open_if_there(disk, CLAIMS)? else {
        return Ok(Vec::new());
    };
    let len = usize::try_from(file.meta()?.len).unwrap_or(usize::MAX);
    read_range(&*file, 0, len)
}

/// All records that can be read, by their sequence. Records behind a damaged one are among them.
fn readable(bytes: &[u8]) -> BTreeMap<u64, Vec<u8>> {
    let mut found = BTreeMap::new();
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        if let Ok(record) = serde_json::from_slice::<Numbered>(line)
            && line.ends_with(b"\n")
        {
            found.insert(record.sequence, line.to_vec());
        }
    }
    found
}

/// The records with a sequence below `before`, oldest first.
pub fn earlier(disk: &dyn Disk, before: u64) -> io::Result<Vec<Vec<u8>>> {
    let mut found = readable(&content(disk)?);
    let _ = found.split_off(&before);
    Ok(found.into_values().collect())
}

/// Completes `claims.jsonl` with the records of the readable lines of a log that is about to be set aside. The file as it was
/// is kept in the backup, with all that cannot be read.
pub fn complete(disk: &dyn Disk, lines: BTreeMap<u64, Vec<u8>>, upto: u64, backup: &str) -> io::Result<()> {
    disk.put_aside(CLAIMS)?;
    let old = content(disk)?;
    if !old.is_empty() {
        let kept = disk.open(&format!("{backup}/{CLAIMS}"), OpenMode::Fresh)?;
        write_all_at(&*kept, &old, 0)?;
        kept.sync()?;
    }
    let mut all = readable(&old);
    all.extend(lines);
    let _ = all.split_off(&(upto + 1));
    let bytes: Vec<u8> = all.into_values().flatten().collect();
    let file = disk.open(NEW, OpenMode::Fresh)?;
    write_all_at(&*file, &bytes, 0)?;
    file.sync()?;
    disk.rename(NEW, CLAIMS)?;
    disk.sync_dir("")
}
