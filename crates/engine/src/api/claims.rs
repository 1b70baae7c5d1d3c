//! Requests and replies about leases on issues.

use jit_core::decide::command::Target;
use jit_core::model::ids::{AgentId, IssuePrefix, WorktreeId};
use jit_core::model::time::Wall;
use jit_core::query::claim_views::LeaseView;
use jit_os::process::ProcessRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::{IfMoved, Nothing};
use crate::api::facts::{reads, replies, requests, writes};
use crate::api::issues::IssueView;

requests! {
    /// Leases on issues.
    pub enum ClaimRequest {
        /// Acquires an issue. With `wait_secs`, waits so long for its holder.
        Acquire {
            issue: IssuePrefix,
            ttl_secs: Option<u64>,
            wait_secs: Option<u64>,
            note: Option<String>,
            on_behalf_of: Option<AgentId>,
        } => writes(IfMoved).on_leases(),
        /// Picks the best issue that is ready, and acquires it.
        Next {
            label: Option<String>,
            kind: Option<String>,
            ttl_secs: Option<u64>,
            wait_secs: Option<u64>,
        } => writes(IfMoved).on_leases(),
        Renew { target: Target, ttl_secs: Option<u64> } => writes(IfMoved).on_leases(),
        Release { target: Target } => writes(IfMoved).on_leases(),
        Transfer {
            target: Target,
            to: AgentId,
            worktree: Option<WorktreeId>,
        } => writes(IfMoved).on_leases(),
        /// Ends the lease of another holder.
        ForceEvict { target: Target, reason: String } => writes(IfMoved).on_leases(),
        /// Writes a sign of life of the caller for a process, and renews the leases and file locks of the caller here.
        Heartbeat {
            process: ProcessRef,
            /// The interval to record. It is at most a third of the shortest lease; the setting counts if not given.
            interval_secs: Option<u64>,
        } => writes(Nothing).despite_settings(),
        /// The process with this number, and the agent that a heartbeat for it belongs to.
        Vouch { pid: u32 } => reads(Nothing),
        /// Active leases, of all issues or of one.
        List { issue: Option<IssuePrefix> } => reads(IfMoved),
        /// Records of past and present leases, the newest `limit`.
        History {
            issue: Option<IssuePrefix>,
            agent: Option<AgentId>,
            limit: usize,
        } => reads(IfMoved),
    }
}

replies! {
    pub enum ClaimReply {
        Lease(LeaseView),
        /// The lease on the issue that was picked, together with the issue.
        Picked(Box<Picked>),
        Released(Released),
        Evicted(Evicted),
        Heartbeat(Heartbeat),
        Vouched(Vouched),
        Active(ActiveClaims),
        History(ClaimHistory),
    }
}

/// An agent's sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    pub agent_id: AgentId,
    pub worktree_id: Option<WorktreeId>,
    pub branch: Option<String>,
    pub pid: u32,
    #[serde(default)]
    pub start_time: u64,
    pub last_beat: Wall,
    pub interval_secs: u64,
}

/// A heartbeat may begin.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Vouched {
    pub agent_id: AgentId,
    /// The file with the heartbeats of the agent.
    pub file: String,
    pub process: ProcessRef,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Released {
    pub released: Vec<LeaseView>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Evicted {
    pub evicted: Vec<LeaseView>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClaimHistory {
    pub records: Vec<serde_json::Value>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Picked {
    #[serde(flatten)]
    pub lease: LeaseView,
    pub issue: IssueView,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActiveClaims {
    pub schema_version: u64,
    pub sequence: u64,
    pub generated_at: Wall,
    pub active: Vec<ActiveLease>,
}

/// A lease with the details shown to people.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ActiveLease {
    #[serde(flatten)]
    pub lease: LeaseView,
    pub remaining_secs: u64,
    /// Seconds since the holder's last heartbeat; null if it never sent one.
    pub heartbeat_age_secs: Option<u64>,
    /// Whether the process that sends the heartbeats is alive; null if there is none.
    pub heartbeat_alive: Option<bool>,
}
