//! `jit pivot`: records that the scope of an issue is being revised.

mod complete;
mod start;

use jit_core::decide::command::{IssueChange, Pivot};
use jit_core::model::ids::IssuePrefix;
use jit_store::Outcome;

use crate::grammar::{Verb, verb};
use crate::invocation::{Invocation, Output};

pub const VERBS: &[Verb] = &[
    verb!("start", "Its scope is being revised", start),
    verb!("complete", "Its scope is settled again", complete),
];

fn ask(issue: IssuePrefix, pivot: Pivot, call: &Invocation) -> Outcome<Output> {
    let change = IssueChange {
        pivot: Some(pivot),
        ..IssueChange::default()
    };
    call.change(issue, change, false)
}
