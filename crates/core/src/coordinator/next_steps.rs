//! One look at everything, and what follows from it.

use std::collections::BTreeMap;

use super::{
    AgentStatus, Awaited, Cap, CoordinatorInput, Cure, NextStep, Occupied, PlanMember, Purse, Spending,
    StepKind, UnitStanding, backoff_ms, cure,
};
use crate::model::account::{Account, AccountId};
use crate::model::failure_reason;
use crate::model::plan::PlanUnit;
use crate::model::time::Wall;
use crate::model::unit::{Failure, MAX_RETRIES, MergeStatus, Phase, Unit, was_refused};
use crate::model::workflow::WorkflowOutcome;

/// The steps and reasons to wait that were collected so far.
#[derive(Default)]
struct Collected {
    steps: Vec<NextStep>,
    until: Option<Wall>,
    why: Vec<Awaited>,
}

impl Collected {
    fn wait(&mut self, until: Option<Wall>, why: Awaited) {
        self.until = match (self.until, until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.why.push(why);
    }
}

impl CoordinatorInput<'_> {
    /// The member's unit, if it is this workflow's.
    pub(super) fn own<'m>(&self, member: &'m PlanMember) -> Option<&'m Unit> {
        member
            .unit
            .as_ref()
            .filter(|unit| unit.workflow.as_ref() == Some(self.id))
    }

    fn planned(&self, n: usize) -> Option<&PlanUnit> {
        self.plan.units.get(n)
    }

    fn soft_stop(&self) -> Option<Purse> {
        if self.limits.workflow.used(&self.facts.spent) >= 100 {
            Some(Purse::Workflow)
        } else if self.limits.day.used(&self.facts.spent_today) >= 100 {
            Some(Purse::Day)
        } else {
            None
        }
    }

    fn hard_stop(&self) -> Option<Purse> {
        let most = self.limits.margin.saturating_add(100);
        if self.limits.workflow.used(&self.facts.spent) > most {
            Some(Purse::Workflow)
        } else if self.limits.day.used(&self.facts.spent_today) > most {
            Some(Purse::Day)
        } else {
            None
        }
    }

    /// The member's own money is used up.
    fn is_spent(&self, n: usize, unit: &Unit) -> bool {
        let Some(run) = self.planned(n).map(|planned| &planned.run) else {
            return false;
        };
        let cap = Cap {
            usd: run.budget(),
            tokens: run.budget_tokens,
        };
        let spent = Spending {
            usd: unit.cost_usd.unwrap_or_default(),
            tokens: unit.tokens,
        };
        cap.used(&spent) >= 100
    }

    /// A step that was tried too often.
    fn given_up(&self, member: &PlanMember, task: StepKind) -> Option<String> {
        let trouble = member.troubles.get(&task)?;
        (trouble.times >= self.limits.max_trouble.max(1)).then(|| trouble.why.clone())
    }

    fn retries(&self, n: usize) -> u32 {
        let own = self.planned(n).and_then(|planned| planned.run.max_retries);
        own.unwrap_or(self.limits.max_retries).min(MAX_RETRIES)
    }

    /// An attempt can still be made, as far as the money goes; or why not.
    fn affordable(&self, n: usize, unit: Option<&Unit>) -> Result<(), String> {
        if self.facts.cancelled {
            return Err("the workflow was cancelled".to_owned());
        }
        if self.soft_stop() == Some(Purse::Workflow) {
            return Err("the workflow's budget is used up".to_owned());
        }
        match unit {
            Some(unit) if self.is_spent(n, unit) => Err("its budget is used up".to_owned()),
            _ => Ok(()),
        }
    }

    fn failed(&self, n: usize, member: &PlanMember, unit: &Unit) -> UnitStanding {
        let nothing = Failure {
            reason: "unknown".to_owned(),
            message: String::new(),
            exit_code: None,
            output: None,
        };
        let error = unit.error.as_ref().unwrap_or(&nothing);
        let told = match error.message.is_empty() {
            true => error.reason.clone(),
            false => format!("{}: {}", error.reason, error.message),
        };
        let again = |most: u32| {
            if unit.retry_count >= most.min(MAX_RETRIES) {
                return UnitStanding::Failed(told.clone());
            }
            match (
                self.affordable(n, Some(unit)),
                self.given_up(member, StepKind::Retry),
            ) {
                (Ok(()), None) => UnitStanding::Again,
                (Err(why), _) | (Ok(()), Some(why)) => UnitStanding::Failed(format!("{told}; {why}")),
            }
        };
        match cure(&error.reason, self.retries(n)) {
            Cure::Never => UnitStanding::Failed(told),
            Cure::Again(most) => match again(most) {
                // Whether it may stay as it is, a person has to say.
                UnitStanding::Failed(told)
                    if error.reason == failure_reason::OUTSIDE && !self.facts.cancelled =>
                {
                    UnitStanding::Stuck(told)
                }
                standing => standing,
            },
            Cure::Tomorrow => again(MAX_RETRIES),
            Cure::Parked => {
                let since = unit.limited_since.unwrap_or(unit.updated_at);
                let account = self.account(n);
                let lifted = account.and_then(|account| account.lifted_at);
                let since = lifted.map_or(since, |at| at.max(since));
                let until = self.parked(n).unwrap_or(self.now).max(self.now);
                match (
                    self.affordable(n, Some(unit)),
                    self.given_up(member, StepKind::Retry),
                ) {
                    (Err(why), _) | (Ok(()), Some(why)) => UnitStanding::Failed(format!("{told}; {why}")),
                    (Ok(()), None) if until > since.plus_ms(super::LONGEST_PARKED_MS) => {
                        UnitStanding::Stuck(match account {
                            Some(account) => {
                                format!("the account {} is refused too long: {told}", account.id)
                            }
                            None => told,
                        })
                    }
                    (Ok(()), None) => UnitStanding::Again,
                }
            }
            // A cancelled workflow does not wait for a person.
            Cure::Conflict if self.facts.cancelled => UnitStanding::Failed(told),
            Cure::Conflict => {
                let round = member.sent_back || unit.conflict_rounds < self.limits.max_conflict_rounds;
                let possible = round
                    && self.affordable(n, Some(unit)).is_ok()
                    && self.given_up(member, StepKind::Resolve).is_none();
                if possible {
                    UnitStanding::Again
                } else {
                    UnitStanding::Stuck(told)
                }
            }
        }
    }

    /// How a unit stands that is not there yet.
    fn unmade(&self, n: usize, member: &PlanMember) -> UnitStanding {
        match (self.affordable(n, None), self.given_up(member, StepKind::Create)) {
            (Err(why), _) | (Ok(()), Some(why)) => UnitStanding::Failed(why),
            (Ok(()), None) => UnitStanding::Open,
        }
    }

    /// How a member stands by itself, without regard to what it needs.
    fn alone(&self, n: usize, member: &PlanMember) -> UnitStanding {
        let Some(unit) = self.own(member) else {
            return match (&member.unit, self.unmade(n, member)) {
                (Some(other), UnitStanding::Open) if !other.is_over() => UnitStanding::Stuck(format!(
                    "another unit is called {} and is {}",
                    member.id, other.state
                )),
                (_, standing) => standing,
            };
        };
        if let (MergeStatus::Merged, Some(there)) = (unit.merge_status, &unit.landing_on) {
            let why = format!("somebody landed it on {there}, not on {}", unit.target);
            return match unit.is_over() || unit.state == Phase::Cleanup {
                true => UnitStanding::Failed(why),
                false => UnitStanding::Stuck(why),
            };
        }
        match unit.state {
            Phase::Merged => UnitStanding::Landed,
            Phase::Cleanup | Phase::Idle if unit.merge_status == MergeStatus::Merged => UnitStanding::Landed,
            Phase::Cleanup | Phase::Idle if unit.abandoned.is_some() => {
                UnitStanding::Failed(unit.abandoned.clone().unwrap_or_default())
            }
            Phase::Cleanup => UnitStanding::Failed("its worktree is being removed".to_owned()),
            // Its making was undone.
            Phase::Idle => self.unmade(n, member),
            Phase::Provisioning => match self.given_up(member, StepKind::Create) {
                Some(why) if self.facts.cancelled => UnitStanding::Failed(why),
                Some(why) => UnitStanding::Stuck(why),
                None => UnitStanding::Busy,
            },
            Phase::Ready => match (
                self.affordable(n, Some(unit)),
                self.given_up(member, StepKind::Dispatch),
            ) {
                (Err(why), _) | (Ok(()), Some(why)) => UnitStanding::Failed(why),
                (Ok(()), None) => UnitStanding::Open,
            },
            Phase::Failed => self.failed(n, member, unit),
            // It is kept, not landed.
            Phase::Completed if self.facts.cancelled => {
                UnitStanding::Failed("the workflow was cancelled".to_owned())
            }
            Phase::Completed | Phase::Merging => self
                .given_up(member, StepKind::Land)
                .map_or(UnitStanding::Busy, UnitStanding::Stuck),
            Phase::Dispatched | Phase::Running => UnitStanding::Busy,
        }
    }

    /// How each unit stands, in the order of the members.
    pub fn standings(&self) -> Vec<UnitStanding> {
        let members = self.members.iter().enumerate();
        let mut all: Vec<UnitStanding> = members.map(|(n, member)| self.alone(n, member)).collect();
        // Only what has not begun is held up by others.
        let waiting: BTreeMap<usize, Vec<Option<usize>>> = (0..all.len())
            .filter(|n| {
                all[*n] == UnitStanding::Open && self.own(&self.members[*n]).is_none_or(Unit::is_over)
            })
            .map(|n| (n, self.plan.needs(n).into_iter().collect()))
            .collect();
        let mut changed = true;
        while changed {
            changed = false;
            for (n, needs) in &waiting {
                let mut now = UnitStanding::Open;
                for need in needs {
                    let stands = need.and_then(|m| all.get(m));
                    let name = need.and_then(|m| self.members.get(m)).map(|m| m.id.to_string());
                    match stands {
                        Some(UnitStanding::Landed) => {}
                        Some(UnitStanding::Failed(_) | UnitStanding::Skipped(_)) | None => {
                            now = UnitStanding::Skipped(name.unwrap_or_else(|| "unknown".to_owned()));
                            break;
                        }
                        Some(_) => now = UnitStanding::Blocked,
                    }
                }
                if all[*n] != now {
                    all[*n] = now;
                    changed = true;
                }
            }
        }
        all
    }

    /// The next steps. Never empty; a [`NextStep::Wait`] is the only step of its answer, and so is [`NextStep::End`].
    pub fn next(&self) -> Vec<NextStep> {
        let standings = self.standings();
        let mut answer = Collected::default();
        self.running(&mut answer);
        self.landing(&mut answer);
        self.failing(&standings, &mut answer);
        self.beginning(&standings, &mut answer);
        if !answer.steps.is_empty() {
            return answer.steps;
        }
        if !answer.why.is_empty() {
            answer.why.sort();
            answer.why.dedup();
            return vec![NextStep::Wait {
                until: answer.until,
                why: answer.why,
            }];
        }
        // Nothing to do and nothing to wait for. Units that wait for each other are no different from others here.
        let landed = standings.iter().all(|standing| *standing == UnitStanding::Landed);
        vec![NextStep::End(match (landed, self.facts.cancelled) {
            (true, _) => WorkflowOutcome::Completed,
            (false, true) => WorkflowOutcome::Cancelled,
            (false, false) => WorkflowOutcome::Failed,
        })]
    }

    /// When something may be done again that went wrong then. A clock that was set back does not hold anybody up.
    fn due(&self, member: &PlanMember, since: Wall, tries: u32) -> Option<Wall> {
        let at = since.plus_ms(backoff_ms(&member.id, tries, self.limits));
        (since <= self.now && self.now < at).then_some(at)
    }

    /// When a step that went wrong may be tried again.
    fn trouble_due(&self, member: &PlanMember, task: StepKind) -> Option<Wall> {
        let trouble = member.troubles.get(&task)?;
        self.due(member, trouble.at, trouble.times)
    }

    /// A step for a member, unless it went wrong a moment ago.
    fn step(&self, answer: &mut Collected, member: &PlanMember, step: NextStep) {
        let due = step
            .task()
            .and_then(|task| Some((task, self.trouble_due(member, task)?)));
        match due {
            // These cannot be done without: from some time on it takes a person to see why they fail.
            Some((
                task @ (StepKind::Create
                | StepKind::Land
                | StepKind::Settle
                | StepKind::Launch
                | StepKind::Stop),
                at,
            )) => {
                let why = match self.given_up(member, task) {
                    Some(why) => Awaited::Person(member.id.clone(), why),
                    None => Awaited::Again(member.id.clone()),
                };
                answer.wait(Some(at), why);
            }
            Some((_, at)) => answer.wait(Some(at), Awaited::Again(member.id.clone())),
            None => answer.steps.push(step),
        }
    }

    /// A step that can be left undone, if it cannot be done.
    fn try_step(&self, answer: &mut Collected, member: &PlanMember, step: NextStep) {
        let left = step.task().and_then(|task| self.given_up(member, task));
        if left.is_none() {
            self.step(answer, member, step);
        }
    }

    /// Agents that run, or should.
    fn running(&self, answer: &mut Collected) {
        let stop = match (self.facts.cancelled, self.hard_stop()) {
            (true, _) => Some("the workflow was cancelled"),
            (false, Some(Purse::Workflow)) => Some(super::WORKFLOW_BUDGET),
            (false, Some(Purse::Day)) => Some(super::DAY_BUDGET),
            (false, None) => None,
        };
        for member in self.members {
            let Some(unit) = self.own(member) else { continue };
            let id = || member.id.clone();
            let at_work = matches!(unit.state, Phase::Dispatched | Phase::Running);
            match (unit.state, member.seen) {
                (Phase::Dispatched, AgentStatus::None) if stop.is_none() => {
                    self.step(answer, member, NextStep::Launch(id()));
                }
                // There was one, or it would not be RUNNING: its traces are gone. Or none shall be started any more.
                (
                    Phase::Dispatched | Phase::Running,
                    AgentStatus::None | AgentStatus::Ended | AgentStatus::Lost,
                ) => {
                    self.step(answer, member, NextStep::Settle(id()));
                }
                (Phase::Dispatched, AgentStatus::Running) => {
                    self.step(answer, member, NextStep::Running(id()))
                }
                _ => {}
            }
            if member.seen != AgentStatus::Running {
                continue;
            }
            let why = match stop {
                Some(why) => Some(why.to_owned()),
                // An agent where none should be.
                None if !at_work => Some(format!("{} is {}", member.id, unit.state)),
                None => None,
            };
            match why {
                Some(why) if !member.stopping => {
                    self.step(answer, member, NextStep::Stop { unit: id(), why });
                }
                _ => answer.wait(None, Awaited::Agent(id())),
            }
        }
    }

    /// Lands what is completed, and removes worktrees of units that have landed.
    fn landing(&self, answer: &mut Collected) {
        let mut land = Vec::new();
        for member in self.members {
            let Some(unit) = self.own(member).filter(|_| member.seen != AgentStatus::Running) else {
                continue;
            };
            match unit.state {
                // A landing that has begun is finished, even in a cancelled workflow.
                Phase::Merging => land.push(member),
                Phase::Completed if !self.facts.cancelled => land.push(member),
                // A unit that landed on another branch is not where its dependents need it: it stays until a person has looked.
                Phase::Merged if unit.landing_on.is_some() => {}
                Phase::Merged | Phase::Cleanup => {
                    self.try_step(answer, member, NextStep::Clean(member.id.clone()));
                }
                _ => {}
            }
        }
        let mut now = Vec::new();
        for member in land {
            let mut one = Collected::default();
            self.step(&mut one, member, NextStep::Land(Vec::new()));
            match one.steps.is_empty() {
                true => one.why.into_iter().for_each(|why| answer.wait(one.until, why)),
                false => now.push(member.id.clone()),
            }
        }
        if !now.is_empty() {
            answer.steps.push(NextStep::Land(now));
        }
    }

    /// Treats units that failed, wait for a person or will never begin.
    fn failing(&self, standings: &[UnitStanding], answer: &mut Collected) {
        for (n, (member, standing)) in self.members.iter().zip(standings).enumerate() {
            let id = || member.id.clone();
            let unit = self.own(member);
            match (standing, unit) {
                // First it ends.
                (_, Some(_)) if member.seen == AgentStatus::Running => {}
                (UnitStanding::Again, Some(_)) if self.soft_stop() == Some(Purse::Day) => {
                    answer.wait(Some(self.facts.day_ends), Awaited::Day);
                }
                (UnitStanding::Again, Some(unit)) => {
                    let conflict = unit
                        .error
                        .as_ref()
                        .is_some_and(|e| e.reason == failure_reason::CONFLICT);
                    if was_refused(unit) {
                        match (self.account_id(n), self.parked(n)) {
                            (Some(account), Some(until)) => {
                                answer.wait(Some(until), Awaited::Parked(account));
                            }
                            (Some(_), None) => self.step(answer, member, NextStep::Retry(id())),
                            // The account is not known.
                            (None, _) => match self.due(member, unit.updated_at, 0) {
                                Some(at) => answer.wait(Some(at), Awaited::Again(id())),
                                None => self.step(answer, member, NextStep::Retry(id())),
                            },
                        }
                        continue;
                    }
                    match self.due(member, unit.updated_at, unit.retry_count) {
                        // A conflict is no rate limit: waiting does not help.
                        _ if conflict && member.sent_back => {
                            self.step(answer, member, NextStep::Resolve(id()))
                        }
                        _ if conflict => self.step(answer, member, NextStep::SendBack(id())),
                        Some(at) => answer.wait(Some(at), Awaited::Again(id())),
                        None => self.step(answer, member, NextStep::Retry(id())),
                    }
                }
                // For the others there is a step, which says it when it cannot be done.
                (UnitStanding::Stuck(why), None) => answer.wait(None, Awaited::Person(id(), why.clone())),
                (UnitStanding::Stuck(why), Some(unit)) if unit.state == Phase::Failed => {
                    answer.wait(None, Awaited::Person(id(), why.clone()));
                }
                (UnitStanding::Failed(why), Some(unit)) => match unit.state {
                    Phase::Ready
                        if unit.dispatch_time.is_none()
                            && self.given_up(member, StepKind::Abandon).is_none() =>
                    {
                        let why = why.clone();
                        self.step(answer, member, NextStep::Abandon { unit: id(), why });
                    }
                    Phase::Ready | Phase::Failed | Phase::Completed if member.claimed => {
                        self.try_step(answer, member, NextStep::GiveBack(id()));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }

    /// Begins what can begin: worktrees, and agents in them.
    fn beginning(&self, standings: &[UnitStanding], answer: &mut Collected) {
        let most = usize::try_from(self.plan.max_concurrent.max(1)).unwrap_or(1);
        let active = self
            .members
            .iter()
            .filter(|member| self.is_active(member))
            .count();
        let mut room = most.saturating_sub(active);
        self.finish_worktrees(&mut room, answer);
        if self.facts.cancelled {
            return;
        }
        let open: Vec<usize> = (0..self.members.len())
            .filter(|n| standings.get(*n) == Some(&UnitStanding::Open))
            .filter(|n| self.members[*n].seen != AgentStatus::Running)
            .collect();
        if open.is_empty() {
            return;
        }
        match self.soft_stop() {
            Some(Purse::Day) => return answer.wait(Some(self.facts.day_ends), Awaited::Day),
            Some(Purse::Workflow) => return,
            None => {}
        }
        let mut taken = self.occupied(standings);
        // Those that have their worktree first: they hold a place already.
        let (ready, unmade): (Vec<usize>, Vec<usize>) = open
            .into_iter()
            .partition(|n| self.phase(&self.members[*n]) == Some(Phase::Ready));
        self.begin_agents(&ready, &mut room, &mut taken, answer);
        self.begin_worktrees(&unmade, &mut room, &mut taken, answer);
    }

    fn phase(&self, member: &PlanMember) -> Option<Phase> {
        self.own(member).map(|unit| unit.state)
    }

    fn is_active(&self, member: &PlanMember) -> bool {
        matches!(self.phase(member), Some(Phase::Dispatched | Phase::Running))
            || member.seen == AgentStatus::Running
    }

    /// A worktree that is being made is made, though nobody may be started in it.
    fn finish_worktrees(&self, room: &mut usize, answer: &mut Collected) {
        for member in self.members {
            if self.phase(member) != Some(Phase::Provisioning) {
                continue;
            }
            let create = NextStep::Create(member.id.clone());
            match self.facts.cancelled {
                true => self.try_step(answer, member, create),
                false => self.step(answer, member, create),
            }
            // One that cannot be made keeps nobody else from beginning.
            if self.given_up(member, StepKind::Create).is_none() {
                *room = room.saturating_sub(1);
            }
        }
    }

    /// Starts agents in worktrees that are ready for one.
    fn begin_agents(
        &self,
        ready: &[usize],
        room: &mut usize,
        taken: &mut Vec<Occupied>,
        answer: &mut Collected,
    ) {
        let mut gap = self.gap();
        // Accounts on which somebody is started in this very answer.
        let mut used: Vec<AccountId> = Vec::new();
        for n in ready {
            if *room == 0 {
                return;
            }
            let member = &self.members[*n];
            let account = self.account_id(*n);
            if self.waits(*n, StepKind::Dispatch, taken, answer) {
                continue;
            }
            let apart = match &account {
                Some(account) if used.contains(account) => {
                    let wide = self
                        .account(*n)
                        .map(|known| known.gap_ms(self.stagger_ms().unwrap_or(0), self.now));
                    wide.filter(|ms| *ms > 0).map(|ms| self.now.plus_ms(ms))
                }
                _ => self.account_gap(*n),
            };
            if let Some(until) = apart {
                answer.wait(Some(until), Awaited::Stagger);
                continue;
            }
            *room -= 1;
            taken.push(self.taking(*n));
            if let Some(until) = gap {
                answer.wait(Some(until), Awaited::Stagger);
                continue;
            }
            let unit = self.own(member);
            let known = unit.is_some_and(|unit| unit.session_id.is_some() && unit.start_time.is_some());
            answer.steps.push(NextStep::Dispatch {
                unit: member.id.clone(),
                resume: member.resumable && known,
            });
            used.extend(account);
            gap = self
                .stagger_ms()
                .filter(|ms| *ms > 0)
                .map(|ms| self.now.plus_ms(ms));
        }
    }

    /// Makes worktrees for units that have none.
    fn begin_worktrees(
        &self,
        unmade: &[usize],
        room: &mut usize,
        taken: &mut Vec<Occupied>,
        answer: &mut Collected,
    ) {
        for n in unmade {
            if *room == 0 {
                return;
            }
            if self.waits(*n, StepKind::Create, taken, answer) {
                continue;
            }
            *room -= 1;
            taken.push(self.taking(*n));
            answer.steps.push(NextStep::Create(self.members[*n].id.clone()));
        }
    }

    /// Whether a unit waits for its account, for another try or for another unit. It takes no room meanwhile.
    fn waits(&self, n: usize, step: StepKind, taken: &[Occupied], answer: &mut Collected) -> bool {
        let member = &self.members[n];
        if let (Some(until), Some(account)) = (self.parked(n), self.account_id(n)) {
            answer.wait(Some(until), Awaited::Parked(account));
            return true;
        }
        if let Some(at) = self.trouble_due(member, step) {
            answer.wait(Some(at), Awaited::Again(member.id.clone()));
            return true;
        }
        self.waits_for_another(n, taken, answer)
    }

    /// Whether another unit or a lock is in its way.
    fn waits_for_another(&self, n: usize, taken: &[Occupied], answer: &mut Collected) -> bool {
        let Some(hit) = self.collision(n, taken) else {
            return false;
        };
        let why = Awaited::Collision {
            unit: hit.unit,
            with: hit.with,
            path: hit.path,
        };
        answer.wait(hit.until.filter(|until| *until > self.now), why);
        true
    }

    fn stagger_ms(&self) -> Option<u64> {
        let text = self.plan.stagger.as_deref()?;
        let secs = crate::model::duration::parse_secs(text).ok()?;
        Some(secs.saturating_mul(1000))
    }

    /// Until when nobody is started, because somebody was a moment ago.
    fn gap(&self) -> Option<Wall> {
        let stagger = self.stagger_ms()?;
        let units = self.members.iter().filter_map(|member| self.own(member));
        let last = units.filter_map(|unit| unit.dispatch_time).max()?;
        let until = last.plus_ms(stagger);
        (last <= self.now && self.now < until).then_some(until)
    }

    /// The account that a unit's agent is started on; of one that was refused, the one that was.
    fn account_id(&self, n: usize) -> Option<AccountId> {
        let unit = self.members.get(n).and_then(|member| self.own(member));
        let refused = unit.filter(|unit| was_refused(unit));
        let refused = refused.and_then(|unit| unit.account.clone());
        refused.or_else(|| AccountId::of(&self.planned(n)?.run))
    }

    /// The same, where it was ever refused.
    fn account(&self, n: usize) -> Option<&Account> {
        let id = self.account_id(n)?;
        self.facts.accounts.iter().find(|account| account.id == id)
    }

    /// Until when nobody is started on a unit's account.
    fn parked(&self, n: usize) -> Option<Wall> {
        self.account(n)?.parked(self.now)
    }

    /// Until when nobody is started on a unit's account, because somebody was, and it was refused lately. Whoever did it:
    /// another workflow counts as well.
    fn account_gap(&self, n: usize) -> Option<Wall> {
        let account = self.account(n)?;
        if account.pressure(self.now) == 0 {
            return None;
        }
        let last = account.last_start?;
        let until = last.plus_ms(account.gap_ms(self.stagger_ms().unwrap_or(0), self.now));
        (last <= self.now && self.now < until).then_some(until)
    }
}
