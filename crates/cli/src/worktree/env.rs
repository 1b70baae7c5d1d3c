//! `jit worktree env`: prints the environment of a unit's commands as shell `export` lines.

use jit_engine::api::Reply;
use jit_engine::api::units::UnitEnv;
use jit_engine::api::units::UnitReply;
use jit_engine::api::units::UnitRequest;
use jit_engine::worktree_identity::identity::Need;
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  eval \"$(jit worktree env)\"\n  jit worktree env DATE-1 --json")]
pub struct Flags {
    /// By its name, issue, branch or path; the one of this worktree when not given
    unit: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let answer = jit_engine::handle::handle(&call.open(Need::Read)?, UnitRequest::Env { unit: flags.unit })?;
    let lines = match &answer.reply {
        Reply::Units(UnitReply::Env(UnitEnv { env })) => env
            .iter()
            .map(|(name, value)| format!("export {name}={}\n", shell_word(value)))
            .collect(),
        _ => String::new(),
    };
    Ok(call.show(&answer.reply.value(), |_| lines).warn(answer.warnings))
}
