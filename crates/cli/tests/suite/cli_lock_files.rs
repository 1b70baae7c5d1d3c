//! Lock files of programs that know no `jit`: doubtful ones, and those of several writers (B14).

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

use crate::process_disk::may_be_another;
use crate::rescue_cleanup::give;

const JIT: &str = env!("CARGO_BIN_EXE_jit");
const FAR: &str = "2999-01-01T00:00:00Z";

fn planned() -> World {
    let world = World::with_jit(JIT);
    for (title, id) in [
        ("Item", "WI-001"),
        ("Activity", "WI-001-A1"),
        ("One", "WI-001-A1-T1"),
    ] {
        let _ = world.jit(["issue", "create", title, "--id", id]).ok();
    }
    world
}

fn acquire(world: &World, agent: &str) -> Ran {
    world.jit(["claim", "acquire", "WI-001-A1", "--agent-id", agent, "--json"])
}

fn lock_file(world: &World) -> PathBuf {
    world.repo().join(".git/jit/activities/WI-001-A1.lock")
}

fn write_lock(world: &World, holder: &str) {
    let file =
        json!({"holder": holder, "holder_type": "agent", "acquired": "2026-01-24T10:00:00Z", "expires": FAR});
    fs::write(lock_file(world), file.to_string()).expect("write");
}

fn held_by(world: &World) -> Value {
    let claims = world.jit(["claim", "list", "--json"]).ok().json();
    let active = claims["active"].as_array().expect("claims").clone();
    assert!(active.len() <= 1, "two holders: {claims}");
    active
        .first()
        .map_or(Value::Null, |claim| claim["agent_id"].clone())
}

#[test]
fn b14_init_makes_the_folder_of_lock_files() {
    let world = World::with_jit(JIT);
    assert!(world.repo().join(".git/jit/activities").is_dir());
    // In a clone, which needs no init, too.
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "use jit"]);
    world.git(world.root(), ["clone", "-q", "repo", "clone"]);
    let clone = world.root().join("clone");
    let _ = world
        .jit_in(&clone, ["issue", "create", "x", "--id", "WI-001"])
        .ok();
    assert!(clone.join(".git/jit/activities").is_dir());
}

#[test]
fn b14_a_lock_file_that_was_just_created_is_held_by_its_writer() {
    let world = planned();
    // As `open(path, 'x')` leaves it before the write.
    let created = fs::File::create_new(lock_file(&world)).expect("the first to create it");
    let refused = acquire(&world, "agent:a").exits(4).json();
    assert_eq!(refused["error"]["code"], "held");
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.contains("written just now"), "{message}");
    assert_eq!(fs::read(lock_file(&world)).expect("read"), b"", "not replaced");
    let other = world
        .jit(["claim", "acquire", "WI-001", "--agent-id", "agent:b"])
        .ok();
    assert!(other.stderr.contains("written just now"), "{}", other.stderr);
    let _ = world
        .jit(["claim", "release", "WI-001", "--agent-id", "agent:b"])
        .ok();
    // Once it is written, its writer is named.
    drop(created);
    write_lock(&world, "filer");
    assert_eq!(held_by(&world), "agent:filer");
    let refused = acquire(&world, "agent:a").exits(4).json();
    assert_eq!(refused["error"]["details"]["lease"]["agent_id"], "agent:filer");
    assert_eq!(held_by(&world), "agent:filer");
    let entries = world.jit(["changelog", "--json"]).ok().stdout;
    assert!(!entries.contains("agent:unknown"), "{entries}");
}

#[test]
fn b14_an_empty_file_that_nobody_writes_any_more_is_replaced() {
    let world = planned();
    let created = fs::File::create_new(lock_file(&world)).expect("created");
    let before = SystemTime::now() - Duration::from_secs(31);
    created.set_modified(before).expect("an older file");
    let ran = acquire(&world, "agent:a").ok();
    assert!(ran.stderr.contains("not by the protocol"), "{}", ran.stderr);
    assert_eq!(held_by(&world), "agent:a");
}

#[test]
fn b14_doubtful_times_are_held_and_reported() {
    // An hour from now, without the zone that it is meant in.
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let local = soon.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    for (expires, said) in [
        (local.as_str(), "without a zone"),
        ("9999-12-31T23:59:59Z", "too far in the future"),
        (FAR, "later than a lease may last"),
    ] {
        let world = planned();
        let file = json!({"holder": "filer", "holder_type": "agent", "acquired": "2026-01-24T10:00:00", "expires": expires});
        // With a byte order mark too.
        fs::write(lock_file(&world), format!("\u{feff}{file}")).expect("write");
        assert_eq!(held_by(&world), "agent:filer", "{expires}");
        let _ = acquire(&world, "agent:a").exits(4);
        let ran = world
            .jit(["claim", "acquire", "WI-001", "--agent-id", "agent:b"])
            .ok();
        assert!(ran.stderr.contains(said), "{expires}: {}", ran.stderr);
        let text = fs::read_to_string(lock_file(&world)).expect("still theirs");
        assert!(text.contains("filer"), "{text}");
    }
}

#[test]
fn b14_the_writer_of_the_present_lock_file_is_the_holder() {
    let world = planned();
    write_lock(&world, "first");
    let _ = acquire(&world, "agent:a").exits(4);
    assert_eq!(held_by(&world), "agent:first");
    // It lets go, and another one is next, with no command of jit in between.
    fs::remove_file(lock_file(&world)).expect("removed");
    write_lock(&world, "second");
    assert_eq!(held_by(&world), "agent:second");
    let refused = acquire(&world, "agent:a").exits(4).json();
    assert_eq!(refused["error"]["details"]["lease"]["agent_id"], "agent:second");
    assert_eq!(held_by(&world), "agent:second");
    let _ = world
        .jit([
            "issue",
            "update",
            "WI-001-A1",
            "--title",
            "x",
            "--agent-id",
            "agent:first",
        ])
        .exits(5);
    fs::remove_file(lock_file(&world)).expect("removed");
    let _ = acquire(&world, "agent:a").ok();
    let _ = world.jit(["validate"]).ok();
}

#[test]
fn b14_a_malformed_file_in_the_place_of_the_holders_frees_the_activity() {
    let world = planned();
    write_lock(&world, "first");
    assert_eq!(held_by(&world), "agent:first");
    fs::remove_file(lock_file(&world)).expect("removed");
    let created = fs::File::create_new(lock_file(&world)).expect("created");
    created
        .set_modified(SystemTime::now() - Duration::from_secs(120))
        .expect("an older file");
    assert_eq!(held_by(&world), Value::Null);
    let ran = acquire(&world, "agent:a").ok();
    assert!(ran.stderr.contains("not by the protocol"), "{}", ran.stderr);
    assert_eq!(held_by(&world), "agent:a");
}

#[test]
fn b14_a_file_that_jit_may_not_read_holds_its_activity_and_nothing_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let way = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if !may_be_another() {
        return;
    }
    let world = planned();
    give(world.root(), 65534);
    write_lock(&world, "filer");
    let closed = fs::Permissions::from_mode(0o000);
    fs::set_permissions(lock_file(&world), closed).expect("a mode");
    let by_user = |agent: &str, words: &[&str]| world.run(world.jit_by_way_of(&way, agent, words));
    for words in [
        &["claim", "acquire", "WI-001"][..],
        &["status"],
        &["issue", "update", "WI-001", "--title", "x"],
    ] {
        let _ = by_user("agent:b", words).ok();
    }
    let refused = by_user("agent:a", &["claim", "acquire", "WI-001-A1"]).exits(4);
    let file = "activities/WI-001-A1.lock";
    assert!(
        refused.stderr.contains("cannot be read") && refused.stderr.contains(file),
        "{}",
        refused.stderr
    );
    fs::remove_file(lock_file(&world)).expect("removed");
    let _ = by_user("agent:a", &["claim", "acquire", "WI-001-A1"]).ok();
}

#[test]
fn b13_ids_imply_type_and_parent() {
    let world = planned();
    let shown = |id: &str| world.jit(["issue", "show", id, "--json"]).ok().json();
    let activity = shown("WI-001-A1");
    assert_eq!(
        (&activity["type"], &activity["parent"]),
        (&json!("activity"), &json!("WI-001"))
    );
    let task = shown("WI-001-A1-T1");
    assert_eq!(
        (&task["type"], &task["parent"]),
        (&json!("task"), &json!("WI-001-A1"))
    );
    // Explicit values count.
    let given = [
        "issue",
        "create",
        "x",
        "--id",
        "WI-001-A1-T2",
        "--type",
        "bug",
        "--parent",
        "WI-001",
    ];
    let _ = world.jit(given).ok();
    let bug = shown("WI-001-A1-T2");
    assert_eq!((&bug["type"], &bug["parent"]), (&json!("bug"), &json!("WI-001")));
    // Without the issue above there is no parent, and that is said.
    let ran = world.jit(["issue", "create", "x", "--id", "WI-002-A1"]).ok();
    assert!(ran.stderr.contains("no issue WI-002 yet"), "{}", ran.stderr);
    assert_eq!(shown("WI-002-A1")["parent"], Value::Null);
}
