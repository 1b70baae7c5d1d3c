//! `jit claim release`: releases a lease.

use jit_core::decide::command::Target;
use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;

use super::target;
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The lease, or its issue
    #[arg(value_parser = target)]
    lease: Target,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(ClaimRequest::Release { target: flags.lease })
}
