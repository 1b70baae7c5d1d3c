//! Requests and replies about setting jit up, and about the place and the caller. They work without a log.

use jit_core::model::ids::{AgentId, WorktreeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests};
use crate::api::path::ApiPath;

requests! {
    /// The set-up of a repository, the place, and the caller.
    pub enum SetupRequest {
        /// Which agent the caller is taken for, and why.
        Whoami => reads(Nothing),
        /// The agent of the session that a process above the caller is bound to.
        BoundAgent => reads(Nothing),
        /// The folder with everything that all worktrees share and git never sees.
        ControlFolder => reads(Nothing),
    }
}

replies! {
    pub enum SetupReply {
        Caller(Caller),
        BoundAgent(BoundAgent),
        ControlFolder(ControlFolder),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct BoundAgent {
    pub agent_id: Option<AgentId>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ControlFolder {
    pub path: ApiPath,
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
