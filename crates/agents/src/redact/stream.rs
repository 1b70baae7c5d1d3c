//! Redacts output that arrives in pieces: a stream of bytes, and events.

use std::ops::Range;
use std::sync::Arc;

use super::patterns::{KEY_LINES, key_begin, key_end, line_breaks, private_keys, undecided};
use super::{MARK, MOST_HELD, REDACTED, Redactor, replaced};
use crate::event::AgentEvent;

/// Redacts a stream that arrives in pieces of any size.
#[derive(Debug)]
pub struct StreamRedactor {
    of: Arc<Redactor>,
    pub(super) held: Vec<u8>,
    /// The lines that a private key may still have which has begun.
    key: Option<usize>,
}

impl StreamRedactor {
    pub fn new(of: Arc<Redactor>) -> Self {
        Self {
            of,
            held: Vec::new(),
            key: None,
        }
    }

    /// Passes on the bytes that cannot become part of a secret.
    pub fn take(&mut self, bytes: &[u8], out: &mut dyn FnMut(&[u8])) {
        self.held.extend_from_slice(bytes);
        if self.is_within_key(out) {
            return;
        }
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
            } else if range.start < from && from < range.end {
                from = range.end;
            }
        }
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

    /// Drops the private keys in the held bytes, and passes on the text before them. Returns whether a key goes on at
    /// the end.
    fn is_within_key(&mut self, out: &mut dyn FnMut(&[u8])) -> bool {
        loop {
            if let Some(lines) = self.key {
                let Some(end) = key_end(&self.held, lines, false) else {
                    let dropped = self.held.len() - undecided(&self.held);
                    self.key = Some(lines - line_breaks(self.held.get(..dropped).unwrap_or_default()));
                    self.held.drain(..dropped);
                    return true;
                };
                self.held.drain(..end);
                self.key = None;
            }
            let Some((begin, body)) = key_begin(&self.held) else {
                return false;
            };
            let before = self.held.get(..begin).unwrap_or_default();
            if !before.is_empty() {
                out(&self.of.clean_bytes(before));
            }
            out(MARK);
            self.held.drain(..body);
            self.key = Some(KEY_LINES);
        }
    }

    /// The stream has ended.
    pub fn end(&mut self, out: &mut dyn FnMut(&[u8])) {
        if let Some(lines) = self.key.take() {
            let end = key_end(&self.held, lines, true).unwrap_or(self.held.len());
            self.held.drain(..end);
        }
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
    /// The lines that a private key may still have which began in an earlier event.
    key: Option<usize>,
}

impl EventRedactor {
    pub fn new(of: Arc<Redactor>) -> Self {
        Self { of, key: None }
    }

    /// Replaces the secrets in an event.
    pub fn clean(&mut self, said: &mut AgentEvent) {
        match said {
            AgentEvent::Text { text } | AgentEvent::Unknown { line: text } => self.clean_lines(text),
            other => self.of.clean_said(other),
        }
    }

    /// Replaces the secrets in a text that is no event of the agent's.
    pub fn clean_note(&self, text: &str) -> String {
        self.of.clean(text).into_owned()
    }

    /// Replaces the secrets in one or more whole lines.
    fn clean_lines(&mut self, text: &mut String) {
        let mut of_key = 0;
        if let Some(lines) = self.key.take() {
            let end = key_end(text.as_bytes(), lines, true);
            of_key = end.unwrap_or(text.len());
            if end.is_none() {
                self.key = left(lines, text);
            }
        }
        let rest = text.get(of_key..).unwrap_or_default();
        if let (_, Some(lines)) = private_keys(rest.as_bytes()) {
            self.key = left(lines, "");
        }
        let clean = self.of.clean(rest);
        let mark = if of_key > 0 { REDACTED } else { "" };
        let whole = format!("{mark}{clean}");
        if whole != *text {
            *text = whole;
        }
    }
}

/// The lines that a key may still have after these lines.
fn left(lines: usize, text: &str) -> Option<usize> {
    Some(lines.saturating_sub(line_breaks(text.as_bytes()) + 1)).filter(|lines| *lines > 0)
}
