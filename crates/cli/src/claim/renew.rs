//! `jit claim renew`: extends a lease.
//!
//! An expired lease is granted again with a new token, unless another agent has acquired the issue meanwhile.

use jit_core::decide::command::Target;
use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;

use super::target;
use crate::invocation::{Invocation, Output, duration};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A lease that has run out is granted again, with a new token, unless somebody else took the \
    issue meanwhile.\n\nExample:\n  jit claim renew WI-001 --ttl 1h"
)]
pub struct Flags {
    /// The lease, or its issue
    #[arg(value_parser = target)]
    lease: Target,
    /// How long it lasts from now on; as before when not given
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    ttl: Option<u64>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(ClaimRequest::Renew {
        target: flags.lease,
        ttl_secs: flags.ttl,
    })
}
