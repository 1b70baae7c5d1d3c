//! `jit hooks uninstall`: removes the git hooks, or the hook of an agent's program.
//!
//! Earlier hooks get their names back. A hook that was edited stays and is reported as kept.

use jit_engine::api::hooks::HookRequest;
use jit_store::Outcome;

use super::agent_settings::{self, AgentFlags};
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Hooks that were there before get their names back, with content, mode and link as they were. A hook \
    of jit's that somebody edited stays, and is named."
)]
pub struct Flags {
    #[command(flatten)]
    agent: AgentFlags,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if let Some(program) = flags.agent.program() {
        return agent_settings::change(&flags.agent, program, flags.dry_run, false, call);
    }
    let request = HookRequest::Uninstall {
        dry_run: flags.dry_run,
    };
    super::change(request, call)
}
