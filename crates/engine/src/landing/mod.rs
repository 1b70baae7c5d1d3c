//! From a finished unit to its target: would it merge, what would come of it, does that work, and then, in one step,
//! the target moves (H1, H3, H6, H8).
//!
//! What must hold:
//!
//! - nothing here changes a file that somebody has checked out, but for a fast-forward that git itself allows there:
//!   merges are made of objects (`detect`, `candidate`), tried in a folder of their own (`tested`), and the target moves
//!   by comparing it with what was tested (`landed`);
//! - the target only ever points to what was tested, and never loses a commit that somebody else put there;
//! - types keep the order: [`candidate::Candidate`] becomes [`tested::Tested`] becomes [`landed::Landed`], each step
//!   consumes the one before, and there is no other way to the last;
//! - a step that was cut off is done again from what git has: whether a unit has landed is read from the target's
//!   history, never from memory;
//! - whoever is killed leaves a git or a check behind that goes on for a while. A git holds the kernel's lock of the landing
//!   with it, and the next landing waits until it has ended. A check does not, because it may leave a daemon behind: it works
//!   in a folder that is never used again.
//!
//! Git runs in `<control>/scratch`, because merge drivers put their files into the current folder.

pub mod already_landed;
pub mod candidate;
pub mod checkout_recovery;
pub mod conflict_report;
pub mod detect;
pub mod issue_file;
pub mod land;
pub mod messages;
pub mod notes;
pub mod obstacles;
pub mod preconditions;
pub mod pull_request;
pub mod radar;
pub mod remote;
pub mod run;
pub mod service;
pub mod squash_base;
pub mod submodules;
pub mod tested;
pub mod trees;
pub mod unpushed_targets;
pub mod watch;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jit_core::model::refusal::{Code, Refusal};
use jit_git::Git;
use jit_os::file;
use jit_store::Outcome;

use crate::refusals::failed;

/// A repository as landings see it.
#[derive(Debug, Clone)]
pub struct Repo {
    pub common: PathBuf,
    pub control: PathBuf,
    scratch: PathBuf,
    /// The lock of whoever lands: a git that is started for a landing has it too.
    turn: Option<Arc<File>>,
}

impl Repo {
    pub fn new(common: &Path, control: &Path) -> io::Result<Self> {
        let scratch = control.join("scratch");
        file::make_dir_like_parent(&scratch)?;
        Ok(Self {
            common: common.to_owned(),
            control: control.to_owned(),
            scratch,
            turn: None,
        })
    }

    /// The same for whoever only reads: nothing is made, and git runs in the repository itself.
    pub fn to_look_at(common: &Path, control: &Path) -> Self {
        Self {
            common: common.to_owned(),
            control: control.to_owned(),
            scratch: common.to_owned(),
            turn: None,
        }
    }

    /// The same, for whoever has this lock: it lasts until the last git is gone that was started in here.
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

    /// Git on this repository, away from every checkout.
    pub fn git(&self) -> Git {
        let mut option = OsString::from("--git-dir=");
        option.push(&self.common);
        let git = Git::at(&self.scratch)
            .arg(option)
            .without_hooks()
            .holding(self.turn());
        match path_with_jit() {
            // For the merge driver of issues: git finds `jit` by its name.
            Some(path) => git.env("PATH", path),
            None => git,
        }
    }

    /// Git in a worktree, as its owner would run it there, but without hooks.
    pub fn in_worktree(&self, root: &Path) -> Git {
        let git = Git::at(root).without_hooks().holding(self.turn());
        match path_with_jit() {
            Some(path) => git.env("PATH", path),
            None => git,
        }
    }

    /// What a branch is in the end: it may be another name for a branch. There is one turn for both, and one record.
    pub fn meant(&self, branch: &str) -> String {
        // What is no name of a branch is refused where its commit is asked for.
        let goal = self.git().symbolic(&format!("refs/heads/{branch}"));
        let goal = goal.ok().flatten();
        let name = goal.as_deref().and_then(|goal| goal.strip_prefix("refs/heads/"));
        name.unwrap_or(branch).to_owned()
    }

    /// The commit a branch is at.
    pub fn tip(&self, branch: &str) -> Outcome<Option<String>> {
        if !is_branch_name(branch) {
            return Ok(None);
        }
        let revision = format!("refs/heads/{branch}^{{commit}}");
        self.git().verify(&revision).map_err(failed)
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
        self.git()
            .args(["merge-base", "--is-ancestor", older, newer])
            .test()
            .map_err(failed)
    }

    /// Whether what a commit changes is on the target: the commit itself, its patches, or, as it was when it landed, all that
    /// it would change.
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

    /// Whether a branch had this commit at some time, as far as its reflog tells.
    pub fn was_on(&self, branch: &str, commit: &str) -> Outcome<bool> {
        let refname = format!("refs/heads/{branch}");
        let log = self
            .git()
            .args(["reflog", "show", "--format=^%H", &refname, "--"]);
        let (_, mut ask, _) = log.try_run().map_err(failed)?;
        ask.extend_from_slice(format!("{commit}\n").as_bytes());
        // Commits that are gone for good are in a reflog too.
        let git = self
            .git()
            .args(["rev-list", "--max-count=1", "--ignore-missing", "--stdin"]);
        let (code, left, _) = git.stdin(ask).try_run().map_err(failed)?;
        Ok(code == Some(0) && left.is_empty())
    }

    /// The best common ancestor, `None` for histories that have nothing in common.
    pub fn merge_base(&self, a: &str, b: &str) -> Outcome<Option<String>> {
        merge_base(self.git(), a, b)
    }
}

/// Whether this can name a branch. `main^` and `main@{1}` name a commit.
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
