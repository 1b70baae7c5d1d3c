//! Removing worktrees, and getting back what was in them: what can be asked, and what is answered.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use jit_core::model::ids::UnitId;
use jit_core::model::time::Wall;
use jit_core::model::unit::Phase;
use serde::{Deserialize, Serialize};

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

/// An entry of the rescue list: the unit's name and a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RescueId(String);

impl RescueId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of one of its refs.
    pub fn reference(&self, name: &str) -> String {
        format!("{REFS}/{}/{name}", self.0)
    }
}

impl FromStr for RescueId {
    type Err = String;

    /// It becomes part of a path and of a ref.
    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let sound = text.len() <= 120
            && text.bytes().all(fits)
            && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
            && !text.contains("..")
            && !text.ends_with(".lock")
            && !text.ends_with('.');
        match sound {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "{text:?} is not the name of a rescue: see jit rescue list"
            )),
        }
    }
}

impl TryFrom<String> for RescueId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for RescueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What was made again.
#[derive(Debug, Clone, Serialize)]
pub struct Restored {
    pub id: RescueId,
    pub path: String,
    /// Null when HEAD is detached there.
    pub branch: Option<String>,
    /// `trash` or `refs`.
    pub from: &'static str,
    /// How it comes to the target.
    pub next: Vec<String>,
}

impl From<RescueId> for String {
    fn from(id: RescueId) -> Self {
        id.0
    }
}

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A commit that is not on the target.
    Commit,
    Staged,
    Unstaged,
    Untracked,
    /// Ignored by git.
    Ignored,
    /// Changed, but git was told not to look (skip-worktree, assume-unchanged).
    Hidden,
    /// Committed, but git's filters would not give these bytes back.
    Raw,
    /// A repository inside, with something that is nowhere else.
    Repository,
    /// An unfinished rebase, merge, cherry-pick, revert or bisect.
    InProgress,
    /// Commits that only a reflog or a file of git's knows.
    History,
}

impl Kind {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Staged => "staged",
            Self::Unstaged => "unstaged",
            Self::Untracked => "untracked",
            Self::Ignored => "ignored",
            Self::Hidden => "hidden",
            Self::Raw => "raw bytes",
            Self::Repository => "repository",
            Self::InProgress => "in progress",
            Self::History => "history",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Work {
    pub kind: Kind,
    /// A path below the worktree, a commit, or a word.
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Saving,
    Moving,
    Kept,
    Removing,
    Restored,
}

impl Stage {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Saving => "saving",
            Self::Moving => "moving",
            Self::Kept => "kept",
            Self::Removing => "removing",
            Self::Restored => "restored",
        }
    }
}

/// Where the refs of all entries are.
pub const REFS: &str = "refs/jit/rescue";
