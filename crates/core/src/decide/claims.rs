//! Decisions about claims: acquire, renew, release, transfer and evict.

use crate::decide::activities;
use crate::decide::command::{CommandReply, Context, Target};
use crate::decide::draft::{Decision, Draft};
use crate::decide::leases::{
    by_session, clear_expired, deadline, finish, fresh_lease, hand_on, let_go, live, not_holder,
};
use crate::log::event::Event;
use crate::log::stop::Stop;
use crate::log::{ready_index, state};
use crate::model::ids::{AgentId, IssueId, WorktreeId};
use crate::model::issue::Issue;
use crate::model::lease::{self, Lease, LeaseEnd, Resource, is_from_file};
use crate::model::refusal::{Code, Refusal};

/// The terms that were asked for with a lease.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub ttl_secs: Option<u64>,
    pub note: Option<String>,
    pub on_behalf_of: Option<AgentId>,
}

pub(crate) fn acquire(
    draft: &mut Draft<'_>,
    issue: &Issue,
    terms: Terms,
    cx: &Context,
) -> Result<Decision, Stop> {
    require_open(issue)?;
    let ttl_secs = cx
        .policy
        .ttl
        .resolve(terms.ttl_secs, &issue.kind, &cx.actor.agent_id)?;
    let resource = Resource::Issue(issue.id.clone());
    if let Some(lease) = live(draft, &resource.key(), cx)? {
        return match lease.held_by(&cx.actor) {
            true => again(draft, lease, cx),
            false => Err(Refusal::held(&lease, &cx.now).into()),
        };
    }
    require_performer(issue, cx)?;
    let outer = activities::outer_lease(draft, issue, cx)?;
    activities::require_no_rival_inside(draft, issue, cx)?;
    notice_obstacles(draft, issue)?;
    clear_expired(draft, cx)?;
    let lease = Lease {
        on_behalf_of: terms.on_behalf_of,
        note: terms.note,
        ..fresh_lease(draft, resource, ttl_secs, cx)
    };
    let lease = lease.within(outer.as_ref(), &cx.now);
    let work = activities::claimed(draft, issue)?;
    draft.emit(Event::Acquired {
        lease,
        regranted: false,
    })?;
    if let Some(work) = work {
        draft.emit(work)?;
    }
    Ok(Decision::Done)
}

/// Answers a caller that holds the lease already. Of two sessions of one agent in one worktree only one holds it, as
/// long as its process runs; a later session takes over from one that is gone.
fn again(draft: &mut Draft<'_>, lease: Lease, cx: &Context) -> Result<Decision, Stop> {
    let own = &cx.policy.session;
    if own.is_none() || *own == lease.session_id {
        return Ok(Decision::Already(CommandReply::Lease {
            lease,
            existing: true,
            regranted: false,
        }));
    }
    if let Some(other) = cx.policy.rival_session(&lease, &cx.actor.agent_id) {
        return Err(by_session(Refusal::held(&lease, &cx.now), other).into());
    }
    draft.emit(Event::Renewed {
        lease: Lease {
            session_id: own.clone(),
            ..lease
        },
    })?;
    Ok(Decision::Done)
}

/// Refuses an issue that is done or rejected.
pub(crate) fn require_open(issue: &Issue) -> Result<(), Refusal> {
    if issue.state.is_closed() {
        return Err(
            Refusal::new(Code::Closed, format!("{} is {}", issue.id, issue.state))
                .help(format!("jit issue show {}", issue.id)),
        );
    }
    Ok(())
}

struct FoundLease {
    active: Option<Lease>,
    ended: Option<state::Ended>,
}

/// Finds the lease that `target` names now, and the one it named last. An expired lease is ended on the way, so that the
/// answer does not depend on whether an earlier command had recorded it.
fn find(draft: &mut Draft<'_>, target: &Target, cx: &Context) -> Result<FoundLease, Stop> {
    let resource = match target {
        Target::Issue(text) => Resource::Issue(state::resolve(draft.state(), text)?.id).key(),
        Target::Lease(id) => match state::resource_of(draft.state(), id)? {
            Some(resource) => resource,
            None => {
                return Err(
                    Refusal::new(Code::NotFound, format!("no lease {id} is known here"))
                        .help("jit claim list")
                        .into(),
                );
            }
        },
    };
    let mut active = live(draft, &resource, cx)?;
    let mut ended = state::ended(draft.state(), &resource)?;
    if let Target::Lease(id) = target {
        if let Some(other) = active.take_if(|lease| lease.lease_id != *id) {
            // The resource went to somebody else: for the caller that is what matters.
            return Err(not_holder(&other, target, cx).into());
        }
        ended = ended.filter(|ended| ended.lease.lease_id == *id);
    }
    Ok(FoundLease { active, ended })
}

fn require_obeys(lease: Lease, target: &Target, cx: &Context) -> Result<Lease, Refusal> {
    if cx.commands(&lease) {
        Ok(lease)
    } else {
        Err(not_holder(&lease, target, cx))
    }
}

/// Locks on files are not kept longer or handed on as claims are.
fn require_claim(lease: &Lease, instead: &str) -> Result<(), Refusal> {
    match lease.resource.file() {
        None => Ok(()),
        Some(file) => Err(Refusal::new(
            Code::Invalid,
            format!("{} is a lock on {}, not a claim", lease.lease_id, file.path()),
        )
        .help(instead)),
    }
}

fn not_active(target: &Target) -> Refusal {
    Refusal::new(Code::NotFound, format!("nobody holds {}", target.as_str())).help("jit claim list")
}

pub(crate) fn renew(
    draft: &mut Draft<'_>,
    target: &Target,
    ttl_secs: Option<u64>,
    if_half_gone: bool,
    cx: &Context,
) -> Result<Decision, Stop> {
    let found = find(draft, target, cx)?;
    let (lease, over) = match (found.active, found.ended) {
        (Some(lease), _) => (require_obeys(lease, target, cx)?, false),
        (None, Some(ended)) if ended.how == LeaseEnd::Expired && cx.commands(&ended.lease) => {
            (ended.lease, true)
        }
        (None, Some(ended)) if ended.how != LeaseEnd::Expired && cx.commands(&ended.lease) => {
            return Err(Refusal::new(
                Code::NotHolder,
                format!(
                    "the lease on {} was {} at {}",
                    target.as_str(),
                    ended_word(ended.how),
                    ended.at
                ),
            )
            .help(format!(
                "jit claim acquire {}",
                ended.lease.resource.issue().map_or("<issue>", |id| id.as_str())
            ))
            .into());
        }
        _ => return Err(not_active(target).into()),
    };
    require_claim(&lease, "jit lock extend <path>")?;
    // As long as before, unless the longest allowed has become shorter meanwhile.
    let asked = ttl_secs.unwrap_or(lease.ttl_secs.min(cx.policy.ttl.max_secs));
    let ttl_secs = cx.policy.ttl.resolve(Some(asked), "", &lease.agent_id)?;
    let half_left = lease.remaining_ms(&cx.now) > lease.ttl_secs.saturating_mul(1000) / 2;
    if !over && if_half_gone && half_left {
        return Ok(Decision::Already(CommandReply::Lease {
            lease,
            existing: true,
            regranted: false,
        }));
    }
    let mut renewed = Lease {
        ttl_secs,
        expires_at: cx.now.wall.plus_secs(ttl_secs),
        deadline: deadline(cx, ttl_secs),
        ..lease.clone()
    };
    if lease::is_from_file(&lease) {
        // Its time is no longer what the file says: from here on it is like any other, and the file follows.
        renewed.note = None;
        renewed.worktree_id.clone_from(&cx.actor.worktree_id);
        renewed.branch.clone_from(&cx.branch);
    }
    let outer = match lease.resource.issue().map(|id| state::issue(draft.state(), id)) {
        Some(found) => match found? {
            Some(issue) => activities::outer_lease(draft, &issue, cx)?,
            None => None,
        },
        None => None,
    };
    if over {
        // Its time was over but nobody came: granted again, as a new grant with a new token.
        if let Some(id) = lease.resource.issue()
            && let Some(issue) = state::issue(draft.state(), id)?
        {
            require_open(&issue)?;
        }
        renewed.acquired_at = cx.now.wall;
        renewed.token = draft.next_sequence();
        renewed.parent = None;
        draft.emit(Event::Acquired {
            lease: renewed.within(outer.as_ref(), &cx.now),
            regranted: true,
        })?;
    } else {
        // Inside an activity's lease a task's ends with it.
        let outer = outer.filter(|outer| renewed.parent.as_ref() == Some(&outer.lease_id));
        draft.emit(Event::Renewed {
            lease: renewed.within(outer.as_ref(), &cx.now),
        })?;
    }
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

fn ended_word(how: LeaseEnd) -> &'static str {
    match how {
        LeaseEnd::Released => "released",
        LeaseEnd::Expired => "left to expire",
        LeaseEnd::Evicted => "taken away by an eviction",
        LeaseEnd::Transferred => "handed over",
    }
}

pub(crate) fn require_performer(issue: &Issue, cx: &Context) -> Result<(), Refusal> {
    if issue.actor.allows(cx.policy.kind_of(&cx.actor.agent_id)) {
        return Ok(());
    }
    Err(Refusal::new(Code::NotAllowed, format!("{} waits for a person", issue.id)).help("jit claim next"))
}

/// Taking what cannot be worked on is allowed, but worth a word.
pub(crate) fn notice_obstacles(draft: &mut Draft<'_>, issue: &Issue) -> Result<(), Stop> {
    if let Some(reason) = &issue.blocked {
        draft.notice(format!("{} is marked as blocked: {reason}", issue.id));
    }
    let open = ready_index::open_dependencies(draft.state(), issue)?;
    if !open.is_empty() {
        let names: Vec<&str> = open.iter().map(IssueId::as_str).collect();
        draft.notice(format!("{} still waits for {}", issue.id, names.join(", ")));
    }
    Ok(())
}

/// Ends a claim at the will of its holder, from any worktree.
pub(crate) fn release(draft: &mut Draft<'_>, target: &Target, cx: &Context) -> Result<Decision, Stop> {
    let found = find(draft, target, cx)?;
    let may = |lease: &Lease| cx.may_release(lease);
    let lease = match found.active {
        Some(lease) if may(&lease) => lease,
        Some(lease) => return Err(not_holder(&lease, target, cx).into()),
        // It ran out and nobody wanted it: what the holder asks for is so already.
        None => match found.ended {
            Some(ended) if ended.how == LeaseEnd::Expired && may(&ended.lease) => {
                return Ok(Decision::Already(CommandReply::Released(vec![ended.lease])));
            }
            _ => return Err(not_active(target).into()),
        },
    };
    let_go(draft, &lease, &cx.actor.agent_id)?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

/// Hands a claim on to another agent or to another worktree.
pub(crate) fn transfer(
    draft: &mut Draft<'_>,
    target: &Target,
    to: &AgentId,
    (worktree, branch): (&Option<WorktreeId>, &Option<String>),
    cx: &Context,
) -> Result<Decision, Stop> {
    let found = find(draft, target, cx)?;
    let Some(lease) = found.active else {
        let ran_out = found
            .ended
            .filter(|ended| ended.how == LeaseEnd::Expired && cx.commands(&ended.lease));
        let refusal = not_active(target);
        return Err(match ran_out {
            Some(ended) => refusal.help(format!("jit claim renew {}", ended.lease.lease_id)),
            None => refusal,
        }
        .into());
    };
    let lease = require_obeys(lease, target, cx)?;
    require_claim(&lease, "jit lock release <path>")?;
    let stays = worktree.is_none() || *worktree == lease.worktree_id;
    if *to == lease.agent_id && stays {
        return Err(Refusal::new(Code::Invalid, format!("{to} holds it already")).into());
    }
    let (worktree_id, branch) = match stays {
        false => (worktree.clone(), branch.clone()),
        // A lease from a lock file is in no worktree.
        true if is_from_file(&lease) => (cx.actor.worktree_id.clone(), cx.branch.clone()),
        true => {
            let branch = branch.clone().or_else(|| lease.branch.clone());
            (lease.worktree_id.clone(), branch)
        }
    };
    hand_on(draft, lease, to.clone(), worktree_id, branch, cx)?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

/// Takes a lease away from its holder, with a name and a reason.
pub(crate) fn force_evict(
    draft: &mut Draft<'_>,
    target: &Target,
    reason: &str,
    cx: &Context,
) -> Result<Decision, Stop> {
    if cx.policy.kind_of(&cx.actor.agent_id) == "agent" && !cx.policy.agents_may_evict {
        let caller = &cx.actor.agent_id;
        let who = match caller.kind() {
            "agent" => format!("{caller} is an agent"),
            _ => format!("an agent asks as {caller}"),
        };
        return Err(Refusal::new(
            Code::NotAllowed,
            format!("{who}, and agents may not evict others here"),
        )
        .help(format!(
            "ask a person to run: jit claim force-evict {} --reason <why>",
            target.as_str()
        ))
        .into());
    }
    if reason.trim().is_empty() {
        return Err(Refusal::new(Code::Invalid, "say why: --reason must not be empty").into());
    }
    let Some(lease) = find(draft, target, cx)?.active else {
        return Err(not_active(target).into());
    };
    let by = &cx.actor.agent_id;
    finish(draft, &lease, &|lease| Event::ForceEvicted {
        lease,
        by: by.clone(),
        reason: reason.to_owned(),
    })?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}
