//! An agent or person that acts, and the worktree it acts from.

use serde::{Deserialize, Serialize};

use crate::model::ids::{AgentId, WorktreeId};

/// An agent or person that acts, and the worktree it acts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    pub agent_id: AgentId,
    /// None outside any worktree, for example inside a bare repository.
    pub worktree_id: Option<WorktreeId>,
}
