//! The log of an agent's output, with bounded size: keeps the beginning and the end.
//!
//! Format: the bytes of the output without secrets ([`crate::redact`]). A line is written when it is complete. The line
//! `[jit: <20 digits> bytes were cut here]` replaces bytes that were dropped.
//!
//! What must hold: the file is never larger than the head plus twice the tail; a full disk loses output and has no
//! other effect.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jit_os::file;

use crate::redact::{Redactor, StreamRedactor};

/// Bytes that are kept of the beginning.
const HEAD: u64 = 4 << 20;
/// Bytes that are kept of the end, at least.
const TAIL: u64 = 2 << 20;
/// Bytes of the end that stay in memory, for `exit.json`.
pub const LAST: usize = 8 << 10;
/// Length of the line that replaces the dropped bytes.
const GAP: u64 = 49;

#[derive(Debug)]
pub struct OutputLog {
    path: PathBuf,
    file: Option<File>,
    head: u64,
    tail: u64,
    len: u64,
    /// Bytes that were dropped from the middle.
    cut: u64,
    /// Bytes that could not be written.
    pub lost: u64,
    last: VecDeque<u8>,
    keep: usize,
    scrub: Option<StreamRedactor>,
}

impl OutputLog {
    /// The last `keep` bytes stay in memory too.
    pub fn new(path: &Path, keep: usize) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            head: HEAD,
            tail: TAIL,
            len: 0,
            cut: 0,
            lost: 0,
            last: VecDeque::new(),
            keep,
            scrub: None,
        }
    }

    /// Removes secrets before writing.
    pub fn without_secrets(mut self, redactor: Arc<Redactor>) -> Self {
        self.scrub = Some(StreamRedactor::new(redactor));
        self
    }

    pub fn take(&mut self, bytes: &[u8]) {
        match self.scrub.take() {
            None => self.keep(bytes),
            Some(mut scrub) => {
                scrub.take(bytes, &mut |clean| self.keep(clean));
                self.scrub = Some(scrub);
            }
        }
    }

    /// The output has ended.
    pub fn end(&mut self) {
        if let Some(mut scrub) = self.scrub.take() {
            scrub.end(&mut |clean| self.keep(clean));
            self.scrub = Some(scrub);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let kept = bytes
            .get(bytes.len().saturating_sub(self.keep)..)
            .unwrap_or_default();
        let over = (self.last.len() + kept.len()).saturating_sub(self.keep);
        self.last.drain(..over.min(self.last.len()));
        self.last.extend(kept);
        // In pieces, so that each write fits between two cuts.
        for piece in bytes.chunks(usize::try_from(self.tail).unwrap_or(usize::MAX)) {
            if self.write(piece).is_err() {
                self.lost += piece.len() as u64;
            }
        }
    }

    /// The last bytes, as text.
    pub fn last(&mut self) -> String {
        text_of_end(self.last.make_contiguous())
    }

    /// Gives disk space back by dropping the second half, if the disk is full.
    pub fn give_room(&mut self) {
        if let Some(file) = &self.file
            && self.len > 0
        {
            let less = self.len.min(self.head) / 2;
            if file.set_len(less).is_ok() {
                self.lost += self.len - less;
                self.len = less;
            }
        }
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(create(&self.path)?);
        }
        if self.len + piece.len() as u64 > self.head + GAP + 2 * self.tail {
            self.close_up()?;
        }
        if let Some(file) = &self.file {
            // A partial write counts as lost, and the next write overwrites it.
            file.write_all_at(piece, self.len)?;
            self.len += piece.len() as u64;
        }
        Ok(())
    }

    /// Drops the middle: keeps the head and the end.
    fn close_up(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut from = self.len - self.tail;
        let mut to = self.head + GAP;
        let old = if self.cut == 0 { self.head } else { to };
        let cut = self.cut + (from - old);
        let mut buffer = [0; 16 << 10];
        while from < self.len {
            let most = usize::try_from(self.len - from)
                .unwrap_or(usize::MAX)
                .min(buffer.len());
            let piece = buffer.get_mut(..most).unwrap_or_default();
            file.read_exact_at(piece, from)?;
            file.write_all_at(piece, to)?;
            from += most as u64;
            to += most as u64;
        }
        file.write_all_at(
            format!("\n[jit: {cut:020} bytes were cut here]\n").as_bytes(),
            self.head,
        )?;
        file.set_len(to)?;
        self.len = to;
        self.cut = cut;
        Ok(())
    }
}

fn create(path: &Path) -> io::Result<File> {
    // An existing file does not belong to this attempt, which has only just started.
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    drop(file::create_like_parent(path)?);
    file::open_real(path, File::options().read(true).write(true))
}

/// Converts bytes that may begin within a character.
pub fn text_of_end(bytes: &[u8]) -> String {
    let broken = bytes.iter().take(3).take_while(|b| **b & 0xc0 == 0x80).count();
    String::from_utf8_lossy(bytes.get(broken..).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g8_the_beginning_and_the_end_are_kept_and_the_file_stays_small() {
        let folder = tempfile::tempdir().expect("a folder");
        let all: Vec<u8> = (0..5000u32)
            .flat_map(|n| format!("{n:07}\n").into_bytes())
            .collect();
        for piece in [1, 7, 100, 999, 5000, all.len()] {
            let path = folder.path().join(format!("{piece}"));
            let mut log = OutputLog::new(&path, 20);
            (log.head, log.tail) = (100, 300);
            let mut longest = 0;
            for bytes in all.chunks(piece) {
                log.take(bytes);
                longest = longest.max(std::fs::metadata(&path).expect("a file").len());
            }
            assert!(longest <= 100 + GAP + 600, "{piece}: {longest}");
            let kept = std::fs::read(&path).expect("a file");
            assert!(kept.starts_with(&all[..100]), "{piece}");
            assert!(kept.ends_with(&all[all.len() - 300..]), "{piece}");
            let gap = String::from_utf8(kept[100..100 + GAP as usize].to_vec()).expect("text");
            let cut: u64 = gap
                .trim()
                .trim_start_matches("[jit: ")
                .split(' ')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or_else(|| panic!("{gap:?}"));
            assert_eq!(cut + kept.len() as u64 - GAP, all.len() as u64, "{piece}");
            assert_eq!(log.last().as_bytes(), &all[all.len() - 20..]);
            assert_eq!(log.lost, 0);
        }
    }

    #[test]
    fn g8_a_log_that_cannot_be_written_only_loses_output() {
        let mut log = OutputLog::new(Path::new("/dev/null/nothing"), 4);
        log.take(b"12345");
        log.take(b"67");
        assert_eq!((log.lost, log.last().as_str()), (7, "4567"));
    }
}
