//! Whose leave a change needs beyond the issue's own holder (B13, B15), lock files in step with leases (B14), and that what
//! is offered can be taken (E4).

use std::fs;
use std::path::PathBuf;

use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

const FAR: &str = "2999-01-01T00:00:00Z";

fn create(world: &World, id: &str, more: &[&str]) {
    let mut args = vec!["issue", "create", id, "--id", id];
    args.extend(more);
    let _ = world.jit_as("human:h", args).ok();
}

/// An activity of two tasks.
fn planned() -> World {
    let world = World::with_jit(JIT);
    create(&world, "ACT-1", &["--type", "activity"]);
    create(&world, "ACT-1-T1", &["--type", "task", "--parent", "ACT-1"]);
    create(&world, "ACT-1-T2", &["--type", "task", "--parent", "ACT-1"]);
    create(&world, "WI-9", &[]);
    world
}

fn by(world: &World, agent: &str, args: &[&str]) -> Ran {
    world.jit_as(agent, args.iter().chain(&["--json"]))
}

fn lock_file(world: &World) -> PathBuf {
    world.control().join("activities/ACT-1.lock")
}

fn write_lock(world: &World, more: Value) {
    let mut file = json!({"holder": "files", "holder_type": "agent", "acquired": "2026-01-24T10:00:00Z", "expires": FAR});
    let all = file.as_object_mut().expect("an object");
    all.extend(more.as_object().expect("an object").clone());
    fs::create_dir_all(world.control().join("activities")).expect("folder");
    fs::write(lock_file(world), file.to_string()).expect("write");
}

fn lease_on(world: &World, id: &str) -> Option<Value> {
    let claims = by(world, "human:h", &["claim", "list"]).ok().json();
    let active = claims["active"].as_array().expect("claims").clone();
    active.into_iter().find(|claim| claim["issue_id"] == id)
}

fn refused(ran: &Ran, exit: i32, code: &str) -> Value {
    assert_eq!(ran.code, exit, "{}{}", ran.stdout, ran.stderr);
    let error = ran.json()["error"].clone();
    assert_eq!(error["code"], code, "{error}");
    error
}

const TASK_CHANGES: &[&[&str]] = &[
    &["issue", "update", "ACT-1-T2", "--state", "done"],
    &["issue", "update", "ACT-1-T2", "--add-label", "x"],
    &["dep", "add", "ACT-1-T2", "WI-9"],
    &["block", "ACT-1-T2", "--reason", "r"],
    &["gate", "add", "ACT-1-T2", "review"],
    &["issue", "delete", "ACT-1-T2"],
];

#[test]
fn b15_tasks_of_an_activity_are_changed_by_its_holder_alone() {
    let world = planned();
    let _ = world
        .jit_as("human:h", ["gate", "define", "review", "--manual"])
        .ok();
    let _ = by(&world, "agent:a1", &["claim", "acquire", "ACT-1"]).ok();
    for change in TASK_CHANGES {
        let error = refused(&by(&world, "agent:a2", change), 5, "not_holder");
        assert_eq!(error["details"]["lease"]["agent_id"], "agent:a1", "{error}");
        assert_eq!(error["details"]["lease"]["issue_id"], "ACT-1", "{error}");
    }
    // Texts, comments and new issues are everybody's; the holder may do all.
    for words in [
        ["issue", "comment", "ACT-1-T2", "a word"].as_slice(),
        &["issue", "update", "ACT-1-T2", "--description", "d"],
        &["issue", "create", "T3", "--type", "task", "--parent", "ACT-1"],
    ] {
        let _ = by(&world, "agent:a2", words).ok();
    }
    for change in TASK_CHANGES.iter().skip(1) {
        let _ = by(&world, "agent:a1", change).ok();
    }
}

#[test]
fn b15_the_same_where_the_activity_is_held_by_a_lock_file() {
    let world = planned();
    let _ = world
        .jit_as("human:h", ["gate", "define", "review", "--manual"])
        .ok();
    write_lock(&world, json!({}));
    for change in TASK_CHANGES.iter().rev() {
        let error = refused(&by(&world, "agent:a2", change), 5, "not_holder");
        assert_eq!(error["details"]["lease"]["agent_id"], "agent:files", "{error}");
    }
}

#[test]
fn b15_an_activity_is_not_changed_while_somebody_else_works_inside() {
    let world = planned();
    let _ = by(&world, "agent:a1", &["claim", "acquire", "ACT-1-T1"]).ok();
    let change = ["issue", "update", "ACT-1", "--priority", "low"];
    refused(&by(&world, "agent:a2", &change), 5, "not_holder");
    let _ = by(&world, "agent:a1", &change).ok();
    let _ = by(
        &world,
        "human:h",
        &["config", "set", "worktree.enforce_leases", "warn"],
    )
    .ok();
    // For agents it counts when it is committed.
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "settings"]);
    let warned = by(
        &world,
        "agent:a2",
        &["issue", "update", "ACT-1", "--priority", "high"],
    )
    .ok();
    assert!(warned.stderr.contains("agent:a1"), "{}", warned.stderr);
}

#[test]
fn b15_what_waits_for_a_person_is_changed_by_people() {
    let world = World::with_jit(JIT);
    create(&world, "HUM-1", &["--actor", "human"]);
    for words in [
        ["claim", "acquire", "HUM-1"].as_slice(),
        &["issue", "update", "HUM-1", "--state", "done"],
        &["issue", "update", "HUM-1", "--actor", "any"],
        &["issue", "update", "HUM-1", "--actor", "any", "--state", "done"],
        &["issue", "delete", "HUM-1"],
    ] {
        let error = refused(&by(&world, "agent:a1", words), 5, "not_allowed");
        assert!(!error.to_string().contains("--actor any"), "{error}");
    }
    let _ = by(&world, "agent:a1", &["issue", "comment", "HUM-1", "please"]).ok();
    let status = by(&world, "agent:a1", &["status"]).ok().json();
    assert_eq!(status["ready"], json!([]), "it is not there for `claim next`");
    let status = by(&world, "human:h", &["status"]).ok().json();
    assert_eq!(status["ready"][0]["id"], "HUM-1");
    let _ = by(
        &world,
        "human:h",
        &["issue", "update", "HUM-1", "--state", "done"],
    )
    .ok();
}

#[test]
fn b15_whoever_may_not_change_it_is_told_that_first() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &["--gate", "g"]);
    let _ = by(&world, "agent:a1", &["claim", "acquire", "WI-1"]).ok();
    for words in [
        ["issue", "update", "WI-1", "--state", "done"].as_slice(),
        &["unblock", "WI-1"],
        &["pivot", "complete", "WI-1", "--reason", "r"],
    ] {
        refused(&by(&world, "agent:a2", words), 5, "not_holder");
    }
    refused(
        &by(
            &world,
            "agent:a1",
            &["issue", "update", "WI-1", "--state", "done"],
        ),
        6,
        "gate_not_passed",
    );
    refused(&by(&world, "agent:a1", &["unblock", "WI-1"]), 2, "invalid");
}

#[test]
fn b4_b14_an_eviction_ends_what_a_lock_file_stands_for() {
    let world = planned();
    let task = json!({"task_id": "ACT-1-T1", "task_acquired": "2026-01-24T10:00:00Z", "task_expires": FAR});
    write_lock(&world, task);
    let evict = |id: &str| {
        by(
            &world,
            "human:h",
            &["claim", "force-evict", id, "--reason", "stuck"],
        )
    };
    // The task alone: the file stays, and does not say so any more.
    let _ = evict("ACT-1-T1").ok();
    assert_eq!(lease_on(&world, "ACT-1-T1"), None);
    let file: Value = serde_json::from_slice(&fs::read(lock_file(&world)).expect("a file")).expect("JSON");
    assert_eq!(
        (&file["holder"], &file["expires"]),
        (&json!("files"), &json!(FAR))
    );
    assert!(lease_on(&world, "ACT-1").is_some());
    let _ = evict("ACT-1").ok();
    assert!(!lock_file(&world).exists());
    assert_eq!(lease_on(&world, "ACT-1"), None);
    let _ = by(&world, "agent:a1", &["claim", "acquire", "ACT-1"]).ok();
}

#[test]
fn b4_b14_a_lock_file_lease_that_is_handed_on_is_like_any_other() {
    let world = planned();
    let later = "2999-02-01T00:00:00Z";
    let task = json!({"task_id": "ACT-1-T1", "task_acquired": "2026-01-24T10:00:00Z", "task_expires": later});
    write_lock(&world, task);
    refused(&by(&world, "agent:a2", &["claim", "acquire", "ACT-1"]), 4, "held");
    let before = world.events().len();
    refused(&by(&world, "agent:a2", &["claim", "acquire", "ACT-1"]), 4, "held");
    assert_eq!(world.events().len(), before, "it is written down once");
    let handed = by(
        &world,
        "agent:files",
        &["claim", "transfer", "ACT-1", "--to", "agent:a2"],
    )
    .ok();
    // Its far expiry is reported, and nothing about a second writer.
    assert!(!handed.stderr.contains("replaced"), "{}", handed.stderr);
    let file: Value = serde_json::from_slice(&fs::read(lock_file(&world)).expect("a file")).expect("JSON");
    assert_eq!(file["holder"], "agent:a2");
    assert_eq!(file["lease_id"], handed.json()["lease_id"]);
    fs::remove_file(lock_file(&world)).expect("delete");
    let _ = by(&world, "agent:a2", &["claim", "acquire", "ACT-1-T1"]).ok();
    let lease = lease_on(&world, "ACT-1").expect("it holds on");
    assert_eq!(lease["agent_id"], "agent:a2");
    assert!(lock_file(&world).exists(), "made again");
    let _ = by(&world, "agent:a2", &["claim", "release", "ACT-1"]).ok();
    assert!(!lock_file(&world).exists());
}

#[test]
fn b14_there_is_a_lock_file_while_an_activity_is_held_and_no_longer() {
    let world = planned();
    let run = |words: &[&str]| by(&world, "agent:a1", words).ok();
    // Deleted, with its task, which is not worked on any more either.
    create(&world, "ACT-1-T3", &["--type", "task", "--parent", "ACT-1"]);
    let _ = run(&["claim", "acquire", "ACT-1"]);
    let _ = run(&["claim", "acquire", "ACT-1-T3"]);
    let _ = run(&["issue", "delete", "ACT-1-T3"]);
    let file: Value = serde_json::from_slice(&fs::read(lock_file(&world)).expect("a file")).expect("JSON");
    assert_eq!(file["task_id"], Value::Null);
    let _ = run(&["issue", "delete", "ACT-1"]);
    assert!(!lock_file(&world).exists());
    // Another type.
    let world = World::with_jit(JIT);
    create(&world, "ACT-1", &["--type", "activity"]);
    let run = |words: &[&str]| by(&world, "agent:a1", words).ok();
    let _ = run(&["claim", "acquire", "ACT-1"]);
    let _ = run(&["issue", "update", "ACT-1", "--type", "task"]);
    assert!(!lock_file(&world).exists());
    let made = run(&["issue", "update", "ACT-1", "--type", "activity"]);
    assert!(lock_file(&world).exists());
    assert_eq!(made.stderr, "");
    let _ = run(&["claim", "release", "ACT-1"]);
    assert!(!lock_file(&world).exists());
}

#[test]
fn e4_what_is_ready_can_be_taken() {
    let world = World::with_jit(JIT);
    create(&world, "AC-1", &["--type", "activity"]);
    create(&world, "AC-1-T1", &["--type", "task", "--parent", "AC-1"]);
    let _ = by(&world, "agent:a1", &["claim", "acquire", "AC-1-T1"]).ok();
    refused(&by(&world, "agent:a2", &["claim", "next"]), 3, "nothing_ready");
    assert_eq!(
        by(&world, "agent:a2", &["ready"]).ok().json()["issues"],
        json!([])
    );
    assert_eq!(
        by(&world, "agent:a2", &["status"]).ok().json()["ready"],
        json!([])
    );
    // For whoever works inside it is.
    assert_eq!(
        by(&world, "agent:a1", &["ready"]).ok().json()["issues"][0]["id"],
        "AC-1"
    );
    assert_eq!(
        by(&world, "agent:a1", &["claim", "next"]).ok().json()["issue"]["id"],
        "AC-1"
    );
    assert_eq!(
        by(&world, "agent:a2", &["status"]).ok().json()["ready"],
        json!([])
    );
}

#[test]
fn e4_every_answer_says_what_an_issue_waits_for() {
    let world = World::with_jit(JIT);
    create(&world, "BB-1", &[]);
    create(&world, "BB-2", &[]);
    let says = |words: &[&str]| by(&world, "human:h", words).ok().json()["blocked_by"].clone();
    assert_eq!(
        says(&["issue", "create", "a", "--id", "AA-1", "--depends-on", "BB-1"]),
        json!(["BB-1"])
    );
    assert_eq!(says(&["dep", "add", "AA-1", "BB-2"]), json!(["BB-1", "BB-2"]));
    assert_eq!(
        says(&["issue", "update", "AA-1", "--priority", "low"]),
        json!(["BB-1", "BB-2"])
    );
    assert_eq!(says(&["dep", "rm", "AA-1", "BB-2"]), json!(["BB-1"]));
    let _ = by(&world, "human:h", &["issue", "delete", "AA-1"]).ok();
    assert_eq!(says(&["issue", "restore", "AA-1"]), json!(["BB-1"]));
    // What is closed waits for nothing, in lists and alone.
    assert_eq!(
        says(&["issue", "update", "AA-1", "--state", "rejected"]),
        json!([])
    );
    assert_eq!(says(&["issue", "show", "AA-1"]), json!([]));
}

#[test]
fn b14_a_lock_file_stands_for_one_lease_also_before_it_is_written_down() {
    let world = planned();
    write_lock(&world, json!({}));
    let claim = || lease_on(&world, "ACT-1").expect("a lease");
    let (first, second) = (claim(), claim());
    assert_eq!(first["lease_id"], second["lease_id"]);
    // As long as a lease may last, in every field.
    assert_ne!(first["expires_at"], FAR);
    let month = 30 * 86_400;
    assert_eq!(first["ttl_secs"], month);
    assert!(first["remaining_secs"].as_u64().is_some_and(|secs| secs <= month));
    // Writing it down keeps the id, and the next command does not write it down again.
    let _ = by(&world, "agent:a1", &["claim", "next"]).ok();
    assert_eq!(claim()["lease_id"], first["lease_id"]);
    let before = world.events().len();
    refused(&by(&world, "agent:a1", &["claim", "acquire", "ACT-1"]), 4, "held");
    assert_eq!(world.events().len(), before);
    let id = first["lease_id"].as_str().expect("an id");
    let _ = by(
        &world,
        "human:h",
        &["claim", "force-evict", id, "--reason", "stuck"],
    )
    .ok();
    // The same file again is another lease.
    write_lock(&world, json!({}));
    assert_ne!(claim()["lease_id"], first["lease_id"]);
}

#[test]
fn b3_nothing_ready_counts_what_was_asked_for() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &["--label", "x"]);
    create(&world, "WI-2", &["--state", "backlog"]);
    let _ = by(&world, "agent:a1", &["claim", "acquire", "WI-1"]).ok();
    let error = refused(
        &by(&world, "agent:a2", &["claim", "next", "--label", "nope"]),
        3,
        "nothing_ready",
    );
    assert_eq!(
        (&error["details"]["held"], &error["details"]["backlog"]),
        (&json!(0), &json!(0))
    );
    let error = refused(
        &by(&world, "agent:a2", &["claim", "next", "--label", "x"]),
        3,
        "nothing_ready",
    );
    assert_eq!(
        (&error["details"]["held"], &error["details"]["backlog"]),
        (&json!(1), &json!(0))
    );
    let error = refused(&by(&world, "agent:a2", &["claim", "next"]), 3, "nothing_ready");
    assert_eq!(
        (&error["details"]["held"], &error["details"]["backlog"]),
        (&json!(1), &json!(1))
    );
}

#[test]
fn e1_a_type_that_is_almost_a_known_one_is_taken_with_a_word() {
    let world = World::with_jit(JIT);
    let make = |kind: &str| by(&world, "human:h", &["issue", "create", "a", "--type", kind]).ok();
    let made = make("work-item");
    assert!(made.stderr.contains("work_item"), "{}", made.stderr);
    assert_eq!(made.json()["type"], "work-item");
    assert_eq!(make("spike").stderr, "");
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let changed = by(&world, "human:h", &["issue", "update", &id, "--type", "Task"]).ok();
    assert!(changed.stderr.contains("not task"), "{}", changed.stderr);
}

#[test]
fn i1_a_value_that_looks_like_an_option_is_told_how_to_be_given() {
    let world = World::with_jit(JIT);
    let ran = by(&world, "human:h", &["issue", "create", "a", "--label", "--x"]);
    let error = refused(&ran, 2, "usage");
    assert!(error["help"].to_string().contains("--label=--x"), "{error}");
    assert!(!error.to_string().contains("-- --x"), "{error}");
    let _ = by(&world, "human:h", &["issue", "create", "a", "--label=--x"]).ok();
}

#[test]
fn a4_an_agent_under_another_name_is_told_what_it_is() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &["--gate", "g"]);
    let _ = world.jit_as("human:h", ["gate", "define", "g", "--manual"]).ok();
    let mut command = world.jit_command(&world.repo());
    command.env("JIT_AGENT_ID", "agent:a1");
    command.args(["--agent-id", "human:root", "gate", "pass", "WI-1", "g", "--json"]);
    let error = refused(&world.run(command), 5, "not_allowed");
    let message = error["message"].as_str().expect("a message");
    assert!(!message.contains("human:root is an agent"), "{message}");
    assert!(message.contains("an agent asks"), "{message}");
}
