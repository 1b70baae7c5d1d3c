use jit_core::command::Change;
use jit_engine::store::Outcome;

use super::{IssueAndGate, change};
use crate::cli::{Cx, Output};

pub type Flags = IssueAndGate;

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let add = Change {
        add_gates: vec![flags.gate],
        ..Change::default()
    };
    change(flags.issue, flags.strict, add, cx)
}
