//! The processes that a command started.
//!
//! A process belongs to the family if it is the command itself, is in its process group, has its mark in the
//! environment, holds the writing end of its output, was seen to belong to it before, or has a parent that does.
//!
//! Invariants:
//! - a process is signalled by number and start time, never by number alone; the group is signalled only while its
//!   first member, a child of ours, has not been waited for, so that its number cannot mean another group;
//! - this process, and what it started itself, are never part of it.
//!
//! Limitations: what left the group, cleared its environment, closed the output and lost its parent before anybody
//! looked is not known. Where orphans become our children (as process 1 of a container), holding the output is no sign.
//! Marks and pipes can be seen on Linux only. What runs as another user cannot be signalled.

use std::collections::BTreeSet;
use std::io;

use jit_os::process::{self, Listed, ProcessRef};
use rustix::process::{Signal, kill_process_group};

/// How to know them.
#[derive(Debug)]
pub(super) struct Family {
    /// The command itself, as long as it has not been waited for.
    pub(super) command: Option<u32>,
    /// Its process group, named after the guard.
    pub(super) guard: u32,
    /// `NAME=value`, in the environment of the command.
    pub(super) mark: String,
    /// The inode of the pipe that takes the output.
    pub(super) pipe: u64,
    /// Those that belonged to it when last looked at.
    pub(super) seen: Vec<ProcessRef>,
}

impl Family {
    /// Those that run now. `pipe_is_open` says whether somebody still holds the output.
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
            // A child of ours on its way to another program may have the pipe for a moment.
            || (pipe_is_open && one.parent != me && has_pipe(pid, self.pipe))
    }

    /// Signals the whole group at once, so that nobody slips through by forking.
    pub(super) fn signal_group(&self, signal: Signal) {
        if let Some(group) = process::raw(self.guard) {
            // Nobody there is as good as done; those of another user are found again by looking.
            let _ = kill_process_group(group, signal);
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_mark(pid: u32, mark: &[u8]) -> bool {
    // Not ours to read: then it is not ours to signal either.
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
