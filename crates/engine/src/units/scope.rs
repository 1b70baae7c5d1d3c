//! The scope of a unit, that is the paths it may write, and the paths it has changed (G15).
//!
//! What must hold:
//!
//! - A unit with `writes` is never COMPLETED if another path differs between the base of its branch and its worktree
//!   now. Commits, uncommitted changes and untracked files all count. For a renamed file both names count.
//! - Changes that came from the target since then (by a merge or a rebase) do not count for the unit. Files ignored
//!   by git count for no unit.
//! - Issue files and gate results follow the rules about issues: jit writes them wherever it is called.
//!
//! Limitations: a change in the main checkout cannot be attributed to an agent afterwards. The agent hooks refuse
//! such a write if the agent program has hooks. A write by an agent without hooks is not detected here.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use jit_core::log::state;
use jit_core::model::glob::Pattern;
use jit_core::model::refusal::Code;
use jit_core::model::unit::{Failure, Phase, Unit};
use jit_core::model::{failure_reason, plan_check};
use jit_git::GitError;
use jit_store::Outcome;

use crate::context::Context;
use crate::refusals::refuse;
use crate::units::worktree_state::is_merging;

/// Maximum number of paths named in a message.
const NAMED: usize = 5;
/// Maximum number of paths examined for a running unit.
pub(crate) const MOST_TOUCHED: usize = 2000;
/// Minimum time between two examinations of a running unit's changes.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Paths that follow the rules about issues.
pub(crate) const TRACKER: &[&str] = &[".jit/issues/", ".jit/gates/results/"];

fn git(e: GitError) -> Box<jit_core::model::refusal::Refusal> {
    crate::refusals::failed(e)
}

/// The paths that a unit may write.
#[derive(Debug, Clone)]
pub(crate) struct Scope(Vec<Pattern>);

impl Scope {
    /// `None` means anywhere.
    pub(crate) fn of(writes: &[String]) -> Outcome<Option<Self>> {
        let parse = |text: &String| plan_check::pattern(text).map_err(|why| refuse(Code::Invalid, why));
        let patterns: Outcome<Vec<Pattern>> = writes.iter().map(parse).collect();
        Ok(Some(patterns?).filter(|all| !all.is_empty()).map(Self))
    }

    /// `path` is relative to the worktree.
    pub(crate) fn allows(&self, path: &str) -> bool {
        TRACKER.iter().any(|folder| path.starts_with(folder))
            || self.0.iter().any(|pattern| pattern.matches(path))
    }

    /// The patterns as text for people and agents.
    pub(crate) fn shown(&self) -> String {
        let all: Vec<&str> = self.0.iter().map(Pattern::as_str).collect();
        all.join(", ")
    }
}

/// Returns the scope of the agent that runs in this worktree; `None` means anywhere in it.
pub(crate) fn scope_here(cx: &Context) -> Outcome<Option<Scope>> {
    let Some(root) = cx.place.worktree_root.as_deref() else {
        return Ok(None);
    };
    let units = state::units(&*crate::write_path::view(cx)?.table).map_err(|e| refuse(Code::Io, e))?;
    let at_work = |unit: &&Unit| matches!(unit.state, Phase::Dispatched | Phase::Running);
    let here = units.iter().filter(at_work).find(|unit| {
        let path = Path::new(&unit.worktree_path);
        path == root
            || std::fs::canonicalize(path).is_ok_and(|real| real == root)
            || (unit.worktree_id.is_some() && unit.worktree_id == cx.actor.worktree_id)
    });
    here.map_or(Ok(None), |unit| Scope::of(&unit.writes))
}

/// Returns every path that a unit has changed, committed or not.
pub(crate) fn changed_paths(cx: &Context, unit: &Unit) -> Outcome<BTreeSet<String>> {
    let common = crate::units::service::common(cx)?;
    let mut found = BTreeSet::new();
    let between = |a: &str, b: &str| -> Outcome<BTreeSet<String>> {
        let listed = cx
            .git_in(common)
            .args(["diff-tree", "-r", "--name-only", "--no-renames", "-z", a, b])
            .run()
            .map_err(git)?;
        Ok(names(&listed, 0).collect())
    };
    let branch = format!("refs/heads/{}", unit.branch);
    if let Some(tip) = cx.git_in(common).verify(&branch).map_err(git)? {
        found = between(&unit.base, &tip)?;
        let target = format!("refs/heads/{}", unit.target);
        // The branches may have no common ancestor.
        let met = cx.git_in(common).args(["merge-base", &target, &tip]).line().ok();
        // A target that already contains the tip was moved without permission.
        if let Some(met) = met.filter(|met| *met != unit.base && *met != tip) {
            let own = between(&met, &tip)?;
            found.retain(|path| own.contains(path));
        }
    }
    let root = Path::new(&unit.worktree_path);
    // During a merge the worktree also contains the changes of others.
    if root.join(".git").exists() && !is_merging(root) {
        let listed = cx
            .git_at(root)
            .args([
                "--no-optional-locks",
                "status",
                "--porcelain",
                "-z",
                "--no-renames",
            ])
            .args(["--untracked-files=all", "--ignore-submodules=none"])
            .run()
            .map_err(git)?;
        let brought = match listed.is_empty() {
            true => None,
            false => Some(crate::units::service::brought(cx)?),
        };
        // Files that jit itself put there do not count for the unit.
        let untracked: BTreeSet<String> = names_marked(&listed, b"??").collect();
        let own = |path: &String| {
            untracked.contains(path) && brought.as_ref().is_some_and(|brought| brought.has(path))
        };
        found.extend(names(&listed, 3).filter(|path| !own(path)));
    }
    Ok(found)
}

/// Returns a failure that names the changes outside the scope, if there are any.
pub(crate) fn outside_scope(cx: &Context, unit: &Unit, writes: &[String]) -> Outcome<Option<Failure>> {
    let Some(scope) = Scope::of(writes)? else {
        return Ok(None);
    };
    let changed = changed_paths(cx, unit)?;
    let outside: Vec<&String> = changed.iter().filter(|path| !scope.allows(path)).collect();
    if outside.is_empty() {
        return Ok(None);
    }
    let named: Vec<String> = outside
        .iter()
        .take(NAMED)
        .map(|path| format!("{path:?}"))
        .collect();
    let more = match outside.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let short: String = unit.base.chars().take(12).collect();
    Ok(Some(Failure {
        reason: failure_reason::OUTSIDE.to_owned(),
        message: format!(
            "it may write only {}, and changed {}{more}: these have to be as they were at {short}",
            scope.shown(),
            named.join(", "),
        ),
        exit_code: None,
        output: None,
    }))
}

/// Returns the paths that `git status` lists with these two letters.
fn names_marked<'a>(listed: &'a [u8], marks: &'a [u8]) -> impl Iterator<Item = String> + 'a {
    listed
        .split(|b| *b == 0)
        .filter(move |one| one.starts_with(marks))
        .flat_map(|one| names(one, 3))
}

/// Returns the paths that git lists, each after `behind` other characters.
fn names(listed: &[u8], behind: usize) -> impl Iterator<Item = String> {
    listed
        .split(|b| *b == 0)
        .filter_map(move |one| one.get(behind..))
        .filter(|one| !one.is_empty())
        .map(|one| String::from_utf8_lossy(one).into_owned())
}
