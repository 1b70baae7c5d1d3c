//! Requests and replies about setting jit up, and about the place and the caller. They work without a log.

use jit_core::model::ids::{AgentId, WorktreeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests};

requests! {
    /// The set-up of a repository, the place, and the caller.
    pub enum SetupRequest {
        /// Which agent the caller is taken for, and why.
        Whoami => reads(Nothing),
    }
}

replies! {
    pub enum SetupReply {
        Caller(Caller),
    }
}

/// The agent that the caller is taken for.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Caller {
    pub agent_id: AgentId,
    pub kind: String,
    pub source: String,
    /// The agent program that the caller runs in.
    pub detected_agent: Option<String>,
    /// The variable that tells it.
    pub detected_by: Option<String>,
    pub worktree_id: Option<WorktreeId>,
    pub branch: Option<String>,
}
