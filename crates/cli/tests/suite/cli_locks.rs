//! File locks from the command line (F2 to F6).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use jit_testkit::world::tools::{long, wait_until};
use jit_testkit::world::{Ran, World};
use serde_json::Value;

const JIT: &str = env!("CARGO_BIN_EXE_jit");
const PATIENCE: Duration = Duration::from_secs(60);

fn lock(world: &World, agent: &str, args: &[&str]) -> Ran {
    lock_in(world, agent, &world.repo(), args)
}

fn lock_in(world: &World, agent: &str, dir: &Path, args: &[&str]) -> Ran {
    world.jit_as_in(agent, dir, ["lock"].iter().chain(args).chain(&["--json"]))
}

fn kinds(world: &World) -> Vec<String> {
    let name = |event: &Value| event["type"].as_str().unwrap_or_default().to_owned();
    world.events().iter().map(name).collect()
}

fn queued(world: &World) -> usize {
    kinds(world).iter().filter(|kind| *kind == "lock.queued").count()
}

fn waiter(world: &World, agent: &str, paths: &[&str]) -> Child {
    let mut command = world.jit_command(&world.repo());
    command
        .env("JIT_AGENT_ID", agent)
        .args(["lock", "acquire", "--json", "--wait", "60s"])
        .args(paths)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("jit starts")
}

fn ends(child: Child) -> (Option<i32>, Value) {
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    (output.status.code(), json)
}

#[test]
fn f4_the_table_of_conflicts_row_by_row() {
    let world = World::with_jit(JIT);
    let other = world.worktree("other");
    // Same worktree, same file, both in the worktree.
    let _ = lock(&world, "agent:a", &["acquire", "src/auth.ts"]).ok();
    let refused = lock(&world, "agent:b", &["acquire", "src/auth.ts"])
        .exits(4)
        .json();
    assert_eq!(refused["error"]["code"], "held");
    assert_eq!(refused["error"]["details"]["locks"][0]["agent_id"], "agent:a");
    assert_eq!(
        refused["error"]["details"]["locks"][0]["lock_key"],
        ".:src/auth.ts"
    );
    // Other worktree, same file.
    let there = lock_in(&world, "agent:b", &other, &["acquire", "src/auth.ts"])
        .ok()
        .json();
    assert_eq!(there["locks"][0]["lock_key"], "../other:src/auth.ts");
    assert_eq!(there["locks"][0]["worktree_path"], "../other");
    // Global on both sides, from two worktrees.
    let global = ["acquire", "registry.json", "--scope", "global"];
    let held = lock(&world, "agent:a", &global).ok().json();
    assert_eq!(held["locks"][0]["lock_key"], "registry.json");
    assert_eq!(held["locks"][0]["worktree_path"], Value::Null);
    assert_eq!(held["locks"][0]["branch"], Value::Null);
    let _ = lock_in(&world, "agent:b", &other, &global).exits(4);
    // One in a worktree, one global: always one after the other.
    let _ = lock_in(&world, "agent:b", &other, &["acquire", "registry.json"]).exits(4);
    let _ = lock(
        &world,
        "agent:c",
        &["acquire", "src/auth.ts", "--scope", "global"],
    )
    .exits(4);
    world.validates();
}

#[test]
fn f4_shared_locks_go_together_and_exclusive_ones_do_not() {
    let world = World::with_jit(JIT);
    let _ = lock(&world, "agent:a", &["acquire", "doc.md", "--shared"]).ok();
    let _ = lock(&world, "agent:b", &["acquire", "doc.md", "--shared"]).ok();
    let _ = lock(&world, "agent:c", &["acquire", "doc.md"]).exits(4);
    // Nobody becomes the only one while others share.
    let _ = lock(&world, "agent:a", &["acquire", "doc.md"]).exits(4);
    let registry: Value =
        serde_json::from_slice(&std::fs::read(world.control().join("agent_lock.json")).expect("a registry"))
            .expect("JSON");
    let keys: Vec<&String> = registry["locks"].as_object().expect("locks").keys().collect();
    assert_eq!(keys, [".:doc.md#agent:a", ".:doc.md#agent:b"]);
    assert_eq!(registry["metadata"]["active_locks"], 2);
    let _ = lock(&world, "agent:b", &["release", "doc.md"]).ok();
    let sole = lock(&world, "agent:a", &["acquire", "doc.md"]).ok().json();
    assert_eq!(sole["locks"][0]["lock_type"], "exclusive");
    let _ = lock(&world, "agent:b", &["acquire", "doc.md", "--shared"]).exits(4);
}

#[test]
fn f4_folders_and_patterns_that_overlap_collide() {
    let world = World::with_jit(JIT);
    let held = ["src/", "docs/**/*.md", "lib/[ab].rs"];
    let mut args = vec!["acquire"];
    args.extend(held);
    let _ = lock(&world, "agent:a", &args).ok();
    for (path, free) in [
        ("src/deep/down/x.rs", false),
        ("src/*.rs", false),
        ("s*/x", false),
        ("srcs/x", true),
        ("docs/a/b.md", false),
        ("docs/a/b.txt", true),
        ("docs/", false),
        ("lib/a.rs", false),
        ("lib/c.rs", true),
        ("**/c.rs", false),
        ("other/", true),
        (".", false),
    ] {
        let answer = lock(&world, "agent:b", &["check", path]).ok().json();
        assert_eq!(answer["paths"][0]["available"], free, "{path}: {answer}");
        let tried = lock(&world, "agent:b", &["acquire", path]);
        assert_eq!(tried.code == 0, free, "{path}: {}", tried.stdout);
        if free {
            let _ = lock(&world, "agent:b", &["release", path]).ok();
        }
    }
}

#[test]
fn f2_all_or_nothing() {
    let world = World::with_jit(JIT);
    let _ = lock(&world, "agent:a", &["acquire", "b"]).ok();
    let before = world.events().len();
    let _ = lock(&world, "agent:b", &["acquire", "a", "b", "c"]).exits(4);
    assert_eq!(world.events().len(), before, "a refusal writes nothing");
    let list = lock(&world, "agent:b", &["list"]).ok().json();
    assert_eq!(list["locks"].as_array().map(Vec::len), Some(1));
}

#[test]
fn f2_one_file_has_one_name() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    std::fs::create_dir_all(repo.join("real/sub")).expect("folders");
    std::os::unix::fs::symlink("real", repo.join("link")).expect("a link");
    std::fs::write(repo.join("real/sub/[id].ts"), "").expect("a file");
    let _ = lock_in(&world, "agent:a", &repo.join("real/sub"), &["acquire", "[id].ts"]).ok();
    for path in [
        "real/sub/[id].ts",
        "./real/../real/sub/[id].ts",
        "link/sub/[id].ts",
        repo.join("link/sub/[id].ts").to_str().expect("text"),
    ] {
        let refused = lock(&world, "agent:b", &["acquire", path]).exits(4).json();
        let name = &refused["error"]["details"]["locks"][0]["file_path"];
        assert_eq!(name, "real/sub/[id].ts", "{path}");
    }
    // What is outside of every worktree is global, whatever is asked for.
    let outside = world.root().join("shared.txt");
    let name = outside.to_str().expect("text");
    let held = lock(&world, "agent:a", &["acquire", name]).ok().json();
    assert_eq!(held["locks"][0]["lock_scope"], "global");
    assert_eq!(held["locks"][0]["lock_key"], name);
}

#[test]
fn f5_extensions_end_at_the_limit_of_the_scope() {
    let world = World::with_jit(JIT);
    let secs = |lock: &Value| -> i64 {
        let ms = |field: &str| {
            let text = lock[field].as_str().expect("a time");
            jiff_ms(text)
        };
        (ms("expires_at") - ms("acquired_at") + 500) / 1000
    };
    let usual = lock(&world, "agent:a", &["acquire", "a"]).ok().json();
    assert_eq!(secs(&usual["locks"][0]), 15 * 60);
    let longest = lock(&world, "agent:a", &["extend", "a", "--ttl", "30m"])
        .ok()
        .json();
    assert_eq!(secs(&longest["locks"][0]), 30 * 60);
    let over = lock(&world, "agent:a", &["extend", "--all"]).exits(5).json();
    assert_eq!(over["error"]["code"], "not_allowed");
    let global = lock(&world, "agent:a", &["acquire", "g", "--scope", "global"])
        .ok()
        .json();
    assert_eq!(secs(&global["locks"][0]), 2 * 60);
    let longest = lock(&world, "agent:a", &["extend", "g", "--ttl", "5m"])
        .ok()
        .json();
    assert_eq!(secs(&longest["locks"][0]), 5 * 60);
    for (path, ttl) in [
        ("h", "31m"),
        ("h", "0"),
        ("h", "-1"),
        ("h", "18446744073709551616"),
    ] {
        let _ = lock(&world, "agent:a", &["acquire", path, "--ttl", ttl]).exits(2);
    }
    let _ = lock(
        &world,
        "agent:a",
        &["acquire", "h", "--scope", "global", "--ttl", "6m"],
    )
    .exits(2);
    // Extending what one does not hold.
    let _ = lock(&world, "agent:b", &["extend", "a"]).exits(3);
    let _ = lock(&world, "agent:b", &["release", "a"]).exits(3);
    // A claim's commands are not for locks.
    let lease = longest["locks"][0]["lease_id"]
        .as_str()
        .expect("a lease")
        .to_owned();
    let _ = world.jit_as("agent:a", ["claim", "renew", &lease]).exits(2);
}

fn jiff_ms(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().expect("a time").as_millisecond()
}

#[test]
fn f5_a_lock_that_ran_out_is_free_and_cleanup_says_so() {
    let world = World::with_jit(JIT);
    let _ = lock(&world, "agent:a", &["acquire", "a", "--ttl", "1s"]).ok();
    wait_until("the lock runs out", PATIENCE, || {
        lock(&world, "agent:b", &["list"]).ok().json()["locks"] == Value::Array(Vec::new())
    });
    let cleaned = lock(&world, "agent:b", &["cleanup"]).ok().json();
    assert_eq!(cleaned["released"][0]["file_path"], "a");
    assert!(kinds(&world).contains(&"lock.auto_evicted".to_owned()));
    let _ = lock(&world, "agent:b", &["acquire", "a"]).ok();
}

#[test]
fn f6_who_waits_is_served_in_order_and_nobody_overtakes() {
    let world = World::with_jit(JIT);
    let _ = lock(&world, "agent:a", &["acquire", "x"]).ok();
    let first = waiter(&world, "agent:first", &["x", "y"]);
    wait_until("the first one waits", PATIENCE, || queued(&world) == 1);
    let second = waiter(&world, "agent:second", &["y"]);
    wait_until("the second one waits", PATIENCE, || queued(&world) == 2);
    // y is free, but two came before.
    let refused = lock(&world, "agent:late", &["acquire", "y"]).exits(4).json();
    assert_eq!(refused["error"]["code"], "held");
    let checked = lock(&world, "agent:late", &["check", "y"]).ok().json();
    assert_eq!(checked["paths"][0]["available"], false);
    assert_eq!(checked["paths"][0]["waiting"], 2);
    let _ = lock(&world, "agent:a", &["release", "x"]).ok();
    let (code, first) = ends(first);
    assert_eq!(code, Some(0), "{first}");
    assert_eq!(queued(&world), 2);
    let _ = lock(&world, "agent:first", &["release", "--all"]).ok();
    let (code, second) = ends(second);
    assert_eq!(code, Some(0), "{second}");
    let token = |locks: &Value| locks["locks"][0]["token"].as_u64().expect("a token");
    assert!(token(&first) < token(&second));
    assert!(
        std::fs::read_dir(world.control().join("waiting"))
            .expect("a folder")
            .next()
            .is_none(),
        "no ticket is left"
    );
    world.validates();
}

#[test]
fn f6_a_dead_waiter_is_skipped_and_a_late_one_gives_up() {
    let world = World::with_jit(JIT);
    let _ = lock(&world, "agent:a", &["acquire", "x"]).ok();
    let mut dead = waiter(&world, "agent:dead", &["x"]);
    wait_until("the first one waits", PATIENCE, || queued(&world) == 1);
    dead.kill().expect("it is killed");
    let _ = dead.wait().expect("it is dead");
    let given_up = lock(&world, "agent:b", &["acquire", "x", "--wait", "1s"])
        .exits(4)
        .json();
    assert_eq!(given_up["error"]["details"]["locks"][0]["agent_id"], "agent:a");
    let _ = lock(&world, "agent:a", &["release", "x"]).ok();
    // Neither of the two stands in the way.
    let _ = lock(&world, "agent:c", &["acquire", "x"]).ok();
}

#[test]
fn f6_many_processes_race_for_overlapping_sets_without_deadlock_or_two_holders() {
    let (workers, rounds) = if long() { (64, 10) } else { (24, 2) };
    let world = World::with_jit(JIT);
    let sets: [&[&str]; 5] = [&["a", "b"], &["b", "c"], &["c", "a"], &["d/", "a"], &["d/x", "*"]];
    thread::scope(|scope| {
        for n in 0..workers {
            let world = &world;
            let set = sets[n % sets.len()];
            scope.spawn(move || {
                let agent = format!("agent:{n}");
                for _ in 0..rounds {
                    let mut args = vec!["acquire", "--wait", "300s"];
                    args.extend(set);
                    let _ = lock(world, &agent, &args).ok();
                    let _ = lock(world, &agent, &["release", "--all"]).ok();
                }
            });
        }
    });
    // The log is the witness: two who collide never held at the same time, and who came first was served first.
    let mut held: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let mut waiting: Vec<(String, usize)> = Vec::new();
    let set_of = |agent: &str| -> usize {
        agent
            .trim_start_matches("agent:")
            .parse::<usize>()
            .expect("a number")
            % sets.len()
    };
    let collide = |a: usize, b: usize| {
        // Every set has a or c or * in common with every other one but these.
        !matches!((a.min(b), a.max(b)), (1, 3))
    };
    for event in world.events() {
        let agent = event["payload"]["agent_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match event["type"].as_str().unwrap_or_default() {
            "lock.queued" => waiting.push((event["payload"]["ticket_id"].to_string(), set_of(&agent))),
            "lock.unqueued" => {
                let ticket = event["payload"]["ticket_id"].to_string();
                let at = waiting
                    .iter()
                    .position(|(id, _)| *id == ticket)
                    .expect("it waited");
                let (_, set) = waiting.remove(at);
                let passed = waiting[..at].iter().find(|(_, earlier)| collide(*earlier, set));
                assert!(passed.is_none(), "somebody was overtaken: {passed:?}");
            }
            "lock.acquired" => {
                let lease = event["payload"]["lease_id"].to_string();
                for (other, set) in held.values() {
                    assert!(
                        *other == agent || !collide(*set, set_of(&agent)),
                        "{agent} and {other} at the same time"
                    );
                }
                let set = set_of(&agent);
                held.insert(lease, (agent, set));
            }
            "lock.released" => {
                held.remove(&event["payload"]["lease_id"].to_string());
            }
            _ => {}
        }
    }
    assert!(held.is_empty() && waiting.is_empty());
    world.validates();
}

#[test]
fn f2_locks_are_not_claims() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let _ = world.jit_as("agent:a", ["claim", "acquire", "WORK-1"]).ok();
    let _ = lock(&world, "agent:a", &["acquire", "src/", "x"]).ok();
    let index = std::fs::read_to_string(world.control().join("claims.index.json")).expect("an index");
    assert_eq!(index.matches("lease_id").count(), 1, "{index}");
    let claims = std::fs::read_to_string(world.control().join("claims.jsonl")).expect("claims");
    assert_eq!(claims.lines().count(), 1, "{claims}");
    let list = world.jit(["claim", "list", "--json"]).ok().json();
    assert_eq!(list["active"].as_array().map(Vec::len), Some(1));
    world.validates();
}

#[test]
fn d1_the_registry_is_made_anew_by_the_next_lock() {
    let world = World::with_jit(JIT);
    let _ = lock(&world, "agent:a", &["acquire", "a"]).ok();
    let registry = world.control().join("agent_lock.json");
    std::fs::write(&registry, "garbage").expect("a file");
    let _ = lock(&world, "agent:a", &["acquire", "b"]).ok();
    let read: Value = serde_json::from_slice(&std::fs::read(&registry).expect("a registry")).expect("JSON");
    assert_eq!(read["metadata"]["active_locks"], 2);
}

#[test]
fn f2_bad_paths_are_refused_with_a_sentence() {
    let world = World::with_jit(JIT);
    let long = "x".repeat(100_000);
    for path in ["", "a\0b", "[", "{a", &long] {
        if path.contains('\0') {
            continue;
        }
        let ran = lock(&world, "agent:a", &["acquire", path]);
        assert!(
            matches!(ran.code, 0 | 2),
            "{path:.20}: {} {}",
            ran.code,
            ran.stdout
        );
    }
    let _ = lock(&world, "agent:a", &["acquire"]).exits(2);
    let _ = lock(&world, "agent:a", &["release"]).exits(2);
    let _ = lock(&world, "agent:a", &["release", "a", "--all"]).exits(2);
}

#[test]
fn f3_what_git_keeps_apart_is_the_worktrees_own_and_all_else_is_global() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    std::fs::write(repo.join(".gitignore"), "target/\n*.log\n!keep.log\n").expect("a file");
    std::fs::create_dir_all(repo.join("sub")).expect("a folder");
    std::fs::write(repo.join("sub/.gitignore"), "/cache\n").expect("a file");
    let scope = |path: &str, config: Option<(&str, &str)>| {
        let mut command = world.jit_command(&repo);
        command.args(["lock", "check", path, "--json"]);
        if let Some((name, value)) = config {
            command.env(name, value);
        }
        world.run(command).ok().json()["paths"][0]["lock_scope"].clone()
    };
    for (path, expected) in [
        ("src/auth.ts", "worktree"),
        ("README.md", "worktree"),
        ("target/debug/x", "global"),
        ("a/b.log", "global"),
        ("keep.log", "worktree"),
        ("sub/cache/x", "global"),
        ("cache/x", "worktree"),
        ("_state/agent_lock.json", "global"),
        ("traceability/task_registry.json", "global"),
        (".claude/settings.json", "global"),
        (".jit/config.toml", "global"),
        (".jit/issues/x/issue.json", "worktree"),
        ("../elsewhere.txt", "global"),
        ("**", "global"),
    ] {
        assert_eq!(scope(path, None), expected, "{path}");
    }
    let table = Some(("JIT_CONFIG_LOCKS__PRESET", "seed-003"));
    assert_eq!(scope("README.md", table), "global");
    assert_eq!(scope("src/auth.ts", table), "worktree");
    let own = Some(("JIT_CONFIG_LOCKS__RULES", "src/shared/** = global"));
    assert_eq!(scope("src/shared/x.ts", own), "global");
    assert_eq!(scope("src/own/x.ts", own), "worktree");
    let _ = world
        .jit(["config", "set", "locks.rules", "[\"src/** = everywhere\"]"])
        .exits(2);
}

/// The paths whose locks were renewed, in order.
fn renewed(world: &World) -> Vec<String> {
    let events = world.events();
    let renewed = events.iter().filter(|event| event["type"] == "lock.renewed");
    renewed
        .map(|event| {
            event["payload"]["file"]["pattern"]
                .as_str()
                .expect("a pattern")
                .to_owned()
        })
        .collect()
}

#[test]
fn f1_a_beat_extends_what_is_half_over_and_leaves_the_log_alone_otherwise() {
    let beat_extends = |beat: &[&str]| {
        let world = World::with_jit(JIT);
        let other = world.worktree("other");
        let _ = world.jit_as("agent:a", ["session", "start"]).ok();
        let _ = lock(&world, "agent:a", &["acquire", "short", "--ttl", "12s"]).ok();
        let _ = lock(&world, "agent:a", &["acquire", "long", "--ttl", "10m"]).ok();
        let _ = lock(&world, "agent:b", &["acquire", "anothers", "--ttl", "11s"]).ok();
        let _ = lock_in(
            &world,
            "agent:a",
            &other,
            &["acquire", "elsewhere", "--ttl", "11s"],
        )
        .ok();
        let before = world.events().len();
        wait_until("the short one is half over", PATIENCE, || {
            let _ = world.jit_as("agent:a", beat).ok();
            world.events().len() > before
        });
        let _ = world.jit_as("agent:a", beat).ok();
        assert_eq!(renewed(&world), ["short"], "once, and nothing else");
        assert_eq!(world.events().len(), before + 1);
        world.validates();
    };
    thread::scope(|scope| {
        scope.spawn(|| beat_extends(&["session", "beat"]));
        scope.spawn(|| beat_extends(&["heartbeat", "--once"]));
    });
}

#[test]
fn f5_no_beat_extends_a_lock_beyond_its_limit() {
    let world = World::with_jit(JIT);
    for (key, value) in [("locks.worktree_ttl_secs", "2"), ("locks.worktree_max_secs", "3")] {
        let _ = world.jit(["config", "set", key, value]).ok();
    }
    let _ = world.jit_as("agent:a", ["session", "start"]).ok();
    let _ = lock(&world, "agent:a", &["acquire", "x"]).ok();
    wait_until("it ends, however the heart beats", PATIENCE, || {
        let _ = world.jit_as("agent:a", ["session", "beat"]).ok();
        lock(&world, "agent:b", &["check", "x"]).ok().json()["paths"][0]["available"] == true
    });
    assert!(renewed(&world).len() <= 2, "{:?}", renewed(&world));
    let _ = lock(&world, "agent:b", &["acquire", "x"]).ok();
}

#[test]
fn f2_a_name_that_is_not_text_is_refused_and_never_taken_for_another() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::with_jit(JIT);
    let name = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    std::fs::write(world.repo().join(name(b"\xff")), "x").expect("written");
    std::os::unix::fs::symlink(name(b"\xff"), world.repo().join("link")).expect("a link");
    for path in [name(b"\xff"), name(b"src/\xfe.rs"), name(b"\xff*"), "link".into()] {
        for verb in ["acquire", "check", "release"] {
            let args: [OsString; 4] = ["lock".into(), verb.into(), path.clone(), "--json".into()];
            let refused = world.jit(args).exits(2).json();
            assert_eq!(refused["error"]["code"], "invalid", "{path:?}");
            let message = refused["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains("not UTF-8"), "{message}");
        }
    }
    assert_eq!(
        lock(&world, "agent:a", &["list"]).ok().json()["locks"],
        Value::Array(Vec::new())
    );
}
