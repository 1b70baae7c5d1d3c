//! Single rules by example, and all of them together against a world that does what it likes.

use serde_json::json;

use super::*;
use crate::model::plan::{PlanUnit, Settings};
use crate::model::unit::{Failure, Input, MAX_RETRIES, MergeStatus, Phase, Transition, moved, step as edge};

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

pub(super) fn member(id: &str) -> Member {
    Member {
        id: id.parse().expect("a name"),
        unit: None,
        seen: Seen::None,
        resumable: false,
        claimed: false,
        stopping: false,
        sent_back: false,
        touched: Vec::new(),
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
        others: Vec::new(),
        locks: Vec::new(),
        accounts: Vec::new(),
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
fn g13_what_somebody_landed_elsewhere_is_not_where_the_others_need_it() {
    let plan = plan(&[("a", &[]), ("b", &["a"])]);
    let mut elsewhere = at("a", Phase::Merged);
    if let Some(unit) = &mut elsewhere.unit {
        unit.landing_on = Some("release".to_owned());
    }
    let steps = ask(&plan, &[elsewhere, member("b")], &facts(), &Limits::default(), 0);
    let goes_on = |step: &Step| matches!(step, Step::Clean(_) | Step::Create(_));
    assert!(!steps.iter().any(goes_on), "{steps:?}");
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

fn dispatch(unit: &str) -> Step {
    Step::Dispatch {
        unit: id(unit),
        resume: false,
    }
}

#[test]
fn g13_a_refused_account_holds_up_its_own_units_alone() {
    let plan = on_accounts(&[("a", "claude"), ("b", "claude"), ("c", "codex"), ("d", "claude")]);
    let limits = Limits::default();
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
    let wait = Step::Wait {
        until: Some(wall(20_000)),
        why: vec![Awaited::Parked(claude())],
    };
    let steps: Vec<Step> = steps
        .into_iter()
        .filter(|step| *step != Step::Clean(id("c")))
        .collect();
    assert!(steps.is_empty() || steps == [wait], "{steps:?}");
    let steps = ask(&plan, &members, &facts, &limits, 20_000);
    assert!(steps.contains(&Step::Retry(id("a"))), "{steps:?}");
    assert!(steps.contains(&dispatch("b")), "{steps:?}");
}

#[test]
fn g13_after_a_refusal_starts_keep_their_distance_whoever_started_last() {
    let mut plan = on_accounts(&[("a", "claude"), ("b", "claude"), ("c", "codex")]);
    plan.max_concurrent = 3;
    let limits = Limits::default();
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
    let limits = Limits::default();
    let mut members = [failed("a", failure_reason::RATE_LIMIT)];
    if let Some(unit) = &mut members[0].unit {
        unit.retry_count = MAX_RETRIES;
        unit.limited_since = Some(wall(0));
        let back = edge(Phase::Failed, Input::RetryDispatch).expect("an edge");
        assert_eq!(
            moved(unit.clone(), back, &Default::default(), wall(1)).retry_count,
            MAX_RETRIES
        );
    }
    let mut facts = facts();
    facts.accounts = vec![refused("claude", 0, 1000)];
    assert_eq!(
        ask(&plan, &members, &facts, &limits, 1000),
        [Step::Retry(id("a"))]
    );
    // Refused again and again for a day, or until later than that from the beginning.
    for (at, until) in [(DAY + 5000, DAY + 9000), (1000, 2 * DAY)] {
        facts.accounts = vec![refused("claude", at, until)];
        let steps = ask(&plan, &members, &facts, &limits, at);
        let [Step::Wait { until: None, why }] = &steps[..] else {
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
        [Step::Retry(id("a"))]
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
        (failure_reason::ARTIFACTS, 1),
        (failure_reason::USAGE, 0),
        (failure_reason::BUDGET, 0),
        (failure_reason::STOPPED, 0),
        (failure_reason::DAY_BUDGET, MAX_RETRIES),
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
    let mut a = failed("a", failure_reason::USAGE);
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
        let mut member = failed("a", failure_reason::CONFLICT);
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
    let why = vec![Awaited::Person(id("a"), failure_reason::CONFLICT.to_owned())];
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
        failed("a", failure_reason::STOPPED),
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
    let limits = Limits::default();
    let steps = ask(&plan, &members, &facts(), &limits, 0);
    assert_eq!(steps, ["a", "c", "d"].map(|one| Step::Create(id(one))));
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
        let begins = steps.contains(&Step::Create(id("b")));
        assert_eq!(begins, !waiting, "{phase}: {steps:?}");
        let told = Look {
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
    // What failed for good is in nobody's way; what is tried again is.
    let members = [
        failed("a", failure_reason::USAGE),
        member("b"),
        at("c", Phase::Merged),
        at("d", Phase::Merged),
    ];
    assert!(ask(&plan, &members, &facts(), &limits, 0).contains(&Step::Create(id("b"))));
    let members = [
        failed("a", "crashed"),
        member("b"),
        at("c", Phase::Merged),
        at("d", Phase::Merged),
    ];
    assert!(!ask(&plan, &members, &facts(), &limits, 0).contains(&Step::Create(id("b"))));
}

#[test]
fn g15_work_of_others_and_locks_are_waited_for_by_those_who_say_where_they_write() {
    let plan = scoped(&[("a", &["src/a.rs", "docs/"])]);
    let silent = scoped(&[("a", &[])]);
    let limits = Limits::default();
    let occupied = |by: &str, texts: &[&str], until| Occupied {
        by: by.to_owned(),
        paths: paths(texts),
        until,
    };
    let others = Facts {
        others: vec![
            occupied("x", &["lib/**"], None),
            occupied("y", &["src/*.rs"], None),
        ],
        ..facts()
    };
    let wait = |until, why: Awaited| Step::Wait {
        until,
        why: vec![why],
    };
    assert_eq!(
        ask(&plan, &[member("a")], &others, &limits, 0),
        [wait(None, waits("a", "y", "src/*.rs"))]
    );
    assert_eq!(
        ask(&silent, &[member("a")], &others, &limits, 0),
        [Step::Create(id("a"))]
    );
    let locked = |text: &str| Facts {
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
        [Step::Create(id("a"))]
    );
    // Its own lock, from an attempt before.
    let mut again = at("a", Phase::Ready);
    if let Some(unit) = &mut again.unit {
        unit.worker = Some("agent:z".parse().expect("an agent"));
    }
    assert!(matches!(
        ask(&plan, &[again], &locked("src/"), &limits, 0)[..],
        [Step::Dispatch { .. }]
    ));
    // One at work that does not say where it writes is where it has written.
    let both = scoped(&[("b", &[]), ("a", &["src/a.rs"])]);
    let mut busy = at("b", Phase::Running);
    busy.touched = paths(&["src/a.rs"]);
    let steps = ask(&both, &[busy.clone(), member("a")], &facts(), &limits, 0);
    assert!(
        matches!(&steps[..], [Step::Wait { why, .. }] if why.contains(&waits("a", "b", "src/a.rs"))),
        "{steps:?}"
    );
    busy.touched = paths(&["src/b.rs"]);
    assert_eq!(
        ask(&both, &[busy, member("a")], &facts(), &limits, 0),
        [Step::Create(id("a"))]
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
    let limits = Limits::default();
    assert_eq!(
        ask(&plan, &with(0), &facts(), &limits, DAY),
        [Step::Retry(id("a"))]
    );
    let why = vec![Awaited::Person(id("a"), failure_reason::OUTSIDE.to_owned())];
    assert_eq!(
        ask(&plan, &with(1), &facts(), &limits, DAY),
        [Step::Wait { until: None, why }]
    );
    let cancelled = Facts {
        cancelled: true,
        ..facts()
    };
    assert_eq!(
        ask(&plan, &with(1), &cancelled, &limits, DAY),
        [Step::End(Outcome::Cancelled)]
    );
}
