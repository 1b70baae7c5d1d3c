//! Treats squashed commits as merged into the target, although the target's history does not contain them (H3).
//!
//! What must hold:
//!
//! - A branch that continues from a squashed commit is merged with the target from that commit, not from the older
//!   point where the two parted. Otherwise a revert of the squashed work would be ignored. A second change of the same
//!   lines would conflict with its own landing.
//! - The ancestors of a squashed commit were squashed with it. If a unit was built on another unit, both have landed.
//! - This is read from the target's history. A target that was reset to before a landing does not contain that
//!   landing.
//!
//! Git chooses the merge base from the common history. So git gets the target with one extra commit on top. That
//! commit has the target's files, and its parents are the target and the squashed commits. No ref points to it, and it
//! has the same id whenever it is made.

use std::collections::{BTreeSet, HashSet};

use jit_git::Git;
use jit_store::Outcome;

use super::Repo;
use crate::refusals::failed;
use crate::units::worktree_state::SQUASHED;

/// Returns the commit to merge `tip` with: the target itself, unless an ancestor of `tip` was squashed onto it.
pub fn joined(git: &dyn Fn() -> Git, target: &str, tip: &str) -> Outcome<String> {
    join(git, target, tip, &[&format!("{tip}..{target}")])
}

/// Like [`joined`], but uses only the trailers of one commit of the target's history. For decisions that must not
/// depend on a forged message: anyone can write a commit with such a message, but not one with the id of a commit that
/// jit made.
pub fn joined_by(git: &dyn Fn() -> Git, commit: &str, target: &str, tip: &str) -> Outcome<String> {
    join(git, target, tip, &["--max-count=1", commit])
}

fn join(git: &dyn Fn() -> Git, target: &str, tip: &str, said_in: &[&str]) -> Outcome<String> {
    let log = git()
        .args(["log", "--first-parent", "--no-show-signature"])
        .arg(format!(
            "--format=%(trailers:key={SQUASHED},valueonly,separator=%x20)"
        ))
        .args(said_in)
        .arg("--")
        .run()
        .map_err(failed)?;
    let log = String::from_utf8_lossy(&log);
    let named: BTreeSet<&str> = log
        .split_ascii_whitespace()
        .filter(|name| is_name(name))
        .collect();
    if named.is_empty() {
        return Ok(target.to_owned());
    }
    let squashed = last_of(git, target, tip, &named)?;
    if squashed.is_empty() {
        return Ok(target.to_owned());
    }
    let date = git()
        .args([
            "show",
            "-s",
            "--no-show-signature",
            "--format=@%ct +0000",
            target,
            "--",
        ])
        .line()
        .map_err(failed)?;
    let mut commit = git()
        .args(["commit-tree", &format!("{target}^{{tree}}"), "-p", target])
        .args(["-m", "What was squashed here counts as merged"]);
    for one in &squashed {
        commit = commit.args(["-p", one]);
    }
    for who in ["AUTHOR", "COMMITTER"] {
        commit = commit
            .env(format!("GIT_{who}_NAME"), "jit")
            .env(format!("GIT_{who}_EMAIL"), "jit@jit.invalid")
            .env(format!("GIT_{who}_DATE"), &date);
    }
    commit.line().map_err(failed)
}

/// Returns whether this can be a commit id: a message may contain anything.
fn is_name(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The latest commits that `tip` has and the target has not, and that the named commits contain too.
fn last_of(git: &dyn Fn() -> Git, target: &str, tip: &str, named: &BTreeSet<&str>) -> Outcome<Vec<String>> {
    let list = |ask: String| -> Outcome<String> {
        // A named commit may be missing in this repository. Then nothing here continues from it.
        let list = git()
            .env("GIT_NO_LAZY_FETCH", "1")
            .args(["rev-list", "--ignore-missing", "--boundary", "--stdin"])
            .stdin(ask)
            .run()
            .map_err(failed)?;
        Ok(String::from_utf8_lossy(&list).into_owned())
    };
    let own = list(format!("{tip}\n^{target}\n"))?;
    let own: HashSet<&str> = own.lines().filter(|line| !line.starts_with('-')).collect();
    if own.is_empty() {
        return Ok(Vec::new());
    }
    let mut ask = format!("{tip}\n^{target}\n");
    for one in named {
        ask.push_str(&format!("^{one}\n"));
    }
    let left = list(ask)?;
    if left.is_empty() {
        return Ok(vec![tip.to_owned()]);
    }
    let borders = left.lines().filter_map(|line| line.strip_prefix('-'));
    let last: Vec<String> = borders
        .filter(|commit| own.contains(commit))
        .map(str::to_owned)
        .collect();
    if last.len() < 2 {
        return Ok(last);
    }
    let last = git().args(["merge-base", "--independent"]).args(&last);
    let last = last.run().map_err(failed)?;
    Ok(String::from_utf8_lossy(&last)
        .lines()
        .map(str::to_owned)
        .collect())
}

/// How many commits of the target are searched for squashes, where the result is only a hint.
const LATELY: &str = "--max-count=1000";

/// Returns whether the recent history of a target contains a squash.
pub(crate) fn squashes(repo: &Repo, target: &str) -> Outcome<bool> {
    let log = repo
        .git()
        .args(["log", "--first-parent", "--no-show-signature", LATELY])
        .arg(format!("--format=%(trailers:key={SQUASHED},valueonly)"))
        .args([target, "--"])
        .run()
        .map_err(failed)?;
    Ok(!log.trim_ascii().is_empty())
}

/// Returns the commit to merge `tip` with.
pub(crate) fn joined_in(repo: &Repo, target: &str, tip: &str) -> Outcome<String> {
    if repo.is_plain(target, tip) {
        return Ok(target.to_owned());
    }
    joined(&|| repo.git(), target, tip)
}

/// Returns the commit that brought all of `tip` to the target as part of another squash.
pub(crate) fn squashed_with(repo: &Repo, target: &str, tip: &str) -> Outcome<Option<String>> {
    let joined = joined_in(repo, target, tip)?;
    if joined == target || !repo.is_ancestor(tip, &joined)? {
        return Ok(None);
    }
    let log = repo
        .git()
        .args(["log", "--first-parent", "--no-show-signature", "--reverse"])
        .arg(format!(
            "--format=%H %(trailers:key={SQUASHED},valueonly,separator=%x20)"
        ))
        .args([&format!("{tip}..{target}"), "--"])
        .run()
        .map_err(failed)?;
    for line in String::from_utf8_lossy(&log).lines() {
        let Some((commit, named)) = line.split_once(' ') else {
            continue;
        };
        for one in named.split_ascii_whitespace().filter(|name| is_name(name)) {
            let there = repo.git().verify(&format!("{one}^{{commit}}"));
            if there.map_err(failed)?.is_some() && repo.is_ancestor(tip, one)? {
                return Ok(Some(commit.to_owned()));
            }
        }
    }
    // Several squashes together brought it.
    Ok(None)
}
