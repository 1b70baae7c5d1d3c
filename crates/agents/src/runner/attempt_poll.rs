//! An attempt that is looked at again and again, by a coordinator of many.
//!
//! What must hold: it says what [`attempt::look`](super::attempt::look) would, but reads of the events only what is new
//! since, and only what is about money.

use std::fs::File;
use std::io;
use std::path::Path;

use super::attempt::read;
use super::attempt_files::AttemptFiles;
use super::conversation::AttemptTotals;
use crate::event::EventLine;

/// What is read of the events at once.
const BLOCK: u64 = 1 << 20;
/// Other lines add nothing to the sum. Written by ourselves, so they look like this; what only looks like it adds nothing.
const COUNTS: [&[u8]; 2] = [b"\"kind\":\"usage\"", b"\"kind\":\"result\""];

/// How far an attempt has come, without what it said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptStage {
    NotStarted,
    Starting,
    Running,
    Ended,
    Lost,
}

/// What is known of an attempt from looking at it before.
#[derive(Debug, Default)]
pub struct AttemptPoll {
    /// What it has used, as far as the events were read.
    pub sum: AttemptTotals,
    read: u64,
    begun: bool,
    /// Its processes were written down.
    shown: bool,
}

impl AttemptPoll {
    /// How far it has come.
    pub fn look(&mut self, folder: &Path) -> io::Result<AttemptStage> {
        let files = AttemptFiles::of(folder);
        if files.has("exit.json") {
            return Ok(AttemptStage::Ended);
        }
        // In this order: what was begun before nobody had the lock was begun by somebody who is gone.
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

    /// Adds what was said since.
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
        let file = File::open(path)?;
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
        let usage = |n: u64| {
            format!(
                r#"{{"at":1,"kind":"usage","tokens":{{"input":{n},"output":0}},"cost_usd":{n},"turns":1}}"#
            )
        };
        write!(events, "{}\n{}", usage(1), usage(2)).expect("written");
        assert_eq!(glance.look(folder.path()).expect("a look"), AttemptStage::Running);
        assert_eq!(glance.sum.tokens.input, 1);
        let words = r#"{"at":1,"kind":"text","text":"\"kind\":\"usage\" 9"}"#;
        write!(events, "\n{words}\n").expect("written");
        assert_eq!(glance.look(folder.path()).expect("a look"), AttemptStage::Running);
        assert_eq!(glance.sum.tokens.input, 2);
        std::fs::write(files.path("exit.json"), "{}").expect("a file");
        assert_eq!(glance.look(folder.path()).expect("a look"), AttemptStage::Ended);
        drop(lock);
    }
}
