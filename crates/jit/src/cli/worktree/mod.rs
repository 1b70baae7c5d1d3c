//! `jit worktree`: where work happens.

mod abandon;
mod cleanup;
mod info;
mod init;
mod list;

use super::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("info", "This worktree", info),
    verb!("list", "All worktrees, with who works there", list),
    verb!("init", "Give this worktree its identity", init),
    verb!(
        "cleanup",
        "Remove the worktree of a unit that has landed",
        cleanup
    ),
    verb!("abandon", "Give a unit up; its work is kept", abandon),
];
