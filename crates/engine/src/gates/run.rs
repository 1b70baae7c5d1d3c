//! Runs one command to its end, together with every process it started.
//!
//! Invariants:
//! - The command gets `sh -c`, its own process group, no input, and one pipe for both outputs, so that their order is
//!   kept. It gets none of the variables by which a running git tells its children where they are.
//! - It ends. At the timeout the family (see [`super::family`]) gets a signal to end, and is killed after the grace
//!   period.
//! - When this returns, no process of the family runs, as far as that can be known ([`Ran::survivors`] otherwise).
//!   Background processes of the command are ended too, and a pipe that a process keeps open is not waited for.
//! - If this process dies, by Ctrl-C or otherwise, a guard in the command's group ends the group. The guard reads
//!   from a pipe that only this process holds, and signals its own group, so it can hit no other process. (Asking the
//!   kernel for a signal at the parent's death would need unsafe code between fork and exec.)
//!
//! Limitations: the guard does not reach processes that left the group. The group is not in the terminal's
//! foreground. So a program that insists on asking there is stopped, and ended at the timeout.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jit_os::process::{self, ProcessRef};
use jit_os::random;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use super::family::Family;
use super::output::Output;
use super::results::MAX_OUTPUT;
use crate::api::gates::Ran;

/// The time a family has to end after the first signal.
pub const GRACE: Duration = Duration::from_secs(5);
/// The most bytes of output that go into the file.
pub const MAX_OUTPUT_FILE: u64 = 64 << 20;
/// The longest wait: a deadline must be a time that the clock can represent.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// The time that background output may still arrive after the command has ended.
const DRAIN: Duration = Duration::from_millis(500);
/// The time that killed processes may take to disappear.
const KILLED: Duration = Duration::from_secs(5);
/// The polling interval if the end of a process cannot be waited for.
const LOOK: Duration = Duration::from_millis(100);

/// Waits for this process to die, then ends its own group. It ignores the signals that it sends to its own group.
const GUARD: &str = "trap '' TERM INT HUP QUIT; read -r _; kill -TERM 0; sleep 2; kill -KILL 0";

/// A command to run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    pub command: &'a str,
    pub dir: &'a Path,
    pub timeout: Duration,
    pub grace: Duration,
    /// Further variables, such as those of [`gate_vars`].
    pub vars: &'a [(OsString, OsString)],
}

/// Returns the variables that a gate's command gets.
pub fn gate_vars(issue: &str, gate: &str) -> Vec<(OsString, OsString)> {
    vec![
        ("JIT_ISSUE".into(), issue.into()),
        ("JIT_GATE".into(), gate.into()),
    ]
}

/// Runs the command and writes its output to `output`. Every outcome of the command is an answer, not an error.
pub fn run(run: &Run<'_>, output: &mut dyn Write) -> Ran {
    let started = Instant::now();
    let mut output = Output::new(output, MAX_OUTPUT_FILE, MAX_OUTPUT);
    let mut ran = match Running::start(run) {
        Ok(mut running) => running.finish(run, started, &mut output),
        Err(error) => Ran {
            spawn_error: Some(error.to_string()),
            ..Ran::default()
        },
    };
    ran.duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    ran.output_error = output.finish();
    ran.file_cut = output.is_cut() || ran.output_error.is_some();
    (ran.tail, ran.truncated) = output.tail();
    ran
}

struct Running {
    child: Child,
    /// Readable when the child has ended; empty on systems without such handles.
    handle: Vec<OwnedFd>,
    /// `None` after its end was reached.
    pipe: Option<PipeReader>,
    family: Family,
    guard: Guard,
}

impl Running {
    fn start(run: &Run<'_>) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let inode = rustix::fs::fstat(&reader)?.st_ino;
        let mark = format!("JIT_RUN_{:016x}", random::u64()?);
        let guard = Guard::start()?;
        let child = command(run, &mark, &guard, writer)?.spawn()?;
        let handle = ProcessRef::of(child.id())
            .ok()
            .flatten()
            .and_then(process::handle);
        Ok(Self {
            handle: handle.into_iter().collect(),
            pipe: Some(reader),
            family: Family {
                command: Some(child.id()),
                guard: guard.child.id(),
                mark: format!("{mark}=1"),
                pipe: inode,
                seen: Vec::new(),
            },
            child,
            guard,
        })
    }

    fn finish(&mut self, run: &Run<'_>, started: Instant, output: &mut Output<'_>) -> Ran {
        let deadline = started + run.timeout.min(LONGEST);
        let timed_out = !self.wait(deadline, output);
        if !timed_out {
            self.drain(Instant::now() + DRAIN, output);
        }
        let mut survivors = self.end(Signal::TERM, Instant::now() + run.grace.min(LONGEST), output);
        if !survivors.is_empty() {
            survivors = self.end(Signal::KILL, Instant::now() + KILLED, output);
        }
        self.drain(Instant::now(), output);
        // The status is already known if the command ended: asking again gives the same answer.
        let status = self.child.try_wait().ok().flatten();
        self.guard.dismiss();
        Ran {
            exit_code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            timed_out,
            survivors: survivors.iter().map(|process| process.pid).collect(),
            ..Ran::default()
        }
    }

    /// Reads output until the command has ended. Returns false if it has not ended by the deadline.
    fn wait(&mut self, deadline: Instant, output: &mut Output<'_>) -> bool {
        let handle = std::mem::take(&mut self.handle);
        while !self.has_ended() {
            if Instant::now() >= deadline {
                return false;
            }
            self.listen(deadline, &handle, output);
        }
        true
    }

    fn has_ended(&mut self) -> bool {
        let ended = match self.child.try_wait() {
            Ok(status) => status.is_some(),
            // The child was waited for elsewhere: with SIGCHLD ignored the kernel does that.
            Err(_) => true,
        };
        if ended {
            // From now on the kernel may reuse its pid.
            self.family.command = None;
        }
        ended
    }

    /// Signals every member of the family and waits for their end, reading output meanwhile. Returns the members
    /// still running at the deadline.
    fn end(&mut self, signal: Signal, deadline: Instant, output: &mut Output<'_>) -> Vec<ProcessRef> {
        let mut told: Vec<ProcessRef> = Vec::new();
        loop {
            self.has_ended();
            let Ok(members) = self.family.look(self.pipe.is_some()) else {
                // The process table cannot be read: only the group is known, and its end cannot be observed.
                self.family.signal_group(Signal::KILL);
                return Vec::new();
            };
            if members.is_empty() {
                return members;
            }
            let mut news = members.iter().filter(|one| !told.contains(one)).peekable();
            if news.peek().is_some() {
                self.family.signal_group(signal);
            }
            for one in news {
                // A process that is already gone is fine; a missing permission shows in the remaining members.
                let _ = process::signal(*one, signal);
                // A stopped process could not react to the signal.
                let _ = process::signal(*one, Signal::CONT);
            }
            if Instant::now() >= deadline {
                return members;
            }
            let handles: Vec<OwnedFd> = members.iter().filter_map(|one| process::handle(*one)).collect();
            told = members;
            self.listen(deadline, &handles, output);
        }
    }

    /// Reads the available output until the deadline or its end.
    fn drain(&mut self, deadline: Instant, output: &mut Output<'_>) {
        // The rest of the pipe is read after the deadline too, but a process may write forever.
        let mut late = 0;
        while self.pipe.is_some() && late < 32 {
            let is_late = Instant::now() >= deadline;
            if !self.listen(deadline, &[], output) && is_late {
                return;
            }
            late += usize::from(is_late);
        }
    }

    /// Waits for output, the end of one of the processes, or the deadline, and reads the output. Returns whether
    /// output arrived.
    fn listen(&mut self, deadline: Instant, ends: &[OwnedFd], output: &mut Output<'_>) -> bool {
        let mut fds: Vec<PollFd<'_>> = ends.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let pipe = self
            .pipe
            .as_ref()
            .map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
        let has_pipe = pipe.is_some();
        fds.extend(pipe);
        let mut longest = deadline.saturating_duration_since(Instant::now());
        if ends.is_empty() && longest > LOOK {
            longest = LOOK;
        }
        let time = rustix::time::Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        // Interrupted, or out of memory: the caller tries again.
        let ready = poll(&mut fds, Some(&time)).is_ok();
        let came = ready && has_pipe && fds.last().is_some_and(|fd| !fd.revents().is_empty());
        if came {
            self.take(output);
        }
        came
    }

    fn take(&mut self, output: &mut Output<'_>) {
        let Some(pipe) = &mut self.pipe else { return };
        let mut bytes = [0; 64 << 10];
        match pipe.read(&mut bytes) {
            Ok(0) => self.pipe = None,
            Ok(count) => output.take(bytes.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.pipe = None,
        }
    }
}

fn command(run: &Run<'_>, mark: &str, guard: &Guard, writer: PipeWriter) -> io::Result<Command> {
    let mut command = Command::new("sh");
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    command
        .args(["-c", "--", run.command])
        .current_dir(run.dir)
        .envs(run.vars.iter().map(|(name, value)| (name, value)))
        .env(mark, "1")
        .process_group(i32::try_from(guard.child.id()).map_err(io::Error::other)?)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    Ok(command)
}

/// The first member of the group. It reserves the group's number until it has been waited for, and ends the group
/// when this process is gone.
struct Guard {
    child: Child,
}

impl Guard {
    fn start() -> io::Result<Self> {
        let child = Command::new("sh")
            .args(["-c", GUARD])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { child })
    }

    fn dismiss(&mut self) {
        // A child that has not been waited for keeps its own pid. It is killed before its pipe closes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.dismiss();
    }
}
