//! Heartbeats: an agent's sign of life, written to its own file outside the log.
//!
//! # Format
//!
//! `heartbeat/<encoded agent id>.json`: agent_id, worktree_id, branch, pid, start_time (of that process), last_beat,
//! interval_secs. The whole file is replaced.
//!
//! # Invariants
//!
//! - A heartbeat belongs to a process and stops when that process ends. So no dead work stays claimed.
//! - A dead heartbeat is recognized: its process is gone, or another process has the same pid.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use jit_core::model::ids::AgentId;
use jit_core::model::time::Wall;
use jit_os::file;
use jit_os::process::ProcessRef;

pub use crate::ports::{Beat, Heartbeat, Heartbeats};

impl Beat {
    pub fn age_secs(&self, now: Wall) -> u64 {
        u64::try_from(now.ms().saturating_sub(self.heartbeat.last_beat.ms()) / 1000).unwrap_or(0)
    }
}

pub fn path(control_dir: &Path, agent: &AgentId) -> PathBuf {
    control_dir
        .join("heartbeat")
        .join(format!("{}.json", agent.file_name()))
}

/// Writes one heartbeat. Not synced: after a power loss no agent is alive.
pub fn write(control_dir: &Path, beat: &Heartbeat) -> io::Result<()> {
    file::make_dir_like_parent(&control_dir.join("heartbeat"))?;
    let mut content = serde_json::to_vec(beat)?;
    content.push(b'\n');
    file::replace_unsynced(&path(control_dir, &beat.agent_id), &content)
}

/// The heartbeats in files.
#[derive(Debug, Clone)]
pub struct FileHeartbeats {
    control_dir: PathBuf,
}

impl FileHeartbeats {
    pub fn at(control_dir: &Path) -> Self {
        Self {
            control_dir: control_dir.to_owned(),
        }
    }
}

impl Heartbeats for FileHeartbeats {
    fn beat(&self, beat: &Heartbeat) -> io::Result<()> {
        write(&self.control_dir, beat)
    }

    fn of(&self, agent: &AgentId) -> Option<Beat> {
        read(&path(&self.control_dir, agent)).filter(|beat| beat.heartbeat.agent_id == *agent)
    }
}

/// Reads heartbeats, each one once.
#[derive(Debug)]
pub struct Beats<'a> {
    heartbeats: &'a dyn Heartbeats,
    known: HashMap<AgentId, Option<Beat>>,
}

impl<'a> Beats<'a> {
    pub fn new(heartbeats: &'a dyn Heartbeats) -> Self {
        Self {
            heartbeats,
            known: HashMap::new(),
        }
    }

    /// Returns `None` if the agent has no heartbeat, or none that can be read.
    pub fn of(&mut self, agent: &AgentId) -> Option<Beat> {
        if let Some(beat) = self.known.get(agent) {
            return beat.clone();
        }
        let beat = self.heartbeats.of(agent);
        self.known.insert(agent.clone(), beat.clone());
        beat
    }
}

fn read(path: &Path) -> Option<Beat> {
    let heartbeat: Heartbeat = serde_json::from_slice(&jit_os::file::read_real(path, 1 << 20).ok()??).ok()?;
    let process = ProcessRef {
        pid: heartbeat.pid,
        start: heartbeat.start_time,
    };
    let alive = process.is_alive().unwrap_or(false);
    Some(Beat { heartbeat, alive })
}

/// Returns all heartbeats.
pub fn all(control_dir: &Path) -> io::Result<Vec<Beat>> {
    let folder = match std::fs::read_dir(control_dir.join("heartbeat")) {
        Ok(folder) => folder,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for entry in folder {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            found.extend(read(&path));
        }
    }
    found.sort_by(|a, b| a.heartbeat.agent_id.cmp(&b.heartbeat.agent_id));
    Ok(found)
}
