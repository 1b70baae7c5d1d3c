//! Activities and their tasks (B13), lock files for agents that know files only (B14), the changelog (D4).

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

use crate::merging::{self, Tree};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// A work item with one activity of two tasks.
fn planned() -> World {
    let world = World::with_jit(JIT);
    let make = |title: &str, kind: &str, id: &str, parent: Option<&str>| {
        let mut args = vec!["issue", "create", title, "--type", kind, "--id", id];
        args.extend(parent.iter().flat_map(|parent| ["--parent", parent]));
        let _ = world.jit(args).ok();
    };
    make("Item", "work_item", "WI-001", None);
    make("Activity", "activity", "WI-001-A1", Some("WI-001"));
    make("One", "task", "WI-001-A1-T1", Some("WI-001-A1"));
    make("Two", "task", "WI-001-A1-T2", Some("WI-001-A1"));
    world
}

fn by(world: &World, agent: &str, args: &[&str]) -> Ran {
    let mut all = args.to_vec();
    all.extend(["--agent-id", agent]);
    world.jit(all)
}

fn lock_file(world: &World) -> PathBuf {
    world.repo().join(".git/jit/activities/WI-001-A1.lock")
}

fn locked(world: &World) -> Value {
    serde_json::from_slice(&fs::read(lock_file(world)).expect("a lock file")).expect("JSON")
}

fn write_lock(world: &World, holder: &str, expires: &str) {
    fs::create_dir_all(world.repo().join(".git/jit/activities")).expect("folder");
    let file = json!({"holder": holder, "holder_type": "agent", "acquired": "2026-01-24T10:00:00Z", "expires": expires});
    fs::write(lock_file(world), file.to_string()).expect("write");
}

const FAR: &str = "2999-01-01T00:00:00Z";

fn actions(world: &World) -> Vec<String> {
    let entries = world.jit(["changelog", "--json"]).ok().json();
    let list = entries["entries"].as_array().expect("entries");
    list.iter()
        .map(|entry| entry["action"].as_str().expect("an action").to_owned())
        .collect()
}

#[test]
fn b13_a_task_lives_inside_its_activity() {
    let world = planned();
    let outer = by(
        &world,
        "agent:a",
        &["claim", "acquire", "WI-001-A1", "--ttl", "20m", "--json"],
    )
    .ok()
    .json();
    let task = by(
        &world,
        "agent:a",
        &["claim", "acquire", "WI-001-A1-T1", "--ttl", "5h", "--json"],
    )
    .ok()
    .json();
    assert_eq!(task["parent"], outer["lease_id"]);
    assert_eq!(
        task["expires_at"], outer["expires_at"],
        "it cannot outlive the activity's"
    );
    // Nobody else gets into it, and nobody is offered what they could not take.
    let other = by(&world, "agent:b", &["claim", "acquire", "WI-001-A1-T2", "--json"]);
    assert_eq!((other.code, &other.json()["error"]["code"]), (4, &json!("held")));
    let ready = by(&world, "agent:b", &["ready", "--json"]).ok().json();
    assert_eq!(
        ready["issues"],
        json!([]),
        "and what is done in its parts is not taken itself"
    );
    // Renewing the task keeps it inside; releasing the activity releases both.
    let renewed = by(
        &world,
        "agent:a",
        &["claim", "renew", "WI-001-A1-T1", "--ttl", "9h", "--json"],
    )
    .ok()
    .json();
    assert_eq!(renewed["expires_at"], outer["expires_at"]);
    let released = by(&world, "agent:a", &["claim", "release", "WI-001-A1", "--json"])
        .ok()
        .json();
    assert_eq!(
        released["released"].as_array().map(Vec::len),
        Some(2),
        "{released}"
    );
    // And an activity is not given away while somebody else works on a task of it.
    let _ = by(&world, "agent:b", &["claim", "acquire", "WI-001-A1-T2"]).ok();
    assert_eq!(by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).code, 4);
}

#[test]
fn b13_durations_follow_type_and_holder() {
    let world = planned();
    let ttl = |agent: &str, issue: &str| {
        let lease = by(&world, agent, &["claim", "acquire", issue, "--json"])
            .ok()
            .json();
        let _ = by(&world, agent, &["claim", "release", issue]).ok();
        lease["ttl_secs"].as_u64().expect("seconds")
    };
    assert_eq!(ttl("agent:a", "WI-001-A1"), 3600);
    assert_eq!(ttl("human:h", "WI-001-A1"), 8 * 3600);
    assert_eq!(ttl("agent:a", "WI-001-A1-T1"), 1800);
    assert_eq!(ttl("human:h", "WI-001-A1-T1"), 4 * 3600);
}

#[test]
fn b14_each_activity_lease_is_mirrored() {
    let world = planned();
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
    let file = locked(&world);
    assert_eq!(
        (&file["holder"], &file["holder_type"]),
        (&json!("agent:a"), &json!("agent"))
    );
    assert_eq!(file["task_id"], Value::Null);
    let task = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1-T2", "--json"])
        .ok()
        .json();
    let file = locked(&world);
    assert_eq!(file["task_id"], "WI-001-A1-T2");
    assert_eq!(file["task_expires"], task["expires_at"]);
    let _ = by(&world, "agent:a", &["claim", "release", "WI-001-A1-T2"]).ok();
    assert_eq!(locked(&world)["task_id"], Value::Null);
    let moved = by(
        &world,
        "agent:a",
        &["claim", "transfer", "WI-001-A1", "--to", "agent:b", "--json"],
    )
    .ok()
    .json();
    assert_eq!(locked(&world)["holder"], "agent:b");
    let id = moved["lease_id"].as_str().expect("an id");
    let _ = by(
        &world,
        "human:h",
        &["claim", "force-evict", id, "--reason", "gone"],
    )
    .ok();
    assert!(!lock_file(&world).exists());
    // Plain issues have none.
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001"]).ok();
    assert_eq!(
        fs::read_dir(world.repo().join(".git/jit/activities"))
            .expect("list")
            .count(),
        0
    );
}

#[test]
fn b14_a_lock_file_of_somebody_else_is_a_lease() {
    let world = planned();
    write_lock(&world, "filer", FAR);
    let refused = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1", "--json"]);
    assert_eq!(refused.code, 4);
    assert_eq!(
        refused.json()["error"]["details"]["lease"]["agent_id"],
        "agent:filer"
    );
    assert_eq!(
        by(
            &world,
            "agent:a",
            &["issue", "update", "WI-001-A1", "--title", "x"]
        )
        .code,
        5
    );
    // What it says about a task counts too.
    let mut file = locked(&world);
    file["task_id"] = json!("WI-001-A1-T1");
    file["task_acquired"] = json!("2026-01-24T10:30:00Z");
    file["task_expires"] = json!(FAR);
    fs::write(lock_file(&world), file.to_string()).expect("write");
    assert_eq!(
        by(&world, "agent:a", &["claim", "acquire", "WI-001-A1-T1"]).code,
        4
    );
    let claims = world.jit(["claim", "list", "--json"]).ok().json();
    assert_eq!(claims["active"].as_array().map(Vec::len), Some(2), "{claims}");
    // Its deletion gives back both.
    fs::remove_file(lock_file(&world)).expect("removed");
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1-T1"]).ok();
    // The deletion of ours gives back nothing.
    fs::remove_file(lock_file(&world)).expect("removed");
    assert_eq!(by(&world, "agent:b", &["claim", "acquire", "WI-001-A1"]).code, 4);
}

#[test]
fn b14_expired_and_malformed_lock_files_are_reported_and_replaced() {
    for (content, said) in [
        (
            r#"{"holder":"x","holder_type":"agent","acquired":"2020-01-01T00:00:00Z","expires":"2020-01-01T01:00:00Z"}"#,
            "expired",
        ),
        ("not json", "not by the protocol"),
        (
            r#"{"holder":"../../x\n","holder_type":"agent","acquired":"2020-01-01T00:00:00Z","expires":"2999-01-01T01:00:00Z"}"#,
            "not by the protocol",
        ),
    ] {
        let world = planned();
        fs::create_dir_all(world.repo().join(".git/jit/activities")).expect("folder");
        fs::write(lock_file(&world), content).expect("write");
        // Its writer has had its time.
        let before = SystemTime::now() - Duration::from_secs(31);
        let file = fs::File::options().write(true).open(lock_file(&world));
        file.and_then(|file| file.set_modified(before))
            .expect("an older file");
        let ran = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
        assert!(ran.stderr.contains(said), "{content}: {}", ran.stderr);
        assert_eq!(locked(&world)["holder"], "agent:a");
    }
}

#[test]
fn b14_links_and_pipes_in_place_of_a_lock_file_stop_nobody() {
    let world = planned();
    fs::create_dir_all(world.repo().join(".git/jit/activities")).expect("folder");
    let secret = world.root().join("secret");
    fs::write(&secret, "keep me").expect("write");
    std::os::unix::fs::symlink(&secret, lock_file(&world)).expect("link");
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
    assert_eq!(fs::read_to_string(&secret).expect("read"), "keep me");
    assert_eq!(locked(&world)["holder"], "agent:a");
}

#[test]
fn e5_a_whole_is_done_after_its_parts() {
    let world = planned();
    let done = |id: &str| {
        by(
            &world,
            "human:ada",
            &["issue", "update", id, "--state", "done", "--json"],
        )
    };
    let refused = done("WI-001-A1").exits(6).json();
    assert_eq!(refused["error"]["code"], "open_parts");
    assert_eq!(
        refused["error"]["details"]["candidates"],
        json!(["WI-001-A1-T1", "WI-001-A1-T2"])
    );
    assert!(
        refused["error"]["help"]
            .to_string()
            .contains("--parent WI-001-A1"),
        "{refused}"
    );
    assert_eq!(done("WI-001").exits(6).json()["error"]["code"], "open_parts");
    // What is rejected is closed too, and so is what is deleted.
    let _ = done("WI-001-A1-T1").ok();
    let _ = done("WI-001-A1").exits(6);
    let _ = by(
        &world,
        "human:ada",
        &["issue", "update", "WI-001-A1-T2", "--state", "rejected"],
    )
    .ok();
    let _ = done("WI-001-A1").ok();
    let _ = done("WI-001").ok();
    // A whole may be rejected whatever its parts are.
    let again = planned();
    let _ = by(
        &again,
        "human:ada",
        &["issue", "update", "WI-001-A1", "--state", "rejected"],
    )
    .ok();
}

/// Changes the state in the file of an issue as an editor would.
fn set_state(world: &World, id: &str, state: &str) {
    let path = world.repo().join(".jit/issues").join(id).join("issue.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).expect("issue.json")).expect("JSON");
    file["state"] = state.into();
    fs::write(&path, serde_json::to_vec_pretty(&file).expect("text")).expect("write");
}

#[test]
fn e5_an_edit_by_hand_makes_no_whole_done_before_its_parts() {
    let world = planned();
    let state = |id: &str| {
        let ran = world.jit(["issue", "show", id, "--json"]).ok();
        (
            ran.json()["state"].as_str().unwrap_or_default().to_owned(),
            ran.stderr,
        )
    };
    set_state(&world, "WI-001-A1", "done");
    let (now, said) = state("WI-001-A1");
    assert_eq!(now, "ready");
    assert!(said.contains("WI-001-A1-T1, WI-001-A1-T2"), "{said}");
    let file = fs::read_to_string(world.repo().join(".jit/issues/WI-001-A1/issue.json")).expect("there");
    assert!(file.contains("\"state\": \"ready\""), "{file}");
    assert_eq!(state("WI-001-A1").1, "", "said once");
    // Together with its parts it is, from the top to the bottom, whichever is asked about.
    for id in ["WI-001", "WI-001-A1", "WI-001-A1-T1", "WI-001-A1-T2"] {
        set_state(&world, id, "done");
    }
    assert_eq!(state("WI-001"), ("done".to_owned(), String::new()));
    assert_eq!(state("WI-001-A1-T2"), ("done".to_owned(), String::new()));
    let _ = world.jit(["validate"]).ok();
}

#[test]
fn d4_the_nine_actions_are_recorded() {
    let world = planned();
    let run = |args: &[&str]| {
        let _ = by(&world, "agent:a", args).ok();
    };
    run(&["claim", "acquire", "WI-001-A1"]);
    run(&["block", "WI-001-A1", "--reason", "no key"]);
    run(&["unblock", "WI-001-A1"]);
    run(&["pivot", "start", "WI-001-A1", "--reason", "smaller"]);
    assert_eq!(
        by(
            &world,
            "agent:a",
            &["pivot", "start", "WI-001-A1", "--reason", "again"]
        )
        .code,
        2
    );
    run(&["pivot", "complete", "WI-001-A1", "--reason", "settled"]);
    run(&["issue", "update", "WI-001-A1-T1", "--state", "done"]);
    run(&["issue", "update", "WI-001-A1-T2", "--state", "rejected"]);
    run(&["issue", "update", "WI-001-A1", "--state", "done"]);
    let expected = [
        "work_item_created",
        "claimed_activity",
        "blocked",
        "unblocked",
        "pivot_started",
        "pivot_completed",
        "completed_task",
        "completed_activity",
    ];
    assert_eq!(actions(&world), expected);
    // The file says the same, and is mended when it was cut, garbled or lost.
    let path = world.repo().join(".git/jit/changelog.log");
    let lines = || -> Vec<Value> {
        let text = fs::read_to_string(&path).expect("a changelog");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    let whole = fs::read(&path).expect("read");
    assert_eq!(lines().len(), expected.len());
    for (n, damage) in [
        Vec::new(),
        whole[..whole.len() - 7].to_vec(),
        b"garbage\n".to_vec(),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(&path, damage).expect("write");
        run(&["block", "WI-001", "--reason", &format!("reason {n}")]);
        assert_eq!(lines().len(), actions(&world).len());
        for (line, action) in lines().iter().zip(actions(&world)) {
            assert_eq!(line["action"], action);
            let kind = line["worker"]
                .as_str()
                .and_then(|worker| worker.split(':').next());
            assert!(line["timestamp"].is_string());
            assert_eq!(line["worker_type"].as_str(), kind);
        }
    }
}

#[test]
fn d4_taking_over_an_expired_activity_is_a_recovery() {
    let world = planned();
    let _ = by(
        &world,
        "agent:a",
        &["claim", "acquire", "WI-001-A1", "--ttl", "1s"],
    )
    .ok();
    // Waiting for it ends when it expires.
    let _ = by(
        &world,
        "agent:b",
        &["claim", "acquire", "WI-001-A1", "--wait", "30s"],
    )
    .ok();
    let entries = world.jit(["changelog", "--json"]).ok().json();
    let last = entries["entries"]
        .as_array()
        .and_then(|all| all.last())
        .cloned()
        .expect("an entry");
    assert_eq!(
        (&last["action"], &last["worker"]),
        (&json!("recovered_activity"), &json!("agent:b"))
    );
}

#[test]
fn b14_a_lock_file_of_ours_that_is_gone_is_made_again() {
    let world = planned();
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
    let ours = locked(&world);
    // By whoever writes next about claims, and it is said.
    let _ = by(&world, "agent:b", &["claim", "acquire", "WI-001"]).ok();
    fs::remove_file(lock_file(&world)).expect("removed");
    let ran = by(&world, "agent:b", &["claim", "renew", "WI-001"]).ok();
    assert!(ran.stderr.contains("WI-001-A1 was gone"), "{}", ran.stderr);
    assert_eq!(locked(&world), ours);
    // By validate too, which reports it once.
    fs::remove_dir_all(world.repo().join(".git/jit/activities")).expect("removed");
    let found = world.jit(["validate", "--json"]);
    assert_eq!(
        (found.code, &found.json()["problems"][0]["check"]),
        (6, &json!("lock files"))
    );
    assert_eq!(locked(&world), ours);
    let _ = world.jit(["validate"]).ok();
    // Nothing is said where nothing happened.
    let quiet = by(&world, "agent:b", &["claim", "renew", "WI-001"]).ok();
    assert!(!quiet.stderr.contains("lock file"), "{}", quiet.stderr);
}

#[test]
fn b14_a_file_over_a_live_lease_is_reported() {
    let world = planned();
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
    write_lock(&world, "filer", FAR);
    let ran = by(&world, "agent:a", &["claim", "renew", "WI-001-A1"]).ok();
    assert!(
        ran.stderr
            .contains("agent:filer wrote a lock file for WI-001-A1 while agent:a holds it"),
        "{}",
        ran.stderr
    );
    assert_eq!(locked(&world)["holder"], "agent:a");
}

#[test]
fn b14_who_reads_sees_what_lock_files_say() {
    let world = planned();
    let offered = || {
        let ready = by(&world, "agent:a", &["ready", "--json"]).ok().json();
        let issues = ready["issues"].as_array().expect("issues").clone();
        issues.iter().any(|issue| issue["id"] == "WI-001-A1")
    };
    let held_by = || {
        let claims = world.jit(["claim", "list", "--json"]).ok().json();
        claims["active"][0]["agent_id"].clone()
    };
    let events = || world.jit(["events", "--json"]).ok().stdout;
    let before = events();
    assert!(offered());
    write_lock(&world, "filer", FAR);
    assert!(!offered());
    assert_eq!(held_by(), "agent:filer");
    assert_eq!(events(), before, "who reads does not write");
    // Once it is in the log, its deletion is seen as well.
    assert_eq!(by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).code, 4);
    fs::remove_file(lock_file(&world)).expect("removed");
    assert!(offered());
    assert_eq!(held_by(), Value::Null);
}

#[test]
fn d4_a_claim_by_lock_file_is_its_holders() {
    let world = planned();
    write_lock(&world, "filer", FAR);
    assert_eq!(by(&world, "human:h", &["claim", "acquire", "WI-001-A1"]).code, 4);
    let entries = world.jit(["changelog", "--json"]).ok().json();
    let last = entries["entries"].as_array().and_then(|all| all.last()).cloned();
    let last = last.expect("an entry");
    assert_eq!(
        (&last["action"], &last["worker"], &last["worker_type"]),
        (&json!("claimed_activity"), &json!("agent:filer"), &json!("agent"))
    );
}

#[test]
fn b14_a_folder_in_place_of_a_lock_file_is_moved_aside() {
    let world = planned();
    fs::create_dir_all(lock_file(&world)).expect("folder");
    fs::write(lock_file(&world).join("mine"), "keep me").expect("write");
    let ran = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
    assert!(ran.stderr.contains("not by the protocol"), "{}", ran.stderr);
    assert_eq!(locked(&world)["holder"], "agent:a");
    let aside = lock_file(&world).with_file_name("WI-001-A1.aside-1/mine");
    assert_eq!(fs::read_to_string(aside).expect("read"), "keep me");
}

#[test]
fn e5_a_circle_of_parents_keeps_nobody_from_the_end_and_reopened_parts_are_noted() {
    let world = merging::world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    a.jit(["issue", "update", "WI-001", "--parent", "WI-002"]);
    a.commit();
    b.jit(["issue", "update", "WI-002", "--parent", "WI-001"]);
    b.commit();
    // Each for itself is none: the merge makes it.
    let (code, said) = a.take("merge", &b);
    assert_eq!(code, 0, "{said}");
    assert_eq!(a.show("WI-002")["parent"], "WI-001");
    let report = a.run(["validate", "--json"]).exits(6).json();
    assert!(
        report["problems"].to_string().contains("part of each other"),
        "{report}"
    );
    a.jit(["issue", "update", "WI-001", "--state", "done"]);
    a.jit(["issue", "update", "WI-002", "--state", "done"]);
    a.jit(["issue", "update", "WI-001", "--parent", "none"]);
    a.jit(["issue", "update", "WI-002", "--state", "ready"]);
    let report = a.run(["validate", "--json"]).ok().json();
    assert!(
        report["notes"].to_string().contains("part of is done: WI-002"),
        "{report}"
    );
}

#[test]
fn e5_no_edit_by_hand_makes_an_issue_part_of_itself() {
    let world = merging::world();
    let a = Tree::worktree_of(&world, "a");
    a.jit(["issue", "update", "WI-002", "--parent", "WI-001"]);
    a.edit("issue.json", |text| {
        text.replace("\"parent\": null", "\"parent\": \"WI-002\"")
    });
    let ran = a.run(["issue", "show", "WI-001", "--json"]).ok();
    assert_eq!(ran.json()["parent"], Value::Null);
    assert!(
        ran.stderr.contains("WI-001 -> WI-002 -> WI-001"),
        "{}",
        ran.stderr
    );
    assert!(a.read("issue.json").contains("\"parent\": null"));
    assert_eq!(a.run(["issue", "show", "WI-001"]).ok().stderr, "", "said once");
    let _ = a.run(["issue", "update", "WI-001", "--state", "done"]).exits(6);
    // Nor one wait for itself.
    a.jit(["issue", "update", "WI-003", "--add-dep", "WI-001"]);
    let file = a.path.join(".jit/issues/WI-003/issue.json");
    let text = fs::read_to_string(&file).expect("an issue");
    fs::write(&file, text.replace("\"parent\": null", "\"parent\": \"WI-001\"")).expect("write");
    let ran = a.run(["issue", "show", "WI-003", "--json"]).ok();
    assert_eq!(ran.json()["parent"], Value::Null);
    assert!(ran.stderr.contains("wait for itself"), "{}", ran.stderr);
}

#[test]
fn e5_an_edit_that_was_not_taken_does_not_come_back_with_another() {
    let world = planned();
    let folder = world.repo().join(".jit/issues/WI-001-A1");
    let state = || world.jit(["issue", "show", "WI-001-A1", "--json"]).ok().json()["state"].clone();
    set_state(&world, "WI-001-A1", "done");
    let refused = fs::read(folder.join("issue.json")).expect("read");
    assert_eq!(state(), "ready");
    // The same once more, and committed; then something else beside it.
    fs::write(folder.join("issue.json"), refused).expect("write");
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "edited"]);
    assert_eq!(state(), "ready");
    let line = "{\"op\":\"add\",\"value\":\"more\"}\n";
    fs::write(folder.join("labels.or-set.jsonl"), line).expect("write");
    let shown = world.jit(["issue", "show", "WI-001-A1", "--json"]).ok().json();
    assert_eq!(
        (&shown["state"], &shown["labels"]),
        (&json!("ready"), &json!(["more"]))
    );
}

#[test]
fn e5_no_change_of_type_gets_round_the_hierarchy() {
    let world = planned();
    for (id, kind) in [
        ("WI-001-A1", "task"),
        ("WI-001-A1-T1", "activity"),
        ("WI-001", "task"),
    ] {
        let ran = world.jit(["issue", "update", id, "--type", kind]).exits(2);
        assert!(ran.stderr.contains("cannot be part of"), "{}", ran.stderr);
    }
    // With another parent it fits.
    let moved = [
        "issue",
        "update",
        "WI-001-A1-T1",
        "--type",
        "activity",
        "--parent",
        "WI-001",
    ];
    let _ = world.jit(moved).ok();
    let _ = world
        .jit(["issue", "update", "WI-001-A1-T2", "--type", "chore"])
        .ok();
}

#[test]
fn b14_who_wrote_a_lock_file_uses_the_lease_with_jit_too() {
    let world = planned();
    write_lock(&world, "b", FAR);
    for words in [
        &["claim", "acquire", "WI-001-A1"][..],
        &["issue", "update", "WI-001-A1", "--title", "mine"],
        &["claim", "acquire", "WI-001-A1-T1"],
        &["claim", "renew", "WI-001-A1", "--ttl", "2h"],
    ] {
        let _ = by(&world, "agent:b", words).ok();
        assert_eq!(by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).code, 4);
    }
    // Renewed by jit it is jit's, and the file says the same.
    let claims = world.jit(["claim", "list", "--json"]).ok().json();
    let of_activity = claims["active"].as_array().expect("claims").iter();
    let mut of_activity = of_activity.filter(|claim| claim["issue_id"] == "WI-001-A1");
    let lease = of_activity.next().expect("a lease");
    assert_eq!(locked(&world)["expires"], lease["expires_at"], "{lease}");
    let _ = by(&world, "agent:b", &["claim", "release", "WI-001-A1"]).ok();
    assert!(!lock_file(&world).exists());
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
    let _ = by(&world, "agent:a", &["claim", "release", "WI-001-A1"]).ok();
    // Let go of at once.
    write_lock(&world, "b", FAR);
    let _ = by(&world, "agent:b", &["claim", "release", "WI-001-A1"]).ok();
    assert!(!lock_file(&world).exists());
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
}

#[test]
fn d4_taking_over_an_expired_lock_file_is_a_recovery() {
    let world = planned();
    write_lock(&world, "b", "2026-01-24T11:00:00Z");
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
    let entries = world.jit(["changelog", "--json"]).ok().json()["entries"].clone();
    let entries = entries.as_array().expect("entries").clone();
    let recovered = entries
        .iter()
        .find(|entry| entry["action"] == "recovered_activity");
    let details = &recovered.unwrap_or_else(|| panic!("{entries:?}"))["details"];
    assert!(
        details.as_str().is_some_and(|text| text.contains("agent:b")),
        "{details}"
    );
    assert!(!entries.iter().any(|entry| entry["action"] == "claimed_activity"));
}
