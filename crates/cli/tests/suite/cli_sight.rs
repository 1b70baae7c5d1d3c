//! Seeing and mending (D1, D3, D5): events, doctor, validate, recover, and a control plane that is not what it should be.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use jit_testkit::world::World;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn world() -> World {
    let world = World::with_jit(JIT);
    let _ = world
        .jit(["issue", "create", "Parse dates", "--id", "WI-001"])
        .ok();
    let _ = world
        .jit(["claim", "acquire", "WI-001", "--agent-id", "agent:one"])
        .ok();
    world
}

/// A check of `jit doctor` by its name.
fn check(world: &World, exit: i32, name: &str) -> Value {
    let report = world.jit(["doctor", "--json"]).exits(exit).json();
    assert_eq!(report["ok"], json!(exit == 0));
    let all = report["checks"].as_array().cloned().unwrap_or_default();
    all.into_iter()
        .find(|check| check["name"] == name)
        .unwrap_or_default()
}

#[test]
fn d3_events_in_one_order_by_type_and_time() {
    let world = world();
    let events = |args: &[&str]| {
        let ran = world.jit(["events", "--json"].iter().chain(args)).ok().json();
        ran["events"].as_array().cloned().unwrap_or_default()
    };
    let all = events(&[]);
    let sequences: Vec<u64> = all
        .iter()
        .filter_map(|event| event["sequence"].as_u64())
        .collect();
    assert_eq!(sequences, [1, 2, 3, 4]);
    for event in &all {
        for name in [
            "schema_version",
            "sequence",
            "type",
            "timestamp",
            "actor",
            "payload",
        ] {
            assert!(!event[name].is_null(), "{name}: {event}");
        }
        assert!(event["sum"].is_null() && event["prev"].is_null(), "{event}");
    }
    let kinds = |args: &[&str]| {
        events(args)
            .iter()
            .filter_map(|e| e["type"].as_str().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(&["--type", "claim"]), ["claim.acquired"]);
    assert_eq!(
        kinds(&["--type", "claim.acquired", "--type", "issue"]),
        ["issue.created", "claim.acquired"]
    );
    assert_eq!(
        kinds(&["--type", "cla"]),
        Vec::<String>::new(),
        "a group is a whole word"
    );
    assert_eq!(kinds(&["--since", "1h"]).len(), 4);
    assert_eq!(kinds(&["--since", "2999-01-01T00:00:00Z"]).len(), 0);
    let at = all[3]["timestamp"].as_str().unwrap_or_default();
    assert!(kinds(&["--since", at]).contains(&"claim.acquired".to_owned()));
    let _ = world.jit(["events", "--since", "yesterday"]).exits(2);
    let text = world.jit(["events"]).ok().stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].ends_with("WI-001  Parse dates"), "{text}");
    assert!(lines[3].ends_with("agent:one  WI-001"), "{text}");
}

#[test]
fn d3_follow_prints_one_object_a_line_as_it_happens() {
    let world = world();
    let mut child = world
        .jit_command(&world.repo())
        .args(["events", "--follow", "--json", "--type", "claim"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("jit starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("text");
        serde_json::from_str(&line).expect("one object a line")
    };
    assert_eq!(next()["type"], "claim.acquired", "what was before");
    let _ = world.jit(["issue", "create", "not a claim"]).ok();
    let _ = world
        .jit(["claim", "renew", "WI-001", "--agent-id", "agent:one"])
        .ok();
    assert_eq!(next()["type"], "claim.renewed");
    let _ = world
        .jit(["claim", "release", "WI-001", "--agent-id", "agent:one"])
        .ok();
    let last = next();
    assert_eq!(
        (&last["type"], &last["sequence"]),
        (&json!("claim.released"), &json!(7))
    );
    child.kill().expect("kill");
    child.wait().expect("wait");
}

#[test]
fn d5_a_healthy_repository_passes() {
    let world = world();
    let _ = world.jit(["hooks", "install"]).ok();
    let report = world.jit(["doctor", "--json"]).ok().json();
    let bad: Vec<&Value> = report["checks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|c| c["status"] != "ok")
        .collect();
    // How much space this machine has is its own affair, and whether jit is installed on it.
    let own = |check: &&Value| check["name"] == "disk" || check["name"] == "path";
    assert!(bad.iter().all(own), "{bad:?}");
    let text = world.jit(["doctor"]).ok().stdout;
    assert!(
        text.contains("✓ log           4 lines, 1 leases, 1 issues; the history has 1 KiB in 1 file"),
        "{text}"
    );
}

#[test]
fn d5_a_missing_merge_driver_is_mended_by_init_and_a_foreign_one_is_found() {
    let world = world();
    world.git(
        &world.repo(),
        ["config", "merge.jit-issue.driver", "something-else %A"],
    );
    let found = check(&world, 6, "merge driver");
    assert_eq!(found["status"], "fail");
    let mut help = world.command("sh", &world.repo());
    help.args(["-c", found["help"].as_str().expect("a command")]);
    let _ = world.run(help).ok();
    assert_eq!(check(&world, 0, "merge driver")["status"], "ok");
    let former = "jit merge-driver %O %A %B %P";
    world.git(&world.repo(), ["config", "merge.jit-issue.driver", former]);
    let found = check(&world, 0, "merge driver");
    assert_eq!(
        (&found["status"], &found["help"]),
        (&json!("warn"), &json!("jit init"))
    );
    world.git(&world.repo(), ["config", "--remove-section", "merge.jit-issue"]);
    assert_eq!(check(&world, 6, "merge driver")["status"], "fail");
    let _ = world.jit(["init"]).ok();
    assert_eq!(check(&world, 0, "merge driver")["status"], "ok");
}

#[test]
fn d5_open_permissions_are_found_with_the_command_that_mends_them() {
    let world = world();
    let control = world.control();
    let open =
        |mode| std::fs::set_permissions(&control, std::fs::Permissions::from_mode(mode)).expect("chmod");
    open(0o777);
    let found = check(&world, 6, "permissions");
    assert_eq!(found["status"], "fail");
    assert_eq!(
        world.stable(found["help"].as_str().unwrap_or_default()),
        "chmod 700 [WORLD]/repo/.git/jit"
    );
    open(0o755);
    assert_eq!(
        check(&world, 0, "permissions")["status"],
        "warn",
        "can be read, not changed"
    );
    open(0o700);
    assert_eq!(check(&world, 0, "permissions")["status"], "ok");
}

#[test]
fn d5_bad_configuration_and_lost_worktrees_are_found() {
    let world = world();
    let two = world.worktree("two");
    let _ = world.jit(["issue", "create", "x", "--id", "WI-002"]).ok();
    let _ = world.jit_in(&two, ["claim", "acquire", "WI-002"]).ok();
    std::fs::remove_dir_all(&two).expect("remove");
    assert_eq!(check(&world, 0, "worktrees")["status"], "warn");
    assert_eq!(check(&world, 0, "leases")["status"], "warn");
    std::fs::write(world.repo().join(".jit/config.toml"), "nonsense = 1\n").expect("write");
    assert_eq!(check(&world, 6, "config")["status"], "fail");
    let nowhere = World::new(JIT);
    assert_eq!(check(&nowhere, 6, "store")["help"], "jit init");
}

/// Damages the log in its middle and takes away the journal that could mend it.
fn damage(world: &World) {
    let log = world.control().join("events/control.jsonl");
    let mut bytes = std::fs::read(&log).expect("the log");
    let third = bytes
        .split_inclusive(|b| *b == b'\n')
        .take(2)
        .map(<[u8]>::len)
        .sum::<usize>()
        + 20;
    bytes[third] ^= 1;
    std::fs::write(&log, bytes).expect("write");
    for entry in std::fs::read_dir(world.control().join("state")).expect("the folder") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("remove");
    }
}

#[test]
fn d1_middle_of_log_damage_is_refused_described_and_salvaged_with_a_backup() {
    let world = world();
    let _ = world.jit(["issue", "create", "y", "--id", "WI-002"]).ok();
    damage(&world);
    let refused = world
        .jit(["claim", "acquire", "WI-002", "--json"])
        .exits(1)
        .json();
    assert_eq!(refused["error"]["code"], "damaged");
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("line") && message.contains("byte"), "{message}");
    assert!(
        refused["error"]["help"].to_string().contains("jit recover"),
        "{refused}"
    );
    let report = world.jit(["validate", "--json"]).exits(6).json();
    assert_eq!(report["ok"], false);
    assert!(report["problems"].as_array().is_some_and(|all| !all.is_empty()));
    let _ = world.jit(["validate"]).exits(6);
    let _ = world.jit(["doctor"]).exits(6);
    let saved = world.jit(["recover", "--json"]).ok().json();
    assert_eq!(saved["salvaged"], true);
    assert!(saved["backup"].is_string(), "{saved}");
    let _ = world.jit(["validate"]).ok();
    let lease = world.jit(["claim", "list", "--json"]).ok().json();
    assert_eq!(lease["active"][0]["agent_id"], "agent:one", "{lease}");
    let again = world.jit(["recover"]).ok().stdout;
    assert!(again.starts_with("The log is sound"), "{again}");
}

#[test]
fn d1_a_torn_last_line_and_a_garbage_index_heal_by_themselves() {
    let world = world();
    let log = world.control().join("events/control.jsonl");
    let mut bytes = std::fs::read(&log).expect("the log");
    bytes.extend_from_slice(b"{\"torn");
    std::fs::write(&log, bytes).expect("write");
    std::fs::write(world.control().join("claims.index.json"), "garbage").expect("write");
    let _ = world.jit(["validate"]).exits(6);
    let ran = world.jit(["issue", "create", "y"]).ok();
    assert!(ran.stderr.contains("warning:"), "{}", ran.stderr);
    let _ = world.jit(["validate"]).ok();
    let index: Value =
        serde_json::from_slice(&std::fs::read(world.control().join("claims.index.json")).expect("read"))
            .expect("JSON");
    assert_eq!(index["active"][0]["agent_id"], "agent:one");
}

#[test]
fn d1_a_control_plane_that_is_a_symlink_or_a_file_is_refused_clearly() {
    let world = world();
    let control = world.control();
    let aside = world.root().join("aside");
    std::fs::rename(&control, &aside).expect("rename");
    let refuse = |what: &str| {
        for args in [
            &["claim", "acquire", "WI-001"][..],
            &["claim", "list"],
            &["issue", "create", "x"],
            &["init"],
        ] {
            let ran = world.jit(args.iter().chain(&["--json"])).exits(1).json();
            assert_eq!(ran["error"]["code"], "io", "{what} {args:?}");
            let message = world.stable(ran["error"]["message"].as_str().unwrap_or_default());
            assert!(message.contains("[WORLD]/repo/.git/jit"), "{message}");
        }
        let _ = world.jit(["doctor"]).exits(6);
    };
    std::os::unix::fs::symlink(&aside, &control).expect("symlink");
    let before = std::fs::read(aside.join("events/control.jsonl")).expect("read");
    refuse("symlink");
    assert_eq!(
        std::fs::read(aside.join("events/control.jsonl")).expect("read"),
        before,
        "nothing written through it"
    );
    std::fs::remove_file(&control).expect("remove");
    std::fs::write(&control, "a file").expect("write");
    refuse("file");
    assert_eq!(std::fs::read_to_string(&control).expect("read"), "a file");
}
