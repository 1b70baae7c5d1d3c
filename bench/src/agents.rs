//! Measures the cost of watching a workflow of many agents that produce output.
//!
//! Only the coordinator and the shims are counted: their CPU time from `/proc/<pid>/stat`, their memory from
//! `/proc/<pid>/smaps_rollup`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::scratch::Repo;

pub const AGENTS: usize = 100;
/// Lines that one agent prints in a second.
pub const EACH: usize = 10;
/// The unit of `/proc/<pid>/stat`, the same on every present Linux.
const HZ: f64 = 100.0;
/// The time limit until all agents run.
const PATIENCE: Duration = Duration::from_secs(300);
/// The time after the last agent started that is not counted.
const SETTLE: Duration = Duration::from_secs(3);

/// The measurements of a running workflow.
#[derive(Debug)]
pub struct Watched {
    /// Of one core.
    pub coordinator_percent: f64,
    pub shims_percent: f64,
    pub events_per_second: f64,
    /// Megabytes, of the largest shim.
    pub pss: f64,
    pub rss: f64,
}

impl Watched {
    pub fn percent(&self) -> f64 {
        self.coordinator_percent + self.shims_percent
    }

    pub fn micros_per_event(&self) -> f64 {
        self.percent() / 100.0 / self.events_per_second.max(1.0) * 1e6
    }
}

fn plan(repo: &Repo<'_>, name: &str, units: usize, command: &[String]) -> io::Result<PathBuf> {
    let command: Vec<String> = command.iter().map(|word| format!("{word:?}")).collect();
    let mut text = format!(
        "workflow_id: {name}\nmax_concurrent: {AGENTS}\nstagger: 0s\nrun:\n  agent: command\n  command: [{}]\n  \
         max_retries: 0\nunits:\n",
        command.join(", ")
    );
    for n in 0..units {
        let _ = write!(text, "  - id: {name}-{n}\n    prompt: work\n");
    }
    let path = repo.dir.with_file_name(format!("{name}.yaml"));
    fs::write(&path, text)?;
    Ok(path)
}

/// CPU time, in seconds.
fn used(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything; the fields after it may not.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / HZ)
}

/// Megabytes.
fn memory(pid: u32, what: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find(|line| line.starts_with(what))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// The shims of this repository.
fn shims(repo: &Repo<'_>) -> io::Result<Vec<u32>> {
    let within = repo.dir.as_os_str().as_encoded_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = words.split(|b| *b == 0).skip(1);
        if words.next() == Some(b"shim") && words.next().is_some_and(|path| path.starts_with(within)) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// The bytes that all agents printed.
fn events(repo: &Repo<'_>, units: usize) -> usize {
    let count = |n: usize| {
        let folder = format!(".git/jit/units/many-{n}/attempt-1/events.jsonl");
        let said = fs::read(repo.dir.join(folder)).unwrap_or_default();
        said.iter().filter(|b| **b == b'\n').count()
    };
    (0..units).map(count).sum()
}

/// Runs [`AGENTS`] agents at once and measures for this long.
pub fn watch(repo: &Repo<'_>, speaker: &Path, counted: Duration, complaints: &File) -> io::Result<Watched> {
    let lines = 10_000 * EACH;
    let words = [
        speaker.to_string_lossy().into_owned(),
        lines.to_string(),
        (1000 / EACH).to_string(),
    ];
    let plan = plan(repo, "many", AGENTS, &words)?;
    let mut coordinator = repo
        .jit(&["run", &plan.to_string_lossy(), "--quiet"])
        .start(complaints)?;
    let watched = count(repo, &mut coordinator, counted);
    // In any case, no process is left behind.
    let cancelled = repo.jit(&["workflow", "cancel", "many"]).may_exit(6).run();
    let _ = coordinator.wait();
    let watched = watched?;
    cancelled?;
    Ok(watched)
}

fn count(repo: &Repo<'_>, coordinator: &mut Child, counted: Duration) -> io::Result<Watched> {
    let begun = Instant::now();
    while events(repo, AGENTS) == 0 || shims(repo)?.len() < AGENTS {
        if begun.elapsed() > PATIENCE || coordinator.try_wait()?.is_some() {
            return Err(io::Error::other("the agents did not all begin"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    std::thread::sleep(SETTLE);
    let shims = shims(repo)?;
    let gone = || io::Error::other("a process was gone before it was counted");
    let of_shims = || {
        let each = shims.iter().map(|pid| used(*pid).ok_or_else(gone));
        each.sum::<io::Result<f64>>()
    };
    let pid = coordinator.id();
    let (said, from) = (events(repo, AGENTS), Instant::now());
    let (own, theirs) = (used(pid).ok_or_else(gone)?, of_shims()?);
    std::thread::sleep(counted);
    let (own, theirs) = (used(pid).ok_or_else(gone)? - own, of_shims()? - theirs);
    let secs = from.elapsed().as_secs_f64();
    let said = events(repo, AGENTS) - said;
    let most = |what: &str| {
        let each = shims.iter().filter_map(|pid| memory(*pid, what));
        each.fold(0.0, f64::max)
    };
    Ok(Watched {
        coordinator_percent: own / secs * 100.0,
        shims_percent: theirs / secs * 100.0,
        events_per_second: said as f64 / secs,
        pss: most("Pss:"),
        rss: most("Rss:"),
    })
}

/// How long `jit worktree create` takes, and how long it is from `jit run` to the agent's first step, in turn.
pub fn first(
    repo: &Repo<'_>,
    speaker: &Path,
    rounds: usize,
    complaints: &File,
) -> io::Result<[Vec<Duration>; 2]> {
    let mut took = [Vec::new(), Vec::new()];
    let since_1970 = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // The first round warms up.
    for round in 0..=rounds {
        let made = repo
            .jit(&["worktree", "create", &format!("made-{round}"), "--json"])
            .time(complaints)?;
        let name = format!("first-{round}");
        let sign = repo.dir.with_file_name(format!("{name}.began"));
        let words = [
            speaker.to_string_lossy().into_owned(),
            "0".to_owned(),
            "0".to_owned(),
            sign.to_string_lossy().into_owned(),
        ];
        let plan = plan(repo, &name, 1, &words)?;
        let begun = since_1970();
        // The agent exits without a commit, so the workflow fails; that does not matter here.
        repo.jit(&["run", &plan.to_string_lossy(), "--quiet"])
            .may_exit(6)
            .time(complaints)?;
        let text = fs::read_to_string(&sign)?;
        let began: u64 = text.trim().parse().map_err(io::Error::other)?;
        if round > 0 {
            took[0].push(made);
            took[1].push(Duration::from_nanos(began).saturating_sub(begun));
        }
    }
    Ok(took)
}
