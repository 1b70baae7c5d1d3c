//! `jit workflow status`: shows one workflow with its units.

use jit_engine::api::workflows::WorkflowRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The one that runs, else the last one, if left out
    workflow: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(WorkflowRequest::Status {
        workflow: flags.workflow,
    })
}
