//! `jit gate rm`: removes a gate from the requirements of an issue.

use jit_core::decide::command::IssueChange;
use jit_store::Outcome;

use super::IssueAndGate;
use crate::invocation::{Invocation, Output};

pub type Flags = IssueAndGate;

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let change = IssueChange {
        remove_gates: vec![flags.gate],
        ..IssueChange::default()
    };
    call.change(flags.issue, change, flags.strict)
}
