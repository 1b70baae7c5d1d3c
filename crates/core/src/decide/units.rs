//! Decisions about units: create one, and move it along its table ([`crate::model::unit::TRANSITIONS`]).
//!
//! What must hold:
//!
//! - two units that are not at their end never share a name, a path or a branch;
//! - a unit for an issue holds that issue: the claim is acquired with the unit and moves into its worktree with it, to the
//!   agent when one is started, and back when that ends;
//! - attempts are counted and never used twice, not even by a later unit of the same name: each is one agent, once;
//! - no agent is started on an account that is parked, unless the caller insists;
//! - an agent whose account was refused parks that account with its end, and its unit goes on later without using up a retry;
//! - retries are bounded, but not those of a person who committed something since the last failure; a unit that failed for
//!   another reason than a conflict is not merged again without a retry.

use crate::decide::accounts;
use crate::decide::claims::{Terms, acquire};
use crate::decide::command::Context;
use crate::decide::draft::{Decision, Draft};
use crate::decide::leases::{clear_expired, hand_on, let_go};
use crate::log::event::Event;
use crate::log::state;
use crate::log::stop::Stop;
use crate::log::table::{Read, Table};
use crate::model::account::{self, Hit};
use crate::model::cost::Tokens;
use crate::model::failure_reason::CONFLICT;
use crate::model::ids::UnitId;
use crate::model::lease::{Lease, Resource};
use crate::model::refusal::{Code, Refusal};
use crate::model::unit::{Facts, MergeStatus, NewUnit, Phase, Unit, UnitInput, moved, step, was_refused};

/// The unit of that name.
pub fn require(table: &dyn Table, id: &UnitId) -> Result<Unit, Stop> {
    state::unit(table, id)?.ok_or_else(|| {
        Refusal::new(Code::NotFound, format!("no unit is called {id}"))
            .help("jit worktree status")
            .into()
    })
}

fn taken(what: &str, other: &Unit) -> Refusal {
    Refusal::new(
        Code::Exists,
        format!(
            "{what} belongs to the unit {}, which is {}",
            other.id, other.state
        ),
    )
    .help(format!("jit worktree status {}", other.id))
}

/// T1: takes the name, the path, the branch and the issue for a unit, all at once.
pub fn create(draft: &mut Draft<'_>, new: &NewUnit, cx: &Context) -> Result<Decision, Stop> {
    let all = state::units(draft.state())?;
    let mut used = Vec::new();
    for other in all.iter().filter(|unit| !unit.is_over()) {
        if other.id == new.id {
            return Err(taken(&format!("the name {}", new.id), other).into());
        }
        if other.worktree_path == new.worktree_path {
            return Err(taken(&format!("the path {}", new.worktree_path), other).into());
        }
        if other.branch == new.branch {
            return Err(taken(&format!("the branch {}", new.branch), other).into());
        }
        used.push(other.slot);
    }
    // Files of attempts are kept under the unit's name: an earlier one's are not written over.
    let attempt = all
        .iter()
        .find(|unit| unit.id == new.id)
        .map_or(0, |unit| unit.attempt);
    let slot = (0..).find(|slot| !used.contains(slot)).unwrap_or(0);
    let mut issue_id = None;
    if let Some(named) = &new.issue {
        let issue = state::resolve(draft.state(), named)?;
        let terms = Terms {
            ttl_secs: new.ttl_secs,
            note: Some(format!("unit {}", new.id)),
            on_behalf_of: None,
        };
        // Holding it already, here, is fine: the claim moves along.
        acquire(draft, &issue, terms, cx)?;
        issue_id = Some(issue.id);
    }
    let unit = Unit {
        id: new.id.clone(),
        agent: None,
        state: Phase::Provisioning,
        worktree_path: new.worktree_path.clone(),
        branch: new.branch.clone(),
        target: new.target.clone(),
        base: new.base.clone(),
        issue_id,
        project_id: None,
        worktree_id: None,
        created_at: cx.now.wall,
        created_by: cx.actor.agent_id.clone(),
        provisioning_time_ms: None,
        pid: None,
        session_id: None,
        dispatch_time: None,
        start_time: None,
        completion_time: None,
        cost_usd: None,
        duration_ms: None,
        retry_count: 0,
        artifacts: Vec::new(),
        error: None,
        merge_status: MergeStatus::Pending,
        merge_attempt_time: None,
        merge_commit: None,
        tested: Vec::new(),
        lease_id: None,
        merge_conflicts: Vec::new(),
        conflict_rounds: 0,
        slot,
        abandoned: None,
        workflow: new.workflow.clone(),
        attempt,
        worker: None,
        tokens: Tokens::default(),
        turns: 0,
        account: None,
        limited_since: None,
        last_error: None,
        failed_tip: None,
        failed_onto: None,
        landing_on: None,
        landing_tip: None,
        writes: Vec::new(),
        handoffs: Vec::new(),
        updated_at: cx.now.wall,
    };
    draft.emit(Event::Unit {
        input: UnitInput::CreateWorktree,
        unit: Box::new(unit),
    })?;
    Ok(Decision::Done)
}

/// Why that cannot happen to a unit, for people.
fn why_not(state: Phase, input: UnitInput) -> &'static str {
    match (input, state) {
        (
            UnitInput::RetryDispatch,
            Phase::Ready | Phase::Completed | Phase::Merged | Phase::Cleanup | Phase::Idle,
        ) => "only what has failed is tried again",
        (UnitInput::DispatchInstance, _) => "an agent is started in a unit that is READY",
        (UnitInput::Abandon, Phase::Dispatched | Phase::Running) => {
            "its agent has to end before it is given up"
        }
        (UnitInput::Abandon, Phase::Provisioning) => {
            "its worktree is being made, so it cannot be given up yet"
        }
        (_, Phase::Merging) => "its landing has begun, and comes to its end first",
        (UnitInput::Abandon, _) => "there is nothing to give up",
        (UnitInput::BeginMerge, _) => "only what is done lands",
        (UnitInput::BeginCleanup, _) => "only what has landed is removed",
        _ => "somebody else has moved it meanwhile",
    }
}

/// Moves a unit along the table.
pub fn advance(
    draft: &mut Draft<'_>,
    id: &UnitId,
    input: UnitInput,
    facts: &Facts,
    cx: &Context,
) -> Result<Decision, Stop> {
    let before = require(draft.state(), id)?;
    let Some(edge) = step(before.state, input) else {
        return Err(no_such_edge(&before, input).into());
    };
    if let Some(path) = &facts.worktree_path {
        let all = state::units(draft.state())?;
        if let Some(other) = all
            .iter()
            .find(|unit| !unit.is_over() && unit.id != *id && unit.worktree_path == *path)
        {
            return Err(taken(&format!("the path {path}"), other).into());
        }
    }
    match edge.input {
        UnitInput::BeginMerge => require_mended(&before)?,
        UnitInput::RetryDispatch => require_retry(&before, facts)?,
        UnitInput::DispatchInstance => require_dispatch(draft.state(), &before, facts, cx)?,
        _ => {}
    }
    let unit = moved(before, edge, facts, cx.now.wall);
    move_claim(draft, &unit, input, cx)?;
    if let (true, Some(refused), Some(account)) = (was_refused(&unit), &facts.refused, &unit.account) {
        let hit = Hit {
            account: account.clone(),
            until: refused.until,
            why: unit
                .error
                .as_ref()
                .map_or_else(String::new, |e| e.message.clone()),
            unit: Some(unit.id.clone()),
            attempt: unit.attempt,
            backoff_ms: refused.backoff_ms,
            waits: false,
        };
        accounts::park(draft, &hit, cx)?;
    }
    draft.emit(Event::Unit {
        input,
        unit: Box::new(unit),
    })?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

fn no_such_edge(unit: &Unit, input: UnitInput) -> Refusal {
    let id = &unit.id;
    let message = format!("{id} is {}: {}", unit.state, why_not(unit.state, input));
    let refusal = Refusal::new(Code::BadTransition, message);
    let refusal = match (unit.state, input) {
        (Phase::Dispatched | Phase::Running, UnitInput::Abandon) => {
            refusal.help(format!("jit worktree stop {id}"))
        }
        (Phase::Provisioning, _) => refusal.help(format!("jit worktree retry {id}")),
        (Phase::Merging, _) => refusal.help(format!("jit worktree merge {id}")),
        _ => refusal,
    };
    refusal.help(format!("jit worktree status {id}"))
}

/// A unit that failed merges again only when a conflict was the reason; every other failure needs a retry first.
fn require_mended(unit: &Unit) -> Result<(), Refusal> {
    let reason = unit.error.as_ref().map(|error| error.reason.as_str());
    if unit.state != Phase::Failed || reason == Some(CONFLICT) {
        return Ok(());
    }
    let refusal = Refusal::new(
        Code::BadTransition,
        format!(
            "{} failed ({}): mend it and try again first",
            unit.id,
            reason.unwrap_or("unknown")
        ),
    );
    Err(unit.after_failure().iter().fold(refusal, Refusal::help))
}

/// Retries are bounded, but not those of a person who committed something since the last failure.
fn require_retry(unit: &Unit, facts: &Facts) -> Result<(), Refusal> {
    if unit.may_be_retried() || unit.is_mended(facts.tip.as_deref(), facts.onto.as_deref()) {
        return Ok(());
    }
    let since = match (unit.is_by_hand(), &unit.failed_onto) {
        (true, Some(_)) => format!(", and nothing was committed in it or on {} since", unit.goes_to()),
        (true, None) => ", and nothing was committed in it since".to_owned(),
        (false, _) => String::new(),
    };
    let refusal = Refusal::new(
        Code::NotAllowed,
        format!(
            "{} was tried {} times already{since}",
            unit.id,
            unit.retry_count + 1
        ),
    );
    Err(unit.after_failure().iter().fold(refusal, Refusal::help))
}

/// No agent is started in a workflow that is being cancelled, nor on an account that is parked, unless the caller insists.
fn require_dispatch(table: &dyn Table, unit: &Unit, facts: &Facts, cx: &Context) -> Result<(), Stop> {
    if let Some(id) = &unit.workflow
        && let Some(_) =
            state::workflow(table, id)?.filter(|workflow| workflow.cancelling && !workflow.is_over())
    {
        return Err(Refusal::new(
            Code::NotAllowed,
            format!(
                "{} is part of the workflow {id}, which is being cancelled",
                unit.id
            ),
        )
        .help(format!("jit workflow status {id}"))
        .into());
    }
    if !facts.despite_parked
        && let Some(account) = &facts.account
        && let Some(known) = state::account(table, account)?
        && let Some(until) = known.parked(cx.now.wall)
    {
        let force = format!("jit worktree dispatch {} --force", unit.id);
        return Err(account::refusal(&known, until, cx.now.wall, force).into());
    }
    Ok(())
}

/// The claim on a unit's issue goes along with the unit.
fn move_claim(draft: &mut Draft<'_>, unit: &Unit, input: UnitInput, cx: &Context) -> Result<(), Stop> {
    match input {
        UnitInput::ProvisioningComplete => follow(draft, unit, cx)?,
        UnitInput::DispatchInstance => hand_over(draft, unit, cx)?,
        UnitInput::SpawnFailed
        | UnitInput::InstanceCompleted
        | UnitInput::InstanceTimeout
        | UnitInput::InstanceFailed => take_back(draft, unit, cx)?,
        _ => {}
    }
    if unit.is_over() || input == UnitInput::Abandon {
        give_back(draft, unit, cx)?;
    }
    Ok(())
}

/// One agent goes and another comes, in one transaction: nobody sees the unit without one, nor its claim. It is not a try
/// that failed, so it does not count as one.
pub fn change_hands(
    draft: &mut Draft<'_>,
    id: &UnitId,
    ended: &Facts,
    begun: &Facts,
    cx: &Context,
) -> Result<Decision, Stop> {
    let before = require(draft.state(), id)?;
    let tries = before.retry_count;
    if matches!(before.state, Phase::Dispatched | Phase::Running) {
        advance(draft, id, UnitInput::InstanceFailed, ended, cx)?;
    }
    let mut unit = require(draft.state(), id)?;
    if unit.state == Phase::Failed {
        let Some(edge) = step(unit.state, UnitInput::RetryDispatch) else {
            unreachable!("what failed can be tried again")
        };
        unit = moved(unit, edge, &Facts::default(), cx.now.wall);
        unit.retry_count = tries;
        draft.emit(Event::Unit {
            input: UnitInput::RetryDispatch,
            unit: Box::new(unit),
        })?;
    }
    advance(draft, id, UnitInput::DispatchInstance, begun, cx)
}

/// The claim on a unit's issue, if whoever made the unit still has it.
fn claim(table: &dyn Table, unit: &Unit) -> Read<Option<Lease>> {
    let Some(issue) = &unit.issue_id else {
        return Ok(None);
    };
    let lease = state::lease_on(table, &Resource::Issue(issue.clone()).key())?;
    Ok(lease
        .filter(|lease| lease.agent_id == unit.created_by || unit.worker.as_ref() == Some(&lease.agent_id)))
}

/// The claim goes to the agent that is started. Without one it is taken first: nobody works on what another may have.
fn hand_over(draft: &mut Draft<'_>, unit: &Unit, cx: &Context) -> Result<(), Stop> {
    let (Some(worker), Some(issue)) = (&unit.worker, &unit.issue_id) else {
        return Ok(());
    };
    if claim(draft.state(), unit)?.is_none_or(|lease| lease.expired(&cx.now)) {
        let issue = state::issue(draft.state(), issue)?.ok_or_else(|| {
            Refusal::new(Code::NotFound, format!("the issue of {} is gone", unit.id))
                .help(format!("jit worktree abandon {} --reason <why>", unit.id))
        })?;
        let terms = Terms {
            ttl_secs: None,
            note: Some(format!("unit {}", unit.id)),
            on_behalf_of: None,
        };
        acquire(draft, &issue, terms, cx)?;
    }
    // The caller is not necessarily the creator of the unit, but holds the claim by now.
    let key = Resource::Issue(issue.clone()).key();
    if let Some(mut lease) = state::lease_on(draft.state(), &key)? {
        lease.on_behalf_of = Some(unit.created_by.clone());
        let branch = Some(unit.branch.clone());
        hand_on(draft, lease, worker.clone(), unit.worktree_id.clone(), branch, cx)?;
    }
    Ok(())
}

/// The claim comes back from the agent when it has ended.
fn take_back(draft: &mut Draft<'_>, unit: &Unit, cx: &Context) -> Result<(), Stop> {
    let lease = claim(draft.state(), unit)?.filter(|lease| unit.worker.as_ref() == Some(&lease.agent_id));
    if let Some(mut lease) = lease {
        lease.on_behalf_of = None;
        let branch = Some(unit.branch.clone());
        let owner = unit.created_by.clone();
        hand_on(draft, lease, owner, unit.worktree_id.clone(), branch, cx)?;
    }
    Ok(())
}

/// The claim goes where the work is.
fn follow(draft: &mut Draft<'_>, unit: &Unit, cx: &Context) -> Result<(), Stop> {
    let Some(lease) = claim(draft.state(), unit)?.filter(|lease| lease.worktree_id != unit.worktree_id)
    else {
        return Ok(());
    };
    let (agent, branch) = (lease.agent_id.clone(), Some(unit.branch.clone()));
    hand_on(draft, lease, agent, unit.worktree_id.clone(), branch, cx)
}

/// A unit that ends, or is given up, holds nothing.
fn give_back(draft: &mut Draft<'_>, unit: &Unit, cx: &Context) -> Result<(), Stop> {
    if let Some(lease) = claim(draft.state(), unit)? {
        let_go(draft, &lease, &cx.actor.agent_id)?;
    }
    Ok(())
}
