//! `jit worktree cleanup`: removes the worktree of a unit that has landed.
//!
//! Work that is not on the target stops it. With `--force` that work is kept as a rescue first.

use jit_engine::api::rescue::Force;
use jit_engine::api::rescue::RescueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Whether everything has landed is read from git. Commits, changes, untracked files and whatever else is \
    not on the target stop it; with --force they are kept first: jit rescue list. Cut short, run it again."
)]
pub struct Flags {
    /// The unit whose worktree is to go, by its name, issue, branch or path
    unit: Option<String>,
    /// Also with work that is not on the target, which is kept; twice, also where the worktree is locked
    #[arg(long, short, action = clap::ArgAction::Count)]
    force: u8,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(RescueRequest::Cleanup {
        unit: flags.unit,
        force: Force::times(flags.force),
    })
}
