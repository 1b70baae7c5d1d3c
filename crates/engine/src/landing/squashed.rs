//! What was squashed onto a target counts as merged there, though its history does not say so (H3).
//!
//! What must hold:
//!
//! - whoever goes on from a commit that was squashed onto the target is merged with the target from that commit, not from
//!   where the two parted before: else what is taken back would count as never done, and what is changed once more as a
//!   conflict with its own landing;
//! - that is read from the target's history, so a target that was moved back behind a landing has not got it.
//!
//! Git merges from what the two histories have in common. So it is given the target with one more commit on top, which
//! has the target's files, and for parents the target and what was squashed onto it. Nothing refers to that commit, and it is
//! the same one whenever it is made.

use std::collections::HashSet;

use super::candidate::SQUASHED;
use super::{Repo, failed};
use crate::git::Git;
use crate::store::Outcome;

/// The target as one to merge `tip` with: itself, unless something that `tip` goes on from was squashed onto it.
pub fn joined(git: &dyn Fn() -> Git, target: &str, tip: &str) -> Outcome<String> {
    join(git, target, tip, &[&format!("{tip}..{target}")])
}

/// The same, as far as one commit of the target's history says so. For questions that no one else's word is to decide:
/// anybody can write a commit with such a message, but not one with the name of a commit that jit made.
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
    let named: HashSet<&str> = log.split_ascii_whitespace().collect();
    if named.is_empty() {
        return Ok(target.to_owned());
    }
    let own = git()
        .args(["rev-list", &format!("{target}..{tip}")])
        .run()
        .map_err(failed)?;
    let own = String::from_utf8_lossy(&own);
    let mut squashed: Vec<String> = own
        .lines()
        .filter(|commit| named.contains(commit))
        .map(str::to_owned)
        .collect();
    if squashed.len() > 1 {
        let last = git().args(["merge-base", "--independent"]).args(&squashed);
        let last = last.run().map_err(failed)?;
        squashed = String::from_utf8_lossy(&last)
            .lines()
            .map(str::to_owned)
            .collect();
    }
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

/// So far back it is looked for what was squashed, where that is only a hint.
const LATELY: &str = "--max-count=1000";

impl Repo {
    /// Whether anything was squashed onto a target lately.
    pub fn squashes(&self, target: &str) -> Outcome<bool> {
        let log = self
            .git()
            .args(["log", "--first-parent", "--no-show-signature", LATELY])
            .arg(format!("--format=%(trailers:key={SQUASHED},valueonly)"))
            .args([target, "--"])
            .run()
            .map_err(failed)?;
        Ok(!log.trim_ascii().is_empty())
    }

    /// The target as one to merge `tip` with.
    pub fn joined(&self, target: &str, tip: &str) -> Outcome<String> {
        joined(&|| self.git(), target, tip)
    }
}
