//! `jit worktree`: creates units, runs agents in them, lands them, and removes them.
//!
//! This file has the table of verbs and the text of units.

mod abandon;
mod cleanup;
mod create;
mod diff;
pub mod dispatch;
mod env;
pub mod info;
pub mod init;
pub mod list;
pub mod logs;
pub mod merge;
mod path;
mod prune;
mod retry;
mod status;
mod stop;
pub mod text;
mod unpark;

use crate::grammar::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("create", "A worktree and a branch for a piece of work", create),
    verb!("dispatch", "Start an agent in a unit", dispatch),
    verb!("status", "Units of work, and how they stand", status),
    verb!("logs", "What the agent of a unit said and did", logs),
    verb!("diff", "What a unit changed", diff),
    verb!("stop", "End the agent of a unit", stop),
    verb!(
        "unpark",
        "Start agents again on an account that was refused",
        unpark
    ),
    verb!("path", "Where a unit's worktree is", path),
    verb!("env", "What a unit's commands find in their environment", env),
    verb!("retry", "Another attempt at a unit that failed", retry),
    verb!("prune", "What does not fit together", prune),
    verb!("info", "This worktree", info),
    verb!("list", "All worktrees, with who works there", list),
    verb!("merge", "Bring finished units to their target", merge),
    verb!("init", "Give this worktree its identity", init),
    verb!(
        "cleanup",
        "Remove the worktree of a unit that has landed",
        cleanup
    ),
    verb!("abandon", "Give a unit up; its work is kept", abandon),
];
