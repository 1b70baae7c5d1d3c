//! `jit gate rm`: removes a gate from the requirements of an issue.

use jit_core::decide::command::IssueChange;
use jit_store::Outcome;

use super::IssueAndGate;
use crate::cli::{Cx, Output};

pub type Flags = IssueAndGate;

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let change = IssueChange {
        remove_gates: vec![flags.gate],
        ..IssueChange::default()
    };
    cx.change(flags.issue, change, flags.strict)
}
