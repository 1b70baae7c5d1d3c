//! Sessions: an agent at work, from its start to its end (F1, F7).
//!
//! The log knows when a session began and how it ended. Heartbeats show that it is alive; they are files outside the log. A
//! session that was not ended and whose heartbeats stopped is stale, and that is not recorded.

use serde::{Deserialize, Serialize};

use crate::model::actor::Actor;
use crate::model::ids::{AgentId, SessionId, WorktreeId};
use crate::model::scope::LockScope;
use crate::model::time::Wall;
use crate::model::words::words;

words! {
    /// How a session stands.
    SessionStatus, "status", { Active = "active", Completed = "completed", Failed = "failed", Stale = "stale" }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Session {
    pub session_id: SessionId,
    pub agent_id: AgentId,
    pub agent_type: String,
    /// The task, when its name has the form `T-015`.
    pub task_id: Option<String>,
    /// `PR-001`.
    pub pr_group: Option<String>,
    pub worktree_id: Option<WorktreeId>,
    /// As people write it: relative to the main checkout where that is shorter.
    pub worktree_path: Option<String>,
    pub branch: Option<String>,
    pub lock_scope: LockScope,
    pub started_at: Wall,
    pub status: SessionStatus,
    pub ended_at: Option<Wall>,
    /// The program it is, where that is known: `claude`, `codex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The id of the session in that program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_session: Option<String>,
}

impl Session {
    /// The actor of the session.
    pub fn actor(&self) -> Actor {
        Actor {
            agent_id: self.agent_id.clone(),
            worktree_id: self.worktree_id.clone(),
        }
    }

    pub fn is_active(&self) -> bool {
        self.status == SessionStatus::Active
    }

    /// As it stands for somebody who knows when its heart beat last.
    pub fn seen(&self, last_beat: Wall, now: Wall, stale_after_ms: i64) -> SessionStatus {
        match self.status {
            SessionStatus::Active if now.ms().saturating_sub(last_beat.ms()) > stale_after_ms => {
                SessionStatus::Stale
            }
            status => status,
        }
    }
}

/// Whether a task's name has the form that the registry asks for: `T-` and three digits.
pub fn is_task(text: &str) -> bool {
    numbered(text, "T-")
}

/// `PR-` and three digits.
pub fn is_pr_group(text: &str) -> bool {
    numbered(text, "PR-")
}

fn numbered(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix)
        .is_some_and(|digits| digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit()))
}
