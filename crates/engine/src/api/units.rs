//! Requests and replies about units: an issue's worktree and branch.

use std::collections::BTreeMap;

use jit_core::model::cost::{Tokens, Usd};
use jit_core::model::failure_reason;
use jit_core::model::ids::{UnitId, WorkflowId};
use jit_core::model::time::Wall;
use jit_core::model::unit::{MergeStatus, Phase, Unit};
use jit_os::shell::shell_word;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::{IfMoved, Nothing};
use crate::api::facts::{named, reads, replies, requests, writes};
use crate::api::path::ApiPath;

requests! {
    /// Units: an issue's worktree and branch. A unit is named by its id, issue, branch or path; no name means the unit
    /// of this worktree.
    pub enum UnitRequest {
        Create(create: Box<CreateUnit>) => writes(named([create.what.as_str()])),
        /// Where a new unit would begin. Refused where none could be created.
        Beginning { base: Option<String> } => reads(Nothing),
        /// One unit, or all units that have not ended.
        Status { unit: Option<String>, all: bool } => reads(Nothing),
        /// Records how attempts ended whose end nobody recorded, and starts shims again that died before their agent.
        Settle { unit: Option<String>, all: bool } => writes(Nothing),
        /// The environment variables of a unit's commands.
        Env { unit: Option<String> } => reads(Nothing),
        /// The changes of a unit since its base.
        Diff { unit: Option<String> } => reads(Nothing),
        /// Lands a unit and removes its worktree; with `pr`, pushes its branch for review instead of landing.
        Finish { unit: Option<String>, pr: bool } => writes(IfMoved),
        Retry { unit: Option<String> } => writes(Nothing),
        /// Units, git worktrees and folders that do not match; with `settle`, repairs them.
        Prune { settle: bool } => writes(Nothing),
    }
}

replies! {
    pub enum UnitReply {
        Unit(Box<UnitView>),
        Units(Units),
        Beginning(Beginning),
        Env(UnitEnv),
        Diff(UnitDiff),
        Orphans(Orphans),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Units {
    pub units: Vec<UnitView>,
}

/// Where a new unit begins.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Beginning {
    /// The branch that it is to land on.
    pub target: String,
    /// The commit that its branch begins at.
    pub base: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct UnitEnv {
    pub env: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Orphans {
    pub orphans: Vec<Orphan>,
}

/// Options for a new unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CreateUnit {
    /// An issue, or a name for a unit without one.
    pub what: String,
    pub base: Option<String>,
    pub path: Option<ApiPath>,
    pub branch: Option<String>,
    pub ttl_secs: Option<u64>,
    /// The workflow that the unit belongs to.
    pub workflow: Option<WorkflowId>,
    /// Name of the unit, if it does not follow from the issue.
    pub name: Option<UnitId>,
    /// The branch to land on, if it is not the default target.
    pub target: Option<String>,
}

/// A unit as it is shown.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct UnitView {
    #[serde(flatten)]
    pub unit: Unit,
    /// Set while an agent runs in the unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<AgentProgress>,
    /// The outcome of an attempt that is not in the log yet: the coordinator of its workflow records it. For a landed
    /// unit: it has commits that its target does not have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
    /// Options of this dispatch that came from the last attempt or the plan, and not from the caller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub as_before: Vec<String>,
}

impl UnitReply {
    /// Whether the end of an attempt may have to be recorded, see `UnitRequest::Settle`.
    pub fn has_agent_at_work(&self) -> bool {
        let is_at_work = |view: &UnitView| {
            view.unit.worker.is_some() && matches!(view.unit.state, Phase::Dispatched | Phase::Running)
        };
        match self {
            Self::Unit(view) => is_at_work(view),
            Self::Units(Units { units }) => units.iter().any(is_at_work),
            Self::Beginning(_) | Self::Env(_) | Self::Diff(_) | Self::Orphans(_) => false,
        }
    }
}

impl UnitView {
    pub fn of(unit: Unit) -> Self {
        Self {
            unit,
            progress: None,
            unsettled: None,
            as_before: Vec::new(),
        }
    }
}

/// Progress of a running agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AgentProgress {
    /// Its last action, as text for people.
    pub last_action: String,
    pub last_event_at: Option<Wall>,
    pub turns: u64,
    pub tokens: Tokens,
    pub cost_usd: Option<Usd>,
    pub running_secs: u64,
    /// Time left until its timeout.
    pub remaining_secs: u64,
    pub remaining_usd: Option<Usd>,
    pub remaining_tokens: Option<u64>,
}

/// The changes of a unit.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct UnitDiff {
    pub unit: UnitId,
    pub base: String,
    pub diff: String,
}

/// A unit, worktree or folder that does not match the others.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Orphan {
    pub path: String,
    pub unit: Option<UnitId>,
    pub what: String,
    /// It was repaired.
    pub settled: bool,
}

/// The state of a unit in one line, for people.
pub fn in_words(unit: &Unit) -> String {
    let failed = unit
        .error
        .as_ref()
        .map(|error| format!(" ({}: {})", error.reason, error.message));
    let attempt = match unit.attempt {
        0 | 1 => String::new(),
        n => format!(", attempt {n}"),
    };
    let given_up = unit.abandoned.as_ref().filter(|_| unit.is_over());
    let given_up = given_up.map(|why| format!(": {why}"));
    format!(
        "{}{attempt}{}{}",
        in_a_word(unit),
        failed.unwrap_or_default(),
        given_up.unwrap_or_default()
    )
}

/// The commands for a person if a unit waits for one.
pub fn for_a_person(unit: &Unit) -> Option<String> {
    let (id, path) = (&unit.id, shell_word(&unit.worktree_path));
    let give_up = format!("or give it up: jit worktree abandon {id} --reason <why>");
    let reason = unit.error.as_ref().map(|error| error.reason.as_str());
    Some(match (unit.state, reason, &unit.account) {
        (Phase::Merged | Phase::Cleanup, ..) => {
            format!("it has landed, and its worktree is still there: jit worktree cleanup {id} --force")
        }
        (Phase::Completed | Phase::Merging, ..) => format!("when that is mended: jit worktree merge {id}"),
        (Phase::Failed, Some(failure_reason::CONFLICT), _) => format!(
            "settle it in {path} (git merge {}) and commit, then: jit worktree merge {id}; {give_up}",
            shell_word(unit.goes_to())
        ),
        (Phase::Failed, Some(failure_reason::RATE_LIMIT), Some(account)) => {
            format!("when it may be used again: jit worktree unpark {account}; {give_up}")
        }
        (Phase::Failed, ..) if !unit.may_be_retried() => {
            format!(
                "its work is in {path}, and it was tried too often: jit worktree abandon {id} --reason <why>"
            )
        }
        (Phase::Failed, ..) => format!(
            "mend it in {path}, then: jit worktree retry {id}, or for its agent alone jit worktree dispatch {id}; {give_up}"
        ),
        _ => return None,
    })
}

/// The state of a unit; for an ended unit, how it ended.
pub fn in_a_word(unit: &Unit) -> String {
    let end = match (unit.state, unit.merge_status, &unit.abandoned) {
        (Phase::Idle, MergeStatus::Merged, _) => " (landed)",
        (Phase::Idle, _, Some(_)) => " (abandoned)",
        (Phase::Idle, _, None) => " (not made)",
        _ => "",
    };
    format!("{}{end}", unit.state)
}
