//! Targets with landings that others have not got (H3).
//!
//! What must hold: no network, and no process where no target follows a branch of a remote, or where it is at the very commit
//! that this has. Only then git is asked, once for all of them, how far they are apart.
//!
//! Limitations: what is over there is what the last push or fetch told. Settings outside of the repository's own file are not
//! read. Refs that are kept in tables are asked for each time.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use super::Repo;
use super::remote::push_command;
use crate::git::config::{Upstream, upstreams};
use crate::os::file;

/// A target that is ahead of what it follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unpushed {
    pub branch: String,
    /// As git shows it: `origin/main`.
    pub upstream: String,
    pub commits: u64,
    /// It is behind too: this has to come first.
    pub behind: u64,
    /// What shares it.
    pub command: String,
}

/// No file of git's that is longer is looked into.
const LONGEST: u64 = 16 << 20;

/// The branches of this repository that follow one of a remote.
pub fn following(common: &Path) -> Vec<Upstream> {
    match file::read_real(&common.join("config"), LONGEST) {
        Ok(Some(text)) => upstreams(&text),
        _ => Vec::new(),
    }
}

/// The commit of a ref, if its file says so.
fn commit_of(common: &Path, name: &str, packed: &str) -> Option<String> {
    if let Ok(Some(text)) = file::read_real(&common.join(name), 4096) {
        let text = String::from_utf8(text).ok()?;
        return Some(text.trim().to_owned()).filter(|text| !text.starts_with("ref:"));
    }
    let of = |line: &str| {
        let (commit, found) = line.split_once(' ')?;
        (found == name).then(|| commit.to_owned())
    };
    packed.lines().find_map(of)
}

impl Repo {
    /// Which of these targets are ahead of what they follow.
    pub fn unpushed(&self, targets: &BTreeSet<String>, following: &[Upstream]) -> Vec<Unpushed> {
        let packed = match file::read_real(&self.common.join("packed-refs"), LONGEST) {
            Ok(Some(text)) => String::from_utf8_lossy(&text).into_owned(),
            _ => String::new(),
        };
        let tracked = |one: &Upstream| {
            let name = one.merge.strip_prefix("refs/heads/").unwrap_or(&one.merge);
            format!("refs/remotes/{}/{name}", one.remote)
        };
        let differs = |one: &&Upstream| {
            let here = commit_of(&self.common, &format!("refs/heads/{}", one.branch), &packed);
            let there = commit_of(&self.common, &tracked(one), &packed);
            here.is_none() || here != there
        };
        let asked: Vec<&Upstream> = following
            .iter()
            .filter(|one| targets.contains(&one.branch))
            .filter(differs)
            .collect();
        if asked.is_empty() {
            return Vec::new();
        }
        let git = self
            .git()
            .arg("for-each-ref")
            .arg("--format=%(refname:lstrip=2)%00%(upstream:lstrip=2)%00%(upstream:track,nobracket)")
            .args(asked.iter().map(|one| format!("refs/heads/{}", one.branch)));
        // It is told beside what was asked for.
        let listed = git.run().unwrap_or_default();
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let mut found = Vec::new();
        for line in listed.lines() {
            let mut parts = line.split('\0');
            let (Some(branch), Some(upstream), Some(track)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let count = |word: &str| -> u64 {
                let part = track.split(", ").find_map(|part| part.strip_prefix(word));
                part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
            };
            // Patterns find what is below a name too.
            let Some(one) = asked.iter().find(|one| one.branch == branch) else {
                continue;
            };
            if count("ahead") > 0 {
                let there = one.merge.strip_prefix("refs/heads/").unwrap_or(&one.merge);
                found.push(Unpushed {
                    branch: branch.to_owned(),
                    upstream: upstream.to_owned(),
                    commits: count("ahead"),
                    behind: count("behind"),
                    command: push_command(&one.remote, branch, there),
                });
            }
        }
        found
    }
}
