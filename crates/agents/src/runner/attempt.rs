//! An attempt, seen from outside of its shim: prepare, start, observe, stop, and clean up after a lost shim.
//!
//! What must hold:
//!
//! - all answers come from the files of the attempt;
//! - no process is signaled by its pid alone;
//! - if two processes bury the same attempt, one does the work and both get its exit.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jit_os::process::{self, ProcessRef};
use jit_os::{children, clock, file};
use rustix::process::{Signal, WaitOptions, waitpid};

use super::attempt_files::AttemptFiles;
use super::command_secrets;
pub use super::command_secrets::had_secrets;
use super::conversation::AttemptTotals;
use super::output_log::{LAST, text_of_end};
use super::{limits, process_tree};
use crate::event::{AgentEvent, EventLine};
use crate::job::{AttemptEnd, Exit, Job, Stop};

/// Bytes of the events file that are read at once.
const BLOCK: u64 = 256 << 10;
/// How long a shim that is about to exit may keep its lock.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to try to end orphans before giving up for now.
const KILLED: Duration = Duration::from_secs(20);
/// The longest time between SIGTERM and SIGKILL for orphans.
const GRACE: Duration = Duration::from_secs(5);

/// How many scans in a row must find no process: a scan can miss a process that forks at that moment.
const LOOKS: u32 = 3;

/// The state of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Attempt {
    /// Not started, and no shim is about to start it.
    NotStarted,
    /// A shim runs, but no agent yet.
    Starting,
    Running(Running),
    Ended(Exit),
    /// Started, but the shim is gone: see [`bury`].
    Lost,
}

/// A running agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    pub shim: ProcessRef,
    /// Missing if the agent exited at once. Its exit will follow soon.
    pub agent: Option<ProcessRef>,
    /// Wall clock, milliseconds.
    pub started_at: i64,
    /// The last event, by the agent or about it.
    pub last: Option<EventLine>,
    /// Usage so far, and the verdict if there is one.
    pub sum: AttemptTotals,
    /// The last text for people.
    pub text: Option<String>,
}

/// Writes the job, without the secrets of its command line, and the prompt. Repeating it with the same job is fine; the
/// job of an attempt never changes.
pub fn prepare(folder: &Path, job: &Job, prompt: &str) -> io::Result<()> {
    let job = &command_secrets::to_keep(job);
    let missing: Vec<&Path> = folder.ancestors().take_while(|dir| !dir.exists()).collect();
    for dir in missing.iter().rev() {
        file::make_dir_like_parent(dir)?;
        if let Some(parent) = dir.parent() {
            File::open(parent)?.sync_all()?;
        }
    }
    let files = AttemptFiles::of(folder);
    match files.job() {
        Ok(there) if there == *job => return Ok(()),
        Ok(_) => {
            let message = format!("{} has another job already", folder.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    file::put_like_parent(&files.path("prompt.md"), prompt.as_bytes())?;
    files.put("job.json", job)
}

/// The job of this attempt.
pub fn job(folder: &Path) -> io::Result<Job> {
    AttemptFiles::of(folder).job()
}

/// The shim of an attempt that has not ended.
pub fn shim(folder: &Path) -> Option<ProcessRef> {
    let files = AttemptFiles::of(folder);
    if files.has("exit.json") {
        return None;
    }
    let processes = files.processes().ok().flatten()?;
    let boot = clock::boot_id().ok();
    (boot.as_deref() == Some(processes.boot.as_str())).then_some(processes.shim)
}

/// Starts a detached shim. Safe to repeat: only one shim gets the lock, and it starts the agent once. `command` is the
/// command line of the job, where the caller knows it: its secrets are in no file.
pub fn spawn(folder: &Path, command: &[String]) -> io::Result<()> {
    let program = std::env::current_exe()?;
    // The program file was replaced by a newer version: continue with the running one.
    let own = Path::new("/proc/self/exe");
    match program.exists() {
        false if own.exists() => spawn_with(own, folder, command),
        _ => spawn_with(&program, folder, command),
    }
}

/// The same, with another `jit` program.
pub fn spawn_with(program: &Path, folder: &Path, command_line: &[String]) -> io::Result<()> {
    let folder = folder.canonicalize()?;
    let log = folder.join("shim.log");
    match file::create_like_parent(&log) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let log = file::open_real(&log, File::options().append(true))?;
    let mut command = Command::new(program);
    command
        .arg("shim")
        .arg(&folder)
        .current_dir("/")
        .envs(command_secrets::passed_on(command_line))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    children::detached(&mut command);
    // The spawned process exits at once, after it has started the shim.
    command.spawn()?.wait().map(drop)
}

/// The state of an attempt.
pub fn look(folder: &Path) -> io::Result<Attempt> {
    let files = AttemptFiles::of(folder);
    if let Some(exit) = files.exit()? {
        return Ok(Attempt::Ended(exit));
    }
    // The order matters: if `started` exists before the lock is found free, the shim that created it is gone.
    let begun = files.has("started");
    if files.is_locked()? {
        return Ok(match files.processes()? {
            Some(processes) => {
                let (sum, last, text) = said(&files)?;
                Attempt::Running(Running {
                    shim: processes.shim,
                    agent: processes.agent,
                    started_at: processes.started_at,
                    last,
                    sum,
                    text,
                })
            }
            None => Attempt::Starting,
        });
    }
    Ok(match files.exit()? {
        Some(exit) => Attempt::Ended(exit),
        None if begun => Attempt::Lost,
        None => Attempt::NotStarted,
    })
}

/// Deletes an attempt that was prepared and never started. The caller must know that no shim is about to start it.
pub fn discard(folder: &Path) -> io::Result<()> {
    let files = AttemptFiles::of(folder);
    if files.has("started") || files.has("exit.json") || !folder.exists() || files.is_locked()? {
        return Ok(());
    }
    std::fs::remove_dir_all(folder)
}

/// Whether a shim was spawned for this attempt within this time.
pub fn spawned_within(folder: &Path, time: Duration) -> bool {
    let log = std::fs::metadata(folder.join("shim.log"));
    let age = log
        .and_then(|meta| meta.modified())
        .ok()
        .and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age < time)
}

/// The reason in the `stop` file.
pub fn stop_reason(folder: &Path) -> Option<String> {
    let stop: Option<Stop> = AttemptFiles::of(folder).read("stop").ok().flatten();
    stop.map(|stop| stop.reason)
}

/// Whether the attempt is over: there will be no more events.
pub fn is_over(folder: &Path) -> io::Result<bool> {
    let files = AttemptFiles::of(folder);
    if files.has("exit.json") {
        return Ok(true);
    }
    let begun = files.has("started");
    Ok(begun && !files.is_locked()?)
}

/// Whether a stop was requested.
pub fn is_stopping(folder: &Path) -> bool {
    AttemptFiles::of(folder).has("stop")
}

/// Waits at most `longest` for the end. Returns whether the attempt is over.
pub fn wait_for_end(folder: &Path, longest: Duration) -> io::Result<bool> {
    let begun = Instant::now();
    while !is_over(folder)? {
        if begun.elapsed() >= longest {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

/// The events from this offset on, and the offset to continue from. Skips lines that cannot be parsed, and an
/// incomplete last line. Returns at most a block of them: repeat until there are none.
pub fn follow(folder: &Path, from: u64) -> io::Result<(Vec<EventLine>, u64)> {
    let events = AttemptFiles::of(folder).path("events.jsonl");
    let file = match file::open_real(&events, File::options().read(true)) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), from)),
        Err(e) => return Err(e),
    };
    // No line is longer than twice this.
    let bytes = read(&file, from, 4 * BLOCK)?;
    let Some(end) = bytes.iter().rposition(|b| *b == b'\n') else {
        return Ok((Vec::new(), from));
    };
    let whole = bytes.get(..end).unwrap_or_default();
    Ok((lines(whole).collect(), from + end as u64 + 1))
}

/// Asks the shim to end its agent. Returns false if the attempt has ended. An attempt that was not started will never
/// start.
pub fn stop(folder: &Path, why: &Stop) -> io::Result<bool> {
    let files = AttemptFiles::of(folder);
    if files.has("exit.json") {
        return Ok(false);
    }
    files.put("stop", why).map(|()| true)
}

/// Cleans up after a lost shim: ends its orphans and writes `exit.json`, unless that was done. An attempt that was
/// not started will never start.
///
/// Errors: [`io::ErrorKind::WouldBlock`] if its shim lives, [`io::ErrorKind::TimedOut`] if a process cannot be ended;
/// then try again later.
pub fn bury(folder: &Path) -> io::Result<Exit> {
    let files = AttemptFiles::of(folder);
    // Two processes that bury wait for each other. The lock alone does not tell whether its holder is a shim or buries.
    let own = || files.processes().ok().flatten().map(|its| its.shim);
    let lives = || own().is_some_and(|shim| shim.is_alive().unwrap_or(true));
    match files.lock(PATIENCE + KILLED, lives)? {
        Some(_lock) => bury_locked(&files),
        None => match files.exit()? {
            Some(exit) => Ok(exit),
            None => Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "the shim of this attempt lives",
            )),
        },
    }
}

/// The same, for a caller that holds the lock.
pub fn bury_locked(files: &AttemptFiles) -> io::Result<Exit> {
    if let Some(exit) = files.exit()? {
        return Ok(exit);
    }
    files.begin()?;
    let processes = files.processes().ok().flatten();
    let grace = files
        .job()
        .map_or(Duration::ZERO, |job| limits::secs(job.grace_secs));
    let mut known: Vec<ProcessRef> = processes.as_ref().map(|its| its.to_end()).unwrap_or_default();
    // After a reboot the mark matches no process, so it is safe to search for it.
    let mark = files.mark()?.unwrap_or_default();
    let ended = end_orphans(&mark, &mut known, grace.min(GRACE))?;
    let (sum, last) = everything_said(files)?;
    let started_at = processes.map(|its| its.started_at);
    let until = last.unwrap_or_else(clock::wall_ms);
    let exit = Exit {
        end: AttemptEnd::ShimLost,
        exit_code: None,
        signal: None,
        verdict: sum.verdict,
        session_id: sum.session_id,
        meter: sum.meter,
        tokens: sum.tokens,
        cost_usd: sum.cost_usd,
        turns: sum.turns,
        duration_ms: started_at.map_or(0, |at| u64::try_from(until - at).unwrap_or(0)),
        stderr_tail: stderr_tail(files),
        ended_orphans: ended,
    };
    files.free_spare();
    files.put("exit.json", &exit)?;
    Ok(exit)
}

fn end_orphans(mark: &str, known: &mut Vec<ProcessRef>, grace: Duration) -> io::Result<u32> {
    let since = Instant::now();
    let mut told: BTreeSet<ProcessRef> = BTreeSet::new();
    let mut nap = Duration::from_millis(1);
    let mut nobody = 0;
    loop {
        let (members, sure) = process_tree::search(mark, known)?;
        if members.is_empty() {
            nobody += u32::from(sure || since.elapsed() >= grace + KILLED);
            if nobody >= LOOKS {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        nobody = 0;
        if since.elapsed() >= grace + KILLED {
            let pids: Vec<String> = members.iter().map(|one| one.process.pid.to_string()).collect();
            let message = format!("these processes cannot be ended: {}", pids.join(" "));
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        let signal = match since.elapsed() < grace {
            true => Signal::TERM,
            false => Signal::KILL,
        };
        let news: Vec<_> = members
            .iter()
            .filter(|one| signal == Signal::KILL || !told.contains(&one.process))
            .copied()
            .collect();
        process_tree::signal_all(&news, signal);
        told.extend(members.iter().map(|one| one.process));
        // Remember them: they still belong to the attempt after their parent has exited.
        known.extend(members.iter().map(|one| one.process));
        known.sort_unstable();
        known.dedup();
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(50));
    }
    for one in &told {
        // Orphans may have become our children, and then no other process waits for them. Fails for all others.
        if let Some(pid) = process::raw(one.pid) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
    Ok(u32::try_from(told.len()).unwrap_or(u32::MAX))
}

fn stderr_tail(files: &AttemptFiles) -> String {
    let tail = || -> io::Result<String> {
        let file = file::open_real(&files.path("stderr.log"), File::options().read(true))?;
        let len = file.metadata()?.len();
        let bytes = read(&file, len.saturating_sub(LAST as u64), LAST as u64)?;
        Ok(text_of_end(&bytes))
    };
    tail().unwrap_or_default()
}

/// The totals of all events, and the time of the last one.
fn everything_said(files: &AttemptFiles) -> io::Result<(AttemptTotals, Option<i64>)> {
    let (mut sum, mut last, mut from) = (AttemptTotals::default(), None, 0);
    loop {
        let (lines, next) = follow(&files.folder, from)?;
        for line in &lines {
            sum.add(&line.said);
            last = Some(line.at);
        }
        if next == from {
            return Ok((sum, last));
        }
        from = next;
    }
}

/// The latest usage and verdict, the last event and the last text. Reads backward from the end until usage and text
/// are found.
fn said(files: &AttemptFiles) -> io::Result<(AttemptTotals, Option<EventLine>, Option<String>)> {
    let (mut sum, mut last, mut text) = (AttemptTotals::default(), None, None);
    let (mut has_usage, mut has_cost) = (false, false);
    let file = match file::open_real(&files.path("events.jsonl"), File::options().read(true)) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((sum, last, text)),
        Err(e) => return Err(e),
    };
    let mut end = file.metadata()?.len();
    // The beginning of a line whose end was in the block before.
    let mut rest: Vec<u8> = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut bytes = read(&file, start, end - start)?;
        bytes.append(&mut rest);
        let whole = match start {
            0 => 0,
            _ => bytes
                .iter()
                .position(|b| *b == b'\n')
                .map_or(bytes.len(), |n| n + 1),
        };
        let found: Vec<EventLine> = lines(bytes.get(whole..).unwrap_or_default()).collect();
        for line in found.into_iter().rev() {
            match &line.said {
                AgentEvent::Usage {
                    tokens,
                    cost_usd,
                    turns,
                    meter: _,
                } => {
                    if !has_usage {
                        (sum.tokens, sum.turns) = (*tokens, *turns);
                    }
                    if !has_cost {
                        sum.cost_usd = *cost_usd;
                    }
                    (has_usage, has_cost) = (true, has_cost || cost_usd.is_some());
                }
                AgentEvent::Result { verdict } if sum.verdict.is_none() => {
                    sum.verdict = Some(verdict.clone())
                }
                AgentEvent::Text { text: words } if text.is_none() => text = Some(words.clone()),
                _ => {}
            }
            last.get_or_insert(line);
        }
        // A verdict can only be at the end. The cost may never be reported.
        if has_usage && text.is_some() {
            break;
        }
        bytes.truncate(whole);
        rest = bytes;
        end = start;
    }
    Ok((sum, last, text))
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = EventLine> {
    bytes
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .filter_map(|line| serde_json::from_slice(line).ok())
}

pub fn read(file: &File, from: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    At(file, from).take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads from an offset without moving the file position.
struct At<'a>(&'a File, u64);

impl io::Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read_at(buffer, self.1)?;
        self.1 += count as u64;
        Ok(count)
    }
}
