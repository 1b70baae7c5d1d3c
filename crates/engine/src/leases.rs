//! Helpers about leases that several rooms share: the branch of a worktree, leases with their heartbeats, and renewal
//! by heartbeats.
//!
//! What must hold: a heartbeat renews only leases of its own agent in its own worktree. A lease that another agent
//! holds by now is not an error for the heartbeat.

use jit_core::decide::command::{Command, CommandReply as Decided, Target};
use jit_core::decide::file_locks;
use jit_core::log::state;
use jit_core::model::ids::WorktreeId;
use jit_core::model::lease::Lease;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::query::claim_views::LeaseView;
use jit_git::WorktreeEntry;
use jit_store::{Outcome, View};

use crate::api::claims::ActiveLease;
use crate::context::Context;
use crate::heartbeats::Beats;
use crate::refusals::refuse;
use crate::worktree_identity::identity;
use crate::write_path::WriteOptions;

pub(crate) fn branch_of(cx: &Context, id: &WorktreeId) -> Outcome<Option<String>> {
    let unknown = || {
        Box::new(
            Refusal::new(Code::NotFound, format!("no worktree of this repository is {id}"))
                .help("jit worktree list"),
        )
    };
    if cx.actor.worktree_id.as_ref() == Some(id) {
        return Ok(cx.branch.clone());
    }
    let common = cx.place.common_dir.as_deref().ok_or_else(unknown)?;
    let all = crate::worktree_identity::list(common).map_err(|e| refuse(Code::Io, e))?;
    let named = |entry: &WorktreeEntry| {
        identity::peek(&entry.git_dir).is_some_and(|identity| identity.worktree_id == *id)
    };
    all.into_iter()
        .find(named)
        .map(|entry| entry.branch)
        .ok_or_else(unknown)
}

/// Returns the leases with their remaining time and their holder's heartbeat.
pub(crate) fn alive(cx: &Context, leases: &[Lease], view: &View) -> Vec<ActiveLease> {
    let mut beats = Beats::new(&*cx.heartbeats);
    leases
        .iter()
        .map(|lease| {
            let beat = beats.of(&lease.agent_id);
            ActiveLease {
                lease: LeaseView::of(lease),
                remaining_secs: lease.remaining_ms(&view.now) / 1000,
                heartbeat_age_secs: beat.as_ref().map(|beat| beat.age_secs(view.now.wall)),
                heartbeat_alive: beat.as_ref().map(|beat| beat.alive),
            }
        })
        .collect()
}

/// Renews the agent's leases here, on issues and files, once more than half of their time has passed. Called by
/// heartbeats. Returns the number of renewed leases.
pub fn renew_own(cx: &Context) -> Outcome<usize> {
    let view = crate::write_path::view(cx)?;
    let own = state::leases_of(&*view.table, &cx.actor.agent_id).map_err(|e| refuse(Code::Io, e))?;
    let mut renewed = 0;
    let here = || own.iter().filter(|lease| lease.held_by(&cx.actor));
    // Checked first: most heartbeats have nothing to write.
    if here().any(|lease| file_locks::can_be_kept(lease, &view.now)) {
        let done = crate::write_path::transact_as(cx, None, &Command::KeepLocks, WriteOptions::default())?;
        if let Decided::Locks(kept) = &done.reply {
            renewed += kept.len();
        }
    }
    for lease in here().filter(|lease| lease.resource.issue().is_some()) {
        if lease.remaining_ms(&view.now) * 2 > lease.ttl_secs.saturating_mul(1000) {
            continue;
        }
        let command = Command::Renew {
            target: Target::Lease(lease.lease_id.clone()),
            ttl_secs: None,
            if_half_gone: true,
        };
        // Every heartbeat is a request of its own, whatever request id the agent's environment has.
        match crate::write_path::transact_as(cx, None, &command, WriteOptions::default()) {
            Ok(_) => renewed += 1,
            // Another agent holds it now: the agent will find out, the heartbeat need not fail.
            Err(refusal) if refusal.code == Code::NotHolder || refusal.code == Code::NotFound => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(renewed)
}
