//! `jit block`: marks an issue as blocked, with a reason.
//!
//! For reasons that are not issues themselves. A dependency on another issue is `jit dep add`.

use jit_core::decide::command::IssueChange;
use jit_core::model::ids::IssuePrefix;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "For what is not an issue itself; if it is one: jit dep add <issue> <on>")]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// Reason why the issue is blocked
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let change = IssueChange {
        blocked: Some(Some(flags.reason)),
        ..IssueChange::default()
    };
    call.change(flags.issue, change, false)
}
