//! Leases and places in the queue as they are stored: in payloads of events, and as values of the state.

use serde::{Deserialize, Serialize};

use crate::model::actor::Actor;
use crate::model::file_lock::{FileTarget, Labels, Ticket};
use crate::model::glob::Pattern;
use crate::model::ids::{AgentId, IssueId, LeaseId, SessionId, TicketId, WorkflowId, WorktreeId};
use crate::model::json::json_bytes;
use crate::model::lease::{Lease, Resource};
use crate::model::scope::LockScope;
use crate::model::time::Wall;

/// A lease as stored, with what some events say beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseRecord {
    pub lease_id: LeaseId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue_id: Option<IssueId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowId>,
    pub agent_id: AgentId,
    pub worktree_id: Option<WorktreeId>,
    pub branch: Option<String>,
    pub ttl_secs: u64,
    pub acquired_at: Wall,
    pub expires_at: Wall,
    pub token: u64,
    pub deadline: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<LeaseId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_behalf_of: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub regranted: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brief: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AgentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_lease_id: Option<LeaseId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_agent_id: Option<AgentId>,
}

impl LeaseRecord {
    pub fn of(lease: &Lease) -> Self {
        Self {
            lease_id: lease.lease_id.clone(),
            issue_id: lease.resource.issue().cloned(),
            file: lease.resource.file().map(FileRecord::of),
            workflow: lease.resource.workflow().cloned(),
            agent_id: lease.agent_id.clone(),
            worktree_id: lease.worktree_id.clone(),
            branch: lease.branch.clone(),
            ttl_secs: lease.ttl_secs,
            acquired_at: lease.acquired_at,
            expires_at: lease.expires_at,
            token: lease.token,
            deadline: lease.deadline,
            parent: lease.parent.clone(),
            on_behalf_of: lease.on_behalf_of.clone(),
            note: lease.note.clone(),
            session_id: lease.session_id.clone(),
            regranted: false,
            brief: false,
            by: None,
            reason: None,
            from_lease_id: None,
            from_agent_id: None,
        }
    }

    pub fn lease(self) -> Result<Lease, String> {
        let holder = || Actor {
            agent_id: self.agent_id.clone(),
            worktree_id: self.worktree_id.clone(),
        };
        let resource = match (self.issue_id, self.file, self.workflow) {
            (Some(issue), None, None) => Resource::Issue(issue),
            (None, Some(file), None) => Resource::File(Box::new(file.target(holder()))),
            (None, None, Some(workflow)) => Resource::Workflow(workflow),
            _ => return Err("a lease is on an issue, on a file or on a workflow".into()),
        };
        Ok(Lease {
            lease_id: self.lease_id,
            resource,
            agent_id: self.agent_id,
            worktree_id: self.worktree_id,
            branch: self.branch,
            ttl_secs: self.ttl_secs,
            acquired_at: self.acquired_at,
            expires_at: self.expires_at,
            deadline: self.deadline,
            token: self.token,
            parent: self.parent,
            on_behalf_of: self.on_behalf_of,
            note: self.note,
            session_id: self.session_id,
        })
    }
}

/// A locked pattern, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    #[serde(with = "pattern_text")]
    pattern: Pattern,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    outside: bool,
    scope: LockScope,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
    latest: u64,
    #[serde(flatten)]
    labels: Labels,
}

mod pattern_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use crate::model::glob::Pattern;

    pub fn serialize<S: Serializer>(pattern: &Pattern, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(pattern.as_str())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Pattern, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl FileRecord {
    pub fn of(target: &FileTarget) -> Self {
        Self {
            pattern: target.pattern.clone(),
            outside: target.outside,
            scope: target.scope,
            shared: target.shared,
            latest: target.latest,
            labels: target.labels.clone(),
        }
    }

    pub fn target(self, holder: Actor) -> FileTarget {
        FileTarget {
            pattern: self.pattern,
            outside: self.outside,
            scope: self.scope,
            shared: self.shared,
            holder,
            latest: self.latest,
            labels: self.labels,
        }
    }
}

/// A place in the queue, as stored.
#[derive(Serialize, Deserialize)]
pub(crate) struct TicketRecord {
    ticket_id: TicketId,
    agent_id: AgentId,
    worktree_id: Option<WorktreeId>,
    wants: Vec<FileRecord>,
    since: Wall,
    deadline: u64,
}

impl TicketRecord {
    pub fn of(ticket: &Ticket, holder: &Actor) -> Self {
        Self {
            ticket_id: ticket.ticket_id.clone(),
            agent_id: holder.agent_id.clone(),
            worktree_id: holder.worktree_id.clone(),
            wants: ticket.wants.iter().map(FileRecord::of).collect(),
            since: ticket.since,
            deadline: ticket.deadline,
        }
    }

    pub fn ticket(self) -> Ticket {
        let holder = Actor {
            agent_id: self.agent_id,
            worktree_id: self.worktree_id,
        };
        let wants = self.wants.into_iter();
        Ticket {
            ticket_id: self.ticket_id,
            wants: wants.map(|want| want.target(holder.clone())).collect(),
            since: self.since,
            deadline: self.deadline,
        }
    }
}

/// A place in the queue as a table value.
pub fn encode_ticket(ticket: &Ticket) -> Vec<u8> {
    // A ticket wants at least one lock.
    ticket
        .wants
        .first()
        .map(|want| json_bytes(&TicketRecord::of(ticket, &want.holder)))
        .unwrap_or_default()
}

pub fn decode_ticket(bytes: &[u8]) -> Result<Ticket, String> {
    serde_json::from_slice::<TicketRecord>(bytes)
        .map(TicketRecord::ticket)
        .map_err(|e| e.to_string())
}

/// A lease as a table value.
pub fn encode_lease(lease: &Lease) -> Vec<u8> {
    json_bytes(&LeaseRecord::of(lease))
}

pub fn decode_lease(bytes: &[u8]) -> Result<Lease, String> {
    serde_json::from_slice::<LeaseRecord>(bytes)
        .map_err(|e| e.to_string())?
        .lease()
}
