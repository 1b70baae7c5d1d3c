//! Issues: the work that leases protect.
//!
//! This is the form in which the shared state knows an issue: every field but the long text, which lives in files.

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::model::ids::{AgentId, IssueId, WorktreeId};
use crate::model::time::Wall;
use crate::model::words::words;

words! {
    /// Where an issue stands. `blocked` is not a state: it follows from dependencies.
    IssueState, "state", {
        Backlog = "backlog", Ready = "ready", InProgress = "in_progress", Gated = "gated", Done = "done",
        Rejected = "rejected",
    }
}

words! {
    /// How much it matters, most first.
    Priority, "priority", { Critical = "critical", High = "high", Normal = "normal", Low = "low" }
}

impl IssueState {
    /// Nothing more is to be done.
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Done | Self::Rejected)
    }
}

words! {
    /// The kind of actor that may do the work.
    Performer, "actor", { Any = "any", Agent = "agent", Human = "human" }
}

impl IssueState {
    /// Where an issue may go from here by an update.
    pub fn next(self) -> &'static [Self] {
        match self {
            Self::Backlog => &[Self::Ready, Self::Rejected],
            Self::Ready => &[
                Self::Backlog,
                Self::InProgress,
                Self::Gated,
                Self::Done,
                Self::Rejected,
            ],
            Self::InProgress => &[
                Self::Ready,
                Self::Backlog,
                Self::Gated,
                Self::Done,
                Self::Rejected,
            ],
            Self::Gated => &[Self::InProgress, Self::Ready, Self::Done, Self::Rejected],
            Self::Done => &[Self::Ready],
            Self::Rejected => &[Self::Ready, Self::Backlog],
        }
    }

    /// Work that can be taken when nothing stands in its way. What was in progress and lost its holder is offered again.
    pub fn is_offered(self) -> bool {
        matches!(self, Self::Ready | Self::InProgress)
    }
}

impl Performer {
    pub fn allows(self, kind: &str) -> bool {
        // A person may do anything.
        self != Self::Human || kind == "human"
    }
}

/// Longest title, in bytes.
pub const MAX_TITLE: usize = 500;
/// Longest comment, in bytes.
pub const MAX_COMMENT: usize = 64 << 10;
/// Longest word (type, label, gate), in bytes.
pub const MAX_WORD: usize = 100;
/// Most labels, dependencies or gates of one issue.
pub const MAX_MEMBERS: usize = 1000;
/// More changes than any issue can have had.
pub const MAX_REVISION: u64 = 1 << 53;
/// Issue types with rules of their own.
pub const ACTIVITY: &str = "activity";
pub const TASK: &str = "task";
pub const WORK_ITEM: &str = "work_item";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Issue {
    pub id: IssueId,
    pub title: String,
    #[serde(rename = "type")]
    pub kind: SmolStr,
    pub state: IssueState,
    pub priority: Priority,
    pub parent: Option<IssueId>,
    pub labels: Vec<SmolStr>,
    pub depends_on: Vec<IssueId>,
    pub gates: Vec<String>,
    pub actor: Performer,
    /// Why it cannot go on, as somebody said; dependencies are another matter.
    pub blocked: Option<String>,
    /// Its scope is being revised, and why.
    pub pivot: Option<String>,
    pub created_at: Wall,
    pub created_by: Option<AgentId>,
    pub updated_at: Wall,
    /// Grows with every change.
    pub revision: u64,
    /// The worktree that holds the newest copy.
    pub lives_in: Option<WorktreeId>,
    /// XXH3 of the long text, which is kept in a file; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Issue {
    /// One change more.
    pub fn count_change(&mut self) {
        self.revision = self.revision.saturating_add(1).min(MAX_REVISION);
    }
}

/// Something said about an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Comment {
    pub id: String,
    pub at: Wall,
    pub agent_id: AgentId,
    pub text: String,
}

/// How a gate came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GateResult {
    pub passed: bool,
    pub manual: bool,
    pub by: AgentId,
    pub at: Wall,
    /// The tree it ran on: the hash of the tree as git would have committed it.
    pub tree: Option<String>,
    /// The digest of what the gate was then; absent in older logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

/// The name of a long text: what it is told from others by.
pub fn text_digest(text: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text))
}

/// Whether a gate can have this name: a lower-case letter or digit, then at most 63 of those, `.`, `_` and `-`.
pub fn check_gate(text: &str) -> Result<(), &'static str> {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let good = text.len() <= 64
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || matches!(b, b'.' | b'_' | b'-'));
    good.then_some(())
        .ok_or("at most 64 lower-case letters, digits, '.', '_' and '-', the first a letter or a digit")
}

/// Whether a word can be a type or a label.
pub fn check_word(text: &str) -> Result<(), &'static str> {
    match text {
        _ if text.trim().is_empty() => Err("it is empty"),
        _ if text.len() > MAX_WORD => Err("it is longer than 100 bytes"),
        _ if text.chars().any(char::is_control) => Err("it contains control characters"),
        _ => Ok(()),
    }
}
