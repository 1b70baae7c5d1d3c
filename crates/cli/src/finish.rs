//! `jit finish`: lands the work of a unit and marks its issue as done.
//!
//! With `--pr` nothing lands here: the branch is pushed and others are asked to merge it.

use jit_engine::api::units::UnitRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::worktree::merge;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Runs the gates on what is merged, moves the target, and marks the issue as done. Work that is not \
    committed is refused. With --pr nothing lands here: the branch is pushed, and a pull request is opened with gh where \
    that is installed.\n\nExamples:\n  jit finish\n  jit finish wi-001\n  jit finish --pr"
)]
pub struct Flags {
    /// Unit, issue, branch or folder; that of this worktree if left out
    unit: Option<String>,
    /// Push the branch and ask others to merge it
    #[arg(long)]
    pr: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    merge::show(
        UnitRequest::Finish {
            unit: flags.unit,
            pr: flags.pr,
        },
        call,
    )
}
