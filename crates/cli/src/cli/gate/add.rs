//! `jit gate add`: requires that an issue pass a gate.

use jit_engine::api::Request;
use jit_store::Outcome;

use super::IssueAndGate;
use crate::cli::{Cx, Output};

pub type Flags = IssueAndGate;

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(Request::RequireGate {
        issue: flags.issue,
        gate: flags.gate,
        strict: flags.strict,
    })
}
