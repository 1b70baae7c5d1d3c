//! `changelog.log`: a record of the work done, one JSON object a line, for people and for programs that read files
//! (D4).
//!
//! It is a view of the log. Each entry in the log names its previous entry. So missing lines or a missing file are
//! noticed at the next entry, and the file is rewritten from its last valid line. `jit changelog` itself reads the
//! log.

use std::fs;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;

use jit_core::log::event::{Event, Stamped};
use jit_core::query::claim_views::changelog_line;
use jit_os::file;

use crate::context::Context;

/// Number of bytes at the end of the file that are read to find the last line.
const END: u64 = 256 << 10;

#[derive(serde::Deserialize)]
struct Numbered {
    sequence: u64,
}

/// Appends the entries among `lines`. Called under the store's lock.
pub(crate) fn note_work(cx: &Context, lines: &[Stamped]) -> io::Result<()> {
    let previous = lines.iter().find_map(|line| match &line.event {
        Event::Worked { previous, .. } => Some(*previous),
        _ => None,
    });
    let Some(previous) = previous else {
        return Ok(());
    };
    let path = cx.place.control_dir.join("changelog.log");
    let open = || file::open_real(&path, fs::OpenOptions::new().read(true).write(true));
    let file = match open() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            drop(file::create_like_parent(&path)?);
            open()?
        }
        opened => opened?,
    };
    let (mut end, mut last) = sound_end(&file)?;
    let mut bytes = Vec::new();
    if last != previous {
        if last > previous {
            // The file has entries that the log does not have: it is rewritten completely.
            (end, last) = (0, 0);
        }
        let upto = previous;
        cx.store
            .events(last, &mut |line: Stamped| {
                if line.sequence > upto {
                    return ControlFlow::Break(());
                }
                bytes.extend(changelog_line(&line).unwrap_or_default());
                ControlFlow::Continue(())
            })
            .map_err(|refusal| io::Error::other(refusal.message))?;
    }
    for line in lines {
        bytes.extend(changelog_line(line).unwrap_or_default());
    }
    file.set_len(end)?;
    let mut at = &file;
    io::Seek::seek(&mut at, io::SeekFrom::Start(end))?;
    at.write_all(&bytes)
}

/// Returns the end of the last complete line, and the sequence of that line.
fn sound_end(file: &fs::File) -> io::Result<(u64, u64)> {
    let len = file.metadata()?.len();
    let from = len.saturating_sub(END);
    let mut bytes = vec![0; usize::try_from(len - from).unwrap_or(0)];
    file.read_exact_at(&mut bytes, from)?;
    while let Some(end) = bytes.iter().rposition(|b| *b == b'\n') {
        let start = bytes[..end]
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |n| n + 1);
        if let Ok(line) = serde_json::from_slice::<Numbered>(&bytes[start..end]) {
            return Ok((from + end as u64 + 1, line.sequence));
        }
        bytes.truncate(start);
    }
    Ok((0, 0))
}
