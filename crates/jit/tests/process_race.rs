//! Races of real processes: who wins, what the others are told, and what readers see meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use jit_testkit::world::tools::{field, long, say, wait_until};
use jit_testkit::world::{Ran, World};
use serde_json::Value;

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// A world with four worktrees and issues of which the first eight characters are unambiguous.
fn world_with_issues(issues: usize) -> (World, Vec<PathBuf>, Vec<String>) {
    let world = World::with_jit(JIT);
    let mut trees = vec![world.repo()];
    for name in ["second", "third", "fourth"] {
        let tree = world.worktree(name);
        // A worktree's identity is made at its first use.
        let _ = world
            .jit_in(&tree, ["worktree", "init", "--agent-id", "human:setup"])
            .ok();
        trees.push(tree);
    }
    let ids: Vec<String> = (0..issues).map(|n| format!("Race-{n:03}-To-Be-Won")).collect();
    for id in &ids {
        let _ = world
            .jit_as("human:setup", ["issue", "create", "a race", "--id", id])
            .ok();
    }
    (world, trees, ids)
}

/// The ways to name an issue: in full, by its beginning, and either in another case.
fn spelled(id: &str, way: usize) -> String {
    match way % 4 {
        0 => id.to_owned(),
        1 => id[..8].to_owned(),
        2 => id.to_uppercase(),
        _ => id[..10].to_lowercase(),
    }
}

fn held_already(ran: &Ran) -> bool {
    ran.code == 4 && ran.json()["error"]["code"] == "held"
}

/// The leases that are active by the records of `claims.jsonl`: issue to lease id and token.
fn replayed(world: &World) -> BTreeMap<String, (String, u64)> {
    let text = fs::read_to_string(world.control().join("claims.jsonl")).expect("claims.jsonl");
    let mut active: BTreeMap<String, (String, u64)> = BTreeMap::new();
    let mut last = 0;
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).expect("a record");
        let sequence = record["sequence"].as_u64().expect("a sequence");
        assert!(sequence > last, "records grow: {record}");
        last = sequence;
        let issue = record["issue_id"].as_str().expect("an issue").to_owned();
        let lease = record["lease_id"].as_str().expect("a lease").to_owned();
        match record["op"].as_str() {
            Some("acquire" | "renew" | "transfer") => {
                active.insert(issue, (lease, record["token"].as_u64().expect("a token")));
            }
            _ => {
                assert_eq!(active.remove(&issue).map(|(id, _)| id), Some(lease), "{record}");
            }
        }
    }
    active
}

fn listed(list: &Value) -> BTreeMap<String, (String, u64)> {
    let leases = list["active"].as_array().expect("a list");
    let entries = leases.iter().map(|lease| {
        let text = |name: &str| lease[name].as_str().expect("a text").to_owned();
        let token = lease["token"].as_u64().expect("a token");
        (text("issue_id"), (text("lease_id"), token))
    });
    let by_issue: BTreeMap<_, _> = entries.collect();
    assert_eq!(by_issue.len(), leases.len(), "no issue twice: {list}");
    by_issue
}

/// Everything that tells of the leases tells the same.
fn everything_agrees(world: &World) -> BTreeMap<String, (String, u64)> {
    world.validates();
    let list = listed(&world.jit(["claim", "list", "--json"]).ok().json());
    assert_eq!(list, replayed(world), "claims.jsonl");
    let index = fs::read(world.control().join("claims.index.json")).expect("an index");
    let index: Value = serde_json::from_slice(&index).expect("JSON");
    assert_eq!(list, listed(&index), "claims.index.json");
    let mut tokens = 0;
    for (n, event) in world.events().iter().enumerate() {
        assert_eq!(event["sequence"], n as u64 + 1, "gapless");
        if event["type"] == "claim.acquired" {
            let token = event["payload"]["token"].as_u64().expect("a token");
            assert!(token > tokens, "tokens grow: {event}");
            tokens = token;
        }
    }
    list
}

/// Reads again and again until `done`; every answer must be whole and none older than the one before.
fn hammer(world: &World, tree: &std::path::Path, done: &AtomicBool) -> usize {
    let (mut reads, mut newest) = (0, 0);
    while !done.load(Ordering::Relaxed) {
        let list = world.jit_in(tree, ["claim", "list", "--json"]).ok().json();
        listed(&list);
        let sequence = list["sequence"].as_u64().expect("a sequence");
        assert!(sequence >= newest, "{sequence} after {newest}");
        let events = world.jit_in(tree, ["events", "--json"]).ok().json();
        let events = events["events"].as_array().expect("events");
        for (n, event) in events.iter().enumerate() {
            assert_eq!(event["sequence"], n as u64 + 1, "gapless for readers");
        }
        assert!(events.len() as u64 >= sequence, "a later read sees no less");
        newest = events.len() as u64;
        reads += 2;
    }
    reads
}

#[test]
fn heavy_b2_one_winner_of_many_processes_and_readers_never_disturbed() {
    let (workers, issues, rounds) = if long() { (64, 200, 3) } else { (32, 20, 2) };
    let (world, trees, ids) = world_with_issues(issues);
    let began = Instant::now();
    let mut last_tokens: BTreeMap<String, u64> = BTreeMap::new();
    let (attempts, reads) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for round in 0..rounds {
        let wins: Mutex<BTreeMap<String, Vec<(usize, Value)>>> = Mutex::default();
        let start = Barrier::new(workers);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| hammer(&world, &trees[1], &done));
            let racers: Vec<_> = (0..workers)
                .map(|worker| {
                    let (world, trees, ids) = (&world, &trees, &ids);
                    let (wins, start, attempts) = (&wins, &start, &attempts);
                    scope.spawn(move || {
                        start.wait();
                        for id in ids {
                            let name = spelled(id, worker / 4 + round);
                            let tree = &trees[worker % trees.len()];
                            let agent = format!("agent:racer-{worker}");
                            let ran = world.jit_as_in(
                                &agent,
                                tree,
                                ["claim", "acquire", &name, "--ttl", "1h", "--json"],
                            );
                            attempts.fetch_add(1, Ordering::Relaxed);
                            if ran.code == 0 {
                                let lease = ran.json();
                                assert_eq!(lease["issue_id"], **id);
                                assert_eq!(lease["agent_id"], agent);
                                let mut wins = wins.lock().expect("no panic");
                                wins.entry(id.clone()).or_default().push((worker, lease));
                            } else {
                                assert!(held_already(&ran), "{}: {} {}", ran.code, ran.stdout, ran.stderr);
                            }
                        }
                    })
                })
                .collect();
            // A reader that fails must not be waited for, so racers are joined first and the flag is set in any case.
            let outcomes: Vec<_> = racers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            done.store(true, Ordering::Relaxed);
            reads.fetch_add(reader.join().expect("readers are fine"), Ordering::Relaxed);
            assert!(outcomes.iter().all(Result::is_ok), "racers are fine");
        });
        let wins = wins.into_inner().expect("no panic");
        assert_eq!(wins.len(), issues, "every issue was won");
        let list = everything_agrees(&world);
        assert_eq!(list.len(), issues);
        for (id, winners) in &wins {
            assert_eq!(winners.len(), 1, "exactly one winner: {winners:?}");
            let lease = &winners[0].1;
            assert_eq!(list[id].0, lease["lease_id"].as_str().expect("an id"));
            let token = lease["token"].as_u64().expect("a token");
            assert!(
                last_tokens
                    .insert(id.clone(), token)
                    .is_none_or(|old| old < token)
            );
        }
        // The next round begins with everything free again.
        let rest: Mutex<Vec<_>> = Mutex::new(wins.into_iter().collect());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let Some((id, winners)) = rest.lock().expect("no panic").pop() else {
                            return;
                        };
                        let worker = winners[0].0;
                        let agent = format!("agent:racer-{worker}");
                        let _ = world
                            .jit_as_in(&agent, &trees[worker % trees.len()], ["claim", "release", &id])
                            .ok();
                    }
                });
            }
        });
        assert_eq!(everything_agrees(&world).len(), 0);
    }
    say(&format!(
        "{} acquiring processes, {} issues, {rounds} rounds, {} concurrent reads, {:?}",
        attempts.into_inner(),
        issues,
        reads.into_inner(),
        began.elapsed()
    ));
}

/// How many wait in the kernel's queue for the lock on this file.
fn queued(lock: &File) -> usize {
    let inode = format!(":{} ", lock.metadata().expect("a lock").ino());
    let locks = fs::read_to_string("/proc/locks").expect("/proc/locks");
    locks
        .lines()
        .filter(|line| line.contains("->") && line.contains(&inode))
        .count()
}

fn control_lock(world: &World) -> File {
    let path = world.control().join("locks/control.lock");
    File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("the lock file")
}

#[test]
#[cfg(target_os = "linux")]
fn b2_of_those_queued_at_the_lock_exactly_one_wins() {
    let (world, trees, ids) = world_with_issues(1);
    let workers = if long() { 64 } else { 16 };
    let lock = control_lock(&world);
    lock.lock().expect("the lock");
    let ran: Vec<Ran> = thread::scope(|scope| {
        let racers: Vec<_> = (0..workers)
            .map(|worker| {
                let (world, trees, id) = (&world, &trees, &ids[0]);
                scope.spawn(move || {
                    let tree = &trees[worker % trees.len()];
                    let name = spelled(id, worker / 4);
                    let words = ["claim", "acquire", &name, "--json", "--lock-timeout", "5m"];
                    world.jit_as_in(&format!("agent:queued-{worker}"), tree, words)
                })
            })
            .collect();
        wait_until("all are queued", Duration::from_secs(60), || {
            queued(&lock) == workers
        });
        lock.unlock().expect("unlocking");
        racers
            .into_iter()
            .map(|racer| racer.join().expect("no panic"))
            .collect()
    });
    assert_eq!(ran.iter().filter(|ran| ran.code == 0).count(), 1);
    assert_eq!(ran.iter().filter(|ran| held_already(ran)).count(), workers - 1);
    let holders: BTreeSet<String> = ran
        .iter()
        .filter(|ran| ran.code == 4)
        .map(|ran| ran.json()["error"]["details"]["lease"]["lease_id"].to_string())
        .collect();
    assert_eq!(holders.len(), 1, "all were told of the same lease");
    assert_eq!(everything_agrees(&world).len(), 1);
}

#[test]
fn d2_readers_never_wait_for_writers() {
    let (world, _, ids) = world_with_issues(2);
    let _ = world.jit_as("agent:one", ["claim", "acquire", &ids[0]]).ok();
    let before = world.events();
    let lock = control_lock(&world);
    lock.lock().expect("the lock");
    let reads: &[&[&str]] = &[
        &["claim", "list", "--json"],
        &["claim", "status", "--json"],
        &["claim", "history", "--json"],
        &["issue", "list", "--json"],
        &["issue", "show", "race-000", "--json"],
        &["events", "--json"],
        &["whoami", "--json"],
        &["worktree", "list", "--json"],
        &["worktree", "info", "--json"],
    ];
    for words in reads {
        let _ = world.jit_as("agent:two", *words).ok().json();
    }
    for verb in ["acquire", "renew", "release"] {
        let words = ["claim", verb, &ids[0], "--json", "--lock-timeout", "1s"];
        let refused = world.jit_as("agent:one", words).exits(4).json();
        assert_eq!(refused["error"]["code"], "busy", "{refused}");
        assert_eq!(refused["error"]["retryable"], true, "{refused}");
    }
    lock.unlock().expect("unlocking");
    assert_eq!(world.events(), before, "refusals write nothing");
    let list = world.jit(["claim", "list", "--json"]).ok().json();
    assert_eq!(field(&list["active"], "agent_id"), ["agent:one"]);
    let _ = world.jit_as("agent:two", ["claim", "acquire", &ids[1]]).ok();
    everything_agrees(&world);
}
