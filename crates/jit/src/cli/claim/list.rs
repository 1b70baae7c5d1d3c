use jit_engine::request::Request;
use jit_engine::store::Outcome;
use jit_engine::worktree::identity::Need;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(Need::Read, Request::Claims { issue: None })
}
