use jit_engine::store::Outcome;
use jit_engine::worktree::identity::Need;

use super::follow;
use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Agents that run go on as they were: nothing is started twice.")]
pub struct Flags {
    /// The one that runs, if left out
    workflow: Option<String>,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let app = cx.app(Need::Write)?;
    let workflow = app.find_workflow(flags.workflow.as_deref())?;
    follow::lead(&workflow.id, cx, &app)
}
