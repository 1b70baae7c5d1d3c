//! Single rules by example, and all of them together against a world that does what it likes.

use serde_json::json;

use super::*;
use crate::plan::{PlanUnit, Settings};
use crate::unit::{Failure, Input, MAX_RETRIES, MergeStatus, Phase, Transition, moved, step as edge};

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
        merge_conflicts: Vec::new(),
        conflict_rounds: 0,
        slot: 0,
        abandoned: None,
        workflow: Some(workflow()),
        attempt: 0,
        worker: None,
        tokens: Tokens::default(),
        turns: 0,
        last_error: None,
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
        prompt: Some("x".to_owned()),
        prompt_file: None,
        depends_on: needs.iter().map(|n| (*n).to_owned()).collect(),
        phase: 0,
        artifacts: Vec::new(),
        validate: Vec::new(),
        run: Settings::default(),
    });
    let mut plan: Plan = serde_json::from_value(json!({ "units": [] })).expect("a plan");
    plan.units = units.collect();
    plan
}

pub(super) fn member(id: &str) -> Member {
    Member {
        id: id.parse().expect("a name"),
        unit: None,
        seen: Seen::None,
        resumable: false,
        claimed: false,
        stopping: false,
        sent_back: false,
        troubles: BTreeMap::new(),
    }
}

fn at(id: &str, state: Phase) -> Member {
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
        Phase::Running => Seen::Running,
        _ => Seen::None,
    };
    member.unit = Some(unit);
    member
}

fn failed(id: &str, reason: &str) -> Member {
    let mut member = at(id, Phase::Failed);
    member.seen = Seen::Ended;
    if let Some(unit) = &mut member.unit {
        unit.error = Some(failure(reason));
    }
    member
}

pub(super) fn facts() -> Facts {
    Facts {
        spent: Spent::default(),
        spent_today: Spent::default(),
        day_ends: wall(DAY),
        cancelled: false,
        quiet_until: None,
    }
}

fn id(name: &str) -> UnitId {
    name.parse().expect("a name")
}

fn ask(plan: &Plan, members: &[Member], facts: &Facts, limits: &Limits, ms: i64) -> Vec<Step> {
    let look = Look {
        plan,
        id: &workflow(),
        members,
        facts,
        limits,
        now: wall(ms),
    };
    look.next()
}

fn dollars(usd: u64) -> Spent {
    Spent {
        usd: Usd(usd * 1_000_000),
        tokens: Tokens::default(),
    }
}

#[test]
fn g13_only_what_has_room_and_all_it_needs_begins() {
    let mut plan = plan(&[("a", &[]), ("b", &["a"]), ("c", &[]), ("d", &[])]);
    plan.max_concurrent = 2;
    let members = ["a", "b", "c", "d"].map(member);
    let steps = ask(&plan, &members, &facts(), &Limits::default(), 0);
    assert_eq!(steps, [Step::Create(id("a")), Step::Create(id("c"))]);
    let members = [
        at("a", Phase::Merged),
        member("b"),
        at("c", Phase::Running),
        member("d"),
    ];
    let steps = ask(&plan, &members, &facts(), &Limits::default(), 0);
    assert_eq!(steps, [Step::Clean(id("a")), Step::Create(id("b"))]);
}

#[test]
fn g13_starts_are_apart() {
    let mut plan = plan(&[("a", &[]), ("b", &[])]);
    plan.stagger = Some("2s".to_owned());
    let members = [at("a", Phase::Ready), at("b", Phase::Ready)];
    let steps = ask(&plan, &members, &facts(), &Limits::default(), 0);
    let first = Step::Dispatch {
        unit: id("a"),
        resume: false,
    };
    assert_eq!(steps, [first]);
    let members = [at("a", Phase::Running), at("b", Phase::Ready)];
    let steps = ask(&plan, &members, &facts(), &Limits::default(), 1999);
    assert_eq!(
        steps,
        [Step::Wait {
            until: Some(wall(2000)),
            why: vec![Awaited::Agent(id("a")), Awaited::Stagger]
        }]
    );
    let steps = ask(&plan, &members, &facts(), &Limits::default(), 2000);
    assert_eq!(
        steps,
        [Step::Dispatch {
            unit: id("b"),
            resume: false
        }]
    );
    // A clock that was set back holds nobody up.
    let steps = ask(&plan, &members, &facts(), &Limits::default(), -100_000);
    assert_eq!(
        steps,
        [Step::Dispatch {
            unit: id("b"),
            resume: false
        }]
    );
}

#[test]
fn g13_a_rate_limit_holds_up_every_start() {
    let plan = plan(&[("a", &[]), ("b", &[])]);
    let limits = Limits::default();
    let members = [failed("a", reason::RATE_LIMIT), at("b", Phase::Ready)];
    let wait = backoff_ms(&id("a"), 0, &limits);
    let steps = ask(&plan, &members, &facts(), &limits, 0);
    let why = vec![Awaited::Again(id("a")), Awaited::Quiet];
    assert_eq!(
        steps,
        [Step::Wait {
            until: Some(wall(wait.cast_signed())),
            why
        }]
    );
    let steps = ask(&plan, &members, &facts(), &limits, wait.cast_signed());
    assert_eq!(
        steps,
        [
            Step::Retry(id("a")),
            Step::Dispatch {
                unit: id("b"),
                resume: false
            }
        ]
    );
}

#[test]
fn g9_at_the_cap_nothing_begins_and_above_the_margin_what_runs_is_stopped() {
    let plan = plan(&[("a", &[]), ("b", &[])]);
    let limits = Limits {
        workflow: Cap {
            usd: Some(Usd(10_000_000)),
            tokens: None,
        },
        ..Limits::default()
    };
    let members = [at("a", Phase::Running), member("b")];
    let spent = |usd| Facts {
        spent: dollars(usd),
        ..facts()
    };
    let waits = |steps: &[Step]| matches!(steps, [Step::Wait { until: None, why }] if *why == [Awaited::Agent(id("a"))]);
    assert_eq!(
        ask(&plan, &members, &spent(9), &limits, 0),
        [Step::Create(id("b"))]
    );
    assert!(waits(&ask(&plan, &members, &spent(10), &limits, 0)));
    assert!(waits(&ask(&plan, &members, &spent(11), &limits, 0)));
    let steps = ask(&plan, &members, &spent(12), &limits, 0);
    assert!(
        matches!(&steps[..], [Step::Stop { unit, .. }] if *unit == id("a")),
        "{steps:?}"
    );
    // Told once, it is waited for.
    let mut told = members.clone();
    told[0].stopping = true;
    assert!(waits(&ask(&plan, &told, &spent(12), &limits, 0)));
    // What never began never will.
    let members = [at("a", Phase::Merged), member("b")];
    let mut gone = members.clone();
    if let Some(unit) = &mut gone[0].unit {
        unit.state = Phase::Idle;
    }
    assert_eq!(
        ask(&plan, &gone, &spent(10), &limits, 0),
        [Step::End(Outcome::Failed)]
    );
    for (usd, percent) in [(7, None), (8, Some(80)), (12, Some(120))] {
        let told = alerts(&spent(usd), &limits);
        assert_eq!(told.first().map(|alert| alert.percent), percent, "{usd}");
    }
}

#[test]
fn g9_tokens_are_a_cap_too_and_a_day_ends() {
    let plan = plan(&[("a", &[])]);
    let limits = Limits {
        day: Cap {
            usd: None,
            tokens: Some(100),
        },
        ..Limits::default()
    };
    let mut facts = facts();
    facts.spent_today.tokens = Tokens {
        input: 60,
        output: 40,
    };
    let steps = ask(&plan, &[member("a")], &facts, &limits, 0);
    assert_eq!(
        steps,
        [Step::Wait {
            until: Some(wall(DAY)),
            why: vec![Awaited::Day]
        }]
    );
    facts.spent_today = Spent::default();
    assert_eq!(
        ask(&plan, &[member("a")], &facts, &limits, 0),
        [Step::Create(id("a"))]
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
    let steps = ask(&plan, &[spent], &facts(), &Limits::default(), DAY);
    assert_eq!(steps, [Step::End(Outcome::Failed)]);
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
        (reason::ARTIFACTS, 1),
        (reason::USAGE, 0),
        (reason::BUDGET, 0),
        (reason::STOPPED, 0),
        (reason::DAY_BUDGET, MAX_RETRIES),
    ] {
        for count in 0..=MAX_RETRIES {
            let mut member = failed("a", reason);
            if let Some(unit) = &mut member.unit {
                unit.retry_count = count;
            }
            let steps = ask(&plan, &[member], &facts(), &Limits::default(), DAY);
            let expected = match count < tries {
                true => Step::Retry(id("a")),
                false => Step::End(Outcome::Failed),
            };
            assert_eq!(steps, [expected], "{reason} after {count}");
        }
    }
}

#[test]
fn g10_each_try_waits_longer_and_not_all_wait_the_same() {
    let limits = Limits::default();
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
    let other = Limits {
        seed: 1,
        ..Limits::default()
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
        let steps = ask(&plan, &[member], &facts(), &Limits::default(), 0);
        let resume = session && started && resumable;
        assert_eq!(
            steps,
            [Step::Dispatch {
                unit: id("a"),
                resume
            }]
        );
    }
}

#[test]
fn g13_what_needs_a_failed_unit_is_skipped_and_says_why() {
    let plan = plan(&[("c", &["b"]), ("b", &["a"]), ("a", &[]), ("d", &[])]);
    let mut a = failed("a", reason::USAGE);
    a.claimed = true;
    let members = [member("c"), member("b"), a, at("d", Phase::Running)];
    let steps = ask(&plan, &members, &facts(), &Limits::default(), 0);
    assert_eq!(steps, [Step::GiveBack(id("a"))]);
    let look = Look {
        plan: &plan,
        id: &workflow(),
        members: &members,
        facts: &facts(),
        limits: &Limits::default(),
        now: wall(0),
    };
    let all = look.standings();
    assert_eq!(all[0], Standing::Skipped("b".to_owned()));
    assert_eq!(all[1], Standing::Skipped("a".to_owned()));
    assert_eq!(all[2], Standing::Failed("usage".to_owned()));
    assert_eq!(all[3], Standing::Busy);
}

#[test]
fn g10_a_conflict_goes_back_a_few_times_and_then_waits_for_a_person() {
    let plan = plan(&[("a", &[]), ("b", &["a"])]);
    let limits = Limits {
        max_conflict_rounds: 1,
        ..Limits::default()
    };
    let with = |rounds, sent_back| {
        let mut member = failed("a", reason::CONFLICT);
        member.sent_back = sent_back;
        if let Some(unit) = &mut member.unit {
            unit.conflict_rounds = rounds;
        }
        [member, self::member("b")]
    };
    assert_eq!(
        ask(&plan, &with(0, false), &facts(), &limits, 0),
        [Step::SendBack(id("a"))]
    );
    assert_eq!(
        ask(&plan, &with(1, true), &facts(), &limits, 0),
        [Step::Resolve(id("a"))]
    );
    let steps = ask(&plan, &with(1, false), &facts(), &limits, 0);
    let why = vec![Awaited::Person(id("a"), reason::CONFLICT.to_owned())];
    assert_eq!(steps, [Step::Wait { until: None, why }]);
}

#[test]
fn g12_after_a_crash_each_phase_is_gone_on_with() {
    let plan = plan(&[("a", &[])]);
    for (phase, seen, step) in [
        (Phase::Provisioning, Seen::None, Step::Create(id("a"))),
        (Phase::Dispatched, Seen::None, Step::Launch(id("a"))),
        (Phase::Dispatched, Seen::Running, Step::Running(id("a"))),
        (Phase::Dispatched, Seen::Ended, Step::Settle(id("a"))),
        (Phase::Dispatched, Seen::Lost, Step::Settle(id("a"))),
        (Phase::Running, Seen::Ended, Step::Settle(id("a"))),
        (Phase::Running, Seen::Lost, Step::Settle(id("a"))),
        (Phase::Running, Seen::None, Step::Settle(id("a"))),
        (Phase::Completed, Seen::Ended, Step::Land(vec![id("a")])),
        (Phase::Merging, Seen::Ended, Step::Land(vec![id("a")])),
        (Phase::Merged, Seen::Ended, Step::Clean(id("a"))),
        (Phase::Cleanup, Seen::Ended, Step::Clean(id("a"))),
    ] {
        let mut member = at("a", phase);
        member.seen = seen;
        let steps = ask(&plan, &[member], &facts(), &Limits::default(), 0);
        assert_eq!(steps, [step], "{phase} {seen:?}");
    }
}

#[test]
fn g12_a_cancelled_workflow_stops_agents_keeps_work_and_ends() {
    let plan = plan(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &[]), ("e", &[])]);
    let cancelled = Facts {
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
    let steps = ask(&plan, &members, &cancelled, &Limits::default(), 0);
    let why = "the workflow was cancelled".to_owned();
    assert_eq!(
        steps,
        [
            Step::Stop {
                unit: id("a"),
                why: why.clone()
            },
            // Its agent was not started, and is not.
            Step::Settle(id("d")),
            Step::Abandon { unit: id("b"), why },
        ]
    );
    let members = [
        failed("a", reason::STOPPED),
        failed("b", "crashed"),
        at("c", Phase::Completed),
    ];
    let steps = ask(&plan, &members, &cancelled, &Limits::default(), 0);
    assert_eq!(steps, [Step::End(Outcome::Cancelled)]);
}

#[test]
fn g13_units_that_wait_for_each_other_or_for_nobody_end_it() {
    for needs in [&["b"][..], &["nobody"], &["a"]] {
        let plan = plan(&[("a", needs), ("b", &["a"])]);
        let members = ["a", "b"].map(member);
        let steps = ask(&plan, &members, &facts(), &Limits::default(), 0);
        assert_eq!(steps, [Step::End(Outcome::Failed)], "{needs:?}");
    }
    let steps = ask(&plan(&[]), &[], &facts(), &Limits::default(), 0);
    assert_eq!(steps, [Step::End(Outcome::Completed)]);
}

#[test]
fn g13_a_unit_of_another_workflow_is_not_touched() {
    let plan = plan(&[("a", &[])]);
    for phase in Phase::ALL {
        let mut foreign = at("a", *phase);
        if let Some(unit) = &mut foreign.unit {
            unit.workflow = None;
        }
        let steps = ask(&plan, &[foreign], &facts(), &Limits::default(), 0);
        match phase {
            Phase::Idle => assert_eq!(steps, [Step::Create(id("a"))]),
            _ => assert!(
                matches!(&steps[..], [Step::Wait { until: None, why }] if matches!(why[..], [Awaited::Person(..)])),
                "{phase}: {steps:?}"
            ),
        }
    }
}
