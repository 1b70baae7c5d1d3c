use jit_core::decide::command::IssueChange;
use jit_core::model::ids::IssuePrefix;
use jit_store::Outcome;

use super::{Cx, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "For what is not an issue itself; if it is one: jit dep add <issue> <on>")]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// What stands in the way
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let change = IssueChange {
        blocked: Some(Some(flags.reason)),
        ..IssueChange::default()
    };
    cx.change(flags.issue, change, false)
}
