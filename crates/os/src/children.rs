//! Child processes of this process, and their descendants.
//!
//! What must hold:
//! - After [`adopt_orphans`] returned true, every orphaned descendant becomes a child of this process. A descendant cannot
//!   escape by starting its own session, forking twice or clearing its environment.
//! - [`Reaped::Nobody`] from [`reap`] then means that no descendant is left.
//!
//! Limitations: only Linux adopts orphans and shows the environment of other processes. Elsewhere descendants are found
//! by parent in the process table; an orphan is known only if it was seen before (not run here).

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{WaitOptions, wait};

use super::process::{self, ProcessRef};

/// A descendant of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Below {
    pub process: ProcessRef,
    /// CPU time of the process and of the children it waited for, in hundredths of a second.
    pub used: u64,
}

/// The state of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaped {
    Ended {
        pid: u32,
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// All children are still running.
    Running,
    /// This process has no child.
    Nobody,
}

/// Makes orphaned descendants children of this process. Returns whether the system supports it. Also resets SIGCHLD: the
/// parent process may have ignored it, and then the kernel would forget children that exit.
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

/// Reaps one child that has exited, if there is one. Only for a process that waits for its children nowhere else.
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

/// Lists the descendants of a process, without zombies. Processes that start or exit meanwhile may be missing.
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

/// Calls `each` with every process that is `wanted` and with all descendants of those.
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

/// Uses the kernel's lists of children: the cost depends on the number of descendants only. `None` if the kernel has no
/// such lists.
#[cfg(target_os = "linux")]
fn by_children(root: u32) -> Option<Vec<Below>> {
    let mut found: Vec<Below> = Vec::new();
    let mut open = children(root)?;
    while let Some(pid) = open.pop() {
        // A pid that was seen before was reused, or the lists changed while they were read.
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

/// CPU time of the children that were reaped, in hundredths of a second.
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

/// Whether a process has a mark in its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    Yes,
    No,
    /// The process is in the middle of exec and has no environment at this moment.
    Unsure,
}

/// Whether the process was started with `NAME=value` in its environment. If this user may not read the environment, it
/// may not signal the process either.
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

/// Gives the command its own session and process group, and no descriptor besides the first three.
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

/// Detaches the command: it gets its own session and is no child of this process. The child that [`Command::spawn`]
/// returns has already exited and must be reaped.
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

/// Closes leaked descriptors on exec. The pipe that reports a failed exec is close-on-exec anyway.
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
