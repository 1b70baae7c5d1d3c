//! `jit session list`: lists the sessions that are not over, or with `--all` every session.

use jit_engine::api::sessions::SessionRequest;
use jit_store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Those that are over too
    #[arg(long)]
    all: bool,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(SessionRequest::List { all: flags.all })
}
