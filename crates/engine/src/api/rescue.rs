//! Removing worktrees, and getting back what was in them: what can be asked, and what is answered.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jit_core::ids::UnitId;
use jit_core::time::Wall;
use jit_core::unit::Phase;
use serde::Serialize;

use crate::worktrees::rescue::restore::Restored;
use crate::worktrees::rescue::{RescueId, Stage, Work};

/// How much may be overridden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Force {
    #[default]
    No,
    /// Work that is not on the target is kept elsewhere, and removed from where it is.
    Work,
    /// Also where somebody locked the worktree.
    Locked,
}

impl Force {
    /// As often as `--force` was said.
    pub fn times(count: u8) -> Self {
        match count {
            0 => Self::No,
            1 => Self::Work,
            _ => Self::Locked,
        }
    }
}

#[derive(Debug, Clone)]
pub enum RescueRequest {
    Cleanup {
        /// By its name, issue, branch or path; the one whose worktree this is when not given.
        unit: Option<String>,
        force: Force,
    },
    Abandon {
        unit: Option<String>,
        reason: String,
        force: Force,
    },
    List,
    Show {
        id: RescueId,
    },
    Restore {
        id: RescueId,
        to: Option<PathBuf>,
        branch: Option<String>,
    },
    Prune {
        /// As long as the settings say when not given.
        older_than_secs: Option<u64>,
    },
    Drop {
        id: RescueId,
    },
}

impl RescueRequest {
    pub fn writes(&self) -> bool {
        !matches!(self, Self::List | Self::Show { .. })
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum RescueReply {
    Cleaned(Box<Cleaned>),
    List { rescues: Vec<RescueView> },
    One(Box<RescueView>),
    Restored(Restored),
    Pruned { pruned: Vec<RescueId>, freed_bytes: u64 },
    Dropped { dropped: RescueId },
}

/// What became of a unit's worktree.
#[derive(Debug, Serialize)]
pub struct Cleaned {
    pub unit: UnitId,
    pub state: Phase,
    pub worktree_path: String,
    pub branch: String,
    pub branch_deleted: bool,
    /// Why the branch was left where it is, if it was.
    pub branch_stays: Option<String>,
    /// Where what was not on the target is; null when there was nothing.
    pub rescue: Option<RescueId>,
    pub work: Vec<Work>,
    pub work_count: usize,
}

/// An entry as people see it.
#[derive(Debug, Serialize)]
pub struct RescueView {
    pub id: RescueId,
    pub unit: UnitId,
    pub created_at: Wall,
    pub stage: Stage,
    pub reason: Option<String>,
    pub worktree_path: String,
    pub branch: String,
    pub head: Option<String>,
    pub target: String,
    /// What was not on the target; in lists only the first few.
    pub work: Vec<Work>,
    /// What was kept besides.
    pub aside: Vec<Work>,
    pub work_count: usize,
    /// Full names of refs and what they name.
    pub refs: BTreeMap<String, String>,
    /// The worktree itself is in the trash.
    pub in_trash: bool,
    pub trash_path: Option<String>,
    /// Null in lists.
    pub trash_bytes: Option<u64>,
    pub restored_to: Option<String>,
    /// How it comes back, and to the target. Empty in lists.
    pub next: Vec<String>,
}
