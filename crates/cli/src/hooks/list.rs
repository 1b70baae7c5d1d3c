//! `jit hooks list`: shows the state of each git hook.

use jit_engine::api::hooks::HookRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "installed: git runs it. missing: there is none. foreign: another program's is in its place. edited: \
    somebody changed jit's, or it cannot be executed. shadowed: jit's is there, but core.hooksPath leads elsewhere."
)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(HookRequest::List)
}
