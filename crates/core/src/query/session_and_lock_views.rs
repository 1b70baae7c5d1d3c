//! Sessions and file locks as other programs see them: on the command line, and in the two files beside the log.
//!
//! # Format
//!
//! `agent_sessions.json`: `{"sessions":{<session_id>:…},"metadata":{"last_updated","active_count","sequence"}}`.
//! `agent_lock.json`: `{"locks":{<lock_key>:…},"metadata":{"last_updated","active_locks","sequence"}}`. Where several
//! hold one pattern, the key of each is followed by `#` and the agent. The entries are those of [`crate::compat`], with
//! a few fields more. `sequence` is the last event that the file knows of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::compat::{
    LockMode, LockRecord, Locks, LocksMetadata, RecordedSessionStatus, SessionRecord, Sessions,
    SessionsMetadata,
};
use crate::model::file_lock::FileTarget;
use crate::model::ids::{AgentId, LeaseId, SessionId, WorktreeId};
use crate::model::lease::Lease;
use crate::model::scope::LockScope;
use crate::model::session::{Session, SessionStatus};
use crate::model::time::{Now, Wall};

/// A session with what is known of its heart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SessionView {
    pub session_id: SessionId,
    pub agent_id: AgentId,
    pub agent_type: String,
    pub task_id: Option<String>,
    pub pr_group: Option<String>,
    pub worktree_path: Option<String>,
    pub branch: Option<String>,
    pub lock_scope: LockScope,
    pub started_at: Wall,
    pub last_heartbeat: Wall,
    pub status: SessionStatus,
    pub worktree_id: Option<WorktreeId>,
    pub ended_at: Option<Wall>,
    pub program: Option<String>,
    pub program_session: Option<String>,
}

impl SessionView {
    /// `beat`: the last sign of life, if there was one after its start.
    pub fn of(session: &Session, beat: Option<Wall>, now: Wall, stale_after_ms: i64) -> Self {
        let last_heartbeat = beat
            .filter(|beat| *beat > session.started_at)
            .unwrap_or(session.started_at);
        let last_heartbeat = session
            .ended_at
            .map_or(last_heartbeat, |end| last_heartbeat.min(end));
        Self {
            session_id: session.session_id.clone(),
            agent_id: session.agent_id.clone(),
            agent_type: session.agent_type.clone(),
            task_id: session.task_id.clone(),
            pr_group: session.pr_group.clone(),
            worktree_path: session.worktree_path.clone(),
            branch: session.branch.clone(),
            lock_scope: session.lock_scope,
            started_at: session.started_at,
            last_heartbeat,
            status: session.seen(last_heartbeat, now, stale_after_ms),
            worktree_id: session.worktree_id.clone(),
            ended_at: session.ended_at,
            program: session.program.clone(),
            program_session: session.program_session.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LockView {
    pub lock_key: String,
    pub file_path: String,
    pub lock_scope: LockScope,
    pub worktree_path: Option<String>,
    pub pr_group: Option<String>,
    pub branch: Option<String>,
    pub agent_id: AgentId,
    pub agent_type: Option<String>,
    pub task_id: Option<String>,
    pub acquired_at: Wall,
    pub expires_at: Wall,
    pub lock_type: LockMode,
    pub lease_id: LeaseId,
    pub worktree_id: Option<WorktreeId>,
    pub token: u64,
}

impl LockView {
    /// `None` for leases on other things.
    pub fn of(lease: &Lease) -> Option<Self> {
        let file: &FileTarget = lease.resource.file()?;
        let local = file.scope == LockScope::Worktree;
        let in_worktree = |text: &Option<String>| text.clone().filter(|_| local);
        Some(Self {
            lock_key: file.lock_key(),
            file_path: file.path(),
            lock_scope: file.scope,
            worktree_path: in_worktree(&file.labels.worktree_path),
            pr_group: in_worktree(&file.labels.pr_group),
            branch: in_worktree(&lease.branch),
            agent_id: lease.agent_id.clone(),
            agent_type: file.labels.agent_type.clone(),
            task_id: file.labels.task_id.clone(),
            acquired_at: lease.acquired_at,
            expires_at: lease.expires_at,
            lock_type: match file.shared {
                true => LockMode::Shared,
                false => LockMode::Exclusive,
            },
            lease_id: lease.lease_id.clone(),
            worktree_id: lease.worktree_id.clone(),
            token: lease.token,
        })
    }
}

impl SessionView {
    /// As it stands in the registry.
    fn record(&self) -> SessionRecord {
        SessionRecord {
            session_id: self.session_id.to_string(),
            agent_id: self.agent_id.to_string(),
            agent_type: self.agent_type.clone(),
            task_id: self.task_id.clone(),
            pr_group: self.pr_group.clone(),
            worktree_path: self.worktree_path.clone(),
            branch: self.branch.clone(),
            lock_scope: self.lock_scope,
            started_at: self.started_at,
            last_heartbeat: Some(self.last_heartbeat),
            status: match self.status {
                SessionStatus::Active => RecordedSessionStatus::Active,
                SessionStatus::Completed => RecordedSessionStatus::Completed,
                SessionStatus::Failed => RecordedSessionStatus::Failed,
                SessionStatus::Stale => RecordedSessionStatus::Stale,
            },
            others: more([
                ("worktree_id", json!(self.worktree_id)),
                ("ended_at", json!(self.ended_at)),
            ]),
        }
    }
}

impl LockView {
    /// As it stands in the registry.
    fn record(&self) -> LockRecord {
        LockRecord {
            lock_key: self.lock_key.clone(),
            file_path: self.file_path.clone(),
            lock_scope: self.lock_scope,
            worktree_path: self.worktree_path.clone(),
            pr_group: self.pr_group.clone(),
            branch: self.branch.clone(),
            agent_id: self.agent_id.to_string(),
            agent_type: self.agent_type.clone(),
            task_id: self.task_id.clone(),
            acquired_at: self.acquired_at,
            expires_at: self.expires_at,
            lock_type: self.lock_type,
            others: more([
                ("lease_id", json!(self.lease_id)),
                ("worktree_id", json!(self.worktree_id)),
                ("token", json!(self.token)),
            ]),
        }
    }
}

/// Fields that are not in the format.
fn more<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The content of `agent_sessions.json`.
pub fn sessions_file(sessions: &[SessionView], now: Wall, sequence: u64) -> Vec<u8> {
    let active = sessions
        .iter()
        .filter(|s| s.status == SessionStatus::Active)
        .count();
    pretty(&Sessions {
        sessions: sessions
            .iter()
            .map(|session| (session.session_id.to_string(), session.record()))
            .collect(),
        metadata: SessionsMetadata {
            last_updated: Some(now),
            active_count: active as u64,
            others: more([("sequence", json!(sequence))]),
        },
        others: Map::new(),
    })
}

/// The content of `agent_lock.json`: the locks that live.
pub fn locks_file(leases: &[Lease], now: &Now, sequence: u64) -> Vec<u8> {
    let live = leases.iter().filter(|lease| !lease.expired(now));
    let views: Vec<LockView> = live.filter_map(LockView::of).collect();
    let mut several: BTreeMap<&str, usize> = BTreeMap::new();
    for view in &views {
        *several.entry(&view.lock_key).or_default() += 1;
    }
    let locks = views
        .iter()
        .map(|view| {
            let key = match several.get(view.lock_key.as_str()) {
                Some(1) => view.lock_key.clone(),
                _ => format!("{}#{}", view.lock_key, view.agent_id),
            };
            (key, view.record())
        })
        .collect();
    pretty(&Locks {
        locks,
        metadata: LocksMetadata {
            last_updated: Some(now.wall),
            active_locks: views.len() as u64,
            others: more([("sequence", json!(sequence))]),
        },
        others: Map::new(),
    })
}
