//! `jit session list`: lists the sessions that are not over, or with `--all` every session.

use jit_engine::api::sessions::SessionRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Those that are over too
    #[arg(long)]
    all: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(SessionRequest::List { all: flags.all })
}
