//! `jit workflow cancel`: ends a workflow and stops its agents.
//!
//! It waits until the workflow is over. Worktrees, branches and uncommitted work stay unchanged.

use std::time::Duration;

use jit_core::model::refusal::Code;
use jit_engine::api::workflows::WorkflowRequest;
use jit_store::Outcome;

use super::follow;
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Its agents are stopped and nothing new begins. Worktrees, branches and what is not committed stay as \
    they are."
)]
pub struct Flags {
    /// The one that runs, if left out
    workflow: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let cancel = WorkflowRequest::Cancel {
        workflow: flags.workflow,
    };
    let mut workflow = follow::sent(cancel, call)?;
    // The coordinator ends the workflow. If it has none, this process becomes its coordinator.
    while !workflow.is_over() {
        match follow::lead(&workflow.id, call) {
            Ok(output) => return Ok(output.exit(0)),
            Err(refusal) if refusal.code == Code::Held => std::thread::sleep(Duration::from_millis(100)),
            Err(refusal) if refusal.code == Code::BadTransition => {}
            Err(refusal) => return Err(refusal),
        }
        workflow = follow::sent(follow::status(&workflow.id), call)?;
    }
    let answer = call.send(follow::status(&workflow.id))?;
    Ok(call
        .show(&answer.reply.value(), |style| call.text(&answer.reply, style))
        .warn(answer.warnings))
}
