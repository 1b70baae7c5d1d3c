//! `jit issue delete`: deletes an issue.
//!
//! A tombstone stays, so that no older copy on another branch restores the issue. The id is not used again.

use jit_core::model::ids::IssuePrefix;
use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A tombstone stays behind, so that no older copy on another branch brings it back; a change that somebody makes \
                  later without knowing of the deletion does. Its id is not used again. Take it back: jit issue restore"
)]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// Only if you hold it
    #[arg(long)]
    strict: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(IssueRequest::Delete {
        issue: flags.issue,
        strict: flags.strict,
    })
}
