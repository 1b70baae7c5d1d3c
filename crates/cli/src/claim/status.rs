//! `jit claim status`: lists the active leases, of all issues or of one.

use jit_core::model::ids::IssuePrefix;
use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only this issue
    #[arg(long, value_name = "ISSUE")]
    issue: Option<IssuePrefix>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(ClaimRequest::List { issue: flags.issue })
}
