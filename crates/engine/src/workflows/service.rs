//! Starts, shows and cancels workflows (G11, G13). The coordinator runs them.

use crate::api::workflows::WorkflowReply;
use crate::api::workflows::Workflows;
use jit_agents as agents;
use jit_core::coordinator::{NextStep, UnitStanding};
use jit_core::decide::command::Command;
use jit_core::log::state;
use jit_core::model::account::{Account, AccountId};
use jit_core::model::ids::{IssuePrefix, UnitId, WorkflowId};
use jit_core::model::issue::Issue;
use jit_core::model::lease::Resource;
use jit_core::model::plan::{Plan, Settings};
use jit_core::model::plan_check::PlanProblem;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::time::Wall;
use jit_core::model::unit::{Phase, Unit};
use jit_core::model::workflow::{NewWorkflow, Workflow, WorkflowOutcome as Ended};
use jit_os::io_refusal;
use jit_store::{Outcome, View};

use crate::api::workflows::Waiting;
use crate::api::workflows::WorkflowView;
use crate::api::{Answer, Reply};
use crate::attempts::dispatch::missing_program;
use crate::context::Context;
use crate::duration::format_secs;
use crate::plans;
use crate::plans::lookup::{about_workflow, find_workflow, load_plan, workflow_folder};
use crate::refusals::refuse;
use crate::workflows::overlap::Touched;
use crate::workflows::snapshot::{Sight, Troubles, repository_name, set_project};
use crate::workflows::view as orchestration;
use crate::worktrees::service::unit_view;
use crate::write_path::WriteOptions;

/// Starts a workflow with a plan that was checked. It has no coordinator yet.
pub fn start_workflow(cx: &Context, plan: &Plan) -> Outcome<Workflow> {
    let invalid = |why: String| refuse(Code::Invalid, why);
    let name = match &plan.workflow_id {
        Some(name) => name.clone(),
        None => made_up(cx.clock.wall())?,
    };
    let id: WorkflowId = name.parse().map_err(|e| invalid(format!("{e}")))?;
    let target = match &plan.target {
        Some(target) => target.clone(),
        None => crate::units::service::target_branch(cx)?,
    };
    // The settings approved now are those that the workflow uses later.
    crate::attempts::dispatch::require_trusted_dispatch(cx)?;
    for run in [&plan.run]
        .into_iter()
        .chain(plan.units.iter().map(|unit| &unit.run))
    {
        crate::attempts::dispatch::require_may_bypass(cx, run)?;
    }
    let mut plan = plan.resolved(id.as_str(), &target, &crate::attempts::dispatch::run_settings(cx));
    let stagger = cx.config.dispatching().stagger_secs;
    plan.stagger.get_or_insert_with(|| format_secs(stagger));
    if let Some(problem) = plan
        .check(&crate::attempts::dispatch::run_settings(cx), agents::NAMES)
        .first()
    {
        return Err(Box::new(
            Refusal::new(Code::Invalid, format!("{}: {}", problem.path, problem.message))
                .help("jit schema plan"),
        ));
    }
    if let Some(problem) = lacks(cx, &plan)?.first() {
        return Err(Box::new(
            Refusal::new(Code::NotFound, format!("{}: {}", problem.path, problem.message)).help("jit doctor"),
        ));
    }
    let units: Result<Vec<UnitId>, _> = plan.units.iter().map(|unit| unit.id.parse()).collect();
    let units = units.map_err(|e| invalid(format!("{e}")))?;
    // The plan of a workflow that has started never changes.
    if state::workflow(&*crate::write_path::view(cx)?.table, &id)
        .map_err(|e| refuse(Code::Io, e))?
        .is_some()
    {
        return Err(Box::new(
            Refusal::new(Code::Exists, format!("there is a workflow {id} already"))
                .help(format!("jit workflow status {id}"))
                .help("give the plan another workflow_id"),
        ));
    }
    let digest = plans::keep(&cx.place.control_dir, &id, &plan)?;
    let command = Command::StartWorkflow(Box::new(NewWorkflow {
        id,
        target,
        plan: digest,
        units,
    }));
    let workflow = about_workflow(cx, &command)?;
    write_orchestration(cx, &workflow)?;
    Ok(workflow)
}

/// Returns the missing things that a plan names: its target, its issues, the programs of its agents. A program with a
/// path relative to the worktree is not checked, because the worktree does not exist yet.
pub fn lacks(cx: &Context, plan: &Plan) -> Outcome<Vec<PlanProblem>> {
    let mut lacking = Vec::new();
    let mut add = |path: String, message: String| lacking.push(PlanProblem { path, message });
    if let Some(target) = &plan.target {
        let branch = cx
            .git_in(crate::units::service::common(cx)?)
            .verify(&format!("refs/heads/{target}"))
            .map_err(|e| refuse(Code::Io, e))?;
        if branch.is_none() {
            add("target".to_owned(), format!("there is no branch {target:?}"));
        }
    }
    let mut view = crate::write_path::view(cx)?;
    let mut joined = false;
    for (n, unit) in plan.units.iter().enumerate() {
        // An invalid issue name was reported before.
        let Some(Ok(issue)) = unit.issue.as_ref().map(|issue| issue.parse::<IssuePrefix>()) else {
            continue;
        };
        let mut found = crate::write_path::resolve(&view, &issue);
        let unknown = |found: &Outcome<Issue>| found.as_ref().is_err_and(|e| e.code == Code::NotFound);
        if unknown(&found) && !joined {
            joined = true;
            if crate::issues::sync::join_unknown(cx)? > 0 {
                view = crate::write_path::view(cx)?;
                found = crate::write_path::resolve(&view, &issue);
            }
        }
        if let Err(refusal) = found {
            add(format!("units[{n}].issue"), refusal.message);
        }
    }
    for (n, unit) in plan.units.iter().enumerate() {
        if let Some(program) = missing_program(cx, &plan.settings(unit, &Settings::default()), None) {
            let place = match (&unit.run.command, &plan.run.command) {
                (Some(_), _) => format!("units[{n}].run.command"),
                (None, Some(_)) => "run.command".to_owned(),
                (None, None) => format!("units[{n}].run.agent"),
            };
            add(
                place,
                format!("there is no program {program:?} that could be started"),
            );
        }
    }
    lacking.dedup();
    Ok(lacking)
}

pub(crate) fn lead_workflow(cx: &Context, id: &WorkflowId, vacant: bool) -> Outcome<()> {
    let command = Command::LeadWorkflow {
        workflow: id.clone(),
        vacant,
    };
    crate::write_path::transact_as(cx, None, &command, WriteOptions::default()).map(drop)
}

pub(crate) fn leave_workflow(cx: &Context, id: &WorkflowId) -> Outcome<()> {
    let command = Command::LeaveWorkflow { workflow: id.clone() };
    crate::write_path::transact_as(cx, None, &command, WriteOptions::default()).map(drop)
}

pub(crate) fn end_workflow(cx: &Context, id: &WorkflowId, outcome: Ended) -> Outcome<Workflow> {
    about_workflow(
        cx,
        &Command::EndWorkflow {
            workflow: id.clone(),
            outcome,
        },
    )
}

/// Reopens a workflow that ended early, if at least one of its units can continue.
pub fn reopen_workflow(cx: &Context, workflow: &Workflow) -> Outcome<Workflow> {
    crate::context::calling_agent::require_may_lead(cx, workflow)?;
    let id = &workflow.id;
    let plan = load_plan(cx, workflow)?;
    let mut at =
        crate::workflows::snapshot::situation(cx, id, Some(&plan), &Troubles::new(), &mut Sight::default())?;
    at.facts.cancelled = false;
    let limits = crate::workflows::snapshot::limits(cx, &plan, id);
    let look = at.look(&plan, &limits);
    if workflow.status != Ended::Completed && matches!(look.next()[..], [NextStep::End(_)]) {
        let message = format!(
            "the workflow {id} {}, and nothing in it can go on as it is",
            workflow.status.told()
        );
        let mut refusal = Refusal::new(Code::BadTransition, message);
        for unit in at.members.iter().filter_map(|member| at.own(member)) {
            if unit.state == Phase::Failed {
                refusal = refusal.help(format!("jit worktree retry {}", unit.id));
            }
        }
        return Err(Box::new(refusal.help(format!("jit workflow status {id}"))));
    }
    let workflow = about_workflow(cx, &Command::ReopenWorkflow { workflow: id.clone() })?;
    write_orchestration(cx, &workflow)?;
    Ok(workflow)
}

/// Returns the latest unit of each name in the plan that belongs to this workflow.
fn own_units(view: &View, workflow: &Workflow) -> Outcome<Vec<Unit>> {
    let mut units = Vec::new();
    for id in &workflow.units {
        let unit = state::unit(&*view.table, id).map_err(|e| refuse(Code::Io, e))?;
        units.extend(unit.filter(|unit| unit.workflow.as_ref() == Some(&workflow.id)));
    }
    Ok(units)
}

pub(crate) fn write_orchestration(cx: &Context, workflow: &Workflow) -> Outcome<()> {
    let mut units = own_units(&crate::write_path::view(cx)?, workflow)?;
    // A missing plan is reported by commands that need it.
    let (plan, repository) = (load_plan(cx, workflow).ok(), repository_name(cx));
    for unit in &mut units {
        let mut planned = plan.iter().flat_map(|plan| &plan.units);
        let planned = planned.find(|planned| planned.id == unit.id.as_str());
        set_project(unit, planned, repository.as_ref());
    }
    let control = &cx.place.control_dir;
    orchestration::write(control, workflow, &units)
        .map(drop)
        .map_err(|e| io_refusal("write", &orchestration::path(control, &workflow.id), &e))
}

pub(crate) fn workflows(cx: &Context, all: bool) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let mut found = state::workflows(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    found.retain(|one| all || !one.is_over());
    found.sort_by_key(|one| one.created_at);
    let views: Outcome<Vec<WorkflowView>> = found.iter().map(|one| workflow_view(cx, one)).collect();
    crate::write_path::read_answer(
        cx,
        &view,
        Reply::Workflows(WorkflowReply::Workflows(Workflows { workflows: views? })),
    )
}

pub(crate) fn workflow_status(cx: &Context, named: Option<&str>) -> Outcome<Answer> {
    let workflow = find_workflow(cx, named)?;
    let view = crate::write_path::view(cx)?;
    let shown = workflow_view(cx, &workflow)?;
    crate::write_path::read_answer(
        cx,
        &view,
        Reply::Workflows(WorkflowReply::Workflow(Box::new(shown))),
    )
}

fn workflow_view(cx: &Context, workflow: &Workflow) -> Outcome<WorkflowView> {
    let view = crate::write_path::view(cx)?;
    let key = Resource::Workflow(workflow.id.clone()).key();
    let lease = state::lease_on(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?;
    // A killed coordinator keeps its lease until it expires, but not the kernel lock.
    let lives = crate::plans::lookup::is_led(&workflow_folder(cx, &workflow.id));
    let led_by = lease
        .filter(|lease| lives && !lease.expired(&view.now))
        .map(|lease| lease.agent_id);
    // A missing plan is reported by commands that need it.
    let plan = load_plan(cx, workflow).ok();
    let mut at = crate::workflows::snapshot::situation(
        cx,
        &workflow.id,
        plan.as_ref(),
        &Troubles::new(),
        &mut Sight::default(),
    )?;
    let mut waiting = Vec::new();
    let mut parked = Vec::new();
    if let Some(plan) = &plan {
        crate::workflows::overlap::look_around(cx, &mut at, plan, &mut Touched::new())?;
        let own = |account: &&Account| {
            let mut all = plan.units.iter();
            all.any(|unit| AccountId::of(&unit.run).as_ref() == Some(&account.id))
        };
        let accounts = at.facts.accounts.iter();
        if !workflow.is_over() {
            parked = accounts.filter(own).filter_map(|one| one.shown(at.now)).collect();
        }
        let limits = crate::workflows::snapshot::limits(cx, plan, &workflow.id);
        let look = at.look(plan, &limits);
        let (standings, hits) = (look.standings(), look.collisions());
        for (member, standing) in at.members.iter().zip(standings) {
            let hit = hits.iter().find(|hit| hit.unit == member.id);
            let why = match standing {
                UnitStanding::Open if hit.is_some() => {
                    hit.map_or_else(String::new, |hit| in_the_way(&hit.with, &hit.path))
                }
                UnitStanding::Blocked => "waits for what it needs".to_owned(),
                UnitStanding::Open if at.own(member).is_none() => "has not begun".to_owned(),
                UnitStanding::Skipped(why) => format!("will not begin: {why}"),
                UnitStanding::Stuck(why) => format!("waits for a person: {why}"),
                _ => continue,
            };
            waiting.push(Waiting {
                unit: member.id.clone(),
                why,
            });
        }
    }
    let orchestration = orchestration::path(&cx.place.control_dir, &workflow.id);
    let instances = at.members.iter().filter_map(|member| at.own(member));
    let instances = instances.map(|unit| unit_view(cx, unit.clone())).collect();
    Ok(WorkflowView {
        led_by,
        cost_usd: at.facts.spent.usd,
        tokens: at.facts.spent.tokens,
        instances,
        waiting,
        parked,
        orchestration: orchestration.to_string_lossy().into_owned(),
        workflow: at.workflow,
    })
}

/// Requests the end of a workflow. Its coordinator ends it; without a coordinator the caller must.
pub fn ask_to_cancel(cx: &Context, named: Option<&str>) -> Outcome<Workflow> {
    if let Some(own) = crate::context::calling_agent::working_in(cx) {
        let message = format!(
            "you work in {}: whether its workflow goes on is not for you to say",
            own.unit
        );
        return Err(Box::new(
            Refusal::new(Code::NotAllowed, message).help("ask a person to run: jit workflow cancel"),
        ));
    }
    let workflow = find_workflow(cx, named)?;
    crate::context::calling_agent::require_may_lead(cx, &workflow)?;
    about_workflow(
        cx,
        &Command::CancelWorkflow {
            workflow: workflow.id,
        },
    )
}

/// The message for a unit that waits for an occupied path.
pub(crate) fn in_the_way(with: &str, path: &str) -> String {
    format!("waits for {with}, which is at {path}")
}

/// Returns a unique name: the day and a random part.
fn made_up(now: Wall) -> Outcome<String> {
    let day = now
        .to_string()
        .split('T')
        .next()
        .unwrap_or_default()
        .replace('-', "");
    let random = jit_os::random::u64().map_err(|e| refuse(Code::Io, e))?;
    Ok(format!("run-{day}-{:06x}", random & 0xff_ffff))
}
