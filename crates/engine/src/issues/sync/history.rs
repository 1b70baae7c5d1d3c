//! Finds earlier contents of issue files in the history of the checked-out commit.
//!
//! What must hold:
//! - Git lists the commits about all issues once, and again only if a caller needs earlier ones.
//! - Contents are read only for issues that such commits changed.
//! - If git gives no answer, the history is empty.

use std::collections::HashMap;
use std::path::Path;

use jit_core::model::ids::IssueId;
use jit_core::model::issue::text_digest;
use jit_core::model::time::Wall;
use jit_git::Git;
use jit_git::branches::default_branch;
use jit_git::discover::Place;
use jit_git::run::contents;
use jit_os::clock;

use super::dating::end_of;

/// The most commits about issues that are read.
const MOST: &str = "2000";
/// Git does not read a number up to this one as seconds.
const NO_TIME: i64 = 100_000_000;
/// The most versions of one file that are read.
const MOST_VERSIONS: usize = 64;
/// The most branches ahead of the checked-out commit that are read.
const MOST_AHEAD: usize = 16;

#[derive(Default)]
pub(crate) struct History {
    since: Option<Wall>,
    /// By the file's path among the issues, newest first.
    versions: HashMap<String, Vec<Version>>,
    /// The tips of branches ahead of the checked-out commit; git is asked at most once.
    ahead: Option<Vec<String>>,
}

/// A content that a commit gave to a file.
struct Version {
    at: Wall,
    blob: String,
    /// The earlier content, in the first parent in which the file differed.
    before: String,
    /// The number of the commit in the list.
    commit: usize,
    /// The number of parents in which the file differed.
    steps: usize,
    /// Whether the file differed in all parents: if not, a merge took the content from one parent and did not make
    /// it.
    is_made: bool,
}

impl History {
    /// Returns the contents that commits since then gave to a file of an issue, with the time of the commit; newest
    /// first.
    pub(crate) fn contents(
        &mut self,
        issues: &Path,
        (id, file): (&IssueId, &str),
        since: Wall,
    ) -> Vec<(Wall, Vec<u8>)> {
        self.reach(issues, since);
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

    /// Returns the earlier contents of a file, before the commits of this time that gave it the content with this
    /// digest.
    pub(crate) fn before(
        &self,
        issues: &Path,
        (id, file): (&IssueId, &str),
        (at, digest): (Wall, &str),
    ) -> Vec<Vec<u8>> {
        let all = self.versions.get(&format!("{id}/{file}")).into_iter().flatten();
        let is_it = |version: &&Version| {
            let content = |version: &Version| contents(issues, [version.blob.clone()]).pop();
            version.at == at && content(version).is_some_and(|content| text_digest(&content) == digest)
        };
        let before = all.filter(is_it).map(|version| version.before.clone());
        before.flat_map(|blob| contents(issues, [blob])).collect()
    }

    /// Returns when a file without uncommitted changes got its content, if that was since then.
    pub(crate) fn committed_at(
        &mut self,
        issues: &Path,
        (id, file): (&IssueId, &str),
        since: Wall,
    ) -> Option<Wall> {
        self.reach(issues, since);
        let all = self.versions.get(&format!("{id}/{file}"))?;
        let now = &all.first()?.blob;
        let made = all.iter().find(|version| version.is_made && version.blob == *now);
        made.map(|version| version.at)
    }

    fn reach(&mut self, issues: &Path, since: Wall) {
        if self.since.is_none_or(|known| since < known) {
            // Reads twice as far back as requested: another caller may need slightly more, and each time git is asked
            // again.
            let further = clock::wall_ms().saturating_sub(since.ms()).max(0);
            let since = Wall::from_ms(since.ms().saturating_sub(further));
            self.since = Some(since);
            self.versions = versions(issues, since);
        }
    }

    /// Returns a file's contents at the tips of branches that contain the checked-out commit. If there are such
    /// branches, an old commit is checked out, or others have continued from it.
    pub(crate) fn further_on(
        &mut self,
        place: &Place,
        issues: &Path,
        (id, file): (&IssueId, &str),
    ) -> Vec<Vec<u8>> {
        let ahead = self.ahead.get_or_insert_with(|| ahead(place, issues));
        // Git returns nothing for a missing file, so each one is requested separately.
        let there = |commit: &String| contents(issues, [format!("{commit}:./{id}/{file}")]).pop();
        ahead.iter().filter_map(there).collect()
    }
}

/// The default branch and its upstream first, then the newest.
fn ahead(place: &Place, issues: &Path) -> Vec<String> {
    let listed = Git::at(issues)
        .args([
            "for-each-ref",
            "--contains=HEAD",
            "--sort=-committerdate",
            "--format=%(objectname) %(refname)",
            "refs/heads",
            "refs/remotes",
        ])
        .run();
    let listed = String::from_utf8_lossy(&listed.unwrap_or_default()).into_owned();
    let here = Git::at(issues).verify("HEAD").ok().flatten();
    let mut refs: Vec<(&str, &str)> = listed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(commit, _)| Some(*commit) != here.as_deref())
        .collect();
    if refs.len() > MOST_AHEAD
        && let Ok(Some(usual)) = default_branch(place, None)
    {
        let is_usual = |name: &str| {
            let remote = name
                .strip_prefix("refs/remotes/")
                .and_then(|name| name.split_once('/'));
            let local = name.strip_prefix("refs/heads/");
            local.or(remote.map(|(_, name)| name)) == Some(usual.name.as_str())
        };
        refs.sort_by_key(|(_, name)| !is_usual(name));
    }
    let mut commits: Vec<String> = Vec::new();
    for (commit, _) in refs {
        if commits.len() < MOST_AHEAD && !commits.iter().any(|known| known == commit) {
            commits.push(commit.to_owned());
        }
    }
    commits
}

fn versions(issues: &Path, since: Wall) -> HashMap<String, Vec<Version>> {
    let secs = since.ms().div_euclid(1000);
    let listed = Git::at(issues)
        .args([
            "log",
            "--format=%x01%ct %H %P",
            "--raw",
            "--no-abbrev",
            "--no-renames",
        ])
        // A merge is a step from each of its parents, and a content that only one of them had counts too.
        .args([
            "--relative",
            "--diff-merges=separate",
            "--full-history",
            "-n",
            MOST,
        ])
        .args((secs > NO_TIME).then(|| format!("--since=@{secs}")))
        .args(["HEAD", "--", "."])
        .run();
    let listed = String::from_utf8_lossy(&listed.unwrap_or_default()).into_owned();
    let mut all: HashMap<String, Vec<Version>> = HashMap::new();
    let (mut commit, mut last) = (0, "");
    for step in listed.split('\u{1}').skip(1) {
        let mut lines = step.lines();
        let mut words = lines.next().unwrap_or_default().split_whitespace();
        let (Some(Ok(secs)), Some(name)) = (words.next().map(str::parse), words.next()) else {
            continue;
        };
        let (at, parents) = (end_of(secs), words.count());
        if name != last {
            (commit, last) = (commit + 1, name);
        }
        for line in lines {
            // `:100644 100644 <before> <after> M`, then a tab and the path.
            let Some((words, path)) = line.split_once('\t') else {
                continue;
            };
            let [_, _, before, blob, _] = words.split_whitespace().collect::<Vec<_>>()[..] else {
                continue;
            };
            if blob.bytes().all(|b| b == b'0') {
                continue;
            }
            let versions = all.entry(path.to_owned()).or_default();
            match versions.last_mut().filter(|version| version.commit == commit) {
                Some(version) => {
                    version.steps += 1;
                    version.is_made = version.steps >= parents;
                }
                None => versions.push(Version {
                    at,
                    blob: blob.to_owned(),
                    before: before.to_owned(),
                    commit,
                    steps: 1,
                    is_made: parents <= 1,
                }),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use jit_git::discover::GitEnv;

    /// Runs git at a given time, with a test identity.
    fn git(dir: &Path, secs: i64, words: &[&str]) -> String {
        let date = format!("@{secs} +0000");
        let git = Git::at(dir)
            .setting("user.name", "a")
            .setting("user.email", "a@b")
            .setting("commit.gpgSign", "false")
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_DATE", &date)
            .args(words);
        String::from_utf8(git.run().expect("git"))
            .expect("text")
            .trim()
            .to_owned()
    }

    #[test]
    fn e7_of_many_branches_that_have_gone_on_the_default_one_is_looked_at_and_then_the_newest() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = dir.path();
        git(at, 100, &["init", "-q", "-b", "main"]);
        git(at, 100, &["commit", "-q", "--allow-empty", "-m", "first"]);
        let begin = git(at, 100, &["rev-parse", "HEAD"]);
        let ahead_at = |secs: i64| {
            let words = ["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "on"];
            git(at, secs, &words)
        };
        let mut newest = Vec::new();
        for n in 0..100 {
            let commit = ahead_at(1000 + n);
            git(at, 0, &["branch", &format!("b-{n}"), &commit]);
            newest.insert(0, commit);
        }
        let main = ahead_at(200);
        git(at, 200, &["checkout", "-q", "--detach", &begin]);
        git(at, 200, &["branch", "-f", "main", &main]);
        let place = Place::discover(at, &GitEnv::default()).expect("a place");
        newest.insert(0, main);
        newest.truncate(MOST_AHEAD);
        assert_eq!(ahead(&place, at), newest);
    }

    #[test]
    fn c7_a_file_became_what_it_is_where_it_was_made_not_where_it_was_merged() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = dir.path();
        fs::create_dir(at.join("x")).expect("a folder");
        let write = |secs: i64, text: &str| {
            fs::write(at.join("x/f"), text).expect("write");
            git(at, secs, &["add", "-A"]);
            git(at, secs, &["commit", "-q", "-m", text]);
        };
        let id: IssueId = "x".parse().expect("an id");
        let same_as_git = |secs: i64| {
            let made = History::default().committed_at(at, (&id, "f"), Wall::from_ms(0));
            assert_eq!(made, Some(end_of(secs)));
            assert_eq!(
                git(at, 0, &["log", "-1", "--format=%ct", "--", "x/f"]),
                secs.to_string()
            );
        };
        git(at, 0, &["init", "-q", "-b", "main"]);
        write(1000, "one");
        git(at, 0, &["checkout", "-q", "-b", "side"]);
        write(2000, "two");
        git(at, 0, &["checkout", "-q", "main"]);
        git(at, 3000, &["commit", "-q", "--allow-empty", "-m", "else"]);
        same_as_git(1000);
        git(at, 4000, &["merge", "-q", "--no-edit", "side"]);
        same_as_git(2000);
        // Later than the kept side, on a branch of which nothing was kept.
        git(at, 0, &["checkout", "-q", "side"]);
        write(5000, "three");
        git(at, 0, &["checkout", "-q", "main"]);
        git(at, 6000, &["merge", "-q", "--no-edit", "-s", "ours", "side"]);
        same_as_git(2000);
        write(7000, "four");
        write(8000, "two");
        same_as_git(8000);
    }
}
