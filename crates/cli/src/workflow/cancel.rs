//! `jit workflow cancel`: ends a workflow and stops its agents.
//!
//! It waits until the workflow is over. Worktrees, branches and uncommitted work stay unchanged.

use jit_engine::api::workflows::WorkflowRequest;
use std::time::Duration;

use jit_core::model::refusal::Code;
use jit_engine::api::Reply;
use jit_engine::worktree_identity::identity::Need;
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
    let cx = call.open(Need::Write)?;
    let mut workflow = jit_engine::workflows::service::ask_to_cancel(&cx, flags.workflow.as_deref())?;
    // The coordinator ends the workflow. If it has none, this process becomes its coordinator.
    while !workflow.is_over() {
        match follow::lead(&workflow.id, call, &cx) {
            Ok(output) => return Ok(output.exit(0)),
            Err(refusal) if refusal.code == Code::Held => std::thread::sleep(Duration::from_millis(100)),
            Err(refusal) if refusal.code == Code::BadTransition => {}
            Err(refusal) => return Err(refusal),
        }
        workflow = jit_engine::plans::lookup::find_workflow(&cx, Some(workflow.id.as_str()))?;
    }
    let status = WorkflowRequest::Status {
        workflow: Some(workflow.id.to_string()),
    };
    let answer = jit_engine::handle::handle(&cx, status)?;
    let reply: Reply = answer.reply;
    Ok(call
        .show(&reply.value(), |style| crate::reply_text::text(&reply, "", style))
        .warn(answer.warnings))
}
