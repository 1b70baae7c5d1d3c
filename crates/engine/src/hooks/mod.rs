//! Hooks: git and agent programs call jit here before they act.

pub mod agent;
pub mod git;

use crate::api::Answer;
use crate::api::Reply;
use crate::api::hooks::{HookReply, HookRequest};
use crate::context::Context;
use jit_store::Outcome;

/// Carries out a request about hooks.
pub(crate) fn handle(cx: &Context, request: HookRequest) -> Outcome<Answer> {
    match request {
        HookRequest::Verify { range } => {
            let verified = git::verify::range(&cx.place, Some(cx), &range)?;
            Ok(crate::context::plain(
                cx,
                Reply::Hooks(HookReply::Verified(verified)),
            ))
        }
    }
}
