//! What came of merging, for people and programs (H5).

use jit_core::landing::order::Overlap;
use serde::Serialize;

use crate::api::trust::Kind;

/// Where a unit stands after a merge was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is on the target.
    Landed,
    /// It was before.
    AlreadyLanded,
    /// It would merge (nothing was done).
    Clean,
    /// It was pushed, and others are asked to merge it.
    Proposed,
    Conflict,
    /// Merged, it does not pass.
    ValidationFailed,
    /// There is nothing on its branch.
    Nothing,
    /// Something that it depends on is not done.
    Waiting,
    /// It cannot go now; the message says why.
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

    /// It stays where it was, for a reason that may pass.
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

#[derive(Debug, Clone, Serialize)]
pub struct MergeReport {
    pub target: String,
    /// Where the target is now.
    pub target_commit: String,
    pub dry_run: bool,
    /// Units in the order in which they went.
    pub order: Vec<String>,
    pub units: Vec<UnitReport>,
    /// Pairs that change the same paths.
    pub overlap: Vec<Overlap>,
    /// Commands that are left to the caller.
    pub next: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct UnitReport {
    pub unit: String,
    pub branch: String,
    pub issue_id: Option<String>,
    pub verdict: Verdict,
    pub how: Option<How>,
    pub merge_commit: Option<String>,
    pub conflicts: Vec<ConflictReport>,
    /// Paths that a rule settled.
    pub settled: Vec<SettledPath>,
    pub validation: Vec<Validation>,
    /// Whether its issue is done.
    pub issue_done: Option<bool>,
    /// Where others can look at it, if that is known.
    pub pull_request: Option<String>,
    /// A stable code, where something stands in the way.
    pub code: Option<&'static str>,
    pub message: Option<String>,
    pub help: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct SettledPath {
    pub path: String,
    pub by: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct ConflictReport {
    pub path: String,
    pub kind: String,
    pub message: String,
    /// Commits of the target that touched it, newest first.
    pub ours_commits: Vec<String>,
    /// Commits of the unit that touched it, newest first.
    pub theirs_commits: Vec<String>,
    pub hunks: Vec<Hunk>,
    /// The rule that was to settle it, where its command failed.
    pub failed_rule: Option<FailedRule>,
}

/// A rule for a path whose command did not settle it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedRule {
    #[serde(skip)]
    pub path: String,
    pub command: String,
    /// `exit code 3`, for one.
    pub reason: String,
    pub exit_code: Option<i32>,
    /// The end of what it printed.
    pub output: String,
}

/// A place where both sides changed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hunk {
    /// In the file with marks, counted from 1.
    pub line: usize,
    pub ours: String,
    pub theirs: String,
}

/// Most of a hunk that is shown, in characters, and most hunks of a file.
const MOST: usize = 2000;
const MOST_HUNKS: usize = 10;

/// The conflicts in a text that git marked.
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

/// Who would be in whose way if all of it were committed now (H8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Picture {
    pub target: String,
    pub worktrees: Vec<Participant>,
    /// Pairs that would conflict; `b` is the target's name where it is the other side.
    pub conflicts: Vec<Pair>,
    /// So many merges were tried.
    pub merges: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Participant {
    /// The unit, else the branch, else the folder.
    pub name: String,
    pub unit: Option<String>,
    pub branch: Option<String>,
    /// `None` where a branch was looked at, and no folder.
    pub root: Option<String>,
    /// Something in it is not committed.
    pub uncommitted: bool,
    pub changed_paths: usize,
    /// Why nothing is known about it.
    pub unknown: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    pub a: String,
    pub b: String,
    pub paths: Vec<PairPath>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PairPath {
    pub path: String,
    pub kind: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeMode {
    Land,
    /// Say what would happen.
    DryRun,
    /// A person settled the conflicts in the unit's worktree.
    Continue,
    /// Put the conflict into the unit's own worktree.
    SendBack,
}

/// What is to be merged.
#[derive(Debug, Clone)]
pub struct MergeAsk {
    /// Unit, issue, branch or path; none means the unit of this worktree.
    pub units: Vec<String>,
    /// Every unit that is ready for it.
    pub all: bool,
    pub into: Option<String>,
    pub mode: MergeMode,
    /// What others were asked to merge is left to them.
    pub leave_proposed: bool,
}

/// A target that is ahead of where it is pushed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unpushed {
    pub branch: String,
    /// As git shows it: `origin/main`. Where it was never pushed, what it follows.
    pub upstream: String,
    pub commits: u64,
    /// It is behind too: this has to come first.
    pub behind: u64,
    /// What shares it.
    pub command: String,
}

/// How a step came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    FastForward,
    Merge,
    Squash,
}

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Validation {
    pub kind: Kind,
    pub name: String,
    pub command: String,
    pub passed: bool,
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// How many tests passed, where it said so.
    pub tests: Option<u64>,
    /// How many it were at the landing before.
    pub tests_before: Option<u64>,
    /// Below the control folder.
    pub output_file: Option<String>,
    /// The end of what it printed.
    pub output: String,
    /// The issues whose gate it is.
    #[serde(skip)]
    pub issues: Vec<String>,
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
