//! What the files of issues were in the commits that led to what is checked out.
//!
//! What must hold: git is asked once for all issues, and again only where somebody wants to know of earlier ones. Where it does
//! not say, there was nothing.

use std::collections::HashMap;
use std::path::Path;

use jit_core::ids::IssueId;
use jit_core::time::Wall;

use crate::git::Git;
use crate::git::run::next_content;
use crate::os::clock;

/// So many commits about issues are looked at.
const MOST: &str = "2000";
/// So many versions of one file are looked at.
const MOST_VERSIONS: usize = 64;

#[derive(Default)]
pub(super) struct History {
    since: Option<Wall>,
    /// By the path of the file among the issues, the newest first.
    versions: HashMap<String, Vec<Version>>,
}

/// A content that a file had before a commit or after it.
struct Version {
    at: Wall,
    blob: String,
}

impl History {
    /// The contents that a file of an issue had before and after the commits since then, with the time of the commit; the newest
    /// first.
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
        let names: String = wanted
            .iter()
            .map(|version| format!("{}\n", version.blob))
            .collect();
        let read = Git::at(issues).args(["cat-file", "--batch"]).stdin(names).run();
        let read = read.unwrap_or_default();
        let mut rest = read.as_slice();
        let contents = wanted.iter().map_while(|version| {
            let content = next_content(&mut rest)?;
            Some((version.at, content.to_vec()))
        });
        contents.collect()
    }
}

fn versions(issues: &Path, since: Wall) -> HashMap<String, Vec<Version>> {
    let listed = Git::at(issues)
        .args(["log", "--format=%x01%ct", "--raw", "--no-abbrev", "--no-renames"])
        // A merge is a step from each of its parents, and what only one of them had counts as well.
        .args(["--relative", "-m", "--full-history", "-n", MOST])
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
            let [_, _, before, after, _] = words.split_whitespace().collect::<Vec<_>>()[..] else {
                continue;
            };
            let known = all.entry(path.to_owned()).or_default();
            for blob in [after, before] {
                let is_new = !known.iter().any(|version| version.blob == blob);
                if is_new && blob.bytes().any(|b| b != b'0') {
                    let blob = blob.to_owned();
                    known.push(Version { at, blob });
                }
            }
        }
    }
    all
}
