//! The one place where it is decided who gets what.
//!
//! `decide` looks at the state and either emits events or refuses. What must hold, whatever the order of commands:
//!
//! - at most one live lease a resource: a grant happens only where there is none, or in the same breath as the end of
//!   the old one;
//! - a lease changes hands only by its holder's will, by its deadline, or by an eviction with a name and a reason;
//! - of two grants on one resource the later has the higher token;
//! - an answer that changes nothing writes nothing;
//! - a parent's end is its children's end, in the same transaction.

pub mod activities;
pub mod command;
pub mod issues;

use crate::decide::command::{Command, Context, Reply, Target};
use crate::decide::{activities as decide_activities, issues as decide_issues};
use crate::log::event::{Event, Request, Stamped};
use crate::log::state;
use crate::log::stop::Stop;
use crate::log::table::{Changes, Overlay, Read, Table};
use crate::model::actor::Actor;
use crate::model::ids::{AgentId, LeaseId, WorktreeId};
use crate::model::issue::{GateResult, Issue};
use crate::model::lease::{self, End, Lease, Resource};
use crate::model::refusal::{Code, Details, Refusal};
use crate::model::time::Wall;
use crate::model::{account, conflict, file_lock, session, unit, workflow};

/// How many expired leases one command clears away at most, so that its cost stays bounded.
const EVICTIONS_A_COMMAND: usize = 64;

/// Events in the making, and the state as it will be with them.
#[derive(Debug)]
pub struct Draft<'a> {
    state: Overlay<'a>,
    events: Vec<Event>,
    next: u64,
    at: Wall,
    actor: Actor,
    notices: Vec<String>,
}

impl<'a> Draft<'a> {
    /// `last` is the sequence of the newest line in the log.
    pub fn new(table: &'a dyn Table, last: u64, at: Wall, actor: Actor) -> Self {
        Self {
            state: Overlay::new(table),
            events: Vec::new(),
            next: last + 1,
            at,
            actor,
            notices: Vec::new(),
        }
    }

    pub fn state(&self) -> &dyn Table {
        &self.state
    }

    /// The sequence the next event will have: a grant's fencing token.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    pub fn emit(&mut self, mut event: Event) -> Read<()> {
        if let Event::Worked { previous, .. } = &mut event {
            *previous = state::last_worked(&self.state)?;
        }
        let stamped = Stamped {
            sequence: self.next,
            at: self.at,
            actor: self.actor.clone(),
            request: None,
            part: (1, 1),
            event,
        };
        state::apply(&mut self.state, &stamped)?;
        self.next += 1;
        self.events.push(stamped.event);
        Ok(())
    }

    /// A new id for each lease that one command grants, made from the one that was drawn for it.
    pub fn name_lease(&self, cx: &Context) -> LeaseId {
        let granted = self
            .events
            .iter()
            .filter(|e| matches!(e, Event::Acquired { .. }))
            .count();
        cx.fresh_lease.plus(granted as u64)
    }

    /// Something the caller should know beside the answer.
    pub fn notice(&mut self, text: impl Into<String>) {
        self.notices.push(text.into());
    }

    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Drops what was drafted: the answer needs nothing written.
    fn forget(&mut self) {
        self.next -= self.events.len() as u64;
        self.events.clear();
        self.state.changes.clear();
    }

    /// The transaction's lines and everything they change.
    pub fn finish(self, request: Option<&Request>) -> Read<(Vec<Stamped>, Changes)> {
        let Self {
            mut state,
            events,
            next,
            at,
            actor,
            notices: _,
        } = self;
        let total = u32::try_from(events.len()).unwrap_or(u32::MAX);
        let first = next - events.len() as u64;
        let mut lines = Vec::with_capacity(events.len());
        for (n, event) in events.into_iter().enumerate() {
            lines.push(Stamped {
                sequence: first + n as u64,
                at,
                actor: actor.clone(),
                request: request.cloned(),
                part: (n as u32 + 1, total),
                event,
            });
        }
        if request.is_some() {
            for line in &lines {
                state::remember(&mut state, line)?;
            }
        }
        Ok((lines, state.changes))
    }
}

/// The answer to a command that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The draft's events carry it out.
    Done,
    /// It was so already: nothing is to be written.
    Already(Reply),
}

pub fn decide(draft: &mut Draft<'_>, command: &Command, cx: &Context) -> Result<Answer, Stop> {
    let answer = answer(draft, command, cx)?;
    if matches!(answer, Answer::Already(_)) {
        draft.forget();
    }
    Ok(answer)
}

fn answer(draft: &mut Draft<'_>, command: &Command, cx: &Context) -> Result<Answer, Stop> {
    state::refuse_newer(draft.state())?;
    match command {
        Command::Acquire {
            issue,
            ttl_secs,
            note,
            on_behalf_of,
        } => {
            let issue = state::resolve(draft.state(), issue)?;
            let terms = Terms {
                ttl_secs: *ttl_secs,
                note: note.clone(),
                on_behalf_of: on_behalf_of.clone(),
            };
            acquire(draft, &issue, terms, cx)
        }
        Command::AcquireNext {
            label,
            kind,
            ttl_secs,
            on_behalf_of,
        } => {
            let terms = Terms {
                ttl_secs: *ttl_secs,
                note: None,
                on_behalf_of: on_behalf_of.clone(),
            };
            decide_issues::acquire_next(draft, label.as_deref(), kind.as_deref(), terms, cx)
        }
        Command::Renew {
            target,
            ttl_secs,
            if_half_gone,
        } => renew(draft, target, *ttl_secs, *if_half_gone, cx),
        Command::Release { target } => {
            let found = find(draft, target, cx)?;
            let lease = match found.active {
                Some(lease) => require_obeys(lease, target, cx)?,
                // It ran out and nobody wanted it: what the holder asks for is so already.
                None => match found.ended {
                    Some(ended) if ended.how == End::Expired && ended.lease.obeys(&cx.actor) => {
                        return Ok(Answer::Already(Reply::Released(vec![ended.lease])));
                    }
                    _ => return Err(not_active(target).into()),
                },
            };
            let_go(draft, &lease, &cx.actor.agent_id)?;
            clear_expired(draft, cx)?;
            Ok(Answer::Done)
        }
        Command::Transfer {
            target,
            to,
            worktree,
            branch,
        } => {
            let found = find(draft, target, cx)?;
            let Some(lease) = found.active else {
                let ran_out = found
                    .ended
                    .filter(|ended| ended.how == End::Expired && ended.lease.obeys(&cx.actor));
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
                // What a lock file stands for is in no worktree.
                true if lease::is_from_file(&lease) => (cx.actor.worktree_id.clone(), cx.branch.clone()),
                true => {
                    let branch = branch.clone().or_else(|| lease.branch.clone());
                    (lease.worktree_id.clone(), branch)
                }
            };
            hand_on(draft, lease, to.clone(), worktree_id, branch, cx)?;
            clear_expired(draft, cx)?;
            Ok(Answer::Done)
        }
        Command::ForceEvict { target, reason } => {
            if cx.actor.agent_id.kind() == "agent" && !cx.policy.agents_may_evict {
                return Err(Refusal::new(
                    Code::NotAllowed,
                    format!(
                        "{} is an agent, and agents may not evict others here",
                        cx.actor.agent_id
                    ),
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
                reason: reason.clone(),
            })?;
            clear_expired(draft, cx)?;
            Ok(Answer::Done)
        }
        Command::CreateIssue(new) => decide_issues::create(draft, new, cx),
        Command::ChangeIssue {
            issue,
            change,
            strict,
        } => decide_issues::change(draft, issue, change, *strict, cx),
        Command::DeleteIssue { issue, strict } => decide_issues::delete(draft, issue, *strict, cx),
        Command::RestoreIssue { issue } => decide_issues::restore(draft, issue, cx),
        Command::Comment { issue, text } => decide_issues::comment(draft, issue, text, cx),
        Command::JudgeGate {
            issue,
            gate,
            passed,
            manual,
            tree,
            definition,
        } => {
            let result = GateResult {
                passed: *passed,
                manual: *manual,
                by: cx.actor.agent_id.clone(),
                at: cx.now.wall,
                tree: tree.clone(),
                definition: definition.clone(),
            };
            decide_issues::judge(draft, issue, gate, result, cx)
        }
        Command::JoinIssues(found) => decide_issues::join(draft, found, cx),
        Command::LockFiles { wants, queueing } => file_lock::take(draft, wants, queueing, cx),
        Command::KeepLocks => file_lock::keep(draft, cx),
        Command::ExtendLocks { which, ttl_secs } => file_lock::extend(draft, which, *ttl_secs, cx),
        Command::ReleaseLocks { which } => file_lock::release(draft, which, cx),
        Command::LeaveQueue { ticket } => file_lock::leave(draft, ticket),
        Command::CleanLocks { gone } => file_lock::clean_up(draft, gone, cx),
        Command::CreateUnit(new) => unit::create(draft, new, cx),
        Command::ChangeHands { unit, ended, begun } => unit::change_hands(draft, unit, ended, begun, cx),
        Command::AdvanceUnit { unit, input, facts } => unit::advance(draft, unit, *input, facts, cx),
        Command::StartWorkflow(new) => workflow::start(draft, new, cx),
        Command::LeadWorkflow { workflow, vacant } => workflow::lead(draft, workflow, *vacant, cx),
        Command::LeaveWorkflow { workflow } => workflow::leave(draft, workflow, cx),
        Command::CancelWorkflow { workflow } => workflow::cancel(draft, workflow, cx),
        Command::EndWorkflow { workflow, outcome } => workflow::end(draft, workflow, *outcome, cx),
        Command::ReopenWorkflow { workflow } => workflow::reopen(draft, workflow, cx),
        Command::ParkAccount(hit) => account::park(draft, hit, cx),
        Command::UnparkAccount { account } => account::unpark(draft, account, cx),
        Command::NoteConflicts(seen) => conflict::note(draft, seen, cx.now.wall),
        Command::StartSession(session) => session::start(draft, session),
        Command::EndSession { session, status } => session::end(draft, session, *status, cx),
        Command::PruneSessions { sessions } => session::prune(draft, sessions),
        Command::HonourLocks { there, gone } => decide_activities::honour(draft, there, gone, cx),
    }
}

/// What was asked for about a lease that may be granted.
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
) -> Result<Answer, Stop> {
    require_open(issue)?;
    let ttl_secs = cx
        .policy
        .ttl
        .resolve(terms.ttl_secs, &issue.kind, &cx.actor.agent_id)?;
    let resource = Resource::Issue(issue.id.clone());
    if let Some(lease) = live(draft, &resource.key(), cx)? {
        return if lease.held_by(&cx.actor) {
            Ok(Answer::Already(Reply::Lease {
                lease,
                existing: true,
                regranted: false,
            }))
        } else {
            Err(Refusal::held(&lease, &cx.now).into())
        };
    }
    decide_issues::require_performer(issue, cx)?;
    let outer = decide_activities::outer_lease(draft, issue, cx)?;
    decide_activities::require_no_rival_inside(draft, issue, cx)?;
    decide_issues::notice_obstacles(draft, issue)?;
    clear_expired(draft, cx)?;
    let lease = Lease {
        on_behalf_of: terms.on_behalf_of,
        note: terms.note,
        ..fresh_lease(draft, resource, ttl_secs, cx)
    };
    let lease = lease.within(outer.as_ref(), &cx.now);
    let work = decide_activities::claimed(draft, issue)?;
    draft.emit(Event::Acquired {
        lease,
        regranted: false,
    })?;
    if let Some(work) = work {
        draft.emit(work)?;
    }
    Ok(Answer::Done)
}

/// What is done or rejected is not worked on.
pub(crate) fn require_open(issue: &Issue) -> Result<(), Refusal> {
    if issue.state.is_closed() {
        return Err(
            Refusal::new(Code::Closed, format!("{} is {}", issue.id, issue.state))
                .help(format!("jit issue show {}", issue.id)),
        );
    }
    Ok(())
}

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

/// Whoever notices that a deadline has passed records it. Comes last in a command, so that a refusal writes nothing.
/// Returns how many there were.
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

struct Found {
    active: Option<Lease>,
    ended: Option<state::Ended>,
}

/// What `target` names now, and what it named last. A lease whose time is over is ended on the way, so that the answer
/// does not depend on whether somebody had noticed before.
fn find(draft: &mut Draft<'_>, target: &Target, cx: &Context) -> Result<Found, Stop> {
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
    Ok(Found { active, ended })
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
    if lease.agent_id == cx.actor.agent_id {
        let place = lease.worktree_id.as_ref().map_or("no worktree", |id| id.as_str());
        return refusal.help(format!(
            "run it in the worktree the lease was taken in: {place} (jit worktree list)"
        ));
    }
    // Agents are not told to do what they may not.
    if cx.actor.agent_id.kind() == "agent" && !cx.policy.agents_may_evict {
        refusal
    } else {
        refusal.help(format!("jit claim force-evict {} --reason <why>", lease.lease_id))
    }
}

fn require_obeys(lease: Lease, target: &Target, cx: &Context) -> Result<Lease, Refusal> {
    if lease.obeys(&cx.actor) {
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

fn renew(
    draft: &mut Draft<'_>,
    target: &Target,
    ttl_secs: Option<u64>,
    if_half_gone: bool,
    cx: &Context,
) -> Result<Answer, Stop> {
    let found = find(draft, target, cx)?;
    let (lease, over) = match (found.active, found.ended) {
        (Some(lease), _) => (require_obeys(lease, target, cx)?, false),
        (None, Some(ended)) if ended.how == End::Expired && ended.lease.obeys(&cx.actor) => {
            (ended.lease, true)
        }
        (None, Some(ended)) if ended.how != End::Expired && ended.lease.obeys(&cx.actor) => {
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
        return Ok(Answer::Already(Reply::Lease {
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
            Some(issue) => decide_activities::outer_lease(draft, &issue, cx)?,
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
    Ok(Answer::Done)
}

fn ended_word(how: End) -> &'static str {
    match how {
        End::Released => "released",
        End::Expired => "left to expire",
        End::Evicted => "taken away by an eviction",
        End::Transferred => "handed over",
    }
}
