//! Lands finished units on their target branch (H1, H3, H6, H8).
//!
//! A landing predicts the merge, builds the merged commit, runs the checks on it, and then moves the target in one
//! step.
//!
//! What must hold:
//!
//! - No code here changes a checked-out file, except by a fast-forward that git itself allows in that checkout. Merges
//!   are made of git objects (`detect`, `candidate`). Checks run in a folder of their own (`tested`). The target moves
//!   by compare-and-swap against the commit that was tested (`land`).
//! - The target only ever points to a commit that was tested. It never loses a commit that another process put there.
//! - The types enforce the order: [`candidate::Candidate`] becomes [`tested::Tested`] becomes [`land::Landed`]. Each
//!   step consumes the one before. There is no other way to reach the last.
//! - An interrupted step is repeated from the state of git. Whether a unit has landed is read from the target's
//!   history, never from memory.
//! - A killed landing can leave a git process or a check running for a while. Such a git process holds the kernel lock
//!   of the landing, and the next landing waits until it exits. A check does not hold that lock, because it may leave
//!   a daemon behind. Instead, a check works in a folder that is never reused.
//!
//! Git runs in `<control>/scratch`, because merge drivers write their files into the current folder.

pub mod already_landed;
mod attributes;
pub mod candidate;
pub(crate) mod case_twins;
pub mod checkout_recovery;
pub mod conflict_report;
pub mod detect;
mod graph;
pub mod issue_file;
mod known;
pub mod land;
mod large_files;
pub mod messages;
pub mod notes;
pub mod obstacles;
mod others_work;
pub mod preconditions;
pub(crate) mod prediction;
pub mod pull_request;
pub mod radar;
pub mod remote;
pub mod run;
pub(crate) mod scan;
pub mod service;
pub mod squash_base;
pub mod submodules;
pub mod tested;
pub mod trees;
pub mod unpushed_targets;
pub mod watch;
pub(crate) mod withheld_filters;

use crate::api::Answer;
use crate::api::landing::LandingRequest;
use crate::context::Context;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jit_core::model::refusal::{Code, Refusal};
use jit_git::{Git, GitRunner};
use jit_os::file;
use jit_store::Outcome;

use crate::refusals::failed;

/// The repository, as the landing code uses it.
#[derive(Debug, Clone)]
pub struct Repo {
    runner: Arc<dyn GitRunner>,
    pub common: PathBuf,
    pub control: PathBuf,
    scratch: PathBuf,
    /// The landing lock of this process. Each git process that is started for the landing inherits it, except the one
    /// that only reads objects and ends with this process.
    turn: Option<Arc<File>>,
    known: known::Known,
}

impl Repo {
    pub fn new(runner: Arc<dyn GitRunner>, common: &Path, control: &Path) -> io::Result<Self> {
        let scratch = control.join("scratch");
        file::make_dir_like_parent(&scratch)?;
        Ok(Self {
            runner,
            common: common.to_owned(),
            control: control.to_owned(),
            scratch,
            turn: None,
            known: known::Known::default(),
        })
    }

    /// The repository for read-only use: creates no folder, and runs git in the repository itself.
    pub fn to_look_at(runner: Arc<dyn GitRunner>, common: &Path, control: &Path) -> Self {
        Self {
            runner,
            common: common.to_owned(),
            control: control.to_owned(),
            scratch: common.to_owned(),
            turn: None,
            known: known::Known::default(),
        }
    }

    /// Adds the landing lock. The lock lasts until the last git process that this `Repo` started has exited.
    #[must_use]
    pub fn holding(mut self, turn: Option<File>) -> Self {
        self.turn = turn.map(Arc::new);
        self
    }

    pub fn turn(&self) -> Option<Arc<File>> {
        self.turn.clone()
    }

    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Git as if started in `dir`, with its hooks and without the landing lock.
    pub fn git_at(&self, dir: impl AsRef<Path>) -> Git {
        Git::by(self.runner.clone(), dir)
    }

    /// Git on this repository, outside every checkout.
    pub fn git(&self) -> Git {
        let mut option = OsString::from("--git-dir=");
        option.push(&self.common);
        let git = self
            .git_at(&self.scratch)
            .arg(option)
            .without_hooks()
            .holding(self.turn());
        match path_with_jit() {
            // The merge driver for issues needs this: git finds `jit` by its name.
            Some(path) => git.env("PATH", path),
            None => git,
        }
    }

    /// Git in a worktree, as its owner would run it there, but without hooks.
    pub fn in_worktree(&self, root: &Path) -> Git {
        let git = self.git_at(root).without_hooks().holding(self.turn());
        match path_with_jit() {
            Some(path) => git.env("PATH", path),
            None => git,
        }
    }

    /// Resolves a branch that is a symbolic name for another branch. Both names share one landing lock and one record.
    pub fn meant(&self, branch: &str) -> String {
        // An invalid branch name is refused later, where its commit is looked up.
        let goal = self.git().symbolic(&format!("refs/heads/{branch}"));
        let goal = goal.ok().flatten();
        let name = goal.as_deref().and_then(|goal| goal.strip_prefix("refs/heads/"));
        name.unwrap_or(branch).to_owned()
    }

    /// The commit that a branch points to.
    pub fn tip(&self, branch: &str) -> Outcome<Option<String>> {
        if !is_branch_name(branch) {
            return Ok(None);
        }
        self.object(&format!("refs/heads/{branch}^{{commit}}"))
    }

    pub fn require_tip(&self, branch: &str) -> Outcome<String> {
        self.tip(branch)?.ok_or_else(|| {
            Box::new(
                Refusal::new(Code::NotFound, format!("there is no branch {branch:?} here"))
                    .help("git branch --list"),
            )
        })
    }

    pub fn is_ancestor(&self, older: &str, newer: &str) -> Outcome<bool> {
        if let Some(known) = self.known.facts().graph.is_ancestor(older, newer) {
            return Ok(known);
        }
        self.git()
            .args(["merge-base", "--is-ancestor", older, newer])
            .test()
            .map_err(failed)
    }

    /// Returns whether the target contains the changes of a commit: the commit itself, its patches, or, at the commit
    /// `landed` where it landed, everything that it would change.
    pub fn has(&self, target: &str, tip: &str, landed: Option<&str>) -> Outcome<bool> {
        if self.carries(target, tip)? {
            return Ok(true);
        }
        match landed.map(|commit| self.git().verify(&format!("{commit}^{{commit}}"))) {
            Some(landed) => match landed.map_err(failed)? {
                Some(landed) => Ok(self.is_ancestor(&landed, target)? && self.carries(&landed, tip)?),
                None => Ok(false),
            },
            None => Ok(false),
        }
    }

    /// Returns whether a branch had this commit at some time, as far as its reflog shows.
    pub fn was_on(&self, branch: &str, commit: &str) -> Outcome<bool> {
        let refname = format!("refs/heads/{branch}");
        let log = self
            .git()
            .args(["reflog", "show", "--format=^%H", &refname, "--"]);
        let (_, mut ask, _) = log.try_run().map_err(failed)?;
        ask.extend_from_slice(format!("{commit}\n").as_bytes());
        // A reflog can also name commits that no longer exist.
        let git = self
            .git()
            .args(["rev-list", "--max-count=1", "--ignore-missing", "--stdin"]);
        let (code, left, _) = git.stdin(ask).try_run().map_err(failed)?;
        Ok(code == Some(0) && left.is_empty())
    }

    /// The best common ancestor; `None` for unrelated histories.
    pub fn merge_base(&self, a: &str, b: &str) -> Outcome<Option<String>> {
        if let Some(known) = self.known.facts().graph.base(a, b) {
            return Ok(known);
        }
        merge_base(self.git(), a, b)
    }
}

/// Returns whether this can be a branch name. `main^` and `main@{1}` name a commit instead.
fn is_branch_name(name: &str) -> bool {
    let is_odd = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    !name.is_empty() && !name.contains(is_odd) && !name.contains("@{") && !name.contains("..")
}

fn merge_base(git: Git, a: &str, b: &str) -> Outcome<Option<String>> {
    let (code, out, said) = git.args(["merge-base", a, b]).try_run().map_err(failed)?;
    match code {
        Some(0) => Ok(Some(String::from_utf8_lossy(out.trim_ascii_end()).into_owned())),
        Some(1) => Ok(None),
        _ => Err(Box::new(Refusal::new(
            Code::Io,
            format!("git merge-base failed: {said}"),
        ))),
    }
}

/// The search path with this program's own folder at its end.
fn path_with_jit() -> Option<OsString> {
    let own = std::env::current_exe().ok()?.parent()?.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::env::split_paths(&path).chain([own])).ok()
}

/// Carries out a request about landing.
pub(crate) fn handle(cx: &Context, request: LandingRequest) -> Outcome<Answer> {
    match request {
        LandingRequest::Merge(ask) => service::merge_asked(cx, &ask),
        LandingRequest::Conflicts { into, branches } => service::conflicts(cx, into.as_deref(), &branches),
        LandingRequest::History { unit, limit } => service::landings(cx, unit.as_deref(), limit),
    }
}
