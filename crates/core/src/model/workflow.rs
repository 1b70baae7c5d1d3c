//! A workflow: units that are worked through together, by one coordinator at a time (G11, G12, G13).
//!
//! The log knows that a workflow began, by which plan, and how it ended; everything in between is in its units. The plan never
//! changes: it is kept beside the log, under its digest, and was on disk before the workflow began.

use serde::{Deserialize, Serialize};

use crate::model::ids::{AgentId, UnitId, WorkflowId};
use crate::model::time::Wall;
use crate::model::words::words;

/// An event of a workflow.
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Workflow {
    pub id: WorkflowId,
    /// The branch its units land on.
    pub target: String,
    /// The digest of its plan.
    pub plan: String,
    /// Its units, in the plan's order.
    pub units: Vec<UnitId>,
    pub status: WorkflowOutcome,
    /// Its end was asked for.
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
