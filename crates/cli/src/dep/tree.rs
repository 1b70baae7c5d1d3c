//! `jit dep tree`: shows all dependencies of an issue, direct and indirect.

use jit_core::model::ids::IssuePrefix;
use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What is shown above is not shown again, and what is too deep is left out: both are said."
)]
pub struct Flags {
    /// The issue that waits
    issue: IssuePrefix,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(IssueRequest::DependencyTree { issue: flags.issue })
}
