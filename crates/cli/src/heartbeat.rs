//! `jit heartbeat`: beats for a process, once or until it ends.
//!
//! The engine writes each heartbeat, and renews the leases and file locks of the agent in this worktree.
//!
//! What must hold:
//! - The heartbeat stops when the process that it vouches for ends.
//! - A busy store does not stop the heartbeat. It retries after a second.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use jit_core::model::refusal::{Code, Refusal};
use jit_engine::api::Options;
use jit_engine::api::Reply;
use jit_engine::api::claims::{ClaimReply, ClaimRequest, Heartbeat, Vouched};
use jit_os::process::{ProcessRef, wait_for_end};
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, duration, invalid, unexpected};
use crate::render;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Beats for the process that called it, and stops when that process ends. Leases and \
    file locks of the agent in this worktree are renewed when less than half of them is left.\n\nExamples:\n  jit heartbeat --daemon\n  \
    jit heartbeat --once"
)]
pub struct Flags {
    /// Go on in the background
    #[arg(long, conflicts_with = "once")]
    daemon: bool,
    /// Beat once
    #[arg(long)]
    once: bool,
    /// Time between two beats
    #[arg(long, value_name = "D", value_parser = duration)]
    interval: Option<u64>,
    /// The process to beat for instead of the calling one
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

fn failed(e: io::Error) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Io, format!("the heartbeat failed: {e}")))
}

/// Returns the number of the process that called this one.
fn caller() -> u32 {
    rustix::process::getppid()
        .and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())
        .unwrap_or(1)
}

fn vouch(pid: u32, call: &Invocation) -> Outcome<Vouched> {
    match call.send(ClaimRequest::Vouch { pid })?.reply {
        Reply::Claims(ClaimReply::Vouched(vouched)) => Ok(vouched),
        _ => Err(unexpected()),
    }
}

fn beat(process: ProcessRef, interval_secs: Option<u64>, options: &Options) -> Outcome<Heartbeat> {
    let request = ClaimRequest::Heartbeat {
        process,
        interval_secs,
    };
    match jit_engine::handle::ask(options, request)?.reply {
        Reply::Claims(ClaimReply::Heartbeat(beat)) => Ok(beat),
        _ => Err(unexpected()),
    }
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if flags.interval == Some(0) {
        return Err(invalid("the interval must be at least one second"));
    }
    let vouched = vouch(flags.pid.unwrap_or_else(caller), call)?;
    if flags.daemon {
        return start_daemon(&flags, &vouched, call);
    }
    // All beats are of one agent, even if the caller's session ends in between.
    let options = Options {
        agent: Some(vouched.agent_id.to_string()),
        ..call.options()?
    };
    if flags.once {
        // A single beat names the calling process itself, because no heartbeat process stays alive after it.
        let beat = beat(vouched.process, flags.interval, &options)?;
        return Ok(call.done(&beat, &[], |_| text(&beat)));
    }
    let heart = ProcessRef::current().map_err(failed)?;
    loop {
        let secs = match beat(heart, flags.interval, &options) {
            Ok(beat) => beat.interval_secs,
            // The store was busy. Stopping the heartbeat now would let the leases expire that it has to keep.
            Err(refusal) if refusal.code.retryable() => {
                if !call.quiet() {
                    render::say(&format!("warning: {}", render::clean_line(&refusal.message)));
                }
                1
            }
            Err(refusal) => return Err(refusal),
        };
        if wait_for_end(vouched.process, Duration::from_secs(secs)).map_err(failed)? {
            return Ok(
                call.show(&json!({ "stopped": "the process it beat for has ended" }), |_| {
                    String::new()
                }),
            );
        }
    }
}

pub fn text(beat: &Heartbeat) -> String {
    format!("{} is alive\n", render::clean_line(beat.agent_id.as_str()))
}

fn start_daemon(flags: &Flags, vouched: &Vouched, call: &Invocation) -> Outcome<Output> {
    use std::os::unix::process::CommandExt as _;
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args([
        "heartbeat",
        "--agent-id",
        vouched.agent_id.as_str(),
        "--pid",
        &vouched.process.pid.to_string(),
    ]);
    if let Some(secs) = flags.interval {
        command.args(["--interval", &secs.to_string()]);
    }
    // Its own process group, so that Ctrl-C in the terminal does not end it. It ends with the process it vouches for.
    command
        .env_remove("JIT_REQUEST_ID")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    let child = command.spawn().map_err(failed)?;
    let value = json!({
        "agent_id": vouched.agent_id,
        "pid": child.id(),
        "beats_for": vouched.process.pid,
        "file": vouched.file,
    });
    Ok(call.done(&value, &[], |_| {
        format!(
            "heartbeat {} beats for process {}\n",
            child.id(),
            vouched.process.pid
        )
    }))
}
