//! `jit worktree diff`: shows the changes of a unit.
//!
//! Uncommitted changes are included. Changes of the target since the unit began are not.

use jit_engine::api::units::UnitRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "With what is not committed, and without what the target got meanwhile.")]
pub struct Flags {
    /// Unit, issue, branch or folder; that of this worktree if left out
    unit: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(UnitRequest::Diff { unit: flags.unit })
}
