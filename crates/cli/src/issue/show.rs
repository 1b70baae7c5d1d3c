//! `jit issue show`: shows one issue with its description and comments.

use jit_core::model::ids::IssuePrefix;
use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(IssueRequest::Show { issue: flags.issue })
}
