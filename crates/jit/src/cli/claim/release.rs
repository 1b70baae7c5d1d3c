use jit_core::command::Target;
use jit_engine::request::Request;
use jit_engine::store::Outcome;
use jit_engine::worktree::identity::Need;

use super::target;
use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The lease, or its issue
    #[arg(value_parser = target)]
    lease: Target,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(Need::Write, Request::Release { target: flags.lease })
}
