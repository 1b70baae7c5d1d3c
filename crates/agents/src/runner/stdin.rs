//! Writes to an agent's standard input without ever blocking.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::ChildStdin;

/// Bytes that may be pending. An agent that asks and does not read gets no further answers.
const MOST: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct StdinWriter {
    pipe: Option<ChildStdin>,
    waiting: VecDeque<u8>,
    hang_up: bool,
}

impl StdinWriter {
    pub fn new(pipe: Option<ChildStdin>, first: Vec<u8>, hang_up: bool) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self {
            pipe,
            waiting: first.into(),
            hang_up,
        })
    }

    /// Whether the agent can still get input.
    pub fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// The pipe to poll for room, if bytes are pending.
    pub fn wants(&self) -> Option<BorrowedFd<'_>> {
        self.pipe
            .as_ref()
            .filter(|_| !self.waiting.is_empty() || self.hang_up)
            .map(|pipe| pipe.as_fd())
    }

    /// Adds bytes. Returns false and drops them if too many are pending.
    pub fn offer(&mut self, bytes: &[u8]) -> bool {
        if self.pipe.is_none() || bytes.is_empty() {
            return true;
        }
        // A single answer is always accepted: it may be large.
        if !self.waiting.is_empty() && self.waiting.len() + bytes.len() > MOST {
            return false;
        }
        self.waiting.extend(bytes);
        true
    }

    pub fn hang_up(&mut self) {
        self.hang_up = true;
    }

    /// Writes as much as the pipe accepts now.
    pub fn push(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        while !self.waiting.is_empty() {
            let (bytes, _) = self.waiting.as_slices();
            match pipe.write(bytes) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // The agent has closed its end.
                Err(_) => return self.close(),
            }
        }
        self.waiting.shrink_to(4096);
        if self.hang_up {
            self.close();
        }
    }

    pub fn close(&mut self) {
        self.pipe = None;
        self.waiting = VecDeque::new();
    }
}
