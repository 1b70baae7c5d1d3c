//! Lands a group of units: merges, tests, moves the target and records the result.
//!
//! What must hold:
//!
//! - If a group cannot land together, it is split into halves, until the unit that cannot land is found.
//! - The rules of the target and the state of the units are read again each time the target has moved, at most
//!   `ROUNDS` times.
//! - A unit is recorded as landed only if the target contains its commit.
//! - A unit that is refused before it landed leaves MERGING. If that write fails, the next landing repeats it.

use std::collections::BTreeSet;
use std::path::Path;

use jit_core::decide::command::{Command, IssueChange};
use jit_core::log::state;
use jit_core::model::actor::Actor;
use jit_core::model::ids::UnitId;
use jit_core::model::issue::{Issue, IssueState};
use jit_core::model::lease::Resource;
use jit_core::model::policy::Policy;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::unit::{Facts, Failure, MANUAL, Passed, Phase, Unit, UnitInput};
use jit_git::snapshot::without_jit;
use jit_os::shell::shell_word;
use jit_store::{Outcome, View};

use crate::api::gates::Gate;
use crate::api::landing::Validation;
use crate::api::landing::{UnitReport, Verdict};
use crate::api::trust::Kind;
use crate::crash_point::step;
use crate::landing::candidate::{Added, Candidate, Means, nothing};
use crate::landing::land::{LANDED, Move, require_movable};
use crate::landing::others_work::require_no_change_for_everybody;
use crate::landing::service::{LandingUnit, ROUNDS, Rules, Run, refused_report, settled};
use crate::landing::tested::Verdict as Tried;
use crate::landing::{Repo, case_twins, remote};
use crate::refusals::failed;
use crate::refusals::refuse;
use crate::write_path::WriteOptions;

/// Refuses to land a unit on `into` while an interrupted landing on another branch is unfinished and that branch
/// exists.
pub(crate) fn require_begun_for(repo: &Repo, into: &str, units: &[Unit]) -> Outcome<()> {
    for unit in units {
        let goes_to = unit.goes_to();
        if unit.state != Phase::Merging || goes_to == into || repo.tip(goes_to)?.is_none() {
            continue;
        }
        // The unit may have landed there already, under an older name of that branch.
        if crate::landing::service::landed_on(repo, unit)?.as_deref() != Some(into) {
            let message = format!(
                "{} has begun to land on {goes_to}, which was cut off: that comes to its end first",
                unit.id
            );
            let help = format!("jit worktree merge {} --into {}", unit.id, shell_word(goes_to));
            return Err(Box::new(Refusal::new(Code::BadTransition, message).help(help)));
        }
    }
    Ok(())
}

impl Run<'_> {
    /// Reports what would happen, and changes nothing.
    pub(crate) fn rehearse(
        &self,
        work: &LandingUnit,
        rules: &Rules,
        coming: &BTreeSet<String>,
    ) -> Outcome<UnitReport> {
        let agent = self.cx.actor.agent_id.to_string();
        let may_run = |kind: Kind, name: &str, text: &str| self.require_trusted(kind, name, text);
        let means = Means {
            strategy: rules.merging.strategy,
            policy: &rules.merging.policy,
            timeout: rules.merging.validate_timeout,
            agent: &agent,
            may_run: &may_run,
            adds: &nothing,
        };
        let issues: BTreeSet<String> = coming.clone();
        let view = crate::write_path::view(self.cx)?;
        let units = state::units(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let but: BTreeSet<String> = units
            .iter()
            .filter(|unit| issues.contains(unit.id.as_str()))
            .filter_map(|unit| unit.issue_id.as_ref().map(ToString::to_string))
            .collect();
        if let Some(refusal) = self.require_free(work, &but)? {
            return Ok(refused_report(&work.unit, Verdict::Waiting, &refusal));
        }
        Ok(
            match Candidate::on(&self.repo, &self.target)?.add(&work.coming(&self.target), &means)? {
                Added::Yes(candidate) => UnitReport {
                    how: candidate.steps.last().map(|step| step.how),
                    settled: candidate.steps.last().map_or_else(Vec::new, settled),
                    ..work.report(Verdict::Clean)
                },
                Added::Nothing(_) => work.report(Verdict::Nothing),
                Added::NotForward(_) => refused_report(&work.unit, Verdict::Refused, &self.not_forward(work)),
                Added::Conflict(_, merge) => {
                    crate::landing::conflict_report::conflict_report(self, work, &merge, rules)?
                }
            },
        )
    }

    pub(crate) fn not_forward(&self, work: &LandingUnit) -> Refusal {
        let message = format!(
            "{} has moved on since {} left it, and merge.strategy is ff",
            self.target, work.unit.id
        );
        let shown = shell_word(&work.unit.worktree_path);
        Refusal::new(Code::NotAllowed, message)
            .help(format!("git -C {shown} rebase {}", shell_word(&self.target)))
    }

    /// Keeps the units of a group that can be tried. Each other unit is reported with the reason; a single unit is
    /// refused.
    fn fit(&mut self, mut group: Vec<LandingUnit>, on: &str, rules: &Rules) -> Outcome<Vec<LandingUnit>> {
        let alone = group.len() == 1;
        let mut fit = Vec::with_capacity(group.len());
        for work in group {
            let asked = self.look_again(&work).and_then(|work| {
                // For a single unit the checks are collected later, when it is known that there is something to land.
                if !alone {
                    self.checks(std::slice::from_ref(&work), on, rules)?;
                }
                Ok(work)
            });
            match asked {
                Ok(work) => fit.push(work),
                Err(refusal) if alone => return Err(refusal),
                Err(refusal) => self
                    .reports
                    .push(refused_report(&work.unit, Verdict::Refused, &refusal)),
            }
        }
        group = fit;
        // A dropped unit may have been a dependency of another one.
        loop {
            let many = group.len();
            let own: BTreeSet<String> = group
                .iter()
                .filter_map(|work| work.unit.issue_id.as_ref().map(ToString::to_string))
                .collect();
            let mut free = Vec::with_capacity(many);
            for work in group {
                match self.require_free(&work, &own)? {
                    Some(refusal) => {
                        self.reports
                            .push(refused_report(&work.unit, Verdict::Waiting, &refusal))
                    }
                    None => free.push(work),
                }
            }
            group = free;
            if group.len() == many {
                return Ok(group);
            }
        }
    }

    /// Lands these units together, or finds out which of them cannot land. A refused unit that has not landed waits as
    /// before.
    pub(crate) fn group(&mut self, group: Vec<LandingUnit>) -> Outcome<()> {
        let asked: Vec<UnitId> = group.iter().map(|work| work.unit.id.clone()).collect();
        self.try_group(group).inspect_err(|_| {
            for id in &asked {
                // The refusal is reported. A unit that cannot be put off now is handled by the next landing.
                let _ = self.put_off(id);
            }
        })
    }

    /// T9-: the landing of this unit had begun, and the target does not contain it.
    fn put_off(&self, id: &UnitId) -> Outcome<()> {
        let unit = crate::units::service::load_unit(self.cx, id)?;
        if unit.state == Phase::Merging
            && unit.goes_to() == self.target
            && crate::landing::service::landed_on(&self.repo, &unit)?.is_none()
        {
            crate::units::service::advance(self.cx, id, UnitInput::MergePutOff, Facts::default())?;
        }
        Ok(())
    }

    /// Tries to land the group. Reads the rules of the target and the state of the units again each time the target
    /// has moved.
    fn try_group(&mut self, mut group: Vec<LandingUnit>) -> Outcome<()> {
        let agent = self.cx.actor.agent_id.to_string();
        for _ in 0..ROUNDS {
            let on = Candidate::on(&self.repo, &self.target)?;
            let rules = &*self.rules_that_hold(&on.old)?;
            group = self.fit(group, &on.old, rules)?;
            if group.is_empty() {
                return Ok(());
            }
            let mut candidate = on;
            let mut apart = false;
            for work in &group {
                let cx = self.cx;
                let may_run = |kind: Kind, name: &str, text: &str| {
                    crate::approvals::approvals()?.require(
                        &crate::approvals::repository(cx),
                        kind,
                        name,
                        text,
                    )
                };
                let means = Means {
                    strategy: rules.merging.strategy,
                    policy: &rules.merging.policy,
                    timeout: rules.merging.validate_timeout,
                    agent: &agent,
                    may_run: &may_run,
                    adds: &|tree| crate::landing::issue_file::closing(self, work, tree),
                };
                match candidate.add(&work.coming(&self.target), &means)? {
                    Added::Yes(more) => candidate = more,
                    // Another unit of the group contained the same change.
                    Added::Nothing(same) => {
                        candidate = same;
                        apart = group.len() > 1;
                    }
                    Added::NotForward(_) if group.len() == 1 => {
                        return Err(Box::new(self.not_forward(work)));
                    }
                    Added::Conflict(_, merge) if group.len() == 1 => {
                        return crate::landing::conflict_report::escalate(self, work, &merge, rules);
                    }
                    Added::NotForward(same) | Added::Conflict(same, _) => {
                        candidate = same;
                        apart = true;
                    }
                }
                if apart {
                    break;
                }
            }
            if apart {
                return self.halves(group);
            }
            step("candidate");
            if candidate.steps.is_empty() {
                // Another process landed it meanwhile.
                for work in &group {
                    let commit = match self.repo.is_ancestor(&work.tip, &candidate.old)? {
                        true => work.tip.clone(),
                        false => {
                            let with = crate::landing::squash_base::squashed_with(
                                &self.repo,
                                &candidate.old,
                                &work.tip,
                            )?;
                            with.unwrap_or_else(|| candidate.old.clone())
                        }
                    };
                    self.begin(work)?;
                    let issue_done = self.record(work, &commit, None)?;
                    self.reports.push(UnitReport {
                        merge_commit: Some(commit),
                        issue_done,
                        ..work.report(Verdict::AlreadyLanded)
                    });
                }
                return Ok(());
            }
            let checks = self.checks(&group, &candidate.old, rules)?;
            let cx = self.cx;
            let is_ours =
                |root: &Path, path: &Path| crate::issues::sync::projection::is_projection(cx, root, path);
            let can_move = self
                .require_rules(candidate.commit())
                .and_then(|()| match group.as_slice() {
                    [work] => {
                        require_no_change_for_everybody(self, work, (&candidate.old, candidate.commit()))
                    }
                    _ => Ok(()),
                })
                .and_then(|()| require_movable(&self.repo, &self.target, candidate.commit(), &is_ours));
            match can_move {
                Ok(()) => {}
                // One unit of the group may be the reason.
                Err(_) if group.len() > 1 => return self.halves(group),
                Err(refusal) => return Err(refusal),
            }
            for work in &mut group {
                work.unit = self.begin(work)?;
            }
            step("begun");
            let content = self.content(candidate.commit())?;
            let (old, new) = (candidate.old.clone(), candidate.commit().to_owned());
            let tested = match candidate.test(&checks, rules.merging.refuse_fewer_tests)? {
                Tried::Passed(tested) => tested,
                Tried::Failed(_, _) if group.len() > 1 => return self.halves(group),
                Tried::Failed(_, validations) => {
                    for work in &group {
                        self.judge(work, &validations, content.as_deref());
                        let report = self.fail(work, &old, validations.clone())?;
                        self.reports.push(report);
                    }
                    return Ok(());
                }
            };
            for one in &tested.validations {
                if let Some((now, then)) = one.tests.zip(one.tests_before).filter(|(now, then)| now < then) {
                    self.warnings.push(format!(
                        "{}: {now} tests passed, and {then} at the landing before",
                        one.name
                    ));
                }
            }
            for work in &group {
                self.judge(work, &tested.validations, content.as_deref());
            }
            // Checks may take long, and an agent may have continued to work in the unit's worktree.
            let mut still = Vec::with_capacity(group.len());
            let many = group.len();
            for work in group {
                match crate::units::worktree_state::require_committed(self.cx, &work.unit, &work.tip) {
                    Ok(()) => still.push(work),
                    Err(refusal) => {
                        let refusal = self.set_back(&work, &refusal)?;
                        self.reports
                            .push(refused_report(&work.unit, Verdict::Refused, &refusal));
                    }
                }
            }
            group = still;
            if group.is_empty() {
                return Ok(());
            }
            if group.len() < many {
                continue;
            }
            let names: Vec<String> = group.iter().map(LandingUnit::id).collect();
            let bumps = crate::landing::submodules::note_submodules(self, &old, &new)?;
            let landed = match tested.land(&format!("{LANDED} {}", names.join(", ")), &is_ours)? {
                Move::Done(landed) => landed,
                Move::Elsewhere => {
                    crate::landing::submodules::forget_submodules(self);
                    continue;
                }
            };
            if let Some((root, _)) = &landed.replaced {
                crate::landing::submodules::bring_submodules(self, root, bumps);
            }
            crate::landing::submodules::forget_submodules(self);
            self.tell_of_twins(&old, &new);
            for work in &group {
                let Some(step) = landed.steps.iter().find(|step| step.unit == work.id()) else {
                    continue;
                };
                let issue_done = self.record(work, &step.commit, Some(&landed.validations))?;
                self.reports.push(UnitReport {
                    how: Some(step.how),
                    merge_commit: Some(step.commit.clone()),
                    settled: settled(step),
                    validation: of_unit(work, &landed.validations),
                    issue_done,
                    ..work.report(Verdict::Landed)
                });
            }
            if let Some((root, paths)) = &landed.replaced {
                crate::issues::sync::projection::project_again(self.cx, root, paths);
            }
            return Ok(());
        }
        let message = format!("{} moved {ROUNDS} times while this was being merged", self.target);
        Err(Box::new(
            Refusal::new(Code::Busy, message).help("the same command again"),
        ))
    }

    /// Warns of names that the landing added and that differ from another one only in case.
    fn tell_of_twins(&mut self, old: &str, new: &str) {
        // The units have landed, whatever is known about names.
        for (added, other) in case_twins::twins(&self.repo, old, new).unwrap_or_default() {
            self.warnings.push(format!(
                "{} has {added:?} now, and {other:?} differs only in case: some file systems keep only one of them",
                self.target
            ));
        }
    }

    /// The units do not work together: lands the first half, then the other half on top of it.
    pub(crate) fn halves(&mut self, mut group: Vec<LandingUnit>) -> Outcome<()> {
        let second = group.split_off(group.len().div_ceil(2));
        for half in [group, second] {
            if half.is_empty() {
                continue;
            }
            let names: Vec<LandingUnit> = half.clone();
            if let Err(refusal) = self.group(half) {
                if refusal.code == Code::Unknown {
                    return Err(refusal);
                }
                for work in &names {
                    if !self.reports.iter().any(|one| one.unit == work.id()) {
                        self.reports
                            .push(refused_report(&work.unit, Verdict::Refused, &refusal));
                    }
                }
            }
        }
        Ok(())
    }

    /// T4 to T6 if the unit was worked on by hand, T10- if it landed before, then T9. Steps that are already done are
    /// not repeated. A landing that had begun with another commit begins anew.
    pub(crate) fn begin(&self, work: &LandingUnit) -> Outcome<Unit> {
        let mut unit = work.unit.clone();
        loop {
            let input = match unit.state {
                Phase::Ready => UnitInput::DispatchInstance,
                Phase::Dispatched => UnitInput::InstanceRunning,
                Phase::Running => UnitInput::InstanceCompleted,
                Phase::Merging
                    if unit.landing_tip.as_ref() == Some(&work.tip) && unit.goes_to() == self.target =>
                {
                    return Ok(unit);
                }
                Phase::Merging => UnitInput::MergePutOff,
                Phase::Merged => UnitInput::MoreWork,
                _ => UnitInput::BeginMerge,
            };
            let agent = (input == UnitInput::DispatchInstance).then(|| MANUAL.to_owned());
            let facts = Facts {
                agent,
                landing_on: self.elsewhere(&unit),
                tip: Some(work.tip.clone()),
                ..Facts::default()
            };
            let advanced = crate::units::service::advance(self.cx, &unit.id, input, facts);
            unit = advanced.map_err(|refusal| self.overtaken(&unit, refusal))?;
        }
    }

    /// Explains a refused transition by the other command that changed the unit first.
    fn overtaken(&self, unit: &Unit, refusal: Box<Refusal>) -> Box<Refusal> {
        let id = &unit.id;
        let now = crate::units::service::load_unit(self.cx, id).ok();
        match now.filter(|now| refusal.code == Code::BadTransition && now.state != unit.state) {
            Some(now) if now.state == Phase::Merging => {
                let there = now.goes_to();
                let message = format!("somebody else is landing {id} on {there}");
                let help = format!("jit worktree merge {id} --into {}", shell_word(there));
                Box::new(Refusal::new(Code::Busy, message).help(help))
            }
            Some(now) if now.state == Phase::Merged => {
                let message = format!("somebody else has landed {id} on {} meanwhile", now.goes_to());
                Box::new(Refusal::new(Code::Busy, message).help("the same command again"))
            }
            Some(now) if now.state == Phase::Cleanup || now.is_over() => {
                let message = format!("somebody else is removing {id}, or has removed it");
                let help = format!("jit worktree status {id}");
                Box::new(Refusal::new(Code::Busy, message).help(help))
            }
            _ => refusal,
        }
    }

    /// The target of this run, if it is not the unit's own target.
    fn elsewhere(&self, unit: &Unit) -> Option<String> {
        (self.target != unit.target).then(|| self.target.clone())
    }

    /// T10: records the landing, and marks the issue as done.
    pub(crate) fn record(
        &mut self,
        work: &LandingUnit,
        commit: &str,
        passed: Option<&[Validation]>,
    ) -> Outcome<Option<bool>> {
        // Requires that the target contains the commit. "Done" rests on this.
        let target = self.repo.require_tip(&self.target)?;
        if !self.repo.is_ancestor(commit, &target)? {
            let message = format!(
                "{} does not contain {commit}, where {} landed",
                self.target, work.unit.id
            );
            return Err(refuse(Code::Unknown, message));
        }
        let passed = passed.map(|all| {
            let own = of_unit(work, all);
            own.into_iter().map(|one| Passed {
                name: one.name,
                tests: one.tests,
            })
        });
        let facts = Facts {
            merge_commit: Some(commit.to_owned()),
            landing_on: self.elsewhere(&work.unit),
            tested: passed.map(Iterator::collect),
            lease_id: work.lease.as_ref().map(|lease| lease.lease_id.clone()),
            ..Facts::default()
        };
        crate::units::service::advance(self.cx, &work.unit.id, UnitInput::MergeSuccess, facts)?;
        remote::forget(&self.repo, work.unit.id.as_str());
        step("recorded");
        let view = crate::write_path::view(self.cx)?;
        let done = self.close_as(&view, &work.unit, &work.actor);
        step("closed");
        Ok(done)
    }

    pub(crate) fn close(&mut self, view: &View, unit: &Unit) -> Option<bool> {
        let id = unit.issue_id.as_ref()?;
        let issue = state::issue(&*view.table, id).ok().flatten()?;
        if !issue.state.is_closed() {
            match crate::landing::already_landed::was_closed(self.cx, unit) {
                Ok(false) => {}
                // The issue was reopened after the landing.
                Ok(true) => return Some(false),
                Err(refusal) => {
                    self.warnings.push(refusal.message);
                    return Some(false);
                }
            }
        }
        let actor = match self.work(view, unit.clone(), String::new()) {
            Ok(work) => work.actor,
            Err(refusal) => {
                self.warnings.push(refusal.message);
                return Some(false);
            }
        };
        self.close_as(view, unit, &actor)
    }

    /// Marks the unit's issue as done and releases its claim. Returns whether it is done. The landing stands even if
    /// this fails.
    pub(crate) fn close_as(&mut self, view: &View, unit: &Unit, actor: &Actor) -> Option<bool> {
        let id = unit.issue_id.as_ref()?;
        let issue = state::issue(&*view.table, id).ok().flatten()?;
        let key = Resource::Issue(id.clone()).key();
        let is_held = || {
            let lease = state::lease_on(&*view.table, &key).ok().flatten();
            lease.is_some_and(|lease| !lease.expired(&view.now) && lease.obeys(actor))
        };
        // Another process may have read "done" from the landed files before this call. Then the claim still exists.
        if issue.state.is_closed() && !(issue.state == IssueState::Done && is_held()) {
            return Some(issue.state == IssueState::Done);
        }
        let change = |state: IssueState| -> Outcome<()> {
            let rules = self.rules()?;
            // Project only where the target is checked out: in the unit's own tree the file would be uncommitted work.
            // The landed files usually have the state already, unless the issue was in no commit or landed without
            // jit.
            let on_target = self.cx.branch.as_deref() == Some(self.target.as_str());
            let target = self.repo.require_tip(&self.target)?;
            let command = Command::ChangeIssue {
                issue: id.as_str().parse().map_err(|e| refuse(Code::Invalid, e))?,
                change: Box::new(IssueChange {
                    state: Some(state),
                    ..IssueChange::default()
                }),
                strict: false,
            };
            // The issue was judged by the gates of the old target. The landing may have brought other gates of the
            // same names. So the landing agent states no more than the checks found.
            let policy = Policy {
                gates: Vec::new(),
                agents_may_pass_gates: true,
                ..rules.policy.clone()
            };
            let options = WriteOptions {
                policy: Some(&policy),
                actor: Some(actor),
                project: on_target && !crate::landing::issue_file::says_closed(self, &target, id)?,
                ..WriteOptions::default()
            };
            crate::write_path::transact_as(self.cx, None, &command, options)?;
            Ok(())
        };
        let done = match issue.state {
            IssueState::Backlog => change(IssueState::Ready).and_then(|()| change(IssueState::Done)),
            _ => change(IssueState::Done),
        };
        match done {
            Ok(()) => Some(true),
            Err(refusal) => {
                self.warnings
                    .push(format!("{id} is not done yet: {}", refusal.message));
                // The work has landed. The claim is released, so that the issue can be closed after its parts.
                if refusal.code == Code::OpenParts
                    && let Err(refusal) = crate::attempts::dispatch::give_back_claim(self.cx, unit)
                {
                    self.warnings.push(refusal.message);
                }
                Some(false)
            }
        }
    }

    /// Records the gate results of the unit's issue in the log.
    pub(crate) fn judge(&mut self, work: &LandingUnit, validations: &[Validation], content: Option<&str>) {
        let Some(issue) = &work.issue else { return };
        let own = |one: &&Validation| one.issues.iter().any(|id| *id == issue.id.as_str());
        for one in validations.iter().filter(own) {
            let command = match issue.id.as_str().parse() {
                Ok(id) => Command::JudgeGate {
                    issue: id,
                    gate: one.name.clone(),
                    passed: one.passed,
                    manual: false,
                    tree: content.map(str::to_owned),
                    definition: Some(Gate::definition_of(Some(&one.command))),
                },
                Err(_) => continue,
            };
            if let Err(refusal) =
                crate::write_path::transact_as(self.cx, None, &command, WriteOptions::default())
            {
                self.warnings.push(refusal.message);
            }
        }
    }

    /// The tree of a commit as gates use it, without `.jit`.
    pub(crate) fn content(&self, commit: &str) -> Outcome<Option<String>> {
        let git = || self.repo.git();
        let listing = git()
            .args(["ls-tree", "-z", "--full-tree", commit])
            .run()
            .map_err(failed)?;
        let tree = git()
            .args(["mktree", "-z", "--missing"])
            .stdin(without_jit(&listing))
            .line();
        tree.map(Some).map_err(failed)
    }

    /// T7: a landing had begun, and the unit's worktree has work that the landing would leave behind.
    pub(crate) fn set_back(&self, work: &LandingUnit, why: &Refusal) -> Outcome<Box<Refusal>> {
        let id = &work.unit.id;
        let message = format!(
            "{id} changed while it was being merged, so it has not landed: {}",
            why.message
        );
        let failure = Failure {
            reason: "dirty".to_owned(),
            message: message.clone(),
            exit_code: None,
            output: None,
        };
        let facts = Facts {
            error: Some(failure),
            tip: Some(work.tip.clone()),
            ..Facts::default()
        };
        let unit = crate::units::service::advance(self.cx, id, UnitInput::InstanceFailed, facts)?;
        let mut refusal = Refusal::new(Code::Uncommitted, message);
        refusal.help = why.help.clone();
        refusal.help.extend(match unit.may_be_retried() {
            true => vec![format!("jit worktree retry {id} && jit finish {id}")],
            false => unit.after_failure(),
        });
        Ok(Box::new(refusal))
    }

    /// T7: the unit fails the checks on the target.
    pub(crate) fn fail(
        &self,
        work: &LandingUnit,
        onto: &str,
        validations: Vec<Validation>,
    ) -> Outcome<UnitReport> {
        let failed = validations.iter().find(|one| !one.passed);
        let why = failed.and_then(|one| one.reason.clone()).unwrap_or_default();
        let name = failed.map_or("", |one| one.name.as_str());
        let message = format!("merged into {}, it does not pass {name}: {why}", self.target);
        let unit = crate::units::service::advance(
            self.cx,
            &work.unit.id,
            UnitInput::InstanceFailed,
            Facts {
                error: Some(Failure {
                    reason: "validation".to_owned(),
                    message: message.clone(),
                    exit_code: failed.and_then(|one| one.exit_code),
                    output: failed.and_then(|one| one.output_file.clone()),
                }),
                tip: Some(work.tip.clone()),
                onto: Some(onto.to_owned()),
                ..Facts::default()
            },
        )?;
        let mut report = work.report(Verdict::ValidationFailed);
        report.validation = validations;
        report.code = Some(Code::CheckFailed.as_str().into());
        report.message = Some(message);
        report.help = unit.after_failure();
        Ok(report)
    }
}

/// The validations that concern a unit: the target's checks, and the gates of its own issue.
fn of_unit(work: &LandingUnit, validations: &[Validation]) -> Vec<Validation> {
    let own = |one: &&Validation| {
        let is_own = |issue: &Issue| one.issues.iter().any(|id| *id == issue.id.as_str());
        one.kind != Kind::Gate || work.issue.as_ref().is_some_and(is_own)
    };
    validations.iter().filter(own).cloned().collect()
}
