//! Locates a unit's worktree, and checks whether it may be removed at all.
//!
//! What must hold: a [`Site`] whose folder exists is a linked worktree of this repository whose two halves point at
//! each other. If git has forgotten it, its `.git` file must name this repository.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Phase, Unit};
use jit_git::worktrees::WorktreeEntry;
use jit_git::{Git, Place};
use jit_os::{io_refusal, mounts, process};
use jit_store::Outcome;

use crate::refusals::refuse;
use crate::units::worktree_state::leads_to;
use crate::worktree_identity::identity;
use crate::worktrees::half_made;

/// Maximum time to wait for a git process that runs there.
const FOR_GIT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub struct Site {
    pub common: PathBuf,
    pub control: PathBuf,
    /// The main worktree's folder, if there is one.
    pub main: Option<PathBuf>,
    /// The current or last path of the worktree.
    pub root: PathBuf,
    pub root_is_there: bool,
    /// Its folder in `.git/worktrees`, if that still exists.
    pub admin: Option<PathBuf>,
    /// The reason of a `git worktree lock`.
    pub locked: Option<String>,
    pub branch: String,
    pub target: String,
    pub merge_commit: Option<String>,
    /// Branches that are checked out in other worktrees.
    pub used_branches: Vec<String>,
}

fn never(message: String, unit: &Unit) -> Box<Refusal> {
    Box::new(Refusal::new(Code::NotAllowed, message).help(format!("jit worktree status {}", unit.id)))
}

/// Like [`never`], if the worktree may have been moved.
fn elsewhere(message: String, unit: &Unit) -> Box<Refusal> {
    let path = &unit.worktree_path;
    let [from, to] = ["", ".aside"].map(|end| jit_os::shell::shell_word(&format!("{path}{end}")));
    Box::new(
        Refusal::new(Code::NotAllowed, message)
            .help("where the worktree was moved: git worktree repair <where it is now>")
            .help(format!("where it is gone: mv -n {from} {to}")),
    )
}

impl Site {
    /// Finds a unit's worktree. Refuses everything that is not exactly that.
    pub fn find(place: &Place, unit: &Unit) -> Outcome<Self> {
        let common = place
            .common_dir
            .clone()
            .ok_or_else(|| refuse(Code::Invalid, "there is no git repository here"))?;
        let entries = crate::worktree_identity::list(&common).map_err(|e| refuse(Code::Io, e))?;
        let root = PathBuf::from(&unit.worktree_path);
        if !root.is_absolute() {
            return Err(never(format!("{} is not a whole path", root.display()), unit));
        }
        let meta = match root.symlink_metadata() {
            Ok(meta) => Some(meta),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(e) => return Err(io_refusal("read", &root, &e)),
        };
        if meta.as_ref().is_some_and(|meta| !meta.is_dir()) {
            let message = format!(
                "{} is not a folder but a link or a file: it stays",
                root.display()
            );
            return Err(never(message, unit));
        }
        let real = match &meta {
            Some(_) => fs::canonicalize(&root).map_err(|e| io_refusal("read", &root, &e))?,
            None => root.clone(),
        };
        let same = |entry: &&WorktreeEntry| {
            entry
                .root
                .as_ref()
                .is_some_and(|known| *known == root || *known == real)
        };
        let own = entries.iter().find(same);
        if own.is_some_and(|entry| entry.is_main) || common.starts_with(&real) {
            let message = format!("{} is the main worktree: it is never removed", root.display());
            return Err(never(message, unit));
        }
        if let Some(inside) = entries
            .iter()
            .filter(|entry| entry.prunable.is_none() && own.is_none_or(|own| own.git_dir != entry.git_dir))
            .filter_map(|entry| entry.root.as_ref())
            .find(|inner| inner.starts_with(&real))
        {
            let message = format!(
                "another worktree lies inside {}: {}",
                root.display(),
                inside.display()
            );
            return Err(never(message, unit));
        }
        if let (Some(entry), Some(expected)) = (own, &unit.worktree_id)
            && let Some(known) = identity::peek(&entry.git_dir)
            && known.worktree_id != *expected
        {
            let message = format!(
                "{} is another worktree by now: {} instead of {expected}",
                root.display(),
                known.worktree_id
            );
            return Err(never(message, unit));
        }
        let git_dir = own.map(|entry| entry.git_dir.clone()).or_else(|| leads_to(&real));
        let damaged = git_dir
            .filter(|git_dir| git_dir.is_dir())
            .and_then(half_made::look);
        if let Some(one) = damaged.filter(|one| one.missing.is_some() && !one.is_left_over()) {
            return Err(one.refusal(unit));
        }
        match (own, &meta) {
            (Some(entry), Some(_)) => require_own(&real, &entry.git_dir, unit)?,
            // Git may have forgotten it, or a removal was interrupted. Then its own `.git` file must be enough.
            (None, Some(_)) if !was_linked(&real, &common) => {
                let message = format!(
                    "{} is not a worktree of this repository: it stays",
                    root.display()
                );
                return Err(elsewhere(message, unit));
            }
            _ => {}
        }
        let used = entries
            .iter()
            .filter(|entry| own.is_none_or(|own| own.git_dir != entry.git_dir));
        Ok(Self {
            main: entries
                .iter()
                .find(|entry| entry.is_main)
                .and_then(|entry| entry.root.clone()),
            control: place.control_dir.clone(),
            root_is_there: meta.is_some(),
            root: real,
            admin: own.map(|entry| entry.git_dir.clone()),
            locked: own.and_then(|entry| entry.locked.clone()),
            branch: unit.branch.clone(),
            target: unit.goes_to().to_owned(),
            merge_commit: unit.merge_commit.clone(),
            used_branches: used.filter_map(|entry| entry.branch.clone()).collect(),
            common,
        })
    }

    /// Git in this worktree, without side effects: no daemon, no hook, no index refresh.
    pub fn git(&self) -> Git {
        let option = |name: &str, path: &Path| {
            let mut option = OsString::from(name);
            option.push(path);
            option
        };
        let dir = if self.root_is_there {
            &self.root
        } else {
            &self.common
        };
        let mut git = Git::at(dir)
            .arg("--no-optional-locks")
            .arg(option("--git-dir=", self.admin.as_ref().unwrap_or(&self.common)));
        if self.root_is_there {
            git = git.arg(option("--work-tree=", &self.root));
        }
        git.setting("core.untrackedCache", "false")
            .setting("core.quotePath", "false")
    }

    /// Refuses while a process has its current folder inside.
    pub fn require_unused(&self) -> Outcome<()> {
        let mut inside = working_in(&self.root);
        // Git cleans up after a command has ended; that takes only a moment.
        let end = Instant::now() + FOR_GIT;
        for pid in inside.clone() {
            let left = end.saturating_duration_since(Instant::now());
            if process::name(pid).as_deref() == Some("git")
                && let Ok(Some(git)) = process::ProcessRef::of(pid)
                && process::wait_for_end(git, left).unwrap_or(false)
            {
                inside = working_in(&self.root);
            }
        }
        if inside.is_empty() {
            return Ok(());
        }
        let own = std::process::id();
        let here = inside.contains(&own);
        let names: Vec<String> = inside
            .iter()
            .filter(|pid| **pid != own)
            .map(|pid| format!("{pid} ({})", process::name(*pid).unwrap_or_default()))
            .collect();
        let message = match (names.is_empty(), here) {
            (true, _) => format!("you are in {}", self.root.display()),
            (false, _) => format!(
                "{} is in use by process {}",
                self.root.display(),
                names.join(", ")
            ),
        };
        Err(Box::new(Refusal::new(Code::Held, message).help(match here {
            true => "cd somewhere else, then run the command again",
            false => "end it, then run the command again",
        })))
    }

    /// Refuses if a file system is mounted inside: a deletion would delete its source.
    pub fn require_unmounted(&self) -> Outcome<()> {
        let Some(place) = mounts::first_in(&self.root) else {
            return Ok(());
        };
        let word = jit_os::shell::shell_word(&place.to_string_lossy());
        let message = format!("something is mounted on {}", place.display());
        Err(Box::new(
            Refusal::new(Code::NotAllowed, message)
                .help(format!("umount {word}, then run the command again")),
        ))
    }

    /// Refuses if a user locked the worktree; jit's own locks are no obstacle.
    pub fn require_unlocked(&self, unit: &Unit) -> Outcome<()> {
        let Some(reason) = &self.locked else { return Ok(()) };
        if reason == "jit" || reason.starts_with("jit:") || reason.starts_with("jit ") {
            return Ok(());
        }
        let why = match reason.is_empty() {
            true => String::new(),
            false => format!(": {reason}"),
        };
        let message = format!("the worktree of {} is locked{why}", unit.id);
        let word = jit_os::shell::shell_word(&self.root.to_string_lossy());
        Err(Box::new(
            Refusal::new(Code::NotAllowed, message)
                .help(format!("git worktree unlock {word}"))
                .help(match unit.state {
                    Phase::Merged | Phase::Cleanup => {
                        format!("jit worktree cleanup {} --force --force", unit.id)
                    }
                    _ => format!("jit worktree abandon {} --reason <why> --force --force", unit.id),
                }),
        ))
    }
}

/// Returns whether a folder says that it was a linked worktree of this repository, and no other has taken its place.
pub(super) fn was_linked(root: &Path, common: &Path) -> bool {
    leads_to(root).is_some_and(|goal| {
        goal.parent() == Some(&common.join("worktrees")) && goal.symlink_metadata().is_err()
    })
}

/// Requires that the worktree's `.git` file leads to its folder in `.git/worktrees`.
fn require_own(root: &Path, admin: &Path, unit: &Unit) -> Outcome<()> {
    let same = |a: &Path, b: &Path| match (fs::canonicalize(a), fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    match leads_to(root) {
        Some(goal) if same(&goal, admin) => Ok(()),
        _ => Err(elsewhere(
            format!(
                "{} is not the worktree that git knows there: its .git does not lead to {}",
                root.display(),
                admin.display()
            ),
            unit,
        )),
    }
}

/// Processes whose current folder is this one or below it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn working_in(root: &Path) -> Vec<u32> {
    // A process that has ended has no current folder.
    let all = process::pids().unwrap_or_default();
    all.into_iter()
        .filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(root)))
        .collect()
}

/// Not known on this system.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn working_in(_root: &Path) -> Vec<u32> {
    Vec::new()
}
