//! Writes the events of an agent to `events.jsonl`.
//!
//! What must hold:
//!
//! - lines are written whole and in batches, so that readers see complete lines except for the last one;
//! - the size of the file is bounded: text is dropped first, usage and results are kept longer;
//! - a full disk loses events and has no other effect.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jit_os::{clock, file};

use crate::event::{AgentEvent, EventLine};
use crate::redact::{EventRedactor, Redactor};

/// Up to this size everything is kept.
const WORDS: u64 = 12 << 20;
/// Up to this size everything but text is kept, above it only results and notes.
const ALL: u64 = 20 << 20;
/// Nothing is kept above this size. Notes are few, but results come from the agent.
const EVER: u64 = 24 << 20;
/// Bytes in memory that cause a write.
const BATCH: usize = 64 << 10;
/// Maximum bytes of one line.
const LONGEST: usize = 256 << 10;

#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: Option<File>,
    len: u64,
    /// Lines that are not written yet.
    waiting: Vec<u8>,
    /// The last write ended within a line.
    torn: bool,
    /// Lines that could not be written.
    pub lost: u64,
    /// Lines that were dropped to limit the size.
    left_out: u64,
    redactor: EventRedactor,
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
            redactor: EventRedactor::new(redactor),
        }
    }

    /// Removes secrets. Must be called for every event before [`EventLog::say`].
    pub fn redact(&mut self, said: &mut AgentEvent) {
        self.redactor.clean(said);
    }

    /// Adds an event. It is written at the next [`EventLog::flush`].
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

    /// Writes the pending lines.
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
            text: self.redactor.clean_note(text),
        });
        self.flush();
    }

    /// Returns the number of bytes written. If it is less than all, the end may be within a line.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() {
            match file::create_like_parent(&self.path) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            self.file = Some(file::open_real(&self.path, File::options().append(true))?);
        }
        let Some(file) = &mut self.file else { return Ok(0) };
        if self.torn {
            file.write_all(b"\n")?;
            self.torn = false;
            self.len += 1;
        }
        // Not `write_all`: after an error we need to know whether part of a line was written.
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
