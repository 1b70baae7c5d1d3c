//! Requests and replies about issues.

use std::sync::Arc;

use jit_core::decide::command::IssueChange;
use jit_core::exchange::{ImportProblem, Skipped};
use jit_core::model::ids::{AgentId, IssueId, IssuePrefix};
use jit_core::model::issue::{Comment, Issue, IssueState, Performer, Priority};
use jit_core::model::lease::Lease;
use jit_core::model::time::Now;
use jit_core::query::claim_views::LeaseView;
use jit_core::query::graph::{Branch, GraphData};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::content::FileSource;
use crate::api::facts::TreeScope::{All, Texts};
use crate::api::facts::{named, reads, replies, requests, writes};
use crate::api::issue_list::Listing;

requests! {
    /// Issues, their texts, and how they depend on each other.
    pub enum IssueRequest {
        Create(create: Box<CreateIssue>) => writes(named(create.id.as_ref().map(|id| id.as_str()))),
        Change {
            issue: IssuePrefix,
            change: Box<IssueChange>,
            /// The new description; an empty text removes it.
            description: Option<String>,
            /// Refuses unless the caller holds the issue.
            strict: bool,
        } => writes(named([issue.as_str()])).on_leases(),
        /// Requires an issue to pass a gate. The gate must be defined.
        RequireGate { issue: IssuePrefix, gate: String, strict: bool } => writes(named([issue.as_str()])).on_leases(),
        Delete { issue: IssuePrefix, strict: bool } => writes(named([issue.as_str()])).on_leases(),
        /// Brings a deleted issue back.
        Restore { issue: IssueId } => writes(named([issue.as_str()])),
        Comment { issue: IssuePrefix, text: String } => writes(named([issue.as_str()])),
        Show { issue: IssuePrefix } => reads(named([issue.as_str()])),
        List { filter: IssueFilter, sort: Sort, limit: Option<usize> } => reads(All),
        Search { text: String, limit: Option<usize> } => reads(Texts),
        /// Issues that can be acquired now, best first.
        Ready { filter: IssueFilter, limit: Option<usize> } => reads(All),
        Blocked => reads(All),
        Progress { issue: Option<IssuePrefix> } => reads(All),
        /// The dependency graph: all issues, or those connected with one issue.
        Graph {
            issue: Option<IssuePrefix>,
            /// Includes done and rejected issues.
            closed: bool,
            /// As a picture instead of data.
            drawn: Option<GraphFormat>,
        } => reads(All),
        /// The dependencies of one issue, as a tree.
        DependencyTree { issue: IssuePrefix } => reads(All),
        /// Imports issues from the files of another tracker.
        Import(import: Arc<Import>) => writes(All).writes_if(!import.dry_run),
        Export => reads(Texts),
    }
}

replies! {
    pub enum IssueReply {
        Issue(Box<IssueView>),
        Issues(Issues),
        Deleted(Deleted),
        Comment(Comment),
        Progress(Progress),
        Graph(GraphData),
        Picture(GraphPicture),
        Tree(Branch),
        Imported(Imported),
        Exported(Exported),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Issues {
    pub issues: Listing,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Deleted {
    pub deleted: IssueId,
}

/// One line of JSON for each issue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Exported {
    pub issues: usize,
    pub lines: String,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GraphFormat {
    Text,
    Dot,
    Mermaid,
    Svg,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct GraphPicture {
    pub format: GraphFormat,
    pub text: String,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    #[default]
    Created,
    Updated,
    Priority,
    Id,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateIssue {
    pub id: Option<IssueId>,
    pub title: String,
    /// `None`: the type that the id implies (`WI-001-A1` is an activity), else `issue`.
    pub kind: Option<String>,
    pub state: IssueState,
    pub priority: Priority,
    /// `None`: the parent that the id implies (`WI-001-A1-T2` is part of `WI-001-A1`), if there is one.
    pub parent: Option<IssuePrefix>,
    pub labels: Vec<String>,
    pub depends_on: Vec<IssuePrefix>,
    pub gates: Vec<String>,
    pub actor: Performer,
    pub description: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssueFilter {
    pub state: Option<IssueState>,
    pub label: Option<String>,
    pub kind: Option<String>,
    pub parent: Option<IssuePrefix>,
    pub assignee: Option<AgentId>,
    pub actor: Option<Performer>,
}

/// The tracker that issues are imported from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tracker {
    Beads,
    Github,
    /// Markdown files of Backlog.md: a folder, or one file.
    Backlog,
    /// An export of jit.
    Jsonl,
}

impl Tracker {
    /// The name that ids of imported issues are derived from, together with their original ids.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Beads => "beads",
            Self::Github => "github",
            Self::Backlog => "backlog",
            Self::Jsonl => "jsonl",
        }
    }
}

/// The most bytes that are imported, from one file or from many.
pub const MAX_IMPORT_BYTES: u64 = 512 << 20;

/// Files of another tracker.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Import {
    pub from: Tracker,
    pub file: FileSource,
    /// Reports what would be imported, and imports nothing.
    pub dry_run: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    pub imported: Vec<IssueId>,
    pub skipped: Vec<Skipped>,
    pub problems: Vec<ImportProblem>,
    /// All warnings. The answer shows only some of them.
    pub warnings: Vec<String>,
    pub dry_run: bool,
}

/// Progress of the parts of a container issue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    pub total: Counts,
    pub issues: Vec<ProgressOf>,
}

/// Number of issues by state. A container is counted by its parts only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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

/// Returns the displayed state: in progress while the issue is leased.
pub(super) fn shown_state(state: IssueState, is_held: bool) -> IssueState {
    match state {
        IssueState::Ready | IssueState::Backlog if is_held => IssueState::InProgress,
        state => state,
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
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
