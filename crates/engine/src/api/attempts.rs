//! Requests that start an agent in a unit, stop it, or hand its work to another agent.

use jit_core::model::account::{Account, AccountId};
use jit_core::model::ids::{SessionId, UnitId};
use jit_core::model::plan::{HandoffBy, PlanArtifact, PlanUnit, Settings};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::Artifact;
use jit_store::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::{IfMoved, Nothing};
use crate::api::facts::{reads, replies, requests, writes};
use crate::api::path::ApiPath;
use crate::api::units::UnitView;

requests! {
    /// Attempts: an agent at work in a unit.
    pub enum AttemptRequest {
        /// Starts an agent in a unit.
        Dispatch(ask: Box<DispatchAsk>) => writes(IfMoved),
        /// Hands the work of an agent to another agent.
        Handoff(ask: Box<HandAsk>) => writes(IfMoved).writes_if(!ask.print),
        /// Stops the agent of a unit.
        Stop { unit: Option<String>, reason: String } => writes(Nothing),
        /// Allows agents to be started on a parked account again.
        Unpark { account: AccountId } => writes(Nothing),
        /// Shows the settings that an agent would be started with. Refuses a parked account, unless `force` is set.
        Preview { run: Box<Settings>, force: bool } => reads(Nothing),
        /// Where the files of an attempt are; no attempt means the last one of the unit.
        Folder { unit: Option<String>, attempt: Option<u32> } => reads(Nothing),
        /// Starts the session of the calling agent, for its shim.
        StartSession => writes(Nothing).despite_settings(),
        /// One beat of a shim for the calling agent: records a heartbeat of its session, renews its leases, and parks its
        /// account while it waits for its limit.
        KeepAlive { unit: UnitId, attempt: u32, session: Option<SessionId> } => writes(Nothing).despite_settings(),
        /// Releases the file locks of the calling agent and ends its session, for its shim. `well` means that the agent
        /// ended by itself and without an error.
        EndSession { session: Option<SessionId>, well: bool } => writes(Nothing).despite_settings(),
    }
}

replies! {
    pub enum AttemptReply {
        Handoff(Box<HandoffView>),
        Account(Box<Account>),
        Preview(Box<AgentPreview>),
        Folder(AttemptFolder),
        KeptAlive(KeptAlive),
        SessionEnded(EndedSession),
    }
}

/// The settings of an agent that has not been started.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentPreview {
    /// The settings of the caller over those of the configuration.
    pub settings: Settings,
    /// Limits that cannot be enforced, and locks that have no effect.
    pub cautions: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AttemptFolder {
    pub folder: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct KeptAlive {
    /// Number of renewed leases.
    pub renewed: u64,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EndedSession {
    pub session: Option<SessionId>,
}

/// How a further attempt starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
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
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DispatchAsk {
    /// Unit, issue, branch or path; none means the unit of this worktree.
    pub unit: Option<String>,
    pub run: Settings,
    /// Added to the text of the issue.
    pub prompt: Option<String>,
    /// A file with the prompt, or a template that replaces the built-in one.
    pub prompt_file: Option<ApiPath>,
    pub again: Again,
    pub artifacts: Vec<Artifact>,
    pub validate: Vec<String>,
    /// Paths the agent may write. `None` keeps the paths of the previous attempt.
    pub writes: Option<Vec<String>>,
    /// Handoffs from other units.
    pub handoffs: Handoffs,
    /// The project that the unit belongs to, from its plan.
    pub project_id: Option<String>,
    /// Dispatches even if the account is parked.
    pub force: bool,
}

impl DispatchAsk {
    /// Returns the options that a plan gives for a unit's agent.
    pub(crate) fn of_plan(id: &UnitId, planned: &PlanUnit) -> Outcome<Self> {
        let name = |name: &String| {
            name.parse::<UnitId>()
                .map_err(|e| Box::new(Refusal::new(Code::Invalid, e.to_string())))
        };
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
            project_id: planned.project_id.clone(),
            force: false,
        })
    }
}

/// A handoff by hand (`jit handoff`).
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
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
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Handoffs {
    /// Units that have landed.
    pub from: Vec<UnitId>,
    /// `None` means both ways.
    pub by: Option<HandoffBy>,
    /// The phase that starts with this unit.
    pub barrier: u32,
}

/// A handoff, and its receiver.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HandoffView {
    /// The unit whose work the handoff describes.
    pub unit: UnitId,
    pub from: String,
    /// A kind of agent, or a unit.
    pub to: String,
    /// The stored file; `None` if the handoff was only shown.
    pub path: Option<String>,
    pub digest: String,
    pub bytes: u64,
    pub text: String,
    /// The receiving unit, if the handoff was delivered.
    pub receiver: Option<UnitView>,
}
