//! Polls an attempt cheaply, for a coordinator that watches many.
//!
//! What must hold: the result equals that of [`attempt::look`](super::attempt::look), but a poll reads only new events,
//! and parses only those about usage and results.

use std::fs::File;
use std::io;
use std::path::Path;

use jit_os::file;

use super::attempt::read;
use super::attempt_files::AttemptFiles;
use super::conversation::AttemptTotals;
use crate::event::EventLine;

/// Bytes of the events file that are read at once.
const BLOCK: u64 = 1 << 20;
/// Only lines with these bytes change the totals. jit wrote the lines itself, so the spelling is fixed; a text that
/// merely contains these bytes changes nothing.
const COUNTS: [&[u8]; 3] = [
    b"\"kind\":\"started\"",
    b"\"kind\":\"usage\"",
    b"\"kind\":\"result\"",
];

/// The state of an attempt, without its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptStage {
    NotStarted,
    Starting,
    Running,
    Ended,
    Lost,
}

/// The result of earlier polls of an attempt.
#[derive(Debug, Default)]
pub struct AttemptPoll {
    /// Usage, as far as the events have been read.
    pub sum: AttemptTotals,
    read: u64,
    begun: bool,
    /// `process.json` exists.
    shown: bool,
}

impl AttemptPoll {
    /// The current state.
    pub fn look(&mut self, folder: &Path) -> io::Result<AttemptStage> {
        let files = AttemptFiles::of(folder);
        if files.has("exit.json") {
            return Ok(AttemptStage::Ended);
        }
        // The order matters: if `started` exists before the lock is found free, the shim that created it is gone.
        self.begun = self.begun || files.has("started");
        if !files.is_locked()? {
            return Ok(match files.has("exit.json") {
                true => AttemptStage::Ended,
                false if self.begun => AttemptStage::Lost,
                false => AttemptStage::NotStarted,
            });
        }
        self.shown = self.shown || files.has("process.json");
        if !self.shown {
            return Ok(AttemptStage::Starting);
        }
        self.add(&files)?;
        Ok(AttemptStage::Running)
    }

    /// Adds the events since the last poll.
    fn add(&mut self, files: &AttemptFiles) -> io::Result<()> {
        let path = files.path("events.jsonl");
        let len = match path.symlink_metadata() {
            Ok(meta) => meta.len(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        if len <= self.read {
            return Ok(());
        }
        let file = file::open_real(&path, File::options().read(true))?;
        loop {
            let bytes = read(&file, self.read, BLOCK)?;
            let Some(end) = bytes.iter().rposition(|b| *b == b'\n') else {
                return Ok(());
            };
            let whole = bytes.get(..end).unwrap_or_default();
            for line in whole.split(|b| *b == b'\n').filter(|line| counts(line)) {
                if let Ok(line) = serde_json::from_slice::<EventLine>(line) {
                    self.sum.add(&line.said);
                }
            }
            self.read += end as u64 + 1;
        }
    }
}

fn counts(line: &[u8]) -> bool {
    let has = |word: &&[u8]| line.windows(word.len()).any(|part| part == *word);
    COUNTS.iter().any(has)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn g9_what_is_added_to_the_events_is_added_to_the_sum_once_its_line_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = AttemptFiles::of(folder.path());
        let mut glance = AttemptPoll::default();
        assert_eq!(
            glance.look(folder.path()).expect("a look"),
            AttemptStage::NotStarted
        );
        std::fs::write(files.path("started"), "").expect("a file");
        assert_eq!(glance.look(folder.path()).expect("a look"), AttemptStage::Lost);
        let lock = files.lock(std::time::Duration::ZERO, || false).expect("a lock");
        assert_eq!(
            glance.look(folder.path()).expect("a look"),
            AttemptStage::Starting
        );
        std::fs::write(files.path("process.json"), "{}").expect("a file");
        let mut events = File::create(files.path("events.jsonl")).expect("events");
        let started = r#"{"at":1,"kind":"started","session_id":"theirs","model":null}"#;
        writeln!(events, "{started}").expect("written");
        let usage = |n: u64| {
            format!(
                r#"{{"at":1,"kind":"usage","tokens":{{"input":{n},"output":0}},"cost_usd":{n},"turns":1}}"#
            )
        };
        write!(events, "{}\n{}", usage(1), usage(2)).expect("written");
        assert_eq!(glance.look(folder.path()).expect("a look"), AttemptStage::Running);
        assert_eq!(glance.sum.tokens.input, 1);
        assert_eq!(glance.sum.session_id.as_deref(), Some("theirs"));
        let words = r#"{"at":1,"kind":"text","text":"\"kind\":\"usage\" 9"}"#;
        write!(events, "\n{words}\n").expect("written");
        assert_eq!(glance.look(folder.path()).expect("a look"), AttemptStage::Running);
        assert_eq!(glance.sum.tokens.input, 2);
        std::fs::write(files.path("exit.json"), "{}").expect("a file");
        assert_eq!(glance.look(folder.path()).expect("a look"), AttemptStage::Ended);
        drop(lock);
    }
}
