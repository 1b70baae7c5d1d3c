//! A workflow: units that are worked through together, by one coordinator at a time (G11, G12, G13).
//!
//! The log knows that a workflow began, by which plan, and how it ended; everything in between is in its units. What must
//! hold:
//!
//! - a workflow's plan never changes: it is kept beside, under its digest, and was on disk before the workflow began;
//! - at most one coordinator leads a workflow: leadership is a lease, taken over only when its time is over or its holder
//!   is known to be dead;
//! - what has ended is not led again, unless somebody opens it again because there is more that can be done.

use serde::{Deserialize, Serialize};

use crate::model::ids::{AgentId, UnitId, WorkflowId};
use crate::model::time::Wall;
use crate::model::words::words;

/// What happened to a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkflowAction {
    Started,
    /// It is to end, its work kept.
    Cancelling,
    Ended,
    /// It had ended before all was done, and goes on.
    Reopened,
}

words! {
    /// How a workflow stands.
    WorkflowOutcome, "outcome", {
        Running = "running", Completed = "completed", Failed = "failed", Cancelled = "cancelled",
    }
}

impl WorkflowOutcome {
    /// In a sentence that begins with the workflow.
    pub fn told(self) -> &'static str {
        match self {
            Self::Running => "runs",
            Self::Completed => "was completed",
            Self::Failed => "failed",
            Self::Cancelled => "was cancelled",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workflow {
    pub id: WorkflowId,
    /// The branch its units land on.
    pub target: String,
    /// The digest of its plan.
    pub plan: String,
    /// Its units, in the plan's order.
    pub units: Vec<UnitId>,
    pub status: WorkflowOutcome,
    /// Somebody wants it to end.
    #[serde(default)]
    pub cancelling: bool,
    pub created_by: AgentId,
    pub created_at: Wall,
    pub ended_at: Option<Wall>,
}

impl Workflow {
    pub fn is_over(&self) -> bool {
        self.status != WorkflowOutcome::Running
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorkflow {
    pub id: WorkflowId,
    pub target: String,
    pub plan: String,
    pub units: Vec<UnitId>,
}
