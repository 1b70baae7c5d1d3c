//! Checks whether a branch contains the tip of the main branch (C6).
//!
//! The main branch is the detected default one: the remote's HEAD, else main or master, else the current one. If
//! `global_operations.allowed_branches` names branches without that one, the main branch is the first of those. If a
//! remote has the branch, its tip is the remote's tip at the last fetch; else it is the local tip.
//!
//! These cases are ordinary: no remote, no main branch, an unborn branch, a detached HEAD. Without anything to
//! compare with, nothing diverges.

use jit_core::model::refusal::Code;
use jit_git::branches::default_branch;
use jit_git::{Git, Place};
use jit_store::Outcome;

use crate::api::doctor::Divergence;
use crate::config::Config;
use crate::refusals::refuse;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MainBranch {
    /// The branch name without `refs/heads/`.
    pub name: String,
    /// The ref of its tip; `None` while it has no commit.
    pub tip: Option<String>,
    /// The remote that the tip came from.
    pub remote: Option<String>,
}

impl MainBranch {
    /// Returns the name as a person would type it.
    pub fn short(&self) -> String {
        match &self.remote {
            Some(remote) => format!("{remote}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns the commands that bring a branch up to it.
    pub fn help(&self) -> Vec<String> {
        let fetch = self.remote.as_ref().map(|remote| format!("git fetch {remote}"));
        fetch
            .into_iter()
            .chain([format!("git rebase {}", self.short())])
            .collect()
    }
}

/// Returns the main branch; `None` if it cannot be determined.
pub fn main_branch(place: &Place, config: &Config) -> Outcome<Option<MainBranch>> {
    let Some(git_dir) = &place.git_dir else {
        return Ok(None);
    };
    let failed = |e| refuse(Code::Io, e);
    let allowed = config.allowed_branches();
    let detected = default_branch(place, allowed.first().map(String::as_str)).map_err(failed)?;
    let name = match (detected, allowed.first()) {
        (Some(found), None) => found.name,
        (Some(found), Some(_)) if allowed.contains(&found.name) => found.name,
        (_, Some(first)) => first.clone(),
        (None, None) => return Ok(None),
    };
    let listed = Git::in_git_dir(git_dir)
        .args(["for-each-ref", "--format=%(refname)"])
        .arg(format!("refs/heads/{name}"))
        .arg("refs/remotes")
        .run()
        .map_err(failed)?;
    let listed = String::from_utf8_lossy(&listed);
    let refs: Vec<&str> = listed.lines().collect();
    let remotes: Vec<&str> = refs
        .iter()
        .filter_map(|full| {
            full.strip_prefix("refs/remotes/")?
                .strip_suffix(&format!("/{name}"))
        })
        .collect();
    // Names of remotes and branches may contain slashes, so several may fit: `origin` is preferred.
    let remote = match remotes.as_slice() {
        all if all.contains(&"origin") => Some("origin".to_owned()),
        [only] => Some((*only).to_owned()),
        _ => None,
    };
    let local = format!("refs/heads/{name}");
    let tip = match &remote {
        Some(remote) => Some(format!("refs/remotes/{remote}/{name}")),
        None => refs.contains(&local.as_str()).then_some(local),
    };
    Ok(Some(MainBranch { name, tip, remote }))
}

pub fn divergence(place: &Place, config: &Config) -> Outcome<Divergence> {
    let failed = |e| refuse(Code::Io, e);
    let branch = place.branch().map_err(|e| refuse(Code::Io, e))?;
    let here = branch.clone().unwrap_or_else(|| "HEAD".to_owned());
    let fine = |against: Option<String>, message: String| Divergence {
        ok: true,
        branch: branch.clone(),
        against,
        ahead: 0,
        behind: 0,
        message,
        help: Vec::new(),
    };
    let Some(git_dir) = &place.git_dir else {
        return Ok(fine(None, "there is no git here, so nothing can diverge".into()));
    };
    let Some(main) = main_branch(place, config)? else {
        return Ok(fine(None, "there is no main branch to compare with".into()));
    };
    let short = main.short();
    let Some(tip) = &main.tip else {
        return Ok(fine(None, format!("{short} has no commit yet")));
    };
    if Git::in_git_dir(git_dir).verify("HEAD").map_err(failed)?.is_none() {
        return Ok(fine(Some(short), format!("{here} has no commit yet")));
    }
    let counted = Git::in_git_dir(git_dir)
        .args(["rev-list", "--left-right", "--count"])
        .arg(format!("HEAD...{tip}"))
        .arg("--")
        .line()
        .map_err(failed)?;
    let mut numbers = counted.split_whitespace().filter_map(|word| word.parse().ok());
    let (ahead, behind): (u64, u64) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let ok = behind == 0;
    let message = if ok {
        format!("{here} contains the tip of {short}")
    } else {
        let commits = if behind == 1 { "a commit" } else { "commits" };
        format!("{here} lacks {commits} of {short}: {behind} behind, {ahead} ahead")
    };
    Ok(Divergence {
        ok,
        branch,
        against: Some(short),
        ahead,
        behind,
        message,
        help: if ok { Vec::new() } else { main.help() },
    })
}
