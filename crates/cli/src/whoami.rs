//! `jit whoami`: shows the agent id that jit uses for the caller, and its source.
//!
//! It does not open the store.

use jit_engine::context::Surroundings;
use jit_engine::worktree_identity::identity;
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, invalid};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "In this order: --agent-id, JIT_AGENT_ID, agent.toml in your configuration folder (not inside \
    an agent's own process), else human:<user>."
)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let Surroundings { place, whoami, .. } = Surroundings::find(&call.options()?)?;
    let (worktree, notices) = if place.worktree_root.is_some() {
        let (found, notices) =
            identity::load_or_create(&place, jiff::Timestamp::now(), Need::Read).map_err(invalid)?;
        (Some(found.worktree_id), notices)
    } else {
        (None, Vec::new())
    };
    let branch = place.branch().map_err(invalid)?;
    let value = json!({
        "agent_id": whoami.agent_id,
        "kind": whoami.agent_id.kind(),
        "source": whoami.source.to_string(),
        "detected_agent": whoami.detected_agent.map(|agent| agent.name),
        "worktree_id": worktree,
        "branch": branch,
    });
    let shown = call.show(&value, |style| {
        let mut text = format!(
            "{} (from {})\n",
            style.bold(&clean_line(whoami.agent_id.as_str())),
            clean_line(&whoami.source.to_string())
        );
        if let Some(agent) = whoami.detected_agent {
            text.push_str(&format!("  inside {} ({} is set)\n", agent.name, agent.variable));
        }
        if let Some(id) = &worktree {
            text.push_str(&format!(
                "  worktree {id}, {}\n",
                branch.as_deref().map_or("no branch".into(), clean_line)
            ));
        }
        text
    });
    let mut warnings = whoami.warnings;
    warnings.extend(notices.iter().map(ToString::to_string));
    Ok(shown.warn(warnings))
}
