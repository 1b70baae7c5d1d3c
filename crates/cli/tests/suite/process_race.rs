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

use crate::merging::{self, Tree};

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
#[cfg(target_os = "linux")]
fn e2_an_import_leaves_alone_what_was_made_while_it_ran() {
    let (world, _, _) = world_with_issues(1);
    let file = world.root().join("import.jsonl");
    let lines = "{\"id\":\"I-1\",\"title\":\"theirs\",\"labels\":[\"imp\"],\"comments\":[{\"author\":\"x\",\"text\":\"hi\"}],\
        \"created_at\":\"2020-01-01T00:00:00Z\"}\n{\"id\":\"I-2\",\"title\":\"two\",\"depends_on\":[\"I-1\"]}\n";
    fs::write(&file, lines).expect("write");
    let lock = control_lock(&world);
    lock.lock().expect("the lock");
    let waits = |many| wait_until("it waits", Duration::from_secs(60), || queued(&lock) == many);
    let imported = thread::scope(|scope| {
        let create = scope.spawn(|| {
            world.jit_as(
                "agent:z",
                ["issue", "create", "mine", "--id", "I-1", "--label", "own"],
            )
        });
        waits(1);
        let file = file.to_str().expect("UTF-8");
        let import = scope.spawn(|| {
            let words = ["issue", "import", "--from", "jsonl", "--json", file];
            world.jit_as("human:h", words)
        });
        // It has looked at what there is, and comes second.
        waits(2);
        lock.unlock().expect("unlocking");
        let _ = create.join().expect("no panic").ok();
        import.join().expect("no panic").ok().json()
    });
    assert_eq!(imported["imported"], serde_json::json!(["I-2"]));
    assert_eq!(imported["skipped"][0]["why"], "I-1 is here already", "{imported}");
    let issue = world.jit(["issue", "show", "I-1", "--json"]).ok().json();
    assert_eq!(issue["labels"], serde_json::json!(["own"]));
    assert_eq!(issue["created_by"], "agent:z");
    assert_eq!(issue["comments"], serde_json::json!([]));
    assert_eq!(issue["revision"], 1);
}

#[test]
#[cfg(target_os = "linux")]
fn c7_a_description_that_is_written_while_a_tree_is_looked_at_is_not_lost() {
    let world = merging::world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    let text = "first\n\nmiddle\n\nmore\n\nlast of b\n";
    for tree in [&a, &b] {
        tree.jit(["issue", "list"]);
    }
    a.edit("description.md", |text| text.replace("first\n", "first of a\n"));
    let lock = control_lock(&world);
    lock.lock().expect("the lock");
    let is_queued = |many| wait_until("queued", Duration::from_secs(60), || queued(&lock) == many);
    thread::scope(|scope| {
        let writer = scope.spawn(|| b.run(["issue", "update", "WI-001", "--description", text]));
        is_queued(1);
        // It has weighed its text against the one of before.
        let reader = scope.spawn(|| a.run(["issue", "search", "of a", "--json"]));
        is_queued(2);
        lock.unlock().expect("unlocking");
        let _ = writer.join().expect("no panic").ok();
        let _ = reader.join().expect("no panic").ok();
    });
    let both = "first of a\n\nmiddle\n\nmore\n\nlast of b\n";
    for tree in [&b, &a] {
        assert_eq!(tree.show("WI-001")["description"], both, "{}", tree.name);
    }
    a.jit(["issue", "update", "WI-001", "--priority", "high"]);
    assert_eq!(a.read("description.md"), both);
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

/// Starts `count` processes at once and returns what they left.
fn at_once(
    world: &World,
    dir: &std::path::Path,
    count: usize,
    words: &(dyn Fn(usize) -> Vec<String> + Sync),
) -> Vec<Ran> {
    let start = Barrier::new(count);
    thread::scope(|scope| {
        let racers: Vec<_> = (0..count)
            .map(|n| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    world.jit_as_in(&format!("agent:first-{n}"), dir, words(n))
                })
            })
            .collect();
        racers
            .into_iter()
            .map(|racer| racer.join().expect("no panic"))
            .collect()
    })
}

#[test]
fn a1_many_inits_at_once_begin_one_log() {
    let world = World::new(JIT);
    let ran = at_once(&world, &world.repo(), 16, &|_| vec!["init".into()]);
    // Not all of them get to register the merge driver: git's own lock on its configuration turns some away.
    for ran in &ran {
        assert!(
            ran.code == 0 || ran.stderr.contains("could not lock config file"),
            "{}",
            ran.stderr
        );
    }
    let kinds: Vec<String> = world
        .events()
        .iter()
        .map(|event| event["type"].to_string())
        .collect();
    assert_eq!(kinds, ["\"log.segment\"", "\"boot\""]);
    let _ = world.jit(["init"]).ok();
    world.validates();
}

#[test]
fn a1_many_inits_at_once_all_succeed() {
    for _ in 0..5 {
        let world = World::new(JIT);
        for ran in at_once(&world, &world.repo(), 16, &|_| vec!["init".into()]) {
            let _ = ran.ok();
        }
    }
}

/// A clone of a repository that uses jit, on a machine that has no control plane for it yet.
fn fresh_clone(world: &World) -> PathBuf {
    let _ = world.jit(["init"]).ok();
    world.git(&world.repo(), ["add", ".jit"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "jit"]);
    world.git(world.root(), ["clone", "-q", "repo", "clone"]);
    world.root().join("clone")
}

#[test]
fn a1_a_fresh_clone_is_ready_for_many_at_once() {
    let world = World::new(JIT);
    let clone = fresh_clone(&world);
    let words = |n: usize| {
        vec![
            "issue".into(),
            "create".into(),
            "Work".into(),
            "--id".into(),
            format!("WORK-{n}"),
        ]
    };
    for ran in at_once(&world, &clone, 16, &words) {
        let _ = ran.ok();
    }
    let events = world.jit_in(&clone, ["events", "--json"]).ok().json();
    let count = |kind: &str| {
        field(&events["events"], "type")
            .iter()
            .filter(|k| **k == kind)
            .count()
    };
    assert_eq!(
        (count("log.segment"), count("boot"), count("issue.created")),
        (1, 1, 16)
    );
    let _ = world.jit_in(&clone, ["validate"]).ok();
}

#[test]
fn a1_readers_make_a_fresh_clone_ready() {
    let world = World::new(JIT);
    let clone = fresh_clone(&world);
    let words = |_| vec!["claim".into(), "list".into(), "--json".into()];
    for ran in at_once(&world, &clone, 16, &words) {
        assert_eq!(listed(&ran.ok().json()).len(), 0);
    }
    let _ = world.jit_in(&clone, ["issue", "create", "Work"]).ok();
    let _ = world.jit_in(&clone, ["validate"]).ok();
}

/// A write that was tried, and what came of it.
struct Tried {
    agent: String,
    words: Vec<String>,
    request: String,
    /// `None` when the process was killed before it ended by itself.
    ran: Option<Ran>,
}

#[test]
fn heavy_d1_processes_killed_at_random_lose_and_double_nothing() {
    use std::io::Read as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Stdio;

    let (agents, writes) = if long() { (16, 400) } else { (8, 50) };
    // One issue for each agent, and two that all of them want.
    let (world, trees, ids) = world_with_issues(agents + 2);
    let tried: Mutex<Vec<Tried>> = Mutex::default();
    thread::scope(|scope| {
        for agent in 0..agents {
            let (world, tree, ids, tried) = (&world, &trees[agent % trees.len()], &ids, &tried);
            scope.spawn(move || {
                let mut rng = jit_testkit::Rng::new(agent as u64 + 1);
                for n in 0..writes {
                    let wanted = if rng.bool(0.8) {
                        agent
                    } else {
                        agents + rng.index(2)
                    };
                    let issue = &ids[wanted];
                    let verb = ["acquire", "renew", "release"][n % 3];
                    let request = format!("storm-{agent}-{n}");
                    let words: Vec<String> = ["claim", verb, issue, "--json", "--request-id", &request]
                        .map(str::to_owned)
                        .to_vec();
                    let name = format!("agent:storm-{agent}");
                    let mut command = world.jit_command(tree);
                    command.env("JIT_AGENT_ID", &name).args(&words);
                    command.stdout(Stdio::piped()).stderr(Stdio::piped());
                    let mut child = command.spawn().expect("jit starts");
                    if rng.bool(0.5) {
                        thread::sleep(Duration::from_micros(rng.range(0, 20_000)));
                        // Perhaps it has ended already; then it was too late.
                        let _ = child.kill();
                    }
                    let (mut stdout, mut stderr) = (String::new(), String::new());
                    let pipes = (child.stdout.take(), child.stderr.take());
                    pipes
                        .0
                        .expect("a pipe")
                        .read_to_string(&mut stdout)
                        .expect("text");
                    pipes
                        .1
                        .expect("a pipe")
                        .read_to_string(&mut stderr)
                        .expect("text");
                    let status = child.wait().expect("an end");
                    let ran = status.code().map(|code| Ran { code, stdout, stderr });
                    assert!(ran.is_some() || status.signal() == Some(9));
                    let agent = name;
                    let mut tried = tried.lock().expect("no panic");
                    tried.push(Tried {
                        agent,
                        words,
                        request,
                        ran,
                    });
                }
            });
        }
    });
    let tried = tried.into_inner().expect("no panic");
    let effects = |world: &World| {
        let mut effects: BTreeMap<String, usize> = BTreeMap::new();
        for event in world.events().iter().filter(|event| event["tx"][0] == 1) {
            if let Some(id) = event["request"]["id"].as_str() {
                *effects.entry(id.to_owned()).or_default() += 1;
            }
        }
        effects
    };
    let first = effects(&world);
    let mut killed = 0;
    for one in &tried {
        let done = first.get(&one.request).copied().unwrap_or(0);
        match &one.ran {
            None => {
                killed += 1;
                assert!(done <= 1, "{} was doubled", one.request);
            }
            Some(ran) if ran.code == 0 => {
                let nothing_to_do = ran.json()["existing"] == true;
                assert_eq!(
                    done,
                    usize::from(!nothing_to_do),
                    "{}: {}",
                    one.request,
                    ran.stdout
                );
            }
            Some(ran) => {
                assert!(
                    matches!(ran.code, 3..=5),
                    "{}: {} {}",
                    ran.code,
                    ran.stdout,
                    ran.stderr
                );
                assert_eq!(done, 0, "{} was refused and done: {}", one.request, ran.stdout);
            }
        }
    }
    // Whoever was killed asks again: what was done before is answered, and not done again.
    let mut again = 0;
    for one in tried.iter().filter(|one| one.ran.is_none()) {
        let worker: usize = one
            .agent
            .rsplit('-')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number");
        let ran = world.jit_as_in(&one.agent, &trees[worker % trees.len()], &one.words);
        assert!(
            matches!(ran.code, 0 | 3 | 4 | 5),
            "{}: {} {}",
            ran.code,
            ran.stdout,
            ran.stderr
        );
        if first.contains_key(&one.request) {
            assert_eq!(ran.code, 0, "{} was done: {}", one.request, ran.stdout);
            again += 1;
        }
    }
    for (request, done) in effects(&world) {
        assert!(done <= 1, "{request} was done {done} times");
    }
    let _ = world
        .jit(["issue", "create", "a write that mends what is beside the log"])
        .ok();
    everything_agrees(&world);
    say(&format!(
        "{} processes, {killed} killed, {again} of those had done their work",
        tried.len()
    ));
}
