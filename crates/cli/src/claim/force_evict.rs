//! `jit claim force-evict`: ends the lease of another holder. The log records the caller and the reason.

use jit_core::decide::command::Target;
use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;

use super::target;
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Recorded with who and why. Agents may not do this unless agents.may_force_evict is set."
)]
pub struct Flags {
    /// The lease, or its issue
    #[arg(value_parser = target)]
    lease: Target,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(ClaimRequest::ForceEvict {
        target: flags.lease,
        reason: flags.reason,
    })
}
