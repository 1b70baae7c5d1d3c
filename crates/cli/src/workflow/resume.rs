//! `jit workflow resume`: coordinates a workflow again whose coordinator has ended.
//!
//! A workflow that failed or was cancelled is opened again first. Running agents continue: no attempt is started twice.

use jit_engine::api::workflows::WorkflowRequest;
use jit_store::Outcome;

use super::follow;
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Agents that run go on as they were: nothing is started twice. One that failed or was cancelled is opened \
    again if something in it can go on: what failed is to be retried first.\n\nExamples:\n  jit workflow resume\n  \
    jit worktree retry parser && jit workflow resume flow"
)]
pub struct Flags {
    /// The one that runs, else the last one, if left out
    workflow: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let reopen = WorkflowRequest::Reopen {
        workflow: flags.workflow,
    };
    follow::lead(&follow::sent(reopen, call)?.id, call)
}
