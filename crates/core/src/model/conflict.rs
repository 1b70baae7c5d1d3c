//! Conflicts between units that have not landed, as the log has them (H8).
//!
//! The log has a bounded part of them: so many pairs of a target, and so many paths of a pair.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::model::time::Wall;
use crate::model::unit::Clash;

/// So many pairs of a target are in the log at one time, and so many paths of each.
pub const MOST_PAIRS: usize = 64;
pub const MOST_PATHS: usize = 8;

/// One of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// The unit, else the branch, else the folder.
    pub name: String,
    pub unit: Option<String>,
    /// Its folder; none where it is the target.
    pub worktree_path: Option<String>,
}

/// Two that would not merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    pub target: String,
    pub a: Side,
    /// The target itself, or another one that goes there.
    pub b: Side,
    pub paths: Vec<Clash>,
    /// So many paths more.
    pub more_paths: usize,
    /// When the log was told; in the state only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Wall>,
}

impl Conflict {
    /// Its key in the state: the same two for the same target are the same conflict.
    pub fn key(&self) -> String {
        let names = format!("{}\0{}\0{}", self.target, self.a.name, self.b.name);
        format!("C/{:016x}", xxh3_64(names.as_bytes()))
    }

    /// As the log has it.
    pub(crate) fn plain(&self) -> Self {
        Self {
            told_at: None,
            ..self.clone()
        }
    }

    /// Whether it was told less than so long ago. A clock that was set back says nothing.
    pub(crate) fn was_told_within(&self, ms: i64, now: Wall) -> bool {
        let since = self.told_at.map(|at| now.ms().saturating_sub(at.ms()));
        since.is_some_and(|since| (0..ms).contains(&since))
    }

    pub(crate) fn is_about(&self, name: &str) -> bool {
        self.a.name == name || self.b.name == name
    }
}

/// How somebody who watches found things to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub target: String,
    pub conflicts: Vec<Conflict>,
    /// Names of those that could not be read.
    pub unknown: Vec<String>,
    /// Other targets of which the log has something, and whose branches are gone.
    pub lost: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictAction {
    /// It is new, or about other paths.
    Found,
    Gone,
}
