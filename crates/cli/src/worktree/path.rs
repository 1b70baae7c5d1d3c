//! `jit worktree path`: prints the path of a unit's worktree.

use jit_engine::api::Reply;
use jit_engine::api::units::UnitReply;
use jit_engine::api::units::UnitRequest;
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cd \"$(jit worktree path DATE-1)\"")]
pub struct Flags {
    /// By its name, issue or branch
    unit: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let answer = jit_engine::handle::handle(
        &call.open(Need::Read)?,
        UnitRequest::Status {
            unit: Some(flags.unit),
            all: false,
        },
    )?;
    let path = match answer.reply {
        Reply::Units(UnitReply::Unit(view)) => view.unit.worktree_path,
        _ => String::new(),
    };
    let value = json!({ "worktree_path": path });
    Ok(call.show(&value, |_| format!("{path}\n")).warn(answer.warnings))
}
