//! The life of one agent, from its start to `exit.json`.
//!
//! One thread sleeps in poll(2) until the agent prints something, exits, or a limit is near. [`super`] lists what must
//! hold. That thread also calls `pulse` and `ask`: nothing else happens meanwhile, so they must return quickly.

use std::io::{self, Read};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jit_git::run::is_users_own;
use jit_os::children::{self, Below};
use jit_os::process::{self, ProcessRef};
use jit_os::watch::Watch;
use jit_os::{clock, memory};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use super::attempt;
use super::attempt_files::{AttemptFiles, AttemptLock, Processes};
use super::command_secrets;
use super::conversation::{AttemptTotals, Conversation};
use super::event_log::EventLog;
use super::limits::{self, Limits};
use super::lines::Lines;
use super::output_log::{LAST, OutputLog};
use super::process_tree::{self, ProcessTree};
use super::stdin::StdinWriter;
use crate::agent::{Agent, Stdin};
use crate::ask::Ask;
use crate::job::{AttemptEnd, Exit, Job};
use crate::redact::Redactor;

/// How often lease and session are renewed.
const PULSE: Duration = Duration::from_secs(15);
/// Minimum time between two reports of a rate limit.
const TELL_LIMIT: Duration = Duration::from_secs(2);
/// How long to wait for a lock that readers hold only briefly.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to read output after the agent has exited.
const DRAIN: Duration = Duration::from_millis(500);
/// How long background processes may run after the agent has exited by itself.
const BACKGROUND: Duration = Duration::from_secs(5);
/// How often the process tree is scanned; more often at the beginning.
const LOOK: Duration = Duration::from_secs(5);
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// Time between two attempts to kill a process.
const AGAIN: Duration = Duration::from_millis(50);
/// How long an agent may take to exit after a request in its own protocol.
const ASKED: Duration = Duration::from_secs(2);
/// When to report that a process cannot be killed.
const STUBBORN: Duration = Duration::from_secs(10);
/// Seconds to wait for space on a full disk.
const DISK: u32 = 30;
/// How often to check if the end of a process cannot be polled, and if new files cannot.
const NO_HANDLE: Duration = Duration::from_millis(100);
const NO_WATCH: Duration = Duration::from_secs(1);
/// An agent that prints often is read once per interval; meanwhile its output stays in the pipe. Each read costs the
/// same for any amount of output. The shim reads at once if the agent waits for answers, or if it printed much.
const GATHER: Duration = Duration::from_millis(250);
const MUCH: usize = 4 << 10;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// A report about the agent to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// The agent is running.
    Alive,
    /// The agent and all its processes have ended; `well` means by itself and with exit code 0. `exit.json` is not
    /// written yet, so no other attempt can have started.
    Ended { well: bool },
}

/// Starts the agent of this attempt, unless that was done before, and stays with it until it has ended.
///
/// Errors: [`io::ErrorKind::WouldBlock`] if another shim owns this attempt. Any other error: the agent was not started,
/// or `exit.json` cannot be written; then the attempt is lost, and another process will bury it.
pub fn run(
    folder: &Path,
    agent: &dyn Agent,
    ask: &mut dyn Ask,
    pulse: &mut dyn FnMut(Beat) -> io::Result<()>,
) -> io::Result<Exit> {
    let files = AttemptFiles::of(folder);
    let Some(_lock) = own(&files)? else {
        return taken(&files);
    };
    if let Some(exit) = files.exit()? {
        return Ok(exit);
    }
    let mut job = files.job()?;
    files.take_spare();
    let Some(mark) = files.begin()? else {
        return attempt::bury_locked(&files);
    };
    let vars = job.vars.iter().map(|(name, value)| (name.into(), value.into()));
    let redactor = Arc::new(Redactor::of(std::env::vars_os().chain(vars)));
    let mut events = EventLog::new(&files.path("events.jsonl"), Arc::clone(&redactor));
    if let Some(reason) = stop_asked(&files) {
        events.note(&reason);
        return ended_early(&files, AttemptEnd::Stopped, reason);
    }
    if let Err(reason) = command_secrets::restore_secrets(&mut job) {
        events.note(&reason);
        return ended_early(&files, AttemptEnd::NotStarted, reason);
    }
    let adopts = children::adopt_orphans()?;
    let me = ProcessRef::current()?;
    let started = Instant::now();
    let (mut child, stdin) = match start(&job, agent, &mark) {
        Ok(started) => started,
        Err(reason) => {
            events.note(&format!("it could not be started: {reason}"));
            let reason = redactor.clean(&reason).into_owned();
            return ended_early(&files, AttemptEnd::NotStarted, reason);
        }
    };
    let its = ProcessRef::of(child.id()).ok().flatten();
    let mut shim = Shim {
        limits: Limits::new(&job, started),
        watch: Watch::on_new_files(folder).ok(),
        files_came: true,
        read_at: None,
        deaf_until: None,
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
        lines: Lines::default(),
        out_log: OutputLog::new(&files.path("stdout.log"), 0).without_secrets(Arc::clone(&redactor)),
        err_log: OutputLog::new(&files.path("stderr.log"), LAST).without_secrets(redactor),
        tree: ProcessTree::new(child.id(), &mark, adopts),
        handle: its.and_then(process::handle),
        end: None,
        term_at: None,
        kill_at: None,
        look_at: started + FIRST_LOOK,
        look_step: FIRST_LOOK,
        pulse_at: started + PULSE,
        told_limit: None,
        pulse_error: None,
        buffer: vec![0; PIECE],
        pulse,
        conversation: Conversation::new(agent.listener(&job), ask, events, stdin),
        processes: processes(&mark, me, its),
        files,
        job,
        started,
    };
    shim.run()
}

/// The first content of `process.json`.
fn processes(mark: &str, shim: ProcessRef, agent: Option<ProcessRef>) -> Processes {
    Processes {
        boot: clock::boot_id().unwrap_or_default(),
        mark: mark.to_owned(),
        started_at: clock::wall_ms(),
        shim,
        agent,
        family: agent.into_iter().collect(),
    }
}

/// Records that this attempt can never be started, as its end, unless it has ended already.
pub fn refuse(folder: &Path, reason: &str) -> io::Result<Exit> {
    let files = AttemptFiles::of(folder);
    let Some(_lock) = own(&files)? else {
        return taken(&files);
    };
    if let Some(exit) = files.exit()? {
        return Ok(exit);
    }
    match files.begin()? {
        Some(_) => ended_early(&files, AttemptEnd::NotStarted, reason.to_owned()),
        None => attempt::bury_locked(&files),
    }
}

/// Acquires the lock until the process ends. `None` if another process holds it.
fn own(files: &AttemptFiles) -> io::Result<Option<AttemptLock>> {
    files.lock(PATIENCE, || files.has("started"))
}

/// Another process holds the lock: another shim, or a process that cleans up an attempt that has ended.
fn taken(files: &AttemptFiles) -> io::Result<Exit> {
    files
        .exit()?
        .ok_or_else(|| io::Error::new(io::ErrorKind::WouldBlock, "this attempt has another shim"))
}

fn stop_asked(files: &AttemptFiles) -> Option<String> {
    match files.stop() {
        Ok(Some(stop)) => Some(format!("stopped by {}: {}", stop.by, stop.reason)),
        Ok(None) => None,
        // A damaged file still means that a stop was requested.
        Err(_) => Some("stopped".to_owned()),
    }
}

fn ended_early(files: &AttemptFiles, end: AttemptEnd, reason: String) -> io::Result<Exit> {
    let exit = Exit {
        end,
        exit_code: None,
        signal: None,
        verdict: None,
        session_id: None,
        meter: None,
        tokens: Default::default(),
        cost_usd: None,
        turns: 0,
        duration_ms: 0,
        stderr_tail: reason,
        ended_orphans: 0,
    };
    files.free_spare();
    files.put("exit.json", &exit)?;
    Ok(exit)
}

/// Starts the agent. An error is a text, because it is the end of the attempt and not a failure of the shim.
fn start(job: &Job, agent: &dyn Agent, mark: &str) -> Result<(Child, StdinWriter), String> {
    let launch = agent.launch(job)?;
    let (input, first, hang_up) = match launch.stdin {
        Stdin::Null => (Stdio::null(), Vec::new(), true),
        Stdin::Bytes(bytes) => (Stdio::piped(), bytes, true),
        Stdin::Open(bytes) => (Stdio::piped(), bytes, false),
    };
    if !job.dir.is_dir() {
        return Err(format!("{} is not a folder", job.dir.display()));
    }
    let mut command = Command::new(&launch.program);
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_bytes();
        let ours = bytes.starts_with(b"JIT_") && !bytes.starts_with(b"JIT_CONFIG_");
        let about_git = bytes.starts_with(b"GIT_") && !is_users_own(&name);
        if ours || about_git {
            command.env_remove(name);
        }
    }
    let (mark_name, mark_value) = mark.split_once('=').unwrap_or((mark, ""));
    command
        .args(&launch.args)
        .current_dir(&job.dir)
        .envs(job.vars.iter().map(|(name, value)| (name, value)))
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .env("JIT_UNIT", job.unit.as_str())
        .env("JIT_ATTEMPT", format!("{}/{}", job.unit, job.attempt))
        .env(mark_name, mark_value)
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    children::own_session(&mut command);
    let named = |e: io::Error| format!("{}: {e}", launch.program.to_string_lossy());
    let mut child = command.spawn().map_err(named)?;
    let pipe = child.stdin.take();
    let no_wait = |fd: Option<BorrowedFd<'_>>| match fd {
        Some(fd) => rustix::io::ioctl_fionbio(fd, true).map_err(io::Error::from),
        None => Ok(()),
    };
    let feed = no_wait(child.stdout.as_ref().map(|fd| fd.as_fd()))
        .and_then(|()| no_wait(child.stderr.as_ref().map(|fd| fd.as_fd())))
        .and_then(|()| StdinWriter::new(pipe, first, hang_up));
    match feed {
        Ok(feed) => Ok((child, feed)),
        Err(e) => {
            // The child was not waited for, so its pid is not reused.
            let _ = child.kill();
            let _ = child.wait();
            Err(named(e))
        }
    }
}

struct Shim<'a> {
    files: AttemptFiles,
    job: Job,
    started: Instant,
    conversation: Conversation<'a>,
    pulse: &'a mut dyn FnMut(Beat) -> io::Result<()>,
    pulse_at: Instant,
    /// The last report of a rate limit.
    told_limit: Option<Instant>,
    /// Reported once, until the error changes.
    pulse_error: Option<String>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    lines: Lines,
    out_log: OutputLog,
    err_log: OutputLog,
    buffer: Vec<u8>,
    tree: ProcessTree,
    processes: Processes,
    /// Readable when the agent has exited.
    handle: Option<OwnedFd>,
    watch: Option<Watch>,
    /// New files may exist in the folder.
    files_came: bool,
    /// The time of the last read, and the time before which there is no other.
    read_at: Option<Instant>,
    deaf_until: Option<Instant>,
    limits: Limits,
    look_at: Instant,
    look_step: Duration,
    /// The cause of the end, and when it is enforced: first with SIGTERM, then with SIGKILL.
    end: Option<AttemptEnd>,
    term_at: Option<Instant>,
    kill_at: Option<Instant>,
}

impl Shim<'_> {
    /// Watches the agent until it has exited, ends its remaining processes and writes `exit.json`.
    fn run(&mut self) -> io::Result<Exit> {
        self.write_processes();
        memory::let_go_of_code();
        while self.tree.status.is_none() {
            let now = Instant::now();
            let mut until = self.pulse_at.min(self.look_at);
            until = match self.term_at.or(self.kill_at) {
                Some(at) => until.min(at),
                None => until.min(self.limits.next()),
            };
            if self.handle.is_none() {
                until = until.min(now + NO_HANDLE);
            }
            if self.watch.as_ref().and_then(Watch::handle).is_none() {
                self.files_came = true;
                until = until.min(now + NO_WATCH);
            }
            let woken = self.listen(until);
            if woken || self.handle.is_none() {
                self.tree.reap();
            }
            self.do_due_work();
        }
        let ended_orphans = self.settle();
        self.write_exit(ended_orphans)
    }

    /// Does everything that is due.
    fn do_due_work(&mut self) {
        let now = Instant::now();
        self.beat(now);
        if now >= self.look_at {
            self.look_step = (self.look_step * 3).min(LOOK);
            self.look_at = now + self.look_step;
            self.tree.reap();
            self.scan();
        }
        if let Some(at) = self.kill_at {
            if self.term_at.is_some_and(|at| now >= at) {
                self.term_at = None;
                self.signal(Signal::TERM);
            }
            if now >= at {
                self.signal(Signal::KILL);
                self.kill_at = Some(now + AGAIN);
            }
            return;
        }
        let sum = &self.conversation.sum;
        if std::mem::take(&mut self.files_came) && self.files.has("stop") {
            let reason = stop_asked(&self.files).unwrap_or_else(|| "stopped".to_owned());
            self.stop(AttemptEnd::Stopped, &reason);
        } else if let Some(end) = self.limits.due(now) {
            let said = match end {
                AttemptEnd::Lingered => "it did not end after its result",
                _ => "its time is up",
            };
            self.stop(end, said);
        } else if let Some(end) =
            limits::over(&self.job, sum.tokens, sum.cost_usd, sum.turns).filter(|_| sum.verdict.is_none())
        {
            let said = match end {
                AttemptEnd::OverTurns => "it took more turns than it has",
                _ => "it used more than its budget",
            };
            self.stop(end, said);
        } else if self.limits.wants_look(now) {
            self.tree.reap();
            let members = self.scan();
            let used = members.iter().map(|one| one.used).sum::<u64>() + children::used_by_reaped();
            if self.limits.look(now, used) {
                self.stop(AttemptEnd::Hung, "it is silent and idle");
            }
        }
    }

    /// Ends the agent and all its processes.
    fn stop(&mut self, end: AttemptEnd, why: &str) {
        self.conversation.events.note(why);
        self.end = Some(end);
        let grace = limits::secs(self.job.grace_secs);
        if self.conversation.ask_to_stop() {
            self.term_at = Some(Instant::now() + ASKED.min(grace / 2));
        } else {
            self.signal(Signal::TERM);
        }
        self.kill_at = Some(Instant::now() + grace);
    }

    fn signal(&mut self, signal: Signal) {
        let members = self.scan();
        process_tree::signal_all(&members, signal);
    }

    /// Scans the process tree, and updates `process.json` if it changed.
    fn scan(&mut self) -> Vec<Below> {
        // After an error the next scan follows soon.
        let members = self.tree.scan().unwrap_or_default();
        let seen = self.tree.seen();
        if seen != self.processes.family {
            self.processes.family = seen;
            self.write_processes();
        }
        members
    }

    fn write_processes(&self) {
        // Optional: the mark identifies the processes too.
        let _ = self.files.put_quick("process.json", &self.processes);
    }

    fn beat(&mut self, now: Instant) {
        if now < self.pulse_at {
            return;
        }
        let error = (self.pulse)(Beat::Alive).err().map(|e| e.to_string());
        memory::let_go_of_code();
        self.pulse_at = Instant::now() + PULSE;
        if let Some(error) = &error
            && self.pulse_error.as_ref() != Some(error)
        {
            self.conversation.events.note(&format!("not renewed: {error}"));
        }
        self.pulse_error = error;
    }

    /// Sleeps until there is output, room for input, an exit, a new file, or `until` has passed. Reads the output.
    /// Returns whether the agent's exit woke it.
    fn listen(&mut self, until: Instant) -> bool {
        let now = Instant::now();
        self.deaf_until = self
            .deaf_until
            .filter(|end| now < *end && !self.conversation.stdin.is_open());
        let until = self.deaf_until.map_or(until, |end| until.min(end));
        let hears = self.deaf_until.is_none();
        let stdout = self.stdout.as_ref().filter(|_| hears);
        let stderr = self.stderr.as_ref().filter(|_| hears);
        let pipes = [
            (stdout.map(|fd| fd.as_fd()), PollFlags::IN),
            (stderr.map(|fd| fd.as_fd()), PollFlags::IN),
            (self.conversation.stdin.wants(), PollFlags::OUT),
            (self.handle.as_ref().map(|fd| fd.as_fd()), PollFlags::IN),
            (self.watch.as_ref().and_then(Watch::handle), PollFlags::IN),
        ];
        let mut which = Vec::with_capacity(pipes.len());
        let mut fds = Vec::with_capacity(pipes.len());
        for (n, (fd, flags)) in pipes.into_iter().enumerate() {
            if let Some(fd) = fd {
                which.push(n);
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        let longest = until.saturating_duration_since(now);
        let time = rustix::time::Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        // Interrupted or out of memory: check everything.
        if poll(&mut fds, Some(&time)).is_err() {
            return true;
        }
        let mut ready = [false; 5];
        for (n, fd) in which.into_iter().zip(&fds) {
            if let Some(ready) = ready.get_mut(n) {
                *ready = !fd.revents().is_empty();
            }
        }
        drop(fds);
        let [stdout, stderr, feed, handle, watch] = ready;
        if stdout || stderr {
            let out = if stdout { self.take_stdout() } else { 0 };
            let err = if stderr { self.take_stderr() } else { 0 };
            self.gather(out.max(err));
        }
        if feed {
            self.conversation.stdin.push();
        }
        if watch && let Some(watch) = &self.watch {
            watch.clear();
            self.files_came = true;
        }
        handle
    }

    /// Decides after reading `count` bytes whether to delay the next read.
    fn gather(&mut self, count: usize) {
        let now = Instant::now();
        let often = self.read_at.is_some_and(|at| now < at + 2 * GATHER);
        self.deaf_until = (often && count < MUCH).then(|| now + GATHER);
        self.read_at = Some(now);
    }

    /// Returns the number of bytes read.
    fn take_stdout(&mut self) -> usize {
        let Some(count) = piece(&mut self.stdout, &mut self.buffer) else {
            return 0;
        };
        let bytes = self.buffer.get(..count).unwrap_or_default();
        self.out_log.take(bytes);
        let conversation = &mut self.conversation;
        self.lines.take(bytes, &mut |line| conversation.line(line));
        self.conversation.events.flush();
        self.heard();
        count
    }

    fn take_stderr(&mut self) -> usize {
        let Some(count) = piece(&mut self.stderr, &mut self.buffer) else {
            return 0;
        };
        self.err_log.take(self.buffer.get(..count).unwrap_or_default());
        self.heard();
        count
    }

    fn heard(&mut self) {
        let now = Instant::now();
        self.limits.word(now);
        if std::mem::take(&mut self.conversation.results) > 0 {
            self.limits.result(now);
        }
        if std::mem::take(&mut self.conversation.limited)
            && self.told_limit.is_none_or(|at| now >= at + TELL_LIMIT)
        {
            // Report the rate limit at once.
            self.pulse_at = now;
            self.told_limit = Some(now);
        }
    }

    /// The agent has exited: reads the rest of its output and ends its remaining processes. Returns their number.
    fn settle(&mut self) -> u32 {
        self.handle = None;
        self.conversation.stdin.close();
        let until = Instant::now() + DRAIN;
        while (self.stdout.is_some() || self.stderr.is_some()) && Instant::now() < until {
            // Perhaps only its children hold the pipes open.
            self.deaf_until = None;
            self.listen(until);
        }
        let ended = self.end_family();
        // Read the rest in the pipes. Bounded, because a process that cannot be ended may write forever.
        for _ in 0..32 {
            let (out, err) = (self.take_stdout(), self.take_stderr());
            if out + err == 0 {
                break;
            }
        }
        (self.stdout, self.stderr) = (None, None);
        let conversation = &mut self.conversation;
        self.lines.end(&mut |line| conversation.line(line));
        self.conversation.end();
        ended
    }

    fn end_family(&mut self) -> u32 {
        let mut told: Vec<ProcessRef> = Vec::new();
        let since = Instant::now();
        let mut nap = Duration::from_millis(1);
        let kill_at = self
            .kill_at
            .unwrap_or_else(|| since + limits::secs(self.job.grace_secs).min(BACKGROUND));
        let mut complained = false;
        loop {
            let may_be_more = self.tree.reap();
            let mut members = match may_be_more {
                true => self.tree.scan().unwrap_or_default(),
                false => Vec::new(),
            };
            if members.is_empty() {
                members = self.tree.elsewhere().unwrap_or_default();
                if members.is_empty() && !self.tree.reap() {
                    break;
                }
                if members.is_empty() && !self.tree.adopts() {
                    break;
                }
            }
            let now = Instant::now();
            let news: Vec<Below> = members
                .iter()
                .filter(|one| !told.contains(&one.process))
                .copied()
                .collect();
            if now >= kill_at {
                process_tree::signal_all(&members, Signal::KILL);
            } else {
                process_tree::signal_all(&news, Signal::TERM);
            }
            told.extend(news.iter().map(|one| one.process));
            if now >= since + STUBBORN && now >= kill_at + STUBBORN && !complained {
                complained = true;
                let pids: Vec<String> = members.iter().map(|one| one.process.pid.to_string()).collect();
                let text = format!("these processes cannot be ended: {}", pids.join(" "));
                self.conversation.events.note(&text);
            }
            self.beat(now);
            self.listen(now + nap);
            nap = match complained {
                true => NO_WATCH,
                false => (nap * 2).min(AGAIN),
            };
        }
        match told.len() {
            0 => {}
            1 => self.conversation.events.note("1 process was left and was ended"),
            many => self
                .conversation
                .events
                .note(&format!("{many} processes were left and were ended")),
        }
        u32::try_from(told.len()).unwrap_or(u32::MAX)
    }

    fn write_exit(&mut self, ended_orphans: u32) -> io::Result<Exit> {
        self.out_log.end();
        self.err_log.end();
        let lost = self.out_log.lost + self.err_log.lost;
        let mut stderr_tail = self.err_log.last();
        if lost > 0 || self.conversation.events.lost > 0 {
            let text = format!(
                "[jit: the disk did not take {lost} bytes of output and {} events]",
                self.conversation.events.lost
            );
            self.conversation.events.note(&text);
            stderr_tail = format!("{stderr_tail}\n{text}");
        }
        let status = self.tree.status;
        if self.end.is_none() {
            self.conversation
                .exited(status.and_then(|status| status.code), &stderr_tail);
        }
        let AttemptTotals {
            tokens,
            cost_usd,
            turns,
            verdict,
            session_id,
            meter,
        } = self.conversation.sum.clone();
        let exit = Exit {
            end: self.end.unwrap_or(AttemptEnd::Exited),
            exit_code: status.and_then(|status| status.code),
            signal: status.and_then(|status| status.signal),
            verdict,
            session_id,
            meter,
            tokens,
            cost_usd,
            turns,
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            stderr_tail,
            ended_orphans,
        };
        let well = exit.end == AttemptEnd::Exited && exit.exit_code == Some(0);
        // If this fails, lease and session are released when the end of the attempt is recorded in the log.
        let _ = (self.pulse)(Beat::Ended { well });
        self.put_exit(&exit)?;
        Ok(exit)
    }

    /// Writes `exit.json`. On a full disk it frees space, and waits for more.
    fn put_exit(&mut self, exit: &Exit) -> io::Result<()> {
        self.files.free_spare();
        let mut tries = 0;
        loop {
            match self.files.put("exit.json", exit) {
                Ok(()) => return Ok(()),
                Err(e) if tries >= DISK => return Err(e),
                Err(_) => {}
            }
            if tries == 0 {
                // The exit is more important than the output.
                self.out_log.give_room();
                self.err_log.give_room();
            } else {
                std::thread::sleep(Duration::from_secs(1));
            }
            tries += 1;
        }
    }
}

/// Reads the available bytes. `None`: no bytes now, or the pipe has ended and is dropped.
fn piece(pipe: &mut Option<impl Read>, buffer: &mut [u8]) -> Option<usize> {
    let read = loop {
        match pipe.as_mut()?.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    match read {
        Ok(count) if count > 0 => return Some(count),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
        _ => *pipe = None,
    }
    None
}
