//! What can be asked of the program, and what it answers: one pair of types behind the command line and every other
//! surface. A surface turns its own language into a [`Request`] and a [`Reply`] back; it decides nothing.

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
    /// Picks the best issue that can be taken, and takes it.
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
        /// The new long text; an empty one removes it.
        description: Option<String>,
        /// Only if the caller holds the issue.
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
    /// What can be taken now, best first.
    Ready {
        filter: IssueFilter,
        limit: Option<usize>,
    },
    Blocked,
    Progress {
        issue: Option<IssuePrefix>,
    },
    DefineGates {
        /// They were exported elsewhere: nobody wrote them here, and none is put in the place of another.
        brought: bool,
        gates: Vec<(GateName, Gate)>,
    },
    /// There is no such gate any more in this tree.
    UndefineGate {
        name: String,
    },
    /// The issue has to pass a gate, which has to be defined.
    RequireGate {
        issue: IssuePrefix,
        gate: String,
        strict: bool,
    },
    /// Every automatic gate that the issue has to pass, or the one that is named.
    RunGates {
        issue: IssuePrefix,
        gate: Option<String>,
    },
    /// What somebody found about a gate that has no command.
    JudgeGate {
        issue: IssuePrefix,
        gate: String,
        passed: bool,
        note: Option<String>,
    },
    /// All gates; with an issue, those that concern it and how they stand.
    ListGates {
        issue: Option<IssuePrefix>,
    },
    /// Commands that came with the repository, and whether they may run.
    Commands,
    /// These commands, exactly as they were shown, may run from now on.
    Trust {
        commands: Vec<Need>,
    },
    /// Nothing of this repository may run any more.
    Revoke,
    /// Who does what, and what needs somebody now.
    Status,
    /// What waits for what: everything, or what has to do with one issue.
    Graph {
        issue: Option<IssuePrefix>,
        /// Done and rejected ones too.
        closed: bool,
    },
    /// What one issue waits for.
    DepTree {
        issue: IssuePrefix,
    },
    Import(Arc<Import>),
    Export,
    CreateUnit(Box<CreateUnit>),
    /// One unit, or all that are not over.
    UnitStatus {
        unit: Option<String>,
        all: bool,
    },
    /// What a unit's commands find in their environment.
    UnitEnv {
        unit: Option<String>,
    },
    RetryUnit {
        unit: Option<String>,
    },
    /// Starts an agent in a unit.
    Dispatch(Box<DispatchAsk>),
    /// What an agent has done is given to another one.
    Handoff(Box<HandAsk>),
    /// Ends the agent of a unit.
    StopUnit {
        unit: Option<String>,
        reason: String,
    },
    /// Agents may be started on a parked account again.
    Unpark {
        account: AccountId,
    },
    /// Whoever is to be told of things is told of a test.
    NotifyTest,
    /// What a unit has that its target had not when it began.
    UnitDiff {
        unit: Option<String>,
    },
    /// All workflows; those that are over too.
    Workflows {
        all: bool,
    },
    /// One workflow; without a name, the only one that runs, else the last one.
    WorkflowStatus {
        workflow: Option<String>,
    },
    /// What landed.
    Landings {
        unit: Option<String>,
        limit: usize,
    },
    /// What does not fit together: units, git's worktrees and the disk.
    PruneUnits {
        settle: bool,
    },
    StartSession(Box<StartSession>),
    /// A sign of life; without a name, for the caller's own session.
    BeatSession {
        session: Option<SessionId>,
    },
    EndSession {
        session: Option<SessionId>,
        status: SessionStatus,
    },
    /// Those that are over too.
    ListSessions {
        all: bool,
    },
    ShowSession {
        session: Option<SessionId>,
    },
    PruneSessions,
    /// Locks on files: all or none; perhaps after waiting in line.
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
    /// Were the commits of a range made under the leases that they name?
    Verify {
        range: String,
    },
    /// Brings units to their target.
    Merge(Box<MergeAsk>),
    /// Lands a unit and removes what is left of it; with `pr`, others are asked to merge it.
    Finish {
        unit: Option<String>,
        pr: bool,
    },
    /// Which worktrees, or which of these branches, would be in each other's way.
    Conflicts {
        into: Option<String>,
        branches: Vec<String>,
    },
    /// Removing worktrees, and getting back what was in them.
    Rescue(RescueRequest),
}

impl Request {
    /// Whether it is about who may take or keep what.
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

    /// Whether it may write: then the worktree needs an identity.
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
            // What is approved is the user's, not the worktree's.
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

/// What a list is ordered by.
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

/// What was answered, and what should be said beside it.
#[derive(Debug)]
pub struct Answer {
    pub reply: Reply,
    /// Things noticed on the way; never part of the answer itself.
    pub warnings: Vec<String>,
}

/// Serialises to the documented JSON, whatever surface it is for.
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
    /// A lease on an issue that was picked, with the issue.
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
    /// While an agent runs in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<AgentProgress>,
    /// What its attempt came to, while nobody has written it down: whoever leads its workflow does. Of one that has landed:
    /// that there are commits which its target has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
    /// Of how its agent was started now, what its last attempt or its plan said and whoever started it did not.
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

/// How an agent that runs is doing.
#[derive(Debug, Clone, Serialize)]
pub struct AgentProgress {
    /// What it did last, for people.
    pub last_action: String,
    pub last_event_at: Option<Wall>,
    pub turns: u64,
    pub tokens: Tokens,
    pub cost_usd: Option<Usd>,
    pub running_secs: u64,
    /// Until its time is up.
    pub remaining_secs: u64,
    pub remaining_usd: Option<Usd>,
    pub remaining_tokens: Option<u64>,
}

/// What a unit changed.
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
    /// Who coordinates it now.
    pub led_by: Option<AgentId>,
    pub cost_usd: Usd,
    pub tokens: Tokens,
    pub instances: Vec<UnitView>,
    /// Units of the plan that have not begun, and why not.
    pub waiting: Vec<Waiting>,
    /// Accounts of its agents that were refused, and until when nobody is started on them.
    pub parked: Vec<Parked>,
    /// Where the file is that other programs read.
    pub orchestration: String,
}

#[derive(Debug, Serialize)]
pub struct Waiting {
    pub unit: UnitId,
    pub why: String,
}

/// What an agent left, and for whom.
#[derive(Debug, Serialize)]
pub struct HandoffView {
    /// The unit whose work it is about.
    pub unit: UnitId,
    pub from: String,
    /// A kind of agent, or a unit.
    pub to: String,
    /// Where it is kept; nowhere if it was only shown.
    pub path: Option<String>,
    pub digest: String,
    pub bytes: u64,
    pub text: String,
    /// The unit that gets it, if it was given.
    pub receiver: Option<UnitView>,
}

/// A unit on its target.
#[derive(Debug, Serialize)]
pub struct Landing {
    pub landed_at: Wall,
    pub unit: UnitId,
    pub issue_id: Option<IssueId>,
    pub branch: String,
    pub target: String,
    pub merge_commit: Option<String>,
    /// What it had passed, as merged.
    pub tested: Vec<Passed>,
    /// The lease under which it landed.
    pub lease_id: Option<LeaseId>,
    /// Who worked in it.
    pub agent: Option<String>,
    pub made_by: AgentId,
    pub landed_by: AgentId,
    /// From the making of the unit.
    pub took_ms: i64,
}

/// Something that does not fit.
#[derive(Debug, Serialize)]
pub struct Orphan {
    pub path: String,
    pub unit: Option<UnitId>,
    pub what: String,
    /// It was put in order.
    pub settled: bool,
}

/// Whether a path could be locked now.
#[derive(Debug, Serialize)]
pub struct LockCheck {
    pub file_path: String,
    pub lock_scope: LockScope,
    pub available: bool,
    /// The caller has it already.
    pub mine: bool,
    /// So many came first.
    pub waiting: usize,
    /// What stands in the way.
    pub locks: Vec<LockView>,
}

/// The whole picture on one screen.
#[derive(Debug, Serialize)]
pub struct Status {
    pub agent_id: AgentId,
    pub worktree_id: Option<WorktreeId>,
    pub branch: Option<String>,
    pub sequence: u64,
    pub counts: Counts,
    /// Every lease, with its issue's title.
    pub active: Vec<StatusClaim>,
    /// The best of what can be taken now.
    pub ready: Vec<StatusIssue>,
    /// What only a person can move: waiting for one, blocked with a reason, held by somebody whose heart has stopped, or in
    /// conflict with its target.
    pub needs_attention: Vec<StatusIssue>,
    /// Targets with landings that others have not got, as far as is known here.
    pub unpushed: Vec<Unpushed>,
    /// Accounts of agents that were refused, and until when nobody is started on them.
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
    /// That of a unit, where there is no issue.
    pub id: String,
    pub title: String,
    pub priority: Priority,
    pub why: Option<String>,
}

/// The graph as data, and as what pictures are made of.
#[derive(Debug, Serialize)]
pub struct GraphOf {
    #[serde(flatten)]
    pub data: GraphData,
    #[serde(skip)]
    pub graph: Graph,
}

/// Issues from elsewhere, as they were read.
#[derive(Debug)]
pub struct Import {
    /// The tracker they come from: ids that are made up for them follow from it and from their own.
    pub source: &'static str,
    pub parsed: Parsed,
    /// Say what would be done and do nothing.
    pub dry_run: bool,
}

#[derive(Debug, Serialize)]
pub struct Imported {
    pub imported: Vec<IssueId>,
    pub skipped: Vec<Skipped>,
    pub problems: Vec<ImportProblem>,
    /// All of them: only some are told beside the answer.
    pub warnings: Vec<String>,
    pub dry_run: bool,
}

#[derive(Debug, Serialize)]
pub struct Picked {
    #[serde(flatten)]
    pub lease: LeaseView,
    pub issue: IssueView,
}

/// How far the parts of something have come.
#[derive(Debug, Serialize)]
pub struct Progress {
    pub total: Counts,
    pub issues: Vec<ProgressOf>,
}

/// Issues by where they stand. Containers are counted by their parts alone.
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
    /// Done, of all that were not rejected; null when there are none.
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

/// A lease with what a person wants to know about it now.
#[derive(Debug, Serialize)]
pub struct ActiveLease {
    #[serde(flatten)]
    pub lease: LeaseView,
    pub remaining_secs: u64,
    /// Seconds since the holder's last heartbeat; null when it never sent one.
    pub heartbeat_age_secs: Option<u64>,
    /// Whether the process that sends the heartbeats is alive; null when there is none.
    pub heartbeat_alive: Option<bool>,
}

/// As people see it: in progress while somebody holds it.
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
    /// In a box: in a list of ten thousand it is mostly absent.
    pub lease: Option<Box<LeaseView>>,
    pub assignee: Option<AgentId>,
    /// What it waits for.
    pub blocked_by: Vec<IssueId>,
    /// The branch on which somebody worked on it last, where nobody does now.
    pub resume_from: Option<String>,
    /// Null in lists.
    pub comments: Option<Vec<Comment>>,
}

impl IssueView {
    pub fn new(mut issue: Issue, lease: Option<&Lease>, now: &Now) -> Self {
        let lease = lease.filter(|lease| !lease.expired(now));
        issue.state = shown_state(issue.state, lease.is_some());
        // The name of the text is of no use outside.
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
