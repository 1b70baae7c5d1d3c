//! Workflows as they are begun, shown and cancelled (G11, G13). What works them off is [`crate::coordinator`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jit_core::command::{Command, Reply as Decided};
use jit_core::coordinate::{self, Cap, Facts as Known, Limits, Member, Seen, Spent, Standing, Task, Trouble};
use jit_core::ids::{UnitId, WorkflowId};
use jit_core::lease::Resource;
use jit_core::plan::Plan;
use jit_core::refusal::{Code, Refusal, Stop};
use jit_core::state;
use jit_core::time::Wall;
use jit_core::unit::{Phase, Unit, Usd};
use jit_core::workflow::{self, NewWorkflow, Outcome as Ended, Workflow};

use super::{App, Kept, refuse};
use crate::agents;
use crate::duration::format_secs;
use crate::git::{Git, GitError};
use crate::plans;
use crate::request::{AgentProgress, Answer, Reply, UnitDiff, UnitView, Waiting, WorkflowView};
use crate::runner::attempt::{self, Attempt};
use crate::store::file::io_refusal;
use crate::store::{Outcome, View};
use crate::workflows::view as orchestration;

/// A model that was asked too much is left alone for so long.
const QUIET_MS: i64 = 30_000;
const DAY_MS: i64 = 86_400_000;

/// A workflow, and everything that decides what comes next.
#[derive(Debug)]
pub(crate) struct Situation {
    pub workflow: Workflow,
    pub members: Vec<Member>,
    pub facts: Known,
    pub now: Wall,
}

/// Steps that could not be done, by unit.
pub(crate) type Troubles = BTreeMap<UnitId, BTreeMap<Task, Trouble>>;

impl App {
    pub(crate) fn workflow_folder(&self, id: &WorkflowId) -> PathBuf {
        plans::folder(&self.place.control_dir, id)
    }

    /// Begins a workflow by a plan that was checked. It is not led by anybody yet.
    pub fn start_workflow(&self, plan: &Plan) -> Outcome<Workflow> {
        let invalid = |why: String| refuse(Code::Invalid, why);
        let name = match &plan.workflow_id {
            Some(name) => name.clone(),
            None => made_up(Wall::from_ms(crate::os::clock::wall_ms()))?,
        };
        let id: WorkflowId = name.parse().map_err(|e| invalid(format!("{e}")))?;
        let target = match &plan.target {
            Some(target) => target.clone(),
            None => self.target_branch()?,
        };
        // What is run by it later is what was approved now.
        self.require_trusted_dispatch()?;
        let mut plan = plan.resolved(id.as_str(), &target, &self.run_settings());
        let stagger = self.config.dispatching().stagger_secs;
        plan.stagger.get_or_insert_with(|| format_secs(stagger));
        if let Some(problem) = plan.check(&self.run_settings(), agents::NAMES).first() {
            return Err(Box::new(
                Refusal::new(Code::Invalid, format!("{}: {}", problem.path, problem.message))
                    .help("jit schema plan"),
            ));
        }
        let units: Result<Vec<UnitId>, _> = plan.units.iter().map(|unit| unit.id.parse()).collect();
        let units = units.map_err(|e| invalid(format!("{e}")))?;
        // Of a workflow that has begun the plan stays as it is.
        if state::workflow(&*self.view()?.table, &id)
            .map_err(|e| refuse(Code::Io, e))?
            .is_some()
        {
            return Err(Box::new(
                Refusal::new(Code::Exists, format!("there is a workflow {id} already"))
                    .help(format!("jit workflow status {id}"))
                    .help("give the plan another workflow_id"),
            ));
        }
        let digest = plans::keep(&self.place.control_dir, &id, &plan)?;
        let command = Command::StartWorkflow(Box::new(NewWorkflow {
            id,
            target,
            plan: digest,
            units,
        }));
        let workflow = self.about_workflow(&command)?;
        self.write_orchestration(&workflow)?;
        Ok(workflow)
    }

    fn about_workflow(&self, command: &Command) -> Outcome<Workflow> {
        match self.transact_as(None, command, Kept::default())?.reply {
            Decided::Workflow(workflow) => Ok(*workflow),
            _ => Err(refuse(Code::Io, "the log has no answer to that")),
        }
    }

    pub(crate) fn lead_workflow(&self, id: &WorkflowId, vacant: bool) -> Outcome<()> {
        let command = Command::LeadWorkflow {
            workflow: id.clone(),
            vacant,
        };
        self.transact_as(None, &command, Kept::default()).map(drop)
    }

    pub(crate) fn leave_workflow(&self, id: &WorkflowId) -> Outcome<()> {
        let command = Command::LeaveWorkflow { workflow: id.clone() };
        self.transact_as(None, &command, Kept::default()).map(drop)
    }

    pub(crate) fn end_workflow(&self, id: &WorkflowId, outcome: Ended) -> Outcome<Workflow> {
        self.about_workflow(&Command::EndWorkflow {
            workflow: id.clone(),
            outcome,
        })
    }

    pub(crate) fn load_plan(&self, workflow: &Workflow) -> Outcome<Plan> {
        plans::kept(&self.place.control_dir, &workflow.id, &workflow.plan)
    }

    /// The workflow that is meant: by its name, or the only one that runs, else the last one.
    pub fn find_workflow(&self, named: Option<&str>) -> Outcome<Workflow> {
        let view = self.view()?;
        let unreadable = |e| refuse(Code::Io, e);
        if let Some(name) = named {
            let id: WorkflowId = name.parse().map_err(|e| refuse(Code::Invalid, format!("{e}")))?;
            return workflow::require(&*view.table, &id).map_err(|stop| match stop {
                Stop::Refused(refusal) => refusal,
                Stop::Unreadable(e) => unreadable(e),
            });
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
        all.pop().ok_or_else(|| {
            Box::new(Refusal::new(Code::NotFound, "there is no workflow").help("jit run --ready"))
        })
    }

    /// The last unit of each name of the plan that was made for this workflow.
    fn own_units(&self, view: &View, workflow: &Workflow) -> Outcome<Vec<Unit>> {
        let mut units = Vec::new();
        for id in &workflow.units {
            let unit = state::unit(&*view.table, id).map_err(|e| refuse(Code::Io, e))?;
            units.extend(unit.filter(|unit| unit.workflow.as_ref() == Some(&workflow.id)));
        }
        Ok(units)
    }

    pub(crate) fn write_orchestration(&self, workflow: &Workflow) -> Outcome<()> {
        let units = self.own_units(&self.view()?, workflow)?;
        let control = &self.place.control_dir;
        orchestration::write(control, workflow, &units)
            .map(drop)
            .map_err(|e| io_refusal("write", &orchestration::path(control, &workflow.id), &e))
    }

    /// How everything stands.
    pub(crate) fn situation(&self, id: &WorkflowId, plan: &Plan, troubles: &Troubles) -> Outcome<Situation> {
        let view = self.view()?;
        let unreadable = |e| refuse(Code::Io, e);
        let workflow = workflow::require(&*view.table, id).map_err(|stop| match stop {
            Stop::Refused(refusal) => refusal,
            Stop::Unreadable(e) => unreadable(e),
        })?;
        let now = view.now.wall;
        let mut spent = Spent::default();
        let costs = state::costs_on(&*view.table, now).map_err(unreadable)?;
        let mut today = Spent {
            usd: costs.usd,
            tokens: costs.tokens,
        };
        let mut quiet_until = None;
        let mut members = Vec::new();
        for (n, id) in workflow.units.iter().enumerate() {
            let unit = state::unit(&*view.table, id).map_err(unreadable)?;
            let own = unit
                .as_ref()
                .filter(|unit| unit.workflow.as_ref() == Some(&workflow.id));
            let mut member = Member {
                id: id.clone(),
                unit: unit.clone(),
                seen: Seen::None,
                resumable: false,
                claimed: false,
                stopping: false,
                sent_back: false,
                troubles: troubles.get(id).cloned().unwrap_or_default(),
            };
            if let Some(unit) = own {
                let agent = plan.units.get(n).and_then(|unit| unit.run.agent.as_deref());
                let resumes = agent
                    .and_then(agents::by_name)
                    .is_some_and(|agent| agent.resumes());
                let lost = unit
                    .last_error
                    .as_ref()
                    .is_some_and(|e| e.reason == "session_lost");
                member.resumable = resumes && unit.session_id.is_some() && unit.attempt > 0 && !lost;
                member.claimed = self.claims_for(&view, unit)?;
                member.sent_back = unit.state == Phase::Failed && is_merging(Path::new(&unit.worktree_path));
                spent.usd = Usd(spent.usd.0.saturating_add(unit.cost_usd.unwrap_or_default().0));
                spent.tokens = spent.tokens.plus(unit.tokens);
                if matches!(unit.state, Phase::Dispatched | Phase::Running) {
                    let folder = self.attempt_folder(&unit.id, unit.attempt);
                    member.stopping = attempt::is_stopping(&folder);
                    // What cannot be read is as good as lost.
                    member.seen = match attempt::look(&folder).unwrap_or(Attempt::Lost) {
                        Attempt::NotStarted => Seen::None,
                        Attempt::Starting => Seen::Running,
                        Attempt::Running(running) => {
                            let cost = running.sum.cost_usd.unwrap_or_default();
                            for purse in [&mut spent, &mut today] {
                                purse.usd = Usd(purse.usd.0.saturating_add(cost.0));
                                purse.tokens = purse.tokens.plus(running.sum.tokens);
                            }
                            Seen::Running
                        }
                        Attempt::Ended(_) => Seen::Ended,
                        Attempt::Lost => Seen::Lost,
                    };
                }
                let limited = unit
                    .error
                    .as_ref()
                    .is_some_and(|e| e.reason == coordinate::reason::RATE_LIMIT);
                if let Some(at) = unit.completion_time.filter(|_| limited) {
                    quiet_until = quiet_until.max(Some(Wall::from_ms(at.ms() + QUIET_MS)));
                }
            }
            members.push(member);
        }
        let facts = Known {
            spent,
            spent_today: today,
            day_ends: Wall::from_ms((now.ms().div_euclid(DAY_MS) + 1) * DAY_MS),
            cancelled: workflow.cancelling,
            quiet_until: quiet_until.filter(|until| *until > now),
        };
        Ok(Situation {
            workflow,
            members,
            facts,
            now,
        })
    }

    /// Whether the claim on its issue is held for it.
    fn claims_for(&self, view: &View, unit: &Unit) -> Outcome<bool> {
        let Some(issue) = &unit.issue_id else {
            return Ok(false);
        };
        let key = Resource::Issue(issue.clone()).key();
        let lease = state::lease_on(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?;
        Ok(lease.is_some_and(|lease| {
            !lease.expired(&view.now)
                && lease.worktree_id == unit.worktree_id
                && (lease.agent_id == unit.created_by || unit.worker.as_ref() == Some(&lease.agent_id))
        }))
    }

    pub(crate) fn limits(&self, plan: &Plan, id: &WorkflowId) -> Limits {
        let set = self.config.dispatching();
        Limits {
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
            max_conflict_rounds: self.config.merging().max_conflict_rounds,
            // Never at once: what cannot be done would be tried without a pause.
            backoff_ms: set.backoff_secs.saturating_mul(1000).max(100),
            seed: xxhash_rust::xxh3::xxh3_64(id.as_str().as_bytes()),
            ..Limits::default()
        }
    }

    pub(super) fn workflows(&self, all: bool) -> Outcome<Answer> {
        let view = self.view()?;
        let mut found = state::workflows(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        found.retain(|one| all || !one.is_over());
        found.sort_by_key(|one| one.created_at);
        let views: Outcome<Vec<WorkflowView>> =
            found.into_iter().map(|one| self.workflow_view(one)).collect();
        self.read_answer(&view, Reply::Workflows { workflows: views? })
    }

    pub(super) fn workflow_status(&self, named: Option<&str>) -> Outcome<Answer> {
        let workflow = self.find_workflow(named)?;
        let view = self.view()?;
        let shown = self.workflow_view(workflow)?;
        self.read_answer(&view, Reply::Workflow(Box::new(shown)))
    }

    fn workflow_view(&self, workflow: Workflow) -> Outcome<WorkflowView> {
        let view = self.view()?;
        let key = Resource::Workflow(workflow.id.clone()).key();
        let lease = state::lease_on(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?;
        let led_by = lease
            .filter(|lease| !lease.expired(&view.now))
            .map(|lease| lease.agent_id);
        let units = self.own_units(&view, &workflow)?;
        let mut waiting = Vec::new();
        let mut spent = Spent::default();
        // A plan that is gone is told by whoever needs it.
        if let Ok(plan) = self.load_plan(&workflow) {
            let at = self.situation(&workflow.id, &plan, &Troubles::new())?;
            spent = at.facts.spent;
            let limits = self.limits(&plan, &workflow.id);
            let standings =
                coordinate::standings(&plan, &workflow.id, &at.members, &at.facts, &limits, at.now);
            for (member, standing) in at.members.iter().zip(standings) {
                let why = match standing {
                    Standing::Blocked => "waits for what it needs".to_owned(),
                    Standing::Open if units.iter().all(|unit| unit.id != member.id) => {
                        "has not begun".to_owned()
                    }
                    Standing::Skipped(why) => format!("will not begin: {why}"),
                    Standing::Stuck(why) => format!("waits for a person: {why}"),
                    _ => continue,
                };
                waiting.push(Waiting {
                    unit: member.id.clone(),
                    why,
                });
            }
        }
        let orchestration = orchestration::path(&self.place.control_dir, &workflow.id);
        let instances = units.into_iter().map(|unit| self.unit_view(unit)).collect();
        Ok(WorkflowView {
            led_by,
            cost_usd: spent.usd,
            tokens: spent.tokens,
            instances,
            waiting,
            orchestration: orchestration.to_string_lossy().into_owned(),
            workflow,
        })
    }

    /// A unit, with how its agent is doing.
    pub(super) fn unit_view(&self, unit: Unit) -> UnitView {
        let progress = match unit.state {
            Phase::Dispatched | Phase::Running if unit.worker.is_some() => self.agent_progress(&unit),
            _ => None,
        };
        UnitView { unit, progress }
    }

    fn agent_progress(&self, unit: &Unit) -> Option<AgentProgress> {
        let folder = self.attempt_folder(&unit.id, unit.attempt);
        let Ok(Attempt::Running(running)) = attempt::look(&folder) else {
            return None;
        };
        let job = attempt::job(&folder).ok()?;
        let now = crate::os::clock::wall_ms();
        let secs = u64::try_from((now - running.started_at).max(0) / 1000).unwrap_or(0);
        let used = running.sum.cost_usd.unwrap_or_default();
        Some(AgentProgress {
            last_action: running
                .last
                .as_ref()
                .map_or_else(String::new, |line| line.said.for_people()),
            last_event_at: running.last.as_ref().map(|line| Wall::from_ms(line.at)),
            turns: running.sum.turns,
            tokens: running.sum.tokens,
            cost_usd: running.sum.cost_usd,
            running_secs: secs,
            remaining_secs: job.timeout_secs.saturating_sub(secs),
            remaining_usd: job.budget.map(|all| Usd(all.0.saturating_sub(used.0))),
            remaining_tokens: job
                .budget_tokens
                .map(|all| all.saturating_sub(running.sum.tokens.total())),
        })
    }

    /// Asks for its end. Whoever coordinates it ends it; if nobody does, the caller has to.
    pub fn ask_to_cancel(&self, named: Option<&str>) -> Outcome<Workflow> {
        let workflow = self.find_workflow(named)?;
        self.about_workflow(&Command::CancelWorkflow {
            workflow: workflow.id,
        })
    }

    /// What a unit has that its target had not when it began, committed or not.
    pub(super) fn unit_diff(&self, named: Option<&str>) -> Outcome<Answer> {
        let view = self.view()?;
        let unit = self.find_unit(&view, named)?;
        let failed = |e: GitError| refuse(Code::Io, e);
        let root = Path::new(&unit.worktree_path);
        let git = if root.join(".git").exists() {
            Git::at(root).args([
                "diff",
                "--no-ext-diff",
                "--no-color",
                "--merge-base",
                &unit.target,
            ])
        } else {
            let range = format!("{}...refs/heads/{}", unit.target, unit.branch);
            Git::in_git_dir(self.common()?).args(["diff", "--no-ext-diff", "--no-color", &range])
        };
        let diff = String::from_utf8_lossy(&git.run().map_err(failed)?).into_owned();
        let reply = Reply::Diff(UnitDiff {
            unit: unit.id,
            base: unit.base,
            diff,
        });
        self.read_answer(&view, reply)
    }
}

/// Whether a merge in that worktree waits to be settled.
fn is_merging(root: &Path) -> bool {
    let Ok(link) = std::fs::read_to_string(root.join(".git")) else {
        return false;
    };
    let Some(dir) = link.strip_prefix("gitdir: ") else {
        return false;
    };
    root.join(dir.trim_end()).join("MERGE_HEAD").exists()
}

/// A name nobody else has: the day, and something random.
fn made_up(now: Wall) -> Outcome<String> {
    let day = now
        .to_string()
        .split('T')
        .next()
        .unwrap_or_default()
        .replace('-', "");
    let random = crate::os::random::u64().map_err(|e| refuse(Code::Io, e))?;
    Ok(format!("run-{day}-{:06x}", random & 0xff_ffff))
}
