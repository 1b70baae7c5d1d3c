//! Requests and replies about landing units, and the reports of conflicts (H5).

use std::borrow::Cow;

use jit_core::landing::order::Overlap;
use jit_core::model::ids::{AgentId, IssueId, LeaseId, UnitId};
use jit_core::model::time::Wall;
use jit_core::model::unit::Passed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::{IfMoved, Nothing};
use crate::api::facts::{reads, replies, requests, writes};
use crate::api::trust::Kind;

requests! {
    /// Landing: units become part of their target.
    pub enum LandingRequest {
        /// Lands units on their target.
        Merge(ask: Box<MergeAsk>) => writes(IfMoved),
        /// Conflicts between worktrees, or between these branches.
        Conflicts { into: Option<String>, branches: Vec<String> } => reads(Nothing),
        /// Units that landed, the newest `limit`.
        History { unit: Option<String>, limit: usize } => reads(Nothing),
    }
}

replies! {
    pub enum LandingReply {
        Report(Box<MergeReport>),
        Conflicts(Box<Picture>),
        History(Landings),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Landings {
    pub landed: Vec<Landing>,
}

/// The state of a unit after a landing was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is on the target.
    Landed,
    /// It landed earlier.
    AlreadyLanded,
    /// It would merge without conflicts (dry run).
    Clean,
    /// Its branch was pushed for review, with a pull request if one could be opened.
    Proposed,
    Conflict,
    /// The checks fail on the merged tree.
    ValidationFailed,
    /// Its branch has no commits to land.
    Nothing,
    /// An issue or unit that it depends on is not done.
    Waiting,
    /// It cannot land now; the message says why.
    Refused,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Landed => "landed",
            Self::AlreadyLanded => "already landed",
            Self::Clean => "would merge",
            Self::Proposed => "waits for review",
            Self::Conflict => "conflict",
            Self::ValidationFailed => "validation failed",
            Self::Nothing => "nothing to merge",
            Self::Waiting => "waiting",
            Self::Refused => "refused",
        }
    }

    /// The unit stays as it is, and a retry may succeed.
    pub fn is_refused(self) -> bool {
        matches!(self, Self::Refused | Self::Waiting | Self::Nothing)
    }

    pub fn is_good(self) -> bool {
        matches!(
            self,
            Self::Landed | Self::AlreadyLanded | Self::Clean | Self::Proposed
        )
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MergeReport {
    pub target: String,
    /// The commit of the target now.
    pub target_commit: String,
    pub dry_run: bool,
    /// Units in the order of landing.
    pub order: Vec<String>,
    pub units: Vec<UnitReport>,
    /// Pairs of units that change the same paths.
    pub overlap: Vec<Overlap>,
    /// Commands that the caller should run next.
    pub next: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UnitReport {
    pub unit: String,
    pub branch: String,
    pub issue_id: Option<String>,
    pub verdict: Verdict,
    pub how: Option<How>,
    pub merge_commit: Option<String>,
    pub conflicts: Vec<ConflictReport>,
    /// Paths whose conflict a rule resolved.
    pub settled: Vec<SettledPath>,
    pub validation: Vec<Validation>,
    /// Whether its issue is done.
    pub issue_done: Option<bool>,
    /// URL of the pull request, if it is known.
    pub pull_request: Option<String>,
    /// Stable code of the refusal, if there is one.
    pub code: Option<Cow<'static, str>>,
    pub message: Option<String>,
    pub help: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SettledPath {
    pub path: String,
    pub by: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ConflictReport {
    pub path: String,
    pub kind: String,
    pub message: String,
    /// Commits of the target that touched it, newest first.
    pub ours_commits: Vec<String>,
    /// Commits of the unit that touched it, newest first.
    pub theirs_commits: Vec<String>,
    pub hunks: Vec<Hunk>,
    /// The rule for this path, if its command failed.
    pub failed_rule: Option<FailedRule>,
}

/// A rule for a path whose command did not resolve the conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRule {
    #[serde(default)]
    pub path: String,
    pub command: String,
    /// For example `exit code 3`.
    pub reason: String,
    pub exit_code: Option<i32>,
    /// The last part of the command's output.
    pub output: String,
}

/// A region that both sides changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hunk {
    /// Line of the conflict marker in the file, counted from 1.
    pub line: usize,
    pub ours: String,
    pub theirs: String,
}

/// Maximum length of one shown side in characters, and maximum number of hunks shown for a file.
const MOST: usize = 2000;
const MOST_HUNKS: usize = 10;

/// Returns the conflicts between git's conflict markers.
pub fn hunks(text: &str) -> Vec<Hunk> {
    let mut found = Vec::new();
    let mut side: Option<(usize, String, String, u8)> = None;
    for (n, line) in text.lines().enumerate() {
        match &mut side {
            None if line.starts_with("<<<<<<< ") => side = Some((n + 1, String::new(), String::new(), 0)),
            None => {}
            Some((_, _, _, at)) if *at == 0 && line.starts_with("||||||| ") => *at = 1,
            Some((_, _, _, at)) if *at < 2 && line == "=======" => *at = 2,
            Some((start, ours, theirs, 2)) if line.starts_with(">>>>>>> ") => {
                found.push(Hunk {
                    line: *start,
                    ours: std::mem::take(ours),
                    theirs: std::mem::take(theirs),
                });
                side = None;
                if found.len() == MOST_HUNKS {
                    break;
                }
            }
            Some((_, ours, theirs, at)) => {
                let goal = match at {
                    0 => ours,
                    1 => continue,
                    _ => theirs,
                };
                if goal.len() < MOST {
                    goal.push_str(line);
                    goal.push('\n');
                }
            }
        }
    }
    found
}

/// Conflicts that would occur if all worktrees were committed now (H8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Picture {
    pub target: String,
    pub worktrees: Vec<Participant>,
    /// Pairs that would conflict. `b` is the name of the target if the conflict is with the target.
    pub conflicts: Vec<Pair>,
    /// Number of merges that were tried.
    pub merges: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Participant {
    /// The unit, or else the branch, or else the folder.
    pub name: String,
    pub unit: Option<String>,
    pub branch: Option<String>,
    /// `None` if a branch was examined instead of a worktree.
    pub root: Option<String>,
    /// The worktree has uncommitted changes.
    pub uncommitted: bool,
    pub changed_paths: usize,
    /// Why it could not be examined.
    pub unknown: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    pub a: String,
    pub b: String,
    pub paths: Vec<PairPath>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairPath {
    pub path: String,
    pub kind: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MergeMode {
    Land,
    /// Reports the outcome and changes nothing.
    DryRun,
    /// A person resolved the conflicts in the unit's worktree.
    Continue,
    /// Puts the conflict into the unit's own worktree.
    SendBack,
}

/// The units to land, and how.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeAsk {
    /// Unit, issue, branch or path; none means the unit of this worktree.
    pub units: Vec<String>,
    /// Every unit that is ready to land.
    pub all: bool,
    pub into: Option<String>,
    pub mode: MergeMode,
    /// Skips units that were proposed for review.
    pub leave_proposed: bool,
}

/// A target branch that is ahead of its upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unpushed {
    pub branch: String,
    /// As git shows it: `origin/main`. If the branch was never pushed, the branch that it follows.
    pub upstream: String,
    pub commits: u64,
    /// Commits that the upstream has and the branch has not. They must be integrated before the push.
    pub behind: u64,
    /// The command that pushes it.
    pub command: String,
}

/// How a branch moved forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    FastForward,
    Merge,
    Squash,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Validation {
    pub kind: Kind,
    pub name: String,
    pub command: String,
    pub passed: bool,
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// Number of tests that passed, if the output says so.
    pub tests: Option<u64>,
    /// Number of tests that passed at the previous landing.
    pub tests_before: Option<u64>,
    /// Relative to the control folder.
    pub output_file: Option<String>,
    /// The last part of its output.
    pub output: String,
    /// The issues whose gate this check is.
    #[serde(default)]
    pub issues: Vec<String>,
}

/// A unit that landed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h5_hunks_have_both_sides_and_where_they_are() {
        let text =
            "a\n<<<<<<< x\no\n||||||| b\nbase\n=======\nt\n>>>>>>> y\nb\n<<<<<<< x\n=======\nq\n>>>>>>> y\n";
        let found = hunks(text);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].line, found[0].ours.as_str(), found[0].theirs.as_str()),
            (2, "o\n", "t\n")
        );
        assert_eq!(
            (found[1].line, found[1].ours.as_str(), found[1].theirs.as_str()),
            (10, "", "q\n")
        );
        assert_eq!(hunks("<<<<<<< x\nnever ends"), []);
    }
}
