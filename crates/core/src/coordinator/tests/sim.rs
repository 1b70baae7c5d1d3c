//! A world in which steps are done, done twice, cut off in the middle or not done at all, agents do as they like, and
//! people come when they are waited for.

use proptest::prelude::*;

use super::*;

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap_or(0)]
    }
}

const REASONS: &[&str] = &[
    "crashed",
    "timeout",
    "hung",
    failure_reason::USAGE,
    failure_reason::ARTIFACTS,
    failure_reason::BUDGET,
    failure_reason::RATE_LIMIT,
    failure_reason::OUTSIDE,
];

/// Some of them meet.
const PLACES: &[&str] = &["a/**", "a/x.rs", "*/x.rs", "b/", "b/y", "c"];

struct World {
    plan: Plan,
    members: Vec<PlanMember>,
    facts: WorkflowFacts,
    limits: CoordinatorLimits,
    now: i64,
    dice: Dice,
    /// Agents that were started, by unit and attempt.
    started: BTreeMap<(UnitId, u32), u32>,
    /// Why the agent that ends now was stopped.
    stopped: BTreeMap<UnitId, String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let names: Vec<String> = (0..1 + dice.below(9)).map(|n| format!("u{n}")).collect();
        let mut planned = plan(&[]);
        for (n, name) in names.iter().enumerate() {
            let mut unit = plan(&[(name, &[])]).units.remove(0);
            for before in &names[..n] {
                if dice.one_in(5) {
                    unit.depends_on.push(before.clone());
                }
            }
            // Now and then a plan that nobody checked.
            if dice.one_in(60) {
                unit.depends_on.push("nobody".to_owned());
            }
            if dice.one_in(40) {
                unit.run.budget_usd = Some(2.0);
            }
            if dice.one_in(2) {
                unit.writes.push(dice.of(PLACES).to_owned());
            }
            unit.run.agent = dice.of(&[None, Some("claude"), Some("codex")]).map(str::to_owned);
            unit.run.max_retries = dice.one_in(2).then(|| u32::try_from(dice.below(4)).unwrap_or(0));
            planned.units.push(unit);
        }
        if dice.one_in(4) {
            planned.units.reverse();
        }
        if dice.one_in(4) {
            let half = planned.units.len() / 2;
            planned.units[half..].iter_mut().for_each(|unit| unit.phase = 1);
        }
        planned.max_concurrent = 1 + u32::try_from(dice.below(4)).unwrap_or(0);
        planned.stagger = dice.one_in(2).then(|| "2s".to_owned());
        let mut limits = CoordinatorLimits {
            seed,
            max_conflict_rounds: u32::try_from(dice.below(4)).unwrap_or(0),
            ..CoordinatorLimits::default()
        };
        if dice.one_in(4) {
            limits.workflow.usd = Some(Usd(dice.below(30) * 1_000_000));
        }
        if dice.one_in(4) {
            limits.day.usd = Some(Usd((1 + dice.below(20)) * 1_000_000));
        }
        let members = planned.units.iter().map(|unit| member(&unit.id)).collect();
        let mut facts = facts();
        let mut somebody = |by: &str| {
            let place = Pattern::parse(dice.of(PLACES)).expect("a pattern");
            dice.one_in(3).then(|| Occupied {
                by: by.to_owned(),
                paths: vec![place],
                until: None,
            })
        };
        facts.others.extend(somebody("elsewhere"));
        facts.locks.extend(somebody("agent:z"));
        Self {
            plan: planned,
            members,
            facts,
            limits,
            now: 0,
            dice,
            started: BTreeMap::new(),
            stopped: BTreeMap::new(),
        }
    }

    fn index(&self, id: &UnitId) -> usize {
        self.members.iter().position(|m| m.id == *id).expect("a member")
    }

    fn phase(&self, n: usize) -> Option<Phase> {
        self.members[n].unit.as_ref().map(|unit| unit.state)
    }

    fn landed(&self, n: usize) -> bool {
        let unit = self.members[n].unit.as_ref();
        unit.is_some_and(|unit| unit.merge_status == MergeStatus::Merged)
    }

    /// Along the real table, with the real effects; nothing where the table has no such edge.
    fn advance(&mut self, n: usize, input: UnitInput, facts: crate::model::unit::Facts) -> bool {
        let now = wall(self.now);
        let Some(unit) = self.members[n].unit.clone() else {
            return false;
        };
        let Some(edge): Option<&Transition> = edge(unit.state, input) else {
            return false;
        };
        assert!(
            input != UnitInput::RetryDispatch || unit.may_be_retried(),
            "refused by the core"
        );
        let conflict = unit
            .error
            .as_ref()
            .is_some_and(|e| e.reason == failure_reason::CONFLICT);
        let tries = unit.retry_count;
        let unit = moved(unit, edge, &facts, now);
        // Rounds of conflicts are counted apart.
        assert!(!conflict || input != UnitInput::RetryDispatch || unit.retry_count == tries);
        self.members[n].unit = Some(unit);
        true
    }

    /// Its account is parked, as it is in the same breath in the log.
    fn park(&mut self, n: usize) {
        let Some(account) = AccountId::of(&self.plan.units[n].run) else {
            return;
        };
        let now = wall(self.now);
        let hit = crate::model::account::Hit {
            account,
            until: self
                .dice
                .one_in(2)
                .then(|| now.plus_ms(1 + self.dice.below(60_000))),
            why: "429".to_owned(),
            unit: Some(self.members[n].id.clone()),
            attempt: self.members[n].unit.as_ref().map_or(0, |unit| unit.attempt),
            backoff_ms: 60_000,
            waits: false,
        };
        let known = self.facts.accounts.iter().position(|one| one.id == hit.account);
        let before = known.map(|at| self.facts.accounts.swap_remove(at));
        let account = crate::model::account::after(before.as_ref(), &hit, now);
        self.facts.accounts.push(account);
    }

    fn parked(&self, n: usize) -> bool {
        let account = AccountId::of(&self.plan.units[n].run);
        let mut known = self.facts.accounts.iter();
        known.any(|one| Some(&one.id) == account.as_ref() && one.parked(wall(self.now)).is_some())
    }

    fn fail(&mut self, n: usize, input: UnitInput, reason: &str) {
        if reason == failure_reason::RATE_LIMIT {
            self.park(n);
        }
        let facts = crate::model::unit::Facts {
            error: Some(failure(reason)),
            ..Default::default()
        };
        self.advance(n, input, facts);
    }

    fn go(&mut self, n: usize, input: UnitInput) -> bool {
        self.advance(n, input, Default::default())
    }

    /// The coordinator dies here.
    fn dies(&mut self) -> bool {
        let dies = self.dice.one_in(12);
        if dies {
            // Facts that only the coordinator knew are forgotten.
            self.members.iter_mut().for_each(|member| member.troubles.clear());
        }
        dies
    }

    /// A step that cannot be done, sometimes.
    fn refuses(&mut self, n: usize, task: StepKind) -> bool {
        if !self.dice.one_in(8) {
            self.members[n].troubles.remove(&task);
            return false;
        }
        let at = wall(self.now);
        let known = self.members[n].troubles.entry(task).or_insert(StepTrouble {
            times: 0,
            at,
            why: "refused".to_owned(),
        });
        known.times += 1;
        known.at = at;
        true
    }

    fn active(&self) -> usize {
        let running = self.members.iter().filter(|member| {
            let phase = member.unit.as_ref().map(|unit| unit.state);
            matches!(phase, Some(Phase::Dispatched | Phase::Running)) || member.seen == AgentStatus::Running
        });
        running.count()
    }

    fn nobody_in_the_way(&self, n: usize) {
        let scope = |n: usize| {
            let texts = self.plan.units[n].writes.iter();
            texts
                .map(|text| Pattern::parse(text).expect("a pattern"))
                .collect::<Vec<_>>()
        };
        for (m, member) in self.members.iter().enumerate().filter(|(m, _)| *m != n) {
            let phase = member.unit.as_ref().map(|unit| unit.state);
            let active = matches!(phase, Some(Phase::Dispatched | Phase::Running))
                || member.seen == AgentStatus::Running;
            let meets = scope(m)
                .iter()
                .any(|one| scope(n).iter().any(|other| one.overlaps(other)));
            assert!(
                !(active && meets),
                "{} runs, and {} begins in its place",
                member.id,
                self.members[n].id
            );
        }
    }

    fn launch(&mut self, n: usize) {
        if self.phase(n) != Some(Phase::Dispatched) || self.members[n].seen != AgentStatus::None {
            return;
        }
        let attempt = self.members[n].unit.as_ref().map_or(0, |unit| unit.attempt);
        *self
            .started
            .entry((self.members[n].id.clone(), attempt))
            .or_default() += 1;
        self.members[n].seen = AgentStatus::Running;
    }

    fn land(&mut self, n: usize, send_back: bool) {
        if !matches!(
            self.phase(n),
            Some(Phase::Completed | Phase::Merging | Phase::Failed)
        ) {
            return;
        }
        self.go(n, UnitInput::BeginMerge);
        if self.dies() {
            return;
        }
        match self.dice.below(6) {
            0 | 1 => {
                let rounds = self.members[n]
                    .unit
                    .as_ref()
                    .map_or(0, |unit| unit.conflict_rounds);
                let facts = crate::model::unit::Facts {
                    error: Some(failure(failure_reason::CONFLICT)),
                    conflict_rounds: send_back.then_some(rounds + 1),
                    ..Default::default()
                };
                self.members[n].sent_back = send_back;
                self.advance(n, UnitInput::MergeConflictEscalate, facts);
            }
            2 => self.fail(n, UnitInput::InstanceFailed, "validation"),
            _ => {
                self.go(n, UnitInput::MergeSuccess);
            }
        }
    }

    /// Does a step, or a part of it.
    fn perform(&mut self, step: &NextStep) {
        let task = step.task();
        match step {
            NextStep::Create(id) => {
                let n = self.index(id);
                if self.refuses(n, StepKind::Create) {
                    return;
                }
                if self.members[n].unit.as_ref().is_none_or(Unit::is_over) {
                    for need in self.plan.needs(n) {
                        assert!(
                            need.is_some_and(|m| self.landed(m)),
                            "{id} began before what it needs"
                        );
                    }
                    assert!(!self.landed(n), "{id} began again");
                    let old = self.members[n].unit.as_ref().map_or(0, |unit| unit.attempt);
                    let mut unit = fresh(id, wall(self.now));
                    unit.attempt = old;
                    self.members[n].unit = Some(unit);
                    self.members[n].seen = AgentStatus::None;
                    self.members[n].claimed = true;
                }
                if self.dies() {
                    return;
                }
                match self.dice.below(12) {
                    0 => self.fail(n, UnitInput::ProvisioningFailed, "provisioning"),
                    1 => {
                        if self.go(n, UnitInput::RolledBack) {
                            self.members[n].claimed = false;
                            // The caller of the step knows that it failed.
                            let at = wall(self.now);
                            let why = "undone".to_owned();
                            let known = self.members[n].troubles.entry(StepKind::Create);
                            known.or_insert(StepTrouble { times: 0, at, why }).times += 1;
                        }
                    }
                    _ => {
                        self.go(n, UnitInput::ProvisioningComplete);
                    }
                }
            }
            NextStep::Dispatch { unit, .. } => {
                let n = self.index(unit);
                if self.phase(n) != Some(Phase::Ready) || self.refuses(n, StepKind::Dispatch) {
                    return;
                }
                assert!(
                    self.members[n].seen != AgentStatus::Running,
                    "two agents in {unit}"
                );
                // It was parked since: the log refuses.
                if self.parked(n) {
                    return;
                }
                self.members[n].seen = AgentStatus::None;
                self.members[n].stopping = false;
                self.go(n, UnitInput::DispatchInstance);
                let most = usize::try_from(self.plan.max_concurrent).unwrap_or(0);
                assert!(
                    self.active() <= most,
                    "{} agents, and {most} may be",
                    self.active()
                );
                self.nobody_in_the_way(n);
                if !self.dies() {
                    self.launch(n);
                }
            }
            NextStep::Launch(id) => {
                let n = self.index(id);
                self.launch(n);
            }
            NextStep::Running(id) => {
                let n = self.index(id);
                self.go(n, UnitInput::InstanceRunning);
            }
            NextStep::Settle(id) => {
                let n = self.index(id);
                if self.members[n].seen == AgentStatus::Running || self.refuses(n, StepKind::Settle) {
                    return;
                }
                let lost = self.members[n].seen != AgentStatus::Ended;
                self.members[n].seen = AgentStatus::Ended;
                if let Some(why) = self.stopped.get(id).cloned() {
                    let reason = match why.contains("day") {
                        true => failure_reason::DAY_BUDGET,
                        false => failure_reason::STOPPED,
                    };
                    self.fail(n, UnitInput::InstanceFailed, reason);
                } else if lost || self.dice.one_in(4) {
                    let reason = self.dice.of(REASONS);
                    self.fail(n, UnitInput::InstanceFailed, reason);
                } else {
                    self.go(n, UnitInput::InstanceRunning);
                    self.go(n, UnitInput::InstanceCompleted);
                }
                self.stopped.remove(id);
            }
            NextStep::Retry(id) | NextStep::Resolve(id) => {
                let n = self.index(id);
                if self.phase(n) != Some(Phase::Failed) {
                    return;
                }
                if task.is_some_and(|task| self.refuses(n, task)) {
                    return;
                }
                if *step == NextStep::Resolve(id.clone()) {
                    assert!(self.members[n].sent_back);
                }
                self.members[n].sent_back = false;
                self.go(n, UnitInput::RetryDispatch);
            }
            NextStep::SendBack(id) => {
                let n = self.index(id);
                let unit = self.members[n].unit.as_ref();
                let reason = unit
                    .and_then(|unit| unit.error.as_ref())
                    .map(|e| e.reason.as_str());
                if self.phase(n) == Some(Phase::Failed)
                    && reason == Some(failure_reason::CONFLICT)
                    && !self.members[n].sent_back
                {
                    assert!(unit.is_some_and(|unit| unit.conflict_rounds < self.limits.max_conflict_rounds));
                    if !self.refuses(n, StepKind::Resolve) {
                        self.land(n, true);
                    }
                }
            }
            NextStep::Stop { unit, why } => {
                let n = self.index(unit);
                if self.members[n].seen == AgentStatus::Running {
                    self.members[n].stopping = true;
                    self.stopped.insert(unit.clone(), why.clone());
                }
            }
            NextStep::Land(ids) => {
                for id in ids {
                    let n = self.index(id);
                    let here = matches!(self.phase(n), Some(Phase::Completed | Phase::Merging));
                    if here && !self.refuses(n, StepKind::Land) {
                        self.land(n, false);
                    }
                }
            }
            NextStep::Clean(id) => {
                let n = self.index(id);
                if self.refuses(n, StepKind::Clean) {
                    return;
                }
                self.go(n, UnitInput::BeginCleanup);
                if !self.dies() && self.go(n, UnitInput::CleanedUp) {
                    self.members[n].claimed = false;
                }
            }
            NextStep::Abandon { unit, why } => {
                let n = self.index(unit);
                if self.phase(n) == Some(Phase::Ready) && !self.refuses(n, StepKind::Abandon) {
                    let facts = crate::model::unit::Facts {
                        abandoned: Some(why.clone()),
                        ..Default::default()
                    };
                    self.advance(n, UnitInput::Abandon, facts);
                    self.members[n].claimed = false;
                }
            }
            NextStep::GiveBack(id) => {
                let n = self.index(id);
                if !self.refuses(n, StepKind::GiveBack) {
                    self.members[n].claimed = false;
                }
            }
            NextStep::Wait { until, why } => self.wait(*until, why),
            NextStep::End(_) => {}
        }
    }

    /// Time passes: until then, or until something that is waited for has happened.
    fn wait(&mut self, until: Option<Wall>, why: &[Awaited]) {
        assert!(!why.is_empty());
        let agents = why.iter().any(|why| matches!(why, Awaited::Agent(_)));
        match until {
            Some(until) if !agents || self.dice.one_in(2) => {
                assert!(until > wall(self.now), "it waits for what is over");
                self.now += until.ms() - wall(self.now).ms();
            }
            _ => self.now += 1000,
        }
        // The holder of a lock releases it, sooner or later.
        if why.iter().any(|why| matches!(why, Awaited::Collision { .. })) && self.dice.one_in(3) {
            self.facts.locks.clear();
            self.facts.others.clear();
        }
        if wall(self.now) >= self.facts.day_ends {
            self.facts.day_ends = wall(self.now + DAY);
            self.facts.spent_today = Spending::default();
        }
        for one in why {
            let (Awaited::Agent(id) | Awaited::Person(id, _)) = one else {
                continue;
            };
            let n = self.index(id);
            if matches!(one, Awaited::Agent(_)) {
                assert_eq!(self.members[n].seen, AgentStatus::Running, "it waits for nobody");
                self.work(n);
            } else if self.phase(n) == Some(Phase::Failed) {
                // A person decides.
                if self.dice.one_in(2) {
                    self.go(n, UnitInput::BeginMerge);
                    self.go(n, UnitInput::MergeSuccess);
                } else {
                    let facts = crate::model::unit::Facts {
                        abandoned: Some("given up".to_owned()),
                        ..Default::default()
                    };
                    self.advance(n, UnitInput::Abandon, facts);
                    self.members[n].claimed = false;
                }
            }
        }
    }

    /// An agent works, and perhaps ends, or is lost.
    fn work(&mut self, n: usize) {
        let spent = Usd(self.dice.below(1_000_000));
        self.facts.spent.usd.0 += spent.0;
        self.facts.spent_today.usd.0 += spent.0;
        if let Some(unit) = &mut self.members[n].unit {
            unit.cost_usd = Some(Usd(unit.cost_usd.unwrap_or_default().0 + spent.0));
        }
        if self.members[n].stopping || self.dice.one_in(4) {
            self.members[n].seen = match self.dice.one_in(6) {
                true => AgentStatus::Lost,
                false => AgentStatus::Ended,
            };
        }
    }

    fn look<'a>(&'a self, id: &'a WorkflowId) -> CoordinatorInput<'a> {
        CoordinatorInput {
            plan: &self.plan,
            id,
            members: &self.members,
            facts: &self.facts,
            limits: &self.limits,
            now: wall(self.now),
        }
    }

    fn ask(&self) -> Vec<NextStep> {
        self.look(&workflow()).next()
    }

    fn run(&mut self) -> WorkflowOutcome {
        for _ in 0..20_000 {
            let steps = self.ask();
            shape(&steps);
            for step in &steps {
                if let NextStep::Dispatch { unit, .. } = step {
                    assert!(
                        !self.parked(self.index(unit)),
                        "{unit} begins on a parked account"
                    );
                }
            }
            let stop = self.limits.workflow.used(&self.facts.spent) >= 100
                || self.limits.day.used(&self.facts.spent_today) >= 100
                || self.facts.cancelled;
            for step in &steps {
                assert!(
                    !stop || !matches!(step, NextStep::Dispatch { .. }),
                    "begun without money"
                );
                if let NextStep::End(outcome) = step {
                    return *outcome;
                }
                match self.dice.below(10) {
                    0 if !matches!(step, NextStep::Wait { .. }) => break,
                    1 => {
                        self.perform(step);
                        self.perform_again(step);
                    }
                    _ => self.perform(step),
                }
            }
            if self.dice.one_in(2000) {
                self.facts.cancelled = true;
            }
            // Agents go on while the coordinator is busy.
            for n in 0..self.members.len() {
                if self.members[n].seen == AgentStatus::Running && self.dice.one_in(5) {
                    self.work(n);
                }
            }
        }
        panic!("it does not end: {:?}", self.ask());
    }

    fn perform_again(&mut self, step: &NextStep) {
        if !matches!(step, NextStep::Wait { .. }) {
            self.perform(step);
        }
    }
}

/// The shape that every answer has.
fn shape(steps: &[NextStep]) {
    assert!(!steps.is_empty());
    let alone = steps
        .iter()
        .any(|step| matches!(step, NextStep::Wait { .. } | NextStep::End(_)));
    assert!(!alone || steps.len() == 1, "{steps:?}");
    for step in steps {
        if let NextStep::Wait { until, why } = step {
            assert!(!why.is_empty(), "{until:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn g12_whatever_happens_it_ends_and_each_attempt_is_one_agent(seed in any::<u64>()) {
        let mut world = World::new(seed);
        let outcome = world.run();
        prop_assert!(world.started.values().all(|times| *times == 1), "{:?}", world.started);
        let standings = world.look(&workflow()).standings();
        let all = standings.iter().all(|one| *one == UnitStanding::Landed);
        prop_assert_eq!(outcome == WorkflowOutcome::Completed, all);
        // Phases put at random can make a circle; nobody would run such a plan, but even that must end.
        let config = Settings { agent: Some("claude".to_owned()), ..Settings::default() };
        let checked = world.plan.check(&config, &["claude"]).is_empty();
        for (member, standing) in world.members.iter().zip(&standings) {
            prop_assert!(member.seen != AgentStatus::Running, "{} still runs", member.id);
            let settled = matches!(standing, UnitStanding::Landed | UnitStanding::Failed(_) | UnitStanding::Skipped(_));
            prop_assert!(settled || !checked, "{}: {:?}", member.id, standing);
            let left = member.troubles.contains_key(&StepKind::GiveBack) || member.troubles.contains_key(&StepKind::Clean);
            prop_assert!(!member.claimed || left, "{} keeps its claim: {:?} {:?}", member.id, standing, member.unit);
        }
    }

    #[test]
    fn g12_every_combination_of_states_has_an_answer(seed in any::<u64>()) {
        let mut world = World::new(seed);
        for n in 0..world.members.len() {
            let mut unit = fresh(&world.members[n].id, wall(0));
            unit.state = world.dice.of(Phase::ALL);
            unit.merge_status = world.dice.of(MergeStatus::ALL);
            unit.retry_count = u32::try_from(world.dice.below(5)).unwrap_or(0);
            unit.conflict_rounds = u32::try_from(world.dice.below(5)).unwrap_or(0);
            unit.error = world.dice.one_in(2).then(|| failure(world.dice.of(REASONS)));
            unit.abandoned = world.dice.one_in(4).then(|| "x".to_owned());
            unit.dispatch_time = world.dice.one_in(2).then(|| wall(0));
            unit.workflow = (!world.dice.one_in(8)).then(workflow);
            let seen = world.dice.of(&[AgentStatus::None, AgentStatus::Running, AgentStatus::Ended, AgentStatus::Lost]);
            let member = &mut world.members[n];
            member.unit = (!world.dice.one_in(6)).then_some(unit);
            member.seen = seen;
            member.claimed = world.dice.one_in(2);
            member.stopping = world.dice.one_in(3);
            member.sent_back = world.dice.one_in(3);
            for task in [StepKind::Create, StepKind::Dispatch, StepKind::Land, StepKind::Clean, StepKind::Retry, StepKind::Settle, StepKind::GiveBack] {
                if world.dice.one_in(4) {
                    let times = u32::try_from(world.dice.below(6)).unwrap_or(0);
                    let trouble = StepTrouble { times, at: wall(world.dice.below(9).cast_signed() - 4), why: "t".to_owned() };
                    member.troubles.insert(task, trouble);
                }
            }
        }
        world.facts.cancelled = world.dice.one_in(4);
        let steps = world.ask();
        shape(&steps);
        // The same question has the same answer.
        prop_assert_eq!(world.ask(), steps);
    }
}
