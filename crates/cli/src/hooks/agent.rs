//! `jit hooks agent`: an agent program calls it for a hook.
//!
//! It passes the document on standard input to the engine and prints the answer in the program's own format.

use std::io::Read;
use std::sync::mpsc;
use std::time::Duration;

use jit_agents::hooks::{HookEvent, Program, input};
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
    let answer = call.send(HookRequest::AgentEvent {
        program,
        event,
        input: document(std::io::stdin(), input::READING).into(),
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

/// Reads the document; empty if it cannot be read, or is not complete in time. The engine answers that too.
fn document(from: impl Read + Send + 'static, limit: Duration) -> Vec<u8> {
    let (send, receive) = mpsc::channel();
    let reader = std::thread::Builder::new().spawn(move || {
        // After the limit the receiver is gone.
        let _ = send.send(input::read(from).unwrap_or_default());
    });
    reader
        .ok()
        .and_then(|_| receive.recv_timeout(limit).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l5_a_document_that_never_ends_is_not_waited_for() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut writer, b"{\"tool_name\":").expect("written");
        assert_eq!(document(reader, Duration::ZERO), b"");
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut writer, b"{}").expect("written");
        assert_eq!(document(reader, Duration::from_secs(600)), b"{}");
        drop(writer);
    }
}
