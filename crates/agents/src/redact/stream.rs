//! Redacts output that arrives in pieces: a stream of bytes, and events.

use std::ops::Range;
use std::sync::Arc;

use super::patterns::{KEY_REACHES, key_goes_on, open_key};
use super::{MOST_HELD, REDACTED, Redactor, replaced};
use crate::event::AgentEvent;

/// Redacts a stream that arrives in pieces of any size.
#[derive(Debug)]
pub struct StreamRedactor {
    of: Arc<Redactor>,
    pub(super) held: Vec<u8>,
}

impl StreamRedactor {
    pub fn new(of: Arc<Redactor>) -> Self {
        Self { of, held: Vec::new() }
    }

    /// Passes on the bytes that cannot become part of a secret.
    pub fn take(&mut self, bytes: &[u8], out: &mut dyn FnMut(&[u8])) {
        self.held.extend_from_slice(bytes);
        let found = self.of.find(&self.held);
        let len = self.held.len();
        let line = self.held.iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
        // Of an unfinished line, hold back only its end.
        let line = line.max(len.saturating_sub(MOST_HELD / 4));
        let mut from = line.min(self.of.unfinished(&self.held));
        for range in &found {
            // A secret at the end may continue.
            if range.end >= len {
                from = from.min(range.start);
            } else if range.contains(&from) {
                from = range.end;
            }
        }
        // A key may have lines that do not look like one.
        from = open_key(&self.held).map_or(from, |begin| from.min(begin));
        from = from.max(len.saturating_sub(MOST_HELD));
        let sure: Vec<Range<usize>> = found.into_iter().filter(|range| range.start < from).collect();
        // A secret longer than the limit is dropped as far as it was seen.
        from = sure.last().map_or(from, |last| last.end.max(from));
        let head = self.held.get(..from).unwrap_or_default();
        if !head.is_empty() {
            match sure.is_empty() {
                true => out(head),
                false => out(&replaced(head, &sure)),
            }
        }
        self.held.drain(..from);
    }

    /// The stream has ended.
    pub fn end(&mut self, out: &mut dyn FnMut(&[u8])) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            out(&self.of.clean_bytes(&held));
        }
    }
}

/// Redacts the events of one agent. A key that an agent prints a line at a time is one secret in several events.
#[derive(Debug)]
pub struct EventRedactor {
    of: Arc<Redactor>,
    /// The bytes that a key may still have which began in an earlier event; 0 if none did.
    open: usize,
}

impl EventRedactor {
    pub fn new(of: Arc<Redactor>) -> Self {
        Self { of, open: 0 }
    }

    /// Replaces the secrets in an event.
    pub fn clean(&mut self, said: &mut AgentEvent) {
        match said {
            AgentEvent::Text { text } | AgentEvent::Unknown { line: text } => self.clean_line(text),
            other => self.of.clean_said(other),
        }
    }

    /// Replaces the secrets in a text that is no event of the agent's.
    pub fn clean_note(&self, text: &str) -> String {
        self.of.clean(text).into_owned()
    }

    fn clean_line(&mut self, text: &mut String) {
        let (bytes, ended) = match self.open {
            0 => (0, true),
            left => {
                let (bytes, ended) = key_goes_on(text.as_bytes());
                (bytes.min(left), ended || bytes >= left)
            }
        };
        let rest = text.get(bytes..).unwrap_or_default();
        let begins = open_key(rest.as_bytes()).is_some();
        self.open = match (begins, ended) {
            (true, _) => KEY_REACHES,
            (false, true) => 0,
            (false, false) => self.open - bytes,
        };
        let clean = self.of.clean(rest);
        let mark = if bytes > 0 { REDACTED } else { "" };
        let whole = format!("{mark}{clean}");
        if whole != *text {
            *text = whole;
        }
    }
}
