//! The remote repository: pushes to it, and requests reviews there.
//!
//! What must hold:
//!
//! - No push is forced. A remote branch that moved is fetched to a ref of jit's own (`refs/jit/fetched/…`), never over
//!   a ref of the user.
//! - Titles, bodies and names of branches are escaped arguments or escaped parts of an address, never text for a
//!   shell.
//! - Names and passwords in a remote's address are never shown.
//!
//! Format: `<control>/landing/<unit>/pull-request` has the address of the open review request of a unit, or an empty
//! line if the address is not known. While the file exists, `jit finish` and `jit worktree merge --all` wait for the
//! work to appear on the target. If the file is lost, they land the unit like any other.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jit_core::model::refusal::{Code, Refusal};
use jit_git::snapshot::option;
use jit_git::{Git, GitError};
use jit_os::file;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use super::Repo;
use super::tested::digest;
use crate::refusals::{failed, io_failed};

/// Maximum time for `gh`.
const PATIENCE: Duration = Duration::from_secs(120);

/// A remote repository, looked up for one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The name for messages. If git is configured with an address instead of a name: that address, without secrets.
    pub name: String,
    pub address: String,
    has_name: bool,
    /// The remote branch that the looked-up branch is pushed to, or would be merged into.
    pub branch: String,
    /// The full ref name that the looked-up branch is pushed to. It is not a branch if reviews are requested by
    /// pushing.
    place: String,
    /// The remote branch that others are asked to merge into: the upstream branch, or the same name if there is none.
    pub base: String,
    /// The configured push rules (`remote.<name>.push`), as pairs of full ref names.
    pushes: Vec<(String, String)>,
    /// The branches that those rules exclude (`^refs/heads/…`).
    left_out: Vec<String>,
}

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    Yes,
    /// The push was refused, or the remote was not reachable; the message of git.
    No(String),
}

impl Repo {
    /// Finds the remote to which a branch is pushed: the configured push remote, else the remote of its upstream, else
    /// `origin`, else the first remote.
    ///
    /// The remote name of the branch is the one in `remote.<name>.push`, else its own name. The name of the upstream
    /// branch is used only if `push.default` says so: a user who starts a branch at `origin/main` does not want it
    /// pushed to `main`.
    pub fn remote_of(&self, branch: &str) -> Outcome<Option<Remote>> {
        let out = self.git().arg("remote").run().map_err(failed)?;
        let text = String::from_utf8_lossy(&out).into_owned();
        let names: Vec<&str> = text.lines().collect();
        let get = |key: &str| -> Outcome<Option<String>> {
            let (code, own, _) = self.git().args(["config", key]).try_run().map_err(failed)?;
            let own = String::from_utf8_lossy(own.trim_ascii_end()).into_owned();
            Ok((code == Some(0)).then_some(own))
        };
        let follows = get(&format!("branch.{branch}.remote"))?;
        let ways = [
            get(&format!("branch.{branch}.pushRemote"))?,
            get("remote.pushDefault")?,
            follows.clone(),
            Some("origin".to_owned()),
            names.first().map(|name| (*name).to_owned()),
        ];
        // A value that is not a remote may be an address, or the name of a removed remote. The repository itself is
        // not shared.
        let is_name = |name: &str| names.contains(&name);
        let is_known = |name: &String| is_name(name) || name.contains(['/', ':']);
        let Some(name) = ways.into_iter().flatten().find(is_known) else {
            return Ok(None);
        };
        let there = match follows.as_deref() == Some(&name) {
            true => get(&format!("branch.{branch}.merge"))?,
            false => None,
        };
        let there = there.as_deref().and_then(|full| full.strip_prefix("refs/heads/"));
        let base = there.unwrap_or(branch).to_owned();
        let way = get("push.default")?.unwrap_or_default();
        let own = match pushes_upstream(&way) {
            true => base.clone(),
            false => branch.to_owned(),
        };
        if !is_name(&name) {
            return Ok(Some(Remote {
                name: without_secrets(&name),
                address: name,
                has_name: false,
                place: head(&own),
                branch: own,
                base,
                pushes: Vec::new(),
                left_out: Vec::new(),
            }));
        }
        let address = self
            .git()
            .args(["remote", "get-url", "--push", "--", &name])
            .line();
        let told = self
            .git()
            .args(["config", "--get-all", &format!("remote.{name}.push")])
            .try_run()
            .map_err(failed)?;
        let told = String::from_utf8_lossy(&told.1);
        let pushes: Vec<(String, String)> = told.lines().filter_map(refspec).collect();
        let left_out = told.lines().filter_map(|line| line.strip_prefix('^'));
        let left_out = left_out.map(str::to_owned).collect();
        let place = told_place(&pushes, branch);
        Ok(Some(Remote {
            address: address.map_err(failed)?,
            has_name: true,
            branch: match &place {
                Some(place) => place.strip_prefix(HEADS).unwrap_or(&own).to_owned(),
                None => own.clone(),
            },
            place: place.unwrap_or_else(|| head(&own)),
            base,
            pushes,
            left_out,
            name,
        }))
    }

    /// Returns whether a remote branch is known to contain a commit. No network access: this uses the last push or
    /// fetch.
    pub fn is_shared(&self, remote: &Remote, branch: &str, commit: &str) -> Outcome<bool> {
        let known = format!("refs/remotes/{}/{branch}^{{commit}}", remote.name);
        match self.git().verify(&known).map_err(failed)? {
            Some(known) => self.is_ancestor(commit, &known),
            None => Ok(false),
        }
    }

    /// Git in the folder that a relative path of a remote starts from: the main checkout, or the git folder of a bare
    /// repository.
    fn at_home(&self) -> Git {
        let all = crate::worktree_identity::list(&self.common).unwrap_or_default();
        let main = all.into_iter().next().and_then(|entry| entry.root);
        let home = main.filter(|root| root.is_dir());
        Git::at(home.unwrap_or_else(|| self.common.clone())).arg(option("--git-dir=", &self.common))
    }

    /// Pushes to the branch of the same name, or to the configured one.
    pub fn push_branch(&self, remote: &Remote, branch: &str) -> Outcome<Pushed> {
        self.push(remote, branch, &remote.place_of(branch))
    }

    /// Pushes the branch that the remote was looked up for.
    pub fn push_own(&self, remote: &Remote, branch: &str) -> Outcome<Pushed> {
        self.push(remote, branch, &remote.place)
    }

    /// Pushes with the user's hooks: a push that they refuse fails, and files that they upload (large files) are
    /// uploaded.
    fn push(&self, remote: &Remote, branch: &str, place: &str) -> Outcome<Pushed> {
        if let Some(spec) = remote.leaves_out(branch, place) {
            return Ok(Pushed::No(format!("git was told to leave it out ({spec})")));
        }
        if !place.starts_with(HEADS) {
            // Such a push is a review request. The remote's branches do not show its result.
            return Ok(Pushed::No(format!(
                "git was told to push it to {place}, which is no branch"
            )));
        }
        let spec = format!("{}:{place}", head(branch));
        let ran = self
            .at_home()
            .args(["push", "-q", "--no-follow-tags", "--", remote.for_git(), &spec])
            .try_run();
        let (code, _, said) = match ran {
            Ok(ran) => ran,
            Err(e @ GitError::NotApproved(_)) => return Ok(Pushed::No(e.to_string())),
            Err(e) => return Err(failed(e)),
        };
        Ok(match code {
            Some(0) => Pushed::Yes,
            _ => Pushed::No(without_secrets(&said)),
        })
    }

    /// Fetches the remote branch and returns its commit. `None` if the remote is not reachable or has no such branch.
    pub fn fetch_branch(&self, remote: &Remote) -> Outcome<Option<String>> {
        let branch = &remote.branch;
        let own = format!("refs/jit/fetched/{}", digest(branch));
        let spec = format!("+refs/heads/{branch}:{own}");
        let ran = self
            .at_home()
            .args([
                "fetch",
                "-q",
                "--no-tags",
                "--no-write-fetch-head",
                "--",
                remote.for_git(),
                &spec,
            ])
            .try_run();
        let (code, _, _) = match ran {
            Ok(ran) => ran,
            Err(GitError::NotApproved(_)) => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        match code {
            Some(0) => self.git().verify(&format!("{own}^{{commit}}")).map_err(failed),
            _ => Ok(None),
        }
    }

    /// Returns whether the target contains the changes of a commit, though perhaps not the commit itself: commit by
    /// commit, as after a rebase, or all at once, as after a squash.
    pub fn carries(&self, target: &str, tip: &str) -> Outcome<bool> {
        let target = &crate::landing::squash_base::joined_in(self, target, tip)?;
        if self.is_ancestor(tip, target)? {
            return Ok(true);
        }
        let range = format!("{target}..{tip}");
        let merges = self
            .git()
            .args(["rev-list", "--max-count=1", "--min-parents=2", &range])
            .run()
            .map_err(failed)?;
        if merges.is_empty() {
            let marks = self.git().args(["cherry", target, tip]).run().map_err(failed)?;
            let mut marks = marks
                .split(|b| *b == b'\n')
                .filter(|line| !line.is_empty())
                .peekable();
            if marks.peek().is_some() && marks.all(|line| line.starts_with(b"-")) {
                return Ok(true);
            }
        }
        let tree = self.git().verify(&format!("{target}^{{tree}}")).map_err(failed)?;
        let merged = self.merge(target, tip, target)?;
        Ok(merged.clean && Some(merged.tree) == tree)
    }
}

/// Prefix of the full name of a branch.
const HEADS: &str = "refs/heads/";

fn head(branch: &str) -> String {
    format!("{HEADS}{branch}")
}

/// Parses a configured push rule into source and destination, as full ref names. The force mark is ignored: jit never
/// forces.
fn refspec(text: &str) -> Option<(String, String)> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (from, to) = text.split_once(':').unwrap_or((text, text));
    let full = |name: &str| match name.starts_with("refs/") {
        true => name.to_owned(),
        false => head(name),
    };
    // Rules for matching names, for deletions and for exclusions.
    if from.is_empty() || to.is_empty() || from.starts_with('^') {
        return None;
    }
    match (from, full(to)) {
        // The current branch: a branch as destination is not meant for every branch, but a review ref is.
        ("HEAD" | "@", to) => (!to.starts_with(HEADS)).then(|| (head("*"), to)),
        (from, to) => Some((full(from), to)),
    }
}

/// The configured destination of a branch, as a full ref name.
fn told_place(pushes: &[(String, String)], branch: &str) -> Option<String> {
    let name = head(branch);
    pushes.iter().find_map(|(from, to)| match from.contains('*') {
        true => Some(to.replacen('*', star(from, &name)?, 1)),
        false => (*from == name).then(|| to.clone()),
    })
}

/// Returns the part of a name that the star of a pattern matches.
fn star<'a>(pattern: &str, name: &'a str) -> Option<&'a str> {
    let (before, after) = pattern.split_once('*')?;
    name.strip_prefix(before)?.strip_suffix(after)
}

/// Returns whether git pushes a branch to its upstream, by `push.default`.
pub fn pushes_upstream(way: &str) -> bool {
    matches!(way, "upstream" | "tracking")
}

/// Removes user names and passwords from addresses in a message of git.
fn without_secrets(said: &str) -> String {
    let words = said.split_whitespace().map(|word| match word.split_once("://") {
        Some((scheme, rest)) if rest.contains('@') => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            let host = host.rsplit('@').next().unwrap_or(host);
            format!("{scheme}://{host}{path}")
        }
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Escapes a part of an address.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

impl Remote {
    /// The command that pushes the branch that this remote was looked up for.
    pub fn push_command(&self, branch: &str) -> String {
        push_command(&self.name, branch, &self.place)
    }

    /// The command that pushes another branch there.
    pub fn command_for(&self, branch: &str) -> String {
        push_command(&self.name, branch, &self.place_of(branch))
    }

    /// The destination of another branch, as a full ref name.
    fn place_of(&self, branch: &str) -> String {
        told_place(&self.pushes, branch).unwrap_or_else(|| head(branch))
    }

    /// The name of another branch on the remote.
    pub fn name_of(&self, branch: &str) -> String {
        let place = self.place_of(branch);
        place.strip_prefix(HEADS).unwrap_or(branch).to_owned()
    }

    /// The destination of the looked-up branch, if it is not a branch.
    pub fn is_asked_at(&self) -> Option<&str> {
        (!self.place.starts_with(HEADS)).then_some(self.place.as_str())
    }

    /// The setting that excludes the looked-up branch from pushes, if there is one.
    pub fn own_left_out(&self, branch: &str) -> Option<String> {
        self.leaves_out(branch, &self.place)
    }

    /// The setting that excludes a branch from pushes. Only a full name counts. By git's documentation that is the
    /// local name; in fact git compares the remote name. jit respects both.
    fn leaves_out(&self, branch: &str, place: &str) -> Option<String> {
        let fits = |text: &str, name: &str| text == name || star(text, name).is_some();
        let name = head(branch);
        let found = self
            .left_out
            .iter()
            .find(|text| fits(text, &name) || fits(text, place));
        found.map(|text| format!("^{text} in remote.{}.push", self.name))
    }

    /// The argument that names this remote for git.
    fn for_git(&self) -> &str {
        match self.has_name {
            true => &self.name,
            false => &self.address,
        }
    }

    /// The name for messages: the remote, and the branch if it has another name there.
    pub fn shown(&self, branch: &str) -> String {
        match self.branch == branch {
            true => self.name.clone(),
            false => format!("{}/{}", self.name, self.branch),
        }
    }

    /// Host and path of the project: `github.com`, `owner/name`.
    fn project(&self) -> Option<(String, String)> {
        let address = self.address.trim();
        let (host, path) = match address.split_once("://") {
            Some(("https" | "http" | "ssh" | "git", rest)) => rest.split_once('/')?,
            Some(_) => return None,
            None => address.split_once(':')?,
        };
        let host = host.rsplit('@').next()?.split(':').next()?.to_ascii_lowercase();
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        path.contains('/').then(|| (host, path.to_owned()))
    }

    /// The page to open a review request by hand, if the host is a well-known one.
    pub fn compare_page(&self, base: &str, head: &str) -> Option<String> {
        let (host, path) = self.project()?;
        let (path, base, head) = (escaped(&path), escaped(base), escaped(head));
        Some(match host.as_str() {
            "github.com" => format!("https://github.com/{path}/compare/{base}...{head}?expand=1"),
            "codeberg.org" => format!("https://codeberg.org/{path}/compare/{base}...{head}"),
            "gitlab.com" => format!(
                "https://gitlab.com/{path}/-/merge_requests/new?merge_request%5Bsource_branch%5D={head}\
                 &merge_request%5Btarget_branch%5D={base}"
            ),
            "bitbucket.org" => {
                format!("https://bitbucket.org/{path}/pull-requests/new?source={head}&dest={base}")
            }
            _ => return None,
        })
    }
}

/// A review request.
#[derive(Debug, Clone)]
pub struct Proposal<'a> {
    pub head: &'a str,
    pub base: &'a str,
    pub title: &'a str,
    pub body: &'a str,
}

impl Proposal<'_> {
    /// Opens it with `gh`, or finds the one that is open already. Returns the address, or the reason for the failure.
    pub fn open(&self, dir: &Path) -> Result<String, String> {
        // `--head=` and the like: a name that begins with a dash stays a name.
        let head = format!("--head={}", self.head);
        let base = format!("--base={}", self.base);
        let title = format!("--title={}", self.title);
        let body = format!("--body={}", self.body);
        let made = gh(dir, &["pr", "create", &head, &base, &title, &body]);
        let Err(why) = made else {
            return made;
        };
        let query = ["pr", "list", &head, &base, "--json=url", "--jq=.[0].url // empty"];
        match gh(dir, &query) {
            Ok(address) => Ok(address),
            Err(_) => Err(why),
        }
    }
}

/// Runs `gh`. Returns the last line that is an address.
fn gh(dir: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("gh");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    let mut child = command
        .args(args)
        .current_dir(dir)
        .env("GH_PROMPT_DISABLED", "1")
        .env("GH_NO_UPDATE_NOTIFIER", "1")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => "gh is not installed".to_owned(),
            _ => format!("gh could not be started: {e}"),
        })?;
    // Its output is short: both pipes hold it until the process exits.
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("gh took longer than {}s", PATIENCE.as_secs()));
            }
            Err(e) => return Err(e.to_string()),
        }
    };
    let read = |pipe: Option<&mut dyn std::io::Read>| {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(64 << 10).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let said = read(child.stdout.as_mut().map(|pipe| pipe as &mut dyn std::io::Read));
    let complained = read(child.stderr.as_mut().map(|pipe| pipe as &mut dyn std::io::Read));
    if !status.success() {
        return Err(format!("gh said: {}", without_secrets(&complained)));
    }
    let address = said
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| line.starts_with("https://"));
    address
        .map(str::to_owned)
        .ok_or_else(|| "gh named no address".to_owned())
}

/// The command that pushes a branch to a destination that may have another name.
fn push_command(remote: &str, branch: &str, place: &str) -> String {
    let what = match place.strip_prefix(HEADS) == Some(branch) {
        true => shell_word(branch),
        false => format!("{}:{}", shell_word(branch), shell_word(place)),
    };
    format!("git push {} {what}", shell_word(remote))
}

fn note(repo: &Repo, unit: &str) -> PathBuf {
    repo.control.join("landing").join(unit).join("pull-request")
}

/// Records that a review was requested.
pub fn remember(repo: &Repo, unit: &str, address: &str) -> Outcome<()> {
    let path = note(repo, unit);
    let folders: Vec<&Path> = path.ancestors().skip(1).take(2).collect();
    for folder in folders.into_iter().rev() {
        file::make_dir_like_parent(folder).map_err(io_failed("create", folder))?;
    }
    file::replace(&path, format!("{address}\n").as_bytes()).map_err(io_failed("write", &path))
}

/// The address of the open review request of a unit; empty if it is not known.
pub fn open_for(repo: &Repo, unit: &str) -> Option<String> {
    let bytes = file::read_real(&note(repo, unit), 4096).ok().flatten()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Deletes the record: the unit landed, or was abandoned.
pub fn forget(repo: &Repo, unit: &str) {
    let _ = fs::remove_file(note(repo, unit));
}

/// Refuses a review request for a branch without a remote.
pub fn nowhere(branch: &str) -> Box<Refusal> {
    Box::new(
        Refusal::new(
            Code::NotFound,
            format!("{branch} has no remote repository to be pushed to"),
        )
        .help("git remote add origin <address>"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(address: &str) -> Option<String> {
        let remote = Remote {
            name: "origin".to_owned(),
            address: address.to_owned(),
            has_name: true,
            branch: "main".to_owned(),
            place: head("main"),
            base: "main".to_owned(),
            pushes: Vec::new(),
            left_out: Vec::new(),
        };
        remote.compare_page("main", "jit/a b#1")
    }

    #[test]
    fn i6_the_page_of_a_well_known_host_is_found_and_tells_no_secret() {
        let github = "https://github.com/o/r/compare/main...jit/a%20b%231?expand=1";
        for address in [
            "https://github.com/o/r.git",
            "https://user:secret@GitHub.com/o/r",
            "git@github.com:o/r.git",
            "ssh://git@github.com:22/o/r.git/",
        ] {
            assert_eq!(page(address).as_deref(), Some(github), "{address}");
        }
        let gitlab = page("git@gitlab.com:group/sub/r.git").expect("a page");
        assert!(
            gitlab.starts_with("https://gitlab.com/group/sub/r/-/merge_requests/new?"),
            "{gitlab}"
        );
        for address in [
            "/srv/git/r.git",
            "https://example.com/o/r",
            "file:///o/r",
            "",
            "C:\\x",
        ] {
            assert_eq!(page(address), None, "{address}");
        }
    }

    #[test]
    fn h3_what_git_was_told_to_push_where_is_read_as_git_does() {
        for (text, place) in [
            ("refs/heads/main:refs/for/main", Some("refs/for/main")),
            ("+refs/heads/*:refs/heads/me/*", Some("refs/heads/me/main")),
            ("main:trunk", Some("refs/heads/trunk")),
            ("main", Some("refs/heads/main")),
            ("refs/heads/release/*:refs/heads/*", None),
            ("^refs/heads/main", None),
            ("HEAD:refs/for/main", Some("refs/for/main")),
            ("HEAD:trunk", None),
            ("HEAD", None),
            (":", None),
        ] {
            let pushes: Vec<_> = refspec(text).into_iter().collect();
            assert_eq!(told_place(&pushes, "main").as_deref(), place, "{text}");
        }
    }

    #[test]
    fn i6_what_git_says_is_shown_without_passwords() {
        let said = "fatal: unable to access 'https://u:p@example.com/o/r.git/':\n no";
        assert!(!without_secrets(said).contains("u:p@"));
        assert_eq!(without_secrets("to https://me@h/x"), "to https://h/x");
    }
}
