//! A unit of work: one worktree, one branch, from its creation to its end (G1).
//!
//! [`TRANSITIONS`] is the whole machine. [`step`] looks a transition up, [`Phase::owes`] says what the engine has to make true in
//! a phase; the pictures and tables in the documentation and the tests that try every pair are made from it. What must hold:
//!
//! - a unit is in exactly one phase, and moves only along the table;
//! - every phase can be reached and left, and from everywhere there is a way to the end.
//!
//! `decide/units.rs` decides whether a unit may move, and has the rules about claims, attempts and accounts.

use serde::{Deserialize, Serialize};

use crate::model::account::AccountId;
use crate::model::cost::{Tokens, Usd};
use crate::model::failure_reason::{CONFLICT, RATE_LIMIT};
use crate::model::ids::{AgentId, IssueId, IssuePrefix, LeaseId, UnitId, WorkflowId, WorktreeId};
use crate::model::time::Wall;
use crate::model::words::words;

words! {
    /// Where a unit is in its life.
    Phase, "state", {
        Idle = "IDLE", Provisioning = "PROVISIONING", Ready = "READY", Dispatched = "DISPATCHED",
        Running = "RUNNING", Completed = "COMPLETED", Failed = "FAILED", Merging = "MERGING", Merged = "MERGED",
        Cleanup = "CLEANUP",
    }
}

words! {
    /// An input of the machine: something that can happen to a unit.
    UnitInput, "transition", {
        CreateWorktree = "create_worktree", ProvisioningComplete = "provisioning_complete",
        ProvisioningFailed = "provisioning_failed", RolledBack = "rolled_back",
        DispatchInstance = "dispatch_instance", SpawnFailed = "spawn_failed",
        InstanceRunning = "instance_running", InstanceCompleted = "instance_completed",
        InstanceFailed = "instance_failed", InstanceTimeout = "instance_timeout", BeginMerge = "begin_merge",
        MergeSuccess = "merge_success", MergeConflictEscalate = "merge_conflict_escalate",
        BeginCleanup = "begin_cleanup", RetryDispatch = "retry_dispatch", Abandon = "abandon",
        CleanedUp = "cleaned_up", MoreWork = "more_work", WorktreeMoved = "worktree_moved",
        MergePutOff = "merge_put_off",
    }
}

/// One edge of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// `T1` to `T14`; edges that undo or end one have the name of what they undo or end, and a dash; `T0` changes nothing but
    /// where the worktree is.
    pub id: &'static str,
    pub from: Phase,
    pub input: UnitInput,
    pub to: Phase,
}

const fn edge(id: &'static str, from: Phase, input: UnitInput, to: Phase) -> Transition {
    Transition { id, from, input, to }
}

/// The machine.
pub const TRANSITIONS: &[Transition] = &[
    edge("T1", Phase::Idle, UnitInput::CreateWorktree, Phase::Provisioning),
    edge(
        "T2",
        Phase::Provisioning,
        UnitInput::ProvisioningComplete,
        Phase::Ready,
    ),
    edge(
        "T3",
        Phase::Provisioning,
        UnitInput::ProvisioningFailed,
        Phase::Failed,
    ),
    edge("T1-", Phase::Provisioning, UnitInput::RolledBack, Phase::Idle),
    edge("T4", Phase::Ready, UnitInput::DispatchInstance, Phase::Dispatched),
    edge("T4-", Phase::Dispatched, UnitInput::SpawnFailed, Phase::Ready),
    edge(
        "T5",
        Phase::Dispatched,
        UnitInput::InstanceRunning,
        Phase::Running,
    ),
    edge(
        "T6",
        Phase::Running,
        UnitInput::InstanceCompleted,
        Phase::Completed,
    ),
    edge("T7", Phase::Running, UnitInput::InstanceFailed, Phase::Failed),
    edge("T7", Phase::Dispatched, UnitInput::InstanceFailed, Phase::Failed),
    edge("T7", Phase::Merging, UnitInput::InstanceFailed, Phase::Failed),
    edge("T8", Phase::Running, UnitInput::InstanceTimeout, Phase::Failed),
    edge("T8", Phase::Dispatched, UnitInput::InstanceTimeout, Phase::Failed),
    edge("T9", Phase::Completed, UnitInput::BeginMerge, Phase::Merging),
    edge("T9", Phase::Failed, UnitInput::BeginMerge, Phase::Merging),
    edge("T10", Phase::Merging, UnitInput::MergeSuccess, Phase::Merged),
    edge("T11", Phase::Merged, UnitInput::BeginCleanup, Phase::Cleanup),
    edge("T12", Phase::Failed, UnitInput::RetryDispatch, Phase::Ready),
    edge("T13", Phase::Failed, UnitInput::Abandon, Phase::Cleanup),
    edge("T13", Phase::Ready, UnitInput::Abandon, Phase::Cleanup),
    edge("T13", Phase::Completed, UnitInput::Abandon, Phase::Cleanup),
    edge(
        "T14",
        Phase::Merging,
        UnitInput::MergeConflictEscalate,
        Phase::Failed,
    ),
    edge("T11-", Phase::Cleanup, UnitInput::CleanedUp, Phase::Idle),
    edge("T10-", Phase::Merged, UnitInput::MoreWork, Phase::Completed),
    edge("T9-", Phase::Merging, UnitInput::MergePutOff, Phase::Completed),
    edge("T0", Phase::Ready, UnitInput::WorktreeMoved, Phase::Ready),
    edge(
        "T0",
        Phase::Dispatched,
        UnitInput::WorktreeMoved,
        Phase::Dispatched,
    ),
    edge("T0", Phase::Running, UnitInput::WorktreeMoved, Phase::Running),
    edge("T0", Phase::Completed, UnitInput::WorktreeMoved, Phase::Completed),
    edge("T0", Phase::Failed, UnitInput::WorktreeMoved, Phase::Failed),
    edge("T0", Phase::Merging, UnitInput::WorktreeMoved, Phase::Merging),
    edge("T0", Phase::Merged, UnitInput::WorktreeMoved, Phase::Merged),
];

/// Where a unit goes from a phase, if that can happen there.
pub fn step(phase: Phase, input: UnitInput) -> Option<&'static Transition> {
    TRANSITIONS
        .iter()
        .find(|edge| edge.from == phase && edge.input == input)
}

/// A duty of the engine while a unit is in a phase. Each says "make sure that", so beginning it and going on with it after
/// a crash are the same code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// The worktree and its branch are there, provisioned and checked.
    Worktree,
    /// The agent has been started, once.
    Agent,
    /// The agent's end is noticed.
    Watch,
    /// It is on the target, or it is known why not.
    Landing,
    /// All that is of worth is kept elsewhere; then the worktree is gone.
    Removal,
}

impl Phase {
    pub fn owes(self) -> &'static [Owed] {
        match self {
            Self::Provisioning => &[Owed::Worktree],
            Self::Dispatched => &[Owed::Agent, Owed::Watch],
            Self::Running => &[Owed::Watch],
            Self::Merging => &[Owed::Landing],
            Self::Cleanup => &[Owed::Removal],
            // A person or a coordinator decides the next step.
            Self::Ready | Self::Completed | Self::Failed | Self::Merged => &[],
            Self::Idle => &[],
        }
    }

    /// The inputs that this phase accepts.
    pub fn inputs(self) -> impl Iterator<Item = UnitInput> {
        TRANSITIONS
            .iter()
            .filter(move |edge| edge.from == self)
            .map(|edge| edge.input)
    }
}

words! {
    /// How far a unit's way to the target has come.
    MergeStatus, "merge status", {
        Pending = "pending", Merging = "merging", Merged = "merged", Conflict = "conflict", Failed = "failed",
    }
}

/// Why a unit failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Failure {
    /// `provisioning`, `merge_conflict`, `validation`, `dirty`, `artifacts_missing`, `timeout`, …
    pub reason: String,
    pub message: String,
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Where all that was printed is kept.
    #[serde(default)]
    pub output: Option<String>,
}

/// A path in conflict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Clash {
    pub path: String,
    /// `content`, `add/add`, `modify/delete`, `rename/rename`, …
    pub kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Artifact {
    pub path: String,
    #[serde(rename = "type")]
    pub kind: String,
}

/// Something that was handed to a unit's agent: a file in the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Handed {
    /// A unit, or the agent that worked in this one before.
    pub from: String,
    /// Seen from the control plane's folder.
    pub path: String,
    /// SHA-256 of what was handed over.
    pub digest: String,
    pub bytes: u64,
    /// The attempt whose agent was told first.
    pub attempt: u32,
}

/// A unit as it is after what happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Unit {
    pub id: UnitId,
    /// The agent program in it, `manual` for a person, or none yet.
    pub agent: Option<String>,
    pub state: Phase,
    pub worktree_path: String,
    pub branch: String,
    /// The branch it is to land on.
    pub target: String,
    /// The commit its branch began at.
    pub base: String,
    pub issue_id: Option<IssueId>,
    pub project_id: Option<String>,
    pub worktree_id: Option<WorktreeId>,
    pub created_at: Wall,
    pub created_by: AgentId,
    pub provisioning_time_ms: Option<u64>,
    pub pid: Option<u32>,
    pub session_id: Option<String>,
    pub dispatch_time: Option<Wall>,
    pub start_time: Option<Wall>,
    pub completion_time: Option<Wall>,
    pub cost_usd: Option<Usd>,
    pub duration_ms: Option<u64>,
    pub retry_count: u32,
    pub artifacts: Vec<Artifact>,
    pub error: Option<Failure>,
    pub merge_status: MergeStatus,
    pub merge_attempt_time: Option<Wall>,
    pub merge_commit: Option<String>,
    /// The checks it had passed, as merged, when it landed.
    #[serde(default)]
    pub tested: Vec<Passed>,
    /// The lease under which it landed.
    #[serde(default)]
    pub lease_id: Option<LeaseId>,
    pub merge_conflicts: Vec<Clash>,
    /// How often a conflict was sent back to its worktree.
    pub conflict_rounds: u32,
    /// Leased for its environment: a block of ports, counted from 0.
    pub slot: u32,
    /// Why it was given up.
    pub abandoned: Option<String>,
    /// The workflow it is part of.
    #[serde(default)]
    pub workflow: Option<WorkflowId>,
    /// How many agents were started for it, or for an earlier unit of this name.
    #[serde(default)]
    pub attempt: u32,
    /// The id of the last attempt's agent in claims, locks and commits.
    #[serde(default)]
    pub worker: Option<AgentId>,
    /// Of all attempts together, as the cost is.
    #[serde(default)]
    pub tokens: Tokens,
    #[serde(default)]
    pub turns: u64,
    /// The account its last agent was started on.
    #[serde(default)]
    pub account: Option<AccountId>,
    /// Since when all its attempts ended because their account was refused.
    #[serde(default)]
    pub limited_since: Option<Wall>,
    /// Why the last attempt failed, for whoever comes next.
    #[serde(default)]
    pub last_error: Option<Failure>,
    /// The commit that failed, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_tip: Option<String>,
    /// The commit of the target that it failed on, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_onto: Option<String>,
    /// The branch that its landing has begun for, and where it then is, where that is not its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing_on: Option<String>,
    /// The commit of its branch that its landing has begun with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing_tip: Option<String>,
    /// Where its agent may write, as patterns of paths in its worktree; none: anywhere in it.
    #[serde(default)]
    pub writes: Vec<String>,
    /// Handoffs that its agents got.
    #[serde(default)]
    pub handoffs: Vec<Handed>,
    pub updated_at: Wall,
}

impl Unit {
    /// The branch it goes to, or is on: the one that its landing has begun for, else its target.
    pub fn goes_to(&self) -> &str {
        self.landing_on.as_deref().unwrap_or(&self.target)
    }

    /// It has ended, or never began.
    pub fn is_over(&self) -> bool {
        self.state == Phase::Idle
    }

    /// Whether a unit that failed may be tried again.
    pub fn may_be_retried(&self) -> bool {
        self.retry_count < MAX_RETRIES || !was_its_failure(self)
    }

    /// No agent works in it.
    pub fn is_by_hand(&self) -> bool {
        self.agent.as_deref().is_none_or(|agent| agent == MANUAL)
    }

    /// Whether a person committed something since it failed, in it or on the target that it failed on: the failed attempt was
    /// not about that commit.
    pub fn is_mended(&self, tip: Option<&str>, onto: Option<&str>) -> bool {
        let own = tip.is_some() && self.failed_tip.as_deref() != tip;
        let theirs = onto.is_some() && self.failed_onto.is_some() && self.failed_onto.as_deref() != onto;
        self.is_by_hand() && (own || theirs)
    }

    /// The commands to run when it has failed and is mended.
    pub fn after_failure(&self) -> Vec<String> {
        let retry = format!("jit worktree retry {}", self.id);
        let abandon = format!("jit worktree abandon {} --reason <why>", self.id);
        match (self.may_be_retried(), self.is_by_hand()) {
            (true, _) => vec![retry],
            (false, true) => {
                let place = match self.failed_onto {
                    Some(_) => format!("there or on {}", self.goes_to()),
                    None => "there".to_owned(),
                };
                vec![format!("when a commit {place} mends it: {retry}"), abandon]
            }
            (false, false) => vec![abandon],
        }
    }
}

/// A unit that is to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUnit {
    pub id: UnitId,
    pub issue: Option<IssuePrefix>,
    pub worktree_path: String,
    pub branch: String,
    pub target: String,
    pub base: String,
    pub ttl_secs: Option<u64>,
    pub workflow: Option<WorkflowId>,
}

/// Facts that became known with a transition. `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    pub agent: Option<String>,
    pub worktree_id: Option<WorktreeId>,
    /// Where it was moved to.
    pub worktree_path: Option<String>,
    pub base: Option<String>,
    /// The commit its branch is at.
    pub tip: Option<String>,
    /// The commit its target is at.
    pub onto: Option<String>,
    /// The branch that a landing begins for, or came to, where that is not the target.
    pub landing_on: Option<String>,
    pub provisioning_time_ms: Option<u64>,
    pub pid: Option<u32>,
    pub session_id: Option<String>,
    pub worker: Option<AgentId>,
    pub account: Option<AccountId>,
    /// Started although that account is parked.
    pub despite_parked: bool,
    /// The agent ended because its account was refused: the account is parked in the same breath.
    pub refused: Option<Refused>,
    /// The cost of this attempt, on top of the ones before.
    pub spent: Option<Usd>,
    pub tokens: Tokens,
    pub turns: u64,
    pub duration_ms: Option<u64>,
    pub artifacts: Option<Vec<Artifact>>,
    pub error: Option<Failure>,
    pub merge_commit: Option<String>,
    pub tested: Option<Vec<Passed>>,
    pub lease_id: Option<LeaseId>,
    pub merge_conflicts: Option<Vec<Clash>>,
    pub conflict_rounds: Option<u32>,
    pub abandoned: Option<String>,
    pub writes: Option<Vec<String>>,
    /// Besides what was handed over before.
    pub handoffs: Vec<Handed>,
}

/// A check that was passed, and how many tests it counted, if it said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Passed {
    pub name: String,
    pub tests: Option<u64>,
}

/// A refusal by the provider of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// When it may be asked again, if that was said.
    pub until: Option<Wall>,
    /// How long to leave the account alone where nothing was said.
    pub backoff_ms: u64,
}

/// The agent of a unit that a person works in.
pub const MANUAL: &str = "manual";
/// How often a failed unit may be tried again.
pub const MAX_RETRIES: u32 = 3;

/// It failed because the account of its agent was refused.
pub fn was_refused(unit: &Unit) -> bool {
    let reason = unit.error.as_ref().map(|error| error.reason.as_str());
    unit.state == Phase::Failed && reason == Some(RATE_LIMIT)
}

/// Whether that a unit failed counts as one of its tries. An account that was refused says nothing about it, and rounds of
/// conflicts are counted apart.
fn was_its_failure(unit: &Unit) -> bool {
    let reason = unit.error.as_ref().map(|error| error.reason.as_str());
    !was_refused(unit) && reason != Some(CONFLICT)
}

pub(crate) fn moved(mut unit: Unit, edge: &Transition, facts: &Facts, now: Wall) -> Unit {
    fn take<T: Clone>(goal: &mut Option<T>, fact: &Option<T>) {
        if fact.is_some() {
            goal.clone_from(fact);
        }
    }
    let counts = was_its_failure(&unit);
    unit.state = edge.to;
    unit.updated_at = now;
    take(&mut unit.agent, &facts.agent);
    take(&mut unit.worktree_id, &facts.worktree_id);
    take(&mut unit.provisioning_time_ms, &facts.provisioning_time_ms);
    take(&mut unit.pid, &facts.pid);
    // The number of a process that has ended may be somebody else's by now.
    if edge.to != Phase::Running {
        unit.pid = None;
    }
    match edge.input {
        // Another agent has another session, or will say which.
        UnitInput::DispatchInstance => unit.session_id.clone_from(&facts.session_id),
        _ => take(&mut unit.session_id, &facts.session_id),
    }
    take(&mut unit.worker, &facts.worker);
    take(&mut unit.account, &facts.account);
    if let Some(spent) = facts.spent {
        unit.cost_usd = Some(Usd(unit.cost_usd.unwrap_or_default().0.saturating_add(spent.0)));
    }
    unit.tokens = unit.tokens.plus(facts.tokens);
    unit.turns = unit.turns.saturating_add(facts.turns);
    take(&mut unit.duration_ms, &facts.duration_ms);
    take(&mut unit.merge_commit, &facts.merge_commit);
    take(&mut unit.lease_id, &facts.lease_id);
    if let Some(tested) = &facts.tested {
        unit.tested.clone_from(tested);
    }
    take(&mut unit.abandoned, &facts.abandoned);
    if let Some(path) = &facts.worktree_path {
        unit.worktree_path.clone_from(path);
    }
    if let Some(base) = &facts.base {
        unit.base.clone_from(base);
    }
    if let Some(artifacts) = &facts.artifacts {
        unit.artifacts.clone_from(artifacts);
    }
    if let Some(conflicts) = &facts.merge_conflicts {
        unit.merge_conflicts.clone_from(conflicts);
    }
    if let Some(rounds) = facts.conflict_rounds {
        unit.conflict_rounds = rounds;
    }
    if let Some(writes) = &facts.writes {
        unit.writes.clone_from(writes);
    }
    unit.handoffs.extend(facts.handoffs.iter().cloned());
    // A failure stays known until the unit goes on.
    unit.error = match edge.to {
        Phase::Failed | Phase::Cleanup | Phase::Idle => facts.error.clone().or(unit.error),
        _ => None,
    };
    if edge.to == Phase::Failed {
        unit.last_error.clone_from(&unit.error);
        unit.failed_tip.clone_from(&facts.tip);
        unit.failed_onto.clone_from(&facts.onto);
        unit.limited_since = was_refused(&unit).then(|| unit.limited_since.unwrap_or(now));
    }
    if edge.to == Phase::Completed {
        unit.limited_since = None;
    }
    match edge.input {
        UnitInput::DispatchInstance => {
            unit.attempt += 1;
            // A new attempt of an agent goes to the unit's target; a person may only be mending a landing.
            if !unit.is_by_hand() {
                unit.landing_on = None;
            }
            unit.dispatch_time = Some(now);
            unit.start_time = None;
            unit.completion_time = None;
        }
        // Of an earlier attempt there may be work.
        UnitInput::SpawnFailed if unit.attempt <= 1 => unit.dispatch_time = None,
        UnitInput::InstanceRunning => unit.start_time = Some(now),
        UnitInput::InstanceCompleted | UnitInput::InstanceTimeout => unit.completion_time = Some(now),
        UnitInput::InstanceFailed if edge.from != Phase::Merging => unit.completion_time = Some(now),
        UnitInput::InstanceFailed => unit.merge_status = MergeStatus::Failed,
        UnitInput::BeginMerge => {
            unit.merge_status = MergeStatus::Merging;
            unit.merge_attempt_time = Some(now);
            unit.landing_on.clone_from(&facts.landing_on);
            unit.landing_tip.clone_from(&facts.tip);
        }
        UnitInput::MergeSuccess => {
            unit.landing_on.clone_from(&facts.landing_on);
            unit.merge_status = MergeStatus::Merged;
            unit.merge_conflicts.clear();
        }
        UnitInput::MoreWork | UnitInput::MergePutOff => unit.merge_status = MergeStatus::Pending,
        UnitInput::MergeConflictEscalate => unit.merge_status = MergeStatus::Conflict,
        UnitInput::RetryDispatch => {
            unit.retry_count += u32::from(counts);
            unit.merge_status = MergeStatus::Pending;
        }
        UnitInput::Abandon => unit.landing_on = None,
        _ => {}
    }
    unit
}

/// The machine as a table for the documentation.
pub fn table() -> String {
    let mut out = String::from("| id | from | when | to |\n|---|---|---|---|\n");
    for edge in TRANSITIONS {
        out.push_str(&format!(
            "| {} | {} | `{}` | {} |\n",
            edge.id, edge.from, edge.input, edge.to
        ));
    }
    out
}

/// The machine as a Mermaid diagram.
pub fn diagram() -> String {
    let mut out = String::from("stateDiagram-v2\n    [*] --> IDLE\n");
    for edge in TRANSITIONS {
        out.push_str(&format!(
            "    {} --> {} : {} {}\n",
            edge.from, edge.to, edge.id, edge.input
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G1: every pair of phase and input is either one edge or none, and the machine has the properties it promises.
    #[test]
    fn g1_every_pair_has_at_most_one_edge_and_every_phase_can_be_left_and_reached() {
        for phase in Phase::ALL {
            for input in UnitInput::ALL {
                let edges = TRANSITIONS
                    .iter()
                    .filter(|e| e.from == *phase && e.input == *input);
                assert!(edges.count() <= 1, "{phase} {input}");
            }
            let between = || TRANSITIONS.iter().filter(|e| e.from != e.to);
            assert!(between().any(|e| e.from == *phase), "{phase} is a dead end");
            assert!(between().any(|e| e.to == *phase), "{phase} is never reached");
        }
        for input in UnitInput::ALL {
            assert!(
                TRANSITIONS.iter().any(|e| e.input == *input),
                "{input} never happens"
            );
        }
    }

    #[test]
    fn g1_from_everywhere_there_is_a_way_to_the_end() {
        let mut home = vec![Phase::Idle];
        let mut grew = true;
        while grew {
            grew = false;
            for edge in TRANSITIONS {
                if home.contains(&edge.to) && !home.contains(&edge.from) {
                    home.push(edge.from);
                    grew = true;
                }
            }
        }
        assert_eq!(home.len(), Phase::ALL.len());
    }

    #[test]
    fn g1_the_edges_are_those_of_the_design() {
        let mut ids: Vec<&str> = TRANSITIONS.iter().map(|edge| edge.id).collect();
        ids.dedup();
        for n in 1..=14 {
            assert!(ids.contains(&format!("T{n}").as_str()), "T{n}");
        }
        for (phase, input, to) in [
            (Phase::Dispatched, UnitInput::InstanceFailed, Some(Phase::Failed)),
            (Phase::Merging, UnitInput::InstanceFailed, Some(Phase::Failed)),
            (Phase::Dispatched, UnitInput::SpawnFailed, Some(Phase::Ready)),
            (Phase::Failed, UnitInput::BeginMerge, Some(Phase::Merging)),
            (Phase::Completed, UnitInput::Abandon, Some(Phase::Cleanup)),
            (Phase::Merged, UnitInput::Abandon, None),
            (Phase::Merged, UnitInput::MoreWork, Some(Phase::Completed)),
            (Phase::Merging, UnitInput::MergePutOff, Some(Phase::Completed)),
            (Phase::Provisioning, UnitInput::WorktreeMoved, None),
            // A worktree that is being removed is not followed: it may have been restored elsewhere.
            (Phase::Cleanup, UnitInput::WorktreeMoved, None),
            (Phase::Running, UnitInput::Abandon, None),
            (Phase::Ready, UnitInput::BeginMerge, None),
            (Phase::Idle, UnitInput::CleanedUp, None),
        ] {
            assert_eq!(step(phase, input).map(|edge| edge.to), to, "{phase} {input}");
        }
    }
}
