//! `jit claim list`: lists all active leases on issues.

use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(ClaimRequest::List { issue: None })
}
