//! Nothing outside jit's own files is touched, whatever a clone or the environment says.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use jit_testkit::world::World;

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// A clone may hold links where jit writes: they are replaced or refused, never followed.
#[test]
fn a5_links_in_a_clone_are_not_written_through() {
    let world = World::with_jit(JIT);
    let precious = world.home().join("precious");
    fs::write(&precious, "mine").expect("write");
    let local = world.repo().join(".jit");
    fs::remove_file(local.join("worktree.json")).expect("remove");
    symlink(&precious, local.join("worktree.json")).expect("link");
    fs::remove_file(world.repo().join(".git/jit-worktree.json")).expect("remove");
    let _ = world.jit(["claim", "list"]).ok();
    let _ = world.jit(["worktree", "init"]).ok();
    assert_eq!(fs::read_to_string(&precious).expect("read"), "mine");

    let elsewhere = world.home().join("elsewhere");
    fs::create_dir(&elsewhere).expect("make");
    fs::remove_dir_all(local.join("issues")).expect("remove");
    symlink(&elsewhere, local.join("issues")).expect("link");
    let made = world.jit(["issue", "create", "t", "--id", "WI-1"]).ok();
    assert!(
        made.stderr.contains("does not write through it"),
        "{}",
        made.stderr
    );
    assert_eq!(fs::read_dir(&elsewhere).expect("list").count(), 0);
    // The issue itself is kept: the replica has it.
    let _ = world.jit(["issue", "show", "WI-1"]).ok();
}

/// JIT_DIR names a folder of jit's own. Anything else is left as it is.
#[test]
fn a1_init_leaves_a_foreign_folder_alone() {
    let world = World::new(JIT);
    let foreign = world.home().join("project");
    fs::create_dir(&foreign).expect("make");
    fs::write(foreign.join("run.sh"), "#!/bin/sh").expect("write");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("meta").permissions().mode() & 0o777;
    for path in [foreign.join("run.sh"), foreign.clone()] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
    }
    let mut init = world.jit_command(&world.repo());
    init.arg("init").env("JIT_DIR", &foreign);
    let refused = world.run(init).exits(2);
    assert!(refused.stderr.contains("is not jit's"), "{}", refused.stderr);
    assert_eq!((mode(&foreign), mode(&foreign.join("run.sh"))), (0o755, 0o755));
    assert_eq!(fs::read_dir(&foreign).expect("list").count(), 1);
}

/// A request id in the agent's environment is meant for its own commands, not for every beat of its heart.
#[test]
fn b12_a_heartbeat_renews_whatever_request_id_the_environment_names() {
    let world = World::with_jit(JIT);
    for id in ["WI-1", "WI-2"] {
        let _ = world.jit(["issue", "create", "t", "--id", id]).ok();
        let _ = world
            .jit(["claim", "acquire", id, "--ttl", "2s", "--agent-id", "agent:a"])
            .ok();
    }
    let renewals = || {
        let events = world
            .jit(["events", "--type", "claim.renewed", "--json"])
            .ok()
            .json();
        events["events"].as_array().map_or(0, Vec::len)
    };
    // Beat until each of the two has been renewed twice: at most a few seconds.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while renewals() < 4 {
        assert!(std::time::Instant::now() < until, "{} renewals", renewals());
        let mut beat = world.jit_command(&world.repo());
        beat.args(["heartbeat", "--once", "--agent-id", "agent:a"])
            .env("JIT_REQUEST_ID", "mine");
        let _ = world.run(beat).ok();
    }
}

/// What can be made again is made again, folder and all.
#[test]
fn d1_a_deleted_state_folder_is_made_again() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "t", "--id", "WI-1"]).ok();
    let _ = world
        .jit(["claim", "acquire", "WI-1", "--agent-id", "agent:a"])
        .ok();
    fs::remove_dir_all(world.control().join("state")).expect("remove");
    let _ = world.jit(["claim", "list"]).ok();
    let _ = world
        .jit(["claim", "acquire", "WI-1", "--agent-id", "agent:b"])
        .exits(4);
    let _ = world.jit(["validate"]).ok();
    // Damage on top of that is still salvaged.
    let log = world.control().join("events/control.jsonl");
    let text = fs::read_to_string(&log).expect("read");
    let lines: Vec<&str> = text.lines().collect();
    fs::write(
        &log,
        format!("{}\n{}\n", lines[..3].join("\n"), lines[4..].join("\n")),
    )
    .expect("write");
    fs::remove_dir_all(world.control().join("state")).expect("remove");
    let _ = world
        .jit(["claim", "renew", "WI-1", "--agent-id", "agent:a"])
        .exits(1);
    let salvaged = world.jit(["recover", "--json"]).ok().json();
    assert_eq!(salvaged["salvaged"], true, "{salvaged}");
    let _ = world.jit(["validate"]).ok();
}
