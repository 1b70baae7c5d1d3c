//! Issues: the work that leases protect.
//!
//! This is the form in which the shared state knows an issue: every field but the long text, which lives in files.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::{IssueId, WorktreeId};
use crate::time::Wall;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $(#[serde(rename = $word)] $variant),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|v| v.as_str() == text).ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|v| v.as_str()).collect();
                    format!("{} must be one of {}", $what, known.join(", "))
                })
            }
        }
    };
}

words! {
    /// Where an issue stands. `blocked` is not a state: it follows from dependencies.
    State, "state", {
        Backlog = "backlog", Ready = "ready", InProgress = "in_progress", Gated = "gated", Done = "done",
        Rejected = "rejected",
    }
}

words! {
    /// How much it matters, most first.
    Priority, "priority", { Critical = "critical", High = "high", Normal = "normal", Low = "low" }
}

impl State {
    /// Nothing more is to be done.
    pub fn is_closed(self) -> bool {
        matches!(self, Self::Done | Self::Rejected)
    }
}

/// Longest title, in bytes.
pub const MAX_TITLE: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    pub id: IssueId,
    pub title: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub state: State,
    pub priority: Priority,
    pub parent: Option<IssueId>,
    pub labels: Vec<String>,
    pub depends_on: Vec<IssueId>,
    pub gates: Vec<String>,
    pub created_at: Wall,
    pub updated_at: Wall,
    /// Grows with every change.
    pub revision: u64,
    /// The worktree that holds the newest copy.
    pub lives_in: Option<WorktreeId>,
}
