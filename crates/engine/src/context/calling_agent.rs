//! Finds the agent that calls jit, if the caller is an agent (A4, G4, L3). Every restricted command asks here.
//!
//! What must hold:
//!
//! - A process below the shim of an attempt is that attempt's agent, whatever its variables and flags say. If it is
//!   below two shims, the nearest counts.
//! - A process below one that is bound to an agent's session is an agent, even if it claims to be a person. So is a
//!   process that says so by its id, and one inside an agent program: its variables, those with which a process
//!   above it was started, or the program of one show that.
//! - Shims and bound processes are looked for in the usual control folder too, whatever `JIT_DIR` says. If the processes
//!   above cannot be read to the end, the caller is an agent.
//! - `JIT_UNIT` alone does not make a caller an agent: people have it from `jit worktree env`.
//! - An agent decides about its own unit, and units that it created, that were handed over to it or that are worked on
//!   for it (`require_may_decide`). It leads and cancels only workflows that it started.
//!
//! Limitations: this is a guard rail, not a fence. A process that an agent starts through another program (`cron`,
//! `at`, an existing terminal) is not below its shim, nor below its bound process. Neither is a process that was forked
//! twice (`setsid -f`), except below a shim on Linux, which adopts orphans while it lives. Such a process is still known
//! as an agent by its own variables, unless it removed them before. The same holds for a process in a process namespace
//! of its own.

use std::path::Path;

use jit_agents::runner::attempt;
use jit_core::log::state;
use jit_core::model::ids::{AgentId, UnitId};
use jit_core::model::lease::{Lease, Resource};
use jit_core::model::policy::Policy;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::Unit;
use jit_core::model::workflow::Workflow;
use jit_git::Place;
use jit_os::process::{self, ProcessRef};
use jit_store::{Outcome, View};

use super::{Context, Surroundings};
use crate::identity::{Whoami, process_binding as sessions};
use crate::refusals::refuse;

/// The calling agent, as its attempt identifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Working {
    pub unit: String,
    /// `None` if only a variable names the unit.
    pub worker: Option<AgentId>,
}

/// Returns the attempt that this process belongs to.
fn working(place: &Place) -> Option<Working> {
    let above = process::above().unwrap_or_default();
    let distance = |shim: ProcessRef| above.iter().position(|one| *one == shim);
    let folders = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let nearest = place
        .control_dirs()
        .flat_map(|control_dir| folders(&control_dir.join("units")))
        .flat_map(|unit| folders(&unit.path()))
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("attempt-"))
        .filter_map(|entry| Some((distance(attempt::shim(&entry.path())?)?, entry.path())))
        .min_by_key(|(far, _)| *far);
    if let Some((_, folder)) = nearest
        && let Ok(job) = attempt::job(&folder)
    {
        return Some(Working {
            unit: job.unit.to_string(),
            worker: Some(job.worker),
        });
    }
    let named = std::env::var("JIT_UNIT").ok()?;
    Some(Working {
        unit: named,
        worker: None,
    })
}

/// Returns the calling agent. `None`: the caller is a person, or a program that is no agent.
fn asking(place: &Place, whoami: &Whoami, says: &AgentId) -> Option<AgentId> {
    let worker = working(place).and_then(|working| working.worker);
    worker.or_else(|| asking_outside(place, whoami, says))
}

/// As [`asking`], without looking for a shim above this process.
fn asking_outside(place: &Place, whoami: &Whoami, says: &AgentId) -> Option<AgentId> {
    let is_agent = |id: &AgentId| id.kind() == "agent";
    if is_agent(says) {
        return Some(says.clone());
    }
    let bound = place.control_dirs().find_map(|dir| sessions::find(&dir));
    let bound = bound.map(|bound| bound.agent_id);
    let inside = || whoami.detected_agent.as_ref().map(|found| found.agent_id.clone());
    let known = bound.filter(is_agent).or_else(inside)?;
    // An agent cannot make itself a person, but it can have an id of another kind.
    match says.kind() {
        "human" => Some(known),
        _ => Some(says.clone()),
    }
}

impl Surroundings {
    /// Returns the calling agent, if there is one.
    pub fn asking_agent(&self) -> Option<AgentId> {
        asking(&self.place, &self.whoami, &self.whoami.agent_id)
    }
}

/// Returns the calling agent, if there is one.
pub(crate) fn asking_agent(cx: &Context) -> Option<AgentId> {
    asking(&cx.place, &cx.whoami, &cx.actor.agent_id)
}

/// Whether an agent asks, for commands that must stay cheap however many units there are: it does not look for a shim.
/// A process that a shim starts has variables that name its unit.
pub(crate) fn is_asked_by_agent(cx: &Context) -> bool {
    asking_outside(&cx.place, &cx.whoami, &cx.actor.agent_id).is_some()
}

/// Returns the policy with the caller's session and the sessions that are at work, if the caller's session is known: of
/// two live sessions of one agent only one holds a lease (B2).
pub(crate) fn with_sessions(cx: &Context, policy: &Policy) -> Option<Policy> {
    let control = &cx.place.control_dir;
    let own = sessions::find(control).filter(|bound| bound.agent_id == cx.actor.agent_id)?;
    let all = sessions::all(control).unwrap_or_default();
    Some(Policy {
        session: Some(own.session_id),
        live_sessions: all.into_iter().map(|bound| bound.session_id).collect(),
        ..policy.clone()
    })
}

/// Returns the unit whose agent is the caller.
pub(crate) fn working_in(cx: &Context) -> Option<Working> {
    working(&cx.place)
}

pub(crate) fn is_agent_of(cx: &Context, id: &UnitId) -> bool {
    working_in(cx).is_some_and(|own| own.unit == id.as_str())
}

/// Whether the caller decides about the unit: a person decides about any, an agent only about its own and those that it
/// created or that are worked on for it.
pub(crate) fn may_decide(cx: &Context, view: &View, unit: &Unit) -> Outcome<bool> {
    match asking_agent(cx) {
        Some(agent) => is_unit_of(cx, view, unit, &agent),
        None => Ok(true),
    }
}

/// Whether the unit is this calling agent's.
pub(crate) fn is_unit_of(cx: &Context, view: &View, unit: &Unit, agent: &AgentId) -> Outcome<bool> {
    let below_its_shim =
        || working_in(cx).is_some_and(|own| own.worker.is_some() && own.unit == unit.id.as_str());
    if unit.created_by == *agent || unit.worker.as_ref() == Some(agent) || below_its_shim() {
        return Ok(true);
    }
    // The unit was handed over, or another caller works on it for the agent.
    Ok(lease_on(view, unit)?.is_some_and(|lease| {
        let holds = lease.agent_id == *agent && lease.worktree_id == unit.worktree_id;
        holds || lease.on_behalf_of.as_ref() == Some(agent)
    }))
}

/// Returns the lease on the unit's issue.
fn lease_on(view: &View, unit: &Unit) -> Outcome<Option<Lease>> {
    let Some(issue) = &unit.issue_id else {
        return Ok(None);
    };
    let lease = state::lease_on(&*view.table, &Resource::Issue(issue.clone()).key());
    let lease = lease.map_err(|e| refuse(Code::Io, e))?;
    Ok(lease.filter(|lease| !lease.expired(&view.now)))
}

/// Refuses an agent that would decide about the unit of somebody else. Every request that decides about a unit asks here:
/// finish (also `--pr`), merge, dispatch, retry, stop, handoff, cleanup and abandon. `command` is what its owner may run.
pub(crate) fn require_may_decide(cx: &Context, view: &View, unit: &Unit, command: &str) -> Outcome<()> {
    let Some(agent) = asking_agent(cx) else {
        return Ok(());
    };
    if is_unit_of(cx, view, unit, &agent)? {
        return Ok(());
    }
    let (id, owner) = (&unit.id, &unit.created_by);
    let message = format!("an agent decides only about its own units, and {id} is a unit of {owner}");
    let refusal = match lease_on(view, unit)? {
        Some(lease) if lease.agent_id != agent => Refusal::new(Code::NotHolder, message).help(format!(
            "ask {} to run: jit claim transfer {} --to {agent}",
            lease.agent_id, lease.lease_id
        )),
        _ => Refusal::new(Code::NotAllowed, message),
    };
    Err(Box::new(
        refusal.help(format!("ask {owner} to run: {command} {id}")),
    ))
}

/// Refuses an agent that would lead or cancel a workflow that it did not start: leading it lands units.
pub(crate) fn require_may_lead(cx: &Context, workflow: &Workflow) -> Outcome<()> {
    let Some(agent) = asking_agent(cx).filter(|agent| *agent != workflow.created_by) else {
        return Ok(());
    };
    let (id, owner) = (&workflow.id, &workflow.created_by);
    let message = format!("{agent} is an agent, and the workflow {id} was started by {owner}");
    Err(Box::new(
        Refusal::new(Code::NotAllowed, message).help(format!("ask {owner} to run: jit workflow resume {id}")),
    ))
}
