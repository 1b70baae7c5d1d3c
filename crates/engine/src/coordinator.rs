//! The coordinator of a workflow (G11, G12, G13). It takes a snapshot, asks
//! [`CoordinatorInput::next`](jit_core::coordinator::CoordinatorInput::next) for the next steps, performs them, and
//! repeats.
//!
//! What must hold:
//!
//! - It knows nothing that is not in the log, in the plan or in the files of attempts. If it is killed at any point,
//!   the next coordinator continues, and no step is done twice.
//! - One workflow has one coordinator. A kernel lock proves that it lives; a lease in the log shows it to others.
//! - It never waits for one unit while another could continue. Long steps run in threads: one step at a time for each
//!   unit, and one landing at a time.
//! - Agents do not depend on it: they keep running after it ends.

use crate::api::landing::LandingReply;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use jit_core::coordinator::{
    self, AgentStatus, Alert, Awaited, CoordinatorLimits, NextStep, Purse, StepKind, StepTrouble,
    UnitStanding,
};
use jit_core::model::ids::{UnitId, WorkflowId};
use jit_core::model::plan::{Plan, PlanUnit};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Phase, Unit};
use jit_core::model::workflow::Workflow;
use jit_os::{file, io_refusal};
use jit_store::Outcome;

use crate::api::Options;
use crate::api::Reply;
use crate::api::attempts::{Again, DispatchAsk};
use crate::api::landing::{MergeAsk, MergeMode};
use crate::api::rescue::Force;
use crate::api::units::{for_a_person, in_words};
use crate::attempts::dispatch::Starting;
use crate::context::Context;
use crate::notify::Notifier;
use crate::notify::happened::Scene;
use crate::plans::lookup::LOCK;
use crate::workflows::overlap::Touched;
use crate::workflows::service::in_the_way;
use crate::workflows::snapshot::{Sight, Situation, Troubles};
use crate::worktree_identity::identity::Need;

/// Pause between two snapshots if no thread reports.
const TICK: Duration = Duration::from_millis(200);
/// Interval for renewing the leadership. The renewal is written to the log only when half of the time is over.
const RENEW: Duration = Duration::from_secs(10);

/// Maximum time to wait for the kernel lock.
const PATIENCE: Duration = Duration::from_millis(300);

/// Pause after starting a shim, before the next look at it.
const ON_ITS_WAY: Duration = Duration::from_millis(20);
/// The coordinator ends after this many failed snapshots in a row, one second apart.
const BLIND: u32 = 60;

/// A message to the watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// A step for a unit was done, or its state changed.
    Unit {
        unit: UnitId,
        text: String,
    },
    /// About the workflow as a whole.
    All(String),
    Warning(String),
}

/// The caller that watches the coordinator, and may end it.
pub trait Watcher {
    fn progress(&mut self, told: &Progress);

    /// Called at every snapshot. `false` ends the coordinator; agents keep running.
    fn go_on(&mut self) -> bool;

    /// Called while the coordinator ends. `true`: do not wait for the running threads. The next coordinator repeats
    /// their steps.
    fn hurry(&mut self) -> bool {
        false
    }
}

/// A step that a thread finished.
struct Done {
    step: NextStep,
    units: Vec<UnitId>,
    outcome: Result<Came, Box<Refusal>>,
}

/// The result of a step.
#[derive(Default)]
struct Came {
    told: Vec<Progress>,
    /// Units for which the step was refused.
    refused: Vec<(UnitId, Refusal)>,
}

/// A running coordinator.
pub struct Coordinator<'a> {
    cx: &'a Context,
    options: Options,
    id: WorkflowId,
    plan: Plan,
    /// The kernel lock that proves that this process lives.
    _alive: File,
    busy: BTreeSet<UnitId>,
    landing: bool,
    troubles: Troubles,
    /// Cache of the previous snapshot.
    sight: Sight,
    renewed: Instant,
    kept: Instant,
    /// Number of failed snapshots in a row.
    blind: u32,
    /// The last reported state of each unit.
    known: BTreeMap<UnitId, String>,
    alerted: Vec<Purse>,
    /// The last reported reason for each wait: of a unit, an account, or the day.
    waits: BTreeMap<String, String>,
    touched: Touched,
    /// The units or agents that each unit was reported to wait for, until it starts.
    stopped_by: BTreeMap<UnitId, BTreeSet<String>>,
    /// Sends notifications, if any are configured.
    notifier: Option<Notifier>,
    inbox: (mpsc::Sender<Done>, mpsc::Receiver<Done>),
}

impl std::fmt::Debug for Coordinator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coordinator")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Acquires the kernel lock of a workflow's coordinator; `None` while another coordinator lives.
fn live(folder: &Path) -> Outcome<Option<File>> {
    let path = folder.join(LOCK);
    let io = |e: std::io::Error| io_refusal("lock", &path, &e);
    let file = file::open_lock(&path).map_err(io)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            // A process that only checks for a coordinator holds the lock for a moment.
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => std::thread::sleep(ON_ITS_WAY),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(io(e)),
        }
    }
}

/// Coordinates a workflow until it is over, waits for a person, or the watcher ends it.
pub fn lead(options: &Options, id: &WorkflowId, watcher: &mut dyn Watcher) -> Outcome<Workflow> {
    // A request id belongs to one command only.
    let options = Options {
        request: None,
        ..options.clone()
    };
    let cx = crate::opening::open(&options, Need::Write)?;
    // The coordinator's threads act as the same agent in the same folder.
    let options = Options {
        dir: Some(cx.place.start.clone()),
        agent: Some(cx.actor.agent_id.to_string()),
        ..options
    };
    Coordinator::of(&cx, options, id)?.run(watcher)
}

impl<'a> Coordinator<'a> {
    /// Acquires the leadership of a workflow.
    pub fn of(cx: &'a Context, options: Options, id: &WorkflowId) -> Outcome<Self> {
        let workflow = crate::plans::lookup::find_workflow(cx, Some(id.as_str()))?;
        crate::context::calling_agent::require_may_lead(cx, &workflow)?;
        let Some(alive) = live(&crate::plans::lookup::workflow_folder(cx, id))? else {
            return Err(Box::new(
                Refusal::new(
                    Code::Held,
                    format!("the workflow {id} is led by another coordinator"),
                )
                .help(format!("jit workflow status {id}")),
            ));
        };
        let plan = crate::plans::lookup::load_plan(cx, &workflow)?;
        // The previous coordinator has lost the kernel lock, so it is dead.
        crate::workflows::service::lead_workflow(cx, id, true)?;
        Ok(Self {
            cx,
            options,
            id: id.clone(),
            plan,
            _alive: alive,
            busy: BTreeSet::new(),
            landing: false,
            troubles: Troubles::new(),
            sight: Sight::default(),
            renewed: Instant::now(),
            kept: Instant::now(),
            blind: 0,
            known: BTreeMap::new(),
            alerted: Vec::new(),
            waits: BTreeMap::new(),
            touched: Touched::new(),
            stopped_by: BTreeMap::new(),
            notifier: Notifier::of(
                crate::notify::service::notifying(cx),
                &crate::plans::lookup::workflow_folder(cx, id),
            ),
            inbox: mpsc::channel(),
        })
    }

    /// Runs the workflow until it ends, or until the watcher ends the coordinator.
    pub fn run(mut self, watcher: &mut dyn Watcher) -> Outcome<Workflow> {
        let ended = self.work_off(watcher);
        self.notify_end(ended.as_ref().ok(), watcher);
        ended
    }

    fn work_off(&mut self, watcher: &mut dyn Watcher) -> Outcome<Workflow> {
        let limits = crate::workflows::snapshot::limits(self.cx, &self.plan, &self.id);
        loop {
            if !watcher.go_on() {
                // Releases the lease at once, and finishes the steps that have started: no other process can lead
                // while this one lives.
                crate::workflows::service::leave_workflow(self.cx, &self.id)?;
                while !self.busy.is_empty() && !watcher.hurry() {
                    self.rest(TICK, watcher);
                }
                return crate::plans::lookup::find_workflow(self.cx, Some(self.id.as_str()));
            }
            self.renew_leadership(watcher);
            let Some(at) = self.look(watcher)? else {
                self.rest(Duration::from_secs(1), watcher);
                continue;
            };
            self.keep_claims(&at, watcher);
            self.tell_changes(&at, watcher);
            if at.workflow.is_over() {
                self.finish_beside(watcher);
                return Ok(at.workflow);
            }
            for alert in coordinator::alerts(&at.facts, &limits) {
                self.alert(alert, watcher);
            }
            self.tell_collisions(&at, &limits, watcher);
            let steps = at.look(&self.plan, &limits).next();
            self.notify(&at, &steps, &limits, watcher);
            let mut did = false;
            let mut wait = TICK;
            for step in steps {
                if !watcher.go_on() {
                    break;
                }
                match step {
                    // No step can continue without a person.
                    NextStep::Wait { why, .. } if self.busy.is_empty() && is_up_to_people(&why) => {
                        self.tell_waiting(&why, &at, watcher);
                        crate::workflows::service::leave_workflow(self.cx, &self.id)?;
                        return crate::plans::lookup::find_workflow(self.cx, Some(self.id.as_str()));
                    }
                    NextStep::Wait { until, why } => {
                        let ms = until.map_or(i64::MAX, |until| {
                            until.ms().saturating_sub(self.cx.clock.wall().ms())
                        });
                        wait = wait.min(Duration::from_millis(u64::try_from(ms).unwrap_or(1).max(1)));
                        self.tell_waiting(&why, &at, watcher);
                    }
                    NextStep::End(outcome) if self.busy.is_empty() => {
                        let standings = at.look(&self.plan, &limits).standings();
                        self.tell_unmade(&standings, &at, watcher);
                        let workflow = crate::workflows::service::end_workflow(self.cx, &self.id, outcome)?;
                        crate::workflows::service::write_orchestration(self.cx, &workflow)?;
                        return Ok(workflow);
                    }
                    NextStep::End(_) => {}
                    step => did |= self.take(step, &at, watcher),
                }
            }
            if !did && watcher.go_on() {
                self.rest(wait, watcher);
            }
        }
    }

    /// Waits until a thread reports, or until the time is over.
    fn rest(&mut self, wait: Duration, watcher: &mut dyn Watcher) {
        if let Ok(done) = self.inbox.1.recv_timeout(wait) {
            self.hear(done, watcher);
        }
        while let Ok(done) = self.inbox.1.try_recv() {
            self.hear(done, watcher);
        }
    }

    fn finish_beside(&mut self, watcher: &mut dyn Watcher) {
        while !self.busy.is_empty() && !watcher.hurry() {
            self.renew_leadership(watcher);
            self.rest(TICK, watcher);
        }
    }

    /// Renews the leadership. A failure is reported as a warning: only a process with the kernel lock can acquire the
    /// leadership.
    fn renew_leadership(&mut self, watcher: &mut dyn Watcher) {
        if self.renewed.elapsed() < RENEW {
            return;
        }
        if let Err(refusal) = crate::workflows::service::lead_workflow(self.cx, &self.id, false) {
            watcher.progress(&Progress::Warning(refusal.message));
        }
        self.renewed = Instant::now();
    }

    /// Renews the claims of units without a running agent: no other process renews them.
    fn keep_claims(&mut self, at: &Situation, watcher: &mut dyn Watcher) {
        if self.kept.elapsed() < RENEW {
            return;
        }
        self.kept = Instant::now();
        for member in &at.members {
            if member.claimed
                && member.seen != AgentStatus::Running
                && let Some(unit) = &member.unit
                && let Err(refusal) = crate::attempts::dispatch::keep_claim(self.cx, unit)
            {
                watcher.progress(&Progress::Warning(format!("{}: {}", unit.id, refusal.message)));
            }
        }
    }

    /// Takes a snapshot. A temporary read or write failure does not end the coordinator.
    fn look(&mut self, watcher: &mut dyn Watcher) -> Outcome<Option<Situation>> {
        let looked = crate::workflows::snapshot::situation(
            self.cx,
            &self.id,
            Some(&self.plan),
            &self.troubles,
            &mut self.sight,
        )
        .and_then(|mut at| {
            crate::workflows::overlap::look_around(self.cx, &mut at, &self.plan, &mut self.touched)?;
            crate::workflows::snapshot::show_orchestration(self.cx, &at, &mut self.sight).map(|()| at)
        });
        match looked {
            Ok(at) => {
                self.blind = 0;
                Ok(Some(at))
            }
            Err(refusal) if matches!(refusal.code, Code::Busy | Code::Io) && self.blind < BLIND => {
                if self.blind == 0 {
                    watcher.progress(&Progress::Warning(refusal.message));
                }
                self.blind += 1;
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn hear(&mut self, done: Done, watcher: &mut dyn Watcher) {
        for unit in &done.units {
            self.busy.remove(unit);
        }
        if matches!(done.step, NextStep::Land(_) | NextStep::SendBack(_)) {
            self.landing = false;
        }
        match done.outcome {
            Ok(came) => {
                for one in &came.told {
                    watcher.progress(one);
                }
                let fine = |unit: &&UnitId| came.refused.iter().all(|(refused, _)| refused != *unit);
                let fine: Vec<UnitId> = done.units.iter().filter(fine).cloned().collect();
                self.forget_trouble(&fine, &done.step);
                for (unit, refusal) in &came.refused {
                    self.note_trouble(std::slice::from_ref(unit), &done.step, refusal, watcher);
                }
            }
            // Another process is settling the unit.
            Err(refusal) if refusal.code == Code::Busy && matches!(done.step, NextStep::Settle(_)) => {}
            Err(refusal) => self.note_trouble(&done.units, &done.step, &refusal, watcher),
        }
    }

    fn forget_trouble(&mut self, units: &[UnitId], step: &NextStep) {
        let Some(task) = step.task() else { return };
        for unit in units {
            if let Some(of_unit) = self.troubles.get_mut(unit) {
                of_unit.remove(&task);
            }
        }
    }

    fn note_trouble(
        &mut self,
        units: &[UnitId],
        step: &NextStep,
        refusal: &Refusal,
        watcher: &mut dyn Watcher,
    ) {
        let Some(task) = step.task() else { return };
        for unit in units {
            let of_unit = self.troubles.entry(unit.clone()).or_default();
            let before = of_unit.get(&task);
            if before.is_none_or(|before| before.why != refusal.message) {
                watcher.progress(&Progress::Unit {
                    unit: unit.clone(),
                    text: format!("{}: {}", word(task), refusal.message),
                });
            }
            let times = match task {
                // No other step depends on it, and a retry would not help: it is left to a person.
                StepKind::Clean if refusal.code != Code::Busy => u32::MAX,
                StepKind::Create if is_for_good(refusal.code) => u32::MAX,
                _ => before.map_or(0, |before| before.times).saturating_add(1),
            };
            let trouble = StepTrouble {
                times,
                at: self.cx.clock.wall(),
                why: refusal.message.clone(),
            };
            of_unit.insert(task, trouble);
        }
    }

    /// Performs a step, or starts it in a thread. Returns whether anything was done.
    fn take(&mut self, step: NextStep, at: &Situation, watcher: &mut dyn Watcher) -> bool {
        let units: Vec<UnitId> = match &step {
            NextStep::Land(units) => units
                .iter()
                .filter(|unit| !self.busy.contains(*unit))
                .cloned()
                .collect(),
            NextStep::Create(unit)
            | NextStep::Dispatch { unit, .. }
            | NextStep::Launch(unit)
            | NextStep::Running(unit)
            | NextStep::Settle(unit)
            | NextStep::Retry(unit)
            | NextStep::SendBack(unit)
            | NextStep::Resolve(unit)
            | NextStep::Stop { unit, .. }
            | NextStep::Clean(unit)
            | NextStep::Abandon { unit, .. }
            | NextStep::GiveBack(unit) => vec![unit.clone()],
            NextStep::Wait { .. } | NextStep::End(_) => return false,
        };
        if units.is_empty() || units.iter().any(|unit| self.busy.contains(unit)) {
            return false;
        }
        let lands = matches!(step, NextStep::Land(_) | NextStep::SendBack(_));
        if lands && self.landing {
            return false;
        }
        match &step {
            // Steps that may take long.
            NextStep::Create(_)
            | NextStep::Launch(_)
            | NextStep::Running(_)
            | NextStep::Retry(_)
            | NextStep::Resolve(_)
            | NextStep::Settle(_)
            | NextStep::SendBack(_)
            | NextStep::Land(_)
            | NextStep::Clean(_)
            | NextStep::Abandon { .. } => {
                self.busy.extend(units.iter().cloned());
                self.landing |= lands;
                let work = StepRun {
                    plan: units.first().and_then(|unit| self.unit_of_plan(unit)).cloned(),
                    target: at.workflow.target.clone(),
                    workflow: self.id.clone(),
                };
                let (options, inbox) = (self.options.clone(), self.inbox.0.clone());
                let name = units.first().map_or("", UnitId::as_str).to_owned();
                let (beside, of_step) = (units.clone(), step.clone());
                let spawned = std::thread::Builder::new().name(name).spawn(move || {
                    let outcome = crate::opening::open(&options, Need::Write)
                        .and_then(|cx| work.perform(&cx, &of_step, &beside));
                    // The receiver is gone if the coordinator has ended.
                    let _ = inbox.send(Done {
                        step: of_step,
                        units: beside,
                        outcome,
                    });
                });
                if let Err(e) = spawned {
                    for unit in &units {
                        self.busy.remove(unit);
                    }
                    self.landing &= !lands;
                    let refusal = Refusal::new(Code::Io, format!("cannot start a thread: {e}"));
                    self.note_trouble(&units, &step, &refusal, watcher);
                }
                // The thread will report the result.
                false
            }
            _ => {
                let outcome = self.at_once(&step);
                match outcome {
                    Ok(()) => {
                        self.forget_trouble(&units, &step);
                        true
                    }
                    // The account was parked since the snapshot: the next snapshot waits for it.
                    Err(refusal) if refusal.code == Code::Parked => false,
                    Err(refusal) => {
                        self.note_trouble(&units, &step, &refusal, watcher);
                        false
                    }
                }
            }
        }
    }

    fn unit_of_plan(&self, id: &UnitId) -> Option<&PlanUnit> {
        self.plan.units.iter().find(|unit| unit.id == id.as_str())
    }

    /// Performs a step that takes no time.
    fn at_once(&self, step: &NextStep) -> Outcome<()> {
        let unit = |id: &UnitId| -> Outcome<Unit> { crate::units::service::load_unit(self.cx, id) };
        match step {
            NextStep::Dispatch { unit: id, resume } => {
                let Some(planned) = self.unit_of_plan(id) else {
                    return Err(Box::new(Refusal::new(
                        Code::NotFound,
                        format!("the plan has no {id}"),
                    )));
                };
                let before = unit(id)?;
                let ask = DispatchAsk {
                    again: if *resume { Again::Resume } else { Again::Fresh },
                    ..DispatchAsk::of_plan(id, planned)?
                };
                crate::attempts::dispatch::start_attempt(self.cx, &before.id, &ask).map(drop)
            }
            NextStep::Stop { unit: id, why } => {
                crate::attempts::dispatch::stop_attempt(self.cx, &unit(id)?, why)
            }
            NextStep::GiveBack(id) => crate::attempts::dispatch::give_back_claim(self.cx, &unit(id)?),
            // These steps run in a thread, or need no action.
            _ => Ok(()),
        }
    }

    /// Sends the notifications that were not sent yet.
    fn notify(
        &mut self,
        at: &Situation,
        steps: &[NextStep],
        limits: &CoordinatorLimits,
        watcher: &mut dyn Watcher,
    ) {
        let Some(notifier) = &mut self.notifier else {
            return;
        };
        let repository = crate::notify::service::repository_name(self.cx);
        let scene = Scene {
            repository: &repository,
            plan: &self.plan,
            limits,
        };
        for mut notice in scene.all(at, steps) {
            let unit = at
                .members
                .iter()
                .find(|member| Some(&member.id) == notice.unit.as_ref());
            let unit = unit.and_then(|member| member.unit.as_ref());
            // A denied permission needs a person.
            if notice.class == "failed"
                && notifier.wants("needs_person", &notice.id)
                && let Some(denials @ 1..) = unit.map(|unit| crate::notify::service::denials(self.cx, unit))
            {
                notice.class = "needs_person";
                notice.message = format!(
                    "{}\n{denials} tools were refused (dispatch.allow)",
                    notice.message
                );
            }
            notifier.tell(notice);
        }
        for trouble in notifier.troubles() {
            watcher.progress(&Progress::Warning(trouble));
        }
    }

    /// Sends the last notifications.
    fn notify_end(&mut self, workflow: Option<&Workflow>, watcher: &mut dyn Watcher) {
        let Some(mut notifier) = self.notifier.take() else {
            return;
        };
        let limits = crate::workflows::snapshot::limits(self.cx, &self.plan, &self.id);
        let repository = crate::notify::service::repository_name(self.cx);
        let scene = Scene {
            repository: &repository,
            plan: &self.plan,
            limits: &limits,
        };
        if let Some(workflow) = workflow.filter(|workflow| workflow.is_over()) {
            // Events since the last snapshot.
            let at = crate::workflows::snapshot::situation(
                self.cx,
                &self.id,
                Some(&self.plan),
                &self.troubles,
                &mut self.sight,
            );
            if let Ok(at) = at {
                scene
                    .all(&at, &[])
                    .into_iter()
                    .for_each(|notice| notifier.tell(notice));
            }
            notifier.tell(scene.finished(workflow));
        }
        for trouble in notifier.finish() {
            watcher.progress(&Progress::Warning(trouble));
        }
    }

    fn alert(&mut self, alert: Alert, watcher: &mut dyn Watcher) {
        if self.alerted.contains(&alert.of) {
            return;
        }
        self.alerted.push(alert.of);
        let of = match alert.of {
            Purse::Workflow => "this workflow",
            Purse::Day => "the day",
        };
        watcher.progress(&Progress::Warning(format!(
            "{} % of the budget of {of} is used",
            alert.percent
        )));
    }

    /// Reports the reason of a wait when it changes, not at every snapshot.
    fn tell_waiting(&mut self, why: &[Awaited], at: &Situation, watcher: &mut dyn Watcher) {
        for one in why {
            let (of, told) = match one {
                Awaited::Person(unit, why) => {
                    let member = at.members.iter().find(|member| member.id == *unit);
                    let next = member.and_then(|member| at.own(member)).and_then(for_a_person);
                    let next = next.map(|next| format!("; {next}")).unwrap_or_default();
                    (
                        unit.to_string(),
                        Progress::Unit {
                            unit: unit.clone(),
                            text: format!("waits for a person: {why}{next}"),
                        },
                    )
                }
                Awaited::Day => {
                    let text = "the budget of the day is used up: it goes on tomorrow";
                    (String::new(), Progress::All(text.to_owned()))
                }
                Awaited::Parked(account) => {
                    let known = at.facts.accounts.iter().find(|known| known.id == *account);
                    let until = known.and_then(|known| known.parked(at.now));
                    let until =
                        until.map_or_else(|| "for a while".to_owned(), |until| format!("until {until}"));
                    let text = format!("the account {account} was refused: nobody is started on it {until}");
                    (format!("account {account}"), Progress::All(text))
                }
                // Reported by `tell_collisions`, even while other units continue.
                Awaited::Collision { .. } => continue,
                Awaited::Agent(_) | Awaited::Again(_) | Awaited::Stagger => continue,
            };
            let text = match &told {
                Progress::Unit { text, .. } | Progress::All(text) | Progress::Warning(text) => text.clone(),
            };
            if self.waits.get(&of) != Some(&text) {
                watcher.progress(&told);
                self.waits.insert(of, text);
            }
        }
    }

    /// Reports each unit that another one waits for once, until that one starts, even if the touched paths change.
    fn tell_collisions(&mut self, at: &Situation, limits: &CoordinatorLimits, watcher: &mut dyn Watcher) {
        for member in &at.members {
            let begun = |unit: &Unit| matches!(unit.state, Phase::Dispatched | Phase::Running);
            if at.own(member).is_some_and(begun) {
                self.stopped_by.remove(&member.id);
            }
        }
        for hit in at.look(&self.plan, limits).collisions() {
            let told = self.stopped_by.entry(hit.unit.clone()).or_default();
            if told.insert(hit.with.clone()) {
                watcher.progress(&Progress::Unit {
                    unit: hit.unit,
                    text: in_the_way(&hit.with, &hit.path),
                });
            }
        }
    }

    /// Reports the units that have no worktree in the end: the log may not have them, so the answer cannot say why.
    fn tell_unmade(&self, standings: &[UnitStanding], at: &Situation, watcher: &mut dyn Watcher) {
        for (member, standing) in at.members.iter().zip(standings) {
            let is_made = at.own(member).is_some_and(|unit| unit.state != Phase::Idle);
            if let (false, UnitStanding::Failed(why)) = (is_made, standing) {
                watcher.progress(&Progress::Unit {
                    unit: member.id.clone(),
                    text: format!("failed, without a worktree: {why}"),
                });
            }
        }
    }

    fn tell_changes(&mut self, at: &Situation, watcher: &mut dyn Watcher) {
        for member in &at.members {
            let Some(unit) = member
                .unit
                .as_ref()
                .filter(|unit| unit.workflow.as_ref() == Some(&self.id))
            else {
                continue;
            };
            let text = in_words(unit);
            if self.known.get(&unit.id) != Some(&text) {
                watcher.progress(&Progress::Unit {
                    unit: unit.id.clone(),
                    text: text.clone(),
                });
                self.known.insert(unit.id.clone(), text);
            }
        }
    }
}

fn is_up_to_people(why: &[Awaited]) -> bool {
    !why.is_empty() && why.iter().all(|one| matches!(one, Awaited::Person(..)))
}

/// Whether a worktree that was refused for this reason is refused until a person changes something (G10).
fn is_for_good(code: Code) -> bool {
    matches!(
        code,
        Code::Exists | Code::Invalid | Code::NotFound | Code::NotTrusted | Code::Closed
    )
}

/// The failed step, as text for people.
fn word(task: StepKind) -> &'static str {
    match task {
        StepKind::Create => "its worktree cannot be made",
        StepKind::Dispatch | StepKind::Launch | StepKind::Running => "its agent cannot be started",
        StepKind::Settle => "its end cannot be written down",
        StepKind::Retry => "it cannot be tried again",
        StepKind::Resolve => "its conflict cannot be sent back",
        StepKind::Stop => "its agent cannot be stopped",
        StepKind::Land => "it cannot land",
        StepKind::Clean => "its worktree cannot be removed",
        StepKind::Abandon => "it cannot be given up",
        StepKind::GiveBack => "its issue cannot be given back",
    }
}

/// The data for a step in a thread.
struct StepRun {
    pub(crate) plan: Option<PlanUnit>,
    pub(crate) target: String,
    pub(crate) workflow: WorkflowId,
}

impl StepRun {
    fn perform(&self, cx: &Context, step: &NextStep, units: &[UnitId]) -> Result<Came, Box<Refusal>> {
        match step {
            NextStep::Create(id) => {
                let issue = self.plan.as_ref().and_then(|planned| planned.issue.clone());
                crate::worktrees::provisioning::create_for_workflow(
                    cx,
                    id,
                    issue,
                    &self.target,
                    &self.workflow,
                )?;
                Ok(Came::default())
            }
            // Both steps follow from the files of the attempt.
            NextStep::Launch(id) | NextStep::Running(id) => {
                let before = crate::units::service::load_unit(cx, id)?.state;
                if crate::attempts::outcome::settle(cx, id, Starting::Allowed)?.state == before {
                    // The shim is starting: another look at once would only slow it down.
                    std::thread::sleep(ON_ITS_WAY);
                }
                Ok(Came::default())
            }
            NextStep::Settle(id) => {
                match crate::attempts::outcome::settle(cx, id, Starting::Forbidden)?.state {
                    Phase::Dispatched | Phase::Running => Err(Box::new(Refusal::new(
                        Code::Busy,
                        "its end is being written down by somebody else",
                    ))),
                    _ => Ok(Came::default()),
                }
            }
            NextStep::Retry(id) | NextStep::Resolve(id) => {
                crate::worktrees::service::try_again(cx, id).map(|_| Came::default())
            }
            NextStep::Land(_) => self.merge(cx, units, MergeMode::Land),
            NextStep::SendBack(_) => self.merge(cx, units, MergeMode::SendBack),
            NextStep::Clean(id) => {
                crate::worktrees::cleanup::cleanup_unit(cx, id, Force::No).map(|_| Came::default())
            }
            NextStep::Abandon { unit, why } => {
                crate::worktrees::cleanup::abandon_unit(cx, unit, why, Force::No).map(|_| Came::default())
            }
            _ => Ok(Came::default()),
        }
    }

    fn merge(&self, cx: &Context, units: &[UnitId], mode: MergeMode) -> Result<Came, Box<Refusal>> {
        let ask = MergeAsk {
            units: units.iter().map(ToString::to_string).collect(),
            all: false,
            into: Some(self.target.clone()),
            mode,
            leave_proposed: true,
        };
        crate::issues::sync::sync_if_git_moved(cx);
        let answer = crate::landing::service::merge_units(cx, &ask)?;
        let Reply::Landing(LandingReply::Report(report)) = answer.reply else {
            return Ok(Came::default());
        };
        // A unit that cannot land now counts as a failed step. Conflicts and failed checks are in its state.
        let refused = report.units.iter().filter(|one| one.verdict.is_refused());
        let refused = refused.filter_map(|one| {
            let message = one
                .message
                .clone()
                .unwrap_or_else(|| "it cannot go now".to_owned());
            Some((one.unit.parse().ok()?, Refusal::new(Code::CheckFailed, message)))
        });
        Ok(Came {
            refused: refused.collect(),
            told: answer.warnings.into_iter().map(Progress::Warning).collect(),
        })
    }
}
