//! Splits output into lines of any length.
//!
//! What must hold: at most [`LONGEST`] bytes of a line are in memory, and the lines do not depend on how the output was
//! cut into pieces.

/// Maximum bytes of a line. Agents do not print longer ones on purpose: the rest is dropped.
pub const LONGEST: usize = 1 << 20;
/// Bytes that the buffer keeps between lines.
const USUAL: usize = 64 << 10;

/// One line, without its line end.
#[derive(Debug, PartialEq, Eq)]
pub enum OutputLine<'a> {
    Whole(&'a [u8]),
    /// Its first [`LONGEST`] bytes, and its full length.
    Cut(&'a [u8], u64),
}

#[derive(Debug, Default)]
pub struct Lines {
    begun: Vec<u8>,
    /// Bytes of the current line that were dropped.
    over: u64,
}

impl Lines {
    pub fn take(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(OutputLine<'_>)) {
        while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            let (line, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            if self.begun.is_empty() && self.over == 0 && line.len() <= LONGEST {
                each(OutputLine::Whole(trimmed(line)));
            } else {
                self.keep(line);
                self.say(each);
            }
        }
        self.keep(bytes);
    }

    /// The output has ended, and with it the current line.
    pub fn end(&mut self, each: &mut dyn FnMut(OutputLine<'_>)) {
        if !self.begun.is_empty() {
            self.say(each);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let fits = bytes.len().min(LONGEST - self.begun.len());
        self.begun
            .extend_from_slice(bytes.get(..fits).unwrap_or_default());
        self.over += (bytes.len() - fits) as u64;
    }

    fn say(&mut self, each: &mut dyn FnMut(OutputLine<'_>)) {
        match self.over {
            0 => each(OutputLine::Whole(trimmed(&self.begun))),
            over => each(OutputLine::Cut(&self.begun, self.begun.len() as u64 + over)),
        }
        self.over = 0;
        self.begun.clear();
        self.begun.shrink_to(USUAL);
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(all: &[u8], piece: usize) -> Vec<(usize, u64, Vec<u8>)> {
        let mut lines = Lines::default();
        let mut said = Vec::new();
        let mut each = |line: OutputLine<'_>| {
            said.push(match line {
                OutputLine::Whole(line) => (line.len(), 0, line.iter().copied().take(8).collect()),
                OutputLine::Cut(line, len) => (line.len(), len, line.iter().copied().take(8).collect()),
            });
        };
        for bytes in all.chunks(piece) {
            lines.take(bytes, &mut each);
        }
        lines.end(&mut each);
        assert!(lines.begun.capacity() <= USUAL);
        said
    }

    #[test]
    fn g8_lines_are_the_same_however_the_output_comes() {
        let mut all = b"one\r\n\ntw\0o\n".to_vec();
        all.extend(vec![b'x'; LONGEST]);
        all.push(b'\n');
        all.extend(vec![b'y'; LONGEST + 5]);
        all.extend(b"\nhalf");
        let expected = vec![
            (3, 0, b"one".to_vec()),
            (0, 0, vec![]),
            (4, 0, b"tw\0o".to_vec()),
            (LONGEST, 0, b"xxxxxxxx".to_vec()),
            (LONGEST, LONGEST as u64 + 5, b"yyyyyyyy".to_vec()),
            (4, 0, b"half".to_vec()),
        ];
        for piece in [1, 2, 7, 4096, 64 << 10, all.len()] {
            assert_eq!(said(&all, piece), expected, "pieces of {piece}");
        }
    }
}
