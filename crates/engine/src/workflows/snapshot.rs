//! Snapshots of a workflow, for deciding the next steps and for showing it (G9, G11, G12).
//!
//! What must hold:
//!
//! - A snapshot shows the log and the files of attempts as they are now, independent of earlier snapshots.
//! - Data that cannot have changed is not read again. The log is compared by its stamp, an attempt by [`Glance`], and
//!   ORCHESTRATION.yaml by the last written content.
//! - The daily usage includes all agents: those of other workflows and those started by hand too.

use std::collections::BTreeMap;
use std::path::Path;

use jit_agents as agents;
use jit_agents::runner::attempt_poll::{AttemptPoll as Glance, AttemptStage as Far};
use jit_agents::runner::{AttemptTotals as Sum, attempt};
use jit_core::coordinator::{
    AgentStatus, Cap, CoordinatorInput, CoordinatorLimits, PlanMember, Spending, StepKind, StepTrouble,
    WorkflowFacts as Known,
};
use jit_core::decide::workflows;
use jit_core::log::state::{self, Costs};
use jit_core::model::account::Account;
use jit_core::model::cost::Usd;
use jit_core::model::ids::{UnitId, WorkflowId};
use jit_core::model::lease::{Lease, Resource};
use jit_core::model::plan::{Plan, PlanUnit};
use jit_core::model::refusal::Code;
use jit_core::model::time::{Now, Wall};
use jit_core::model::unit::{Phase, Unit};
use jit_core::model::workflow::Workflow;
use jit_os::file::{self, Stamp};
use jit_os::io_refusal;
use jit_store::LogStamp;
use jit_store::Outcome;

use crate::context::Context;
use crate::refusals::{refuse, stopped};
use crate::units::worktree_state::is_merging;
use crate::workflows::view as orchestration;

const DAY_MS: i64 = 86_400_000;

/// A workflow, and all data that decides the next steps.
#[derive(Debug)]
pub(crate) struct Situation {
    pub workflow: Workflow,
    pub members: Vec<PlanMember>,
    pub facts: Known,
    pub now: Wall,
}

impl Situation {
    /// Converts the snapshot into the input for deciding the next steps.
    pub(crate) fn look<'a>(&'a self, plan: &'a Plan, limits: &'a CoordinatorLimits) -> CoordinatorInput<'a> {
        CoordinatorInput {
            plan,
            id: &self.workflow.id,
            members: &self.members,
            facts: &self.facts,
            limits,
            now: self.now,
        }
    }

    /// Returns the unit of a member, if it belongs to this workflow.
    pub(crate) fn own<'m>(&self, member: &'m PlanMember) -> Option<&'m Unit> {
        member.unit.as_ref().filter(|unit| is_own(unit, &self.workflow))
    }
}

/// Failed steps, by unit.
pub(crate) type Troubles = BTreeMap<UnitId, BTreeMap<StepKind, StepTrouble>>;

/// The data of the previous snapshot.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// The stamp of the log when it was read, and the day.
    log: Option<(LogStamp, i64)>,
    read: Option<Read>,
    attempts: BTreeMap<(UnitId, u32), Glance>,
    /// The content of ORCHESTRATION.yaml, and the stamp of its file.
    shown: Option<(Workflow, Vec<Unit>)>,
    file: Option<Stamp>,
}

/// The data from the log.
#[derive(Debug)]
struct Read {
    workflow: Workflow,
    /// The latest unit of each name in the plan, with the lease on its issue.
    units: Vec<(Option<Unit>, Option<Lease>)>,
    /// Running units of others, with the number of the attempt.
    others: Vec<(UnitId, u32)>,
    costs: Costs,
    /// Accounts that were refused.
    accounts: Vec<Account>,
    /// The name of the repository: the project of units whose plan names none.
    repository: Option<String>,
}

fn is_own(unit: &Unit, workflow: &Workflow) -> bool {
    unit.workflow.as_ref() == Some(&workflow.id)
}

fn is_at_work(unit: &Unit) -> bool {
    matches!(unit.state, Phase::Dispatched | Phase::Running)
}

fn add(purse: &mut Spending, sum: &Sum) {
    let cost = sum.cost_usd.unwrap_or_default();
    purse.usd = Usd(purse.usd.0.saturating_add(cost.0));
    purse.tokens = purse.tokens.plus(sum.tokens);
}

/// Takes a snapshot.
pub(crate) fn situation(
    cx: &Context,
    id: &WorkflowId,
    plan: Option<&Plan>,
    troubles: &Troubles,
    sight: &mut Sight,
) -> Outcome<Situation> {
    let now = cx.store.now()?;
    let today = now.wall.ms().div_euclid(DAY_MS);
    // The stamp is taken before reading: later writes are seen by the next snapshot.
    let log = cx.store.upkeep().stamp().map(|log| (log, today));
    let before = sight.read.take().filter(|_| log.is_some() && log == sight.log);
    let read = match before {
        Some(read) => read,
        None => read_workflow(cx, id)?,
    };
    let mut glances = std::mem::take(&mut sight.attempts);
    let mut look = |unit: &UnitId, attempt: u32| {
        let key = (unit.clone(), attempt);
        let mut glance = glances.remove(&key).unwrap_or_default();
        // An attempt that cannot be read counts as lost.
        let far = glance
            .look(&crate::units::service::attempt_folder(cx, unit, attempt))
            .unwrap_or(Far::Lost);
        let sum = Some(glance.sum.clone()).filter(|_| far == Far::Running);
        sight.attempts.insert(key, glance);
        (far, sum)
    };
    let mut spent = Spending::default();
    let mut spent_today = Spending {
        usd: read.costs.usd,
        tokens: read.costs.tokens,
    };
    for (unit, attempt) in &read.others {
        if let (_, Some(sum)) = look(unit, *attempt) {
            add(&mut spent_today, &sum);
        }
    }
    let mut members = Vec::with_capacity(read.units.len());
    for (n, (id, (unit, lease))) in read.workflow.units.iter().zip(&read.units).enumerate() {
        let mut member = PlanMember {
            id: id.clone(),
            unit: unit.clone(),
            seen: AgentStatus::None,
            resumable: false,
            claimed: false,
            stopping: false,
            sent_back: false,
            touched: Vec::new(),
            troubles: troubles.get(id).cloned().unwrap_or_default(),
        };
        let planned = plan.and_then(|plan| plan.units.get(n));
        let mut session = None;
        if let Some(unit) = unit.as_ref().filter(|unit| is_own(unit, &read.workflow)) {
            member.resumable = can_resume(unit, planned.and_then(|unit| unit.run.agent.as_deref()));
            member.claimed = lease.as_ref().is_some_and(|lease| holds(lease, unit, &now));
            member.sent_back = unit.state == Phase::Failed && is_merging(Path::new(&unit.worktree_path));
            spent.usd = Usd(spent.usd.0.saturating_add(unit.cost_usd.unwrap_or_default().0));
            spent.tokens = spent.tokens.plus(unit.tokens);
            if is_at_work(unit) {
                member.stopping =
                    attempt::is_stopping(&crate::units::service::attempt_folder(cx, &unit.id, unit.attempt));
                let (far, sum) = look(&unit.id, unit.attempt);
                if let Some(sum) = sum {
                    add(&mut spent, &sum);
                    add(&mut spent_today, &sum);
                    session = sum.session_id;
                }
                member.seen = match far {
                    Far::NotStarted => AgentStatus::None,
                    Far::Starting | Far::Running => AgentStatus::Running,
                    Far::Ended => AgentStatus::Ended,
                    Far::Lost => AgentStatus::Lost,
                };
            }
        }
        if let Some(unit) = member.unit.as_mut().filter(|unit| is_own(unit, &read.workflow)) {
            // An agent that chooses its session itself names it while it runs; the log has it from its end on.
            unit.session_id = session.or(unit.session_id.take());
            set_project(unit, planned, read.repository.as_ref());
        }
        members.push(member);
    }
    let situation = Situation {
        facts: Known {
            spent,
            spent_today,
            day_ends: Wall::from_ms((today + 1) * DAY_MS),
            cancelled: read.workflow.cancelling,
            accounts: read.accounts.clone(),
            others: Vec::new(),
            locks: Vec::new(),
        },
        workflow: read.workflow.clone(),
        members,
        now: now.wall,
    };
    (sight.log, sight.read) = (log, Some(read));
    Ok(situation)
}

/// Sets the project of a unit: the one of its plan, or else the repository.
pub(crate) fn set_project(unit: &mut Unit, planned: Option<&PlanUnit>, repository: Option<&String>) {
    let named = planned.and_then(|planned| planned.project_id.as_ref());
    unit.project_id = named.or(repository).cloned();
}

/// Returns the name of the repository: the project of units whose plan names none.
pub(crate) fn repository_name(cx: &Context) -> Option<String> {
    let root = crate::units::service::main_root(cx).ok()?;
    Some(root.file_name()?.to_string_lossy().into_owned())
}

fn read_workflow(cx: &Context, id: &WorkflowId) -> Outcome<Read> {
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let workflow = workflows::require(&*view.table, id).map_err(stopped)?;
    let mut units = Vec::with_capacity(workflow.units.len());
    for id in &workflow.units {
        let unit = state::unit(&*view.table, id).map_err(unreadable)?;
        let issue = unit.as_ref().and_then(|unit| unit.issue_id.clone());
        let lease = match issue {
            Some(issue) => {
                state::lease_on(&*view.table, &Resource::Issue(issue).key()).map_err(unreadable)?
            }
            None => None,
        };
        units.push((unit, lease));
    }
    let mut others = Vec::new();
    let set = cx.config.dispatching();
    if set.day_budget.is_some() || set.day_budget_tokens.is_some() {
        let all = state::units(&*view.table).map_err(unreadable)?;
        let at_work = all
            .into_iter()
            .filter(|unit| is_at_work(unit) && unit.worker.is_some() && !is_own(unit, &workflow));
        others.extend(at_work.map(|unit| (unit.id, unit.attempt)));
    }
    let costs = state::costs_on(&*view.table, view.now.wall).map_err(unreadable)?;
    Ok(Read {
        workflow,
        units,
        others,
        costs,
        accounts: state::accounts(&*view.table).map_err(unreadable)?,
        repository: repository_name(cx),
    })
}

/// Updates ORCHESTRATION.yaml if its content changed.
pub(crate) fn show_orchestration(cx: &Context, at: &Situation, sight: &mut Sight) -> Outcome<()> {
    let control = &cx.place.control_dir;
    let path = orchestration::path(control, &at.workflow.id);
    let own = || at.members.iter().filter_map(|member| at.own(member));
    let same = sight
        .shown
        .as_ref()
        .is_some_and(|(workflow, units)| *workflow == at.workflow && units.iter().eq(own()));
    if same && sight.file.is_some() && sight.file == file::stamp(&path) {
        return Ok(());
    }
    let units: Vec<Unit> = own().cloned().collect();
    orchestration::write(control, &at.workflow, &units).map_err(|e| io_refusal("write", &path, &e))?;
    sight.file = file::stamp(&path);
    sight.shown = Some((at.workflow.clone(), units));
    Ok(())
}

pub(crate) fn limits(cx: &Context, plan: &Plan, id: &WorkflowId) -> CoordinatorLimits {
    let set = cx.config.dispatching();
    CoordinatorLimits {
        workflow: Cap {
            usd: plan.budget(),
            tokens: plan.budget_tokens,
        },
        day: Cap {
            usd: set.day_budget,
            tokens: set.day_budget_tokens,
        },
        alert_at: set.alert_percent,
        max_retries: set.max_retries,
        max_conflict_rounds: cx.config.merging().max_conflict_rounds,
        // Never zero: a failing step would be retried without a pause.
        backoff_ms: set.backoff_secs.saturating_mul(1000).max(100),
        seed: xxhash_rust::xxh3::xxh3_64(id.as_str().as_bytes()),
        ..CoordinatorLimits::default()
    }
}

/// Whether the session of a unit's last attempt can be resumed.
fn can_resume(unit: &Unit, agent: Option<&str>) -> bool {
    let resumes = agent
        .and_then(agents::by_name)
        .is_some_and(|agent| agent.resumes());
    let lost = unit
        .last_error
        .as_ref()
        .is_some_and(|e| e.reason == "session_lost");
    // A session of another kind of agent, after a handoff, cannot be resumed by this one.
    let same = unit.agent.as_deref() == agent;
    resumes && same && unit.session_id.is_some() && unit.attempt > 0 && !lost
}

/// Whether this lease is the claim on the unit's issue, held for the unit.
fn holds(lease: &Lease, unit: &Unit, now: &Now) -> bool {
    !lease.expired(now)
        && lease.worktree_id == unit.worktree_id
        && (lease.agent_id == unit.created_by || unit.worker.as_ref() == Some(&lease.agent_id))
}
