//! `jit unblock`: removes the blocking reason of an issue.

use jit_core::decide::command::IssueChange;
use jit_core::model::ids::IssuePrefix;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let change = IssueChange {
        blocked: Some(None),
        ..IssueChange::default()
    };
    call.change(flags.issue, change, false)
}
