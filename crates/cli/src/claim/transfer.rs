//! `jit claim transfer`: transfers a lease to another agent.
//!
//! It is one step: the issue has a holder at every moment.

use jit_core::decide::command::Target;
use jit_core::model::ids::{AgentId, WorktreeId};
use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;

use super::target;
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "One step: there is no moment at which nobody holds the issue.\n\nExample:\n  \
    jit claim transfer WI-001 --to agent:reviewer --worktree wt:12ab34cd"
)]
pub struct Flags {
    /// The lease, or its issue
    #[arg(value_parser = target)]
    lease: Target,
    /// New holder
    #[arg(long, value_name = "AGENT")]
    to: AgentId,
    /// Where it will be worked on; as before when not given
    #[arg(long, value_name = "WT")]
    worktree: Option<WorktreeId>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let Flags { lease, to, worktree } = flags;
    call.ask(ClaimRequest::Transfer {
        target: lease,
        to,
        worktree,
    })
}
