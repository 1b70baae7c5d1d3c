//! `jit hooks run`: git calls it for a hook.
//!
//! It passes the arguments and the standard input of the hook to the engine.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Read as _};

use jit_engine::api::hooks::{HookRequest, has_input};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, invalid};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads what git gives to that hook: its arguments, its environment and its standard input."
)]
pub struct Flags {
    /// pre-commit, prepare-commit-msg, commit-msg, pre-push, post-checkout, post-merge, post-rewrite or pre-receive
    hook: String,
    /// Arguments that git gave to the hook
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let mut input = Vec::new();
    if has_input(&flags.hook) && !io::stdin().is_terminal() {
        io::stdin().lock().read_to_end(&mut input).map_err(invalid)?;
    }
    call.ask(HookRequest::Run {
        hook: flags.hook,
        args: flags.args.into_iter().map(Into::into).collect(),
        input: input.into(),
    })
}
