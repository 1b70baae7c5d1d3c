//! Single rules by example, and all of them together against a world that does what it likes.

use serde_json::json;

use super::*;
use crate::model::plan::{PlanUnit, Settings};
use crate::model::unit::{
    Failure, MAX_RETRIES, MergeStatus, Phase, Transition, UnitInput, moved, step as edge,
};

mod sim;

pub(super) const DAY: i64 = 86_400_000;

pub(super) fn wall(ms: i64) -> Wall {
    Wall::from_ms(1_767_441_600_000 + ms)
}

pub(super) fn workflow() -> WorkflowId {
    "w".parse().expect("a name")
}

/// A unit that has just begun to be made.
pub(super) fn fresh(id: &UnitId, now: Wall) -> Unit {
    Unit {
        id: id.clone(),
        agent: None,
        state: Phase::Provisioning,
        worktree_path: format!("/wt/{id}"),
        branch: format!("jit/{id}"),
        target: "main".to_owned(),
        base: "0".to_owned(),
        issue_id: None,
        project_id: None,
        worktree_id: None,
        created_at: now,
        created_by: "agent:lead".parse().expect("an agent"),
        provisioning_time_ms: None,
        pid: None,
        session_id: None,
        dispatch_time: None,
        start_time: None,
        completion_time: None,
        cost_usd: None,
        duration_ms: None,
        retry_count: 0,
        artifacts: Vec::new(),
        error: None,
        merge_status: MergeStatus::Pending,
        merge_attempt_time: None,
        merge_commit: None,
        tested: Vec::new(),
        lease_id: None,
        merge_conflicts: Vec::new(),
        conflict_rounds: 0,
        slot: 0,
        abandoned: None,
        workflow: Some(workflow()),
        attempt: 0,
        worker: None,
        tokens: Tokens::default(),
        turns: 0,
        account: None,
        limited_since: None,
        last_error: None,
        failed_tip: None,
        failed_onto: None,
        landing_on: None,
        landing_tip: None,
        writes: Vec::new(),
        handoffs: Vec::new(),
        updated_at: now,
    }
}

pub(super) fn failure(reason: &str) -> Failure {
    Failure {
        reason: reason.to_owned(),
        message: String::new(),
        exit_code: None,
        output: None,
    }
}

pub(super) fn plan(units: &[(&str, &[&str])]) -> Plan {
    let units = units.iter().map(|(id, needs)| PlanUnit {
        id: (*id).to_owned(),
        issue: None,
        project_id: None,
        prompt: Some("x".to_owned()),
        prompt_file: None,
        depends_on: needs.iter().map(|n| (*n).to_owned()).collect(),
        phase: 0,
        artifacts: Vec::new(),
        validate: Vec::new(),
        writes: Vec::new(),
        handoff_from: Vec::new(),
        handoff: None,
        run: Settings::default(),
    });
    let mut plan: Plan = serde_json::from_value(json!({ "units": [] })).expect("a plan");
    plan.units = units.collect();
    plan
}

pub(super) fn member(id: &str) -> PlanMember {
    PlanMember {
        id: id.parse().expect("a name"),
        unit: None,
        seen: AgentStatus::None,
        resumable: false,
        claimed: false,
        stopping: false,
        sent_back: false,
        touched: Vec::new(),
        troubles: BTreeMap::new(),
    }
}

fn at(id: &str, state: Phase) -> PlanMember {
    let mut member = member(id);
    let mut unit = fresh(&member.id, wall(0));
    unit.state = state;
    if state == Phase::Merged {
        unit.merge_status = MergeStatus::Merged;
    }
    if !matches!(state, Phase::Provisioning | Phase::Ready) {
        unit.dispatch_time = Some(wall(0));
    }
    member.seen = match state {
        Phase::Running => AgentStatus::Running,
        _ => AgentStatus::None,
    };
    member.unit = Some(unit);
    member
}

fn failed(id: &str, reason: &str) -> PlanMember {
    let mut member = at(id, Phase::Failed);
    member.seen = AgentStatus::Ended;
    if let Some(unit) = &mut member.unit {
        unit.error = Some(failure(reason));
    }
    member
}

pub(super) fn facts() -> WorkflowFacts {
    WorkflowFacts {
        spent: Spending::default(),
        spent_today: Spending::default(),
        day_ends: wall(DAY),
        cancelled: false,
        others: Vec::new(),
        locks: Vec::new(),
        accounts: Vec::new(),
    }
}

fn id(name: &str) -> UnitId {
    name.parse().expect("a name")
}

fn ask(
    plan: &Plan,
    members: &[PlanMember],
    facts: &WorkflowFacts,
    limits: &CoordinatorLimits,
    ms: i64,
) -> Vec<NextStep> {
    let look = CoordinatorInput {
        plan,
        id: &workflow(),
        members,
        facts,
        limits,
        now: wall(ms),
    };
    look.next()
}

fn dollars(usd: u64) -> Spending {
    Spending {
        usd: Usd(usd * 1_000_000),
        tokens: Tokens::default(),
    }
}

#[test]
fn g13_only_what_has_room_and_all_it_needs_begins() {
    let mut plan = plan(&[("a", &[]), ("b", &["a"]), ("c", &[]), ("d", &[])]);
    plan.max_concurrent = 2;
    let members = ["a", "b", "c", "d"].map(member);
    let steps = ask(&plan, &members, &facts(), &CoordinatorLimits::default(), 0);
    assert_eq!(steps, [NextStep::Create(id("a")), NextStep::Create(id("c"))]);
    let members = [
        at("a", Phase::Merged),
        member("b"),
        at("c", Phase::Running),
        member("d"),
    ];
    let steps = ask(&plan, &members, &facts(), &CoordinatorLimits::default(), 0);
    assert_eq!(steps, [NextStep::Clean(id("a")), NextStep::Create(id("b"))]);
}

#[test]
fn g13_what_somebody_landed_elsewhere_is_not_where_the_others_need_it() {
    let plan = plan(&[("a", &[]), ("b", &["a"])]);
    let mut elsewhere = at("a", Phase::Merged);
    if let Some(unit) = &mut elsewhere.unit {
        unit.landing_on = Some("release".to_owned());
    }
    let steps = ask(
        &plan,
        &[elsewhere, member("b")],
        &facts(),
        &CoordinatorLimits::default(),
        0,
    );
    let goes_on = |step: &NextStep| matches!(step, NextStep::Clean(_) | NextStep::Create(_));
    assert!(!steps.iter().any(goes_on), "{steps:?}");
}

#[test]
fn g13_starts_are_apart() {
    let mut plan = plan(&[("a", &[]), ("b", &[])]);
    plan.stagger = Some("2s".to_owned());
    let members = [at("a", Phase::Ready), at("b", Phase::Ready)];
    let steps = ask(&plan, &members, &facts(), &CoordinatorLimits::default(), 0);
    let first = NextStep::Dispatch {
        unit: id("a"),
        resume: false,
    };
    assert_eq!(steps, [first]);
    let members = [at("a", Phase::Running), at("b", Phase::Ready)];
    let steps = ask(&plan, &members, &facts(), &CoordinatorLimits::default(), 1999);
    assert_eq!(
        steps,
        [NextStep::Wait {
            until: Some(wall(2000)),
            why: vec![Awaited::Agent(id("a")), Awaited::Stagger]
        }]
    );
    let steps = ask(&plan, &members, &facts(), &CoordinatorLimits::default(), 2000);
    assert_eq!(
        steps,
        [NextStep::Dispatch {
            unit: id("b"),
            resume: false
        }]
    );
    // A clock that was set back holds nobody up.
    let steps = ask(&plan, &members, &facts(), &CoordinatorLimits::default(), -100_000);
    assert_eq!(
        steps,
        [NextStep::Dispatch {
            unit: id("b"),
            resume: false
        }]
    );
}

/// Units of these accounts.
fn on_accounts(units: &[(&str, &str)]) -> Plan {
    let names: Vec<(&str, &[&str])> = units.iter().map(|(unit, _)| (*unit, &[][..])).collect();
    let mut plan = plan(&names);
    for (planned, (_, account)) in plan.units.iter_mut().zip(units) {
        planned.run.agent = Some((*account).to_owned());
    }
    plan
}

fn refused(account: &str, at: i64, until: i64) -> Account {
    let hit = crate::model::account::Hit {
        account: account.parse().expect("an account"),
        until: Some(wall(until)),
        why: "429".to_owned(),
        unit: None,
        attempt: 1,
        backoff_ms: 60_000,
        waits: false,
    };
    crate::model::account::after(None, &hit, wall(at))
}

fn dispatch(unit: &str) -> NextStep {
    NextStep::Dispatch {
        unit: id(unit),
        resume: false,
    }
}

#[test]
fn g13_a_refused_account_holds_up_its_own_units_alone() {
    let plan = on_accounts(&[("a", "claude"), ("b", "claude"), ("c", "codex"), ("d", "claude")]);
    let limits = CoordinatorLimits::default();
    let members = [
        failed("a", failure_reason::RATE_LIMIT),
        at("b", Phase::Ready),
        at("c", Phase::Ready),
        member("d"),
    ];
    let mut facts = facts();
    facts.accounts = vec![refused("claude", 0, 20_000)];
    // No worktree is made for what would only wait.
    assert_eq!(ask(&plan, &members, &facts, &limits, 0), [dispatch("c")]);
    let members = [members[0].clone(), members[1].clone(), at("c", Phase::Merged)];
    let claude = || "claude".parse().expect("an account");
    let steps = ask(&plan, &members, &facts, &limits, 19_999);
    let wait = NextStep::Wait {
        until: Some(wall(20_000)),
        why: vec![Awaited::Parked(claude())],
    };
    let steps: Vec<NextStep> = steps
        .into_iter()
        .filter(|step| *step != NextStep::Clean(id("c")))
        .collect();
    assert!(steps.is_empty() || steps == [wait], "{steps:?}");
    let steps = ask(&plan, &members, &facts, &limits, 20_000);
    assert!(steps.contains(&NextStep::Retry(id("a"))), "{steps:?}");
    assert!(steps.contains(&dispatch("b")), "{steps:?}");
}

#[test]
fn g13_after_a_refusal_starts_keep_their_distance_whoever_started_last() {
    let mut plan = on_accounts(&[("a", "claude"), ("b", "claude"), ("c", "codex")]);
    plan.max_concurrent = 3;
    let limits = CoordinatorLimits::default();
    let members = [
        at("a", Phase::Ready),
        at("b", Phase::Ready),
        at("c", Phase::Ready),
    ];
    let mut facts = facts();
    assert_eq!(
        ask(&plan, &members, &facts, &limits, 0).len(),
        3,
        "nobody was refused"
    );
    facts.accounts = vec![refused("claude", 0, 1000)];
    assert_eq!(
        ask(&plan, &members, &facts, &limits, 1000),
        [dispatch("a"), dispatch("c")]
    );
    // Another workflow started one a moment ago.
    facts.accounts[0].last_start = Some(wall(900));
    assert_eq!(ask(&plan, &members, &facts, &limits, 1000), [dispatch("c")]);
    assert_eq!(
        ask(&plan, &members, &facts, &limits, 1900),
        [dispatch("a"), dispatch("c")]
    );
    // Long after, it is as if nothing had been.
    assert_eq!(ask(&plan, &members, &facts, &limits, DAY).len(), 3);
}

#[test]
fn g13_a_refusal_uses_up_no_retry_and_after_a_day_it_waits_for_a_person() {
    let plan = on_accounts(&[("a", "claude")]);
    let limits = CoordinatorLimits::default();
    let mut members = [failed("a", failure_reason::RATE_LIMIT)];
    if let Some(unit) = &mut members[0].unit {
        unit.retry_count = MAX_RETRIES;
        unit.limited_since = Some(wall(0));
        let back = edge(Phase::Failed, UnitInput::RetryDispatch).expect("an edge");
        assert_eq!(
            moved(unit.clone(), back, &Default::default(), wall(1)).retry_count,
            MAX_RETRIES
        );
    }
    let mut facts = facts();
    facts.accounts = vec![refused("claude", 0, 1000)];
    assert_eq!(
        ask(&plan, &members, &facts, &limits, 1000),
        [NextStep::Retry(id("a"))]
    );
    // Refused again and again for a day, or until later than that from the beginning.
    for (at, until) in [(DAY + 5000, DAY + 9000), (1000, 2 * DAY)] {
        facts.accounts = vec![refused("claude", at, until)];
        let steps = ask(&plan, &members, &facts, &limits, at);
        let [NextStep::Wait { until: None, why }] = &steps[..] else {
            panic!("{steps:?}")
        };
        assert!(
            matches!(&why[..], [Awaited::Person(_, why)] if why.contains("claude")),
            "{why:?}"
        );
    }
    facts.accounts[0].until = None;
    facts.accounts[0].lifted_at = Some(wall(2 * DAY));
    assert_eq!(
        ask(&plan, &members, &facts, &limits, 2 * DAY),
        [NextStep::Retry(id("a"))]
    );
}

#[test]
fn g9_at_the_cap_nothing_begins_and_above_the_margin_what_runs_is_stopped() {
    let plan = plan(&[("a", &[]), ("b", &[])]);
    let limits = CoordinatorLimits {
        workflow: Cap {
            usd: Some(Usd(10_000_000)),
            tokens: None,
        },
        ..CoordinatorLimits::default()
    };
    let members = [at("a", Phase::Running), member("b")];
    let spent = |usd| WorkflowFacts {
        spent: dollars(usd),
        ..facts()
    };
    let waits = |steps: &[NextStep]| matches!(steps, [NextStep::Wait { until: None, why }] if *why == [Awaited::Agent(id("a"))]);
    assert_eq!(
        ask(&plan, &members, &spent(9), &limits, 0),
        [NextStep::Create(id("b"))]
    );
    assert!(waits(&ask(&plan, &members, &spent(10), &limits, 0)));
    assert!(waits(&ask(&plan, &members, &spent(11), &limits, 0)));
    let steps = ask(&plan, &members, &spent(12), &limits, 0);
    assert!(
        matches!(&steps[..], [NextStep::Stop { unit, .. }] if *unit == id("a")),
        "{steps:?}"
    );
    // Told once, it is waited for.
    let mut told = members.clone();
    told[0].stopping = true;
    assert!(waits(&ask(&plan, &told, &spent(12), &limits, 0)));
    // A unit that never began never will.
    let members = [at("a", Phase::Merged), member("b")];
    let mut gone = members.clone();
    if let Some(unit) = &mut gone[0].unit {
        unit.state = Phase::Idle;
    }
    assert_eq!(
        ask(&plan, &gone, &spent(10), &limits, 0),
        [NextStep::End(WorkflowOutcome::Failed)]
    );
    for (usd, percent) in [(7, None), (8, Some(80)), (12, Some(120))] {
        let told = alerts(&spent(usd), &limits);
        assert_eq!(told.first().map(|alert| alert.percent), percent, "{usd}");
    }
}

#[test]
fn g9_tokens_are_a_cap_too_and_a_day_ends() {
    let plan = plan(&[("a", &[])]);
    let limits = CoordinatorLimits {
        day: Cap {
            usd: None,
            tokens: Some(100),
        },
        ..CoordinatorLimits::default()
    };
    let mut facts = facts();
    facts.spent_today.tokens = Tokens {
        input: 60,
        output: 40,
    };
    let steps = ask(&plan, &[member("a")], &facts, &limits, 0);
    assert_eq!(
        steps,
        [NextStep::Wait {
            until: Some(wall(DAY)),
            why: vec![Awaited::Day]
        }]
    );
    facts.spent_today = Spending::default();
    assert_eq!(
        ask(&plan, &[member("a")], &facts, &limits, 0),
        [NextStep::Create(id("a"))]
    );
}

#[test]
fn g9_a_unit_that_has_used_its_own_money_is_not_tried_again() {
    let mut plan = plan(&[("a", &[])]);
    plan.units[0].run.budget_usd = Some(2.0);
    let mut spent = failed("a", "crashed");
    if let Some(unit) = &mut spent.unit {
        unit.cost_usd = Some(Usd(2_000_000));
    }
    let steps = ask(&plan, &[spent], &facts(), &CoordinatorLimits::default(), DAY);
    assert_eq!(steps, [NextStep::End(WorkflowOutcome::Failed)]);
}

#[test]
fn g10_what_is_tried_again_and_how_often() {
    let mut plan = plan(&[("a", &[])]);
    plan.units[0].run.max_retries = Some(2);
    for (reason, tries) in [
        ("crashed", 2),
        ("timeout", 2),
        ("provisioning", 2),
        ("validation", 2),
        (failure_reason::ARTIFACTS, 1),
        (failure_reason::USAGE, 0),
        (failure_reason::AUTHENTICATION, 0),
        (failure_reason::NO_CONVERSATION, 2),
        (failure_reason::BUDGET, 0),
        (failure_reason::STOPPED, 0),
        (failure_reason::DAY_BUDGET, MAX_RETRIES),
    ] {
        for count in 0..=MAX_RETRIES {
            let mut member = failed("a", reason);
            if let Some(unit) = &mut member.unit {
                unit.retry_count = count;
            }
            let steps = ask(&plan, &[member], &facts(), &CoordinatorLimits::default(), DAY);
            let expected = match count < tries {
                true => NextStep::Retry(id("a")),
                false => NextStep::End(WorkflowOutcome::Failed),
            };
            assert_eq!(steps, [expected], "{reason} after {count}");
        }
    }
}

#[test]
fn g10_each_try_waits_longer_and_not_all_wait_the_same() {
    let limits = CoordinatorLimits::default();
    for tries in 0..10 {
        let whole = (limits.backoff_ms << tries).min(limits.backoff_max_ms);
        let waits: std::collections::BTreeSet<u64> = (0..50)
            .map(|n| backoff_ms(&id(&format!("u{n}")), tries, &limits))
            .collect();
        assert!(
            waits.iter().all(|ms| (whole / 2..=whole).contains(ms)),
            "{waits:?}"
        );
        assert!(waits.len() > 40);
    }
    assert_eq!(backoff_ms(&id("a"), 1, &limits), backoff_ms(&id("a"), 1, &limits));
    let other = CoordinatorLimits {
        seed: 1,
        ..CoordinatorLimits::default()
    };
    assert_ne!(backoff_ms(&id("a"), 1, &limits), backoff_ms(&id("a"), 1, &other));
}

#[test]
fn g10_a_session_is_gone_on_with_only_if_it_began() {
    let plan = plan(&[("a", &[])]);
    for (session, started, resumable) in [
        (true, true, true),
        (true, false, true),
        (false, true, true),
        (true, true, false),
    ] {
        let mut member = at("a", Phase::Ready);
        member.resumable = resumable;
        if let Some(unit) = &mut member.unit {
            unit.session_id = session.then(|| "s".to_owned());
            unit.start_time = started.then(|| wall(0));
        }
        let steps = ask(&plan, &[member], &facts(), &CoordinatorLimits::default(), 0);
        let resume = session && started && resumable;
        assert_eq!(
            steps,
            [NextStep::Dispatch {
                unit: id("a"),
                resume
            }]
        );
    }
}

#[test]
fn g13_what_needs_a_failed_unit_is_skipped_and_says_why() {
    let plan = plan(&[("c", &["b"]), ("b", &["a"]), ("a", &[]), ("d", &[])]);
    let mut a = failed("a", failure_reason::USAGE);
    a.claimed = true;
    let members = [member("c"), member("b"), a, at("d", Phase::Running)];
    let steps = ask(&plan, &members, &facts(), &CoordinatorLimits::default(), 0);
    assert_eq!(steps, [NextStep::GiveBack(id("a"))]);
    let look = CoordinatorInput {
        plan: &plan,
        id: &workflow(),
        members: &members,
        facts: &facts(),
        limits: &CoordinatorLimits::default(),
        now: wall(0),
    };
    let all = look.standings();
    assert_eq!(all[0], UnitStanding::Skipped("b".to_owned()));
    assert_eq!(all[1], UnitStanding::Skipped("a".to_owned()));
    assert_eq!(all[2], UnitStanding::Failed("usage".to_owned()));
    assert_eq!(all[3], UnitStanding::Busy);
}

#[test]
fn g10_a_conflict_goes_back_a_few_times_and_then_waits_for_a_person() {
    let plan = plan(&[("a", &[]), ("b", &["a"])]);
    let limits = CoordinatorLimits {
        max_conflict_rounds: 1,
        ..CoordinatorLimits::default()
    };
    let with = |rounds, sent_back| {
        let mut member = failed("a", failure_reason::CONFLICT);
        member.sent_back = sent_back;
        if let Some(unit) = &mut member.unit {
            unit.conflict_rounds = rounds;
        }
        [member, self::member("b")]
    };
    assert_eq!(
        ask(&plan, &with(0, false), &facts(), &limits, 0),
        [NextStep::SendBack(id("a"))]
    );
    assert_eq!(
        ask(&plan, &with(1, true), &facts(), &limits, 0),
        [NextStep::Resolve(id("a"))]
    );
    let steps = ask(&plan, &with(1, false), &facts(), &limits, 0);
    let why = vec![Awaited::Person(id("a"), failure_reason::CONFLICT.to_owned())];
    assert_eq!(steps, [NextStep::Wait { until: None, why }]);
}

#[test]
fn g12_after_a_crash_each_phase_is_gone_on_with() {
    let plan = plan(&[("a", &[])]);
    for (phase, seen, step) in [
        (Phase::Provisioning, AgentStatus::None, NextStep::Create(id("a"))),
        (Phase::Dispatched, AgentStatus::None, NextStep::Launch(id("a"))),
        (
            Phase::Dispatched,
            AgentStatus::Running,
            NextStep::Running(id("a")),
        ),
        (Phase::Dispatched, AgentStatus::Ended, NextStep::Settle(id("a"))),
        (Phase::Dispatched, AgentStatus::Lost, NextStep::Settle(id("a"))),
        (Phase::Running, AgentStatus::Ended, NextStep::Settle(id("a"))),
        (Phase::Running, AgentStatus::Lost, NextStep::Settle(id("a"))),
        (Phase::Running, AgentStatus::None, NextStep::Settle(id("a"))),
        (
            Phase::Completed,
            AgentStatus::Ended,
            NextStep::Land(vec![id("a")]),
        ),
        (Phase::Merging, AgentStatus::Ended, NextStep::Land(vec![id("a")])),
        (Phase::Merged, AgentStatus::Ended, NextStep::Clean(id("a"))),
        (Phase::Cleanup, AgentStatus::Ended, NextStep::Clean(id("a"))),
    ] {
        let mut member = at("a", phase);
        member.seen = seen;
        let steps = ask(&plan, &[member], &facts(), &CoordinatorLimits::default(), 0);
        assert_eq!(steps, [step], "{phase} {seen:?}");
    }
}

#[test]
fn g12_a_cancelled_workflow_stops_agents_keeps_work_and_ends() {
    let plan = plan(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &[]), ("e", &[])]);
    let cancelled = WorkflowFacts {
        cancelled: true,
        ..facts()
    };
    let members = [
        at("a", Phase::Running),
        at("b", Phase::Ready),
        at("c", Phase::Completed),
        at("d", Phase::Dispatched),
        member("e"),
    ];
    let steps = ask(&plan, &members, &cancelled, &CoordinatorLimits::default(), 0);
    let why = "the workflow was cancelled".to_owned();
    assert_eq!(
        steps,
        [
            NextStep::Stop {
                unit: id("a"),
                why: why.clone()
            },
            // Its agent was not started, and is not.
            NextStep::Settle(id("d")),
            NextStep::Abandon { unit: id("b"), why },
        ]
    );
    let members = [
        failed("a", failure_reason::STOPPED),
        failed("b", "crashed"),
        at("c", Phase::Completed),
    ];
    let steps = ask(&plan, &members, &cancelled, &CoordinatorLimits::default(), 0);
    assert_eq!(steps, [NextStep::End(WorkflowOutcome::Cancelled)]);
}

#[test]
fn g13_units_that_wait_for_each_other_or_for_nobody_end_it() {
    for needs in [&["b"][..], &["nobody"], &["a"]] {
        let plan = plan(&[("a", needs), ("b", &["a"])]);
        let members = ["a", "b"].map(member);
        let steps = ask(&plan, &members, &facts(), &CoordinatorLimits::default(), 0);
        assert_eq!(steps, [NextStep::End(WorkflowOutcome::Failed)], "{needs:?}");
    }
    let steps = ask(&plan(&[]), &[], &facts(), &CoordinatorLimits::default(), 0);
    assert_eq!(steps, [NextStep::End(WorkflowOutcome::Completed)]);
}

#[test]
fn g13_a_unit_of_another_workflow_is_not_touched() {
    let plan = plan(&[("a", &[])]);
    for phase in Phase::ALL {
        let mut foreign = at("a", *phase);
        if let Some(unit) = &mut foreign.unit {
            unit.workflow = None;
        }
        let steps = ask(&plan, &[foreign], &facts(), &CoordinatorLimits::default(), 0);
        match phase {
            Phase::Idle => assert_eq!(steps, [NextStep::Create(id("a"))]),
            _ => assert!(
                matches!(&steps[..], [NextStep::Wait { until: None, why }] if matches!(why[..], [Awaited::Person(..)])),
                "{phase}: {steps:?}"
            ),
        }
    }
}

fn paths(texts: &[&str]) -> Vec<Pattern> {
    let parse = |text: &&str| Pattern::parse(text).expect("a pattern");
    texts.iter().map(parse).collect()
}

fn scoped(units: &[(&str, &[&str])]) -> Plan {
    let bare: Vec<(&str, &[&str])> = units.iter().map(|(id, _)| (*id, &[][..])).collect();
    let mut plan = plan(&bare);
    for (unit, (_, writes)) in plan.units.iter_mut().zip(units) {
        unit.writes = writes.iter().map(|text| (*text).to_owned()).collect();
    }
    plan
}

fn waits(unit: &str, with: &str, path: &str) -> Awaited {
    Awaited::Collision {
        unit: id(unit),
        with: with.to_owned(),
        path: path.to_owned(),
    }
}

#[test]
fn g15_of_two_in_each_others_way_one_begins_and_keeps_no_room_from_others() {
    let mut plan = scoped(&[
        ("a", &["src/**"]),
        ("b", &["src/b.rs"]),
        ("c", &["docs/"]),
        ("d", &[]),
    ]);
    plan.max_concurrent = 3;
    let members = ["a", "b", "c", "d"].map(member);
    let limits = CoordinatorLimits::default();
    let steps = ask(&plan, &members, &facts(), &limits, 0);
    assert_eq!(steps, ["a", "c", "d"].map(|one| NextStep::Create(id(one))));
    // Until the first has landed, not only until it has ended.
    for (phase, waiting) in [
        (Phase::Provisioning, true),
        (Phase::Running, true),
        (Phase::Completed, true),
        (Phase::Merging, true),
        (Phase::Merged, false),
    ] {
        let members = [
            at("a", phase),
            member("b"),
            at("c", Phase::Merged),
            at("d", Phase::Merged),
        ];
        let steps = ask(&plan, &members, &facts(), &limits, 0);
        let begins = steps.contains(&NextStep::Create(id("b")));
        assert_eq!(begins, !waiting, "{phase}: {steps:?}");
        let told = CoordinatorInput {
            plan: &plan,
            id: &workflow(),
            members: &members,
            facts: &facts(),
            limits: &limits,
            now: wall(0),
        }
        .collisions();
        assert_eq!(told.len(), usize::from(waiting), "{phase}");
        assert!(
            told.iter().all(|hit| hit.with == "a" && hit.path == "src/**"),
            "{told:?}"
        );
    }
    // A unit that failed for good blocks no other; one that is retried does.
    let members = [
        failed("a", failure_reason::USAGE),
        member("b"),
        at("c", Phase::Merged),
        at("d", Phase::Merged),
    ];
    assert!(ask(&plan, &members, &facts(), &limits, 0).contains(&NextStep::Create(id("b"))));
    let members = [
        failed("a", "crashed"),
        member("b"),
        at("c", Phase::Merged),
        at("d", Phase::Merged),
    ];
    assert!(!ask(&plan, &members, &facts(), &limits, 0).contains(&NextStep::Create(id("b"))));
}

#[test]
fn g15_work_of_others_and_locks_are_waited_for_by_those_who_say_where_they_write() {
    let plan = scoped(&[("a", &["src/a.rs", "docs/"])]);
    let silent = scoped(&[("a", &[])]);
    let limits = CoordinatorLimits::default();
    let occupied = |by: &str, texts: &[&str], until| Occupied {
        by: by.to_owned(),
        paths: paths(texts),
        until,
    };
    let others = WorkflowFacts {
        others: vec![
            occupied("x", &["lib/**"], None),
            occupied("y", &["src/*.rs"], None),
        ],
        ..facts()
    };
    let wait = |until, why: Awaited| NextStep::Wait {
        until,
        why: vec![why],
    };
    assert_eq!(
        ask(&plan, &[member("a")], &others, &limits, 0),
        [wait(None, waits("a", "y", "src/*.rs"))]
    );
    assert_eq!(
        ask(&silent, &[member("a")], &others, &limits, 0),
        [NextStep::Create(id("a"))]
    );
    let locked = |text: &str| WorkflowFacts {
        locks: vec![occupied("agent:z", &[text], Some(wall(500)))],
        ..facts()
    };
    assert_eq!(
        ask(&plan, &[member("a")], &locked("src/"), &limits, 0),
        [wait(Some(wall(500)), waits("a", "agent:z", "src/"))]
    );
    // A part of a part is no reason to wait: there is enough to do beside it.
    assert_eq!(
        ask(&plan, &[member("a")], &locked("docs/a.md"), &limits, 0),
        [NextStep::Create(id("a"))]
    );
    // Its own lock, from an attempt before.
    let mut again = at("a", Phase::Ready);
    if let Some(unit) = &mut again.unit {
        unit.worker = Some("agent:z".parse().expect("an agent"));
    }
    assert!(matches!(
        ask(&plan, &[again], &locked("src/"), &limits, 0)[..],
        [NextStep::Dispatch { .. }]
    ));
    // One at work that does not say where it writes is where it has written.
    let both = scoped(&[("b", &[]), ("a", &["src/a.rs"])]);
    let mut busy = at("b", Phase::Running);
    busy.touched = paths(&["src/a.rs"]);
    let steps = ask(&both, &[busy.clone(), member("a")], &facts(), &limits, 0);
    assert!(
        matches!(&steps[..], [NextStep::Wait { why, .. }] if why.contains(&waits("a", "b", "src/a.rs"))),
        "{steps:?}"
    );
    busy.touched = paths(&["src/b.rs"]);
    assert_eq!(
        ask(&both, &[busy, member("a")], &facts(), &limits, 0),
        [NextStep::Create(id("a"))]
    );
}

#[test]
fn g15_what_wrote_outside_is_tried_once_more_and_then_waits_for_a_person() {
    let plan = scoped(&[("a", &["src/**"])]);
    let with = |count| {
        let mut member = failed("a", failure_reason::OUTSIDE);
        if let Some(unit) = &mut member.unit {
            unit.retry_count = count;
        }
        [member]
    };
    let limits = CoordinatorLimits::default();
    assert_eq!(
        ask(&plan, &with(0), &facts(), &limits, DAY),
        [NextStep::Retry(id("a"))]
    );
    let why = vec![Awaited::Person(id("a"), failure_reason::OUTSIDE.to_owned())];
    assert_eq!(
        ask(&plan, &with(1), &facts(), &limits, DAY),
        [NextStep::Wait { until: None, why }]
    );
    let cancelled = WorkflowFacts {
        cancelled: true,
        ..facts()
    };
    assert_eq!(
        ask(&plan, &with(1), &cancelled, &limits, DAY),
        [NextStep::End(WorkflowOutcome::Cancelled)]
    );
}
