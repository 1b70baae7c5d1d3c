//! Workflows: starting, showing and cancelling them (G11). The coordinator runs them.

pub mod overlap;
mod planning;
pub mod service;
pub mod snapshot;
pub mod view;

use crate::api::Answer;
use crate::api::workflows::{WorkflowReply, WorkflowRequest};
use crate::context::{Context, plain};
use crate::plans::lookup::find_workflow;
use jit_core::model::workflow::Workflow;
use jit_store::Outcome;

/// Carries out a request about workflows.
pub(crate) fn handle(cx: &Context, request: WorkflowRequest) -> Outcome<Answer> {
    match request {
        WorkflowRequest::List { all } => service::workflows(cx, all),
        WorkflowRequest::Status { workflow } => service::workflow_status(cx, workflow.as_deref()),
        WorkflowRequest::Plan(ask) => planning::plan(cx, &ask),
        WorkflowRequest::Start(plan) => Ok(changed(cx, service::start_workflow(cx, &plan)?)),
        WorkflowRequest::Cancel { workflow } => {
            Ok(changed(cx, service::ask_to_cancel(cx, workflow.as_deref())?))
        }
        WorkflowRequest::Reopen { workflow } => {
            let found = find_workflow(cx, workflow.as_deref())?;
            Ok(changed(
                cx,
                match found.is_over() {
                    true => service::reopen_workflow(cx, &found)?,
                    false => found,
                },
            ))
        }
    }
}

fn changed(cx: &Context, workflow: Workflow) -> Answer {
    plain(cx, WorkflowReply::Changed(Box::new(workflow)).into())
}
