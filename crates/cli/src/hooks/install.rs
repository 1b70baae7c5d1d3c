//! `jit hooks install`: installs the git hooks, or registers the hook of an agent's program.
//!
//! Without `--server`, the engine refuses a bare repository and a repository without jit.

use jit_engine::api::hooks::HookRequest;
use jit_store::Outcome;

use super::agent_settings::{self, AgentFlags};
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "One installation serves every worktree. A hook that is there already is kept beside ours as \
    <hook>.before-jit and called first. Where core.hooksPath is relative (husky, .githooks) nothing is written into that \
    folder: core.hooksPath is pointed at jit's own hooks, which call those first. `jit hooks uninstall` puts everything \
    back.\n\nWith --agent it is the program's own settings that are changed, shown before they are written; without --user \
    the project's: commit them, and everybody who works here has the hook.\n\nExamples:\n  jit hooks install --dry-run\n  \
    jit hooks install\n  jit hooks install --agent claude\n  jit hooks install --server"
)]
pub struct Flags {
    #[command(flatten)]
    agent: AgentFlags,
    /// For a bare repository that is pushed to: pre-receive
    #[arg(long, conflicts_with = "agent")]
    server: bool,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if let Some(program) = flags.agent.program() {
        return agent_settings::change(&flags.agent, program, flags.dry_run, true, call);
    }
    let request = HookRequest::Install {
        server: flags.server,
        dry_run: flags.dry_run,
    };
    super::change(request, call)
}
