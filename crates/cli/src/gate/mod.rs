//! `jit gate`: defines, requires, runs and judges the gates that an issue must pass before it is done.
//!
//! This file has the table of verbs, the flags that several verbs share, and the text of gate replies.

mod add;
mod define;
mod fail;
mod list;
mod pass;
pub mod presets;
mod rm;
mod run;
pub mod text;
mod undefine;

use jit_engine::api::gates::GateRequest;

use jit_core::model::ids::IssuePrefix;
use jit_store::Outcome;

use crate::grammar::{Verb, verb};
use crate::invocation::{Invocation, Output};

pub const VERBS: &[Verb] = &[
    verb!("define", "Say what a gate is, or take a preset", define),
    verb!("undefine", "There is no such gate any more", undefine),
    verb!("presets", "Gates that fit what is common", presets),
    verb!("list", "All gates, or how those of an issue stand", list),
    verb!("add", "An issue must pass it", add),
    verb!("rm", "It need not any more", rm),
    verb!("run", "Run the commands and keep what came of them", run),
    verb!("pass", "You looked, and it is good", pass),
    verb!("fail", "You looked, and it is not", fail),
];

/// An issue and a gate, for the verbs that change what an issue must pass.
#[derive(Debug, clap::Args)]
pub struct IssueAndGate {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// The gate's name
    gate: String,
    /// Only if you hold the issue
    #[arg(long)]
    strict: bool,
}

/// Record the verdict on a manual gate.
#[derive(Debug, clap::Args)]
pub struct Verdict {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// The gate's name
    gate: String,
    /// Note on the verdict
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    note: Option<String>,
}

fn judge(verdict: Verdict, passed: bool, call: &Invocation) -> Outcome<Output> {
    call.ask(GateRequest::Judge {
        issue: verdict.issue,
        gate: verdict.gate,
        passed,
        note: verdict.note,
    })
}
