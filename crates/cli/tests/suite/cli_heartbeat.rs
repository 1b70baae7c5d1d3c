//! `jit heartbeat` (B12).

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use jit_os::process::{ProcessRef, wait_for_end};
use jit_testkit::world::World;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// Something to beat for, which ends when its input does.
fn patient(world: &World) -> Child {
    world
        .command("cat", world.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("cat starts")
}

fn world() -> World {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "x", "--id", "WI-001"]).ok();
    world
}

fn lease(world: &World) -> Value {
    world.jit(["claim", "list", "--json"]).ok().json()["active"][0].clone()
}

#[test]
fn b12_once_writes_one_beat_and_a_dead_process_is_seen_as_dead() {
    let world = world();
    let _ = world
        .jit(["claim", "acquire", "WI-001", "--agent-id", "agent:one"])
        .ok();
    let mut child = patient(&world);
    let pid = child.id().to_string();
    let args = ["heartbeat", "--once", "--agent-id", "agent:one", "--pid", &pid];
    let beat = world.jit(args.iter().chain(&["--json"])).ok().json();
    for name in [
        "agent_id",
        "worktree_id",
        "branch",
        "pid",
        "last_beat",
        "interval_secs",
    ] {
        assert!(!beat[name].is_null(), "{name}: {beat}");
    }
    assert_eq!(lease(&world)["heartbeat_alive"], true);
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert_eq!(lease(&world)["heartbeat_alive"], false);
    let shown = world.jit(["claim", "list"]).ok().stdout;
    assert!(shown.contains("dead"), "{shown}");
    let _ = world.jit(args).exits(3);
    let _ = world.jit(["heartbeat", "--once", "--interval", "0"]).exits(2);
    let _ = world.jit(["heartbeat", "--once", "--daemon"]).exits(2);
}

#[test]
fn b12_a_daemon_renews_and_stops_with_the_process_it_beats_for() {
    let world = world();
    let first = world
        .jit([
            "claim",
            "acquire",
            "WI-001",
            "--agent-id",
            "agent:one",
            "--ttl",
            "3s",
            "--json",
        ])
        .ok()
        .json();
    let mut child = patient(&world);
    let pid = child.id().to_string();
    let daemon = world
        .jit([
            "heartbeat",
            "--daemon",
            "--agent-id",
            "agent:one",
            "--pid",
            &pid,
            "--json",
        ])
        .ok()
        .json();
    let daemon_pid = u32::try_from(daemon["pid"].as_u64().expect("a pid")).expect("a small one");
    let heart = ProcessRef::of(daemon_pid).expect("look").expect("it runs");
    // The log tells of the renewal as it happens.
    let renewed = |count: usize| {
        let events = world
            .jit(["events", "--type", "claim.renewed", "--json"])
            .ok()
            .json();
        events["events"].as_array().is_some_and(|all| all.len() >= count)
    };
    let until = Instant::now() + Duration::from_secs(30);
    while !renewed(2) {
        assert!(Instant::now() < until, "no renewal");
    }
    let now = lease(&world);
    assert_eq!(now["lease_id"], first["lease_id"]);
    assert_eq!(now["token"], first["token"], "never let go in between");
    assert_eq!(now["heartbeat_alive"], true);
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(
        wait_for_end(heart, Duration::from_secs(30)).expect("wait"),
        "the heart beats on"
    );
    let until = Instant::now() + Duration::from_secs(30);
    while lease(&world) != Value::Null {
        assert!(Instant::now() < until, "the lease lives on");
    }
    let taken = world
        .jit(["claim", "acquire", "WI-001", "--agent-id", "agent:two", "--json"])
        .ok()
        .json();
    assert_eq!(taken["existing"], json!(false));
}

#[test]
fn b12_a_heart_in_the_foreground_ends_with_its_process_too() {
    let world = world();
    let mut child = patient(&world);
    let heart = world
        .jit_command(&world.repo())
        .args([
            "heartbeat",
            "--agent-id",
            "agent:one",
            "--interval",
            "1h",
            "--json",
            "--pid",
            &child.id().to_string(),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("jit starts");
    let file = world.control().join("heartbeat");
    let until = Instant::now() + Duration::from_secs(30);
    while std::fs::read_dir(&file).expect("the folder").count() == 0 {
        assert!(Instant::now() < until, "no beat");
    }
    drop(child.stdin.take());
    child.wait().expect("cat ends");
    let output = heart.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let said: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert!(said["stopped"].is_string(), "{said}");
}

#[test]
fn b12_a_busy_store_does_not_stop_the_heart() {
    let world = world();
    let _ = world
        .jit([
            "claim",
            "acquire",
            "WI-001",
            "--agent-id",
            "agent:one",
            "--ttl",
            "3s",
        ])
        .ok();
    let lock = std::fs::File::options()
        .write(true)
        .open(world.control().join("locks/control.lock"))
        .expect("the lock file");
    lock.lock().expect("the lock");
    let mut child = patient(&world);
    let mut heart = world
        .jit_command(&world.repo())
        .args([
            "heartbeat",
            "--agent-id",
            "agent:one",
            "--lock-timeout",
            "0",
            "--pid",
            &child.id().to_string(),
        ])
        .stderr(Stdio::piped())
        .spawn()
        .expect("jit starts");
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(heart.stderr.take().expect("its errors")));
    let first = lines.next().expect("a line").expect("text");
    assert!(first.contains("lock was not free"), "{first}");
    drop(lock);
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let events = world.jit(["events", "--json"]).ok().stdout;
        if events.contains("claim.renewed") || events.contains("\"regranted\":true") {
            break;
        }
        assert!(Instant::now() < until, "it never came back to life");
    }
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert_eq!(heart.wait().expect("it ends").code(), Some(0));
}
