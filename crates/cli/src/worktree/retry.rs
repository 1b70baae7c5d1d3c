//! `jit worktree retry`: prepares another attempt at a unit that failed. A missing worktree is created again.

use jit_engine::api::units::UnitRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// By its name, issue, branch or path
    unit: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(UnitRequest::Retry { unit: flags.unit })
}
