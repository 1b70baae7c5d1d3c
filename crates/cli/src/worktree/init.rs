//! `jit worktree init`: gives the current worktree its identity, unless it has one.

use jit_engine::api::setup::SetupRequest;
use jit_engine::api::worktrees::NewIdentity;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::render::Style;

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(SetupRequest::InitWorktree)
}

pub fn text(identity: &NewIdentity, style: Style) -> String {
    format!("This worktree is {}\n", style.bold(identity.worktree_id.as_str()))
}
