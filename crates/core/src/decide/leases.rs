//! The verbs that all leases share: grant, hand on, end, and clear away what has expired.

use crate::decide::command::{Context, Target};
use crate::decide::draft::Draft;
use crate::log::event::Event;
use crate::log::state;
use crate::log::stop::Stop;
use crate::model::ids::{AgentId, SessionId, WorktreeId};
use crate::model::lease::{self, Lease, Resource};
use crate::model::refusal::{Code, Details, Refusal};

/// How many expired leases one command clears away at most, so that its cost stays bounded.
const EVICTIONS_A_COMMAND: usize = 64;

/// A lease for the caller, from now on; its token is that of the next event.
pub(crate) fn fresh_lease(draft: &Draft<'_>, resource: Resource, ttl_secs: u64, cx: &Context) -> Lease {
    Lease {
        lease_id: cx.fresh_lease.clone(),
        resource,
        agent_id: cx.actor.agent_id.clone(),
        worktree_id: cx.actor.worktree_id.clone(),
        branch: cx.branch.clone(),
        ttl_secs,
        acquired_at: cx.now.wall,
        expires_at: cx.now.wall.plus_secs(ttl_secs),
        deadline: deadline(cx, ttl_secs),
        token: draft.next_sequence(),
        parent: None,
        on_behalf_of: None,
        note: None,
        session_id: cx.policy.session.clone(),
    }
}

pub(crate) fn deadline(cx: &Context, ttl_secs: u64) -> u64 {
    cx.now.ticks.saturating_add(ttl_secs.saturating_mul(1000))
}

/// The lease on a resource if it still counts; one whose time is over is ended on the way.
pub(crate) fn live(draft: &mut Draft<'_>, resource_key: &str, cx: &Context) -> Result<Option<Lease>, Stop> {
    let Some(lease) = state::lease_on(draft.state(), resource_key)? else {
        return Ok(None);
    };
    if !lease.expired(&cx.now) {
        return Ok(Some(lease));
    }
    finish(draft, &lease, &|lease| Event::AutoEvicted { lease })?;
    Ok(None)
}

/// Records the end of expired leases, and returns how many there were. Every command does so, as its last step: a refusal
/// writes nothing.
pub(crate) fn clear_expired(draft: &mut Draft<'_>, cx: &Context) -> Result<usize, Stop> {
    let expired = state::expired(draft.state(), &cx.now, EVICTIONS_A_COMMAND)?;
    let many = expired.len();
    for lease in expired {
        // An earlier one in this list may have taken its children along.
        if state::lease_on(draft.state(), &lease.resource.key())?
            .is_some_and(|l| l.lease_id == lease.lease_id)
        {
            finish(draft, &lease, &|lease| Event::AutoEvicted { lease })?;
        }
    }
    Ok(many)
}

/// The lease goes to another agent or worktree, for its whole time again, as a new grant. What lived inside it ends.
pub(crate) fn hand_on(
    draft: &mut Draft<'_>,
    lease: Lease,
    agent_id: AgentId,
    worktree_id: Option<WorktreeId>,
    branch: Option<String>,
    cx: &Context,
) -> Result<(), Stop> {
    end_children(draft, &lease, cx)?;
    let new = Lease {
        lease_id: draft.name_lease(cx),
        agent_id,
        worktree_id,
        branch,
        acquired_at: cx.now.wall,
        expires_at: cx.now.wall.plus_secs(lease.ttl_secs),
        deadline: deadline(cx, lease.ttl_secs),
        token: draft.next_sequence(),
        // From here on it is like any other, and its lock file follows.
        note: lease.note.clone().filter(|_| !lease::is_from_file(&lease)),
        session_id: None,
        ..lease.clone()
    };
    draft.emit(Event::Transferred {
        lease: new,
        from_lease_id: lease.lease_id,
        from_agent_id: lease.agent_id,
    })?;
    Ok(())
}

fn end_children(draft: &mut Draft<'_>, lease: &Lease, cx: &Context) -> Result<(), Stop> {
    for child in state::children(draft.state(), &lease.lease_id)? {
        let_go(draft, &child, &cx.actor.agent_id)?;
    }
    Ok(())
}

/// Lets go of a lease and of all that lives inside it.
pub(crate) fn let_go(draft: &mut Draft<'_>, lease: &Lease, by: &AgentId) -> Result<(), Stop> {
    finish(draft, lease, &|lease| Event::Released {
        lease,
        by: by.clone(),
        brief: false,
    })
}

/// Ends a lease and all that lives inside it, children first.
pub(crate) fn finish(
    draft: &mut Draft<'_>,
    lease: &Lease,
    event: &dyn Fn(Lease) -> Event,
) -> Result<(), Stop> {
    for child in state::children(draft.state(), &lease.lease_id)? {
        finish(draft, &child, event)?;
    }
    draft.emit(event(lease.clone()))?;
    Ok(())
}

pub(crate) fn not_holder(lease: &Lease, target: &Target, cx: &Context) -> Refusal {
    let refusal = Refusal::new(
        Code::NotHolder,
        format!(
            "{} is held by {}{}, lease {}",
            lease.resource.issue().map_or(target.as_str(), |id| id.as_str()),
            lease.agent_id,
            lease
                .worktree_id
                .as_ref()
                .map_or(String::new(), |w| format!(" in {w}")),
            lease.lease_id
        ),
    )
    .help(format!(
        "jit claim status --issue {}",
        lease.resource.issue().map_or("", |id| id.as_str())
    ))
    .details(Details::Lease(Box::new(lease.clone())));
    if let Some(other) = cx.policy.rival_session(lease, &cx.actor.agent_id) {
        return by_session(refusal, other);
    }
    if lease.agent_id == cx.actor.agent_id {
        let place = lease.worktree_id.as_ref().map_or("no worktree", |id| id.as_str());
        return refusal.help(format!(
            "run it in the worktree the lease was taken in: {place} (jit worktree list)"
        ));
    }
    // Agents are not told to do what they may not.
    if cx.policy.kind_of(&cx.actor.agent_id) == "agent" && !cx.policy.agents_may_evict {
        refusal
    } else {
        refusal.help(format!("jit claim force-evict {} --reason <why>", lease.lease_id))
    }
}

/// Adds to a refusal that another session of the caller's own agent has the lease.
pub(crate) fn by_session(mut refusal: Refusal, other: &SessionId) -> Refusal {
    refusal.message = format!(
        "{}: by {other}, another session of this agent that is at work here",
        refusal.message
    );
    refusal.help(format!("jit session show {other}"))
}
