//! All processes that an agent started, and how they are ended.
//!
//! What must hold: a process is signaled by pid and start time; the shim itself is never signaled.
//!
//! On Linux orphans become children of the shim, so no process escapes a living shim. On other systems, or if the shim
//! is dead, a process belongs to the agent if an earlier scan saw it, if it carries the mark, or if its parent belongs
//! to it.

use std::io;

use jit_os::children::{self, Below, Marked, Reaped};
use jit_os::process::{self, ProcessRef};
use rustix::process::Signal;

/// The exit status of the agent's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

#[derive(Debug)]
pub struct ProcessTree {
    /// The agent's pid. It is not reused until the process has been waited for.
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

    /// Waits for all processes that have exited. Returns whether others may be running.
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
                    // Another part of the program waited for it: its exit status is unknown.
                    self.status.get_or_insert(ProcessExit {
                        code: None,
                        signal: None,
                    });
                    return !self.adopts;
                }
            }
        }
    }

    /// The processes that are running now.
    pub fn scan(&mut self) -> io::Result<Vec<Below>> {
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

    /// Whether orphans become our children, so that "no children" means "no processes left".
    pub fn adopts(&self) -> bool {
        self.adopts
    }

    /// Processes that carry the mark and are not our descendants: another process started them for the agent.
    pub fn elsewhere(&self) -> io::Result<Vec<Below>> {
        marked(&self.mark, &[])
    }

    /// The processes at the last scan, sorted.
    pub fn seen(&self) -> Vec<ProcessRef> {
        let mut seen = self.seen.clone();
        seen.sort_unstable();
        seen
    }
}

/// All processes that carry the mark or are in `these`, and their descendants.
pub fn marked(mark: &str, these: &[ProcessRef]) -> io::Result<Vec<Below>> {
    search(mark, these).map(|(found, _)| found)
}

/// The same, and whether the answer is certain. Even then the scan may miss a process that forks and exits while the
/// table is read: a caller that must be sure scans again.
pub fn search(mark: &str, these: &[ProcessRef]) -> io::Result<(Vec<Below>, bool)> {
    /// The parent of the kernel's threads, which have no environment.
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

/// Sends a signal to each process. A process that is gone is fine; one that may not be signaled shows up in the next
/// scan.
pub fn signal_all(members: &[Below], signal: Signal) {
    for one in members {
        let _ = process::signal(one.process, signal);
        if signal != Signal::KILL {
            // A stopped process could not handle the signal.
            let _ = process::signal(one.process, Signal::CONT);
        }
    }
}
