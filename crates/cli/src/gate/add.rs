//! `jit gate add`: requires that an issue pass a gate.

use jit_engine::api::issues::IssueRequest;
use jit_store::Outcome;

use super::IssueAndGate;
use crate::invocation::{Invocation, Output};

pub type Flags = IssueAndGate;

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(IssueRequest::RequireGate {
        issue: flags.issue,
        gate: flags.gate,
        strict: flags.strict,
    })
}
