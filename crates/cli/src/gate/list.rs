//! `jit gate list`: lists all gates, or the gates of one issue with their status.

use jit_core::model::ids::IssuePrefix;
use jit_engine::api::gates::GateRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only what concerns this issue, and how it stands
    issue: Option<IssuePrefix>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(GateRequest::List { issue: flags.issue })
}
