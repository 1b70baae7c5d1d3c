//! Picks the best issue that is ready and acquires it, in one decision.

use std::collections::BTreeMap;

use crate::decide::claims::{Terms, acquire};
use crate::decide::command::Context;
use crate::decide::draft::{Decision, Draft};
use crate::decide::leases::clear_expired;
use crate::log::stop::Stop;
use crate::log::table::Table;
use crate::log::{ready_index, state};
use crate::model::issue::{Issue, IssueState, Performer};
use crate::model::lease::{Lease, Resource};
use crate::model::refusal::{Code, Details, Refusal};
use crate::query::ready_queue;

/// The best issue that the caller may take, taken.
pub(crate) fn acquire_next(
    draft: &mut Draft<'_>,
    label: Option<&str>,
    kind: Option<&str>,
    terms: Terms,
    cx: &Context,
) -> Result<Decision, Stop> {
    // Issues with expired leases are offered again, all of them.
    while clear_expired(draft, cx)? > 0 {}
    let wanted = |issue: &Issue| {
        label.is_none_or(|label| issue.labels.iter().any(|l| l == label))
            && kind.is_none_or(|kind| issue.kind == kind)
    };
    let mut limit = 8;
    let mut looked_at = 0;
    loop {
        let queued = ready_queue::queued(draft.state(), limit)?;
        for (_, key) in &queued[looked_at..] {
            let Some(issue) = state::issue_at(draft.state(), key)? else {
                continue;
            };
            if !wanted(&issue)
                || !issue.actor.allows(cx.policy.kind_of(&cx.actor.agent_id))
                || ready_queue::is_container(draft.state(), &issue)?
            {
                continue;
            }
            match acquire(draft, &issue, terms.clone(), cx) {
                // Inside an activity that somebody else holds.
                Err(Stop::Refused(refusal)) if refusal.code == Code::Held => {}
                other => return other,
            }
        }
        if queued.len() < limit {
            return Err(nothing_ready(draft.state(), &wanted, cx)?.into());
        }
        looked_at = queued.len();
        limit *= 4;
    }
}

/// Why there is nothing, of the issues that were wanted.
fn nothing_ready(table: &dyn Table, wanted: &dyn Fn(&Issue) -> bool, cx: &Context) -> Result<Refusal, Stop> {
    let (mut held, mut blocked, mut backlog, mut gated, mut human, mut in_parts) = (0, 0, 0, 0, 0, 0);
    let leases = state::claims(table)?.into_iter();
    let leases: BTreeMap<String, Lease> = leases.map(|lease| (lease.resource.key(), lease)).collect();
    // Also of what was not wanted: a task is free when its activity is.
    let soonest = leases
        .values()
        .map(|lease| lease.remaining_ms(&cx.now).div_ceil(1000))
        .min();
    for issue in state::issues(table)?.iter().filter(|issue| wanted(issue)) {
        let is_held = leases.contains_key(&Resource::Issue(issue.id.clone()).key());
        held += u64::from(is_held);
        match issue.state {
            IssueState::Backlog => backlog += 1,
            IssueState::Gated => gated += 1,
            IssueState::Done | IssueState::Rejected => {}
            _ if is_held => {}
            _ if issue.blocked.is_some() || !ready_index::open_dependencies(table, issue)?.is_empty() => {
                blocked += 1
            }
            _ if ready_queue::is_container(table, issue)? => in_parts += 1,
            _ if issue.actor == Performer::Human => human += 1,
            _ => {}
        }
    }
    Ok(Refusal::new(
        Code::NothingReady,
        format!("nothing is ready to be taken: {held} held, {blocked} blocked, {human} waiting for a person, {in_parts} whose parts are open, {backlog} in the backlog"),
    )
    .help("jit ready")
    .help("jit blocked")
    .details(Details::Counts(vec![
        ("held", Some(held)),
        ("blocked", Some(blocked)),
        ("waiting_for_human", Some(human)),
        ("open_parts", Some(in_parts)),
        ("gated", Some(gated)),
        ("backlog", Some(backlog)),
        ("retry_after_secs", soonest),
    ])))
}
