//! Requests and replies about hooks: git and agents ask jit before they act, and commits are verified afterwards.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests, writes};
use crate::api::path::ApiPath;
use crate::api::verify::Verified;

requests! {
    /// Hooks of git and of agents.
    pub enum HookRequest {
        /// Verifies that the commits of a range were made under the leases that they name.
        Verify { range: String } => reads(Nothing),
        /// Whether the calling agent may use a tool, for its shim. Files that the tool writes are locked.
        Permission(ask: Box<PermissionAsk>) => writes(Nothing),
    }
}

replies! {
    pub enum HookReply {
        Verified(Verified),
        Permission(ToolPermission),
    }
}

/// A tool that an agent is about to use.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionAsk {
    /// The agent's own name of the tool.
    pub tool: String,
    /// The tool's input as the agent gave it: a text of JSON.
    pub input: String,
    /// The agent's current folder.
    pub cwd: Option<ApiPath>,
    /// Rules of the agent's job that allow tools.
    pub allowed: Vec<String>,
    /// The agent would ask its user for approval.
    pub approve: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolPermission {
    Allow,
    /// Allowed. The model gets this warning.
    Warn(String),
    /// Denied. The model gets this reason.
    Deny(String),
}
