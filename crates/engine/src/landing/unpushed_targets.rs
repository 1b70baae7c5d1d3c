//! Targets with landings that others have not got (H3).
//!
//! What must hold: no network, and no process where no target follows a branch of a remote, or where it is at the very commit
//! that the branch has to which it is pushed. Only then git is asked where that is, and how far they are apart. Nothing is made.
//!
//! Limitations: what is over there is what the last push or fetch told. Settings outside of the repository's own file are not
//! read at first, so where only they name another remote, a target may be told later than it could. Refs that are kept in
//! tables are asked for each time.

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

/// No file of git's that is longer is looked into.
const LONGEST: u64 = 16 << 20;

/// The branches of this repository that follow one of a remote, and where they go.
pub fn sharing(common: &Path) -> Sharing {
    match file::read_real(&common.join("config"), LONGEST) {
        Ok(Some(text)) => config::sharing(&text),
        _ => Sharing::default(),
    }
}

/// The refs of a repository, as its files have them. The long file is read only where a ref has none of its own.
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

/// Where git knows a branch to be that is pushed.
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

impl Repo {
    /// Which of these targets are ahead of where they are pushed to.
    pub fn unpushed(&self, targets: &BTreeSet<String>, sharing: &Sharing) -> Vec<Unpushed> {
        let mut refs = Refs {
            common: &self.common,
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
            // It is told beside what was asked for.
            found.extend(self.apart(one).ok().flatten());
        }
        found
    }

    /// How far a branch is from where it is pushed to, or, if it never was, from what it follows. Nothing where it is not ahead.
    fn apart(&self, one: &Upstream) -> Outcome<Option<Unpushed>> {
        let Some(remote) = self.remote_of(&one.branch)? else {
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
            let known = self.git().verify(&format!("refs/remotes/{name}^{{commit}}"));
            if known.map_err(failed)?.is_some() {
                there = Some(name);
                break;
            }
        }
        let Some(upstream) = there else { return Ok(None) };
        let range = format!("refs/heads/{}...refs/remotes/{upstream}", one.branch);
        let git = self
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
                // What comes of it is not pushed unseen.
                _ => format!(
                    "{} # see that it passes, then: {push}",
                    self.pull_command(&one.branch, &upstream, &remote)
                ),
            },
            branch: one.branch.clone(),
            upstream,
            commits,
            behind,
        }))
    }

    /// What brings a branch up to what is known by this name.
    fn pull_command(&self, branch: &str, upstream: &str, remote: &Remote) -> String {
        let all = crate::worktree_identity::list(&self.common).unwrap_or_default();
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
}
