//! The output of a command: all of it for a file, up to a limit, and its end for the result. Secrets are removed: a
//! command has its caller's environment, and results are versioned.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use jit_agents::redact::{Redactor, StreamRedactor};

/// Receives output as it arrives.
pub(super) struct Output<'a> {
    all: &'a mut dyn Write,
    scrub: StreamRedactor,
    /// The number of bytes that may still be written.
    room: u64,
    most: u64,
    is_cut: bool,
    error: Option<io::Error>,
    tail: VecDeque<u8>,
    most_kept: usize,
    is_truncated: bool,
}

impl<'a> Output<'a> {
    /// Writes the first `most` bytes to `all`, and keeps the last `keep`.
    pub(super) fn new(all: &'a mut dyn Write, most: u64, keep: usize) -> Self {
        Self {
            all,
            scrub: StreamRedactor::new(Arc::clone(Redactor::of_process())),
            room: most,
            most,
            is_cut: false,
            error: None,
            tail: VecDeque::with_capacity(keep),
            most_kept: keep,
            is_truncated: false,
        }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        let mut clean = Vec::with_capacity(bytes.len());
        self.scrub.take(bytes, &mut |some| clean.extend_from_slice(some));
        self.keep(&clean);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let end = bytes.len().saturating_sub(self.most_kept);
        let kept = bytes.get(end..).unwrap_or_default();
        let over = (self.tail.len() + kept.len()).saturating_sub(self.most_kept);
        self.is_truncated |= over > 0 || end > 0;
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(kept);
        if self.is_cut || self.error.is_some() {
            return;
        }
        // A full disk is not the command's fault: it continues, and the result reports how much was kept.
        if let Err(error) = self.write(bytes) {
            self.error = Some(error);
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        self.all.write_all(bytes.get(..fits).unwrap_or_default())?;
        self.room -= u64::try_from(fits).unwrap_or(u64::MAX);
        if fits < bytes.len() {
            self.is_cut = true;
            write!(self.all, "\n[jit: cut here, after {} bytes]\n", self.most)?;
        }
        Ok(())
    }

    /// Returns the end of the output once it is finished, and whether that is less than all of it.
    pub(super) fn tail(&mut self) -> (Vec<u8>, bool) {
        (self.tail.make_contiguous().to_vec(), self.is_truncated)
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the reason why not everything was written, if it was not.
    pub(super) fn finish(&mut self) -> Option<String> {
        let mut rest = Vec::new();
        self.scrub.end(&mut |some| rest.extend_from_slice(some));
        self.keep(&rest);
        if self.error.is_none()
            && let Err(error) = self.all.flush()
        {
            self.error = Some(error);
        }
        self.error.as_ref().map(io::Error::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e6_the_end_is_kept_however_the_output_is_cut_into_pieces() {
        let all: Vec<u8> = (0..=255).collect();
        for piece in [1, 2, 3, 7, 10, 11, 100, 256] {
            let mut file = Vec::new();
            let mut output = Output::new(&mut file, 20, 10);
            all.chunks(piece).for_each(|bytes| output.take(bytes));
            assert_eq!(output.finish(), None);
            assert_eq!(output.tail(), (all[246..].to_vec(), true), "{piece}");
            assert!(output.is_cut());
            let note = b"\n[jit: cut here, after 20 bytes]\n";
            assert_eq!(file, [&all[..20], note].concat(), "{piece}");
        }
    }

    #[test]
    fn e6_what_fits_is_whole() {
        let mut file = Vec::new();
        let mut output = Output::new(&mut file, 10, 10);
        output.take(b"01234");
        output.take(b"56789");
        assert_eq!(output.finish(), None);
        assert_eq!(output.tail(), (b"0123456789".to_vec(), false));
        assert!(!output.is_cut());
        assert_eq!(file, b"0123456789");
    }

    #[test]
    fn e6_a_full_disk_stops_the_file_and_not_the_run() {
        let mut room = [0u8; 4];
        let mut all: &mut [u8] = &mut room;
        let mut output = Output::new(&mut all, 100, 100);
        output.take(b"012");
        output.take(b"3456");
        output.take(b"789");
        assert!(output.finish().is_some());
        assert_eq!(output.tail(), (b"0123456789".to_vec(), false));
        assert_eq!(&room, b"0123");
    }
}
