//! What can be asked of the program, and what it answers: one pair of types behind the command line and every other
//! surface. A surface turns its own language into a [`Request`] and a [`Reply`] back; it decides nothing.

use serde::Serialize;

use jit_core::command::Target;
use jit_core::ids::{AgentId, IssueId, IssuePrefix, WorktreeId};
use jit_core::issue::{Issue, Priority, State};
use jit_core::lease::Lease;
use jit_core::time::{Now, Wall};
use jit_core::wire::LeaseView;

#[derive(Debug, Clone)]
pub enum Request {
    Acquire {
        issue: IssuePrefix,
        ttl_secs: Option<u64>,
        wait_secs: Option<u64>,
        note: Option<String>,
        on_behalf_of: Option<AgentId>,
    },
    Renew {
        target: Target,
        ttl_secs: Option<u64>,
    },
    Release {
        target: Target,
    },
    Transfer {
        target: Target,
        to: AgentId,
        worktree: Option<WorktreeId>,
    },
    ForceEvict {
        target: Target,
        reason: String,
    },
    Claims {
        issue: Option<IssuePrefix>,
    },
    History {
        issue: Option<IssuePrefix>,
        agent: Option<AgentId>,
        limit: usize,
    },
    CreateIssue(Box<CreateIssue>),
    ShowIssue {
        issue: IssuePrefix,
    },
    ListIssues {
        filter: IssueFilter,
        limit: Option<usize>,
    },
}

#[derive(Debug, Clone)]
pub struct CreateIssue {
    pub id: Option<IssueId>,
    pub title: String,
    pub kind: String,
    pub state: State,
    pub priority: Priority,
    pub parent: Option<IssuePrefix>,
    pub labels: Vec<String>,
    pub depends_on: Vec<IssuePrefix>,
    pub gates: Vec<String>,
    pub description: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct IssueFilter {
    pub state: Option<State>,
    pub label: Option<String>,
    pub kind: Option<String>,
    pub parent: Option<IssuePrefix>,
    pub assignee: Option<AgentId>,
}

/// What was answered, and what should be said beside it.
#[derive(Debug)]
pub struct Answer {
    pub reply: Reply,
    /// Things noticed on the way; never part of the answer itself.
    pub warnings: Vec<String>,
}

/// Serialises to the documented JSON, whatever surface it is for.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reply {
    Lease(LeaseView),
    Released { released: Vec<LeaseView> },
    Evicted { evicted: Vec<LeaseView> },
    Claims(Claims),
    History { records: Vec<serde_json::Value> },
    Issue(Box<IssueView>),
    Issues { issues: Vec<IssueView> },
}

#[derive(Debug, Serialize)]
pub struct Claims {
    pub schema_version: u64,
    pub sequence: u64,
    pub generated_at: Wall,
    pub active: Vec<ActiveLease>,
}

/// A lease with what a person wants to know about it now.
#[derive(Debug, Serialize)]
pub struct ActiveLease {
    #[serde(flatten)]
    pub lease: LeaseView,
    pub remaining_secs: u64,
    /// Seconds since the holder's last heartbeat; null when it never sent one.
    pub heartbeat_age_secs: Option<u64>,
    /// Whether the process that sends the heartbeats is alive; null when there is none.
    pub heartbeat_alive: Option<bool>,
}

#[derive(Debug, Clone, Serialize)]
pub struct IssueView {
    #[serde(flatten)]
    pub issue: Issue,
    /// The state as people see it: in progress while somebody holds the issue.
    #[serde(skip)]
    pub shown_state: State,
    /// Null in lists.
    pub description: Option<String>,
    pub lease: Option<LeaseView>,
    pub assignee: Option<AgentId>,
}

impl IssueView {
    pub fn new(mut issue: Issue, lease: Option<&Lease>, now: &Now, description: Option<String>) -> Self {
        let lease = lease.filter(|lease| !lease.expired(now));
        let shown_state = match issue.state {
            State::Ready | State::Backlog if lease.is_some() => State::InProgress,
            state => state,
        };
        issue.state = shown_state;
        Self {
            issue,
            shown_state,
            description,
            lease: lease.map(LeaseView::of),
            assignee: lease.map(|lease| lease.agent_id.clone()),
        }
    }
}
