//! Finds the agent that calls jit, if the caller is an agent (A4, G4).
//!
//! What must hold:
//!
//! - A process below the shim of an attempt is that attempt's agent, whatever its variables and flags say. If it is
//!   below two shims, the nearest counts.
//! - A process below one that is bound to an agent's session is an agent, even if it claims to be a person. So is a
//!   process whose `JIT_AGENT_ID` names an agent.
//! - `JIT_UNIT` and the id of the caller are used only if none of that applies. `JIT_UNIT` alone does not make a
//!   caller an agent: people have it from `jit worktree env`.
//!
//! Limitations: this is a guard rail, not a fence. A process that an agent starts through another program (`cron`,
//! `at`, an existing terminal) is not below its shim. A process that was forked twice is not below its shim either,
//! where orphans are not adopted (on systems other than Linux). On Linux the shim adopts orphans while it lives.

use std::path::Path;

use jit_agents::runner::attempt;
use jit_core::model::ids::{AgentId, UnitId};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::Unit;
use jit_os::process::{self, ProcessRef};
use jit_store::Outcome;

use super::{Context, Surroundings};
use crate::identity::process_binding as sessions;

/// The calling agent, as its attempt identifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Working {
    pub unit: String,
    /// `None` if only a variable names the unit.
    pub worker: Option<AgentId>,
}

/// Returns the attempt that this process belongs to.
fn working(control_dir: &Path) -> Option<Working> {
    let above = process::ancestors(std::process::id()).unwrap_or_default();
    let distance = |shim: ProcessRef| above.iter().position(|one| *one == shim);
    let folders = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let nearest = folders(&control_dir.join("units"))
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
fn asking(control_dir: &Path, says: &AgentId) -> Option<AgentId> {
    let is_agent = |id: &AgentId| id.kind() == "agent";
    if let Some(worker) = working(control_dir).and_then(|working| working.worker) {
        return Some(worker);
    }
    if is_agent(says) {
        return Some(says.clone());
    }
    // A process that was started as an agent stays one, whatever its flags say.
    let started = std::env::var("JIT_AGENT_ID").ok();
    if let Some(id) = started.and_then(|id| id.parse().ok()).filter(is_agent) {
        return Some(id);
    }
    let bound = sessions::find(control_dir).map(|bound| bound.agent_id);
    bound.filter(is_agent)
}

impl Surroundings {
    /// Returns the calling agent, if there is one.
    pub fn asking_agent(&self) -> Option<AgentId> {
        asking(&self.place.control_dir, &self.whoami.agent_id)
    }
}

/// Returns the calling agent, if there is one.
pub(crate) fn asking_agent(cx: &Context) -> Option<AgentId> {
    asking(&cx.place.control_dir, &cx.actor.agent_id)
}

/// Returns the unit whose agent is the caller.
pub(crate) fn working_in(cx: &Context) -> Option<Working> {
    working(&cx.place.control_dir)
}

pub(crate) fn is_agent_of(cx: &Context, id: &UnitId) -> bool {
    working_in(cx).is_some_and(|own| own.unit == id.as_str())
}

/// Refuses an agent that was started in one unit and acts on another unit, except on units that it created.
pub(crate) fn require_not_of_another(cx: &Context, unit: &Unit) -> Outcome<()> {
    let id = &unit.id;
    match working_in(cx) {
        Some(own) if own.unit != id.as_str() && own.worker.as_ref() != Some(&unit.created_by) => {
            let message = format!("you work in {}, and {id} is somebody else's", own.unit);
            Err(Box::new(
                Refusal::new(Code::NotAllowed, message)
                    .help("say in your last message what should happen to it"),
            ))
        }
        _ => Ok(()),
    }
}
