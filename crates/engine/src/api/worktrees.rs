//! Replies about git worktrees and their identities.

use jit_core::model::ids::WorktreeId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The identity and the folders of a worktree.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeInfo {
    pub branch: Option<String>,
    pub common_dir: Option<String>,
    pub created_at: Option<String>,
    pub git_dir: Option<String>,
    pub is_bare: bool,
    pub is_worktree: bool,
    pub local_jit: Option<String>,
    pub relocated_at: Option<String>,
    pub root: Option<String>,
    pub shared_jit: String,
    pub worktree_id: Option<WorktreeId>,
}

/// The identity that a worktree has now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct NewIdentity {
    pub branch: Option<String>,
    pub created_at: String,
    pub root: String,
    pub worktree_id: WorktreeId,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct GitWorktrees {
    pub worktrees: Vec<GitWorktree>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeState {
    Present,
    Bare,
    /// Git has it, but its folder is gone.
    Missing,
}

impl WorktreeState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Bare => "bare",
            Self::Missing => "missing",
        }
    }
}

/// A git worktree.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct GitWorktree {
    pub branch: Option<String>,
    /// Null if git cannot tell.
    pub dirty: Option<bool>,
    pub head: Option<String>,
    /// The agents that hold leases there, each with the issue.
    pub holders: Vec<String>,
    pub is_main: bool,
    /// The reason why git locked it.
    pub locked: Option<String>,
    /// The reason why git would prune it.
    pub prunable: Option<String>,
    pub root: Option<String>,
    pub state: WorktreeState,
    pub worktree_id: Option<String>,
}
