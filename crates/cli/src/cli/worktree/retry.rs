//! `jit worktree retry`: prepares another attempt at a unit that failed. A missing worktree is created again.

use jit_engine::api::units::UnitRequest;
use jit_store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// By its name, issue, branch or path
    unit: Option<String>,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(UnitRequest::Retry { unit: flags.unit })
}
