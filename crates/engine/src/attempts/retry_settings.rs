//! Settings that an attempt takes over from earlier ones (G10).
//!
//! What must hold:
//!
//! - A unit is dispatched again with the settings of its last attempt, or else of its plan. A caller who dispatches
//!   by hand gives only the differences, and the reply lists the settings that were taken over.
//! - Settings that belong to one agent (program, model, tools, mode and account) are not taken over by another agent.
//! - A resumed session receives only what is new. A session whose model never answered may know nothing, and receives
//!   everything.

use std::path::Path;

use jit_agents::event::AgentEvent as Said;
use jit_agents::job::Job;
use jit_agents::prompt::MergeConflict as Conflict;
use jit_agents::runner::attempt;
use jit_core::model::failure_reason;
use jit_core::model::plan::{PlanUnit, Settings};
use jit_core::model::unit::Unit;
use jit_store::Outcome;

use crate::api::attempts::DispatchAsk;
use crate::api::path::ApiPath;
use crate::context::Context;
use crate::units::worktree_state::is_merging;

/// The knowledge of a resumed session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// It knows its task: the model has answered in it.
    pub task: bool,
    /// It has received exactly this prompt.
    pub words: bool,
}

/// Returns the job of the unit's last attempt. An ended unit of the same name may have left a job: that one is not
/// returned.
pub(crate) fn own_job(cx: &Context, unit: &Unit) -> Option<Job> {
    unit.worker.as_ref()?;
    attempt::job(&crate::units::service::attempt_folder(cx, &unit.id, unit.attempt)).ok()
}

pub(crate) fn planned(cx: &Context, unit: &Unit) -> Outcome<Option<PlanUnit>> {
    let Some(workflow) = &unit.workflow else {
        return Ok(None);
    };
    let workflow = crate::plans::lookup::find_workflow(cx, Some(workflow.as_str()))?;
    let plan = crate::plans::lookup::load_plan(cx, &workflow)?;
    let mut units = plan.units.into_iter();
    Ok(units.find(|planned| planned.id == unit.id.as_str()))
}

/// Returns the options of the previous attempt, or else those of the plan.
pub(crate) fn asked_before(cx: &Context, unit: &Unit, before: Option<&Job>) -> Outcome<DispatchAsk> {
    let plan = planned(cx, unit)?;
    let of_plan = match &plan {
        Some(planned) => DispatchAsk::of_plan(&unit.id, planned)?,
        None => DispatchAsk::default(),
    };
    let Some(job) = before else {
        return Ok(DispatchAsk {
            unit: Some(unit.id.to_string()),
            ..of_plan
        });
    };
    let mut run = Settings {
        agent: Some(job.agent.clone()),
        ..job.asked.clone()
    };
    // The job has a command line without its secrets; the plan has all of it.
    if run.command.as_deref().is_some_and(attempt::had_secrets) {
        run.command = of_plan.run.command.clone().or(run.command);
    }
    Ok(DispatchAsk {
        unit: Some(unit.id.to_string()),
        run,
        prompt: job.task.clone(),
        prompt_file: job.task_file.clone().map(ApiPath::from),
        artifacts: job.artifacts.clone(),
        validate: job.validate.clone(),
        writes: None,
        ..of_plan
    })
}

/// Combines the caller's options with the earlier ones. Also returns the names of the settings that were taken over.
pub(crate) fn over_before(
    cx: &Context,
    unit: &Unit,
    ask: &DispatchAsk,
) -> Outcome<(DispatchAsk, Vec<String>)> {
    let before = asked_before(cx, unit, own_job(cx, unit).as_ref())?;
    let says = ask.prompt.is_some() || ask.prompt_file.is_some();
    let (prompt, prompt_file) = match says {
        true => (ask.prompt.clone(), ask.prompt_file.clone()),
        false => (before.prompt, before.prompt_file),
    };
    let all = DispatchAsk {
        unit: ask.unit.clone(),
        run: ask.run.over(&before.run),
        prompt,
        prompt_file,
        again: ask.again,
        artifacts: before.artifacts,
        validate: before.validate,
        writes: ask.writes.clone().or(before.writes),
        handoffs: before.handoffs,
        project_id: before.project_id,
        force: ask.force,
    };
    let mut taken = taken_over(&ask.run, &all.run);
    let mut add = |name: &str, is_taken: bool| taken.extend(is_taken.then(|| name.to_owned()));
    add(
        "prompt",
        !says && (all.prompt.is_some() || all.prompt_file.is_some()),
    );
    let writes = all.writes.as_ref().unwrap_or(&unit.writes);
    add("writes", ask.writes.is_none() && !writes.is_empty());
    add("artifacts", !all.artifacts.is_empty());
    add("validate", !all.validate.is_empty());
    add("handoffs", !all.handoffs.from.is_empty());
    Ok((all, taken))
}

/// Returns the knowledge of the session that this job resumes.
pub(crate) fn memory(cx: &Context, unit: &Unit, job: &Job) -> Memory {
    let mut memory = Memory::default();
    let Some(resume) = &job.resume else {
        return memory;
    };
    for n in (1..=unit.attempt).rev() {
        let folder = crate::units::service::attempt_folder(cx, &unit.id, n);
        let Ok(before) = attempt::job(&folder) else {
            continue;
        };
        if in_session(&before, &folder, &resume.session) && has_answered(&folder) {
            memory.task = true;
            memory.words |= before.task == job.task && before.task_file == job.task_file;
        }
    }
    memory
}

/// Returns the conflict that a unit must resolve, if it has one.
pub(crate) fn conflict_of(unit: &Unit) -> Option<Conflict> {
    let begun = is_merging(Path::new(&unit.worktree_path));
    let last = unit.last_error.as_ref().map(|error| error.reason.as_str());
    let open = !unit.merge_conflicts.is_empty() && (begun || last == Some(failure_reason::CONFLICT));
    open.then(|| Conflict {
        paths: unit
            .merge_conflicts
            .iter()
            .map(|clash| clash.path.clone())
            .collect(),
        begun,
    })
}

/// Returns the names of the settings that the caller did not give.
fn taken_over(asked: &Settings, all: &Settings) -> Vec<String> {
    let named = |run: &Settings| match serde_json::to_value(run) {
        Ok(serde_json::Value::Object(map)) => map,
        _ => serde_json::Map::new(),
    };
    let asked = named(asked);
    let all = named(all).into_iter().map(|(name, _)| name);
    all.filter(|name| !asked.contains_key(name)).collect()
}

fn in_session(job: &Job, folder: &Path, session: &str) -> bool {
    let is_it = |id: Option<&str>| id == Some(session);
    is_it(job.session.as_deref())
        || is_it(job.resume.as_ref().map(|resume| resume.session.as_str()))
        || matches!(attempt::look(folder), Ok(attempt::Attempt::Ended(exit)) if is_it(exit.session_id.as_deref()))
}

/// Whether the model of an attempt said or did anything.
fn has_answered(folder: &Path) -> bool {
    let mut from = 0;
    while let Ok((lines, next)) = attempt::follow(folder, from) {
        let answers = |said: &Said| matches!(said, Said::Text { .. } | Said::Tool { .. });
        if lines.iter().any(|line| answers(&line.said)) {
            return true;
        }
        if next == from {
            break;
        }
        from = next;
    }
    false
}
