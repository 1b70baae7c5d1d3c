//! Processes that this one started, and those that they started.
//!
//! What must hold:
//! - once [`adopt_orphans`] has said yes, whatever loses its parent below this process becomes its child: nothing that was
//!   started below it can get away, not by a session of its own, not by forking twice, not by an empty environment;
//! - [`reap`] saying [`Reaped::Nobody`] then means that nothing of it is left.
//!
//! Limitations: only Linux has orphans adopted and shows the environment of others. Elsewhere the process table is
//! searched by parents, and what lost its parent is known only if it was seen before (not run here).

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{WaitOptions, wait};

use super::process::{self, ProcessRef};

/// A process below another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Below {
    pub process: ProcessRef,
    /// Time of the processor that it and those it waited for have used, in hundredths of a second.
    pub used: u64,
}

/// What became of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    Ended {
        pid: u32,
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// There are children, and they run.
    Running,
    /// There is no child.
    Nobody,
}

/// From now on orphans below this process become its children. Says whether this system can do that. Whoever started
/// us may have told the kernel to forget children that end: that is taken back.
#[expect(unsafe_code, reason = "signal dispositions have no safe interface")]
pub fn adopt_orphans() -> io::Result<bool> {
    // SAFETY: two numbers.
    if unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    #[cfg(target_os = "linux")]
    {
        // Any number but zero means yes.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        Ok(true)
    }
    #[cfg(not(target_os = "linux"))]
    Ok(false)
}

/// Waits for one child that has ended, if one has. Only for a process that waits for its children nowhere else.
pub fn reap() -> Reaped {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                return Reaped::Ended {
                    pid: pid.as_raw_nonzero().get().unsigned_abs(),
                    code: status.exit_status(),
                    signal: status.terminating_signal(),
                };
            }
            Ok(None) => return Reaped::Running,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Reaped::Nobody,
        }
    }
}

/// Everything that runs below a process, zombies left out. What comes or goes meanwhile may be missing.
pub fn below(root: u32) -> io::Result<Vec<Below>> {
    #[cfg(target_os = "linux")]
    if let Some(found) = by_children(root) {
        return Ok(found);
    }
    let all = process::list()?;
    let mut found = vec![];
    with_children(&all, |one| one.parent == root, |one| found.push(one));
    Ok(found
        .into_iter()
        .map(|one: process::Listed| Below {
            process: one.process,
            used: one.used,
        })
        .collect())
}

/// Gives each process of the table that is `wanted`, and whatever is below one of them.
pub fn with_children(
    all: &[process::Listed],
    wanted: impl Fn(&process::Listed) -> bool,
    mut each: impl FnMut(process::Listed),
) {
    let mut rest: Vec<process::Listed> = all.to_vec();
    let mut numbers = std::collections::BTreeSet::new();
    let mut first = true;
    loop {
        let before = numbers.len();
        rest.retain(|one| {
            let belongs = numbers.contains(&one.parent) || (first && wanted(one));
            if belongs && numbers.insert(one.process.pid) {
                each(*one);
            }
            !belongs
        });
        first = false;
        if numbers.len() == before {
            return;
        }
    }
}

/// The kernel's own lists of children: as much work as there are processes below, however many others there are. `None`
/// for a kernel that has no such lists.
#[cfg(target_os = "linux")]
fn by_children(root: u32) -> Option<Vec<Below>> {
    let mut found: Vec<Below> = Vec::new();
    let mut open = children(root)?;
    while let Some(pid) = open.pop() {
        // A number that was met before belongs to somebody new, or the lists changed while they were read.
        if pid == root || found.iter().any(|one| one.process.pid == pid) {
            continue;
        }
        let Ok(Some(stat)) = process::stat(pid) else {
            continue;
        };
        if process::is_dead(stat) {
            continue;
        }
        found.push(Below {
            process: ProcessRef {
                pid,
                start: stat.start,
            },
            used: stat.used,
        });
        open.extend(children(pid).unwrap_or_default());
    }
    Some(found)
}

#[cfg(target_os = "linux")]
fn children(pid: u32) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    let mut known = false;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        if let Ok(text) = std::fs::read_to_string(task.path().join("children")) {
            known = true;
            all.extend(
                text.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
    }
    known.then_some(all)
}

/// Time of the processor that this process's children, as far as they were waited for, have used.
#[cfg(unix)]
#[expect(unsafe_code, reason = "there is no safe interface")]
pub fn used_by_reaped() -> u64 {
    // SAFETY: plain data for which all zeroes is a value, and which outlives the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) != 0 {
            return 0;
        }
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .iter()
        .map(|time| {
            let secs = u64::try_from(time.tv_sec).unwrap_or(0);
            let micros = u64::try_from(time.tv_usec).unwrap_or(0);
            secs.saturating_mul(100).saturating_add(micros / 10_000)
        })
        .sum()
}

/// Whether a process carries a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    Yes,
    No,
    /// It is on its way from one program to the next, and has no environment at this moment.
    Unsure,
}

/// Whether `NAME=value` was in the environment that a process was started with. Whose environment we may not read, we
/// may not signal either.
#[cfg(target_os = "linux")]
pub fn marked(pid: u32, mark: &[u8]) -> Marked {
    let Ok(environment) = std::fs::read(format!("/proc/{pid}/environ")) else {
        return Marked::No;
    };
    if environment.split(|b| *b == 0).any(|entry| entry == mark) {
        return Marked::Yes;
    }
    // A program with an empty environment has arguments; one that is just being loaded has neither yet.
    let bare = environment.is_empty()
        && std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.is_empty());
    match bare {
        true => Marked::Unsure,
        false => Marked::No,
    }
}

/// Not run here: `ps -E` shows the environment of one's own processes on Darwin.
#[cfg(not(target_os = "linux"))]
pub fn marked(pid: u32, mark: &[u8]) -> Marked {
    let Ok(output) = Command::new("/bin/ps")
        .args(["-wwEo", "command=", "-p", &pid.to_string()])
        .output()
    else {
        return Marked::No;
    };
    let mut words = output.stdout.split(|b| b.is_ascii_whitespace());
    match words.any(|word| word == mark) {
        true => Marked::Yes,
        false => Marked::No,
    }
}

/// The command will have a session and a process group of its own, and no descriptor besides the first three.
#[expect(unsafe_code, reason = "there is no other way to act between fork and exec")]
pub fn own_session(command: &mut Command) {
    // SAFETY: only calls that are allowed between fork and exec, and nothing is allocated.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            close_on_exec();
            Ok(())
        });
    }
}

/// The command will belong to nobody: a session of its own, and no child of this process. What [`Command::spawn`] gives
/// has ended already, and is to be waited for.
#[expect(unsafe_code, reason = "there is no other way to act between fork and exec")]
pub fn detached(command: &mut Command) {
    // SAFETY: as above; the first child ends without running anything that was registered to run at the end.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            close_on_exec();
            match libc::fork() {
                0 => Ok(()),
                -1 => Err(io::Error::last_os_error()),
                _ => libc::_exit(0),
            }
        });
    }
}

/// Descriptors that somebody let slip are closed too. The one by which a failed exec is told is such a one anyway.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe interface")]
fn close_on_exec() {
    // SAFETY: three numbers. Old kernels do not know the call; then the descriptors stay as they were opened.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
}

#[cfg(not(target_os = "linux"))]
fn close_on_exec() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::zombie_processes, reason = "every child is waited for, by reap")]
    fn g8_an_orphan_in_a_session_of_its_own_is_found_and_reaped() {
        assert!(adopt_orphans().expect("linux can"));
        let mut command = Command::new("sh");
        command
            .args(["-c", "(env -i setsid sleep 1000 >/dev/null 2>&1 &) ; exit 3"])
            .stdout(std::process::Stdio::null());
        own_session(&mut command);
        let child = command.spawn().expect("sh");
        let mut code = None;
        while code.is_none() {
            if let Reaped::Ended { pid, code: its, .. } = reap()
                && pid == child.id()
            {
                code = its;
            }
        }
        assert_eq!(code, Some(3));
        let left = loop {
            let left = below(std::process::id()).expect("list");
            if !left.is_empty() {
                break left;
            }
            assert_ne!(reap(), Reaped::Nobody, "the orphan got away");
        };
        for one in left {
            process::signal(one.process, rustix::process::Signal::KILL).expect("ours");
        }
        while reap() != Reaped::Nobody {}
        assert_eq!(below(std::process::id()).expect("list"), []);
    }
}
