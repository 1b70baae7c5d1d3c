//! The overview: active leases, ready issues, everything that needs a person, unpushed targets and parked accounts.
//!
//! Limitations: at most five ready issues are shown.

use crate::api::overview::OverviewReply;
use crate::api::overview::OverviewRequest;
use std::collections::BTreeSet;

use jit_core::log::packed_issue::Packed;
use jit_core::log::state;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::{Issue, IssueState, Performer, Priority};
use jit_core::model::lease::Lease;
use jit_core::model::refusal::Code;
use jit_core::model::unit::Phase;
use jit_core::query::ready_queue;
use jit_store::{Outcome, View};

use crate::api::issues::Counts;
use crate::api::landing::Unpushed;
use crate::api::overview::Status;
use crate::api::overview::StatusClaim;
use crate::api::overview::StatusIssue;
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::issues::issue_lists::{Closed, Rivals, lease_on, leases, waits_for};
use crate::landing::{Repo, unpushed_targets as unpushed};
use crate::refusals::{refuse, stopped};

/// Returns the overview for `jit status`.
pub(crate) fn status(cx: &Context) -> Outcome<Answer> {
    const SHOWN: usize = 5;
    let view = crate::write_path::view(cx)?;
    let table = &*view.table;
    let unreadable = |e| refuse(Code::Io, e);
    let leases = leases(&view)?;
    let mut counts = Counts::default();
    let mut closed = Closed::default();
    // Open issues that may need a person.
    let mut open: Vec<Issue> = Vec::new();
    let each = &mut |key: &str, issue: Packed<'_>| {
        closed.note(key, issue.state);
        counts.count(if leases.contains_key(key) && issue.state.is_offered() {
            IssueState::InProgress
        } else {
            issue.state
        });
        let goes_on =
            issue.depends_on.is_empty() && issue.blocked.is_none() && issue.actor != Performer::Human;
        if !issue.state.is_closed() && !goes_on {
            open.extend(issue.unpack());
        }
    };
    state::visit_issues(table, each).map_err(unreadable)?;
    let find = |id: &IssueId| state::issue(table, id).map_err(unreadable);
    let mut held: Vec<Lease> = leases.values().cloned().collect();
    held.sort_by_key(|lease| lease.token);
    let mut active: Vec<StatusClaim> = Vec::with_capacity(held.len());
    for (claim, lease) in crate::leases::alive(cx, &held, &view).into_iter().zip(&held) {
        let issue = lease.resource.issue().map(find).transpose()?.flatten();
        active.push(StatusClaim {
            claim,
            title: issue.map(|issue| issue.title),
            mine: lease.held_by(&cx.actor),
        });
    }
    let brief = |issue: &Issue, why: Option<String>| StatusIssue {
        id: issue.id.to_string(),
        title: issue.title.clone(),
        priority: issue.priority,
        why,
    };
    let mut attention: Vec<StatusIssue> = Vec::new();
    for issue in &open {
        let leased = lease_on(&leases, &issue.id).is_some();
        let waits = waits_for(&view, issue.depends_on.iter(), |key| closed.is_closed(key))?;
        let waits = !waits.is_empty();
        counts.blocked += usize::from(waits || issue.blocked.is_some());
        if let Some(reason) = &issue.blocked {
            attention.push(brief(issue, Some(format!("blocked: {reason}"))));
        } else if issue.actor == Performer::Human && !leased && !waits && issue.state.is_offered() {
            counts.waiting_for_human += 1;
            attention.push(brief(issue, Some("waiting for a human".into())));
        }
    }
    for claim in active
        .iter()
        .filter(|claim| claim.claim.heartbeat_alive == Some(false))
    {
        let issue = claim.claim.lease.issue_id.as_ref().map(find).transpose()?;
        if let Some(issue) = issue.flatten() {
            let why = format!(
                "{} holds it, but its heartbeat has stopped",
                claim.claim.lease.agent_id
            );
            attention.push(brief(&issue, Some(why)));
        }
    }
    for unit in state::units(table).map_err(unreadable)? {
        let conflict = unit.error.as_ref().is_some_and(|e| e.reason == "merge_conflict");
        if unit.state != Phase::Failed || !conflict {
            continue;
        }
        let why = format!(
            "{} is in conflict with {}: jit worktree merge {}",
            unit.id,
            unit.goes_to(),
            unit.id
        );
        let issue = unit.issue_id.as_ref().map(find).transpose()?.flatten();
        attention.push(match issue {
            Some(issue) => brief(&issue, Some(why)),
            None => StatusIssue {
                id: unit.id.to_string(),
                title: format!("the unit {}", unit.id),
                priority: Priority::Normal,
                why: Some(why),
            },
        });
    }
    attention.sort_by(|a, b| (a.priority, &a.id).cmp(&(b.priority, &b.id)));
    let rivals = Rivals::of(&cx.actor, table, &leases)?;
    let mut ready = Vec::with_capacity(SHOWN);
    let mut many = SHOWN;
    loop {
        let queued = ready_queue::queued(table, many).map_err(unreadable)?;
        ready.clear();
        for (_, key) in &queued {
            if let Some(issue) = state::issue_at(table, key).map_err(unreadable)?
                && ready.len() < SHOWN
                && issue.actor.allows(cx.actor.agent_id.kind())
                && !rivals.stand_in_the_way(key, &issue.kind, issue.parent.as_ref().map(IssueId::as_str))?
                && !ready_queue::is_container(table, &issue).map_err(stopped)?
            {
                ready.push(brief(&issue, None));
            }
        }
        if ready.len() == SHOWN || queued.len() < many {
            break;
        }
        many *= 4;
    }
    let status = Status {
        agent_id: cx.actor.agent_id.clone(),
        worktree_id: cx.actor.worktree_id.clone(),
        branch: cx.branch.clone(),
        sequence: view.sequence,
        counts,
        active,
        ready,
        needs_attention: attention,
        unpushed: unpushed(cx, &view),
        parked: state::accounts(table)
            .map_err(unreadable)?
            .iter()
            .filter_map(|account| account.shown(view.now.wall))
            .collect(),
    };
    let reply = Reply::Overview(OverviewReply::Status(Box::new(status)));
    let mut answer = crate::write_path::read_answer(cx, &view, reply)?;
    answer.warnings.extend(
        cx.place
            .found_above()
            .map(|root| format!("there is no git here: this is about {}/.jit", root.display())),
    );
    Ok(answer)
}

/// Returns targets with landings that are not pushed.
pub(crate) fn unpushed(cx: &Context, view: &View) -> Vec<Unpushed> {
    let Some(common) = &cx.place.common_dir else {
        return Vec::new();
    };
    let sharing = unpushed::sharing(common);
    if sharing.branches.is_empty() {
        return Vec::new();
    }
    let landed = state::units(&*view.table).unwrap_or_default().into_iter();
    let targets: BTreeSet<String> = landed
        .filter(|unit| unit.merge_commit.is_some())
        .map(|unit| unit.goes_to().to_owned())
        .collect();
    match targets.is_empty() {
        true => Vec::new(),
        false => crate::landing::unpushed_targets::unpushed(
            &Repo::to_look_at(cx.git.clone(), common, &cx.place.control_dir),
            &targets,
            &sharing,
        ),
    }
}

/// Carries out a request about the whole repository.
pub(crate) fn handle(cx: &Context, request: OverviewRequest) -> Outcome<Answer> {
    match request {
        OverviewRequest::Status => status(cx),
    }
}
