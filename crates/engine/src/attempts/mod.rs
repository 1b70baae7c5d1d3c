//! Attempts: an attempt is one agent, started once in a unit. This room starts it, records its outcome and hands its
//! work to the next agent.

pub mod accounts;
pub mod dispatch;
pub mod handoff;
pub mod handoff_text;
pub mod outcome;
pub mod retry_settings;

use crate::api::Answer;
use crate::api::attempts::AttemptRequest;
use crate::context::Context;
use jit_store::Outcome;

/// Carries out a request about attempts.
pub(crate) fn handle(cx: &Context, request: AttemptRequest) -> Outcome<Answer> {
    match request {
        AttemptRequest::Dispatch(ask) => dispatch::dispatch_unit(cx, &ask),
        AttemptRequest::Handoff(ask) => handoff::hand_on_unit(cx, &ask),
        AttemptRequest::Stop { unit, reason } => dispatch::stop_unit(cx, unit.as_deref(), &reason),
        AttemptRequest::Unpark { account } => accounts::unpark(cx, account),
    }
}
