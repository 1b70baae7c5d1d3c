//! The contract of every store, as a suite of checks.
//!
//! Each check is a function of a [`Backend`], which is a place for one log with a clock set by hand, and opens as many
//! handles on it as a check wants, each standing for a process. [`store_contract!`](macro@crate::store_contract) makes a test
//! of each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use jit_core::decide::command::{Command, CommandReply};
use jit_core::log::event::{Event, IssueAction};
use jit_core::log::state;
use jit_core::model::actor::Actor;
use jit_core::model::lease::Lease;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_store::{Done, Outcome, Recovered, Store};

use crate::ManualClock;
use crate::lease_model::{By, Model, Outcome as Says};
use crate::rng::{Rng, each_seed};
use crate::store_commands::{
    acquire, actor, ask, ask_as, ask_within, create, events, evict, lease_id, lease_in, leases, release,
    renew, sequence, transfer,
};

/// A handle on a store, as a process has it.
pub type Handle = Arc<dyn Store>;

/// One place for a log, without a log yet.
pub trait Backend: Sync {
    fn clock(&self) -> &ManualClock;
    /// Opens another handle on the log.
    fn open(&self) -> Handle;
}

/// Makes a test of every check; `$make` gives a new backend.
#[macro_export]
macro_rules! store_contract {
    ($name:ident, $make:expr) => {
        mod $name {
            $crate::store_contract!(@ $make,
                one_winner, a_holder_is_told_that_it_holds, others_are_refused, tokens_grow, lapsed_leases_are_granted_again,
                a_lease_changes_hands, eviction_needs_a_person_and_a_reason, a_refusal_writes_nothing,
                a_request_is_carried_out_once, a_request_id_is_for_one_command, reading_changes_nothing,
                events_have_no_gaps, unknown_names_are_refused, only_ticks_make_a_lease_expire,
                a_boot_anchors_deadlines_once, an_error_while_preparing_stops_the_append, what_the_model_says,
                there_is_no_log_before_it_is_created, one_of_many_creates_the_log, the_time_is_that_of_the_clock,
                holding_still_stops_writers_but_not_readers, a_writer_waits_until_the_lock_is_free,
                reading_works_while_preparing_and_publishing, a_line_that_is_too_long_is_refused,
                a_stamp_changes_with_the_log, validating_finds_nothing_wrong_and_writes_nothing,
                salvaging_a_sound_log_changes_nothing);
        }
    };
    (@ $make:expr, $($check:ident),+) => {
        $(#[test] fn $check() { $crate::store_contract::$check(&|| Box::new($make)); })+
    };
}

/// Makes backends.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Backend>;

fn a() -> Actor {
    actor("agent:a", 1)
}

fn b() -> Actor {
    actor("agent:b", 2)
}

fn code(outcome: Outcome<Done>) -> Code {
    outcome.expect_err("a refusal").code
}

fn with_issues(make: Make<'_>, ids: &[&str]) -> Box<dyn Backend> {
    let backend = make();
    let store = backend.open();
    assert!(store.create(&actor("human:h", 1)).expect("a log"));
    for (n, id) in ids.iter().enumerate() {
        ask(&*store, &actor("human:h", 1), &create(id), 1_000_000 + n as u128).expect("an issue");
    }
    backend
}

pub fn one_winner(make: Make<'_>) {
    const RIVALS: usize = 8;
    let backend = with_issues(make, &["WI-1", "WI-2", "WI-3"]);
    for (round, issue) in ["WI-1", "WI-2", "WI-3"].into_iter().enumerate() {
        let start = Barrier::new(RIVALS);
        let answers: Vec<Result<u64, Code>> = std::thread::scope(|scope| {
            let rivals: Vec<_> = (0..RIVALS)
                .map(|n| {
                    let (start, backend) = (&start, &*backend);
                    scope.spawn(move || {
                        let store = backend.open();
                        let who = actor(&format!("agent:{n}"), n as u32 + 1);
                        start.wait();
                        let done = ask(&*store, &who, &acquire(issue, 600), (round * 100 + n) as u128);
                        done.map(|done| lease_in(&done).token)
                            .map_err(|refusal| refusal.code)
                    })
                })
                .collect();
            rivals
                .into_iter()
                .map(|rival| rival.join().expect("no panic"))
                .collect()
        });
        let won: Vec<u64> = answers
            .iter()
            .filter_map(|answer| answer.as_ref().ok().copied())
            .collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        assert!(
            answers
                .iter()
                .all(|answer| !answer.is_err_and(|code| code != Code::Held)),
            "{answers:?}"
        );
        assert_eq!(leases(&*backend.open())[issue].token, won[0]);
    }
}

pub fn a_holder_is_told_that_it_holds(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let first = ask(&*backend.open(), &a(), &acquire("WI-1", 60), 1).expect("granted");
    let before = sequence(&*backend.open());
    let again = ask(&*backend.open(), &a(), &acquire("WI-1", 60), 2).expect("existing");
    assert!(
        matches!(&again.reply, CommandReply::Lease { existing: true, lease, .. } if lease == lease_in(&first))
    );
    assert_eq!(again.own, vec![lease_in(&first).clone()]);
    assert_eq!(
        sequence(&*backend.open()),
        before,
        "an answer that changes nothing writes nothing"
    );
    // The same agent in another worktree is another holder.
    assert_eq!(
        code(ask(
            &*backend.open(),
            &actor("agent:a", 2),
            &acquire("WI-1", 60),
            3
        )),
        Code::Held
    );
}

pub fn others_are_refused(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let store = backend.open();
    let done = ask(&*store, &a(), &acquire("WI-1", 60), 1).expect("granted");
    let lease = lease_in(&done).lease_id.to_string();
    assert_eq!(code(ask(&*store, &b(), &acquire("WI-1", 60), 2)), Code::Held);
    for of in ["WI-1", lease.as_str()] {
        assert_eq!(code(ask(&*store, &b(), &renew(of, None), 3)), Code::NotHolder);
        assert_eq!(code(ask(&*store, &b(), &release(of), 3)), Code::NotHolder);
        assert_eq!(
            code(ask(&*store, &b(), &transfer(of, "agent:b"), 3)),
            Code::NotHolder
        );
    }
    ask(&*store, &a(), &release(&lease), 4).expect("released");
    assert_eq!(code(ask(&*store, &a(), &release("WI-1"), 5)), Code::NotFound);
    ask(&*store, &b(), &acquire("WI-1", 60), 6).expect("free again");
    assert_eq!(code(ask(&*store, &a(), &renew(&lease, None), 7)), Code::NotHolder);
}

pub fn tokens_grow(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1", "WI-2"]);
    let mut last = 0;
    for n in 0..20 {
        let (who, issue) = (
            if n % 2 == 0 { a() } else { b() },
            if n % 3 == 0 { "WI-1" } else { "WI-2" },
        );
        let done = ask(&*backend.open(), &who, &acquire(issue, 10), n).expect("granted");
        let token = lease_in(&done).token;
        assert!(token > last, "{token} after {last}");
        assert!(token <= done.sequence);
        last = token;
        match n % 4 {
            0 => backend.clock().advance(10_000),
            1 => drop(ask(&*backend.open(), &actor("human:h", 1), &evict(issue), n).expect("evicted")),
            _ => drop(ask(&*backend.open(), &who, &release(issue), n).expect("released")),
        }
    }
}

pub fn lapsed_leases_are_granted_again(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let first = ask(&*backend.open(), &a(), &acquire("WI-1", 10), 1).expect("granted");
    backend.clock().advance(10_000);
    let again = ask(&*backend.open(), &a(), &renew("WI-1", None), 2).expect("granted again");
    assert!(matches!(
        again.reply,
        CommandReply::Lease {
            regranted: true,
            existing: false,
            ..
        }
    ));
    assert!(lease_in(&again).token > lease_in(&first).token);
    backend.clock().advance(10_000);
    // Another agent acquires it: the late one is refused, and its token is older.
    let other = ask(&*backend.open(), &b(), &acquire("WI-1", 10), 3).expect("free");
    let late = lease_in(&first).lease_id.to_string();
    assert_eq!(
        code(ask(&*backend.open(), &a(), &renew(&late, None), 4)),
        Code::NotHolder
    );
    assert_eq!(
        code(ask(&*backend.open(), &a(), &release(&late), 5)),
        Code::NotHolder
    );
    assert!(lease_in(&other).token > lease_in(&again).token);
}

pub fn a_lease_changes_hands(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let mine = ask(&*backend.open(), &a(), &acquire("WI-1", 60), 1).expect("granted");
    let given = ask(&*backend.open(), &a(), &transfer("WI-1", "agent:b"), 2).expect("transferred");
    let (old, new) = (lease_in(&mine), lease_in(&given));
    assert_ne!(old.lease_id, new.lease_id);
    assert!(new.token > old.token);
    assert_eq!(new.agent_id.as_str(), "agent:b");
    assert!(given.own.is_empty());
    assert_eq!(
        code(ask(&*backend.open(), &a(), &renew("WI-1", None), 3)),
        Code::NotHolder
    );
    // The lease stayed in its worktree.
    ask(&*backend.open(), &actor("agent:b", 1), &renew("WI-1", None), 4).expect("its new holder renews");
}

pub fn eviction_needs_a_person_and_a_reason(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let store = backend.open();
    ask(&*store, &a(), &acquire("WI-1", 60), 1).expect("granted");
    assert_eq!(code(ask(&*store, &b(), &evict("WI-1"), 2)), Code::NotAllowed);
    let unexplained = Command::ForceEvict {
        target: jit_core::decide::command::Target::parse("WI-1").expect("an issue"),
        reason: "  ".into(),
    };
    assert_eq!(
        code(ask(&*store, &actor("human:h", 1), &unexplained, 3)),
        Code::Invalid
    );
    let done = ask(&*store, &actor("human:h", 1), &evict("WI-1"), 4).expect("evicted");
    assert!(matches!(&done.reply, CommandReply::Evicted(gone) if gone.len() == 1));
    assert_eq!(code(ask(&*store, &a(), &renew("WI-1", None), 5)), Code::NotHolder);
    assert_eq!(
        code(ask(&*store, &actor("human:h", 1), &evict("WI-1"), 6)),
        Code::NotFound
    );
}

pub fn a_refusal_writes_nothing(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1", "WI-2"]);
    let store = backend.open();
    ask(&*store, &a(), &acquire("WI-1", 10), 1).expect("granted");
    ask(&*store, &a(), &acquire("WI-2", 100), 1).expect("granted");
    // WI-1 expires: a refused command does not even record that.
    backend.clock().advance(10_000);
    let before = (sequence(&*store), events(&*store).len());
    let h = actor("human:h", 1);
    for (who, command) in [
        (&b(), acquire("WI-2", 10)),
        (&b(), acquire("WI-1", 0)),
        (&b(), renew("WI-1", None)),
        (&b(), release("WI-2")),
        (&b(), evict("WI-2")),
        (&a(), transfer("WI-1", "agent:b")),
        (&a(), transfer("WI-2", "agent:a")),
        (&h, create("WI-1")),
        (&h, create("wi-2")),
        (&h, evict("WI-3")),
    ] {
        ask(&*backend.open(), who, &command, 9).expect_err("refused");
        assert_eq!((sequence(&*store), events(&*store).len()), before, "{command:?}");
    }
}

pub fn a_request_is_carried_out_once(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let commands: [(Actor, Command); 6] = [
        (actor("human:h", 1), create("WI-2")),
        (a(), acquire("WI-1", 60)),
        (a(), renew("WI-1", Some(90))),
        (a(), transfer("WI-1", "agent:b")),
        (actor("human:h", 1), evict("WI-1")),
        (a(), acquire("WI-1", 60)),
    ];
    for (n, (who, command)) in commands.iter().enumerate() {
        let request = format!("request-{n}");
        let first = ask_as(&*backend.open(), who, command, 10 + n as u128, &request).expect("done");
        assert!(!first.repeated);
        let before = sequence(&*backend.open());
        for _ in 0..2 {
            backend.clock().advance(1_000);
            let again = ask_as(&*backend.open(), who, command, 20 + n as u128, &request).expect("the same");
            assert!(again.repeated);
            assert_eq!(again.reply, first.reply);
        }
        assert_eq!(sequence(&*backend.open()), before);
    }
    // A made-up id is found as well, if the caller repeats it.
    let done = ask(&*backend.open(), &a(), &release("WI-1"), 77).expect("released");
    let id = jit_core::model::ids::RequestId::make_up(1_767_441_600_000, 77);
    let again = ask_as(&*backend.open(), &a(), &release("WI-1"), 78, id.as_str()).expect("found");
    assert!(again.repeated);
    assert_eq!(again.reply, done.reply);
}

pub fn a_request_id_is_for_one_command(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1", "WI-2"]);
    ask_as(&*backend.open(), &a(), &acquire("WI-1", 60), 1, "once").expect("granted");
    let before = sequence(&*backend.open());
    for (who, command) in [
        (a(), acquire("WI-2", 60)),
        (a(), acquire("WI-1", 61)),
        (a(), release("WI-1")),
        (b(), acquire("WI-1", 60)),
    ] {
        assert_eq!(
            code(ask_as(&*backend.open(), &who, &command, 2, "once")),
            Code::RequestReused
        );
    }
    assert_eq!(sequence(&*backend.open()), before);
    // A refusal does not use the id up.
    assert_eq!(
        code(ask_as(&*backend.open(), &b(), &acquire("WI-1", 60), 3, "twice")),
        Code::Held
    );
    ask_as(&*backend.open(), &a(), &release("WI-1"), 4, "other").expect("released");
    let done = ask_as(&*backend.open(), &b(), &acquire("WI-1", 60), 5, "twice").expect("granted now");
    assert!(!done.repeated);
}

pub fn reading_changes_nothing(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    ask(&*backend.open(), &a(), &acquire("WI-1", 10), 1).expect("granted");
    backend.clock().advance(11_000);
    backend.clock().reboot("another", 1_000);
    let store = backend.open();
    let before = (sequence(&*store), events(&*store));
    for _ in 0..3 {
        store.view().expect("a view");
        backend.open().view().expect("a view");
    }
    assert_eq!((sequence(&*store), events(&*store)), before);
}

pub fn events_have_no_gaps(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1", "WI-2"]);
    for n in 0..12 {
        ask(&*backend.open(), &a(), &acquire("WI-1", 5), n).expect("granted");
        backend.clock().advance(6_000);
    }
    let store = backend.open();
    let all = events(&*store);
    assert_eq!(all.len() as u64, sequence(&*store));
    assert!(all.iter().zip(1..).all(|(line, n)| line.sequence == n));
    for line in &all {
        assert!(line.part.0 >= 1 && line.part.0 <= line.part.1);
    }
    for after in [0, 3, all.len() as u64 - 1, all.len() as u64, u64::MAX - 1] {
        let mut seen = Vec::new();
        let tail: Vec<_> = all.iter().filter(|line| line.sequence > after).cloned().collect();
        store
            .events(after, &mut |line| {
                seen.push(line);
                ControlFlow::Continue(())
            })
            .expect("events");
        assert_eq!(seen, tail, "after {after}");
    }
    let mut seen = 0;
    store
        .events(0, &mut |_| {
            seen += 1;
            if seen == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .expect("events");
    assert_eq!(seen, 3);
}

pub fn unknown_names_are_refused(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1", "WI-1-A", "WI-1-B"]);
    let store = backend.open();
    assert_eq!(code(ask(&*store, &a(), &acquire("WI-9", 60), 1)), Code::NotFound);
    assert_eq!(
        code(ask(&*store, &a(), &acquire("WI-1-", 60), 1)),
        Code::Ambiguous
    );
    assert_eq!(
        code(ask(&*store, &a(), &renew(lease_id(5).as_str(), None), 1)),
        Code::NotFound
    );
    assert_eq!(code(ask(&*store, &a(), &renew("WI-1", None), 1)), Code::NotFound);
    let done = ask(&*store, &a(), &acquire("wi-1-a", 60), 1).expect("in any case of letters");
    assert_eq!(
        lease_in(&done).resource.issue().map(|id| id.as_str()),
        Some("WI-1-A")
    );
}

pub fn only_ticks_make_a_lease_expire(make: Make<'_>) {
    const DAY: i64 = 86_400_000;
    let backend = with_issues(make, &["WI-1"]);
    ask(&*backend.open(), &a(), &acquire("WI-1", 60), 1).expect("granted");
    for jump in [DAY, -2 * DAY, DAY] {
        backend.clock().jump_wall(jump);
        assert_eq!(
            code(ask(&*backend.open(), &b(), &acquire("WI-1", 60), 2)),
            Code::Held
        );
    }
    backend.clock().advance(59_999);
    assert_eq!(
        code(ask(&*backend.open(), &b(), &acquire("WI-1", 60), 3)),
        Code::Held
    );
    backend.clock().jump_wall(-DAY);
    backend.clock().advance(1);
    ask(&*backend.open(), &b(), &acquire("WI-1", 60), 4).expect("not a millisecond longer");
}

pub fn a_boot_anchors_deadlines_once(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1", "WI-2"]);
    let clock = backend.clock();
    ask(&*backend.open(), &a(), &acquire("WI-1", 60), 1).expect("granted");
    clock.reboot("second", 20_000);
    let left = |store: &dyn Store| {
        let view = store.view().expect("a view");
        state::leases(&*view.table).expect("leases")[0].remaining_ms(&view.now)
    };
    assert_eq!(
        left(&*backend.open()),
        40_000,
        "seen before anybody writes it down"
    );
    clock.advance(5_000);
    ask(&*backend.open(), &b(), &acquire("WI-2", 60), 2).expect("granted");
    assert_eq!(left(&*backend.open()), 35_000);
    ask(&*backend.open(), &b(), &release("WI-2"), 3).expect("released");
    let boots = |boot: &str| {
        let all = events(&*backend.open());
        let of = |event: &Event| matches!(event, Event::Boot { boot: b, .. } if b.0 == boot);
        all.iter().filter(|line| of(&line.event)).count()
    };
    assert_eq!(boots("second"), 1);
    // A wall clock that was set back while the machine was off gives no more than the whole TTL.
    clock.jump_wall(-86_400_000);
    clock.reboot("third", 0);
    assert_eq!(left(&*backend.open()), 60_000);
    assert_eq!(
        code(ask(&*backend.open(), &b(), &acquire("WI-1", 60), 4)),
        Code::Held
    );
    clock.advance(60_000);
    ask(&*backend.open(), &b(), &acquire("WI-1", 60), 5).expect("expired");
    assert_eq!((boots("second"), boots("third")), (1, 1));
}

pub fn an_error_while_preparing_stops_the_append(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let store = backend.open();
    let before = sequence(&*store);
    let policy = jit_core::model::policy::Policy::default();
    let refused = store.transact(&mut jit_store::Ask {
        command: &create("WI-2"),
        actor: &a(),
        branch: None,
        fresh_lease: lease_id(1),
        policy: &policy,
        request: "r".parse().expect("a request id"),
        repeatable: true,
        wait: None,
        prepare: &mut |events| {
            assert!(matches!(
                events,
                [Event::Issue {
                    did: IssueAction::Created,
                    ..
                }]
            ));
            Err(Box::new(
                Refusal::new(Code::Io, "no room").details(Details::LockFileAppeared),
            ))
        },
        publish: &mut |_, _| panic!("nothing was appended"),
    });
    let refused = refused.expect_err("refused");
    assert_eq!((refused.code, &*refused.message), (Code::Io, "no room"));
    assert_eq!(refused.details, Details::LockFileAppeared);
    assert_eq!(sequence(&*store), before);
    ask_as(&*store, &a(), &create("WI-2"), 2, "r").expect("the request was not used up");
}

pub fn there_is_no_log_before_it_is_created(make: Make<'_>) {
    let backend = make();
    let store = backend.open();
    let refused = |refusal: Box<jit_core::model::refusal::Refusal>| {
        assert_eq!(refusal.code, Code::NotInitialized, "{}", refusal.message);
    };
    assert!(!store.exists().expect("an answer"));
    refused(ask(&*store, &a(), &create("WI-1"), 1).expect_err("no log"));
    refused(store.view().expect_err("no log"));
    refused(
        store
            .events(0, &mut |_| ControlFlow::Continue(()))
            .expect_err("no log"),
    );
    refused(store.hold_still(&a()).expect_err("no log"));
    refused(store.upkeep().validate(&a()).expect_err("no log"));
    assert_eq!(store.upkeep().stamp(), None);
    assert_eq!(store.upkeep().mend_views(&a()), Vec::<String>::new());
    assert!(!store.exists().expect("an answer"), "a refusal creates nothing");
    assert!(store.create(&a()).expect("created"));
    let created = events(&*store);
    assert!(matches!(
        created.iter().map(|line| &line.event).collect::<Vec<_>>()[..],
        [Event::SegmentStarted { .. }, Event::Boot { .. }]
    ));
    let other = backend.open();
    assert!(other.exists().expect("an answer"));
    assert!(!other.create(&b()).expect("there is one"));
    assert_eq!(events(&*other), created, "creating a log again changes nothing");
}

pub fn one_of_many_creates_the_log(make: Make<'_>) {
    const RIVALS: usize = 8;
    let backend = make();
    let start = Barrier::new(RIVALS);
    let created: Vec<bool> = std::thread::scope(|scope| {
        let rivals: Vec<_> = (0..RIVALS)
            .map(|n| {
                let (start, backend) = (&start, &*backend);
                scope.spawn(move || {
                    let store = backend.open();
                    start.wait();
                    store
                        .create(&actor(&format!("agent:{n}"), 1))
                        .expect("a log either way")
                })
            })
            .collect();
        rivals
            .into_iter()
            .map(|rival| rival.join().expect("no panic"))
            .collect()
    });
    assert_eq!(created.iter().filter(|made| **made).count(), 1, "{created:?}");
    assert_eq!(sequence(&*backend.open()), 2);
}

pub fn the_time_is_that_of_the_clock(make: Make<'_>) {
    let backend = with_issues(make, &[]);
    let store = backend.open();
    backend.clock().advance(1_234);
    let (here, there) = (
        store.now().expect("a time"),
        backend.clock().now().expect("a time"),
    );
    assert_eq!(
        (here.wall, here.boot, here.ticks),
        (there.wall, there.boot, there.ticks)
    );
    backend.clock().break_it(true);
    assert_eq!(store.now().expect_err("broken").code, Code::Io);
    assert_eq!(code(ask(&*store, &a(), &create("WI-1"), 1)), Code::Io);
    backend.clock().break_it(false);
    ask(&*store, &a(), &create("WI-1"), 2).expect("a clock that runs again");
}

pub fn holding_still_stops_writers_but_not_readers(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let (store, other) = (backend.open(), backend.open());
    let before = sequence(&*store);
    let still = store.hold_still(&b()).expect("the lock");
    let refused = ask_within(&*other, &a(), &acquire("WI-1", 60), 1, Duration::ZERO).expect_err("locked");
    assert_eq!(refused.code, Code::Busy);
    assert!(refused.message.contains("agent:b"), "{}", refused.message);
    let holder = other.upkeep().lock_holder().expect("a holder");
    assert_eq!(
        (holder.agent_id.as_str(), holder.pid),
        ("agent:b", std::process::id())
    );
    assert_eq!(sequence(&*other), before);
    assert_eq!(events(&*other).len() as u64, before);
    assert_eq!(
        other.upkeep().mend_views(&a()),
        Vec::<String>::new(),
        "never waits"
    );
    drop(still);
    ask_within(&*other, &a(), &acquire("WI-1", 60), 1, Duration::ZERO).expect("free again");
}

pub fn a_writer_waits_until_the_lock_is_free(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let (waiting, done) = (Barrier::new(2), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        let store = backend.open();
        let still = store.hold_still(&b()).expect("the lock");
        scope.spawn(|| {
            let store = backend.open();
            waiting.wait();
            ask_within(&*store, &a(), &acquire("WI-1", 60), 1, Duration::from_secs(8)).expect("granted");
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        waiting.wait();
        std::thread::sleep(Duration::from_millis(20));
        assert!(
            !done.load(std::sync::atomic::Ordering::SeqCst),
            "the lock is held"
        );
        drop(still);
    });
    assert!(done.load(std::sync::atomic::Ordering::SeqCst));
}

pub fn reading_works_while_preparing_and_publishing(make: Make<'_>) {
    let backend = with_issues(make, &[]);
    let (store, other) = (backend.open(), backend.open());
    let before = sequence(&*store);
    let policy = jit_core::model::policy::Policy::default();
    let (mut prepared, mut published) = (0, 0);
    let done = store.transact(&mut jit_store::Ask {
        command: &create("WI-1"),
        actor: &a(),
        branch: None,
        fresh_lease: lease_id(1),
        policy: &policy,
        request: "r".parse().expect("a request id"),
        repeatable: true,
        wait: None,
        prepare: &mut |_| {
            prepared = sequence(&*other);
            Ok(())
        },
        publish: &mut |lines, table| {
            assert_eq!(lines.len(), 1);
            assert_eq!(state::issues(table).expect("issues").len(), 1);
            published = sequence(&*other);
            vec!["no room".into()]
        },
    });
    let done = done.expect("an append stands, whatever publishing says");
    assert_eq!(
        (prepared, published, done.sequence),
        (before, before + 1, before + 1)
    );
    assert_eq!(done.notices, ["no room"]);
}

pub fn a_line_that_is_too_long_is_refused(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let store = backend.open();
    let before = sequence(&*store);
    let note = Command::Comment {
        issue: "WI-1".parse().expect("an issue id"),
        text: "x".repeat(9 << 20),
    };
    assert_eq!(code(ask(&*store, &a(), &note, 1)), Code::Invalid);
    assert_eq!(sequence(&*backend.open()), before);
    ask(&*store, &a(), &acquire("WI-1", 60), 2).expect("the store goes on");
}

pub fn a_stamp_changes_with_the_log(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let store = backend.open();
    let stamp = || backend.open().upkeep().stamp().expect("a stamp");
    let first = stamp();
    store.view().expect("a view");
    ask(&*store, &a(), &release("WI-1"), 1).expect_err("nothing to release");
    assert_eq!(stamp(), first, "reading and refusing append nothing");
    ask(&*store, &a(), &acquire("WI-1", 60), 2).expect("granted");
    assert_ne!(stamp(), first);
}

pub fn validating_finds_nothing_wrong_and_writes_nothing(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1", "WI-2"]);
    let store = backend.open();
    ask(&*store, &a(), &acquire("WI-1", 60), 1).expect("granted");
    let before = events(&*store);
    let report = store.upkeep().validate(&a()).expect("a report");
    assert_eq!(report.problems, []);
    assert_eq!(
        (report.lines, report.leases, report.issues),
        (before.len() as u64, 1, 2)
    );
    assert!(report.segments >= 1);
    assert_eq!(store.upkeep().mend_views(&a()), Vec::<String>::new());
    assert_eq!(events(&*store), before);
    ask(&*store, &a(), &release("WI-1"), 2).expect("the lock is free again");
}

pub fn salvaging_a_sound_log_changes_nothing(make: Make<'_>) {
    let backend = with_issues(make, &["WI-1"]);
    let store = backend.open();
    ask(&*store, &a(), &acquire("WI-1", 60), 1).expect("granted");
    let before = events(&*store);
    let recovered = store.upkeep().salvage(&a()).expect("an answer");
    assert!(
        matches!(&recovered, Recovered::Sound { lines, .. } if *lines == before.len() as u64),
        "{recovered:?}"
    );
    assert_eq!(events(&*backend.open()), before);
    ask(&*store, &b(), &acquire("WI-1", 60), 2).expect_err("still held");
}

/// Reduces an answer to the model's terms.
pub fn says(command: &Command, outcome: &Outcome<Done>) -> Says {
    match outcome {
        Ok(done) => match (&done.reply, command) {
            (CommandReply::Lease { existing: true, .. }, _) => Says::Existing,
            (CommandReply::Lease { regranted: true, .. }, _) => Says::Regranted,
            (CommandReply::Lease { .. }, Command::Acquire { .. }) => Says::Granted,
            (CommandReply::Lease { .. }, Command::Renew { .. }) => Says::Renewed,
            (CommandReply::Lease { .. }, _) => Says::Transferred,
            (CommandReply::Released(_), _) => Says::Released,
            (CommandReply::Evicted(_), _) => Says::Evicted,
            (_, _) => Says::Granted,
        },
        Err(refusal) => match refusal.code {
            Code::Held => Says::Held,
            Code::NotHolder => Says::NotHolder,
            Code::NotAllowed => Says::NotAllowed,
            Code::NotFound => Says::NotFound,
            Code::Closed => Says::Closed,
            Code::Invalid => Says::Invalid,
            other => panic!("{other:?}: {}", refusal.message),
        },
    }
}

/// A command for both the store and the model.
#[derive(Debug, Clone)]
pub enum ModelStep {
    Acquire(String, u64),
    Renew(String, Option<u64>),
    Release(String),
    Transfer(String, String),
    Evict(String),
}

impl ModelStep {
    /// A random command on one of `issues`, or on a lease that was granted before.
    pub fn random(rng: &mut Rng, issues: &[&str], agents: &[&str], known: &[String]) -> Self {
        let issue = (*rng.choose(issues)).to_owned();
        let of = if !known.is_empty() && rng.bool(0.4) {
            rng.choose(known).clone()
        } else {
            issue.clone()
        };
        match rng.range(0, 12) {
            0..=4 => Self::Acquire(issue, *rng.choose(&[1, 5, 10, 10, 60, 0])),
            5..=7 => Self::Renew(of, *rng.choose(&[None, None, Some(20)])),
            8 | 9 => Self::Release(of),
            10 => Self::Transfer(of, (*rng.choose(agents)).to_owned()),
            _ => Self::Evict(of),
        }
    }

    pub fn command(&self) -> Command {
        match self {
            Self::Acquire(issue, ttl) => acquire(issue, *ttl),
            Self::Renew(of, ttl) => renew(of, *ttl),
            Self::Release(of) => release(of),
            Self::Transfer(of, to) => transfer(of, to),
            Self::Evict(of) => evict(of),
        }
    }

    /// Applies the command to the model and returns its answer.
    pub fn judge(
        &self,
        model: &mut Model,
        who: &Actor,
        fresh: &str,
        now: &jit_core::model::time::Now,
    ) -> Says {
        let me = (
            who.agent_id.as_str(),
            who.worktree_id.as_ref().map(|id| id.as_str()),
        );
        let by = |of: &'_ str| {
            if of.len() == 26 {
                ByOwned::Lease(of.into())
            } else {
                ByOwned::Issue(of.into())
            }
        };
        match self {
            Self::Acquire(issue, ttl) => model.acquire(issue, me, None, Some(*ttl), fresh, now),
            Self::Renew(of, ttl) => model.renew(by(of).by(), me, *ttl, false, now),
            Self::Release(of) => match model.release(by(of).by(), me, now) {
                Says::AlreadyReleased => Says::Released,
                other => other,
            },
            Self::Transfer(of, to) => model.transfer(by(of).by(), me, to, None, fresh, now),
            Self::Evict(of) => model.force_evict(by(of).by(), me, "it hangs", now),
        }
    }
}

enum ByOwned {
    Lease(String),
    Issue(String),
}

impl ByOwned {
    fn by(&self) -> By<'_> {
        match self {
            Self::Lease(id) => By::Lease(id),
            Self::Issue(id) => By::Issue(id),
        }
    }
}

/// Asserts that the store has the leases of the model.
pub fn same_leases(found: &BTreeMap<String, Lease>, model: &Model) {
    let plain = |lease: &Lease| {
        (
            lease.lease_id.to_string(),
            lease.agent_id.to_string(),
            lease.token,
            lease.deadline,
        )
    };
    let found: BTreeMap<_, _> = found
        .iter()
        .map(|(issue, lease)| (issue.clone(), plain(lease)))
        .collect();
    let expected: BTreeMap<_, _> = model
        .issues
        .iter()
        .filter_map(|(issue, slot)| {
            let holder = slot.holder.as_ref()?;
            let plain = (
                holder.lease.clone(),
                holder.agent.clone(),
                holder.token,
                holder.deadline,
            );
            Some((issue.clone(), plain))
        })
        .collect();
    assert_eq!(found, expected);
}

pub fn what_the_model_says(make: Make<'_>) {
    const ISSUES: [&str; 3] = ["WI-1", "WI-2", "WI-3"];
    const AGENTS: [&str; 3] = ["agent:a", "agent:b", "human:h"];
    let mut seen = BTreeSet::new();
    each_seed(25, |rng| {
        let backend = with_issues(make, &ISSUES);
        let clock = backend.clock();
        let mut model = Model::default();
        for issue in ISSUES {
            model.add_issue(issue, "task", false);
        }
        model.lines = sequence(&*backend.open());
        let mut handles: Vec<Handle> = (0..3).map(|_| backend.open()).collect();
        let (mut known, mut boots) = (Vec::new(), 0);
        let mut anchored = true;
        let mut sealed = segments(&*backend.open());
        for n in 0..40u128 {
            match rng.range(0, 10) {
                0..=2 => clock.advance(*rng.choose(&[1, 500, 5_000, 10_000, 30_000])),
                3 => clock.jump_wall(*rng.choose(&[86_400_000, -86_400_000])),
                4 if rng.bool(0.3) => {
                    boots += 1;
                    clock.reboot(&format!("boot-{boots}-of-model"), rng.range(0, 20_000));
                    anchored = false;
                }
                5 => handles[0] = backend.open(),
                _ => {}
            }
            let step = ModelStep::random(rng, &ISSUES, &AGENTS, &known);
            let who = actor(AGENTS[rng.index(3)], rng.range(1, 3) as u32);
            let now = clock.now().expect("a clock");
            if !std::mem::replace(&mut anchored, true) {
                model.reboot(&now);
            }
            let store = &*handles[rng.index(3)];
            let fresh = lease_id(n);
            let outcome = ask(store, &who, &step.command(), n);
            // A store may begin a new segment before it carries out a command.
            model.lines += segments(store) - std::mem::replace(&mut sealed, segments(store));
            let expected = step.judge(&mut model, &who, fresh.as_str(), &now);
            assert_eq!(says(&step.command(), &outcome), expected, "{step:?} by {who:?}");
            seen.insert(format!("{expected:?}"));
            if matches!(expected, Says::Granted | Says::Transferred) {
                known.push(fresh.to_string());
            }
            same_leases(&leases(store), &model);
            assert_eq!(sequence(store), model.lines, "{step:?}");
        }
    });
    if crate::rng::seed_in_env(crate::rng::SEED_VAR).is_none() {
        assert!(seen.len() >= 9, "too little happened: {seen:?}");
    }
}

/// Lines that a store wrote for itself to begin a segment.
fn segments(store: &dyn Store) -> u64 {
    let own = |event: &Event| matches!(event, Event::SegmentStarted { .. });
    events(store).iter().filter(|line| own(&line.event)).count() as u64
}
