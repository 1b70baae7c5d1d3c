//! Workflows: starting, showing and cancelling them (G11). The coordinator runs them.

pub mod overlap;
pub mod service;
pub mod snapshot;
pub mod view;

use crate::api::Answer;
use crate::api::workflows::WorkflowRequest;
use crate::context::Context;
use jit_store::Outcome;

/// Carries out a request about workflows.
pub(crate) fn handle(cx: &Context, request: WorkflowRequest) -> Outcome<Answer> {
    match request {
        WorkflowRequest::List { all } => service::workflows(cx, all),
        WorkflowRequest::Status { workflow } => service::workflow_status(cx, workflow.as_deref()),
    }
}
