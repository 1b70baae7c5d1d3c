//! The processes that a command started.
//!
//! A process belongs to the family in any of these cases: it is the command itself, it is in its process group, it
//! has its mark in the environment, it holds the writing end of its output, it belonged to the family before, or its
//! parent belongs.
//!
//! Invariants:
//! - A process is signaled by pid and start time, never by pid alone. The group is signaled only while its first
//!   member, a child of ours, has not been waited for. Until then its number cannot mean another group.
//! - This process, and the processes it started itself, never belong to the family.
//!
//! Limitations: a process is not found if it left the group, cleared its environment, closed the output and lost its
//! parent before the first check. If orphans become our children (as process 1 of a container), holding the output is
//! no sign. Marks and pipes are visible on Linux only. A process of another user cannot be signaled.

use std::collections::BTreeSet;
use std::io;

use jit_os::process::{self, Listed, ProcessRef};
use rustix::process::{Signal, kill_process_group};

/// The signs by which members are recognized.
#[derive(Debug)]
pub(super) struct Family {
    /// The command itself, until it has been waited for.
    pub(super) command: Option<u32>,
    /// Its process group, named after the guard.
    pub(super) guard: u32,
    /// `NAME=value`, in the environment of the command.
    pub(super) mark: String,
    /// The inode of the pipe that receives the output.
    pub(super) pipe: u64,
    /// The members at the last check.
    pub(super) seen: Vec<ProcessRef>,
}

impl Family {
    /// Returns the running members. `pipe_is_open` is whether a process still holds the output.
    pub(super) fn look(&mut self, pipe_is_open: bool) -> io::Result<Vec<ProcessRef>> {
        let me = std::process::id();
        let mut all = process::list()?;
        all.retain(|one| one.process.pid != me && one.process.pid != self.guard);
        let mut members: Vec<ProcessRef> = Vec::new();
        let mut numbers: BTreeSet<u32> = BTreeSet::new();
        all.retain(|one| {
            let belongs = self.belongs(one, me, pipe_is_open);
            if belongs {
                members.push(one.process);
                numbers.insert(one.process.pid);
            }
            !belongs
        });
        loop {
            let before = members.len();
            all.retain(|one| {
                let belongs = numbers.contains(&one.parent);
                if belongs {
                    members.push(one.process);
                    numbers.insert(one.process.pid);
                }
                !belongs
            });
            if members.len() == before {
                break;
            }
        }
        self.seen.clone_from(&members);
        Ok(members)
    }

    fn belongs(&self, one: &Listed, me: u32, pipe_is_open: bool) -> bool {
        let pid = one.process.pid;
        Some(pid) == self.command
            || one.group == self.guard
            || self.seen.contains(&one.process)
            || has_mark(pid, self.mark.as_bytes())
            // A child of ours that is about to start another program may hold the pipe briefly.
            || (pipe_is_open && one.parent != me && has_pipe(pid, self.pipe))
    }

    /// Signals the whole group at once, so that no process escapes by forking.
    pub(super) fn signal_group(&self, signal: Signal) {
        if let Some(group) = process::raw(self.guard) {
            // An empty group is fine. Processes of another user are found again by the next check.
            let _ = kill_process_group(group, signal);
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_mark(pid: u32, mark: &[u8]) -> bool {
    // A process that we may not read is not ours to signal either.
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|b| *b == 0).any(|entry| entry == mark))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_pipe(pid: u32, inode: u64) -> bool {
    let name = format!("pipe:[{inode}]");
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == name.as_str()))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn has_mark(_pid: u32, _mark: &[u8]) -> bool {
    false
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn has_pipe(_pid: u32, _inode: u64) -> bool {
    false
}
