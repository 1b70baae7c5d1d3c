//! `jit claim list`: lists all active leases on issues.

use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(ClaimRequest::List { issue: None })
}
