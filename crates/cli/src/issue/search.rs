//! `jit issue search`: finds issues that contain a text.

use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Looks into ids, titles, labels, comments and descriptions, without regard to case.")]
pub struct Flags {
    /// Text to search for
    text: String,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(IssueRequest::Search {
        text: flags.text,
        limit: flags.limit,
    })
}
