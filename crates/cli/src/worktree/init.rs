//! `jit worktree init`: gives the current worktree its identity, unless it has one.

use jit_engine::context::Surroundings;
use jit_engine::worktree_identity::identity;
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, invalid};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let Surroundings { place, .. } = Surroundings::find(&call.options()?)?;
    let (found, notices) =
        identity::load_or_create(&place, jiff::Timestamp::now(), Need::Write).map_err(invalid)?;
    identity::ensure_view(&place, &found).map_err(invalid)?;
    let value = json!({
        "worktree_id": found.worktree_id,
        "root": found.root.to_string_lossy(),
        "branch": found.branch,
        "created_at": found.created_at.to_string(),
    });
    let shown = call.done(&value, &[found.worktree_id.as_str()], |style| {
        format!("This worktree is {}\n", style.bold(found.worktree_id.as_str()))
    });
    Ok(shown.warn(notices.iter().map(ToString::to_string).collect()))
}
