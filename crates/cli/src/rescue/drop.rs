//! `jit rescue drop`: deletes rescued work for good.
//!
//! What must hold: without `--yes` it is refused.

use jit_core::model::refusal::{Code, Refusal};
use jit_engine::api::rescue::RescueId;
use jit_engine::api::rescue::RescueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Deletes its refs and its folder in the trash. After that the work is gone.")]
pub struct Flags {
    /// As jit rescue list names it
    id: RescueId,
    /// Really
    #[arg(long, short)]
    yes: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if !flags.yes {
        let help = format!("jit rescue drop {} --yes", flags.id);
        return Err(Box::new(
            Refusal::new(Code::Invalid, "deleting rescued work needs a yes").help(help),
        ));
    }
    call.ask(RescueRequest::Drop { id: flags.id })
}
