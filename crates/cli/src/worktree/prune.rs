//! `jit worktree prune`: lists units, worktrees and removals that do not match.
//!
//! With `--settle` it ends units whose worktree is gone, and completes interrupted removals. Branches and files stay.

use jit_engine::api::units::UnitRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Shows what does not fit together: units without a worktree, worktrees without a unit, removals that \
    were cut short. With --settle, those go on, and units whose worktree is gone are ended; branches and files are left alone. \
    What killed landings left of their trials is removed in any case."
)]
pub struct Flags {
    /// End units whose worktree is gone, and go on with removals
    #[arg(long)]
    settle: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(UnitRequest::Prune { settle: flags.settle })
}
