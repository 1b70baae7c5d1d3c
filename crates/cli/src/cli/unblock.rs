use jit_core::command::Change;
use jit_core::ids::IssuePrefix;
use jit_store::Outcome;

use super::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let change = Change {
        blocked: Some(None),
        ..Change::default()
    };
    cx.change(flags.issue, change, false)
}
