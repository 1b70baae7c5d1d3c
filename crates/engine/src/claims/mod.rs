//! Claims: taking, waiting, looking, and keeping them alive.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use jit_core::command::{Command, Reply as Decided, Target};
use jit_core::event::Stamped;
use jit_core::ids::{AgentId, IssueId, IssuePrefix, WorktreeId};
use jit_core::lease::{Lease, Resource};
use jit_core::refusal::{Code, Details, Refusal, left};
use jit_core::time::Now;
use jit_core::wire::{self, LeaseView};
use jit_core::{file_lock, state};
use jit_git::WorktreeEntry;
use jit_os::shell::shell_word;
use jit_os::watch::Watch;
use jit_store::{Outcome, Store as _, View};

use crate::api::{ActiveLease, Answer, Claims, Reply};
use crate::context::{Context, Kept};
use crate::refusals::refuse;
use crate::worktree_identity::identity;
use crate::{heartbeats as heartbeat, identity as agent};

/// Warnings about leases that are about to run out (B11).
pub(crate) fn soon_over(cx: &Context, own: &[Lease], now: &Now) -> Vec<String> {
    let pct = cx.config.lease_renewal_threshold_pct();
    // Who said who it is on the command line has to say it again.
    let who = match cx.whoami.source {
        agent::Source::Flag => format!(" --agent-id {}", shell_word(cx.actor.agent_id.as_str())),
        _ => String::new(),
    };
    let mine = own
        .iter()
        .filter(|lease| lease.held_by(&cx.actor) && !lease.expired(now) && lease.resource.issue().is_some());
    mine.filter(|lease| {
        lease.remaining_ms(now) * 100 < lease.ttl_secs.saturating_mul(1000).saturating_mul(pct)
    })
    .map(|lease| {
        format!(
            "your lease on {} ends in {}: jit claim renew {} --ttl {}{who}",
            lease.resource.issue().map_or("it", IssueId::as_str),
            left(lease.remaining_ms(now)),
            lease.lease_id,
            lease.ttl_secs
        )
    })
    .collect()
}

/// An agent that evicts others has that right from what is committed, or from the user.
pub(crate) fn force_evict(cx: &Context, target: Target, reason: String) -> Outcome<Answer> {
    let mut policy = cx.policy.clone();
    if cx.actor.agent_id.kind() == "agent" {
        crate::gates::committed_policy::bind_rights(cx, &mut policy)?;
    }
    crate::issues::change::carry_out_with(
        cx,
        &Command::ForceEvict { target, reason },
        Vec::new(),
        Some(&policy),
    )
}

pub(crate) fn acquire(cx: &Context, command: &Command, wait: Option<Duration>) -> Outcome<Answer> {
    let until = Instant::now() + wait.unwrap_or_default();
    match crate::context::carry_out(cx, command) {
        Err(refusal) if may_pass(&refusal) && wait.is_some() => {}
        other => return other,
    }
    // Watching begins before the next attempt, so that no release can slip in between.
    let watch = Watch::on(&cx.place.control_dir.join("events")).map_err(|e| refuse(Code::Io, e))?;
    loop {
        let refused = match crate::context::carry_out(cx, command) {
            Err(refusal) if may_pass(&refusal) => refusal,
            other => return other,
        };
        let Some(time_left) = until.checked_duration_since(Instant::now()) else {
            return Err(refused);
        };
        let expiry = match &refused.details {
            Details::Lease(lease) => {
                let ticks = jit_os::clock::boot_ns() / 1_000_000;
                Duration::from_millis(lease.deadline.saturating_sub(ticks) + 1)
            }
            Details::Counts(counts) => counts
                .iter()
                .find_map(|(name, secs)| (*name == "retry_after_secs").then_some(*secs)?)
                .map_or(time_left, Duration::from_secs),
            _ => time_left,
        };
        watch
            .wait(time_left.min(expiry))
            .map_err(|e| refuse(Code::Io, e))?;
    }
}

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

pub(crate) fn claims(cx: &Context, issue: Option<&IssuePrefix>) -> Outcome<Answer> {
    let view = crate::context::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let mut leases = match issue {
        Some(text) => {
            let key = Resource::Issue(crate::context::resolve(&view, text)?.id).key();
            state::lease_on(&*view.table, &key)
                .map_err(unreadable)?
                .into_iter()
                .collect()
        }
        None => state::claims(&*view.table).map_err(unreadable)?,
    };
    leases.retain(|lease| !lease.expired(&view.now));
    leases.sort_by_key(|lease| lease.token);
    let active = alive(cx, &leases, &view);
    let sequence = view.sequence;
    let generated_at = view.now.wall;
    let claims = Claims {
        schema_version: 1,
        sequence,
        generated_at,
        active,
    };
    let mut answer = crate::context::read_answer(cx, &view, Reply::Claims(claims))?;
    if !view.views_fine {
        answer.warnings.extend(cx.store.mend_views(&cx.actor));
    }
    Ok(answer)
}

/// Leases with what a person wants to know about them now.
pub(crate) fn alive(cx: &Context, leases: &[Lease], view: &View) -> Vec<ActiveLease> {
    let mut beats = heartbeat::Beats::new(&cx.place.control_dir);
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

pub(crate) fn history(
    cx: &Context,
    issue: Option<&IssuePrefix>,
    agent: Option<&AgentId>,
    limit: usize,
) -> Outcome<Answer> {
    let view = crate::context::view(cx)?;
    let issue = issue
        .map(|text| crate::context::resolve(&view, text))
        .transpose()?
        .map(|issue| issue.id);
    let mut records = std::collections::VecDeque::new();
    cx.store.events(0, &mut |line: Stamped| {
        let about = line.event.lease().is_some_and(|lease| {
            issue.as_ref().is_none_or(|id| lease.resource.issue() == Some(id))
                && agent.is_none_or(|agent| lease.agent_id == *agent || line.actor.agent_id == *agent)
        });
        if about && let Some(record) = wire::claims_record(&line) {
            records.push_back(serde_json::from_slice(&record).unwrap_or_default());
            if records.len() > limit {
                records.pop_front();
            }
        }
        ControlFlow::Continue(())
    })?;
    crate::context::read_answer(
        cx,
        &view,
        Reply::History {
            records: records.into(),
        },
    )
}

/// Renews what the agent holds here, issues and files, where more than half of it is gone. For heartbeats. Returns
/// how many were.
pub fn renew_own(cx: &Context) -> Outcome<usize> {
    let view = crate::context::view(cx)?;
    let own = state::leases_of(&*view.table, &cx.actor.agent_id).map_err(|e| refuse(Code::Io, e))?;
    let mut renewed = 0;
    let here = || own.iter().filter(|lease| lease.held_by(&cx.actor));
    // Looked at first: most beats have nothing to write.
    if here().any(|lease| file_lock::can_be_kept(lease, &view.now)) {
        let done = crate::context::transact_as(cx, None, &Command::KeepLocks, Kept::default())?;
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
        // Every beat is a request of its own, whatever the agent's environment says.
        match crate::context::transact_as(cx, None, &command, Kept::default()) {
            Ok(_) => renewed += 1,
            // Somebody else has it now: that is for the agent to find out, not for its heart.
            Err(refusal) if refusal.code == Code::NotHolder || refusal.code == Code::NotFound => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(renewed)
}

/// Whether waiting may help.
fn may_pass(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::Held | Code::NothingReady)
}
