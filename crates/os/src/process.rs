//! Identifies processes. A pid alone is not enough, because the system reuses pids.
//!
//! What must hold:
//! - A process is identified by its pid and its start time. [`ProcessRef::is_alive`] is true only for that process.
//! - A zombie counts as dead: it can do nothing more, its parent has just not reaped it.
//! - The name of a process may contain spaces, parentheses and newlines. It never shifts the fields after it.
//!
//! Limitations: start times are in clock ticks since boot on Linux, so they compare only within one boot and one pid
//! namespace. Elsewhere they come from `ps`, in a form that only compares for equality (not run here).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::OnceLock;

/// A process that cannot be mistaken for a later one with the same pid.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
pub struct ProcessRef {
    pub pid: u32,
    /// Opaque outside this module; equal means the same process.
    pub start: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    state: u8,
    parent: u32,
    group: u32,
    /// CPU time of the process and of the children it waited for, in hundredths of a second.
    pub(super) used: u64,
    pub(super) start: u64,
}

/// A line of the process table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    pub process: ProcessRef,
    pub parent: u32,
    pub group: u32,
    /// CPU time of the process and of the children it waited for, in hundredths of a second.
    pub used: u64,
}

impl ProcessRef {
    /// This process.
    pub fn current() -> io::Result<Self> {
        let pid = std::process::id();
        match start_time(pid)? {
            Some(start) => Ok(Self { pid, start }),
            None => Err(io::Error::other("this process is not in the process table")),
        }
    }

    /// The process that has this pid now, if there is one.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        Ok(start_time(pid)?.map(|start| Self { pid, start }))
    }

    /// Whether this process still runs.
    pub fn is_alive(self) -> io::Result<bool> {
        Ok(start_time(self.pid)? == Some(self.start))
    }
}

/// Waits until the process exits, at most `longest`. Returns whether it has exited.
#[cfg(target_os = "linux")]
pub fn wait_for_end(process: ProcessRef, longest: std::time::Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let Some(handle) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return Ok(!process.is_alive()?);
    };
    // The handle could belong to a later process with the same pid.
    if !process.is_alive()? {
        return Ok(true);
    }
    let time = rustix::time::Timespec {
        tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: longest.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&time)) {
        Ok(ended) => Ok(ended > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Waits until the process exits, at most `longest`. Returns whether it has exited. Not run here.
#[cfg(not(target_os = "linux"))]
pub fn wait_for_end(process: ProcessRef, longest: std::time::Duration) -> io::Result<bool> {
    std::thread::sleep(longest.min(std::time::Duration::from_secs(1)));
    Ok(!process.is_alive()?)
}

/// Lists all running processes, without zombies. Processes that start or exit meanwhile may be missing.
pub fn list() -> io::Result<Vec<Listed>> {
    let mut all = Vec::new();
    for pid in pids()? {
        // A process that cannot be read (it exited, or it is hidden from this user) is not listed.
        let Ok(Some(stat)) = stat(pid) else { continue };
        if !is_dead(stat) {
            all.push(Listed {
                process: ProcessRef {
                    pid,
                    start: stat.start,
                },
                parent: stat.parent,
                group: stat.group,
                used: stat.used,
            });
        }
    }
    Ok(all)
}

/// The pids of all processes.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn pids() -> io::Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc")?;
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

/// The pids of all processes. Not run here: written from the manual of `ps` on Darwin and the BSDs.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn pids() -> io::Result<Vec<u32>> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-axo", "pid="])
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect())
}

/// A descriptor to poll: it becomes readable when this process exits. `None` if the system has none, or the process has
/// exited.
#[cfg(target_os = "linux")]
pub fn handle(process: ProcessRef) -> Option<std::os::fd::OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    let handle = pidfd_open(raw(process.pid)?, PidfdFlags::empty()).ok()?;
    // Opened first and checked afterwards: from here on the handle means this process and no other.
    process.is_alive().ok()?.then_some(handle)
}

/// This system has no descriptor to poll.
#[cfg(not(target_os = "linux"))]
pub fn handle(_process: ProcessRef) -> Option<std::os::fd::OwnedFd> {
    None
}

/// Signals this process and no later one with its pid. Returns whether it was there.
#[cfg(target_os = "linux")]
pub fn signal(process: ProcessRef, signal: rustix::process::Signal) -> io::Result<bool> {
    if let Some(handle) = handle(process) {
        return match rustix::process::pidfd_send_signal(handle, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        };
    }
    signal_by_number(process, signal)
}

/// Signals this process. May signal another one if it exits and its pid is reused just now. Not run here.
#[cfg(not(target_os = "linux"))]
pub fn signal(process: ProcessRef, signal: rustix::process::Signal) -> io::Result<bool> {
    signal_by_number(process, signal)
}

/// For systems without handles.
fn signal_by_number(process: ProcessRef, signal: rustix::process::Signal) -> io::Result<bool> {
    match raw(process.pid) {
        Some(pid) if process.is_alive()? => match rustix::process::kill_process(pid, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        },
        _ => Ok(false),
    }
}

pub fn raw(pid: u32) -> Option<rustix::process::Pid> {
    i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw)
}

pub(super) fn is_dead(stat: Stat) -> bool {
    matches!(stat.state, b'Z' | b'X' | b'x')
}

/// The start time of the process with this pid; `None` if there is none or it is a zombie.
pub fn start_time(pid: u32) -> io::Result<Option<u64>> {
    Ok(stat(pid)?.filter(|stat| !is_dead(*stat)).map(|stat| stat.start))
}

/// The name of a process, shortened by the system; `None` if it cannot be read.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn name(pid: u32) -> Option<String> {
    let name = crate::file::read_systems(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// Not run here.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn name(pid: u32) -> Option<String> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-o", "comm=", "-p", &pid.to_string()])
        .output()
        .ok()?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Some(path.rsplit('/').next()?.to_owned())
}

/// The program and the arguments of a process; empty if they cannot be read. A process can change its own.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn arguments(pid: u32) -> Vec<OsString> {
    let bytes = crate::file::read_systems(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    bytes
        .split(|b| *b == 0)
        .map(|one| OsString::from_vec(one.to_vec()))
        .collect()
}

/// This system shows the arguments of other processes in no form in which they can be told apart.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn arguments(_pid: u32) -> Vec<OsString> {
    Vec::new()
}

/// The variables that a process was started with, as the system keeps them.
#[derive(Debug, Clone, Default)]
pub struct Environment(Vec<u8>);

impl Environment {
    /// Reads `NAME=value` NUL, repeated.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn get(&self, name: &str) -> Option<OsString> {
        let mut all = self.0.split(|b| *b == 0);
        let value = all.find_map(|one| one.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        Some(OsString::from_vec(value.to_vec()))
    }
}

/// The variables that this process was started with; `None` if they cannot be read. Later changes by the process
/// itself are not in them.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn environment(pid: u32) -> Option<Environment> {
    let bytes = crate::file::read_systems(format!("/proc/{pid}/environ")).ok()?;
    Some(Environment(bytes))
}

/// This system shows the variables of other processes in no form that can be told from their arguments.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn environment(_pid: u32) -> Option<Environment> {
    None
}

/// How many parents of a process are looked at.
const MOST_PARENTS: usize = 1024;

/// The parents of this process, as they were when this was first asked: one that exits later still counts. Fails if the
/// system does not show them all.
pub fn above() -> io::Result<&'static [ProcessRef]> {
    static ABOVE: OnceLock<Vec<ProcessRef>> = OnceLock::new();
    if let Some(known) = ABOVE.get() {
        return Ok(known);
    }
    let Some(own) = stat(std::process::id())? else {
        return Err(io::Error::other("this process is not in the process table"));
    };
    let found = parents(own, MOST_PARENTS)?;
    Ok(ABOVE.get_or_init(|| found))
}

/// The parents of a process, nearest first, ending with the topmost one that can be seen.
pub fn ancestors(pid: u32) -> io::Result<Vec<ProcessRef>> {
    stat(pid)?.map_or(Ok(Vec::new()), |own| parents(own, MOST_PARENTS))
}

/// Fails if there are more than `most`.
fn parents(of: Stat, most: usize) -> io::Result<Vec<ProcessRef>> {
    let mut chain: Vec<ProcessRef> = Vec::new();
    let mut next = Some(of.parent);
    while let Some(parent) = next.filter(|parent| *parent != 0) {
        let Some(found) = stat(parent)? else { break };
        // Processes exit and pids are reused meanwhile, so a loop is possible in principle.
        if chain.len() == most || chain.iter().any(|seen| seen.pid == parent) {
            return Err(io::Error::other("the parents of the process have no end"));
        }
        chain.push(ProcessRef {
            pid: parent,
            start: found.start,
        });
        next = Some(found.parent);
    }
    Ok(chain)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn stat(pid: u32) -> io::Result<Option<Stat>> {
    match crate::file::read_systems(format!("/proc/{pid}/stat")) {
        Ok(bytes) => match parse_stat(&bytes) {
            Some(stat) => Ok(Some(stat)),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("/proc/{pid}/stat cannot be understood"),
            )),
        },
        Err(error) if gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn gone(error: &io::Error) -> bool {
    // ESRCH if the process exits between open and read.
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// `pid (name) state ppid … starttime …`; the name may contain anything, so the last `)` ends it.
#[cfg(any(target_os = "linux", target_os = "android", test))]
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let after_name = bytes.iter().rposition(|b| *b == b')')? + 1;
    let text = std::str::from_utf8(bytes.get(after_name..)?).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    // The state is field 3, the parent 4, the group 5, the times used 14 to 17, the start time 22.
    // A process that is exiting has the group -1.
    let group = u32::try_from(fields.next()?.parse::<i64>().ok()?).unwrap_or(0);
    let mut used: u64 = 0;
    for skipped in [8, 0, 0, 0] {
        used = used.saturating_add(fields.nth(skipped)?.parse().unwrap_or(0));
    }
    let start = fields.nth(4)?.parse().ok()?;
    Some(Stat {
        state,
        parent,
        group,
        used,
        start,
    })
}

/// Not run here: written from the manual of `ps` on Darwin and the BSDs.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn stat(pid: u32) -> io::Result<Option<Stat>> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-o", "ppid=,pgid=,stat=,time=,lstart=", "-p", &pid.to_string()])
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut fields = text.split_ascii_whitespace();
    let (Some(parent), Some(group), Some(state)) = (fields.next(), fields.next(), fields.next()) else {
        return Ok(None);
    };
    // `minutes:seconds.hundredths`, of the process alone.
    let digits = fields.next().unwrap_or_default().replace(['.', '-'], ":");
    let used = digits.split(':').filter_map(|part| part.parse::<u64>().ok());
    let started: Vec<&str> = fields.collect();
    Ok(Some(Stat {
        state: state.bytes().next().unwrap_or(b'?'),
        parent: parent.parse().unwrap_or(0),
        group: group.parse().unwrap_or(0),
        used: used.fold(0, |sum, part| sum.saturating_mul(60).saturating_add(part)),
        start: xxhash_rust::xxh3::xxh3_64(started.join(" ").as_bytes()),
    }))
}

/// The login name of the user of this process: from `/etc/passwd`. A user who is not listed there has the name in `$USER`,
/// else the user id. Fails if the list cannot be read: the same user would have another name than before.
pub fn user_name() -> io::Result<String> {
    let uid = rustix::process::getuid().as_raw();
    let listed = match crate::file::read_systems("/etc/passwd") {
        Ok(passwd) => name_of_uid(&passwd, uid),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    Ok(listed
        .or_else(|| std::env::var("USER").ok().filter(|name| !name.is_empty()))
        .unwrap_or_else(|| uid.to_string()))
}

fn name_of_uid(passwd: &[u8], uid: u32) -> Option<String> {
    passwd.split(|b| *b == b'\n').find_map(|line| {
        let mut fields = line.split(|b| *b == b':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let listed: u32 = std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
        if listed != uid {
            return None;
        }
        String::from_utf8(name.to_vec()).ok()
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn d2_a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let tail = "S 41 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        for name in ["sh", "a b", "(sd-pam)", ") R 1 (", "x) S 9 9", "line\nbreak", ""] {
            let line = format!("42 ({name}) {tail}");
            let stat = parse_stat(line.as_bytes()).expect(name);
            assert_eq!(
                (stat.state, stat.parent, stat.group, stat.used, stat.start),
                (b'S', 41, 1, 26, 987_654),
                "{name:?}"
            );
        }
        for bad in ["", "42", "42 (x", "42 (x) S", "42 (x) S one"] {
            assert_eq!(parse_stat(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn d2_only_the_very_same_process_is_alive() {
        let me = ProcessRef::current().expect("me");
        assert!(me.is_alive().expect("look"));
        let earlier = ProcessRef {
            start: me.start - 1,
            ..me
        };
        assert!(!earlier.is_alive().expect("look"));
        assert_eq!(ProcessRef::of(u32::MAX - 1).expect("look"), None);
    }

    #[test]
    fn d2_a_zombie_is_dead() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("spawn");
        let its = ProcessRef::of(child.id()).expect("look").expect("there");
        assert!(its.is_alive().expect("look"));
        child.kill().expect("kill");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        // Not waited for, so it stays in the table as a zombie.
        while its.is_alive().expect("look") {
            assert!(
                std::time::Instant::now() < deadline,
                "a killed process counts as alive"
            );
            std::thread::yield_now();
        }
        child.wait().expect("wait");
        assert!(!its.is_alive().expect("look"));
    }

    #[test]
    fn e6_only_the_very_same_process_is_signalled() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("spawn");
        let its = ProcessRef::of(child.id()).expect("look").expect("there");
        let earlier = ProcessRef {
            start: its.start - 1,
            ..its
        };
        let kill = rustix::process::Signal::KILL;
        assert!(!signal(earlier, kill).expect("nobody"));
        assert!(its.is_alive().expect("look"));
        let me = std::process::id();
        let listed = list().expect("list");
        let found = listed.iter().find(|one| one.process == its).expect("listed");
        assert_eq!(found.parent, me);
        assert!(signal(its, kill).expect("signalled"));
        let status = child.wait().expect("wait");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
        assert!(!signal(its, kill).expect("gone"));
    }

    #[test]
    fn l3_variables_of_a_process_are_read_as_they_were_at_its_start() {
        let read = Environment::from_bytes(b"A=1\0AB=2\0EMPTY=\0odd\0C=x=y\n\0".to_vec());
        let get = |name: &str| read.get(name).map(|value| value.to_string_lossy().into_owned());
        assert_eq!(get("A").as_deref(), Some("1"));
        assert_eq!(get("EMPTY").as_deref(), Some(""));
        assert_eq!(get("C").as_deref(), Some("x=y\n"));
        assert_eq!((get("odd"), get("B"), get("")), (None, None, None));
        let mut child = std::process::Command::new("cat")
            .env("JIT_TEST_MARK", "here")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("spawn");
        // The kernel shows no variables before the program runs, and it runs when it answers.
        let (mut to, mut from) = (
            child.stdin.take().expect("a pipe"),
            child.stdout.take().expect("a pipe"),
        );
        to.write_all(b"x").expect("a question");
        from.read_exact(&mut [0]).expect("an answer");
        let its = environment(child.id()).and_then(|found| found.get("JIT_TEST_MARK"));
        child.kill().expect("kill");
        child.wait().expect("wait");
        assert_eq!(its, cfg!(target_os = "linux").then(|| "here".into()));
        assert!(environment(u32::MAX - 1).is_none());
    }

    #[test]
    fn parents_lead_upwards() {
        let chain = ancestors(std::process::id()).expect("chain");
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        assert_eq!(chain.first().map(|first| first.pid), parent);
        assert!(chain.iter().all(|one| one.pid != std::process::id()));
        assert_eq!(above().expect("chain"), chain);
    }

    #[test]
    fn l3_a_chain_of_parents_that_is_cut_is_an_error() {
        let below_this = Stat {
            state: b'S',
            parent: std::process::id(),
            group: 0,
            used: 0,
            start: 0,
        };
        let all = parents(below_this, MOST_PARENTS).expect("a chain");
        assert_eq!(all.first().map(|first| first.pid), Some(std::process::id()));
        assert_eq!(parents(below_this, all.len()).expect("a chain"), all);
        parents(below_this, all.len() - 1).expect_err("one more than allowed");
    }

    #[test]
    fn a4_user_name_comes_from_passwd() {
        let passwd =
            b"root:x:0:0::/root:/bin/sh\nbroken\n:x:7:7::/:\nzo\xeb:x:8:8::/:\nal ice:x:1000:1::/h:/bin/sh";
        assert_eq!(name_of_uid(passwd, 0).as_deref(), Some("root"));
        assert_eq!(name_of_uid(passwd, 1000).as_deref(), Some("al ice"));
        for nobody in [7, 8, 9] {
            assert_eq!(name_of_uid(passwd, nobody), None);
        }
        assert!(!user_name().expect("a list of users").is_empty());
    }
}
