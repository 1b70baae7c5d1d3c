//! Requests that start an agent in a unit, or hand its work to another agent.

use std::path::PathBuf;

use jit_core::model::ids::UnitId;
use jit_core::model::plan::{HandoffBy, PlanArtifact, PlanUnit, Settings};
use jit_core::model::refusal::Code;
use jit_core::model::unit::Artifact;
use jit_store::Outcome;

use crate::refusals::refuse;

/// How a further attempt starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Again {
    /// A new session that gets only the prompt.
    #[default]
    Fresh,
    /// Resumes the session of the last attempt, with everything it knows.
    Resume,
    /// Resumes a copy of that session. The session of the last attempt stays unchanged.
    Fork,
}

/// Options for starting an agent.
#[derive(Debug, Clone, Default)]
pub struct DispatchAsk {
    /// Unit, issue, branch or path; none means the unit of this worktree.
    pub unit: Option<String>,
    pub run: Settings,
    /// Added to the text of the issue.
    pub prompt: Option<String>,
    /// A file with the prompt, or a template that replaces the built-in one.
    pub prompt_file: Option<PathBuf>,
    pub again: Again,
    pub artifacts: Vec<Artifact>,
    pub validate: Vec<String>,
    /// Paths the agent may write. `None` keeps the paths of the previous attempt.
    pub writes: Option<Vec<String>>,
    /// Handoffs from other units.
    pub handoffs: Handoffs,
    /// Dispatches even if the account is parked.
    pub force: bool,
}

impl DispatchAsk {
    /// Returns the options that a plan gives for a unit's agent.
    pub(crate) fn of_plan(id: &UnitId, planned: &PlanUnit) -> Outcome<Self> {
        let name = |name: &String| name.parse::<UnitId>().map_err(|e| refuse(Code::Invalid, e));
        let from: Outcome<Vec<UnitId>> = planned.handoff_from.iter().map(name).collect();
        let artifact = |wanted: &PlanArtifact| Artifact {
            path: wanted.path.clone(),
            kind: wanted.kind.clone(),
        };
        Ok(Self {
            unit: Some(id.to_string()),
            run: planned.run.clone(),
            prompt: planned.prompt.clone(),
            prompt_file: None,
            again: Again::Fresh,
            artifacts: planned.artifacts.iter().map(artifact).collect(),
            validate: planned.validate.clone(),
            writes: Some(planned.writes.clone()),
            handoffs: Handoffs {
                from: from?,
                by: planned.handoff,
                barrier: planned.phase,
            },
            force: false,
        })
    }
}

/// A handoff by hand (`jit handoff`).
#[derive(Debug, Clone, Default)]
pub struct HandAsk {
    /// Unit, issue, branch or path.
    pub unit: String,
    /// Kind of the agent that continues in the same worktree.
    pub to: Option<String>,
    /// Unit whose next agent receives the handoff.
    pub to_unit: Option<String>,
    pub note: Option<String>,
    /// Shows the handoff and changes nothing.
    pub print: bool,
    /// Settings of the receiving agent.
    pub run: Settings,
}

/// Handoffs that a unit of a plan receives from other units.
#[derive(Debug, Clone, Default)]
pub struct Handoffs {
    /// Units that have landed.
    pub from: Vec<UnitId>,
    /// `None` means both ways.
    pub by: Option<HandoffBy>,
    /// The phase that starts with this unit.
    pub barrier: u32,
}
