//! Requests and replies for removing worktrees and restoring the work that was in them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jit_core::model::ids::UnitId;
use jit_core::model::time::Wall;
use jit_core::model::unit::Phase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests, writes};
use crate::api::path::ApiPath;

/// How much a removal may override.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Force {
    #[default]
    No,
    /// Removes work that is not on the target, after saving it as a rescue.
    Work,
    /// Also removes a worktree that is locked in git.
    Locked,
}

impl Force {
    /// Converts the number of `--force` flags.
    pub fn times(count: u8) -> Self {
        match count {
            0 => Self::No,
            1 => Self::Work,
            _ => Self::Locked,
        }
    }
}

requests! {
    /// Removing worktrees, and restoring the work that was in them. A unit is named by its id, issue, branch or path; no
    /// name means the unit of this worktree.
    pub enum RescueRequest {
        Cleanup { unit: Option<String>, force: Force } => writes(Nothing),
        Abandon { unit: Option<String>, reason: String, force: Force } => writes(Nothing),
        List => reads(Nothing),
        Show { id: RescueId } => reads(Nothing),
        Restore { id: RescueId, to: Option<ApiPath>, branch: Option<String> } => writes(Nothing),
        Prune {
            /// `None` means the age from the settings.
            older_than_secs: Option<u64>,
        } => writes(Nothing),
        Drop { id: RescueId } => writes(Nothing),
    }
}

replies! {
    pub enum RescueReply {
        Cleaned(Box<Cleaned>),
        List(Rescues),
        One(Box<RescueView>),
        Restored(Restored),
        Pruned(PrunedRescues),
        Dropped(DroppedRescue),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Rescues {
    pub rescues: Vec<RescueView>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PrunedRescues {
    pub pruned: Vec<RescueId>,
    pub freed_bytes: u64,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct DroppedRescue {
    pub dropped: RescueId,
}

/// The result of removing a unit's worktree.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Cleaned {
    pub unit: UnitId,
    pub state: Phase,
    pub worktree_path: String,
    pub branch: String,
    pub branch_deleted: bool,
    /// Why the branch was not deleted, if it was not.
    pub branch_stays: Option<String>,
    /// The rescue with the work that was not on the target; null if there was no such work.
    pub rescue: Option<RescueId>,
    pub work: Vec<Work>,
    pub work_count: usize,
}

/// A rescue as it is shown.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
    /// Work that was not on the target; lists show only the first entries.
    pub work: Vec<Work>,
    /// Other work that was saved.
    pub aside: Vec<Work>,
    pub work_count: usize,
    /// Full ref names and the objects they point to.
    pub refs: BTreeMap<String, String>,
    /// The worktree itself is in the trash.
    pub in_trash: bool,
    pub trash_path: Option<String>,
    /// Null in lists.
    pub trash_bytes: Option<u64>,
    pub restored_to: Option<String>,
    /// Commands that restore it and bring it to the target. Empty in lists.
    pub next: Vec<String>,
}

/// Id of a rescue: the unit's name and a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct RescueId(String);

impl RescueId {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the full name of one of its refs.
    pub fn reference(&self, name: &str) -> String {
        format!("{REFS}/{}/{name}", self.0)
    }
}

impl FromStr for RescueId {
    type Err = String;

    /// Checks the characters, because the id becomes part of a path and of a ref.
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

/// An earlier command restored it: nothing was left to do.
pub const ALREADY: &str = "already";

/// The result of restoring a rescue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    pub id: RescueId,
    pub path: String,
    /// Null when HEAD is detached there.
    pub branch: Option<String>,
    /// `trash` or `refs`, or `already` if an earlier command restored it.
    pub from: Cow<'static, str>,
    /// Commands that bring it to the target.
    pub next: Vec<String>,
}

impl From<RescueId> for String {
    fn from(id: RescueId) -> Self {
        id.0
    }
}

/// A kind of unlanded work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A commit that is not on the target.
    Commit,
    Staged,
    Unstaged,
    Untracked,
    /// Ignored by git.
    Ignored,
    /// Changed, but hidden from git by skip-worktree or assume-unchanged.
    Hidden,
    /// Committed, but git's filters would not reproduce these bytes.
    Raw,
    /// A nested repository with work that exists only there.
    Repository,
    /// An unfinished rebase, merge, cherry-pick, revert or bisect.
    InProgress,
    /// Commits that only a reflog or another file of git refers to.
    History,
}

impl Kind {
    /// The word shown to people.
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

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    pub kind: Kind,
    /// A path relative to the worktree, a commit, or a word.
    pub what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Prefix of the refs of all rescues.
pub const REFS: &str = "refs/jit/rescue";
