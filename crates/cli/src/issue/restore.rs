//! `jit issue restore`: restores a deleted issue, with its description and comments.

use jit_core::model::ids::IssueId;
use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It comes back as it was, with its description and its comments. What was deleted, when and by whom:\n  \
                  jit events --type issue.deleted"
)]
pub struct Flags {
    /// Its id
    issue: IssueId,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(IssueRequest::Restore { issue: flags.issue })
}
