//! `jit worktree unpark`: lets agents start again on an account that a limit had parked.

use jit_core::model::account::AccountId;
use jit_engine::api::attempts::AttemptRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "An account is parked when whoever runs its model says that too much was asked, until the time that was \
    named. `jit status` shows those that are.\n\nExamples:\n  jit worktree unpark claude\n  jit worktree unpark claude/work"
)]
pub struct Flags {
    /// An agent's name, and perhaps a word: claude, claude/work
    account: AccountId,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(AttemptRequest::Unpark {
        account: flags.account,
    })
}
