//! `jit worktree stop`: ends the agent of a unit, with every process it started. The worktree stays unchanged.

use jit_engine::api::attempts::AttemptRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The agent is asked to end, and ended with everything it started if it does not. Its worktree stays as \
    it is.\n\nExamples:\n  jit worktree stop date-1\n  jit worktree dispatch date-1 --resume"
)]
pub struct Flags {
    /// Unit, issue, branch or folder; that of this worktree if left out
    unit: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "stopped by hand")]
    reason: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(AttemptRequest::Stop {
        unit: flags.unit,
        reason: flags.reason,
    })
}
