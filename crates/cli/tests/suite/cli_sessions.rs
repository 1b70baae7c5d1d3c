//! Sessions from the command line (F1, F7) and the binding of process trees (A4).

use jit_testkit::world::World;
use jit_testkit::world::tools::without;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn registry(world: &World) -> Value {
    let path = world.control().join("agent_sessions.json");
    serde_json::from_slice(&std::fs::read(path).expect("a registry")).expect("JSON")
}

#[test]
fn f1_a_session_from_start_to_end_in_the_registry() {
    let world = World::with_jit(JIT);
    let tree = world.worktree("pr-001-auth");
    let start = [
        "session",
        "start",
        "--task",
        "T-015",
        "--pr-group",
        "PR-001",
        "--json",
    ];
    let session = world.jit_as_in("agent:dev-1", &tree, start).ok().json();
    let id = session["session_id"].as_str().expect("an id").to_owned();
    assert!(id.len() == 13 && id.starts_with("sess-"), "{id}");
    let entry = registry(&world)["sessions"][&id].clone();
    for (field, value) in [
        ("agent_id", json!("agent:dev-1")),
        ("agent_type", json!("developer")),
        ("task_id", json!("T-015")),
        ("pr_group", json!("PR-001")),
        ("worktree_path", json!("../pr-001-auth")),
        ("branch", json!("pr-001-auth")),
        ("lock_scope", json!("worktree")),
        ("status", json!("active")),
    ] {
        assert_eq!(entry[field], value, "{field}");
        assert_eq!(session[field], value, "{field}");
    }
    assert_eq!(registry(&world)["metadata"]["active_count"], 1);
    let events = world.events().len();
    let beaten = world
        .jit_as_in("agent:dev-1", &tree, ["session", "beat", "--json"])
        .ok()
        .json();
    assert!(beaten["last_heartbeat"].as_str() >= session["last_heartbeat"].as_str());
    assert_eq!(world.events().len(), events, "heartbeats do not grow the log");
    assert_eq!(
        registry(&world)["sessions"][&id]["last_heartbeat"],
        beaten["last_heartbeat"]
    );
    let ended = world
        .jit_as_in(
            "agent:dev-1",
            &tree,
            ["session", "end", "--status", "failed", "--json"],
        )
        .ok()
        .json();
    assert_eq!(ended["status"], "failed");
    assert_eq!(registry(&world)["sessions"][&id]["status"], "failed");
    assert_eq!(registry(&world)["metadata"]["active_count"], 0);
    let _ = world
        .jit_as_in("agent:dev-1", &tree, ["session", "beat"])
        .exits(3);
    let _ = world.jit_as("agent:dev-1", ["session", "beat", &id]).exits(5);
    assert_eq!(
        world.jit(["session", "list", "--json"]).ok().json()["sessions"],
        json!([])
    );
    let pruned = world.jit(["session", "prune", "--json"]).ok().json();
    assert_eq!(pruned["pruned"], json!([id]));
    assert_eq!(registry(&world)["sessions"], json!({}));
    let _ = world.jit(["session", "show", &id]).exits(3);
    world.validates();
}

#[test]
fn f1_ending_a_session_lets_go_of_its_locks_in_the_same_breath() {
    let world = World::with_jit(JIT);
    let _ = world.jit_as("agent:a", ["session", "start"]).ok();
    let _ = world.jit_as("agent:a", ["lock", "acquire", "src/", "x"]).ok();
    let _ = world
        .jit_as("agent:b", ["session", "end", "sess-00000000"])
        .exits(3);
    let id = world.jit_as("agent:a", ["session", "show", "--json"]).ok().json()["session_id"].clone();
    let id = id.as_str().expect("an id");
    let _ = world.jit_as("agent:b", ["session", "end", id]).exits(5);
    let _ = world.jit_as("agent:a", ["session", "end"]).ok();
    assert_eq!(
        world.jit(["lock", "list", "--json"]).ok().json()["locks"],
        json!([])
    );
    let events = world.events();
    let end = events.last().expect("an event");
    assert_eq!(end["type"], "session.ended");
    assert_eq!(end["tx"], json!([3, 3]));
}

#[test]
fn f1_a_session_without_beats_is_stale_and_nobody_writes_that_down() {
    if without("faketime") {
        return;
    }
    let world = World::with_jit(JIT);
    let _ = world.jit_as("agent:a", ["session", "start"]).ok();
    let events = world.events().len();
    let later = |args: &[&str]| {
        let way = ["faketime", "-f", "+1h"];
        let mut command = world.jit_by_way_of(&way, "agent:b", args);
        command
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("NO_FAKE_STAT", "1");
        world.run(command).ok().json()
    };
    let list = later(&["session", "list", "--json"]);
    assert_eq!(list["sessions"][0]["status"], "stale", "{list}");
    assert_eq!(world.events().len(), events);
    // The registry says so too: after a look at the sessions, and after any write.
    let registered = || {
        let text = std::fs::read(world.repo().join(".git/jit/agent_sessions.json")).expect("a registry");
        let file: Value = serde_json::from_slice(&text).expect("JSON");
        let sessions = file["sessions"].as_object().expect("sessions").clone();
        let status = sessions.values().next().expect("a session")["status"].clone();
        (status, file["metadata"]["active_count"].clone())
    };
    assert_eq!(registered(), (json!("stale"), json!(0)));
    let _ = world.jit_as("agent:a", ["session", "beat"]).ok();
    assert_eq!(registered(), (json!("active"), json!(1)));
    let _ = later(&["issue", "create", "x", "--json"]);
    assert_eq!(registered(), (json!("stale"), json!(0)));
    let now = world.jit(["session", "list", "--json"]).ok().json();
    assert_eq!(now["sessions"][0]["status"], "active");
    // The one that started it is gone.
    assert_eq!(
        later(&["session", "prune", "--json"])["pruned"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn f7_types_decide_where_locks_count_and_can_be_added() {
    let world = World::with_jit(JIT);
    let started =
        |agent: &str, kind: &str| world.jit_as(agent, ["session", "start", "--type", kind, "--json"]);
    assert_eq!(
        started("agent:r", "bug-hunter").ok().json()["lock_scope"],
        "global"
    );
    // The widest of path, session and flag.
    let lock = world
        .jit_as("agent:r", ["lock", "acquire", "a.rs", "--json"])
        .ok()
        .json();
    assert_eq!(lock["locks"][0]["lock_scope"], "global");
    assert_eq!(lock["locks"][0]["agent_type"], "bug-hunter");
    let refused = started("agent:x", "release-manager").exits(2);
    assert!(refused.stdout.contains("developer"), "{}", refused.stdout);
    let _ = world
        .jit([
            "config",
            "set",
            "sessions.types",
            "[\"release-manager = worktree\"]",
        ])
        .ok();
    assert_eq!(
        started("agent:x", "release-manager").ok().json()["lock_scope"],
        "worktree"
    );
    let _ = world
        .jit_as("agent:x", ["session", "start", "--pr-group", "PR-1"])
        .exits(2);
}

#[test]
fn a4_a_bound_process_and_all_it_starts_act_in_the_session() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let jit = world.program().display().to_string();
    let script = format!(
        "set -e\n\
         '{jit}' session start --agent-id agent:bound --bind-pid $$ >/dev/null\n\
         '{jit}' whoami --json\n\
         sh -c \"sh -c \\\"'{jit}' claim acquire WORK-1 --json\\\"\"\n\
         JIT_AGENT_ID=agent:told '{jit}' whoami --json\n"
    );
    let mut command = world.command("sh", &world.repo());
    command.args(["-c", &script]);
    let ran = world.run(command).ok();
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["agent_id"], "agent:bound");
    assert!(lines[0]["source"].as_str().expect("a source").contains("session"));
    assert_eq!(lines[1]["agent_id"], "agent:bound");
    assert_eq!(lines[2]["agent_id"], "agent:told");
    // That shell is gone, and whoever comes after it is somebody else.
    let me = world.jit(["whoami", "--json"]).ok().json();
    assert_ne!(me["agent_id"], "agent:bound");
}

#[test]
fn d1_sessions_survive_a_recovery() {
    let world = World::with_jit(JIT);
    let _ = world.jit_as("agent:a", ["session", "start"]).ok();
    let _ = world.jit_as("agent:a", ["lock", "acquire", "a"]).ok();
    let log = world.control().join("events/control.jsonl");
    let mut bytes = std::fs::read(&log).expect("a log");
    let at = bytes.iter().position(|b| *b == b'\n').expect("a line") + 20;
    bytes[at] ^= 1;
    std::fs::write(&log, &bytes).expect("a log");
    let _ = std::fs::remove_dir_all(world.control().join("state"));
    std::fs::create_dir(world.control().join("state")).expect("a folder");
    let _ = world.jit(["recover", "--json"]);
    // What came after the damage cannot be trusted line by line; what is kept agrees with the log.
    world.validates();
}

#[test]
fn f8_the_registries_that_jit_writes_are_valid_by_its_own_schemas() {
    let world = World::with_jit(JIT);
    let _ = world
        .jit_as("agent:a", ["session", "start", "--task", "T-015"])
        .ok();
    let _ = world.jit_as("agent:b", ["session", "start"]).ok();
    let _ = world.jit_as("agent:a", ["lock", "acquire", "src/a.rs"]).ok();
    let _ = world
        .jit_as("agent:c", ["lock", "acquire", "g", "--scope", "global"])
        .ok();
    for name in ["agent_sessions", "agent_lock"] {
        let file = world.control().join(format!("{name}.json"));
        let file = file.to_str().expect("text");
        let checked = world
            .jit(["validate", "--schema", name, "--file", file, "--json"])
            .ok()
            .json();
        assert_eq!(checked["errors"], json!([]), "{name}");
    }
}

#[test]
fn f1_a_task_that_is_not_recorded_is_reported() {
    let world = World::with_jit(JIT);
    let start = |task: &str| {
        world
            .jit_as("agent:a", ["session", "start", "--task", task, "--json"])
            .ok()
    };
    let dropped = start("X-1");
    assert_eq!(dropped.json()["task_id"], Value::Null);
    assert!(
        dropped.stderr.contains("\"X-1\" is not recorded"),
        "{}",
        dropped.stderr
    );
    let kept = start("T-015");
    assert_eq!(
        (&kept.json()["task_id"], kept.stderr.as_str()),
        (&json!("T-015"), "")
    );
}
