//! `jit heartbeat`: writes heartbeats, and renews the leases and file locks of the agent in this worktree.
//!
//! What must hold:
//! - The heartbeat stops when the process that it vouches for ends.
//! - The interval is at most a third of the shortest lease, and at least one second.
//! - A busy store does not stop the heartbeat. It retries after a second.

use std::process::{Command, Stdio};
use std::time::Duration;

use jit_core::log::state;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Wall;
use jit_engine::context::Context;
use jit_engine::heartbeats as heartbeat;
use jit_engine::heartbeats::Heartbeat;
use jit_engine::worktree_identity::identity::Need;
use jit_os::clock::wall_ms;
use jit_os::process::{ProcessRef, wait_for_end};
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, duration, invalid};
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

fn io(e: std::io::Error) -> Box<Refusal> {
    Box::new(Refusal::new(Code::Io, format!("the heartbeat failed: {e}")))
}

fn vouched_for(pid: Option<u32>) -> Outcome<ProcessRef> {
    let pid = match pid {
        Some(pid) => pid,
        None => rustix::process::getppid()
            .and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())
            .unwrap_or(1),
    };
    ProcessRef::of(pid).map_err(io)?.ok_or_else(|| {
        Box::new(Refusal::new(
            Code::NotFound,
            format!("there is no process {pid} to beat for"),
        ))
    })
}

/// Returns the interval: at most a third of the shortest lease, so that two beats may be late before a lease expires.
fn interval(cx: &Context, asked: Option<u64>) -> Outcome<u64> {
    let view = jit_engine::write_path::view(cx)?;
    let own = state::leases_of(&*view.table, &cx.actor.agent_id).map_err(invalid)?;
    let shortest = own
        .iter()
        .filter(|lease| lease.held_by(&cx.actor))
        // A file lock that cannot be extended needs no heartbeat.
        .filter(|lease| {
            lease
                .resource
                .file()
                .is_none_or(|file| file.latest > lease.deadline)
        })
        .map(|lease| lease.ttl_secs)
        .min();
    let wanted = asked.unwrap_or(cx.config.heartbeat_interval_secs());
    Ok(wanted.min(shortest.unwrap_or(u64::MAX) / 3).max(1))
}

fn beat(cx: &Context, heart: ProcessRef, interval_secs: u64) -> Outcome<Heartbeat> {
    let beat = Heartbeat {
        agent_id: cx.actor.agent_id.clone(),
        worktree_id: cx.actor.worktree_id.clone(),
        branch: cx.branch.clone(),
        pid: heart.pid,
        start_time: heart.start,
        last_beat: Wall::from_ms(wall_ms()),
        interval_secs,
    };
    heartbeat::write(&cx.place.control_dir, &beat).map_err(io)?;
    jit_engine::leases::renew_own(cx)?;
    Ok(beat)
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if flags.interval == Some(0) {
        return Err(invalid("the interval must be at least one second"));
    }
    let cx = call.open(Need::Write)?;
    let vouched = vouched_for(flags.pid)?;
    if flags.once {
        // A single beat names the calling process itself, because no heartbeat process stays alive after it.
        let beat = beat(&cx, vouched, interval(&cx, flags.interval)?)?;
        return Ok(call.done(&beat, &[], |_| {
            format!("{} is alive\n", render::clean_line(beat.agent_id.as_str()))
        }));
    }
    if flags.daemon {
        return start_daemon(&flags, &cx, vouched, call);
    }
    let heart = ProcessRef::current().map_err(io)?;
    loop {
        let secs = match interval(&cx, flags.interval).and_then(|secs| beat(&cx, heart, secs).map(|_| secs)) {
            Ok(secs) => secs,
            // The store was busy. Stopping the heartbeat now would let the leases expire that it has to keep.
            Err(refusal) if refusal.code.retryable() => {
                if !call.quiet() {
                    render::say(&format!("warning: {}", render::clean_line(&refusal.message)));
                }
                1
            }
            Err(refusal) => return Err(refusal),
        };
        if wait_for_end(vouched, Duration::from_secs(secs)).map_err(io)? {
            return Ok(
                call.show(&json!({ "stopped": "the process it beat for has ended" }), |_| {
                    String::new()
                }),
            );
        }
    }
}

fn start_daemon(flags: &Flags, cx: &Context, vouched: ProcessRef, call: &Invocation) -> Outcome<Output> {
    use std::os::unix::process::CommandExt as _;
    let program = std::env::current_exe().map_err(io)?;
    let mut command = Command::new(program);
    command.args([
        "heartbeat",
        "--agent-id",
        cx.actor.agent_id.as_str(),
        "--pid",
        &vouched.pid.to_string(),
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
    let child = command.spawn().map_err(io)?;
    let value = json!({
        "agent_id": cx.actor.agent_id,
        "pid": child.id(),
        "beats_for": vouched.pid,
        "file": heartbeat::path(&cx.place.control_dir, &cx.actor.agent_id).to_string_lossy(),
    });
    Ok(call.done(&value, &[], |_| {
        format!("heartbeat {} beats for process {}\n", child.id(), vouched.pid)
    }))
}
