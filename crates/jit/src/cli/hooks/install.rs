use jit_engine::store::Outcome;

use super::agent_settings::{self, AgentFlags};
use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The change is shown before it is written. Without --user the settings are the project's: commit \
    them, and everybody who works here has the hook.\n\nExamples:\n  jit hooks install --agent claude\n  \
    jit hooks install --agent codex --user --yes"
)]
pub struct Flags {
    #[command(flatten)]
    agent: AgentFlags,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    agent_settings::change(&flags.agent, true, cx)
}
