//! `jit blocked`: lists the issues that are blocked, and why.

use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use super::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(IssueRequest::Blocked)
}
