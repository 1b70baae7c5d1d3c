//! `jit rescue restore`: creates a removed worktree again, with its files, index and branch.
//!
//! Existing files and branches are not overwritten.

use std::path::PathBuf;

use jit_engine::api::rescue::RescueId;
use jit_engine::api::rescue::RescueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The worktree comes back as it was: its files byte for byte, what was staged, its branch, an unfinished \
    rebase. Nothing that is there is overwritten."
)]
pub struct Flags {
    /// As jit rescue list names it
    id: RescueId,
    /// Where to [default: where it was]
    #[arg(long, value_name = "PATH")]
    to: Option<PathBuf>,
    /// The name of its branch [default: the one it had]
    #[arg(long, value_name = "B")]
    branch: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(RescueRequest::Restore {
        id: flags.id,
        to: flags.to.map(Into::into),
        branch: flags.branch,
    })
}
