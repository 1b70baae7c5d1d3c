//! `jit lock`: acquires, checks, extends and releases locks on files.
//!
//! This file has the table of verbs, the flags that name the caller's own locks, and the text of lock replies.

mod acquire;
mod check;
mod cleanup;
mod extend;
mod list;
mod release;
pub mod text;

use std::ffi::OsString;

use jit_engine::api::file_locks::OwnLocks;

use crate::grammar::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("acquire", "Lock files, folders or patterns: all or none", acquire),
    verb!("check", "Would I get it, and who has it?", check),
    verb!("extend", "Keep them longer", extend),
    verb!("release", "Let go of them", release),
    verb!("list", "Who has locked what", list),
    verb!("cleanup", "Clear away locks that ran out", cleanup),
];

/// Own locks, by path or all of them.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct Own {
    /// As they were locked
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// All that you have locked in this worktree
    #[arg(long)]
    all: bool,
}

impl Own {
    fn locks(self) -> OwnLocks {
        if self.all {
            OwnLocks::All
        } else {
            OwnLocks::Paths(self.paths.into_iter().map(Into::into).collect())
        }
    }
}
