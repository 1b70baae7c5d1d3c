//! Activities and their tasks: leases inside leases, the changelog, and lock files of other programs.
//!
//! What must hold:
//!
//! - a task inside an activity that an agent holds is that agent's alone, and its lease ends with the activity's;
//! - an activity is not granted while another agent works on a task of it;
//! - a lock file that a program without `jit` wrote is a lease like any other, as long as it is there; where both came
//!   at once, the one in the log counts;
//! - of two programs without `jit` the one whose lock file is there is the holder.

use xxhash_rust::xxh3::xxh3_128;

use crate::decide::command::{CommandReply, Context, LockFile};
use crate::decide::draft::{Decision, Draft};
use crate::decide::leases::{deadline, let_go, live};
use crate::log::event::{ChangelogAction, Event};
use crate::log::state;
use crate::log::stop::Stop;
use crate::model::actor::Actor;
use crate::model::ids::{IssueId, LeaseId};
use crate::model::issue::{ACTIVITY, Issue, TASK};
use crate::model::lease::{LOCK_FILE_NOTE, Lease, LeaseEnd, Resource, UNNAMED_HOLDER, is_from_file};
use crate::model::policy::Policy;
use crate::model::refusal::Refusal;
use crate::model::time::Wall;
use crate::query::ready_queue;

/// The lease on the activity that an issue is part of.
fn lease_above(draft: &mut Draft<'_>, issue: &Issue, cx: &Context) -> Result<Option<Lease>, Stop> {
    let Some(parent) = &issue.parent else {
        return Ok(None);
    };
    if state::issue(draft.state(), parent)?.is_none_or(|parent| parent.kind != ACTIVITY) {
        return Ok(None);
    }
    live(draft, &Resource::Issue(parent.clone()).key(), cx)
}

/// Leases on the tasks of an activity.
fn leases_inside(draft: &mut Draft<'_>, issue: &Issue, cx: &Context) -> Result<Vec<Lease>, Stop> {
    let mut inside = Vec::new();
    if issue.kind == ACTIVITY {
        for part in ready_queue::parts(draft.state(), &issue.id.key())? {
            if let Some(part) = state::issue_at(draft.state(), &part)? {
                inside.extend(live(draft, &Resource::Issue(part.id).key(), cx)?);
            }
        }
    }
    Ok(inside)
}

/// The lease of the activity that an issue is part of, if the caller holds it. Somebody else's is in the way.
pub(crate) fn outer_lease(draft: &mut Draft<'_>, issue: &Issue, cx: &Context) -> Result<Option<Lease>, Stop> {
    match lease_above(draft, issue, cx)? {
        Some(lease) if !cx.holds(&lease) => Err(Refusal::held(&lease, &cx.now).into()),
        own => Ok(own),
    }
}

/// An activity cannot be taken while somebody else works on a task of it.
pub(crate) fn require_no_rival_inside(
    draft: &mut Draft<'_>,
    issue: &Issue,
    cx: &Context,
) -> Result<(), Stop> {
    let inside = leases_inside(draft, issue, cx)?;
    match inside.iter().find(|lease| !cx.holds(lease)) {
        Some(rival) => Err(Refusal::held(rival, &cx.now).into()),
        None => Ok(()),
    }
}

/// A lease of another holder around an issue or inside of it: only that holder may change the issue meanwhile.
pub(crate) fn rival(draft: &mut Draft<'_>, issue: &Issue, cx: &Context) -> Result<Option<Lease>, Stop> {
    let mut leases = leases_inside(draft, issue, cx)?;
    leases.extend(lease_above(draft, issue, cx)?);
    Ok(leases.into_iter().rfind(|lease| !cx.commands(lease)))
}

/// The changelog's entry for taking an issue.
pub(crate) fn claimed(draft: &Draft<'_>, issue: &Issue) -> Result<Option<Event>, Stop> {
    if issue.kind != ACTIVITY {
        return Ok(None);
    }
    let key = Resource::Issue(issue.id.clone()).key();
    let recovered = state::ended(draft.state(), &key)?.filter(|ended| ended.how == LeaseEnd::Expired);
    Ok(Some(match recovered {
        Some(ended) => work(
            ChangelogAction::RecoveredActivity,
            issue,
            Some(format!("taken over from {} after expiry", ended.lease.agent_id)),
        ),
        None => work(ChangelogAction::ClaimedActivity, issue, Some(issue.title.clone())),
    }))
}

/// Seconds from now until then.
fn secs_until(then: Wall, cx: &Context) -> u64 {
    let ms = u64::try_from(then.ms().saturating_sub(cx.now.wall.ms())).unwrap_or(0);
    ms.div_ceil(1000)
}

/// Whether a lease from a lock file lasts as long as that says, or as long as a lease may.
pub fn lasts_until(lease: &Lease, expires: Wall, policy: &Policy) -> bool {
    lease.expires_at == expires || (lease.ttl_secs >= policy.ttl.max_secs && lease.expires_at < expires)
}

/// The id of the lease that a lock file stands for: the same for everybody who reads the file before it is in the log,
/// and another one after that has ended.
fn lease_of_file(
    draft: &Draft<'_>,
    resource: &Resource,
    holder: &Actor,
    acquired: Wall,
) -> Result<LeaseId, Stop> {
    let key = resource.key();
    let last = state::ended(draft.state(), &key)?.map_or(0, |ended| ended.lease.token);
    let seed = format!("{key} {} {} {last}", holder.agent_id, acquired.ms());
    Ok(LeaseId::generate(acquired.ms(), xxh3_128(seed.as_bytes())))
}

/// Brings lock files that others wrote into the log, and ends the leases of those that are gone.
pub(crate) fn honour(
    draft: &mut Draft<'_>,
    there: &[LockFile],
    gone: &[IssueId],
    cx: &Context,
) -> Result<Decision, Stop> {
    for id in gone {
        let key = Resource::Issue(id.clone()).key();
        if let Some(lease) = live(draft, &key, cx)?.filter(is_from_file) {
            let_go(draft, &lease, &lease.agent_id)?;
        }
    }
    for file in there {
        let Some(issue) = state::issue(draft.state(), &file.activity)? else {
            continue;
        };
        let holder = Actor {
            agent_id: file.holder.clone(),
            worktree_id: None,
        };
        let outer = follow(draft, &issue, &holder, (file.acquired, file.expires), None, cx)?;
        if let (Some(outer), Some((task, acquired, expires))) = (outer, &file.task)
            && let Some(task) =
                state::issue(draft.state(), task)?.filter(|task| task.parent.as_ref() == Some(&issue.id))
        {
            follow(draft, &task, &holder, (*acquired, *expires), Some(&outer), cx)?;
        }
    }
    Ok(if draft.events().is_empty() {
        Decision::Already(CommandReply::Released(Vec::new()))
    } else {
        Decision::Done
    })
}

/// Whether the log has it that this lock file has expired.
fn is_known_as_over(
    draft: &Draft<'_>,
    resource: &Resource,
    holder: &Actor,
    expires: Wall,
) -> Result<bool, Stop> {
    let ended = state::ended(draft.state(), &resource.key())?;
    Ok(ended.is_some_and(|ended| {
        is_from_file(&ended.lease)
            && ended.lease.agent_id == holder.agent_id
            && ended.lease.expires_at == expires
    }))
}

/// Makes the lease on an issue what a lock file says, unless somebody else has it.
fn follow(
    draft: &mut Draft<'_>,
    issue: &Issue,
    holder: &Actor,
    (acquired, expires): (Wall, Wall),
    outer: Option<&Lease>,
    cx: &Context,
) -> Result<Option<Lease>, Stop> {
    let resource = Resource::Issue(issue.id.clone());
    let expires = outer.map_or(expires, |outer| expires.min(outer.expires_at));
    let until = secs_until(expires, cx);
    // No longer than a lease may last.
    let (ttl_secs, expires_at) = match cx.policy.ttl.max_secs {
        most if until > most => (most, cx.now.wall.plus_secs(most)),
        _ => (until, expires),
    };
    let before = match live(draft, &resource.key(), cx)? {
        // Its writer deleted the file before another one created its own.
        Some(lease) if is_from_file(&lease) && lease.agent_id != holder.agent_id => {
            let_go(draft, &lease, &lease.agent_id)?;
            None
        }
        before => before,
    };
    if let Some(lease) = &before {
        if !is_from_file(lease) {
            return Ok(None);
        }
        if lasts_until(lease, expires, &cx.policy) || ttl_secs == 0 {
            return Ok(Some(lease.clone()));
        }
    }
    let is_over = ttl_secs == 0;
    if issue.state.is_closed()
        || (is_over && (outer.is_some() || is_known_as_over(draft, &resource, holder, expires)?))
    {
        return Ok(None);
    }
    let lease = Lease {
        lease_id: lease_of_file(draft, &resource, holder, acquired)?,
        resource,
        agent_id: holder.agent_id.clone(),
        worktree_id: None,
        branch: None,
        ttl_secs: ttl_secs.max(1),
        acquired_at: acquired,
        expires_at,
        deadline: deadline(cx, ttl_secs),
        token: draft.next_sequence(),
        parent: None,
        on_behalf_of: None,
        note: Some(LOCK_FILE_NOTE.to_owned()),
        session_id: None,
    };
    if is_over {
        // The lock file expired before jit read it: the next holder of the activity takes it over.
        draft.emit(Event::Acquired {
            lease: lease.clone(),
            regranted: false,
        })?;
        draft.emit(Event::AutoEvicted { lease })?;
        return Ok(None);
    }
    let event = match before {
        Some(before) => Event::Renewed {
            lease: Lease {
                ttl_secs,
                expires_at,
                deadline: lease.deadline,
                ..before
            }
            .within(outer, &cx.now),
        },
        None => Event::Acquired {
            lease: lease.within(outer, &cx.now),
            regranted: false,
        },
    };
    let granted = event.lease().cloned();
    let note = match &event {
        Event::Acquired { .. } if holder.agent_id.as_str() != UNNAMED_HOLDER => {
            claimed(draft, issue)?.map(|mut note| {
                if let Event::Worked { details, .. } = &mut note {
                    *details = Some(format!("{} by its lock file", holder.agent_id));
                }
                note
            })
        }
        _ => None,
    };
    draft.emit(event)?;
    if let Some(note) = note {
        draft.emit(note)?;
    }
    Ok(granted)
}

/// The entry of the changelog about an issue.
pub(crate) fn work(action: ChangelogAction, issue: &Issue, details: Option<String>) -> Event {
    let (activity_id, task_id) = if issue.kind == TASK {
        (issue.parent.clone(), Some(issue.id.clone()))
    } else {
        (Some(issue.id.clone()), None)
    };
    Event::Worked {
        action,
        activity_id,
        task_id,
        details,
        previous: 0,
    }
}
