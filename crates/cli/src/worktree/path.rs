//! `jit worktree path`: prints the path of a unit's worktree.

use jit_engine::api::Reply;
use jit_engine::api::units::{UnitReply, UnitRequest};
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, unexpected};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cd \"$(jit worktree path DATE-1)\"")]
pub struct Flags {
    /// By its name, issue or branch
    unit: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let answer = call.send(UnitRequest::Status {
        unit: Some(flags.unit),
        all: false,
    })?;
    let Reply::Units(UnitReply::Unit(view)) = answer.reply else {
        return Err(unexpected());
    };
    let path = view.unit.worktree_path;
    let value = json!({ "worktree_path": path });
    Ok(call.show(&value, |_| format!("{path}\n")).warn(answer.warnings))
}
