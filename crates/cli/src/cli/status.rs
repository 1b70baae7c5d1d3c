//! `jit status`: shows the overview: the agents at work, the ready issues, and everything that needs a person.

use jit_engine::api::overview::OverviewRequest;
use jit_store::Outcome;

use super::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(OverviewRequest::Status)
}
