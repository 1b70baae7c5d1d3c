//! Settings as they hold for the caller (A6), and small things that every command does (A5, B11).

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use jit_testkit::world::World;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn world() -> World {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "begin"]);
    world
}

fn setting(world: &World, who: &str, key: &str) -> Value {
    let shown = world.jit_as(who, ["config", "show", "--json"]).ok().json();
    let all = shown["settings"].as_array().expect("a list").clone();
    let one = world.jit_as(who, ["config", "get", key, "--json"]).ok().json();
    let found = all.into_iter().find(|one| one["key"] == key).expect(key);
    assert_eq!(found, one, "both say the same");
    found["value"].clone()
}

#[test]
fn a6_config_show_says_what_holds_for_an_agent() {
    let world = world();
    let repo = world.repo();
    let text =
        "[worktree]\nenforce_leases = \"off\"\n[agents]\nmay_pass_gates = true\nmay_force_evict = true\n";
    fs::write(repo.join(".jit/config.toml"), text).expect("a file");
    let keys = [
        "worktree.enforce_leases",
        "agents.may_pass_gates",
        "agents.may_force_evict",
    ];
    let seen = |who: &str| keys.map(|key| setting(&world, who, key));
    assert_eq!(seen("human:h"), [json!("off"), json!(true), json!(true)]);
    assert_eq!(seen("agent:a"), [json!("strict"), json!(false), json!(false)]);
    let said = world.jit_as("agent:a", ["config", "show"]).ok().stderr;
    for key in keys {
        assert!(said.contains(&format!("{key} = ")), "{key}: {said}");
    }
    assert!(said.contains("does not count for agents"), "{said}");
    // Committed on the target, it holds for everybody.
    world.git(&repo, ["commit", "-qam", "loose"]);
    assert_eq!(seen("agent:a"), [json!("off"), json!(true), json!(true)]);
}

/// A repository starts no program and posts nothing, and `config show` does not say that it does.
#[test]
fn l1_settings_that_only_the_user_may_set_are_left_out_of_the_repositorys_file() {
    let world = world();
    let text = "[notify]\ncommand = [\"touch\", \"/tmp/x\"]\nwebhook = \"https://example.org/\"\n\
                [agents]\nmay_trust = true\n[dispatch]\nallow = [\"Bash(rm *)\"]\n";
    fs::write(world.repo().join(".jit/config.toml"), text).expect("a file");
    assert_eq!(setting(&world, "human:h", "notify.command"), json!([]));
    assert_eq!(setting(&world, "human:h", "notify.webhook"), json!(""));
    assert_eq!(setting(&world, "human:h", "agents.may_trust"), json!(false));
    assert_ne!(
        setting(&world, "human:h", "dispatch.allow"),
        json!(["Bash(rm *)"])
    );
    let said = world.jit(["config", "show"]).ok().stderr;
    for key in [
        "notify.command",
        "notify.webhook",
        "agents.may_trust",
        "dispatch.allow",
    ] {
        assert!(
            said.contains(&format!("jit config set --user {key}")),
            "{key}: {said}"
        );
    }
    let said = world
        .jit(["config", "set", "notify.on", "['failed']"])
        .ok()
        .stderr;
    assert!(said.contains("counts only in your own settings"), "{said}");
    let _ = world
        .jit(["config", "set", "--user", "notify.on", "['failed']"])
        .ok();
    assert_eq!(setting(&world, "human:h", "notify.on"), json!(["failed"]));
}

#[test]
fn l1_config_show_names_the_class_of_each_setting() {
    let world = World::with_jit(JIT);
    let shown = world.jit(["config", "show", "--json"]).ok().json();
    let class = |key: &str| {
        let all = shown["settings"].as_array().expect("a list");
        all.iter().find(|one| one["key"] == key).expect(key)["class"].clone()
    };
    assert_eq!(class("coordination.ttl.task.agent"), "inert");
    assert_eq!(class("worktree.path"), "confined");
    assert_eq!(class("merge.validate"), "trusted");
}

#[test]
fn a5_the_view_comes_back_after_git_clean() {
    let world = world();
    let (repo, view) = (world.repo(), world.repo().join(".jit/worktree.json"));
    let before = fs::read(&view).expect("a view");
    world.git(&repo, ["clean", "-q", "-fdx"]);
    assert!(!view.exists());
    let _ = world.jit(["claim", "list"]).ok();
    assert!(!view.exists(), "a command that only reads writes nothing");
    let _ = world.jit(["issue", "create", "x", "--id", "WI-1"]).ok();
    assert_eq!(fs::read(&view).expect("a view"), before);
    assert_eq!(world.git(&repo, ["status", "--porcelain"]), "?? .jit/issues/\n");
}

#[test]
fn b11_every_command_warns_of_a_lease_that_ends_soon() {
    let world = world();
    let _ = world.jit(["issue", "create", "x", "--id", "WI-1"]).ok();
    let _ = world
        .jit(["config", "set", "coordination.lease_renewal_threshold_pct", "100"])
        .ok();
    let _ = world.jit_as("agent:a", ["claim", "acquire", "WI-1"]).ok();
    for words in [
        &["whoami"][..],
        &["config", "show"],
        &["config", "get", "worktree.mode"],
        &["worktree", "info"],
        &["worktree", "list"],
        &["worktree", "status"],
        &["doctor"],
        &["validate"],
        &["trust", "--list"],
        &["gate", "list"],
        &["issue", "list"],
        &["status"],
        &["rescue", "list"],
        &["hooks", "list"],
        &["graph"],
        &["init"],
        &["events"],
        &["changelog"],
        // Refused ones warn as well.
        &["issue", "show", "WI-404"],
        &["worktree", "status", "nothing"],
        &["config", "get", "no.such.key"],
    ] {
        let ran = world.jit_as("agent:a", words);
        let warned = ran.stderr.matches("your lease on WI-1 ends in").count();
        assert_eq!(warned, 1, "{words:?}: {}", ran.stderr);
        let other = world.jit_as("agent:b", words).stderr;
        assert!(!other.contains("your lease"), "{words:?}: {other}");
    }
    // One that follows warns when it begins.
    let mut follow = world.jit_command(&world.repo());
    follow
        .env("JIT_AGENT_ID", "agent:a")
        .args(["events", "--follow"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut follow = follow.spawn().expect("a follower");
    let mut line = String::new();
    let mut told = BufReader::new(follow.stderr.take().expect("a pipe"));
    let _ = told.read_line(&mut line).expect("a line");
    let _ = follow.kill();
    let _ = follow.wait();
    assert!(line.contains("your lease on WI-1 ends in"), "{line}");
    // Once it is released nothing is left to warn of.
    let ran = world.jit_as("agent:a", ["claim", "release", "WI-1"]).ok();
    assert!(!ran.stderr.contains("your lease"), "{}", ran.stderr);
    assert!(
        !world
            .jit_as("agent:a", ["whoami"])
            .ok()
            .stderr
            .contains("your lease")
    );
}

#[test]
fn b4_a_claim_is_released_by_its_holder_from_any_worktree() {
    let world = world();
    let (one, two) = (world.worktree("one"), world.worktree("two"));
    let _ = world.jit(["issue", "create", "x", "--id", "WI-1"]).ok();
    let _ = world
        .jit_as_in("agent:a", &one, ["claim", "acquire", "WI-1"])
        .ok();
    let _ = world
        .jit_as_in("agent:b", &two, ["claim", "release", "WI-1"])
        .exits(5);
    let _ = world
        .jit_as_in("agent:a", &two, ["claim", "release", "WI-1"])
        .ok();
    let lease = world.jit_as_in("agent:a", &one, ["claim", "acquire", "WI-1", "--json"]);
    let lease = lease.ok().json()["lease_id"].as_str().expect("an id").to_owned();
    // The worktree may be gone.
    world.git(
        &world.repo(),
        ["worktree", "remove", "--force", one.to_str().expect("text")],
    );
    let _ = world.jit_as("agent:a", ["claim", "release", &lease]).ok();
    let _ = world
        .jit_as_in("agent:b", &two, ["claim", "acquire", "WI-1"])
        .ok();
}
