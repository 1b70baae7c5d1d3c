//! `jit worktree`: where work happens.

mod info;
mod init;
mod list;
pub mod merge;

use super::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("info", "This worktree", info),
    verb!("list", "All worktrees, with who works there", list),
    verb!("merge", "Bring finished units to their target", merge),
    verb!("init", "Give this worktree its identity", init),
];
