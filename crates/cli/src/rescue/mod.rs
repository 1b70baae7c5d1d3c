//! `jit rescue`: lists, shows, restores and deletes the work of removed worktrees.
//!
//! This file has the table of verbs and the text of rescue replies.

mod drop;
mod list;
mod prune;
mod restore;
mod show;
pub mod text;

use crate::grammar::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("list", "Everything that was kept, oldest first", list),
    verb!("show", "What one of them holds, and where", show),
    verb!("restore", "Make the worktree again", restore),
    verb!("prune", "Empty the trash of what is old", prune),
    verb!("drop", "Forget one of them for good", drop),
];
