//! `jit workflow list`: lists the workflows that are not over, or with `--all` every workflow.

use jit_engine::api::workflows::WorkflowRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Those that are over too
    #[arg(long)]
    all: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(WorkflowRequest::List { all: flags.all })
}
