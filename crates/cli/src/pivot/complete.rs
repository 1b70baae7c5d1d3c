//! `jit pivot complete`: ends the revision of an issue's scope, with the outcome.

use jit_core::decide::command::Pivot;
use jit_core::model::ids::IssuePrefix;
use jit_store::Outcome;

use super::ask;
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// Outcome of the revision
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    ask(flags.issue, Pivot::Complete(flags.reason), call)
}
