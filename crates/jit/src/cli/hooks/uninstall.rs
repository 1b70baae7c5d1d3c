use jit_engine::store::Outcome;

use super::agent_settings::{self, AgentFlags};
use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Everything else in the settings stays as it is.")]
pub struct Flags {
    #[command(flatten)]
    agent: AgentFlags,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    agent_settings::change(&flags.agent, false, cx)
}
