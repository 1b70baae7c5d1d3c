//! Workflows: starting, showing and cancelling them (G11). The coordinator runs them.

pub mod overlap;
mod planning;
pub mod service;
pub mod snapshot;
pub mod view;

use crate::api::Answer;
use crate::api::workflows::WorkflowRequest;
use crate::context::Context;
use crate::plans::lookup::find_workflow;
use jit_store::Outcome;

/// Carries out a request about workflows.
pub(crate) fn handle(cx: &Context, request: WorkflowRequest) -> Outcome<Answer> {
    match request {
        WorkflowRequest::List { all } => service::workflows(cx, all),
        WorkflowRequest::Status { workflow } => service::workflow_status(cx, workflow.as_deref()),
        WorkflowRequest::Plan(ask) => planning::plan(cx, &ask),
        WorkflowRequest::Start(plan) => service::shown(cx, &service::start_workflow(cx, &plan)?),
        WorkflowRequest::Cancel { workflow } => {
            service::shown(cx, &service::ask_to_cancel(cx, workflow.as_deref())?)
        }
        WorkflowRequest::Reopen { workflow } => {
            let found = find_workflow(cx, workflow.as_deref())?;
            match found.is_over() {
                true => service::shown(cx, &service::reopen_workflow(cx, &found)?),
                false => service::shown(cx, &found),
            }
        }
    }
}
