//! Heartbeats of an agent: each one is written, and renews the leases and file locks of the agent in this worktree.
//!
//! What must hold: the interval is at most a third of the shortest lease, and at least one second.

use std::io;

use jit_core::log::state;
use jit_core::model::refusal::{Code, Refusal};
use jit_os::process::ProcessRef;
use jit_store::Outcome;

use crate::api::Answer;
use crate::api::claims::{ClaimReply, Heartbeat, Vouched};
use crate::context::{Context, plain};
use crate::heartbeats;
use crate::refusals::refuse;

fn failed(e: io::Error) -> Box<Refusal> {
    refuse(Code::Io, format!("the heartbeat failed: {e}"))
}

/// Finds the process to beat for, and the agent.
pub(super) fn vouch(cx: &Context, pid: u32) -> Outcome<Answer> {
    let process = ProcessRef::of(pid)
        .map_err(failed)?
        .ok_or_else(|| refuse(Code::NotFound, format!("there is no process {pid} to beat for")))?;
    let agent_id = cx.actor.agent_id.clone();
    let file = heartbeats::path(&cx.place.control_dir, &agent_id);
    let vouched = Vouched {
        agent_id,
        file: file.to_string_lossy().into_owned(),
        process,
    };
    Ok(plain(cx, ClaimReply::Vouched(vouched).into()))
}

/// Writes one heartbeat, and renews the agent's leases and file locks here.
pub(super) fn beat(cx: &Context, process: ProcessRef, asked: Option<u64>) -> Outcome<Answer> {
    let beat = Heartbeat {
        agent_id: cx.actor.agent_id.clone(),
        worktree_id: cx.actor.worktree_id.clone(),
        branch: cx.branch.clone(),
        pid: process.pid,
        start_time: process.start,
        last_beat: cx.clock.wall(),
        interval_secs: interval(cx, asked)?,
    };
    cx.heartbeats.beat(&beat).map_err(failed)?;
    crate::leases::renew_own(cx)?;
    Ok(plain(cx, ClaimReply::Heartbeat(beat).into()))
}

/// Returns the interval: at most a third of the shortest lease, so that two beats may be late before a lease expires.
fn interval(cx: &Context, asked: Option<u64>) -> Outcome<u64> {
    let view = crate::write_path::view(cx)?;
    let own = state::leases_of(&*view.table, &cx.actor.agent_id).map_err(|e| refuse(Code::Invalid, e))?;
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
