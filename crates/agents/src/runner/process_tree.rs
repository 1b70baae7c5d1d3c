//! Everything an agent started, and how it is ended.
//!
//! What must hold: a process is signalled by number and start time; this process is never part of it.
//!
//! Where orphans are adopted (Linux) nothing gets away from a shim that lives. If the shim is dead, or elsewhere, a process
//! is known by having been seen, by its mark, or by a parent that is known.

use std::io;

use jit_os::children::{self, Below, Marked, Reaped};
use jit_os::process::{self, ProcessRef};
use rustix::process::Signal;

/// How an agent's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

#[derive(Debug)]
pub struct ProcessTree {
    /// The agent's number, which is its own until it was waited for.
    pub agent: u32,
    pub status: Option<ProcessExit>,
    mark: String,
    adopts: bool,
    seen: Vec<ProcessRef>,
}

impl ProcessTree {
    pub fn new(agent: u32, mark: &str, adopts: bool) -> Self {
        Self {
            agent,
            status: None,
            mark: mark.to_owned(),
            adopts,
            seen: Vec::new(),
        }
    }

    /// Waits for those that have ended. Says whether there may be others.
    pub fn reap(&mut self) -> bool {
        loop {
            match children::reap() {
                Reaped::Ended { pid, code, signal } => {
                    if pid == self.agent && self.status.is_none() {
                        self.status = Some(ProcessExit { code, signal });
                    }
                }
                Reaped::Running => return true,
                Reaped::Nobody => {
                    // Somebody else waited for it: how it ended is not known.
                    self.status.get_or_insert(ProcessExit {
                        code: None,
                        signal: None,
                    });
                    return !self.adopts;
                }
            }
        }
    }

    /// Those that run now.
    pub fn look(&mut self) -> io::Result<Vec<Below>> {
        let found = if self.adopts {
            children::below(std::process::id())?
        } else {
            let mut roots = self.seen.clone();
            roots.extend(ProcessRef::of(self.agent)?.filter(|_| self.status.is_none()));
            marked(&self.mark, &roots)?
        };
        self.seen = found.iter().map(|one| one.process).collect();
        Ok(found)
    }

    /// Whether nothing gets away, so that having no child means that nobody is left.
    pub fn adopts(&self) -> bool {
        self.adopts
    }

    /// Those that carry the mark and are not below this process: started by way of somebody else.
    pub fn elsewhere(&self) -> io::Result<Vec<Below>> {
        marked(&self.mark, &[])
    }

    /// As they were when last looked at.
    pub fn seen(&self) -> Vec<ProcessRef> {
        let mut seen = self.seen.clone();
        seen.sort_unstable();
        seen
    }
}

/// Everything in the process table that has the mark, is one of these, or is below one of those.
pub fn marked(mark: &str, these: &[ProcessRef]) -> io::Result<Vec<Below>> {
    search(mark, these).map(|(found, _)| found)
}

/// The same, and whether it was sure of all others. Even then one may have slipped through, by starting another and ending
/// while the table was read: who must know looks again.
pub fn search(mark: &str, these: &[ProcessRef]) -> io::Result<(Vec<Below>, bool)> {
    /// The parent of the kernel's own threads, which have no environment ever.
    const KERNEL: u32 = 2;
    let me = std::process::id();
    let all = process::list()?;
    let mut found = Vec::new();
    let sure = std::cell::Cell::new(true);
    let carries = |one: &process::Listed| {
        if mark.is_empty() || one.parent == KERNEL || one.process.pid == KERNEL {
            return false;
        }
        let marked = children::marked(one.process.pid, mark.as_bytes());
        sure.set(sure.get() && marked != Marked::Unsure);
        marked == Marked::Yes
    };
    children::with_children(
        &all,
        |one| one.process.pid != me && (these.contains(&one.process) || carries(one)),
        |one| {
            if one.process.pid != me {
                found.push(Below {
                    process: one.process,
                    used: one.used,
                });
            }
        },
    );
    Ok((found, sure.get()))
}

/// Signals each. Gone meanwhile is as good; not allowed shows in who is left.
pub fn signal_all(members: &[Below], signal: Signal) {
    for one in members {
        let _ = process::signal(one.process, signal);
        if signal != Signal::KILL {
            // One that was stopped could not act on it.
            let _ = process::signal(one.process, Signal::CONT);
        }
    }
}
