//! Finds targets with landings that are not pushed yet (H3).
//!
//! What must hold:
//!
//! - No network access.
//! - No process is started if no target has an upstream branch. None is started for a target at the same commit as the
//!   branch it is pushed to. Otherwise git is asked for that branch and for the distance.
//! - Nothing is created.
//!
//! Limitations: the state of the remote is the one of the last push or fetch. Settings outside of the repository's own
//! config file are not read at first. If only those name another remote, a target may be reported later than possible.
//! If refs are stored in reftables, git is asked each time.

use std::collections::BTreeSet;
use std::path::Path;

use jit_git::config::{self, Sharing, Upstream};
use jit_os::file;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use super::Repo;
use super::remote::{Remote, pushes_upstream};
use crate::api::landing::Unpushed;
use crate::refusals::failed;

/// Longer files of git are not read.
const LONGEST: u64 = 16 << 20;

/// The branches of this repository that have an upstream branch, and where they are pushed.
pub fn sharing(common: &Path) -> Sharing {
    match file::read_real(&common.join("config"), LONGEST) {
        Ok(Some(text)) => config::sharing(&text),
        _ => Sharing::default(),
    }
}

/// The refs of a repository, read from its files. `packed-refs` is read only if a ref has no file of its own.
struct Refs<'a> {
    common: &'a Path,
    packed: Option<String>,
}

impl Refs<'_> {
    fn commit(&mut self, name: &str) -> Option<String> {
        if let Ok(Some(text)) = file::read_real(&self.common.join(name), 4096) {
            let text = String::from_utf8(text).ok()?;
            return Some(text.trim().to_owned()).filter(|text| !text.starts_with("ref:"));
        }
        let common = self.common;
        let packed =
            self.packed
                .get_or_insert_with(|| match file::read_real(&common.join("packed-refs"), LONGEST) {
                    Ok(Some(text)) => String::from_utf8_lossy(&text).into_owned(),
                    _ => String::new(),
                });
        let of = |line: &str| {
            let (commit, found) = line.split_once(' ')?;
            (found == name).then(|| commit.to_owned())
        };
        packed.lines().find_map(of)
    }
}

/// The remote-tracking ref of the branch that this one is pushed to.
fn tracked(one: &Upstream, sharing: &Sharing) -> String {
    let remote = one.push_remote.as_ref().or(sharing.push_remote.as_ref());
    let remote = remote.unwrap_or(&one.remote);
    let follows = one.merge.strip_prefix("refs/heads/").unwrap_or(&one.merge);
    let name = match *remote == one.remote && pushes_upstream(&sharing.push_default) {
        true => follows,
        false => &one.branch,
    };
    format!("refs/remotes/{remote}/{name}")
}

/// Returns those of these targets that are ahead of the branch they are pushed to.
pub(crate) fn unpushed(repo: &Repo, targets: &BTreeSet<String>, sharing: &Sharing) -> Vec<Unpushed> {
    let mut refs = Refs {
        common: &repo.common,
        packed: None,
    };
    let mut found = Vec::new();
    for one in sharing
        .branches
        .iter()
        .filter(|one| targets.contains(&one.branch))
    {
        let here = refs.commit(&format!("refs/heads/{}", one.branch));
        if here.is_some() && here == refs.commit(&tracked(one, sharing)) {
            continue;
        }
        // This is extra information in a reply, so an error here is ignored.
        found.extend(apart(repo, one).ok().flatten());
    }
    found
}

/// Returns how far a branch is ahead of the branch it is pushed to or, if it was never pushed, of its upstream.
/// `None` if it is not ahead.
pub(crate) fn apart(repo: &Repo, one: &Upstream) -> Outcome<Option<Unpushed>> {
    let Some(remote) = repo.remote_of(&one.branch)? else {
        return Ok(None);
    };
    if remote.own_left_out(&one.branch).is_some() {
        return Ok(None);
    }
    let follows = one.merge.strip_prefix("refs/heads/").unwrap_or(&one.merge);
    let pushed = format!("{}/{}", remote.name, remote.branch);
    let follows = format!("{}/{follows}", one.remote);
    let mut there = None;
    for name in [pushed, follows] {
        let known = repo.git().verify(&format!("refs/remotes/{name}^{{commit}}"));
        if known.map_err(failed)?.is_some() {
            there = Some(name);
            break;
        }
    }
    let Some(upstream) = there else { return Ok(None) };
    let range = format!("refs/heads/{}...refs/remotes/{upstream}", one.branch);
    let git = repo
        .git()
        .args(["rev-list", "--left-right", "--count", &range, "--"]);
    let counts = git.line().map_err(failed)?;
    let mut counts = counts
        .split_whitespace()
        .map(|word| word.parse::<u64>().unwrap_or(0));
    let (commits, behind) = (counts.next().unwrap_or(0), counts.next().unwrap_or(0));
    if commits == 0 {
        return Ok(None);
    }
    let push = remote.push_command(&one.branch);
    Ok(Some(Unpushed {
        command: match behind {
            0 => push,
            // The result of the pull is to be checked before it is pushed.
            _ => format!(
                "{} # see that it passes, then: {push}",
                pull_command(repo, &one.branch, &upstream, &remote)
            ),
        },
        branch: one.branch.clone(),
        upstream,
        commits,
        behind,
    }))
}

/// The command that brings a branch up to `upstream`.
pub(crate) fn pull_command(repo: &Repo, branch: &str, upstream: &str, remote: &Remote) -> String {
    let all = crate::worktree_identity::list(&repo.common).unwrap_or_default();
    let out = all
        .into_iter()
        .find(|entry| entry.branch.as_deref() == Some(branch));
    let at = match out.and_then(|entry| entry.root) {
        Some(root) => format!("git -C {}", shell_word(&root.to_string_lossy())),
        None => format!("git switch {} && git", shell_word(branch)),
    };
    let (from, name) = match upstream.strip_prefix(&format!("{}/", remote.name)) {
        Some(name) => (remote.name.as_str(), name),
        None => upstream.split_once('/').unwrap_or((upstream, branch)),
    };
    format!("{at} pull --no-rebase {} {}", shell_word(from), shell_word(name))
}
