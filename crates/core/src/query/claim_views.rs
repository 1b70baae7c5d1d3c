//! Claims as people and other programs see them: on the command line, in `claims.jsonl`, in `claims.index.json` and in
//! `changelog.log`.

use serde::{Deserialize, Serialize};

use crate::log::event::{ChangelogAction, Event, Stamped};
use crate::log::line::SCHEMA_VERSION;
use crate::model::ids::{AgentId, IssueId, LeaseId, SessionId, WorktreeId};
use crate::model::json::json_bytes;
use crate::model::lease::Lease;
use crate::model::time::Wall;

/// A lease as the command line, MCP and the web show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LeaseView {
    pub lease_id: LeaseId,
    pub issue_id: Option<IssueId>,
    pub agent_id: AgentId,
    pub worktree_id: Option<WorktreeId>,
    pub branch: Option<String>,
    pub ttl_secs: u64,
    pub acquired_at: Wall,
    pub expires_at: Wall,
    pub token: u64,
    pub parent: Option<LeaseId>,
    pub on_behalf_of: Option<AgentId>,
    pub note: Option<String>,
    /// The session of the holder, where it was known when the lease was acquired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    pub existing: bool,
    pub regranted: bool,
}

impl LeaseView {
    pub fn of(lease: &Lease) -> Self {
        Self {
            lease_id: lease.lease_id.clone(),
            issue_id: lease.resource.issue().cloned(),
            agent_id: lease.agent_id.clone(),
            worktree_id: lease.worktree_id.clone(),
            branch: lease.branch.clone(),
            ttl_secs: lease.ttl_secs,
            acquired_at: lease.acquired_at,
            expires_at: lease.expires_at,
            token: lease.token,
            parent: lease.parent.clone(),
            on_behalf_of: lease.on_behalf_of.clone(),
            note: lease.note.clone(),
            session_id: lease.session_id.clone(),
            existing: false,
            regranted: false,
        }
    }
}

/// A record of `claims.jsonl`. It has only the fields that apply to its operation.
#[derive(Serialize)]
struct ClaimRecord<'a> {
    schema_version: u64,
    sequence: u64,
    op: &'static str,
    lease_id: &'a LeaseId,
    issue_id: Option<&'a IssueId>,
    agent_id: &'a AgentId,
    #[serde(skip_serializing_if = "Option::is_none")]
    renewed_at: Option<Wall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    released_at: Option<Wall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    released_by: Option<&'a AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evicted_at: Option<Wall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transferred_at: Option<Wall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_lease_id: Option<&'a LeaseId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_agent_id: Option<&'a AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_lease: Option<LeaseView>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    regranted: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    restored: bool,
    #[serde(flatten)]
    grant: Option<Granted<'a>>,
}

/// The terms of a lease, for operations that set them.
#[derive(Serialize)]
struct Granted<'a> {
    worktree_id: Option<&'a WorktreeId>,
    branch: Option<&'a str>,
    ttl_secs: u64,
    acquired_at: Wall,
    expires_at: Wall,
    token: u64,
    parent: Option<&'a LeaseId>,
    on_behalf_of: Option<&'a AgentId>,
}

/// The record of `claims.jsonl` for an event, with its newline; `None` for events that are not about claims.
pub fn claims_record(stamped: &Stamped) -> Option<Vec<u8>> {
    let lease = stamped.event.lease()?;
    lease.resource.issue()?;
    let at = Some(stamped.at);
    let mut record = ClaimRecord {
        schema_version: SCHEMA_VERSION,
        sequence: stamped.sequence,
        op: "acquire",
        lease_id: &lease.lease_id,
        issue_id: lease.resource.issue(),
        agent_id: &lease.agent_id,
        renewed_at: None,
        released_at: None,
        released_by: None,
        evicted_at: None,
        by: None,
        reason: None,
        transferred_at: None,
        from_lease_id: None,
        from_agent_id: None,
        to_lease: None,
        regranted: false,
        restored: false,
        grant: None,
    };
    let mut granted = true;
    match &stamped.event {
        Event::Acquired { regranted, .. } => record.regranted = *regranted,
        Event::Restored { .. } => record.restored = true,
        Event::Renewed { .. } => (record.op, record.renewed_at) = ("renew", at),
        Event::Released { by, .. } => {
            (record.op, record.released_at, record.released_by) = ("release", at, Some(by));
            granted = false;
        }
        Event::AutoEvicted { .. } => {
            (record.op, record.evicted_at, record.reason) = ("auto-evict", at, Some("expired"));
            granted = false;
        }
        Event::ForceEvicted { by, reason, .. } => {
            (record.op, record.evicted_at) = ("force-evict", at);
            (record.by, record.reason) = (Some(by), Some(reason.as_str()));
            granted = false;
        }
        Event::Transferred {
            from_lease_id,
            from_agent_id,
            ..
        } => {
            (record.op, record.transferred_at) = ("transfer", at);
            (record.from_lease_id, record.from_agent_id) = (Some(from_lease_id), Some(from_agent_id));
            record.to_lease = Some(LeaseView::of(lease));
        }
        _ => return None,
    }
    record.grant = granted.then_some(Granted {
        worktree_id: lease.worktree_id.as_ref(),
        branch: lease.branch.as_deref(),
        ttl_secs: lease.ttl_secs,
        acquired_at: lease.acquired_at,
        expires_at: lease.expires_at,
        token: lease.token,
        parent: lease.parent.as_ref(),
        on_behalf_of: lease.on_behalf_of.as_ref(),
    });
    let mut line = json_bytes(&record);
    line.push(b'\n');
    Some(line)
}

/// The line of `changelog.log` for an event, with its newline; `None` for events that do not belong there.
pub fn changelog_line(stamped: &Stamped) -> Option<Vec<u8>> {
    #[derive(Serialize)]
    struct Entry<'a> {
        timestamp: Wall,
        worker: &'a AgentId,
        worker_type: &'a str,
        action: ChangelogAction,
        activity_id: Option<&'a IssueId>,
        task_id: Option<&'a IssueId>,
        details: Option<&'a str>,
        sequence: u64,
    }
    let Event::Worked {
        action,
        activity_id,
        task_id,
        details,
        previous: _,
    } = &stamped.event
    else {
        return None;
    };
    let worker = &stamped.actor.agent_id;
    let mut line = json_bytes(&Entry {
        timestamp: stamped.at,
        worker,
        worker_type: if worker.kind() == "human" {
            "human"
        } else {
            "agent"
        },
        action: *action,
        activity_id: activity_id.as_ref(),
        task_id: task_id.as_ref(),
        details: details.as_deref(),
        sequence: stamped.sequence,
    });
    line.push(b'\n');
    Some(line)
}

/// One entry of `claims.index.json`: one line, no newline, `lease_id` first.
pub fn index_entry(lease: &Lease) -> Vec<u8> {
    #[derive(Serialize)]
    struct Entry<'a> {
        lease_id: &'a LeaseId,
        issue_id: Option<&'a IssueId>,
        agent_id: &'a AgentId,
        worktree_id: Option<&'a WorktreeId>,
        branch: Option<&'a str>,
        ttl_secs: u64,
        acquired_at: Wall,
        expires_at: Wall,
        token: u64,
        parent: Option<&'a LeaseId>,
        on_behalf_of: Option<&'a AgentId>,
    }
    json_bytes(&Entry {
        lease_id: &lease.lease_id,
        issue_id: lease.resource.issue(),
        agent_id: &lease.agent_id,
        worktree_id: lease.worktree_id.as_ref(),
        branch: lease.branch.as_deref(),
        ttl_secs: lease.ttl_secs,
        acquired_at: lease.acquired_at,
        expires_at: lease.expires_at,
        token: lease.token,
        parent: lease.parent.as_ref(),
        on_behalf_of: lease.on_behalf_of.as_ref(),
    })
}
