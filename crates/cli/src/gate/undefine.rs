//! `jit gate undefine`: deletes a gate definition.
//!
//! An issue that requires the gate itself still has to pass it. `jit gate rm` removes that requirement.

use jit_engine::api::gates::GateRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Takes it out of .jit/gates/registry.json. Types that required it do not any more. An issue that asks \
    for it itself still has to pass it: jit gate rm. Shows the gates that are left."
)]
pub struct Flags {
    /// The gate's name
    name: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(GateRequest::Undefine { name: flags.name })
}
