//! `changelog.log`: a record of the work done, one JSON object a line, for people and for programs that read files
//! (D4).
//!
//! jit's own lines have a `sequence` and follow from the log: one is known by its sequence and time. Each entry in the log
//! names its previous entry, so missing lines or a missing file are noticed at the next entry. Programs without jit append
//! lines of their own, mostly without a `sequence`; these lines are in this file only.
//!
//! What must hold:
//!
//! - A line that another program appended is never removed. jit itself only appends.
//! - If jit's own lines are not those of the log, the file is written anew: jit's lines from the log, and between them
//!   the lines of others where they were.
//! - A line that is neither is kept in `changelog.damaged`.
//!
//! Limitation: a line that another program appends while the file is written anew may be lost.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use jit_core::log::event::{Event, Stamped};
use jit_core::model::time::Wall;
use jit_core::query::claim_views::changelog_line;
use jit_os::{file, io_refusal};
use jit_store::Outcome;
use serde::Deserialize;

use crate::api::stream::WorkEntry;
use crate::compat::lock_file_format::{agent_named, earliest};
use crate::context::Context;

/// Number of bytes at the end of the file that are read first to find the last own line.
const END: u64 = 256 << 10;

/// Lines that were in the changelog and are neither jit's nor JSON objects.
pub(crate) const DAMAGED: &str = "changelog.damaged";

/// The origin of a line of the file.
enum Line<'a> {
    /// It has this sequence, and perhaps a time.
    Own(u64, Option<Wall>),
    Theirs(TheirLine<'a>),
    Damaged,
}

#[derive(Default, Deserialize)]
struct TheirLine<'a> {
    sequence: Option<u64>,
    timestamp: Option<String>,
    worker: Option<String>,
    worker_type: Option<String>,
    action: Option<String>,
    activity_id: Option<String>,
    task_id: Option<String>,
    #[serde(borrow)]
    details: Option<&'a serde_json::value::RawValue>,
}

impl<'a> Line<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        match serde_json::from_slice::<TheirLine<'a>>(bytes) {
            Ok(TheirLine {
                sequence: Some(own),
                timestamp,
                ..
            }) => Self::Own(own, timestamp.and_then(|at| at.parse().ok())),
            Ok(line) => Self::Theirs(line),
            // Fields of an unexpected type are none of our business.
            Err(_) if serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(bytes).is_ok() => {
                Self::Theirs(TheirLine::default())
            }
            Err(_) => Self::Damaged,
        }
    }
}

fn path(cx: &Context) -> PathBuf {
    cx.place.control_dir.join("changelog.log")
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
    let new: Vec<u8> = lines.iter().filter_map(changelog_line).flatten().collect();
    let path = path(cx);
    let open = || file::open_real(&path, fs::OpenOptions::new().read(true).append(true));
    let mut file = match open() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            drop(file::create_like_parent(&path)?);
            open()?
        }
        opened => opened?,
    };
    match end_of(&file)? {
        End { last, open: false } if last == previous => file.write_all(&new),
        End { last, open: true } if last == previous => file.write_all(&[b"\n", &new[..]].concat()),
        _ => write_anew(cx, &path, previous, &new),
    }
}

/// The end of the file.
struct End {
    /// The sequence of the last own line; 0 if there is none.
    last: u64,
    /// The last line is whole, but has no newline yet.
    open: bool,
}

/// Looks at the end of the file. A damaged last line counts as sequence `u64::MAX`, which no entry has.
fn end_of(file: &fs::File) -> io::Result<End> {
    let len = file.metadata()?.len();
    let mut window = END;
    loop {
        let from = len.saturating_sub(window);
        let mut bytes = vec![0; usize::try_from(len - from).unwrap_or(0)];
        file.read_exact_at(&mut bytes, from)?;
        let open = bytes.last().is_some_and(|last| *last != b'\n');
        let mut last = None;
        for (n, line) in bytes.trim_ascii_end().rsplit(|b| *b == b'\n').enumerate() {
            match Line::of(line) {
                // jit writes a line together with its newline.
                Line::Own(..) if n == 0 && open => last = Some(u64::MAX),
                Line::Own(sequence, _) => last = Some(sequence),
                Line::Damaged if n == 0 && len > 0 => last = Some(u64::MAX),
                Line::Damaged | Line::Theirs(_) => continue,
            }
            break;
        }
        match last {
            Some(last) => return Ok(End { last, open }),
            None if from == 0 => return Ok(End { last: 0, open }),
            None => window = window.saturating_mul(8),
        }
    }
}

/// Writes the file anew: the entries of the log up to `previous`, the lines of others between them, and the new ones.
fn write_anew(cx: &Context, path: &Path, previous: u64, new: &[u8]) -> io::Result<()> {
    let own = own_lines(cx, previous)?;
    let old = fs::read(path)?;
    let (mut theirs, mut damaged, mut last) = (Vec::new(), Vec::new(), 0);
    for line in old
        .split(|b| *b == b'\n')
        .filter(|line| !line.trim_ascii().is_empty())
    {
        match Line::of(line) {
            Line::Own(sequence, at) if own.get(&sequence).is_some_and(|(time, _)| at == Some(*time)) => {
                last = sequence.max(last);
            }
            Line::Own(sequence, _) if sequence > previous => damaged.extend([line, b"\n"].concat()),
            Line::Damaged => damaged.extend([line, b"\n"].concat()),
            Line::Own(..) | Line::Theirs(_) => theirs.push((last, line)),
        }
    }
    let mut theirs = theirs.into_iter().peekable();
    let mut bytes = Vec::new();
    for (sequence, (_, line)) in own {
        while let Some((_, line)) = theirs.next_if(|(after, _)| *after < sequence) {
            bytes.extend_from_slice(&[line, b"\n"].concat());
        }
        bytes.extend(line);
    }
    for (_, line) in theirs {
        bytes.extend_from_slice(&[line, b"\n"].concat());
    }
    bytes.extend_from_slice(new);
    if !damaged.is_empty() {
        keep_damaged(&cx.place.control_dir.join(DAMAGED), &damaged)?;
    }
    file::refresh(path, &bytes)
}

/// jit's lines from the log, with their times, by sequence.
fn own_lines(cx: &Context, previous: u64) -> io::Result<BTreeMap<u64, (Wall, Vec<u8>)>> {
    let mut own = BTreeMap::new();
    let events = cx.store.events(0, &mut |line: Stamped| {
        if line.sequence > previous {
            return ControlFlow::Break(());
        }
        own.extend(changelog_line(&line).map(|text| (line.sequence, (line.at, text))));
        ControlFlow::Continue(())
    });
    events.map_err(|refusal| io::Error::other(refusal.message))?;
    Ok(own)
}

fn keep_damaged(path: &Path, lines: &[u8]) -> io::Result<()> {
    let mut kept = file::read_real(path, u64::MAX)?.unwrap_or_default();
    kept.extend_from_slice(lines);
    file::refresh(path, &kept)
}

/// Returns the entries that other programs appended, oldest first. Lines without a time, a worker and an action are left
/// out.
pub(crate) fn entries_of_others(cx: &Context) -> Outcome<Vec<WorkEntry>> {
    let path = path(cx);
    let bytes = file::read_real(&path, u64::MAX).map_err(|e| io_refusal("read", &path, &e))?;
    let mut entries: Vec<WorkEntry> = bytes
        .unwrap_or_default()
        .split(|b| *b == b'\n')
        .filter_map(|line| match Line::of(line) {
            Line::Theirs(line) => line.entry(),
            Line::Own(..) | Line::Damaged => None,
        })
        .collect();
    entries.sort_by_key(|entry| entry.timestamp);
    Ok(entries)
}

impl TheirLine<'_> {
    fn entry(self) -> Option<WorkEntry> {
        let worker = agent_named(&self.worker?, self.worker_type.as_deref())?;
        let id = |text: Option<String>| text.and_then(|text| text.parse().ok());
        Some(WorkEntry {
            timestamp: earliest(&self.timestamp?)?,
            worker_type: match worker.kind() {
                "human" => "human",
                _ => "agent",
            }
            .to_owned(),
            worker,
            action: self.action?,
            activity_id: id(self.activity_id),
            task_id: id(self.task_id),
            details: self.details.map(|raw| {
                serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
            }),
            sequence: None,
        })
    }
}
