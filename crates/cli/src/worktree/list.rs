//! `jit worktree list`: lists all git worktrees, with the holders of leases there.
//!
//! It also works without a log: then it lists the worktrees without holders.

use jit_engine::api::setup::SetupRequest;
use jit_engine::api::worktrees::{GitWorktree, WorktreeState};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::render::{clean_line, table};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(SetupRequest::Worktrees)
}

pub fn text(worktrees: &[GitWorktree]) -> String {
    let shown = |field: &Option<String>| field.as_deref().map_or("-".to_owned(), clean_line);
    let row = |one: &GitWorktree| {
        let holders: Vec<String> = one.holders.iter().map(|holder| clean_line(holder)).collect();
        let state = match (one.state, one.dirty) {
            (WorktreeState::Present, Some(true)) => "dirty",
            (WorktreeState::Present, _) => "clean",
            (state, _) => state.as_str(),
        };
        vec![
            shown(&one.worktree_id),
            shown(&one.branch),
            state.to_owned(),
            shown(&one.root),
            holders.join(", "),
        ]
    };
    table(&worktrees.iter().map(row).collect::<Vec<_>>())
}
