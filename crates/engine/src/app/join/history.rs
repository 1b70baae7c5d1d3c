//! What the files of issues were in the commits that led to what is checked out.
//!
//! What must hold: git is asked once which commits there are about all issues, and again only where somebody wants to know of
//! earlier ones; contents are read for issues alone that such commits are about. Where git does not say, there was nothing.

use std::collections::HashMap;
use std::path::Path;

use jit_core::ids::IssueId;
use jit_core::time::Wall;

use crate::git::Git;
use crate::git::run::contents;
use crate::os::clock;

/// So many commits about issues are looked at.
const MOST: &str = "2000";
/// So many versions of one file are looked at.
const MOST_VERSIONS: usize = 64;
/// So many branches are looked at that have gone on.
const MOST_AHEAD: usize = 16;

#[derive(Default)]
pub(super) struct History {
    since: Option<Wall>,
    /// By the path of the file among the issues, the newest first.
    versions: HashMap<String, Vec<Version>>,
    /// The ends of branches that have gone on from here; asked of git at most once.
    ahead: Option<Vec<String>>,
}

/// A content that a commit gave to a file.
struct Version {
    at: Wall,
    blob: String,
}

impl History {
    /// The contents that commits since then gave to a file of an issue, with the time of the commit; the newest first.
    pub(super) fn contents(
        &mut self,
        issues: &Path,
        (id, file): (&IssueId, &str),
        since: Wall,
    ) -> Vec<(Wall, Vec<u8>)> {
        if self.since.is_none_or(|known| since < known) {
            // Twice as far back as asked for: others may want to know a little more, and each time git is asked anew.
            let further = clock::wall_ms().saturating_sub(since.ms()).max(0);
            let since = Wall::from_ms(since.ms().saturating_sub(further));
            self.since = Some(since);
            self.versions = versions(issues, since);
        }
        let Some(all) = self.versions.get(&format!("{id}/{file}")) else {
            return Vec::new();
        };
        let wanted: Vec<&Version> = all
            .iter()
            .filter(|version| version.at >= since)
            .take(MOST_VERSIONS)
            .collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        let read = contents(issues, wanted.iter().map(|version| version.blob.clone()));
        wanted.iter().map(|version| version.at).zip(read).collect()
    }

    /// What a file of an issue is at the ends of those branches that have what is checked out behind them: where there are such,
    /// an old commit is checked out, or one on which others have gone on.
    pub(super) fn further_on(&mut self, issues: &Path, (id, file): (&IssueId, &str)) -> Vec<Vec<u8>> {
        let ahead = self.ahead.get_or_insert_with(|| ahead(issues));
        // Where it is not there git has nothing to give, so each is asked for by itself.
        let there = |commit: &String| contents(issues, [format!("{commit}:./{id}/{file}")]).pop();
        ahead.iter().filter_map(there).collect()
    }
}

fn ahead(issues: &Path) -> Vec<String> {
    let format = "--format=%(objectname)";
    let listed = Git::at(issues)
        .args([
            "for-each-ref",
            "--contains=HEAD",
            format,
            "refs/heads",
            "refs/remotes",
        ])
        .run();
    let listed = String::from_utf8_lossy(&listed.unwrap_or_default()).into_owned();
    let here = Git::at(issues).verify("HEAD").ok().flatten();
    let mut commits: Vec<String> = listed.lines().map(str::to_owned).collect();
    commits.sort_unstable();
    commits.dedup();
    commits.retain(|commit| Some(commit) != here.as_ref());
    commits.truncate(MOST_AHEAD);
    commits
}

fn versions(issues: &Path, since: Wall) -> HashMap<String, Vec<Version>> {
    let listed = Git::at(issues)
        .args(["log", "--format=%x01%ct", "--raw", "--no-abbrev", "--no-renames"])
        // A merge is a step from each of its parents, and what only one of them had counts as well.
        .args([
            "--relative",
            "--diff-merges=separate",
            "--full-history",
            "-n",
            MOST,
        ])
        .arg(format!("--since=@{}", since.ms().div_euclid(1000)))
        .args(["HEAD", "--", "."])
        .run();
    let listed = String::from_utf8_lossy(&listed.unwrap_or_default()).into_owned();
    let mut all: HashMap<String, Vec<Version>> = HashMap::new();
    for commit in listed.split('\u{1}').skip(1) {
        let mut lines = commit.lines();
        let Some(secs) = lines.next().and_then(|secs| secs.trim().parse::<i64>().ok()) else {
            continue;
        };
        // git counts in seconds: at the end of that one.
        let at = Wall::from_ms(secs.saturating_mul(1000).saturating_add(999));
        for line in lines {
            // `:100644 100644 <before> <after> M`, then a tab and the path.
            let Some((words, path)) = line.split_once('\t') else {
                continue;
            };
            let [_, _, _, blob, _] = words.split_whitespace().collect::<Vec<_>>()[..] else {
                continue;
            };
            if blob.bytes().any(|b| b != b'0') {
                let blob = blob.to_owned();
                all.entry(path.to_owned()).or_default().push(Version { at, blob });
            }
        }
    }
    all
}
