//! Which session a process belongs to (A4): an agent's tools need no variable to act as that agent.
//!
//! # Format
//!
//! `bound/<pid>.json` in the control directory: pid, start (of that process), session_id, agent_id. A hook or a server
//! that an agent starts writes it for the agent's process; whatever that process starts, however deep, finds it by
//! walking up its own parents.
//!
//! # Invariants
//!
//! - a binding counts only for the very process it was made for: a number that was given out again is no match;
//! - where nothing was ever bound nobody walks: one look at the folder is all it costs.

use std::io;
use std::path::{Path, PathBuf};

use jit_core::model::ids::{AgentId, SessionId};
use jit_os::file;
use jit_os::process::{self, ProcessRef};
use serde::{Deserialize, Serialize};

const FOLDER: &str = "bound";

/// What a process was bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    pub pid: u32,
    pub start: u64,
    pub session_id: SessionId,
    pub agent_id: AgentId,
}

impl Bound {
    pub fn process(&self) -> ProcessRef {
        ProcessRef {
            pid: self.pid,
            start: self.start,
        }
    }
}

fn path(control_dir: &Path, pid: u32) -> PathBuf {
    control_dir.join(FOLDER).join(format!("{pid}.json"))
}

/// From now on, that process and all it starts act in the session.
pub fn bind(control_dir: &Path, process: ProcessRef, session: &SessionId, agent: &AgentId) -> io::Result<()> {
    file::make_dir_like_parent(&control_dir.join(FOLDER))?;
    let bound = Bound {
        pid: process.pid,
        start: process.start,
        session_id: session.clone(),
        agent_id: agent.clone(),
    };
    let mut content = serde_json::to_vec(&bound)?;
    content.push(b'\n');
    // Not synced: no process outlives its boot.
    file::replace_unsynced(&path(control_dir, process.pid), &content)
}

fn read(path: &Path) -> Option<Bound> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The session that this process runs in, if one of its parents was bound.
pub fn find(control_dir: &Path) -> Option<Bound> {
    if !control_dir.join(FOLDER).is_dir() {
        return None;
    }
    let parents = process::ancestors(std::process::id()).ok()?;
    parents
        .into_iter()
        .find_map(|parent| read(&path(control_dir, parent.pid)).filter(|bound| bound.process() == parent))
}

/// Every binding whose process lives.
pub fn all(control_dir: &Path) -> io::Result<Vec<Bound>> {
    Ok(entries(control_dir)?
        .into_iter()
        .filter_map(|path| read(&path))
        .filter(|bound| bound.process().is_alive().unwrap_or(false))
        .collect())
}

fn entries(control_dir: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(control_dir.join(FOLDER)) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Removes the bindings of these sessions, and those whose process is gone.
pub fn unbind(control_dir: &Path, sessions: &[SessionId]) -> io::Result<()> {
    for path in entries(control_dir)? {
        let over = read(&path).is_none_or(|bound| {
            sessions.contains(&bound.session_id) || !bound.process().is_alive().unwrap_or(true)
        });
        if over && path.extension().is_some_and(|e| e == "json") {
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Where an agent's process is at home, for a hook that is called from wherever the agent's shell happens to stand: one
/// file for each process in the user's own folder, `homes/<pid>.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Home {
    start: u64,
    root: PathBuf,
}

fn homes() -> Option<PathBuf> {
    crate::identity::data_folder(|name| std::env::var_os(name)).map(|folder| folder.join("homes"))
}

/// From now on that process is at home in `root`.
pub fn settle(process: ProcessRef, root: &Path) -> io::Result<()> {
    let Some(folder) = homes() else {
        return Ok(());
    };
    std::fs::create_dir_all(&folder)?;
    for entry in std::fs::read_dir(&folder)?.flatten() {
        // Of those that are gone nothing is kept.
        let pid = entry
            .path()
            .file_stem()
            .and_then(|name| name.to_str()?.parse().ok());
        if pid.is_some_and(|pid: u32| matches!(process::start_time(pid), Ok(None))) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let home = Home {
        start: process.start,
        root: root.to_owned(),
    };
    let content = serde_json::to_vec(&home)?;
    file::replace_unsynced(&folder.join(format!("{}.json", process.pid)), &content)
}

/// Where the agent that started this process is at home, if that is known.
pub fn home() -> Option<PathBuf> {
    let folder = homes().filter(|folder| folder.is_dir())?;
    let parents = process::ancestors(std::process::id()).ok()?;
    parents.into_iter().find_map(|parent| {
        let bytes = std::fs::read(folder.join(format!("{}.json", parent.pid))).ok()?;
        let home: Home = serde_json::from_slice(&bytes).ok()?;
        (home.start == parent.start && home.root.is_dir()).then_some(home.root)
    })
}

/// The process that an agent runs as: the nearest parent that is not merely a shell on the way to it.
pub fn agent_process() -> io::Result<Option<ProcessRef>> {
    let parents = process::ancestors(std::process::id())?;
    Ok(parents
        .iter()
        .copied()
        .find(|parent| !process::name(parent.pid).is_some_and(|name| is_shell(&name)))
        .or_else(|| parents.first().copied()))
}

fn is_shell(name: &str) -> bool {
    const SHELLS: [&str; 10] = [
        "sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox", "env", "timeout",
    ];
    SHELLS.contains(&name)
}
