//! Here-documents: their bodies follow the line that announces them.

use super::{CurrentCommand, ShellReader, Unreadable, Word};

impl ShellReader<'_> {
    /// Parses the bodies of the here-documents of the previous line.
    pub(super) fn here_documents(&mut self, depth: usize) -> Result<(), Unreadable> {
        for document in std::mem::take(&mut self.heredocs) {
            let begin = self.at;
            let mut last = self.text.len();
            loop {
                let rest = self.text.get(self.at..).unwrap_or_default();
                if rest.is_empty() {
                    // bash accepts the end of the text as the delimiter.
                    break;
                }
                let length = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                let line = rest.get(..length).unwrap_or_default();
                let end = self.at + length;
                let bare = match document.tabs {
                    true => line.trim_ascii_start(),
                    false => line,
                };
                if bare == document.delimiter {
                    last = self.at;
                    self.at = (end + 1).min(self.text.len());
                    break;
                }
                // Its substitutions run.
                while document.expands && self.at < end {
                    match (self.peek(0), self.peek(1)) {
                        (b'\\', _) => self.at += 2,
                        (b'`', _) | (b'$', b'(') => {
                            self.expansion(&mut CurrentCommand::default(), depth + 1)?;
                        }
                        _ => self.at += 1,
                    }
                }
                // A substitution may span several lines.
                if self.at <= end {
                    self.at = (end + 1).min(self.text.len());
                }
            }
            let body = self.text.get(begin..last).unwrap_or_default();
            let text = String::from_utf8_lossy(body).into_owned();
            let word = match document.expands && body.iter().any(|b| matches!(b, b'$' | b'`' | b'\\')) {
                true => Word::unknown(text),
                false => Word::plain(text),
            };
            self.bodies.push((document.number, word));
        }
        Ok(())
    }
}
