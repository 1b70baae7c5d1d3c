//! `jit workflow status`: shows one workflow with its units.

use jit_engine::api::workflows::WorkflowRequest;
use jit_store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The one that runs, else the last one, if left out
    workflow: Option<String>,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(WorkflowRequest::Status {
        workflow: flags.workflow,
    })
}
