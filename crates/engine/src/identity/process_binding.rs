//! Binds a process to a session (A4), so that an agent's tools act as that agent without any variable.
//!
//! # Format
//!
//! `bound/<pid>.json` in the control directory: pid, start (of that process), session_id, agent_id. A hook or a
//! server that an agent starts writes it for the agent's process. Every process below that one, at any depth, finds
//! it by walking up its own parents.
//!
//! # Invariants
//!
//! - A binding counts only for exactly the process it was made for: a reused pid is no match.
//! - If nothing was ever bound, no process walks up its parents: one check of the folder is the whole cost.

use std::io;
use std::path::{Path, PathBuf};

use jit_core::model::ids::{AgentId, SessionId};
use jit_os::file;
use jit_os::process::{self, ProcessRef};
use serde::{Deserialize, Serialize};

const FOLDER: &str = "bound";
/// The largest file that is read.
const LARGEST: u64 = 1 << 20;

/// The session and agent that a process is bound to.
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

/// Binds a process: from now on it and all processes below it act in the session.
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
    serde_json::from_slice(&file::read_real(path, LARGEST).ok()??).ok()
}

/// Returns the session that this process runs in, if one of its parents was bound.
pub fn find(control_dir: &Path) -> Option<Bound> {
    if !control_dir.join(FOLDER).is_dir() {
        return None;
    }
    process::above()
        .ok()?
        .iter()
        .find_map(|parent| read(&path(control_dir, parent.pid)).filter(|bound| bound.process() == *parent))
}

/// Returns every binding whose process is alive.
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

/// The worktree of an agent's process, for a hook that starts in the agent's current folder. One file for each
/// process in the user's own folder, `homes/<pid>.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Home {
    start: u64,
    root: PathBuf,
}

fn homes() -> Option<PathBuf> {
    crate::identity::data_folder(|name| std::env::var_os(name)).map(|folder| folder.join("homes"))
}

/// Records `root` as the worktree of that process.
pub fn settle(process: ProcessRef, root: &Path) -> io::Result<()> {
    let Some(folder) = homes() else {
        return Ok(());
    };
    std::fs::create_dir_all(&folder)?;
    for entry in std::fs::read_dir(&folder)?.flatten() {
        // Entries of processes that are gone are removed.
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

/// Returns the recorded worktree of the agent that started this process, if known.
pub fn home() -> Option<PathBuf> {
    let folder = homes().filter(|folder| folder.is_dir())?;
    process::above().ok()?.iter().find_map(|parent| {
        let path = folder.join(format!("{}.json", parent.pid));
        let bytes = file::read_real(&path, LARGEST).ok()??;
        let home: Home = serde_json::from_slice(&bytes).ok()?;
        (home.start == parent.start && home.root.is_dir()).then_some(home.root)
    })
}

/// Returns the agent of the process with the number `of`: its nearest parent that is not just a shell in between.
pub fn agent_process(of: u32) -> io::Result<Option<ProcessRef>> {
    let parents = process::ancestors(of)?;
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
