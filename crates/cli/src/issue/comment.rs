//! `jit issue comment`: adds a comment to an issue.

use jit_core::model::ids::IssuePrefix;
use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use super::given;
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// Text of the comment; - reads it from standard input
    #[arg(allow_hyphen_values = true)]
    text: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(IssueRequest::Comment {
        issue: flags.issue,
        text: given(flags.text)?,
    })
}
