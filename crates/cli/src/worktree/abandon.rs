//! `jit worktree abandon`: gives up a unit that is not to land, and removes its worktree.
//!
//! Its issue becomes free. Everything in the worktree is kept as a rescue, committed or not.

use jit_engine::api::rescue::Force;
use jit_engine::api::rescue::RescueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "For a unit that is not to land. Its issue becomes free. Everything in its worktree is kept, committed or \
    not: jit rescue list, jit rescue restore."
)]
pub struct Flags {
    /// The unit to give up, by its name, issue, branch or path
    unit: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Twice: also where the worktree is locked
    #[arg(long, short, action = clap::ArgAction::Count)]
    force: u8,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(RescueRequest::Abandon {
        unit: flags.unit,
        reason: flags.reason,
        force: Force::times(flags.force),
    })
}
