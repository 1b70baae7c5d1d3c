//! What an agent said, written down as it comes: `events.jsonl`.
//!
//! What must hold: lines are written whole, as many at once as were heard at once, so that readers see whole lines but for
//! the last; the file stays small whatever is said (words are left out first, what counts is kept longer); a full disk loses lines and nothing else.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jit_os::{clock, file};

use crate::event::{AgentEvent, EventLine};
use crate::redact::Redactor;

/// Up to here everything is kept.
const WORDS: u64 = 12 << 20;
/// Up to here what is not mere words, and after it only results and notes.
const ALL: u64 = 20 << 20;
/// Notes are ours, and bounded by what can happen; results are the agent's.
const EVER: u64 = 24 << 20;
/// So much is not kept back any longer.
const BATCH: usize = 64 << 10;
/// The most of one line, in bytes.
const LONGEST: usize = 256 << 10;

#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: Option<File>,
    len: u64,
    /// Lines that were said and not written yet.
    waiting: Vec<u8>,
    /// The last write left half a line.
    torn: bool,
    /// Lines that could not be written.
    pub lost: u64,
    /// Lines that were left out to keep the file small.
    left_out: u64,
    redactor: Arc<Redactor>,
}

impl EventLog {
    pub fn new(path: &Path, redactor: Arc<Redactor>) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            len: 0,
            waiting: Vec::new(),
            torn: false,
            lost: 0,
            left_out: 0,
            redactor,
        }
    }

    /// What may be written down and counted. For everything that [`EventLog::say`] is given.
    pub fn redact(&self, said: &mut AgentEvent) {
        self.redactor.clean_said(said);
    }

    /// Written down at the next [`EventLog::flush`].
    pub fn say(&mut self, said: AgentEvent) {
        let most = match said {
            AgentEvent::Text { .. }
            | AgentEvent::Tool { .. }
            | AgentEvent::ToolDone { .. }
            | AgentEvent::Unknown { .. } => WORDS,
            AgentEvent::Result { .. } | AgentEvent::Note { .. } => EVER,
            _ => ALL,
        };
        if self.len + self.waiting.len() as u64 >= most {
            self.left_out += 1;
            if self.left_out == 1 {
                self.note("much was said: from here on words are left out");
            }
            return;
        }
        let line = EventLine {
            at: clock::wall_ms(),
            said,
        };
        let Ok(mut bytes) = serde_json::to_vec(&line) else {
            return;
        };
        if bytes.len() > LONGEST {
            let text = format!("something of {} bytes was said", bytes.len());
            return self.note(&text);
        }
        bytes.push(b'\n');
        self.waiting.append(&mut bytes);
        if self.waiting.len() >= BATCH {
            self.flush();
        }
    }

    /// Writes down what was said.
    pub fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let mut bytes = std::mem::take(&mut self.waiting);
        let written = self.write(&bytes).unwrap_or(0);
        let rest = bytes.get(written..).unwrap_or_default();
        self.lost += rest.iter().filter(|b| **b == b'\n').count() as u64;
        bytes.clear();
        bytes.shrink_to(BATCH);
        self.waiting = bytes;
    }

    pub fn note(&mut self, text: &str) {
        self.say(AgentEvent::Note {
            text: self.redactor.clean(text).into_owned(),
        });
        self.flush();
    }

    /// Says how many bytes were written; of less than all the end may be half a line.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() {
            match file::create_like_parent(&self.path) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            self.file = Some(File::options().append(true).open(&self.path)?);
        }
        let Some(file) = &mut self.file else { return Ok(0) };
        if self.torn {
            file.write_all(b"\n")?;
            self.torn = false;
            self.len += 1;
        }
        // Written by hand: of half a line it must be known that it is there.
        let count = loop {
            match file.write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => break done?,
            }
        };
        self.len += count as u64;
        self.torn = count > 0 && bytes.get(count - 1) != Some(&b'\n');
        Ok(count)
    }
}
