//! The one lease: somebody may use something until a deadline.
//!
//! A claim on an issue is a lease; so is a lock on a file, and so is a coordinator's leadership of a workflow. The
//! log position of the grant is the fencing token: of two leases on one resource the later one has the higher token.

use serde::{Deserialize, Serialize};

use crate::model::actor::Actor;
use crate::model::file_lock::FileTarget;
use crate::model::ids::{AgentId, IssueId, LeaseId, SessionId, WorkflowId, WorktreeId};
use crate::model::time::{Now, Wall};

/// A thing that can be leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    Issue(IssueId),
    File(Box<FileTarget>),
    /// To be the one coordinator of a workflow.
    Workflow(WorkflowId),
}

impl Resource {
    /// The key that all leases on the same thing share.
    pub fn key(&self) -> String {
        match self {
            Self::Issue(id) => format!("issue:{}", id.key()),
            Self::File(target) => target.key(),
            Self::Workflow(id) => format!("workflow:{id}"),
        }
    }

    pub fn issue(&self) -> Option<&IssueId> {
        match self {
            Self::Issue(id) => Some(id),
            Self::File(_) | Self::Workflow(_) => None,
        }
    }

    pub fn file(&self) -> Option<&FileTarget> {
        match self {
            Self::File(target) => Some(target),
            Self::Issue(_) | Self::Workflow(_) => None,
        }
    }

    pub fn workflow(&self) -> Option<&WorkflowId> {
        match self {
            Self::Workflow(id) => Some(id),
            Self::Issue(_) | Self::File(_) => None,
        }
    }
}

/// A grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub lease_id: LeaseId,
    pub resource: Resource,
    pub agent_id: AgentId,
    pub worktree_id: Option<WorktreeId>,
    pub branch: Option<String>,
    pub ttl_secs: u64,
    pub acquired_at: Wall,
    /// For people. Decisions use `deadline`.
    pub expires_at: Wall,
    /// Boot-clock milliseconds, in the boot the state is anchored to.
    pub deadline: u64,
    /// Log position of the grant.
    pub token: u64,
    /// The lease this one lives inside; its end is this one's end.
    pub parent: Option<LeaseId>,
    /// The parent agent. It may end the lease from any worktree.
    pub on_behalf_of: Option<AgentId>,
    /// The note that the holder gave when it acquired the lease.
    pub note: Option<String>,
    /// The session of the holder, where it was known when the lease was acquired.
    pub session_id: Option<SessionId>,
}

impl Lease {
    pub fn expired(&self, now: &Now) -> bool {
        self.deadline <= now.ticks
    }

    /// The same lease inside another, if there is one: it cannot outlive that.
    #[must_use]
    pub fn within(mut self, outer: Option<&Self>, now: &Now) -> Self {
        if let Some(outer) = outer {
            self.parent = Some(outer.lease_id.clone());
            if outer.deadline < self.deadline {
                self.deadline = outer.deadline;
                self.expires_at = outer.expires_at;
                self.ttl_secs = outer.remaining_ms(now).div_ceil(1000).max(1);
            }
        }
        self
    }

    /// Milliseconds left, zero when expired.
    pub fn remaining_ms(&self, now: &Now) -> u64 {
        self.deadline.saturating_sub(now.ticks)
    }

    /// Whether `actor` holds it: same agent in the same worktree. What came from a lock file was taken in none, and is its
    /// holder's anywhere.
    pub fn held_by(&self, actor: &Actor) -> bool {
        let is_anywhere = self.worktree_id.is_none() && is_from_file(self);
        self.agent_id == actor.agent_id && (is_anywhere || self.worktree_id == actor.worktree_id)
    }

    /// Whether `actor` may renew, release or hand it on: its holder, or the one it works for.
    pub fn obeys(&self, actor: &Actor) -> bool {
        self.held_by(actor) || self.on_behalf_of.as_ref() == Some(&actor.agent_id)
    }

    /// Whether `actor` may release it. The holder of an issue may from any worktree: the one it was acquired in may be
    /// gone, and then the lease could only expire.
    pub fn may_be_released_by(&self, actor: &Actor) -> bool {
        self.obeys(actor) || (self.resource.issue().is_some() && self.agent_id == actor.agent_id)
    }
}

/// How a lease came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseEnd {
    Released,
    Expired,
    Evicted,
    Transferred,
}

/// The note of a lease that stands for a lock file.
pub const LOCK_FILE_NOTE: &str = "from its lock file";

/// The holder of a lock file that its writer has not finished yet.
pub const UNNAMED_HOLDER: &str = "agent:unknown";

/// Whether the lease stands for a lock file that was not written by `jit`.
pub fn is_from_file(lease: &Lease) -> bool {
    lease.note.as_deref() == Some(LOCK_FILE_NOTE)
}
