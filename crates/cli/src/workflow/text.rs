//! Text of workflows.

use jit_core::model::unit::Phase;
use jit_engine::api::units::{UnitView, for_a_person};
use jit_engine::api::workflows::{PlannedWorkflow, WorkflowReply, WorkflowView, Workflows};

use crate::render::{Style, clean_line, table};
use crate::run_flags::{announce, money};
use crate::worktree::text::units_text;

/// Text of a reply about workflows.
pub fn text(reply: &WorkflowReply, style: Style) -> String {
    match reply {
        WorkflowReply::Workflow(view) => workflow_text(view, style),
        WorkflowReply::Changed(workflow) => format!("{} {}\n", workflow.id, workflow.status.told()),
        WorkflowReply::Workflows(Workflows { workflows }) => workflows_text(workflows, style),
        WorkflowReply::Planned(planned) => planned_text(planned),
    }
}

/// Ids of what was written.
pub fn ids(reply: &WorkflowReply) -> Vec<&str> {
    match reply {
        WorkflowReply::Workflow(view) => vec![view.workflow.id.as_str()],
        WorkflowReply::Changed(workflow) => vec![workflow.id.as_str()],
        WorkflowReply::Workflows(Workflows { workflows }) => {
            workflows.iter().map(|view| view.workflow.id.as_str()).collect()
        }
        WorkflowReply::Planned(_) => Vec::new(),
    }
}

/// Text of a plan: the limits of each agent, to be printed before money is spent.
pub fn planned_text(planned: &PlannedWorkflow) -> String {
    let mut out = format!(
        "{} units, {} agents at a time\n",
        planned.plan.units.len(),
        planned.plan.max_concurrent
    );
    for unit in &planned.units {
        out.push_str(&format!("  {:<20}  {}\n", unit.unit, announce(&unit.settings)));
    }
    for caution in &planned.cautions {
        out.push_str(&format!("  note: {}\n", clean_line(caution)));
    }
    out
}

pub fn workflows_text(workflows: &[WorkflowView], style: Style) -> String {
    if workflows.is_empty() {
        return "No workflow is running; `jit workflow list --all` shows those that have ended too.\n".into();
    }
    let mut rows = vec![
        ["WORKFLOW", "STATUS", "UNITS", "COST", "BEGAN", "LED BY"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for view in workflows {
        let done = view.instances.iter().filter(|one| is_done(one)).count();
        rows.push(vec![
            style.bold(view.workflow.id.as_str()),
            view.workflow.status.to_string(),
            format!("{done} of {}", view.workflow.units.len()),
            money(view.cost_usd.0),
            view.workflow.created_at.to_string(),
            view.led_by
                .as_ref()
                .map_or("-".into(), |id| clean_line(id.as_str())),
        ]);
    }
    table(&rows)
}

fn is_done(view: &UnitView) -> bool {
    view.unit.merge_status == jit_core::model::unit::MergeStatus::Merged
}

pub fn workflow_text(view: &WorkflowView, style: Style) -> String {
    let workflow = &view.workflow;
    let mut out = format!(
        "{} {}, on {}: {}, {} tokens\n",
        style.bold(workflow.id.as_str()),
        workflow.status.told(),
        clean_line(&workflow.target),
        money(view.cost_usd.0),
        view.tokens.total()
    );
    match &view.led_by {
        Some(leader) => out.push_str(&format!("  led by {}\n", clean_line(leader.as_str()))),
        None if !workflow.is_over() => out.push_str(&format!(
            "  nobody leads it; go on with: jit workflow resume {}\n",
            workflow.id
        )),
        None => {}
    }
    out.push_str(&crate::status::parked(&view.parked, style));
    out.push_str(&units_text(&view.instances, style));
    for one in &view.waiting {
        out.push_str(&format!(
            "{}  {}\n",
            style.bold(one.unit.as_str()),
            clean_line(&one.why)
        ));
    }
    out.push_str(&up_to_people(view, style));
    out
}

/// Returns the next step for a person, for each unit that cannot continue by itself.
fn up_to_people(view: &WorkflowView, style: Style) -> String {
    let workflow = &view.workflow;
    let mut out = String::new();
    let mut goes_on = false;
    for one in &view.instances {
        let unit = &one.unit;
        let waits = view.waiting.iter().any(|waiting| waiting.unit == unit.id);
        let left = workflow.is_over() && matches!(unit.state, Phase::Failed | Phase::Merged | Phase::Cleanup);
        if let Some(next) = for_a_person(unit).filter(|_| waits || left) {
            goes_on |= unit.state == Phase::Failed;
            out.push_str(&format!(
                "{}  {}\n",
                style.bold(unit.id.as_str()),
                clean_line(&next)
            ));
        }
    }
    if goes_on && (workflow.is_over() || view.led_by.is_none()) {
        out.push_str(&format!(
            "Go on with the rest: jit workflow resume {}\n",
            workflow.id
        ));
    }
    out
}
