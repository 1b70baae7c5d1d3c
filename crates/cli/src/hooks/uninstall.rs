//! `jit hooks uninstall`: removes the git hooks, or the hook of an agent's program.
//!
//! Earlier hooks get their names back. A hook that was edited stays and is reported as kept.

use jit_engine::context::Surroundings;
use jit_engine::hooks;
use jit_store::Outcome;

use super::agent_settings::{self, AgentFlags};
use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

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
    let found = Surroundings::find(&call.options()?)?;
    let done = hooks::git::uninstall(&found.place, flags.dry_run)?;
    Ok(call.show(&done, |style| {
        let mut text = String::new();
        if call.quiet() {
            return text;
        }
        for step in &done.steps {
            text.push_str(&format!("  {}\n", clean_line(step)));
        }
        for left in &done.kept {
            let (path, why) = (clean_line(&left.path), clean_line(&left.why));
            text.push_str(&format!("Kept: {path} ({why})\n"));
        }
        text.push_str(&match (done.dry_run, done.steps.is_empty()) {
            (_, true) => "There are no hooks of jit's here.\n".to_owned(),
            (true, false) => "That is what would be done.\n".to_owned(),
            (false, false) => format!("{} the hooks are as they were before\n", style.good("✓")),
        });
        text
    }))
}
