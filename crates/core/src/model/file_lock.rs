//! File locks: what a lock on files is on, and who waits for one (F2 to F6).
//!
//! # Where a lock counts
//!
//! | one lock | the other | same pattern |
//! |---|---|---|
//! | worktree | worktree, same worktree | they collide |
//! | worktree | worktree, other worktree | they do not |
//! | global | global | they collide |
//! | worktree | global | they collide |
//!
//! Paths outside of every worktree are a space of their own; in it everything is global.

use serde::{Deserialize, Serialize};

use crate::model::actor::Actor;
use crate::model::glob::Pattern;
use crate::model::ids::{LeaseId, TicketId, WorktreeId};
use crate::model::scope::LockScope;
use crate::model::time::Wall;

/// A locked pattern: where the lock counts, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTarget {
    pub pattern: Pattern,
    /// The pattern is of paths from the root of the file system, not of a worktree.
    pub outside: bool,
    pub scope: LockScope,
    pub shared: bool,
    /// The holder: several may share one pattern.
    pub holder: Actor,
    /// Boot-clock milliseconds: no extension goes beyond.
    pub latest: u64,
    pub labels: Labels,
}

/// Labels of a lock for the registry. They decide nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pr_group: Option<String>,
}

impl FileTarget {
    /// The key that all locks of one holder on one pattern share. It begins with the pattern, so that locks below a folder
    /// stand together; globs stand apart, because they reach further than their beginning.
    pub fn key(&self) -> String {
        let family = if self.pattern.is_glob() { GLOBS } else { FILES };
        let place = match (self.outside, self.scope) {
            (true, _) => 'o',
            (false, LockScope::Global) => 'g',
            (false, LockScope::Worktree) => 'w',
        };
        format!(
            "{family}{}#{place}#{}@{}",
            encoded(&plain(&self.pattern)),
            self.holder.agent_id.file_name(),
            self.holder.worktree_id.as_ref().map_or("-", WorktreeId::as_str),
        )
    }

    /// Whether the two cannot be held at the same time.
    pub fn collides(&self, other: &Self) -> bool {
        let apart = self.scope == LockScope::Worktree
            && other.scope == LockScope::Worktree
            && self.holder.worktree_id != other.holder.worktree_id;
        self.holder != other.holder
            && !(self.shared && other.shared)
            && self.outside == other.outside
            && !apart
            && self.pattern.overlaps(&other.pattern)
    }

    /// As the registry names it: `{worktree}:{path}` or `{path}`.
    pub fn lock_key(&self) -> String {
        let path = self.path();
        match (&self.scope, &self.labels.worktree_path) {
            (LockScope::Worktree, Some(worktree)) => format!("{worktree}:{path}"),
            _ => path,
        }
    }

    pub fn path(&self) -> String {
        let slash = if self.outside { "/" } else { "" };
        format!("{slash}{}", plain(&self.pattern))
    }
}

/// The path itself where the pattern is one, with a `/` after a folder; else the pattern.
pub(crate) fn plain(pattern: &Pattern) -> String {
    match (pattern.is_glob(), pattern.is_dir()) {
        (true, _) => pattern.as_str().to_owned(),
        (false, true) => format!("{}/", pattern.literal_prefix().trim_end_matches('/')),
        (false, false) => pattern.literal_prefix().to_owned(),
    }
}

pub(crate) const FILES: &str = "file:";
pub(crate) const GLOBS: &str = "glob:";

/// Every character by itself, so that a beginning stays a beginning.
pub(crate) fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        if c == '#' || c == '%' || c.is_control() {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                out.push_str(&format!("%{byte:02x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// One of several things that are asked for together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    pub pattern: Pattern,
    pub outside: bool,
    pub scope: LockScope,
    pub shared: bool,
    pub labels: Labels,
    pub ttl_secs: Option<u64>,
}

/// A place in the queue. Its position in the log is its rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    pub ticket_id: TicketId,
    pub wants: Vec<FileTarget>,
    pub since: Wall,
    /// Boot-clock milliseconds until which it waits.
    pub deadline: u64,
}

/// Which of the caller's locks are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    All,
    /// By pattern, exactly as it was locked, and whether it is outside.
    These(Vec<(Pattern, bool)>),
    /// By the lease itself, for those who keep only what they took.
    Leases(Vec<LeaseId>),
}

/// Options of a request for locks that concern the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queueing {
    /// The place in the queue that the caller has.
    pub ticket: Option<TicketId>,
    /// Take this place in the queue when it is not free, for so many milliseconds.
    pub enqueue: Option<(TicketId, u64)>,
    /// Tickets whose owners were found dead.
    pub gone: Vec<TicketId>,
}
