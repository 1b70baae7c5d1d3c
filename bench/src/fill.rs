//! Fills a control plane with a long history, to compare the cost of a claim with that on an empty one.
//!
//! The log is written directly, line by line in the store's own encoding: running the command a million times would
//! take the better part of an hour. Files that are derived from the log are removed, so the first command folds all of it.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use jit_core::log::event::{Event, SegmentReason, Stamped};
use jit_core::log::line::encode_line;
use jit_core::model::actor::Actor;
use jit_core::model::ids::{AgentId, IssueId, LeaseId};
use jit_core::model::issue::{Issue, IssueState, Priority};
use jit_core::model::lease::{Lease, Resource};
use jit_core::model::time::{BootId, Wall};

#[derive(Debug, Clone, Copy)]
pub struct History {
    pub records: usize,
    pub leases: usize,
}

/// Where the store begins a new segment.
const SEGMENT: u64 = 16 << 20;
const TTL_SECS: u64 = 7 * 24 * 3600;

struct Log {
    dir: PathBuf,
    file: BufWriter<fs::File>,
    first: u64,
    written: u64,
    sequence: u64,
    sum: u64,
    actor: Actor,
    wall: Wall,
}

impl Log {
    fn push(&mut self, event: Event) -> io::Result<()> {
        if self.written > SEGMENT && !matches!(event, Event::SegmentStarted { .. }) {
            self.file.flush()?;
            let sealed = self.dir.join(format!("control-{:016}.jsonl", self.first));
            fs::rename(self.dir.join("control.jsonl"), sealed)?;
            self.file = BufWriter::new(fs::File::create(self.dir.join("control.jsonl"))?);
            (self.first, self.written) = (self.sequence + 1, 0);
            self.push(Event::SegmentStarted {
                reason: SegmentReason::Size,
            })?;
        }
        self.sequence += 1;
        let line = Stamped {
            sequence: self.sequence,
            at: self.wall,
            actor: self.actor.clone(),
            request: None,
            part: (1, 1),
            event,
        };
        let mut bytes = Vec::with_capacity(700);
        self.sum = encode_line(&mut bytes, &line, self.sequence - 1, self.sum);
        self.written += bytes.len() as u64;
        self.file.write_all(&bytes)
    }

    /// A new log, without a line.
    fn create(dir: PathBuf) -> io::Result<Self> {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_err(io::Error::other)?;
        Ok(Self {
            file: BufWriter::new(fs::File::create(dir.join("control.jsonl"))?),
            dir,
            first: 1,
            written: 0,
            sequence: 0,
            sum: 0,
            actor: Actor {
                agent_id: "agent:filler".parse().map_err(io::Error::other)?,
                worktree_id: None,
            },
            wall: Wall::from_ms(i64::try_from(now.as_millis()).unwrap_or(0)),
        })
    }

    /// Appends a new issue.
    fn issue(&mut self, n: usize) -> io::Result<IssueId> {
        let id: IssueId = format!("FILL-{n:06}").parse().map_err(io::Error::other)?;
        let issue = Issue {
            id: id.clone(),
            title: format!("Number {n}"),
            kind: "issue".into(),
            state: IssueState::Ready,
            priority: Priority::Normal,
            parent: None,
            labels: Vec::new(),
            depends_on: Vec::new(),
            gates: Vec::new(),
            actor: jit_core::model::issue::Performer::Any,
            blocked: None,
            pivot: None,
            created_by: None,
            text: None,
            created_at: self.wall,
            updated_at: self.wall,
            revision: 1,
            lives_in: None,
        };
        self.push(Event::Issue {
            did: jit_core::log::event::IssueAction::Created,
            issue,
            sheet: jit_core::issue_files::stamps::Sheet::default(),
        })?;
        Ok(id)
    }

    fn lease(&self, issue: &IssueId, agent: &AgentId, ticks: u64) -> Lease {
        Lease {
            lease_id: LeaseId::generate(self.wall.ms(), u128::from(self.sequence)),
            resource: Resource::Issue(issue.clone()),
            agent_id: agent.clone(),
            worktree_id: None,
            branch: Some("main".into()),
            ttl_secs: TTL_SECS,
            acquired_at: self.wall,
            expires_at: self.wall.plus_secs(TTL_SECS),
            deadline: ticks + TTL_SECS * 1000,
            token: self.sequence + 1,
            parent: None,
            on_behalf_of: None,
            session_id: None,
            note: None,
        }
    }
}

/// Gives the repository at `repo` that history.
pub fn fill(repo: &Path, history: History) -> Result<(), String> {
    write(&repo.join(".git/jit"), history).map_err(|e| e.to_string())
}

fn write(control: &Path, history: History) -> io::Result<()> {
    let (boot, ticks) = boot_and_ticks()?;
    discard_derived_files(control)?;
    let mut log = Log::create(control.join("events"))?;
    log.push(Event::SegmentStarted {
        reason: SegmentReason::Created,
    })?;
    log.push(Event::Boot { boot, ticks })?;
    let mut issues = Vec::with_capacity(history.leases);
    for n in 0..history.leases {
        issues.push(log.issue(n)?);
    }
    let agents: Vec<AgentId> = (0..100)
        .filter_map(|n| format!("agent:filler-{n}").parse().ok())
        .collect();
    let mut turn = 0;
    while log.sequence + 2 + (history.leases as u64) < history.records as u64 {
        let (issue, agent) = (&issues[turn % issues.len()], &agents[turn % agents.len()]);
        let lease = log.lease(issue, agent, ticks);
        log.push(Event::Acquired {
            lease: lease.clone(),
            regranted: false,
        })?;
        log.push(Event::Released {
            lease,
            by: agent.clone(),
            brief: false,
        })?;
        turn += 1;
    }
    for (n, issue) in issues.iter().enumerate() {
        let lease = log.lease(issue, &agents[n % agents.len()], ticks);
        log.push(Event::Acquired {
            lease,
            regranted: false,
        })?;
    }
    log.file.flush()?;
    log.file.get_ref().sync_all()
}

/// This boot, and the milliseconds since it.
fn boot_and_ticks() -> io::Result<(BootId, u64)> {
    let uptime = fs::read_to_string("/proc/uptime")?;
    let seconds: f64 = uptime
        .split(' ')
        .next()
        .and_then(|s| s.parse().ok())
        .unwrap_or(0.0);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok((BootId(boot.trim().to_owned()), (seconds * 1000.0) as u64))
}

/// Removes the files that the store makes again from the log.
fn discard_derived_files(control: &Path) -> io::Result<()> {
    for name in ["state", "claims.jsonl", "claims.index.json", "locks/control.lock"] {
        let path = control.join(name);
        if path.is_dir() {
            fs::remove_dir_all(&path)?;
            fs::create_dir(&path)?;
        } else if path.exists() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
