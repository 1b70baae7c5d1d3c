use jit_agents::hooks::{HookEvent, Program};
use jit_engine::hooks::agent;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output};

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
    let said = agent::run(&call.options()?, program, event, std::io::stdin().lock());
    Ok(Output {
        text: said,
        warnings: Vec::new(),
        exit: 0,
    })
}
