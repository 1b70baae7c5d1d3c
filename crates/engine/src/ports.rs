//! The ports: everything outside this program that a request may need, on one page.
//!
//! A `Context` carries one object for each port. The rooms know only these traits.
//! `opening` chooses the implementations of a repository (files, the git program, the system's clock), and
//! `memory` those of tests.
//!
//! | port | is for | in a repository |
//! |---|---|---|
//! | [`Store`], [`Upkeep`] | the log | `jit_store::open` |
//! | [`Texts`] | long texts, and the newest files of each issue | `replica` |
//! | [`Heartbeats`] | signs of life | `heartbeats` |
//! | [`TargetLocks`] | one landing at a time on each target | `target_locks` |
//! | [`Clock`] | the time | `jit_os::clock` |
//! | [`GitRunner`] | starting git | `jit_git::SystemGit` |
//! | `context::Followers` | files beside the log that take part in every write | `wiring` |
//!
//! [`Store`] and [`Upkeep`] state their rules in `jit_store::port`, [`GitRunner`] in `jit_git::run`.
//!
//! Limitations: these read and write files themselves, below the control directory or in the caller's tree:
//! provisioning, landing, attempts, rescue, plans, hooks, `init` and `doctor`, and the queue of those who wait for a
//! lock on files. Their helpers that get a folder and no context start the git of this machine.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jit_core::issue_files::format::{self, DESCRIPTION};
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::ids::{AgentId, IssueId};
use jit_core::model::issue::Issue;

pub use crate::api::claims::Heartbeat;
pub use jit_core::model::time::Clock;
pub use jit_git::GitRunner;
pub use jit_store::{Outcome, Store, Upkeep};

/// The files of one issue: name and content.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// Keeps the long texts of issues under their digests, and a replica of the newest files of each issue.
///
/// What must hold:
///
/// - A text that was kept is durable, and is read until its issue's folder is removed.
/// - A text is read only if it matches its digest.
/// - Only the holder of the store's lock refreshes and sweeps.
pub trait Texts: Debug + Send + Sync {
    /// Keeps texts under their digests. They are durable when this returns.
    fn keep(&self, texts: &[(&IssueId, &[u8])]) -> io::Result<()>;

    /// Returns a text by its digest.
    fn read(&self, id: &IssueId, digest: &str) -> io::Result<Option<Vec<u8>>>;

    /// Records the two texts that a text was merged from. If this is lost, a merge of them in git does not count as
    /// one of ours.
    fn keep_parts(&self, id: &IssueId, digest: &str, parts: [&str; 2]) -> io::Result<()>;

    /// Returns the digests of the texts that a text was merged from; empty if it was not merged, or if that is not
    /// known.
    fn parts(&self, id: &IssueId, digest: &str) -> io::Result<Vec<String>>;

    /// Updates the replica of an issue.
    fn refresh(&self, id: &IssueId, files: &[(&'static str, Vec<u8>)]) -> io::Result<()>;

    /// Whether the replica of an issue has exactly these files.
    fn holds(&self, id: &IssueId, files: &[(&'static str, Vec<u8>)]) -> bool;

    /// Whether killed writers left something to sweep.
    fn has_left_overs(&self) -> bool;

    /// Removes the leftovers of killed writers, and returns their number.
    fn sweep(&self) -> usize;

    /// The folder of an issue, for messages.
    fn folder(&self, id: &IssueId) -> PathBuf;

    /// The place of a text, for messages.
    fn text_path(&self, id: &IssueId, digest: &str) -> PathBuf;

    /// Returns every file of an issue as it is now, with its description if that can be found.
    fn files(&self, table: &dyn Table, issue: &Issue) -> io::Result<Files> {
        let sheet = state::sheet(table, &issue.id).map_err(io::Error::other)?;
        let comments = state::comments(table, &issue.id).map_err(io::Error::other)?;
        let mut files = format::files(issue, &sheet, &comments);
        if sheet.deleted {
            // Only the tombstone remains of a deleted issue.
            files.truncate(1);
        } else if let Some(digest) = &issue.text
            && let Some(text) = self.read(&issue.id, digest)?
        {
            files.push((DESCRIPTION, text));
        }
        Ok(files)
    }
}

/// A heartbeat that was read.
#[derive(Debug, Clone)]
pub struct Beat {
    pub heartbeat: Heartbeat,
    /// The process of the heartbeat is running.
    pub alive: bool,
}

/// Keeps the last heartbeat of each agent, outside the log.
///
/// What must hold: a heartbeat may be lost, then its agent counts as dead. It is never another agent's.
pub trait Heartbeats: Debug + Send + Sync {
    /// Replaces the agent's heartbeat.
    fn beat(&self, beat: &Heartbeat) -> io::Result<()>;

    /// Returns the agent's heartbeat, if it has one that can be read.
    fn of(&self, agent: &AgentId) -> Option<Beat>;
}

/// Gives out the landing locks: one for each target, named by the target's digest.
///
/// What must hold:
///
/// - At most one holder has the lock of a target, whatever process it is in.
/// - A git that was started with [`HeldLock::shared`] keeps the lock until it exits, even if this process is killed.
/// - The lock of a process that is killed becomes free, unless such a git still runs.
pub trait TargetLocks: Debug + Send + Sync {
    /// Waits for the lock of a target. `None` if another holder had it for all of `wait`.
    fn lock(&self, target: &str, wait: Duration) -> Outcome<Option<TargetLock>>;

    /// Returns the digest of every target that was ever locked.
    fn known(&self) -> Outcome<Vec<String>>;

    /// Returns the processes that hold the lock of a target, for messages; empty if they cannot be found.
    fn holders(&self, target: &str) -> Vec<String>;
}

/// One lock that a [`TargetLocks`] gave out.
pub trait HeldLock: Debug {
    /// A second handle of the lock, to pass to a git that is started meanwhile. `None` if no process can inherit it.
    fn shared(&self) -> Option<File>;

    /// Releases the lock, even if another process has a handle of it.
    fn release(&mut self);
}

/// The landing lock of a target. Dropping it releases the lock.
#[derive(Debug)]
#[must_use = "dropping the lock lets others land"]
pub struct TargetLock(Box<dyn HeldLock>);

impl TargetLock {
    pub fn new(held: impl HeldLock + 'static) -> Self {
        Self(Box::new(held))
    }

    /// A second handle of the lock, to pass to a git that is started meanwhile.
    pub fn shared(&self) -> Option<File> {
        self.0.shared()
    }
}

impl Drop for TargetLock {
    fn drop(&mut self) {
        self.0.release();
    }
}
