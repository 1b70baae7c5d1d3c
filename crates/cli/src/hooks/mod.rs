//! `jit hooks`: installs, lists, removes and runs the hooks with which git and agent programs ask jit before they act.

mod agent;
mod agent_settings;
mod install;
mod list;
mod run;
pub mod text;
mod uninstall;

use jit_engine::api::Reply;
use jit_engine::api::hooks::HookRequest;
use jit_store::Outcome;

use crate::grammar::{Shown, Verb, verb};
use crate::invocation::{Invocation, Output, unexpected};

pub const VERBS: &[Verb] = &[
    verb!(
        "install",
        "Let git, or an agent's program, ask jit before it acts",
        install
    ),
    verb!("uninstall", "Take the hooks out, to the byte", uninstall),
    verb!("list", "How each hook stands", list),
    verb!("run", "Called by git", run, Shown::WithAll),
    verb!("agent", "Called by an agent's program", agent, Shown::WithAll),
];

/// Sends a change of the git hooks, and shows its steps.
fn change(request: HookRequest, call: &Invocation) -> Outcome<Output> {
    let answer = call.send(request)?;
    let Reply::Hooks(reply) = &answer.reply else {
        return Err(unexpected());
    };
    let shown = call.done(&answer.reply.value(), &[], |style| text::text(reply, style));
    Ok(shown.warn(answer.warnings))
}
