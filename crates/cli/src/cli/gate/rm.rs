use jit_core::command::Change;
use jit_store::Outcome;

use super::IssueAndGate;
use crate::cli::{Cx, Output};

pub type Flags = IssueAndGate;

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let change = Change {
        remove_gates: vec![flags.gate],
        ..Change::default()
    };
    cx.change(flags.issue, change, flags.strict)
}
