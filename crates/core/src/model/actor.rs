//! Who acts, and from where.

use serde::{Deserialize, Serialize};

use crate::model::ids::{AgentId, WorktreeId};

/// Who acts, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    pub agent_id: AgentId,
    /// None outside any worktree, for example inside a bare repository.
    pub worktree_id: Option<WorktreeId>,
}
