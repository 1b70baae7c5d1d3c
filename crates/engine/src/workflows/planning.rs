//! Loads the plan of a workflow, or makes one of the issues that are ready, with what is announced before it starts.

use std::collections::BTreeSet;
use std::path::PathBuf;

use jit_agents as agents;
use jit_core::model::ids::IssueId;
use jit_core::model::plan::{Plan, Settings};
use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

use crate::api::issues::{IssueReply, Issues};
use crate::api::path::ApiPath;
use crate::api::workflows::{PlanAsk, PlannedAgent, PlannedWorkflow, WorkflowReply};
use crate::api::{Answer, Reply};
use crate::attempts::dispatch::{cautions, run_settings};
use crate::context::{Context, plain};
use crate::plans;

/// Returns the plan, the settings of each agent and the cautions about them.
pub(crate) fn plan(cx: &Context, ask: &PlanAsk) -> Outcome<Answer> {
    let config = run_settings(cx);
    let mut plan = match &ask.file {
        Some(file) => of_file(cx, file, &ask.run)?,
        None => of_ready(cx, ask.limit)?,
    };
    plan.run = ask.run.over(&plan.run);
    if let Some(max) = ask.max {
        plan.max_concurrent = max;
    }
    let units: Vec<PlannedAgent> = plan
        .units
        .iter()
        .map(|unit| PlannedAgent {
            unit: unit.id.clone(),
            settings: plan.settings(unit, &config),
        })
        .collect();
    let all: BTreeSet<String> = units
        .iter()
        .flat_map(|unit| cautions(cx, &unit.settings))
        .collect();
    let planned = PlannedWorkflow {
        plan,
        units,
        cautions: all.into_iter().collect(),
    };
    Ok(plain(cx, WorkflowReply::Planned(Box::new(planned)).into()))
}

fn of_file(cx: &Context, file: &ApiPath, run: &Settings) -> Outcome<Plan> {
    // The path is kept as the caller wrote it, because messages about the plan show it.
    let path = match &cx.options.dir {
        Some(dir) => dir.join(file),
        None => PathBuf::from(file.as_path()),
    };
    plans::load_for(&path, &run_settings(cx), agents::NAMES, &|plan| {
        // Settings of the caller override the settings of the plan.
        let plan = Plan {
            run: run.over(&plan.run),
            ..plan.clone()
        };
        super::service::lacks(cx, &plan)
    })
}

fn of_ready(cx: &Context, limit: Option<usize>) -> Outcome<Plan> {
    let ready = crate::issues::issue_lists::ready(cx, &Default::default(), limit)?;
    let Reply::Issues(IssueReply::Issues(Issues { issues })) = ready.reply else {
        return Err(Box::new(Refusal::bug("issues in the reply")));
    };
    if issues.is_empty() {
        return Err(Box::new(
            Refusal::new(Code::NotFound, "nothing is ready to be worked on").help("jit blocked"),
        ));
    }
    let ids: Vec<IssueId> = issues.iter().map(|shown| shown.issue.id.issue_id()).collect();
    Ok(plans::from_ready(
        &ids,
        cx.config.dispatching().max_concurrent,
        Settings::default(),
    ))
}
