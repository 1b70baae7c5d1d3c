//! Where each value of a JSON text stands, and which keys are there twice.

use std::collections::HashMap;

use serde_json::Value;

/// A JSON text that was read, with the lines of its values.
pub(super) struct Located {
    pub(super) value: Value,
    /// JSON pointer of each value, and its line.
    lines: HashMap<String, usize>,
    /// JSON pointer and line of each key that an object has had before.
    pub(super) twice: Vec<(String, usize)>,
}

/// The error of serde_json for a text that is no JSON.
pub(super) struct NotJson {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) why: String,
}

impl Located {
    pub(super) fn read(text: &[u8]) -> Result<Self, NotJson> {
        let value: Value = serde_json::from_slice(text).map_err(|e| NotJson {
            line: e.line(),
            column: e.column(),
            why: e.to_string(),
        })?;
        let mut walk = Walk {
            text,
            at: 0,
            line: 1,
            lines: HashMap::new(),
            twice: Vec::new(),
        };
        // The text is JSON, and not deeper than serde_json reads: the walk need not check anything.
        walk.value("");
        Ok(Self {
            value,
            lines: walk.lines,
            twice: walk.twice,
        })
    }

    /// The line of the value at `pointer`, or of the nearest one around it.
    pub(super) fn line(&self, pointer: &str) -> usize {
        let mut pointer = pointer;
        loop {
            if let Some(line) = self.lines.get(pointer) {
                return *line;
            }
            match pointer.rfind('/') {
                Some(at) => pointer = &pointer[..at],
                None => return 1,
            }
        }
    }
}

/// One more step of a JSON pointer.
pub(super) fn step(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

struct Walk<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
    lines: HashMap<String, usize>,
    twice: Vec<(String, usize)>,
}

impl Walk<'_> {
    /// The next byte that is no white space.
    fn peek(&mut self) -> u8 {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'\n' => self.line += 1,
                b' ' | b'\t' | b'\r' => {}
                byte => return *byte,
            }
            self.at += 1;
        }
        0
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at = (self.at + 1).min(self.text.len());
        serde_json::from_slice(&self.text[start..self.at]).unwrap_or_default()
    }

    fn value(&mut self, pointer: &str) {
        let first = self.peek();
        self.lines.insert(pointer.to_owned(), self.line);
        match first {
            b'{' | b'[' => {
                self.at += 1;
                let mut number = 0;
                let mut seen = std::collections::HashSet::new();
                loop {
                    match self.peek() {
                        b'}' | b']' | 0 => break,
                        b',' => self.at += 1,
                        _ => {
                            let key = if first == b'{' {
                                let key = self.string();
                                let line = self.line;
                                if !seen.insert(key.clone()) {
                                    self.twice.push((step(pointer, &key), line));
                                }
                                self.peek();
                                self.at += 1;
                                key
                            } else {
                                number += 1;
                                (number - 1).to_string()
                            };
                            let inner = step(pointer, &key);
                            self.value(&inner);
                        }
                    }
                }
                self.at += 1;
            }
            b'"' => {
                self.string();
            }
            _ => {
                while self
                    .text
                    .get(self.at)
                    .is_some_and(|b| !matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'))
                {
                    self.at += 1;
                }
            }
        }
    }
}
