//! `jit dep rm`: removes a dependency between two issues.

use jit_core::decide::command::IssueChange;
use jit_core::model::ids::IssuePrefix;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The issue that waits
    issue: IssuePrefix,
    /// The issue that it no longer waits for
    on: IssuePrefix,
    /// Only if you hold the issue
    #[arg(long)]
    strict: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let change = IssueChange {
        remove_deps: vec![flags.on],
        ..IssueChange::default()
    };
    call.change(flags.issue, change, flags.strict)
}
