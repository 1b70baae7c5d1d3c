//! Decisions about locks on files: leases on patterns of paths (F2 to F6).
//!
//! What must hold, whatever the order of commands:
//!
//! - of two live locks that overlap in a place where both count, either both are shared or both have one holder;
//! - a request is granted whole or not at all;
//! - waiters are served in the order of arrival: a request yields to every earlier waiter that wants some of the same,
//!   as long as that waiter lives. The caller finds out whether it lives, because that takes a look at the system;
//!   a dead process stays dead, so the caller's answer is still true in the decision;
//! - no agent holds a file longer than the limit of its scope without releasing it in between.

use crate::decide::command::{CommandReply, Context};
use crate::decide::draft::{Decision, Draft};
use crate::decide::leases::{clear_expired, finish, fresh_lease};
use crate::log::event::Event;
use crate::log::state;
use crate::log::stop::Stop;
use crate::log::table::{Read, Table};
use crate::model::actor::Actor;
use crate::model::file_lock::{FILES, FileTarget, GLOBS, Queueing, Ticket, Want, Which, encoded};
use crate::model::glob::Pattern;
use crate::model::ids::TicketId;
use crate::model::lease::{Lease, Resource};
use crate::model::refusal::{Code, Details, Refusal, left};
use crate::model::time::Now;

impl Want {
    fn target(&self, holder: &Actor) -> FileTarget {
        FileTarget {
            pattern: self.pattern.clone(),
            outside: self.outside,
            scope: self.scope,
            shared: self.shared,
            holder: holder.clone(),
            latest: 0,
            labels: self.labels.clone(),
        }
    }
}

impl Which {
    fn means(&self, lease: &Lease) -> bool {
        match (self, lease.resource.file()) {
            (_, None) => false,
            (Self::All, _) => true,
            (Self::These(list), Some(target)) => list
                .iter()
                .any(|(pattern, outside)| target.pattern == *pattern && target.outside == *outside),
            (Self::Leases(list), _) => list.contains(&lease.lease_id),
        }
    }
}

/// Locks that may overlap with a pattern: no more than those are read.
fn near(table: &dyn Table, pattern: &Pattern) -> Read<Vec<Lease>> {
    let mut found = state::leases_on(table, GLOBS)?;
    let beginning = pattern.literal_prefix();
    if pattern.is_glob() || pattern.is_dir() {
        found.extend(state::leases_on(
            table,
            &format!("{FILES}{}", encoded(beginning)),
        )?);
    } else {
        found.extend(state::leases_on(
            table,
            &format!("{FILES}{}#", encoded(beginning)),
        )?);
    }
    // Folders above it, which are named in full.
    for (at, _) in beginning
        .match_indices('/')
        .filter(|(at, _)| at + 1 < beginning.len())
    {
        found.extend(state::leases_on(
            table,
            &format!("{FILES}{}#", encoded(&beginning[..=at])),
        )?);
    }
    Ok(found)
}

/// Live locks of others that stand in the way of a target, soonest end first.
pub fn rivals(table: &dyn Table, target: &FileTarget, now: &Now) -> Read<Vec<Lease>> {
    let mut found: Vec<Lease> = near(table, &target.pattern)?
        .into_iter()
        .filter(|lease| !lease.expired(now))
        .filter(|lease| lease.resource.file().is_some_and(|held| held.collides(target)))
        .collect();
    found.sort_by_key(|lease| lease.deadline);
    Ok(found)
}

/// Those who came before and want some of the same. `before`: only those before that ticket.
pub fn ahead(
    table: &dyn Table,
    targets: &[FileTarget],
    before: Option<&TicketId>,
    gone: &[TicketId],
    now: &Now,
) -> Read<Vec<Ticket>> {
    let mut found = Vec::new();
    for ticket in state::tickets(table)? {
        if before == Some(&ticket.ticket_id) {
            break;
        }
        let lives = ticket.deadline > now.ticks && !gone.contains(&ticket.ticket_id);
        let wants_same = || {
            ticket
                .wants
                .iter()
                .any(|theirs| targets.iter().any(|ours| theirs.collides(ours)))
        };
        if lives && wants_same() {
            found.push(ticket);
        }
    }
    Ok(found)
}

/// File locks that an actor holds in its worktree.
pub fn held_by(table: &dyn Table, actor: &Actor) -> Read<Vec<Lease>> {
    let mut held = state::leases_of(table, &actor.agent_id)?;
    held.retain(|lease| lease.held_by(actor) && lease.resource.file().is_some());
    Ok(held)
}

/// Every file lock, expired ones included.
pub fn all(table: &dyn Table) -> Read<Vec<Lease>> {
    let mut all = state::leases_on(table, FILES)?;
    all.extend(state::leases_on(table, GLOBS)?);
    Ok(all)
}

/// Takes all that is wanted, takes a place in the queue, or says who stands in the way.
pub fn take(
    draft: &mut Draft<'_>,
    wants: &[Want],
    queueing: &Queueing,
    cx: &Context,
) -> Result<Decision, Stop> {
    if wants.is_empty() {
        return Err(Refusal::new(Code::Invalid, "name at least one path to lock").into());
    }
    let mut targets: Vec<FileTarget> = Vec::new();
    let mut terms = Vec::new();
    for want in wants {
        let target = want.target(&cx.actor);
        let ttl = cx.policy.locks.resolve(want.ttl_secs, want.scope)?;
        if !targets.contains(&target) {
            targets.push(target);
            terms.push(ttl);
        }
    }
    let mut in_the_way: Vec<Lease> = Vec::new();
    for target in &targets {
        for lease in rivals(draft.state(), target, &cx.now)? {
            if !in_the_way.iter().any(|known| known.lease_id == lease.lease_id) {
                in_the_way.push(lease);
            }
        }
    }
    let before = queueing.ticket.as_ref();
    let waiting = ahead(draft.state(), &targets, before, &queueing.gone, &cx.now)?;
    if !in_the_way.is_empty() || !waiting.is_empty() {
        let Some((ticket_id, wait_ms)) = &queueing.enqueue else {
            return Err(refused(&in_the_way, &waiting, cx).into());
        };
        draft.emit(Event::Queued {
            ticket: Ticket {
                ticket_id: ticket_id.clone(),
                wants: targets,
                since: cx.now.wall,
                deadline: cx.now.ticks.saturating_add(*wait_ms),
            },
        })?;
        return Ok(Decision::Done);
    }
    let mut own = Vec::new();
    for (target, ttl) in targets.iter().zip(&terms) {
        let key = Resource::File(Box::new(target.clone())).key();
        let lease = state::lease_on(draft.state(), &key)?.filter(|lease| !lease.expired(&cx.now));
        own.push((target, *ttl, lease));
    }
    let fresh = |lease: &Lease, shared: bool| {
        let same = lease.resource.file().is_some_and(|file| file.shared == shared);
        same && !can_be_kept(lease, &cx.now)
    };
    let all_fresh = own
        .iter()
        .all(|(target, _, lease)| lease.as_ref().is_some_and(|lease| fresh(lease, target.shared)));
    if all_fresh && queueing.ticket.is_none() {
        let locks = own.into_iter().filter_map(|(_, _, lease)| lease).collect();
        return Ok(Decision::Already(CommandReply::Locks(locks)));
    }
    for (target, ttl, lease) in own {
        let event = match lease {
            Some(lease) => Event::Renewed {
                lease: prolonged(&lease, target.shared, ttl, cx),
            },
            None => {
                let mut target = target.clone();
                let lease_id = draft.name_lease(cx);
                let limit = cx.policy.locks.limit(target.scope).max(ttl);
                target.latest = cx.now.ticks.saturating_add(limit.saturating_mul(1000));
                Event::Acquired {
                    lease: Lease {
                        lease_id,
                        ..fresh_lease(draft, Resource::File(Box::new(target)), ttl, cx)
                    },
                    regranted: false,
                }
            }
        };
        draft.emit(event)?;
    }
    if let Some(ticket_id) = &queueing.ticket {
        draft.emit(Event::Unqueued {
            ticket_id: ticket_id.clone(),
        })?;
    }
    forget_gone(draft, &queueing.gone, cx)?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

/// The same lock with a later end, as far as its limit lets it.
fn prolonged(lease: &Lease, shared: bool, ttl_secs: u64, cx: &Context) -> Lease {
    let mut lease = lease.clone();
    let Resource::File(file) = &mut lease.resource else {
        return lease;
    };
    file.shared = shared;
    let wanted = cx.now.ticks.saturating_add(ttl_secs.saturating_mul(1000));
    let deadline = wanted.min(file.latest).max(lease.deadline);
    lease.ttl_secs = deadline.saturating_sub(cx.now.ticks).div_ceil(1000).max(1);
    lease.expires_at = cx.now.wall.plus_ms(deadline.saturating_sub(cx.now.ticks));
    lease.deadline = deadline;
    lease
}

/// Places in the queue whose owners died or gave up.
fn forget_gone(draft: &mut Draft<'_>, gone: &[TicketId], cx: &Context) -> Result<usize, Stop> {
    let mut many = 0;
    for ticket in state::tickets(draft.state())? {
        if gone.contains(&ticket.ticket_id) || ticket.deadline <= cx.now.ticks {
            draft.emit(Event::Unqueued {
                ticket_id: ticket.ticket_id,
            })?;
            many += 1;
        }
    }
    Ok(many)
}

fn refused(in_the_way: &[Lease], waiting: &[Ticket], cx: &Context) -> Refusal {
    let Some(first) = in_the_way.first() else {
        let ticket = waiting.first();
        let path = ticket.and_then(|t| t.wants.first()).map(FileTarget::path);
        let who = ticket
            .and_then(|t| t.wants.first())
            .map(|w| w.holder.agent_id.to_string());
        return Refusal::new(
            Code::Held,
            format!(
                "{} is free, but {} waits for it and came first",
                path.unwrap_or_default(),
                who.unwrap_or_default()
            ),
        )
        .help("jit lock acquire <path> --wait 5m");
    };
    let path = first.resource.file().map(FileTarget::path).unwrap_or_default();
    let more = match in_the_way.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Refusal::new(
        Code::Held,
        format!(
            "{path} is locked by {}{} for another {}{more}",
            first.agent_id,
            first
                .worktree_id
                .as_ref()
                .map_or(String::new(), |id| format!(" in {id}")),
            left(first.remaining_ms(&cx.now)),
        ),
    )
    .help("jit lock acquire <path> --wait 5m")
    .help("jit lock list")
    .details(Details::Locks(in_the_way.to_vec()))
}

/// Lets go of some or all of the caller's locks.
pub fn release(draft: &mut Draft<'_>, which: &Which, cx: &Context) -> Result<Decision, Stop> {
    let held = meant(draft.state(), which, cx)?;
    if held.is_empty() {
        return match which {
            Which::All => Ok(Decision::Already(CommandReply::Released(Vec::new()))),
            Which::These(_) | Which::Leases(_) => Err(Refusal::new(Code::NotFound, "you hold no such lock")
                .help("jit lock list")
                .into()),
        };
    }
    for lease in held {
        let by = cx.actor.agent_id.clone();
        draft.emit(Event::Released {
            lease,
            by,
            brief: false,
        })?;
    }
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

fn meant(table: &dyn Table, which: &Which, cx: &Context) -> Read<Vec<Lease>> {
    let mut held = held_by(table, &cx.actor)?;
    held.retain(|lease| !lease.expired(&cx.now) && which.means(lease));
    held.sort_by_key(|lease| lease.token);
    Ok(held)
}

/// Gives the caller more time for some or all of its locks.
pub fn extend(
    draft: &mut Draft<'_>,
    which: &Which,
    ttl_secs: Option<u64>,
    cx: &Context,
) -> Result<Decision, Stop> {
    let held = meant(draft.state(), which, cx)?;
    if held.is_empty() {
        return Err(
            Refusal::new(Code::NotFound, "you hold no such lock; it may have run out")
                .help("jit lock acquire <path>")
                .into(),
        );
    }
    for lease in held {
        let Some(file) = lease.resource.file() else {
            continue;
        };
        if file.latest <= lease.deadline {
            return Err(Refusal::new(
                Code::NotAllowed,
                format!(
                    "{} cannot be extended beyond {}: a {} lock lasts {} at most",
                    file.path(),
                    lease.expires_at,
                    file.scope.as_str(),
                    left(cx.policy.locks.limit(file.scope).saturating_mul(1000)),
                ),
            )
            .help("jit lock release <path>, and acquire it again if nobody waits")
            .details(Details::Locks(vec![lease]))
            .into());
        }
        let ttl = cx.policy.locks.resolve(ttl_secs, file.scope)?;
        let lease = prolonged(&lease, file.shared, ttl, cx);
        draft.emit(Event::Renewed { lease })?;
    }
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

/// Whether a lock has less than half of its time left, and may have more.
pub fn can_be_kept(lease: &Lease, now: &Now) -> bool {
    let half_left = lease.remaining_ms(now) > lease.ttl_secs.saturating_mul(1000) / 2;
    let spent = lease
        .resource
        .file()
        .is_none_or(|file| file.latest <= lease.deadline);
    !half_left && !spent && !lease.expired(now)
}

/// The caller's heart has beaten. Each lock lasts as long again as it was granted for.
pub fn keep(draft: &mut Draft<'_>, cx: &Context) -> Result<Decision, Stop> {
    let mut held = meant(draft.state(), &Which::All, cx)?;
    held.retain(|lease| can_be_kept(lease, &cx.now));
    if held.is_empty() {
        return Ok(Decision::Already(CommandReply::Locks(Vec::new())));
    }
    for lease in held {
        let shared = lease.resource.file().is_some_and(|file| file.shared);
        let lease = prolonged(&lease, shared, lease.ttl_secs, cx);
        draft.emit(Event::Renewed { lease })?;
    }
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

/// Gives a place in the queue back.
pub fn leave(draft: &mut Draft<'_>, ticket_id: &TicketId) -> Result<Decision, Stop> {
    if !state::tickets(draft.state())?
        .iter()
        .any(|ticket| ticket.ticket_id == *ticket_id)
    {
        return Ok(Decision::Already(CommandReply::Locks(Vec::new())));
    }
    draft.emit(Event::Unqueued {
        ticket_id: ticket_id.clone(),
    })?;
    Ok(Decision::Done)
}

/// Records every end that nobody has noticed yet: locks that ran out, and waiters that are no more.
pub fn clean_up(draft: &mut Draft<'_>, gone: &[TicketId], cx: &Context) -> Result<Decision, Stop> {
    for lease in all(draft.state())? {
        if lease.expired(&cx.now) {
            finish(draft, &lease, &|lease| Event::AutoEvicted { lease })?;
        }
    }
    let forgotten = forget_gone(draft, gone, cx)?;
    if draft.events().is_empty() && forgotten == 0 {
        return Ok(Decision::Already(CommandReply::Released(Vec::new())));
    }
    Ok(Decision::Done)
}
