//! Leases and the sessions of their holder (B2), and what an agent that claims to be a person may not do (L3).

use std::sync::Arc;

use jit_core::decide::command::{Command, CommandReply};
use jit_core::model::ids::{RequestId, SessionId};
use jit_core::model::lease::Lease;
use jit_core::model::policy::Policy;
use jit_core::model::refusal::Code;
use jit_store::memory::MemoryStore;
use jit_store::{Ask, Outcome, Store};
use jit_testkit::ManualClock;
use jit_testkit::store_commands::{acquire, actor, ask, create, evict, lease_id, release};

fn store() -> MemoryStore {
    let store = MemoryStore::new(Arc::new(ManualClock::new()));
    let who = actor("agent:a", 1);
    assert!(store.create(&who).expect("create"));
    ask(&store, &who, &create("WI-1"), 1).expect("an issue");
    store
}

/// Asks as `agent` in worktree 1, by this policy. Returns the lease in the answer, and whether it was there before.
fn by(store: &dyn Store, agent: &str, command: &Command, n: u128, policy: &Policy) -> Outcome<(Lease, bool)> {
    let done = store.transact(&mut Ask {
        command,
        actor: &actor(agent, 1),
        branch: None,
        fresh_lease: lease_id(n),
        policy,
        request: RequestId::make_up(1_767_441_600_000, n),
        repeatable: false,
        wait: None,
        prepare: &mut |_| Ok(()),
        publish: &mut |_, _| Vec::new(),
    })?;
    match done.reply {
        CommandReply::Lease { lease, existing, .. } => Ok((lease, existing)),
        CommandReply::Evicted(leases) | CommandReply::Released(leases) => Ok((leases[0].clone(), true)),
        other => panic!("no lease: {other:?}"),
    }
}

#[test]
fn b2_a_lease_belongs_to_the_session_that_acquired_it_while_that_lives() {
    let store = store();
    let session = |n: u128| SessionId::generate(n);
    let (one, two) = (session(1), session(2));
    let policy = |own: Option<&SessionId>, live: &[&SessionId]| Policy {
        session: own.cloned(),
        live_sessions: live.iter().map(|id| (*id).clone()).collect(),
        ..Policy::default()
    };
    let take = |n: u128, policy: &Policy| by(&store, "agent:a", &acquire("WI-1", 600), n, policy);
    let (first, existing) = take(2, &policy(Some(&one), &[&one])).expect("free");
    assert_eq!((existing, &first.session_id), (false, &Some(one.clone())));
    let refusal = take(3, &policy(Some(&two), &[&one, &two])).expect_err("the other session holds it");
    assert_eq!(refusal.code, Code::Held);
    assert!(refusal.message.contains(one.as_str()), "{}", refusal.message);
    // Who has no session, and the session itself, hold it as before.
    for (n, own) in [(4, None), (5, Some(&one))] {
        let (again, existing) = take(n, &policy(own, &[&one, &two])).expect("held already");
        assert_eq!((existing, &again), (true, &first));
    }
    // A later session takes over from one that is gone, and then holds it against others.
    let (taken, existing) = take(6, &policy(Some(&two), &[&two])).expect("taken over");
    let expected = Lease {
        session_id: Some(two.clone()),
        ..first.clone()
    };
    assert_eq!((existing, &taken), (true, &expected));
    assert_eq!(
        take(7, &policy(Some(&one), &[&one, &two]))
            .expect_err("held")
            .code,
        Code::Held
    );
    by(&store, "agent:a", &release("WI-1"), 8, &Policy::default()).expect("released");
    assert_eq!(take(9, &Policy::default()).expect("free").0.session_id, None);
}

#[test]
fn l3_an_agent_that_asks_as_a_person_evicts_nobody() {
    let store = store();
    let plain = Policy::default();
    by(&store, "human:ann", &acquire("WI-1", 600), 2, &plain).expect("free");
    let asks = Policy {
        agent_asks: true,
        ..Policy::default()
    };
    let refusal = by(&store, "human:bob", &evict("WI-1"), 3, &asks).expect_err("an agent");
    assert_eq!(refusal.code, Code::NotAllowed);
    assert!(
        refusal.message.contains("an agent asks as human:bob"),
        "{}",
        refusal.message
    );
    by(&store, "human:bob", &evict("WI-1"), 4, &plain).expect("a person");
}
