//! Hooks: git and agent programs call jit here before they act.

pub mod agent;
pub mod git;

use jit_core::model::refusal::Code;
use jit_store::Outcome;

use crate::api::Answer;
use crate::api::hooks::{HookReply, HookRequest};
use crate::context::{Options, Surroundings};
use crate::worktree_identity::identity::Need;

/// Carries out a request about hooks.
pub(crate) fn handle(options: &Options, request: HookRequest) -> Outcome<Answer> {
    match request {
        HookRequest::Verify { range } => verify(options, &range),
        HookRequest::Permission(ask) => agent::permission::answer(options, &ask),
    }
}

fn verify(options: &Options, range: &str) -> Outcome<Answer> {
    let found = Surroundings::find(options)?;
    let place = found.place.clone();
    let (verified, warnings) = match crate::opening::within(found, options, Need::Read) {
        Ok(cx) => (git::verify::range(&place, Some(&cx), range)?, cx.warnings),
        // Without jit there is no log, so every commit is reported as unknown.
        Err(refusal) if refusal.code == Code::NotInitialized => {
            (git::verify::range(&place, None, range)?, Vec::new())
        }
        Err(refusal) => return Err(refusal),
    };
    Ok(Answer {
        reply: HookReply::Verified(verified).into(),
        warnings,
    })
}
