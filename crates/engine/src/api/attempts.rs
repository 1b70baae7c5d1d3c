//! TODO header

use std::path::PathBuf;

use jit_core::model::ids::UnitId;
use jit_core::model::plan::{HandoffBy, PlanArtifact, PlanUnit, Settings};
use jit_core::model::refusal::Code;
use jit_core::model::unit::Artifact;
use jit_store::Outcome;

use crate::refusals::refuse;

/// How a further attempt begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Again {
    /// With nothing but the prompt.
    #[default]
    Fresh,
    /// With all that the last attempt knew.
    Resume,
    /// The same, and the last attempt's session stays as it is.
    Fork,
}

/// How an agent is to be started.
#[derive(Debug, Clone, Default)]
pub struct DispatchAsk {
    /// Unit, issue, branch or path; none means the unit of this worktree.
    pub unit: Option<String>,
    pub run: Settings,
    /// Besides what the issue says.
    pub prompt: Option<String>,
    /// A file with words, or a template instead of the built-in one.
    pub prompt_file: Option<PathBuf>,
    pub again: Again,
    pub artifacts: Vec<Artifact>,
    pub validate: Vec<String>,
    /// Where it may write; as the attempt before, when nothing is said.
    pub writes: Option<Vec<String>>,
    /// What others have for it.
    pub handoffs: Handoffs,
    /// Also on an account that is parked.
    pub force: bool,
}

impl DispatchAsk {
    /// What a plan asks of a unit's agent.
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

/// What is asked for by hand.
#[derive(Debug, Clone, Default)]
pub struct HandAsk {
    /// Unit, issue, branch or path.
    pub unit: String,
    /// A kind of agent that goes on in the same worktree.
    pub to: Option<String>,
    /// A unit whose next agent is told.
    pub to_unit: Option<String>,
    pub note: Option<String>,
    /// Only show it.
    pub print: bool,
    /// How the other agent is run.
    pub run: Settings,
}

/// What a unit of a plan is to be told about others.
#[derive(Debug, Clone, Default)]
pub struct Handoffs {
    /// Units that have landed.
    pub from: Vec<UnitId>,
    /// Both ways, when nothing is said.
    pub by: Option<HandoffBy>,
    /// The phase that begins with it.
    pub barrier: u32,
}
