//! Short functions for the commands that tests send to a store, and for the state they check afterwards.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use jit_core::decide::command::{Command, CommandReply, NewIssue, Target};
use jit_core::log::event::Stamped;
use jit_core::log::state;
use jit_core::model::actor::Actor;
use jit_core::model::ids::{LeaseId, RequestId};
use jit_core::model::issue::{IssueState, Priority};
use jit_core::model::lease::Lease;
use jit_core::model::policy::Policy;
use jit_store::disk::Disk;
use jit_store::file::FileStore;
use jit_store::{Ask, Clock, Done, Outcome, Store};

/// An actor such as `agent:a` in the worktree with this number; zero is no worktree.
pub fn actor(agent: &str, worktree: u32) -> Actor {
    Actor {
        agent_id: agent.parse().expect("an agent id"),
        worktree_id: (worktree > 0).then(|| format!("wt:{worktree:08x}").parse().expect("a worktree id")),
    }
}

pub fn create(id: &str) -> Command {
    Command::CreateIssue(NewIssue {
        ids: vec![id.parse().expect("an issue id")],
        chosen: true,
        title: format!("about {id}"),
        kind: "task".into(),
        state: IssueState::Ready,
        priority: Priority::Normal,
        parent: None,
        labels: Vec::new(),
        depends_on: Vec::new(),
        gates: Vec::new(),
        actor: jit_core::model::issue::Performer::Any,
        text: None,
    })
}

pub fn acquire(issue: &str, ttl_secs: u64) -> Command {
    Command::Acquire {
        issue: issue.parse().expect("an issue id"),
        ttl_secs: Some(ttl_secs),
        note: None,
        on_behalf_of: None,
    }
}

fn target(text: &str) -> Target {
    Target::parse(text).expect("a lease or an issue")
}

pub fn renew(of: &str, ttl_secs: Option<u64>) -> Command {
    Command::Renew {
        target: target(of),
        ttl_secs,
        if_half_gone: false,
    }
}

pub fn release(of: &str) -> Command {
    Command::Release { target: target(of) }
}

pub fn transfer(of: &str, to: &str) -> Command {
    Command::Transfer {
        target: target(of),
        to: to.parse().expect("an agent id"),
        worktree: None,
        branch: None,
    }
}

pub fn evict(of: &str) -> Command {
    Command::ForceEvict {
        target: target(of),
        reason: "it hangs".into(),
    }
}

/// A lease id for each number.
pub fn lease_id(n: u128) -> LeaseId {
    LeaseId::generate(1_767_441_600_000, n)
}

/// Carries out a command; a lease it grants has the id [`lease_id`]`(n)`.
pub fn ask(store: &dyn Store, who: &Actor, command: &Command, n: u128) -> Outcome<Done> {
    let request = RequestId::make_up(1_767_441_600_000, n);
    give(store, who, command, n, request, false, None)
}

/// Like [`ask`], but waits at most this long for other writers.
pub fn ask_within(
    store: &dyn Store,
    who: &Actor,
    command: &Command,
    n: u128,
    wait: Duration,
) -> Outcome<Done> {
    let request = RequestId::make_up(1_767_441_600_000, n);
    give(store, who, command, n, request, false, Some(wait))
}

/// Like [`ask`], with a request id that the caller chose.
pub fn ask_as(store: &dyn Store, who: &Actor, command: &Command, n: u128, request: &str) -> Outcome<Done> {
    let request = request.parse().expect("a request id");
    give(store, who, command, n, request, true, None)
}

fn give(
    store: &dyn Store,
    who: &Actor,
    command: &Command,
    n: u128,
    request: RequestId,
    repeatable: bool,
    wait: Option<Duration>,
) -> Outcome<Done> {
    let policy = Policy::default();
    store.transact(&mut Ask {
        command,
        actor: who,
        branch: None,
        fresh_lease: lease_id(n),
        policy: &policy,
        request,
        repeatable,
        wait,
        prepare: &mut |_| Ok(()),
        publish: &mut |_, _| Vec::new(),
    })
}

/// The lease in an answer.
pub fn lease_in(done: &Done) -> &Lease {
    match &done.reply {
        CommandReply::Lease { lease, .. } => lease,
        CommandReply::Released(leases) | CommandReply::Evicted(leases) => &leases[0],
        other => panic!("not a lease: {other:?}"),
    }
}

/// Every lease, expired ones too, by issue.
pub fn leases(store: &dyn Store) -> BTreeMap<String, Lease> {
    let view = store.view().expect("the state can be read");
    state::leases(&*view.table)
        .expect("leases can be read")
        .into_iter()
        .map(|lease| (lease.resource.issue().expect("an issue").to_string(), lease))
        .collect()
}

pub fn sequence(store: &dyn Store) -> u64 {
    store.view().expect("the state can be read").sequence
}

pub fn events(store: &dyn Store) -> Vec<Stamped> {
    let mut all = Vec::new();
    store
        .events(0, &mut |line| {
            all.push(line);
            ControlFlow::Continue(())
        })
        .expect("the log can be read");
    all
}

/// A store in files, as a new process opens it.
pub fn open(disk: &(impl Disk + Clone + 'static), clock: &(impl Clock + Clone + 'static)) -> FileStore {
    FileStore::new(
        Arc::new(disk.clone()),
        Arc::new(clock.clone()),
        Duration::from_secs(10),
    )
}
