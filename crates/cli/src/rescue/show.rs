//! `jit rescue show`: shows the content and the places of one rescue.

use jit_engine::api::rescue::RescueId;
use jit_engine::api::rescue::RescueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Single files can be taken from the refs: git show refs/jit/rescue/<id>/worktree:<path>, or \
    …/index:<path> for what was staged."
)]
pub struct Flags {
    /// As jit rescue list names it
    id: RescueId,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(RescueRequest::Show { id: flags.id })
}
