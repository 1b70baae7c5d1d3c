//! The API: one [`Request`] type and one [`Reply`] type for the command line and every other surface. A surface
//! converts its own language into a [`Request`], and the [`Reply`] back. It decides nothing.

pub mod attempts;
pub mod file_locks;
pub mod gates;
pub mod init;
pub mod issue_list;
pub mod landing;
pub mod notify;
pub mod rescue;
pub mod sessions;
pub mod trust;
pub mod units;
pub mod verify;
use std::collections::BTreeMap;
use std::sync::Arc;

use jit_core::decide::command::{IssueChange, Target};
use jit_core::exchange::{ImportProblem, Parsed, Skipped};
use jit_core::model::account::{Account, AccountId, Parked};
use jit_core::model::cost::{Tokens, Usd};
use jit_core::model::ids::{AgentId, IssueId, IssuePrefix, LeaseId, SessionId, UnitId, WorktreeId};
use jit_core::model::issue::{Comment, GateResult, Issue, IssueState, Performer, Priority};
use jit_core::model::lease::Lease;
use jit_core::model::scope::LockScope;
use jit_core::model::session::SessionStatus;
use jit_core::model::time::{Now, Wall};
use jit_core::model::unit::{Passed, Unit};
use jit_core::model::workflow::Workflow;
use jit_core::query::claim_views::LeaseView;
use jit_core::query::graph::{Branch, Graph, GraphData};
use jit_core::query::session_and_lock_views::{LockView, SessionView};
use serde::Serialize;

use crate::api::attempts::DispatchAsk;
use crate::api::attempts::HandAsk;
use crate::api::file_locks::{LockPaths, OwnLocks};
use crate::api::gates::{Gate, GateName};
use crate::api::landing::MergeAsk;
use crate::api::landing::Unpushed;
use crate::api::landing::{MergeReport, Picture};
use crate::api::notify::Sent;
use crate::api::sessions::StartSession;
use crate::api::trust::Need;
use crate::api::units::CreateUnit;
use crate::api::verify::Verified;

pub use issue_list::{Listed, Listing};
pub use rescue::{Cleaned, Force, RescueReply, RescueRequest, RescueView};

pub use gates::{GateReport, GateStanding, GateStatus, GateView, Judgement};

#[derive(Debug, Clone)]
pub enum Request {
    Acquire {
        issue: IssuePrefix,
        ttl_secs: Option<u64>,
        wait_secs: Option<u64>,
        note: Option<String>,
        on_behalf_of: Option<AgentId>,
    },
    Renew {
        target: Target,
        ttl_secs: Option<u64>,
    },
    Release {
        target: Target,
    },
    Transfer {
        target: Target,
        to: AgentId,
        worktree: Option<WorktreeId>,
    },
    ForceEvict {
        target: Target,
        reason: String,
    },
    Claims {
        issue: Option<IssuePrefix>,
    },
    History {
        issue: Option<IssuePrefix>,
        agent: Option<AgentId>,
        limit: usize,
    },
    /// Picks the best issue that is ready, and acquires it.
    Next {
        label: Option<String>,
        kind: Option<String>,
        ttl_secs: Option<u64>,
        wait_secs: Option<u64>,
    },
    CreateIssue(Box<CreateIssue>),
    ChangeIssue {
        issue: IssuePrefix,
        change: Box<IssueChange>,
        /// The new description; an empty text removes it.
        description: Option<String>,
        /// Refuses unless the caller holds the issue.
        strict: bool,
    },
    DeleteIssue {
        issue: IssuePrefix,
        strict: bool,
    },
    RestoreIssue {
        issue: IssueId,
    },
    Comment {
        issue: IssuePrefix,
        text: String,
    },
    ShowIssue {
        issue: IssuePrefix,
    },
    ListIssues {
        filter: IssueFilter,
        sort: Sort,
        limit: Option<usize>,
    },
    Search {
        text: String,
        limit: Option<usize>,
    },
    /// Issues that can be acquired now, best first.
    Ready {
        filter: IssueFilter,
        limit: Option<usize>,
    },
    Blocked,
    Progress {
        issue: Option<IssuePrefix>,
    },
    DefineGates {
        /// The gates come from an export: they were not written here, and none may replace another.
        brought: bool,
        gates: Vec<(GateName, Gate)>,
    },
    /// Deletes a gate definition from this tree.
    UndefineGate {
        name: String,
    },
    /// Requires an issue to pass a gate. The gate must be defined.
    RequireGate {
        issue: IssuePrefix,
        gate: String,
        strict: bool,
    },
    /// Runs the named gate, or every automatic gate that the issue must pass.
    RunGates {
        issue: IssuePrefix,
        gate: Option<String>,
    },
    /// Records a judgement about a gate without a command.
    JudgeGate {
        issue: IssuePrefix,
        gate: String,
        passed: bool,
        note: Option<String>,
    },
    /// Lists all gates; with an issue, the gates that apply to it and their state.
    ListGates {
        issue: Option<IssuePrefix>,
    },
    /// Lists the commands that came with the repository, and whether they are trusted.
    Commands,
    /// Trusts these commands, exactly as they were shown.
    Trust {
        commands: Vec<Need>,
    },
    /// Revokes the trust in all commands of this repository.
    Revoke,
    /// The overview: agents at work, and everything that needs a person.
    Status,
    /// The dependency graph: all issues, or those connected with one issue.
    Graph {
        issue: Option<IssuePrefix>,
        /// Includes done and rejected issues.
        closed: bool,
    },
    /// The dependencies of one issue, as a tree.
    DepTree {
        issue: IssuePrefix,
    },
    Import(Arc<Import>),
    Export,
    CreateUnit(Box<CreateUnit>),
    /// One unit, or all units that have not ended.
    UnitStatus {
        unit: Option<String>,
        all: bool,
    },
    /// The environment variables of a unit's commands.
    UnitEnv {
        unit: Option<String>,
    },
    RetryUnit {
        unit: Option<String>,
    },
    /// Starts an agent in a unit.
    Dispatch(Box<DispatchAsk>),
    /// Hands the work of an agent to another agent.
    Handoff(Box<HandAsk>),
    /// Stops the agent of a unit.
    StopUnit {
        unit: Option<String>,
        reason: String,
    },
    /// Allows agents to be started on a parked account again.
    Unpark {
        account: AccountId,
    },
    /// Sends a test notification.
    NotifyTest,
    /// The changes of a unit since its base.
    UnitDiff {
        unit: Option<String>,
    },
    /// All running workflows; with `all`, also those that have ended.
    Workflows {
        all: bool,
    },
    /// One workflow. `None` means the only running one, or else the last one.
    WorkflowStatus {
        workflow: Option<String>,
    },
    /// Units that landed.
    Landings {
        unit: Option<String>,
        limit: usize,
    },
    /// Units, git worktrees and folders that do not match; with `settle`, repairs them.
    PruneUnits {
        settle: bool,
    },
    StartSession(Box<StartSession>),
    /// Records a heartbeat. `None` means the caller's own session.
    BeatSession {
        session: Option<SessionId>,
    },
    EndSession {
        session: Option<SessionId>,
        status: SessionStatus,
    },
    /// With `all`, also sessions that have ended.
    ListSessions {
        all: bool,
    },
    ShowSession {
        session: Option<SessionId>,
    },
    PruneSessions,
    /// Locks all of these paths or none, after waiting in the queue if `wait_secs` is set.
    LockAcquire {
        paths: LockPaths,
        wait_secs: Option<u64>,
    },
    LockCheck {
        paths: LockPaths,
    },
    LockExtend {
        which: OwnLocks,
        ttl_secs: Option<u64>,
    },
    LockRelease {
        which: OwnLocks,
    },
    LockList,
    LockCleanup,
    /// Verifies that the commits of a range were made under the leases that they name.
    Verify {
        range: String,
    },
    /// Lands units on their target.
    Merge(Box<MergeAsk>),
    /// Lands a unit and removes its worktree; with `pr`, pushes its branch for review instead of landing.
    Finish {
        unit: Option<String>,
        pr: bool,
    },
    /// Conflicts between worktrees, or between these branches.
    Conflicts {
        into: Option<String>,
        branches: Vec<String>,
    },
    /// Removes worktrees, and restores the work that was in them.
    Rescue(RescueRequest),
}

impl Request {
    /// Whether the request depends on leases.
    pub fn claims(&self) -> bool {
        matches!(
            self,
            Self::Acquire { .. }
                | Self::Next { .. }
                | Self::Renew { .. }
                | Self::Release { .. }
                | Self::Transfer { .. }
                | Self::ForceEvict { .. }
                | Self::ChangeIssue { .. }
                | Self::DeleteIssue { .. }
                | Self::RequireGate { .. }
        )
    }

    /// Whether the request may write. If so, the worktree needs an identity.
    pub fn writes(&self) -> bool {
        match self {
            Self::Acquire { .. }
            | Self::Renew { .. }
            | Self::Release { .. }
            | Self::Transfer { .. }
            | Self::ForceEvict { .. }
            | Self::Next { .. }
            | Self::CreateIssue(_)
            | Self::ChangeIssue { .. }
            | Self::DeleteIssue { .. }
            | Self::RestoreIssue { .. }
            | Self::Comment { .. }
            | Self::DefineGates { .. }
            | Self::UndefineGate { .. }
            | Self::RequireGate { .. }
            | Self::RunGates { .. }
            | Self::JudgeGate { .. }
            | Self::CreateUnit(_)
            | Self::RetryUnit { .. }
            | Self::Dispatch(_)
            | Self::StopUnit { .. }
            | Self::Unpark { .. }
            | Self::PruneUnits { .. }
            | Self::StartSession(_)
            | Self::BeatSession { .. }
            | Self::EndSession { .. }
            | Self::PruneSessions
            | Self::LockAcquire { .. }
            | Self::LockExtend { .. }
            | Self::LockRelease { .. }
            | Self::LockCleanup
            | Self::Merge(_)
            | Self::Finish { .. } => true,
            Self::Import(import) => !import.dry_run,
            Self::Rescue(asked) => asked.writes(),
            Self::Handoff(asked) => !asked.print,
            Self::Claims { .. }
            | Self::History { .. }
            | Self::ShowIssue { .. }
            | Self::ListIssues { .. }
            | Self::Search { .. }
            | Self::Ready { .. }
            | Self::Blocked
            | Self::Progress { .. }
            | Self::Status
            | Self::ListGates { .. }
            // Trust belongs to the user, not to the worktree.
            | Self::Commands
            | Self::Trust { .. }
            | Self::Revoke
            | Self::Graph { .. }
            | Self::DepTree { .. }
            | Self::UnitStatus { .. }
            | Self::UnitEnv { .. }
            | Self::UnitDiff { .. }
            | Self::NotifyTest
            | Self::Workflows { .. }
            | Self::WorkflowStatus { .. }
            | Self::Landings { .. }
            | Self::ListSessions { .. }
            | Self::ShowSession { .. }
            | Self::LockCheck { .. }
            | Self::LockList
            | Self::Conflicts { .. }
            | Self::Export
            | Self::Verify { .. } => false,
        }
    }
}

/// The order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Created,
    Updated,
    Priority,
    Id,
}

#[derive(Debug, Clone)]
pub struct CreateIssue {
    pub id: Option<IssueId>,
    pub title: String,
    pub kind: String,
    pub state: IssueState,
    pub priority: Priority,
    pub parent: Option<IssuePrefix>,
    pub labels: Vec<String>,
    pub depends_on: Vec<IssuePrefix>,
    pub gates: Vec<String>,
    pub actor: Performer,
    pub description: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct IssueFilter {
    pub state: Option<IssueState>,
    pub label: Option<String>,
    pub kind: Option<String>,
    pub parent: Option<IssuePrefix>,
    pub assignee: Option<AgentId>,
    pub actor: Option<Performer>,
}

/// A reply, and the warnings that belong to it.
#[derive(Debug)]
pub struct Answer {
    pub reply: Reply,
    /// Findings beside the request. They are never part of the reply itself.
    pub warnings: Vec<String>,
}

/// Serializes to the documented JSON, for every surface.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Reply {
    Lease(LeaseView),
    Released {
        released: Vec<LeaseView>,
    },
    Evicted {
        evicted: Vec<LeaseView>,
    },
    Claims(Claims),
    History {
        records: Vec<serde_json::Value>,
    },
    /// The lease on the issue that was picked, together with the issue.
    Picked(Box<Picked>),
    Issue(Box<IssueView>),
    Issues {
        issues: Listing,
    },
    Deleted {
        deleted: IssueId,
    },
    Comment(Comment),
    Judged(GateResult),
    Progress(Progress),
    Gates {
        gates: Vec<GateView>,
    },
    GateReport(Box<GateReport>),
    Commands {
        commands: Vec<Need>,
    },
    Revoked {
        revoked: usize,
    },
    Status(Box<Status>),
    Graph(GraphOf),
    Tree(Branch),
    Imported(Imported),
    Unit(Box<UnitView>),
    Handoff(Box<HandoffView>),
    Units {
        units: Vec<UnitView>,
    },
    Env {
        env: BTreeMap<String, String>,
    },
    Diff(UnitDiff),
    Account(Box<Account>),
    Notified {
        sent: Vec<Sent>,
    },
    Workflow(Box<WorkflowView>),
    Workflows {
        workflows: Vec<WorkflowView>,
    },
    Landings {
        landed: Vec<Landing>,
    },
    Orphans {
        orphans: Vec<Orphan>,
    },
    Session(Box<SessionView>),
    Sessions {
        sessions: Vec<SessionView>,
    },
    Pruned {
        pruned: Vec<SessionId>,
    },
    Locks {
        locks: Vec<LockView>,
    },
    Unlocked {
        released: Vec<LockView>,
    },
    LockChecks {
        paths: Vec<LockCheck>,
    },
    Verified(Verified),
    Merge(Box<MergeReport>),
    Conflicts(Box<Picture>),
    Rescue(RescueReply),
    /// One line of JSON for each issue.
    Exported {
        issues: usize,
        #[serde(skip)]
        lines: String,
    },
}

/// A unit as it is shown.
#[derive(Debug, Serialize)]
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub as_before: Vec<String>,
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
#[derive(Debug, Clone, Serialize)]
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
#[derive(Debug, Serialize)]
pub struct UnitDiff {
    pub unit: UnitId,
    pub base: String,
    pub diff: String,
}

/// A workflow as it is shown.
#[derive(Debug, Serialize)]
pub struct WorkflowView {
    #[serde(flatten)]
    pub workflow: Workflow,
    /// The agent that coordinates it now.
    pub led_by: Option<AgentId>,
    pub cost_usd: Usd,
    pub tokens: Tokens,
    pub instances: Vec<UnitView>,
    /// Units of the plan that have not started, and why.
    pub waiting: Vec<Waiting>,
    /// Parked accounts of its agents, and until when they are parked.
    pub parked: Vec<Parked>,
    /// Path of the ORCHESTRATION.yaml view for other programs.
    pub orchestration: String,
}

#[derive(Debug, Serialize)]
pub struct Waiting {
    pub unit: UnitId,
    pub why: String,
}

/// A handoff, and its receiver.
#[derive(Debug, Serialize)]
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

/// A unit that landed.
#[derive(Debug, Serialize)]
pub struct Landing {
    pub landed_at: Wall,
    pub unit: UnitId,
    pub issue_id: Option<IssueId>,
    pub branch: String,
    pub target: String,
    pub merge_commit: Option<String>,
    /// Checks that the merged tree passed.
    pub tested: Vec<Passed>,
    /// The lease under which it landed.
    pub lease_id: Option<LeaseId>,
    /// The agent that worked in the unit.
    pub agent: Option<String>,
    pub made_by: AgentId,
    pub landed_by: AgentId,
    /// Time since the unit was created.
    pub took_ms: i64,
}

/// A unit, worktree or folder that does not match the others.
#[derive(Debug, Serialize)]
pub struct Orphan {
    pub path: String,
    pub unit: Option<UnitId>,
    pub what: String,
    /// It was repaired.
    pub settled: bool,
}

/// Whether a path can be locked now.
#[derive(Debug, Serialize)]
pub struct LockCheck {
    pub file_path: String,
    pub lock_scope: LockScope,
    pub available: bool,
    /// The caller holds the lock already.
    pub mine: bool,
    /// Number of requests ahead in the queue.
    pub waiting: usize,
    /// Locks that conflict.
    pub locks: Vec<LockView>,
}

/// The overview of the whole repository on one screen.
#[derive(Debug, Serialize)]
pub struct Status {
    pub agent_id: AgentId,
    pub worktree_id: Option<WorktreeId>,
    pub branch: Option<String>,
    pub sequence: u64,
    pub counts: Counts,
    /// All active leases, with the titles of their issues.
    pub active: Vec<StatusClaim>,
    /// The best issues that can be acquired now.
    pub ready: Vec<StatusIssue>,
    /// Work that only a person can continue: it waits for a person, is blocked with a reason, is held without
    /// heartbeats, or conflicts with its target.
    pub needs_attention: Vec<StatusIssue>,
    /// Targets with landings that are not pushed, as far as this clone knows.
    pub unpushed: Vec<Unpushed>,
    /// Parked accounts, and until when they are parked.
    pub parked: Vec<Parked>,
}

#[derive(Debug, Serialize)]
pub struct StatusClaim {
    #[serde(flatten)]
    pub claim: ActiveLease,
    pub title: Option<String>,
    pub mine: bool,
}

#[derive(Debug, Serialize)]
pub struct StatusIssue {
    /// The id of the unit, if there is no issue.
    pub id: String,
    pub title: String,
    pub priority: Priority,
    pub why: Option<String>,
}

/// The graph as data, and as the source for pictures.
#[derive(Debug, Serialize)]
pub struct GraphOf {
    #[serde(flatten)]
    pub data: GraphData,
    #[serde(skip)]
    pub graph: Graph,
}

/// Issues parsed from another tracker.
#[derive(Debug)]
pub struct Import {
    /// The tracker they come from. Ids made for them are derived from it and from their original ids.
    pub source: &'static str,
    pub parsed: Parsed,
    /// Reports what would be imported, and imports nothing.
    pub dry_run: bool,
}

#[derive(Debug, Serialize)]
pub struct Imported {
    pub imported: Vec<IssueId>,
    pub skipped: Vec<Skipped>,
    pub problems: Vec<ImportProblem>,
    /// All warnings. The answer shows only some of them.
    pub warnings: Vec<String>,
    pub dry_run: bool,
}

#[derive(Debug, Serialize)]
pub struct Picked {
    #[serde(flatten)]
    pub lease: LeaseView,
    pub issue: IssueView,
}

/// Progress of the parts of a container issue.
#[derive(Debug, Serialize)]
pub struct Progress {
    pub total: Counts,
    pub issues: Vec<ProgressOf>,
}

/// Number of issues by state. A container is counted by its parts only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub issues: usize,
    pub backlog: usize,
    pub ready: usize,
    pub in_progress: usize,
    pub gated: usize,
    pub done: usize,
    pub rejected: usize,
    pub blocked: usize,
    pub waiting_for_human: usize,
    /// Percentage of done issues among those not rejected; null if there are none.
    pub percent_done: Option<u8>,
}

#[derive(Debug, Serialize)]
pub struct ProgressOf {
    pub id: IssueId,
    pub title: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub state: IssueState,
    pub assignee: Option<AgentId>,
    pub blocked_by: Vec<IssueId>,
    pub waiting_for_human: bool,
    pub counts: Counts,
    pub parts: Vec<ProgressOf>,
}

#[derive(Debug, Serialize)]
pub struct Claims {
    pub schema_version: u64,
    pub sequence: u64,
    pub generated_at: Wall,
    pub active: Vec<ActiveLease>,
}

/// A lease with the details shown to people.
#[derive(Debug, Serialize)]
pub struct ActiveLease {
    #[serde(flatten)]
    pub lease: LeaseView,
    pub remaining_secs: u64,
    /// Seconds since the holder's last heartbeat; null if it never sent one.
    pub heartbeat_age_secs: Option<u64>,
    /// Whether the process that sends the heartbeats is alive; null if there is none.
    pub heartbeat_alive: Option<bool>,
}

/// Returns the displayed state: in progress while the issue is leased.
fn shown_state(state: IssueState, is_held: bool) -> IssueState {
    match state {
        IssueState::Ready | IssueState::Backlog if is_held => IssueState::InProgress,
        state => state,
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct IssueView {
    #[serde(flatten)]
    pub issue: Issue,
    /// Null in lists.
    pub description: Option<String>,
    /// Boxed, because most issues of a list of ten thousand have no lease.
    pub lease: Option<Box<LeaseView>>,
    pub assignee: Option<AgentId>,
    /// Open dependencies.
    pub blocked_by: Vec<IssueId>,
    /// The branch with the latest work on it, if the issue is not leased now.
    pub resume_from: Option<String>,
    /// Null in lists.
    pub comments: Option<Vec<Comment>>,
}

impl IssueView {
    pub fn new(mut issue: Issue, lease: Option<&Lease>, now: &Now) -> Self {
        let lease = lease.filter(|lease| !lease.expired(now));
        issue.state = shown_state(issue.state, lease.is_some());
        // The digest of the text is of no use outside the engine.
        issue.text = None;
        Self {
            issue,
            description: None,
            lease: lease.map(|lease| Box::new(LeaseView::of(lease))),
            assignee: lease.map(|lease| lease.agent_id.clone()),
            blocked_by: Vec::new(),
            resume_from: None,
            comments: None,
        }
    }
}
