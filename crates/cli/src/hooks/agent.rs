//! `jit hooks agent`: an agent program calls it for a hook.
//!
//! It passes the document on standard input to the engine and prints the answer in the program's own format.

use std::io::Read as _;

use jit_agents::hooks::input::LARGEST;
use jit_agents::hooks::{HookEvent, Program};
use jit_engine::api::Reply;
use jit_engine::api::hooks::{AgentAnswer, HookReply, HookRequest};
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, unexpected};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads the JSON of that event from standard input and prints what the program is to do about it. Exit \
    code 0 in any case: to some programs another one means no."
)]
pub struct Flags {
    /// claude, codex or gemini
    program: String,
    /// PreToolUse, PostToolUse, SessionStart, UserPromptSubmit, Stop, SessionEnd, or what the program calls them
    event: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let program: Option<Program> = flags.program.parse().ok();
    let known = program.and_then(|program| Some((program, HookEvent::named(&flags.event, program)?)));
    let Some((program, event)) = known else {
        // The settings come from another version of jit. That is no reason to stop an agent.
        let warning = format!("jit has no hook for {} {}", flags.program, flags.event);
        return Ok(call.show(&json!({}), |_| String::new()).warn(vec![warning]));
    };
    let mut input = Vec::new();
    // The engine answers a document that is too large, or cannot be read.
    let _ = std::io::stdin().lock().take(LARGEST + 1).read_to_end(&mut input);
    let answer = call.send(HookRequest::AgentEvent {
        program,
        event,
        input: input.into(),
    })?;
    let Reply::Hooks(HookReply::Answer(AgentAnswer { text })) = answer.reply else {
        return Err(unexpected());
    };
    Ok(Output {
        text,
        warnings: answer.warnings,
        exit: 0,
    })
}
