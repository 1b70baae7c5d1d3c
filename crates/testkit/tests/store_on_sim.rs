//! The store on the simulated disk, as a check of the kit: a yes costs one sync and outlives every power loss, and
//! a command that dies at any of its calls leaves a store that works.

use std::sync::Arc;
use std::time::Duration;

use jit_core::decide::command::{Command, CommandReply, NewIssue, Target};
use jit_core::log::state;
use jit_core::model::actor::Actor;
use jit_core::model::ids::{LeaseId, RequestId};
use jit_core::model::issue::{IssueState, Priority};
use jit_core::model::policy::Policy;
use jit_core::model::refusal::Code;
use jit_store::file::FileStore;
use jit_store::{Ask, Done, Outcome, Store};
use jit_testkit::rng::each_seed;
use jit_testkit::sim_disk::Options;
use jit_testkit::{ManualClock, Rng, SimDisk};

fn store(disk: &SimDisk, clock: &ManualClock) -> FileStore {
    let wait = Duration::from_secs(5);
    FileStore::new(Arc::new(disk.clone()), Arc::new(clock.clone()), wait)
}

fn actor(name: &str) -> Actor {
    Actor {
        agent_id: name.parse().expect("an agent id"),
        worktree_id: Some("wt:00000001".parse().expect("a worktree id")),
    }
}

fn ask(store: &FileStore, who: &str, command: &Command, rng: &mut Rng) -> Outcome<Done> {
    store.transact(&mut Ask {
        command,
        actor: &actor(who),
        branch: None,
        fresh_lease: LeaseId::generate(1_767_441_600_000, rng.next_u128()),
        policy: &Policy::default(),
        request: RequestId::make_up(1_767_441_600_000, rng.next_u128()),
        repeatable: false,
        wait: None,
        prepare: &mut |_| Ok(()),
        publish: &mut |_, _| Vec::new(),
    })
}

fn acquire() -> Command {
    Command::Acquire {
        issue: "WI-1".parse().expect("an issue"),
        ttl_secs: Some(600),
        note: None,
        on_behalf_of: None,
    }
}

fn release() -> Command {
    Command::Release {
        target: Target::parse("WI-1").expect("an issue"),
    }
}

/// A store with one issue.
fn prepared(options: Options, clock: &ManualClock, rng: &mut Rng) -> SimDisk {
    let disk = SimDisk::with(options);
    let store = store(&disk, clock);
    store.create(&actor("human:x")).expect("created");
    let new = NewIssue {
        ids: vec!["WI-1".parse().expect("an issue id")],
        chosen: true,
        title: "one".into(),
        kind: "task".into(),
        state: IssueState::Ready,
        priority: Priority::Normal,
        parent: None,
        labels: Vec::new(),
        depends_on: Vec::new(),
        gates: Vec::new(),
        actor: jit_core::model::issue::Performer::Any,
        text: None,
    };
    ask(&store, "human:x", &Command::CreateIssue(new), rng).expect("created");
    disk
}

fn holder(disk: &SimDisk, clock: &ManualClock) -> Option<String> {
    let view = store(disk, clock).view().expect("readable");
    let lease = state::lease_on(&*view.table, "issue:wi-1").expect("readable");
    lease.map(|lease| lease.agent_id.to_string())
}

#[test]
fn a_yes_costs_one_sync() {
    let (clock, mut rng) = (ManualClock::new(), Rng::new(1));
    let disk = prepared(Options::default(), &clock, &mut rng);
    for command in [acquire(), release()] {
        let process = disk.another_process();
        ask(&store(&process, &clock), "agent:a", &command, &mut rng).expect("granted");
        assert_eq!(process.calls().flushes(), 1, "{:#?}", process.calls());
    }
}

#[test]
fn a_yes_outlives_power_loss() {
    each_seed(60, |rng| {
        let clock = ManualClock::new();
        let options = *rng.choose(&[Options::default(), Options::harsh()]);
        let mut disk = prepared(options, &clock, rng);
        for round in 0..6 {
            let held = round % 2 == 1;
            let command = if held { release() } else { acquire() };
            ask(&store(&disk, &clock), "agent:a", &command, rng).expect("a yes");
            disk = disk.crash(rng);
            clock.reboot(&format!("boot-{rng:?}"), 1_000);
            let expected = (!held).then(|| "agent:a".to_owned());
            assert_eq!(
                holder(&disk, &clock),
                expected,
                "after round {round}, {options:?}"
            );
        }
    });
}

#[test]
fn death_at_any_call_leaves_a_store_that_works() {
    let (clock, mut rng) = (ManualClock::new(), Rng::new(1));
    let disk = prepared(Options::default(), &clock, &mut rng);
    for n in 1.. {
        let disk = disk.copy();
        let process = disk.another_process();
        process.stop_mid_write(n, rng.index(400));
        let first = ask(&store(&process, &clock), "agent:a", &acquire(), &mut rng);
        let calls = process.calls();
        if let Ok(done) = &first {
            assert!(matches!(done.reply, CommandReply::Lease { .. }));
            assert_eq!(holder(&disk, &clock).as_deref(), Some("agent:a"), "call {n}");
        }
        let next = disk.another_process();
        match ask(&store(&next, &clock), "agent:b", &acquire(), &mut rng) {
            Ok(_) => assert!(first.is_err(), "granted twice, call {n}: {calls:#?}"),
            Err(refusal) => assert_eq!(refusal.code, Code::Held, "call {n}: {refusal:?} {calls:#?}"),
        }
        if !process.is_dead() {
            assert!(n > 3, "it makes calls at all");
            break;
        }
    }
}
