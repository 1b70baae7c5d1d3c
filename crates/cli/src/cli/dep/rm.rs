use jit_core::command::Change;
use jit_core::ids::IssuePrefix;
use jit_store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The issue that waits
    issue: IssuePrefix,
    /// What it need not wait for any more
    on: IssuePrefix,
    /// Only if you hold the issue
    #[arg(long)]
    strict: bool,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let change = Change {
        remove_deps: vec![flags.on],
        ..Change::default()
    };
    cx.change(flags.issue, change, flags.strict)
}
