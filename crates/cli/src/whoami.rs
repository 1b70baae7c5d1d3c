//! `jit whoami`: shows the agent id that jit uses for the caller, and its source.
//!
//! It does not open the store.

use jit_engine::api::setup::{Caller, SetupRequest};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::render::{Style, clean_line};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "In this order: --agent-id, JIT_AGENT_ID, the session of an agent above this process, the agent \
    program that this process runs inside of (agent:<program>), agent.toml in your configuration folder, else \
    human:<user>. Inside an agent program every id has an agent's rights."
)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(SetupRequest::Whoami)
}

pub fn text(caller: &Caller, style: Style) -> String {
    let mut text = format!(
        "{} (from {})\n",
        style.bold(&clean_line(caller.agent_id.as_str())),
        clean_line(&caller.source)
    );
    if let (Some(agent), Some(mark)) = (&caller.detected_agent, &caller.detected_by) {
        let place = caller
            .detected_in
            .map_or(String::new(), |pid| format!(" in process {pid}"));
        text.push_str(&format!("  inside {agent} (shown by {mark}{place})\n"));
    }
    if let Some(id) = &caller.worktree_id {
        let branch = caller.branch.as_deref().map_or("no branch".into(), clean_line);
        text.push_str(&format!("  worktree {id}, {branch}\n"));
    }
    let root = caller.root.as_deref().unwrap_or(&caller.control_dir);
    text.push_str(&format!("  in {}\n", clean_line(root)));
    text
}
