//! Claims: acquiring, waiting, listing and renewing leases on issues.

mod heartbeat;

use crate::api::claims::ClaimHistory;
use crate::api::claims::ClaimReply;
use crate::api::claims::ClaimRequest;
use crate::write_path::carry_out;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use jit_core::decide::command::{Command, Target};
use jit_core::log::event::Stamped;
use jit_core::log::state;
use jit_core::model::ids::{AgentId, IssueId, IssuePrefix};
use jit_core::model::lease::Resource;
use jit_core::model::policy::Policy;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_core::query::claim_views;
use jit_os::watch::Watch;
use jit_store::Outcome;
use serde_json::Value;

use crate::api::claims::ActiveClaims;
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::context::calling_agent::{asking_agent, is_asked_by_agent};
use crate::leases::alive;
use crate::refusals::refuse;

/// Evicts a lease. An agent needs that right from the committed policy, or from the user.
pub(crate) fn force_evict(cx: &Context, target: Target, reason: String) -> Outcome<Answer> {
    let mut policy = Policy {
        agent_asks: asking_agent(cx).is_some(),
        ..cx.policy.clone()
    };
    if policy.agent_asks {
        crate::gates::committed_policy::bind_rights(cx, &mut policy)?;
    }
    crate::write_path::carry_out_with(
        cx,
        &Command::ForceEvict { target, reason },
        Vec::new(),
        Some(&policy),
    )
}

pub(crate) fn acquire(cx: &Context, command: &Command, wait: Option<Duration>) -> Outcome<Answer> {
    let until = Instant::now() + wait.unwrap_or_default();
    let policy = Policy {
        agent_asks: is_asked_by_agent(cx),
        ..cx.policy.clone()
    };
    let carry_out = || crate::write_path::carry_out_by(cx, command, Some(&policy));
    match carry_out() {
        Err(refusal) if may_pass(&refusal) && wait.is_some() => {}
        other => return other,
    }
    // Watching starts before the next attempt, so that no release is missed in between.
    let watch = Watch::on(&cx.place.control_dir.join("events")).map_err(|e| refuse(Code::Io, e))?;
    loop {
        let refused = match carry_out() {
            Err(refusal) if may_pass(&refusal) => refusal,
            other => return other,
        };
        let Some(time_left) = until.checked_duration_since(Instant::now()) else {
            return Err(refused);
        };
        let expiry = match &refused.details {
            Details::Lease(lease) => Duration::from_millis(lease.remaining_ms(&cx.store.now()?) + 1),
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

pub(crate) fn claims(cx: &Context, issue: Option<&IssuePrefix>) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let mut leases = match issue {
        Some(text) => {
            let key = Resource::Issue(crate::write_path::resolve(&view, text)?.id).key();
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
    let claims = ActiveClaims {
        schema_version: 1,
        sequence,
        generated_at,
        active,
    };
    let mut answer = crate::write_path::read_answer(cx, &view, Reply::Claims(ClaimReply::Active(claims)))?;
    if !view.views_fine {
        answer.warnings.extend(cx.store.upkeep().mend_views(&cx.actor));
    }
    Ok(answer)
}

pub(crate) fn history(
    cx: &Context,
    issue: Option<&IssuePrefix>,
    agent: Option<&AgentId>,
    limit: usize,
) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let issue = issue
        .map(|text| crate::write_path::resolve(&view, text))
        .transpose()?
        .map(|issue| issue.id);
    let mut records = VecDeque::new();
    let mut first = None;
    cx.store.events(0, &mut |line: Stamped| {
        first.get_or_insert(line.sequence);
        let about = line.event.lease().is_some_and(|lease| {
            issue.as_ref().is_none_or(|id| lease.resource.issue() == Some(id))
                && agent.is_none_or(|agent| lease.agent_id == *agent || line.actor.agent_id == *agent)
        });
        if about && let Some(record) = claim_views::claims_record(&line) {
            records.push_back(serde_json::from_slice(&record).unwrap_or_default());
            if records.len() > limit {
                records.pop_front();
            }
        }
        ControlFlow::Continue(())
    })?;
    if let Some(first) = first.filter(|first| *first > 1) {
        // The log was recovered: it begins there.
        let earlier = cx.store.upkeep().earlier_claims(first)?;
        for record in earlier.iter().rev() {
            let record: Value = serde_json::from_slice(record).unwrap_or_default();
            if records.len() < limit && is_about(&record, issue.as_ref(), agent) {
                records.push_front(record);
            }
        }
    }
    crate::write_path::read_answer(
        cx,
        &view,
        Reply::Claims(ClaimReply::History(ClaimHistory {
            records: records.into(),
        })),
    )
}

/// Whether a claim record is about this issue and this agent.
fn is_about(record: &Value, issue: Option<&IssueId>, agent: Option<&AgentId>) -> bool {
    let says = |name: &str, text: &str| record[name].as_str() == Some(text);
    let who = ["agent_id", "by", "released_by", "from_agent_id"];
    issue.is_none_or(|id| says("issue_id", id.as_str()))
        && agent.is_none_or(|agent| who.iter().any(|name| says(name, agent.as_str())))
}

/// Whether waiting may help.
fn may_pass(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::Held | Code::NothingReady)
}

/// Carries out a request about claims.
pub(crate) fn handle(cx: &Context, request: ClaimRequest) -> Outcome<Answer> {
    match request {
        ClaimRequest::Acquire {
            issue,
            ttl_secs,
            wait_secs,
            note,
            on_behalf_of,
        } => {
            let command = Command::Acquire {
                issue,
                ttl_secs,
                note,
                on_behalf_of,
            };
            acquire(cx, &command, wait_secs.map(crate::duration::bounded))
        }
        ClaimRequest::Next {
            label,
            kind,
            ttl_secs,
            wait_secs,
        } => {
            let command = Command::AcquireNext {
                label,
                kind,
                ttl_secs,
                on_behalf_of: None,
            };
            crate::issues::change::picked(
                cx,
                acquire(cx, &command, wait_secs.map(crate::duration::bounded))?,
            )
        }
        ClaimRequest::Renew { target, ttl_secs } => carry_out(
            cx,
            &Command::Renew {
                target,
                ttl_secs,
                if_half_gone: false,
            },
        ),
        ClaimRequest::Release { target } => carry_out(cx, &Command::Release { target }),
        ClaimRequest::Transfer { target, to, worktree } => {
            let branch = match &worktree {
                Some(id) => crate::leases::branch_of(cx, id)?,
                None => None,
            };
            carry_out(
                cx,
                &Command::Transfer {
                    target,
                    to,
                    worktree,
                    branch,
                },
            )
        }
        ClaimRequest::ForceEvict { target, reason } => force_evict(cx, target, reason),
        ClaimRequest::Heartbeat {
            process,
            interval_secs,
        } => heartbeat::beat(cx, process, interval_secs),
        ClaimRequest::Vouch { pid } => heartbeat::vouch(cx, pid),
        ClaimRequest::List { issue } => claims(cx, issue.as_ref()),
        ClaimRequest::History { issue, agent, limit } => history(cx, issue.as_ref(), agent.as_ref(), limit),
    }
}
