use jit_core::ids::IssuePrefix;
use jit_engine::request::Request;
use jit_engine::store::Outcome;

use super::{Cx, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "What has parts is counted by its parts.")]
pub struct Flags {
    /// Only this issue and its parts
    issue: Option<IssuePrefix>,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(Request::Progress { issue: flags.issue })
}
