//! `jit pivot start`: starts a revision of an issue's scope, with the reason.

use jit_core::decide::command::Pivot;
use jit_core::model::ids::IssuePrefix;
use jit_store::Outcome;

use super::ask;
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// Why it has to be revised
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    ask(flags.issue, Pivot::Start(flags.reason), call)
}
