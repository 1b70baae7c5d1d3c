//! `jit worktree env`: prints the environment of a unit's commands as shell `export` lines.

use jit_engine::api::Reply;
use jit_engine::api::units::{UnitEnv, UnitReply, UnitRequest};
use jit_os::shell::shell_word;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, unexpected};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  eval \"$(jit worktree env)\"\n  jit worktree env DATE-1 --json")]
pub struct Flags {
    /// By its name, issue, branch or path; the one of this worktree when not given
    unit: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let answer = call.send(UnitRequest::Env { unit: flags.unit })?;
    let Reply::Units(UnitReply::Env(UnitEnv { env })) = &answer.reply else {
        return Err(unexpected());
    };
    let lines = env
        .iter()
        .map(|(name, value)| format!("export {name}={}\n", shell_word(value)));
    let shown = call.show(&answer.reply.value(), |_| lines.collect());
    Ok(shown.warn(answer.warnings))
}
