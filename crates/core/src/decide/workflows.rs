//! Decisions about workflows: start, lead, cancel, end and reopen one.
//!
//! What must hold:
//!
//! - at most one coordinator leads a workflow: leadership is a lease, acquired by another only when it has expired or its
//!   holder is known to be dead;
//! - a workflow that has ended is not led again, unless it is reopened because there is more that can be done.

use crate::decide::command::{CommandReply, Context};
use crate::decide::draft::{Decision, Draft};
use crate::decide::leases::{clear_expired, deadline, finish, fresh_lease, let_go, live};
use crate::log::event::Event;
use crate::log::state;
use crate::log::stop::Stop;
use crate::log::table::Table;
use crate::model::ids::WorkflowId;
use crate::model::lease::{Lease, Resource};
use crate::model::refusal::{Code, Refusal};
use crate::model::workflow::{NewWorkflow, Workflow, WorkflowAction, WorkflowOutcome};

/// How long leadership lasts without a renewal.
pub const LEAD_SECS: u64 = 60;

/// The workflow of that name.
pub fn require(table: &dyn Table, id: &WorkflowId) -> Result<Workflow, Stop> {
    state::workflow(table, id)?.ok_or_else(|| {
        Refusal::new(Code::NotFound, format!("no workflow is called {id}"))
            .help("jit workflow list")
            .into()
    })
}

/// Begins a workflow, led by whoever asks.
pub fn start(draft: &mut Draft<'_>, new: &NewWorkflow, cx: &Context) -> Result<Decision, Stop> {
    if let Some(other) = state::workflow(draft.state(), &new.id)? {
        return Err(Refusal::new(
            Code::Exists,
            format!("there is a workflow {} already, it is {}", new.id, other.status),
        )
        .help(format!("jit workflow status {}", new.id))
        .into());
    }
    for id in &new.units {
        if let Some(unit) = state::unit(draft.state(), id)?.filter(|unit| !unit.is_over()) {
            return Err(Refusal::new(
                Code::Exists,
                format!(
                    "the plan has a unit {id}, and there is one of that name, which is {}",
                    unit.state
                ),
            )
            .help(format!("jit worktree status {id}"))
            .into());
        }
    }
    let workflow = Workflow {
        id: new.id.clone(),
        target: new.target.clone(),
        plan: new.plan.clone(),
        units: new.units.clone(),
        status: WorkflowOutcome::Running,
        cancelling: false,
        created_by: cx.actor.agent_id.clone(),
        created_at: cx.now.wall,
        ended_at: None,
    };
    draft.emit(Event::Workflow {
        did: WorkflowAction::Started,
        workflow: Box::new(workflow),
    })?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

/// Takes or keeps the leadership.
pub fn lead(draft: &mut Draft<'_>, id: &WorkflowId, vacant: bool, cx: &Context) -> Result<Decision, Stop> {
    let workflow = require(draft.state(), id)?;
    if workflow.is_over() {
        return Err(Refusal::new(
            Code::BadTransition,
            format!("the workflow {id} is over: it {}", workflow.status.told()),
        )
        .help(format!("jit workflow status {id}"))
        .into());
    }
    let resource = Resource::Workflow(id.clone());
    match live(draft, &resource.key(), cx)? {
        Some(lease) if lease.held_by(&cx.actor) && !vacant => {
            if lease.remaining_ms(&cx.now) > lease.ttl_secs.saturating_mul(1000) / 2 {
                return Ok(Decision::Already(CommandReply::Led(lease)));
            }
            let renewed = Lease {
                expires_at: cx.now.wall.plus_secs(lease.ttl_secs),
                deadline: deadline(cx, lease.ttl_secs),
                ..lease
            };
            draft.emit(Event::Renewed { lease: renewed })?;
            return Ok(Decision::Done);
        }
        Some(lease) if vacant => {
            let by = cx.actor.agent_id.clone();
            finish(draft, &lease, &|lease| Event::ForceEvicted {
                lease,
                by: by.clone(),
                reason: "its coordinator is dead".to_owned(),
            })?;
        }
        Some(lease) => {
            return Err(Refusal::held(&lease, &cx.now)
                .help(format!("jit workflow status {id}"))
                .into());
        }
        None => {}
    }
    let lease = fresh_lease(draft, resource, LEAD_SECS, cx);
    draft.emit(Event::Acquired {
        lease,
        regranted: false,
    })?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

/// Lets go of the leadership, if it is the caller's.
pub fn leave(draft: &mut Draft<'_>, id: &WorkflowId, cx: &Context) -> Result<Decision, Stop> {
    let workflow = require(draft.state(), id)?;
    let lease = state::lease_on(draft.state(), &Resource::Workflow(id.clone()).key())?;
    match lease.filter(|lease| lease.held_by(&cx.actor)) {
        Some(lease) => {
            let_go(draft, &lease, &cx.actor.agent_id)?;
            Ok(Decision::Done)
        }
        None => Ok(Decision::Already(CommandReply::Workflow(Box::new(workflow)))),
    }
}

/// It is to end. Whoever leads it, or comes to lead it, stops its agents and ends it.
pub fn cancel(draft: &mut Draft<'_>, id: &WorkflowId, cx: &Context) -> Result<Decision, Stop> {
    let mut workflow = require(draft.state(), id)?;
    if workflow.is_over() || workflow.cancelling {
        return Ok(Decision::Already(CommandReply::Workflow(Box::new(workflow))));
    }
    workflow.cancelling = true;
    draft.emit(Event::Workflow {
        did: WorkflowAction::Cancelling,
        workflow: Box::new(workflow),
    })?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

/// Ends a workflow. Asked again it is no error.
pub fn end(
    draft: &mut Draft<'_>,
    id: &WorkflowId,
    outcome: WorkflowOutcome,
    cx: &Context,
) -> Result<Decision, Stop> {
    let mut workflow = require(draft.state(), id)?;
    if workflow.is_over() {
        return Ok(Decision::Already(CommandReply::Workflow(Box::new(workflow))));
    }
    if let Some(lease) = state::lease_on(draft.state(), &Resource::Workflow(id.clone()).key())? {
        let_go(draft, &lease, &cx.actor.agent_id)?;
    }
    workflow.status = outcome;
    workflow.ended_at = Some(cx.now.wall);
    draft.emit(Event::Workflow {
        did: WorkflowAction::Ended,
        workflow: Box::new(workflow),
    })?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}

/// It goes on, after it ended before all was done. What is still to be done is for the caller to know.
pub fn reopen(draft: &mut Draft<'_>, id: &WorkflowId, cx: &Context) -> Result<Decision, Stop> {
    let mut workflow = require(draft.state(), id)?;
    match workflow.status {
        WorkflowOutcome::Running => return Ok(Decision::Already(CommandReply::Workflow(Box::new(workflow)))),
        WorkflowOutcome::Completed => {
            return Err(Refusal::new(
                Code::BadTransition,
                format!("the workflow {id} is over: it {}", workflow.status.told()),
            )
            .help(format!("jit workflow status {id}"))
            .into());
        }
        WorkflowOutcome::Failed | WorkflowOutcome::Cancelled => {}
    }
    workflow.status = WorkflowOutcome::Running;
    workflow.cancelling = false;
    workflow.ended_at = None;
    draft.emit(Event::Workflow {
        did: WorkflowAction::Reopened,
        workflow: Box::new(workflow),
    })?;
    clear_expired(draft, cx)?;
    Ok(Decision::Done)
}
