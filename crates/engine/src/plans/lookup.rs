//! Finds workflows and their plans, and checks whether a workflow has a living coordinator.

use std::path::{Path, PathBuf};

use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::decide::workflows;
use jit_core::log::state;
use jit_core::model::ids::WorkflowId;
use jit_core::model::plan::Plan;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::workflow::Workflow;
use jit_os::file;
use jit_store::Outcome;

use crate::context::Context;

use crate::plans;
use crate::refusals::{refuse, stopped};
use crate::write_path::WriteOptions;

/// Whether the coordinator of a workflow lives. If that cannot be checked, it counts as alive.
pub(crate) fn is_led(folder: &Path) -> bool {
    file::is_locked(&folder.join(LOCK)).unwrap_or(true)
}

pub(crate) fn workflow_folder(cx: &Context, id: &WorkflowId) -> PathBuf {
    plans::folder(&cx.place.control_dir, id)
}

pub(crate) fn about_workflow(cx: &Context, command: &Command) -> Outcome<Workflow> {
    match crate::write_path::transact_as(cx, None, command, WriteOptions::default())?.reply {
        Decided::Workflow(workflow) => Ok(*workflow),
        _ => Err(Box::new(Refusal::bug("a workflow in the reply of the log"))),
    }
}

pub(crate) fn load_plan(cx: &Context, workflow: &Workflow) -> Outcome<Plan> {
    plans::kept(&cx.place.control_dir, &workflow.id, &workflow.plan)
}

/// Finds a workflow by name. Without a name: the only running one, or else the last one.
pub fn find_workflow(cx: &Context, named: Option<&str>) -> Outcome<Workflow> {
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    if let Some(name) = named {
        let id: WorkflowId = name.parse().map_err(|e| refuse(Code::Invalid, format!("{e}")))?;
        return workflows::require(&*view.table, &id).map_err(stopped);
    }
    let mut all = state::workflows(&*view.table).map_err(unreadable)?;
    all.sort_by_key(|one| (!one.is_over(), one.created_at));
    let running: Vec<&Workflow> = all.iter().filter(|one| !one.is_over()).collect();
    if running.len() > 1 {
        let names: Vec<&str> = running.iter().map(|one| one.id.as_str()).collect();
        return Err(Box::new(
            Refusal::new(Code::Invalid, format!("more than one runs: {}", names.join(", ")))
                .help("jit workflow status <workflow>"),
        ));
    }
    all.pop()
        .ok_or_else(|| Box::new(Refusal::new(Code::NotFound, "there is no workflow").help("jit run --ready")))
}

/// Kernel lock in the workflow's folder, held while its coordinator lives.
pub(crate) const LOCK: &str = "coordinator.lock";
