//! The overview of the whole repository: who does what, and what needs a person.

use jit_core::model::account::Parked;
use jit_core::model::ids::{AgentId, WorktreeId};
use jit_core::model::issue::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::claims::ActiveLease;
use crate::api::facts::TreeScope::All;
use crate::api::facts::{reads, replies, requests};
use crate::api::issues::Counts;
use crate::api::landing::Unpushed;

requests! {
    /// The whole repository at a glance.
    pub enum OverviewRequest {
        /// Agents at work, and everything that needs a person.
        Status => reads(All),
    }
}

replies! {
    pub enum OverviewReply {
        Status(Box<Status>),
    }
}

/// The overview of the whole repository on one screen.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub agent_id: AgentId,
    pub worktree_id: Option<WorktreeId>,
    pub branch: Option<String>,
    pub sequence: u64,
    pub counts: Counts,
    /// All active leases, with the titles of their issues.
    pub active: Vec<StatusClaim>,
    /// The best issues that can be acquired now.
    pub ready: Vec<StatusIssue>,
    /// Work that only a person can continue: it waits for a person, is blocked with a reason, is held without
    /// heartbeats, or conflicts with its target.
    pub needs_attention: Vec<StatusIssue>,
    /// Targets with landings that are not pushed, as far as this clone knows.
    pub unpushed: Vec<Unpushed>,
    /// Parked accounts, and until when they are parked.
    pub parked: Vec<Parked>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct StatusClaim {
    #[serde(flatten)]
    pub claim: ActiveLease,
    pub title: Option<String>,
    pub mine: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct StatusIssue {
    /// The id of the unit, if there is no issue.
    pub id: String,
    pub title: String,
    pub priority: Priority,
    pub why: Option<String>,
}
