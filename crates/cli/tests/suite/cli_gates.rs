//! `jit gate …` (E6) and `jit trust` (A8) through the real command line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jit_os::process::{ProcessRef, wait_for_end};
use jit_testkit::world::tools::{field, wait_until};
use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

use crate::merging::with_jit_on_path;

const JIT: &str = env!("CARGO_BIN_EXE_jit");
const PATIENCE: Duration = Duration::from_secs(60);
const HUMAN: &str = "human:ada";
const AGENT: &str = "agent:one";

/// A repository with an issue `WI-001`, a task.
fn world() -> World {
    let world = World::with_jit(JIT);
    let _ = human(
        &world,
        &[
            "issue",
            "create",
            "Parse dates",
            "--id",
            "WI-001",
            "--type",
            "task",
        ],
    )
    .ok();
    world
}

fn human(world: &World, args: &[&str]) -> Ran {
    world.jit_as(HUMAN, args)
}

fn define(world: &World, name: &str, command: &str) {
    let _ = human(world, &["gate", "define", name, "--command", command]).ok();
}

/// Commits all that is in the repository.
fn commit(world: &World, message: &str) {
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", message]);
}

/// Defines a gate that `WI-001` must pass.
fn require(world: &World, name: &str, command: &str) {
    define(world, name, command);
    let _ = human(world, &["gate", "add", "WI-001", name]).ok();
}

fn code(ran: &Ran) -> String {
    ran.json()["error"]["code"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The gates of an issue as `gate list` has them.
fn gates(world: &World, dir: &Path, issue: &str) -> Vec<Value> {
    let listed = world
        .jit_as_in(HUMAN, dir, ["gate", "list", issue, "--json"])
        .ok()
        .json();
    listed["gates"].as_array().cloned().unwrap_or_default()
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value
        .as_object()
        .map(|map| map.keys().map(String::as_str).collect())
        .unwrap_or_default();
    keys.sort_unstable();
    keys
}

fn kept(world: &World) -> Value {
    let file = world.repo().join(".jit/gates/results/WI-001.json");
    serde_json::from_slice(&fs::read(file).expect("results")).expect("JSON")
}

#[test]
fn e6_a_gate_is_defined_listed_run_and_then_the_issue_can_be_done() {
    let world = world();
    let flag = world.root().join("good");
    let command = format!("echo looking; test -e {}", flag.display());
    let defined = human(
        &world,
        &[
            "gate",
            "define",
            "test",
            "--command",
            &command,
            "--timeout",
            "2m",
            "--description",
            "all tests pass",
            "--json",
        ],
    )
    .ok()
    .json();
    assert_eq!(
        defined,
        json!({"gates": [{
            "name": "test", "command": command, "manual": false, "timeout_secs": 120,
            "description": "all tests pass", "required_for": [], "trusted": true,
        }]})
    );
    assert_eq!(human(&world, &["gate", "list", "--json"]).ok().json(), defined);
    let _ = human(&world, &["gate", "add", "WI-001", "test"]).ok();
    let standing = &gates(&world, &world.repo(), "WI-001")[0];
    assert_eq!(
        (&standing["status"], &standing["at"], &standing["stale"]),
        (&json!("missing"), &Value::Null, &json!(false))
    );

    let done = ["issue", "update", "WI-001", "--state", "done", "--json"];
    let refused = human(&world, &done).exits(6);
    assert_eq!(code(&refused), "gate_not_passed");
    assert_eq!(refused.json()["error"]["details"]["candidates"], json!(["test"]));

    let report = human(&world, &["gate", "run", "WI-001", "--json"])
        .exits(6)
        .json();
    assert_eq!(keys(&report), ["gates", "issue_id", "missing", "next"]);
    assert_eq!(
        (&report["issue_id"], &report["missing"], &report["next"]),
        (&json!("WI-001"), &json!(["test"]), &Value::Null)
    );
    let gate = &report["gates"][0];
    assert_eq!(
        keys(gate),
        [
            "at",
            "by",
            "command",
            "duration_ms",
            "exit_code",
            "kind",
            "name",
            "note",
            "output",
            "output_file",
            "output_truncated",
            "reason",
            "signal",
            "status",
            "timed_out",
            "tree"
        ]
    );
    assert_eq!(
        (
            &gate["name"],
            &gate["status"],
            &gate["exit_code"],
            &gate["output"]
        ),
        (&json!("test"), &json!("failed"), &json!(1), &json!("looking\n"))
    );
    assert_eq!(code(&human(&world, &done).exits(6)), "gate_not_passed");

    fs::write(&flag, "").expect("a file");
    let _ = human(&world, &["issue", "update", "WI-001", "--state", "gated"]).ok();
    let ran = human(&world, &["gate", "run", "WI-001"]).ok();
    assert!(ran.stdout.starts_with("✓ test passed"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("jit issue update WI-001 --state done"),
        "{}",
        ran.stdout
    );
    let _ = human(&world, &done).ok();
    world.validates();
}

#[test]
fn e6_a_failure_shows_the_end_of_the_output_and_all_of_it_is_kept() {
    let world = world();
    require(&world, "loud", "seq 1 5000; exit 7");
    let ran = human(&world, &["gate", "run", "WI-001"]).exits(6);
    assert!(ran.stdout.starts_with("✗ loud failed"), "{}", ran.stdout);
    assert!(ran.stdout.contains("exit code 7") && ran.stdout.contains("\n    5000\n"));
    assert!(!ran.stdout.contains("\n    1\n"), "only the end");
    let file = world.control().join("gates/WI-001/loud.log");
    assert!(ran.stdout.contains(&*file.to_string_lossy()), "{}", ran.stdout);
    let all: String = (1..=5000).map(|n| format!("{n}\n")).collect();
    assert_eq!(fs::read_to_string(&file).expect("the output"), all);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(file.parent().expect("a folder")), 0o700);

    let kept = kept(&world);
    let result = &kept["results"]["loud"];
    assert_eq!(
        (&result["status"], &result["output_truncated"]),
        (&json!("failed"), &json!(true))
    );
    assert!(
        result["output"]
            .as_str()
            .is_some_and(|text| text.ends_with("5000\n"))
    );
    assert_eq!(result["output_file"], "gates/WI-001/loud.log");
    assert!(
        !kept.to_string().contains(&*world.root().to_string_lossy()),
        "no path of this machine in a versioned file"
    );
    // The next run has the file to itself.
    define(&world, "loud", "echo short");
    let _ = human(&world, &["gate", "run", "WI-001"]).ok();
    assert_eq!(fs::read_to_string(&file).expect("the output"), "short\n");
}

#[test]
fn e6_a_gate_that_takes_too_long_fails_and_leaves_nothing_running() {
    let world = world();
    let pids = world.root().join("pids");
    // The grandchild is in the background of a shell in the background.
    let command = format!("sh -c 'sleep 1000 & echo $! >{}; wait' & wait", pids.display());
    let _ = human(
        &world,
        &["gate", "define", "slow", "--command", &command, "--timeout", "2s"],
    )
    .ok();
    let report = human(&world, &["gate", "run", "WI-001", "slow", "--json"])
        .exits(6)
        .json();
    let gate = &report["gates"][0];
    assert_eq!(
        (&gate["status"], &gate["timed_out"]),
        (&json!("failed"), &json!(true))
    );
    assert_gone(&pids);
}

fn pid_in(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn assert_gone(file: &Path) {
    let pid = pid_in(file).expect("a process");
    if let Some(process) = ProcessRef::of(pid).expect("look") {
        assert!(wait_for_end(process, PATIENCE).expect("look"), "{pid} still runs");
    }
}

#[test]
fn e6_ctrl_c_ends_what_the_gate_started_and_nothing_is_recorded() {
    let world = world();
    let pids = world.root().join("pids");
    require(
        &world,
        "slow",
        &format!("sleep 1000 & echo $! >{}; wait", pids.display()),
    );
    let mut command = world.jit_command(&world.repo());
    command
        .env("JIT_AGENT_ID", HUMAN)
        .args(["gate", "run", "WI-001"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut jit = command.spawn().expect("start");
    wait_until("the gate runs", PATIENCE, || pid_in(&pids).is_some());
    // While it runs others can write.
    let _ = human(&world, &["issue", "comment", "WI-001", "meanwhile"]).ok();
    let process = i32::try_from(jit.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a process");
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("kill");
    assert!(!jit.wait().expect("wait").success());
    assert_gone(&pids);
    assert_eq!(gates(&world, &world.repo(), "WI-001")[0]["status"], "missing");
}

#[test]
fn e6_a_type_can_require_a_gate_and_anybody_may_run_it() {
    let world = world();
    let _ = human(
        &world,
        &[
            "gate",
            "define",
            "lint",
            "--command",
            "true",
            "--required-for",
            "task",
        ],
    )
    .ok();
    let _ = human(
        &world,
        &["issue", "create", "Free", "--id", "BUG-1", "--type", "bug"],
    )
    .ok();
    let done = |issue| human(&world, &["issue", "update", issue, "--state", "done", "--json"]);
    let _ = done("BUG-1").ok();
    assert_eq!(code(&done("WI-001").exits(6)), "gate_not_passed");
    let gate = &gates(&world, &world.repo(), "WI-001")[0];
    assert_eq!(
        (&gate["name"], &gate["required"], &gate["required_for"]),
        (&json!("lint"), &json!(true), &json!(["task"]))
    );
    // Held by somebody else: a reviewer runs it all the same.
    let _ = world.jit_as("agent:two", ["claim", "acquire", "WI-001"]).ok();
    let _ = world.jit_as(AGENT, ["gate", "run", "WI-001"]).ok();
    let _ = world
        .jit_as("agent:two", ["issue", "update", "WI-001", "--state", "done"])
        .ok();
}

#[test]
fn b15_only_the_holder_changes_what_an_issue_must_pass() {
    let world = world();
    require(&world, "lint", "true");
    let _ = world.jit_as("agent:two", ["claim", "acquire", "WI-001"]).ok();
    let ran = human(&world, &["gate", "rm", "WI-001", "lint", "--json"]).exits(5);
    assert_eq!(code(&ran), "not_holder");
    let _ = world.jit_as("agent:two", ["claim", "release", "WI-001"]).ok();
    let ran = human(&world, &["gate", "rm", "WI-001", "lint", "--json"]).ok();
    assert_eq!(ran.json()["gates"], json!([]));
}

#[test]
fn e6_no_agent_lessens_what_an_issue_must_pass() {
    let world = world();
    require(&world, "lint", "false");
    let _ = human(&world, &["gate", "define", "review", "--manual"]).ok();
    let _ = human(&world, &["gate", "add", "WI-001", "review"]).ok();
    let by_type = [
        "gate",
        "define",
        "types",
        "--command",
        "false",
        "--required-for",
        "task",
    ];
    let _ = human(&world, &by_type).ok();
    let _ = world.jit_as(AGENT, ["claim", "acquire", "WI-001"]).ok();
    for (words, help) in [
        (
            &["gate", "rm", "WI-001", "review"][..],
            "jit gate rm WI-001 review",
        ),
        (&["gate", "rm", "WI-001", "lint"], "jit gate rm WI-001 lint"),
        (
            &[
                "issue",
                "update",
                "WI-001",
                "--remove-gate",
                "lint",
                "--add-gate",
                "x",
            ],
            "jit gate rm WI-001 lint",
        ),
        (
            &["issue", "update", "WI-001", "--type", "bug"],
            "jit issue update WI-001 --type bug",
        ),
        (
            &["issue", "update", "WI-001", "--type", "bug", "--state", "done"],
            "jit gate run WI-001",
        ),
    ] {
        let words: Vec<&str> = words.iter().chain(&["--json"]).copied().collect();
        let ran = world.jit_as(AGENT, &words);
        assert!(
            [5, 6].contains(&ran.code),
            "{words:?}: {}{}",
            ran.stdout,
            ran.stderr
        );
        let told = ran.json()["error"]["help"][0].to_string();
        assert!(told.contains(help), "{told}");
    }
    let ran = world.jit_as(AGENT, ["gate", "rm", "WI-001", "lint", "--json"]);
    assert_eq!(code(&ran.exits(5)), "not_allowed");
    assert_eq!(gates(&world, &world.repo(), "WI-001").len(), 3);
    // More is allowed, and so is a type that asks for no less.
    let _ = world
        .jit_as(AGENT, ["issue", "update", "WI-001", "--add-gate", "more"])
        .ok();
    let _ = world
        .jit_as(AGENT, ["issue", "update", "WI-001", "--type", "task"])
        .ok();
    let _ = human(&world, &["config", "set", "agents.may_pass_gates", "true"]).ok();
    let _ = world.jit_as(AGENT, ["gate", "rm", "WI-001", "lint"]).exits(5);
    commit(&world, "agents may");
    let _ = world.jit_as(AGENT, ["gate", "rm", "WI-001", "lint"]).ok();
}

#[test]
fn e6_names_that_nobody_defined_are_not_found_and_block_nothing() {
    let world = world();
    define(&world, "lint", "true");
    for args in [
        &["gate", "add", "WI-001", "lnit"][..],
        &["gate", "run", "WI-001", "lnit"],
        &["gate", "pass", "WI-001", "lnit"],
        &["gate", "fail", "WI-001", "lnit"],
        &["gate", "run", "NOPE-1"],
    ] {
        let ran = world.jit_as(HUMAN, args.iter().chain(&["--json"])).exits(3);
        assert_eq!(code(&ran), "not_found", "{args:?}");
        if args.contains(&"lnit") {
            assert_eq!(ran.json()["error"]["details"]["candidates"], json!(["lint"]));
        }
    }
    // One that an issue came to require all the same has failed, and is not passed by being unknown.
    let create = |gate| ["issue", "create", "Odd", "--id", "ODD-1", "--gate", gate];
    let _ = human(&world, &create("Not a name")).exits(2);
    let ran = human(&world, &create("odd")).ok();
    assert!(ran.stderr.contains("not defined yet"), "{}", ran.stderr);
    let report = human(&world, &["gate", "run", "ODD-1", "--json"]).exits(6).json();
    assert_eq!(report["gates"][0]["status"], "failed");
    assert!(
        report["gates"][0]["reason"]
            .as_str()
            .is_some_and(|why| why.contains("not defined"))
    );
    let _ = human(&world, &["issue", "update", "ODD-1", "--state", "done"]).exits(6);
    let _ = human(&world, &["gate", "rm", "ODD-1", "odd"]).ok();
    let _ = human(&world, &["issue", "update", "ODD-1", "--state", "done"]).ok();
}

#[test]
fn e6_a_gate_that_cannot_run_has_failed() {
    let world = world();
    require(&world, "gone", "no-such-program-anywhere");
    let report = human(&world, &["gate", "run", "WI-001", "--json"])
        .exits(6)
        .json();
    let gate = &report["gates"][0];
    assert_eq!(
        (&gate["status"], &gate["exit_code"]),
        (&json!("failed"), &json!(127))
    );
    assert_eq!(gates(&world, &world.repo(), "WI-001")[0]["status"], "failed");
}

#[test]
fn e6_a_manual_gate_is_passed_by_people_only_unless_the_settings_say_otherwise() {
    let world = world();
    let _ = human(&world, &["gate", "define", "review", "--manual"]).ok();
    let _ = human(&world, &["gate", "add", "WI-001", "review"]).ok();
    let pass = ["gate", "pass", "WI-001", "review", "--json"];
    assert_eq!(code(&world.jit_as(AGENT, pass).exits(5)), "not_allowed");
    assert_eq!(gates(&world, &world.repo(), "WI-001")[0]["status"], "missing");
    // It has no command, and one with a command is not judged by hand.
    let ran = human(&world, &["gate", "run", "WI-001", "review", "--json"]).exits(2);
    assert_eq!(code(&ran), "invalid");
    define(&world, "lint", "true");
    let ran = human(&world, &["gate", "pass", "WI-001", "lint", "--json"]).exits(2);
    assert_eq!(code(&ran), "invalid");
    let ran = human(&world, &["gate", "run", "WI-001"]).ok();
    assert!(ran.stdout.contains("has not passed: review"), "{}", ran.stdout);

    let report = world
        .jit_as(
            AGENT,
            ["gate", "fail", "WI-001", "review", "--note", "no tests", "--json"],
        )
        .ok()
        .json();
    assert_eq!(report["gates"][0]["status"], "failed");
    let gate = &gates(&world, &world.repo(), "WI-001")[0];
    assert_eq!(
        (&gate["status"], &gate["by"], &gate["note"]),
        (&json!("failed"), &json!(AGENT), &json!("no tests"))
    );
    let _ = human(&world, &["issue", "update", "WI-001", "--state", "gated"]).ok();
    let report = human(&world, &pass).ok().json();
    assert_eq!(report["next"], "jit issue update WI-001 --state done");
    let _ = world
        .jit_as(AGENT, ["config", "set", "agents.may_pass_gates", "true"])
        .exits(5);
    // What anybody can write into a file counts once it is committed, here and where work goes to.
    let set = ["config", "set", "agents.may_pass_gates", "true"];
    for words in [&set[..], &["config", "get", "agents.may_pass_gates"]] {
        let ran = human(&world, words).ok();
        assert!(ran.stderr.contains("once it is committed"), "{}", ran.stderr);
    }
    assert_eq!(code(&world.jit_as(AGENT, pass).exits(5)), "not_allowed");
    let aside = world.worktree("aside");
    let _ = world.jit_as_in(HUMAN, &aside, set).ok();
    world.git(&aside, ["add", "-A"]);
    world.git(&aside, ["commit", "-q", "-m", "mine"]);
    let _ = world
        .jit_as_in(HUMAN, &aside, ["gate", "define", "review", "--manual"])
        .ok();
    let _ = world.jit_as_in(AGENT, &aside, pass).exits(5);
    commit(&world, "agents may");
    let _ = world.jit_as(AGENT, pass).ok();
    let _ = world.jit_as_in(AGENT, &aside, pass).ok();
}

#[test]
fn e6_no_variable_of_an_agent_loosens_what_restrains_it() {
    let world = world();
    let _ = human(&world, &["gate", "define", "review", "--manual"]).ok();
    let with = |who: &str, variable: &str, value: &str, args: &[&str]| {
        let mut command = world.jit_command(&world.repo());
        command
            .env("JIT_AGENT_ID", who)
            .env(format!("JIT_CONFIG_{variable}"), value)
            .args(args);
        world.run(command)
    };
    let pass = ["gate", "pass", "WI-001", "review"];
    let told = |ran: Ran, key: &str| {
        let told = ran.stderr.contains("does not count for agents") && ran.stderr.contains(key);
        assert!(told, "{key}: {}", ran.stderr);
    };
    let _ = with(AGENT, "AGENTS__MAY_PASS_GATES", "true", &pass).exits(5);
    let _ = world
        .jit_as(AGENT, ["gate", "define", "more", "--command", "true"])
        .ok();
    let trust = ["trust", "--yes"];
    // Nor together with what it wrote into a file.
    let config = world.repo().join(".jit/config.toml");
    let before = fs::read(&config).expect("settings");
    let _ = human(&world, &["config", "set", "agents.may_pass_gates", "true"]).ok();
    let _ = human(&world, &["config", "set", "agents.may_trust", "true"]).ok();
    let _ = with(AGENT, "AGENTS__MAY_PASS_GATES", "true", &pass).exits(5);
    let _ = with(AGENT, "AGENTS__MAY_TRUST", "true", &trust).exits(5);
    fs::write(&config, before).expect("write");
    let _ = with(AGENT, "AGENTS__MAY_TRUST", "true", &trust).exits(5);
    let _ = human(&world, &["claim", "acquire", "WI-001"]).ok();
    let change = ["issue", "update", "WI-001", "--title", "mine"];
    for (variable, value) in [
        ("WORKTREE__ENFORCE_LEASES", "off"),
        ("WORKTREE__ENFORCE_LEASES", "warn"),
        ("WORKTREE__MODE", "off"),
    ] {
        let _ = with(AGENT, variable, value, &change).exits(5);
    }
    let evict = ["claim", "force-evict", "WI-001", "--reason", "mine"];
    let _ = with(AGENT, "AGENTS__MAY_FORCE_EVICT", "true", &evict).exits(5);
    let _ = human(&world, &["claim", "release", "WI-001"]).ok();
    // What happens is what is shown, with a word about it.
    let shown = with(
        AGENT,
        "AGENTS__MAY_PASS_GATES",
        "true",
        &["config", "show", "--origin"],
    )
    .ok();
    let line = shown
        .stdout
        .lines()
        .find(|line| line.contains("agents.may_pass_gates"));
    let line = line.expect("the setting");
    assert!(line.contains("= false") && line.contains("default"), "{line}");
    told(shown, "agents.may_pass_gates is false");
    let get = ["config", "get", "worktree.enforce_leases"];
    let shown = with(AGENT, "WORKTREE__ENFORCE_LEASES", "off", &get).ok();
    assert_eq!(shown.stdout, "strict\n");
    told(shown, "JIT_CONFIG_WORKTREE__ENFORCE_LEASES");
    told(
        with(AGENT, "WORKTREE__ENFORCE_LEASES", "off", &change).ok(),
        "worktree.enforce_leases",
    );
    // What is stricter counts; so does what a person says, who is no agent.
    let change = ["issue", "update", "WI-001", "--title", "yours"];
    let ran = with(AGENT, "WORKTREE__ENFORCE_LEASES", "strict-explicit", &change).exits(5);
    assert!(!ran.stderr.contains("does not count"), "{}", ran.stderr);
    let _ = world.jit_as(AGENT, ["claim", "acquire", "WI-001"]).ok();
    let ran = with(HUMAN, "WORKTREE__ENFORCE_LEASES", "off", &change).ok();
    assert!(!ran.stderr.contains("does not count"), "{}", ran.stderr);
}

#[test]
fn e6_no_agent_gets_round_gates_by_files_that_are_not_committed() {
    let world = world();
    let required = ["gate", "define", "review", "--manual", "--required-for", "task"];
    let _ = human(&world, &required).ok();
    define(&world, "lint", "true");
    let _ = human(&world, &["gate", "run", "WI-001", "lint"]).ok();
    let _ = human(&world, &["gate", "add", "WI-001", "lint"]).ok();
    commit(&world, "gates");
    let registry = world.repo().join(".jit/gates/registry.json");
    let text = fs::read_to_string(&registry).expect("a registry");
    let done = ["issue", "update", "WI-001", "--state", "done", "--json"];
    let weaker = text.replace("\"task\"", "\"other\"");
    assert_ne!(weaker, text);
    // In a branch of its own it may say what it likes, committed or not.
    let aside = world.worktree("aside");
    fs::write(aside.join(".jit/gates/registry.json"), &weaker).expect("write");
    world.git(&aside, ["commit", "-qam", "weaker"]);
    for (tree, content) in [
        (world.repo(), Some("{\"schema_version\":1,\"gates\":{}}")),
        (world.repo(), Some(weaker.as_str())),
        (world.repo(), None),
        (aside, Some(weaker.as_str())),
    ] {
        let file = tree.join(".jit/gates/registry.json");
        match content {
            Some(content) => fs::write(&file, content).expect("write"),
            None => fs::remove_file(&file).expect("remove"),
        }
        let refused = world.jit_as_in(AGENT, &tree, done).exits(6);
        assert_eq!(code(&refused), "gate_not_passed");
        assert!(refused.stdout.contains("review"), "{}", refused.stdout);
        let way = match tree == world.repo() {
            true => "git restore .jit/gates/registry.json",
            false => "git merge main",
        };
        assert!(refused.stdout.contains(way), "{way}: {}", refused.stdout);
        // Nor by an edit of the issue.
        edit(&tree, &[("state", json!("done"))]);
        let shown = world.jit_as_in(AGENT, &tree, ["issue", "show", "WI-001", "--json"]);
        assert_eq!(shown.ok().json()["state"], "gated");
    }
    // People are told.
    let notes = human(&world, &["validate", "--json"]).ok().json()["notes"].to_string();
    assert!(notes.contains("lint, review"), "{notes}");
    // What a gate has become in the tree alone, and what it was, have both to have passed.
    fs::write(&registry, text.replace("\"true\"", "\"true # mine\"")).expect("write");
    let _ = human(&world, &["gate", "pass", "WI-001", "review"]).ok();
    let refused = world.jit_as(AGENT, done).exits(6);
    assert!(
        refused.stdout.contains("lint as it is defined now"),
        "{}",
        refused.stdout
    );
    fs::write(&registry, &text).expect("write");
    let _ = world.jit_as(AGENT, done).ok();
}

/// E6: which branch has the gates that count is not for an agent to say.
#[test]
fn e6_no_agent_gets_round_the_gates_of_the_target_by_naming_another() {
    let world = world();
    let repo = world.repo();
    let config = |text: &str| fs::write(repo.join(".jit/config.toml"), text).expect("write");
    config("[merge]\ntarget = [\"develop\"]\n");
    commit(&world, "where it goes");
    world.git(&repo, ["branch", "other"]);
    world.git(&repo, ["switch", "-qc", "develop"]);
    let required = ["gate", "define", "review", "--manual", "--required-for", "task"];
    let _ = human(&world, &required).ok();
    commit(&world, "gates");
    world.git(&repo, ["switch", "-q", "main"]);
    let done = ["issue", "update", "WI-001", "--state", "done", "--json"];
    for text in [
        "[merge]\ntarget = [\"develop\"]\n",
        "[merge]\ntarget = [\"other\"]\n",
        "[merge]\ntarget = [\"other\", \"develop\"]\n",
        "",
    ] {
        config(text);
        let refused = world.jit_as(AGENT, done).exits(6);
        assert_eq!(code(&refused), "gate_not_passed", "{text}");
    }
    // Nor where it has committed that: the log knows where its branch began, and what was said there.
    config("[merge]\ntarget = [\"develop\"]\n");
    let unit = human(&world, &["worktree", "create", "apart", "--json"])
        .ok()
        .json();
    let tree = PathBuf::from(unit["worktree_path"].as_str().expect("a folder"));
    world.git(&repo, ["rm", "-q", "--cached", ".jit/config.toml"]);
    world.git(&repo, ["commit", "-qm", "not on main any more"]);
    fs::write(tree.join(".jit/config.toml"), "[merge]\ntarget = [\"other\"]\n").expect("write");
    world.git(&tree, ["add", "-A"]);
    world.git(&tree, ["commit", "-qm", "mine"]);
    let refused = world.jit_as_in(AGENT, &tree, done).exits(6);
    assert_eq!(code(&refused), "gate_not_passed");
    let _ = human(&world, &done).ok();
}

#[test]
fn e6_a_process_of_an_agent_is_one_also_under_a_persons_name() {
    let world = world();
    let _ = human(&world, &["gate", "define", "once", "--command", "true"]).ok();
    let _ = human(&world, &["gate", "add", "WI-001", "once"]).ok();
    let _ = human(&world, &["gate", "run", "WI-001"]).ok();
    fs::remove_file(world.repo().join(".jit/gates/registry.json")).expect("remove");
    let script = format!(
        "{JIT} session start --agent-id {AGENT} --bind-pid $$ >/dev/null && {JIT} issue update WI-001 --state done --agent-id {HUMAN}"
    );
    let mut command = world.command("sh", &world.repo());
    command.args(["-c", &script]);
    let ran = world.run(command).exits(6);
    assert!(ran.stderr.contains("once"), "{}", ran.stderr);
}

#[test]
fn e6_a_result_remembers_the_content_and_the_command_it_was_found_with() {
    let world = world();
    require(&world, "lint", "true");
    let stale = || gates(&world, &world.repo(), "WI-001")[0]["stale"].clone();
    let report = human(&world, &["gate", "run", "WI-001", "--json"]).ok().json();
    let tree = report["gates"][0]["tree"].as_str().unwrap_or_default().to_owned();
    assert_eq!(tree.len(), 40, "{report}");
    assert_eq!(kept(&world)["results"]["lint"]["tree"], tree);
    assert_eq!(stale(), false, "what jit wrote itself does not count");
    fs::write(world.repo().join("new.rs"), "fn f() {}\n").expect("an edit");
    assert_eq!(stale(), true);
    let shown = human(&world, &["gate", "list", "WI-001"]).ok().stdout;
    assert!(shown.contains("passed") && shown.contains("stale"), "{shown}");
    fs::remove_file(world.repo().join("new.rs")).expect("undone");
    assert_eq!(stale(), false);
    define(&world, "lint", "true # stricter");
    assert_eq!(stale(), true);
    // Known in every worktree; that it is other content there is known too.
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "gates"]);
    let _ = human(&world, &["gate", "run", "WI-001"]).ok();
    let elsewhere = world.worktree("two");
    fs::write(elsewhere.join("other"), "").expect("an edit");
    let gate = &gates(&world, &elsewhere, "WI-001")[0];
    assert_eq!(
        (&gate["status"], &gate["stale"]),
        (&json!("passed"), &json!(true))
    );
}

#[test]
fn e6_a_pass_counts_for_the_gate_as_it_was_defined_then() {
    let world = world();
    require(&world, "lint", "true");
    let counts = || gates(&world, &world.repo(), "WI-001")[0]["counts"].clone();
    assert_eq!(counts(), false);
    let _ = human(&world, &["gate", "run", "WI-001"]).ok();
    assert_eq!(counts(), true);
    // Another time limit is no other gate.
    let _ = human(
        &world,
        &["gate", "define", "lint", "--command", "true", "--timeout", "1h"],
    )
    .ok();
    assert_eq!(counts(), true);
    define(&world, "lint", "false # stricter");
    assert_eq!(counts(), false);
    let shown = human(&world, &["gate", "list", "WI-001"]).ok().stdout;
    assert!(shown.contains("does not count: defined anew"), "{shown}");
    let done = ["issue", "update", "WI-001", "--state", "done", "--json"];
    let refused = human(&world, &done).exits(6);
    assert_eq!(code(&refused), "gate_not_passed");
    assert!(
        refused.stdout.contains("lint as it is defined now"),
        "{}",
        refused.stdout
    );
    edit(&world.repo(), &[("state", json!("done"))]);
    let ran = human(&world, &["issue", "show", "WI-001", "--json"]).ok();
    assert_eq!(ran.json()["state"], "gated");
    assert!(ran.stderr.contains("lint"), "{}", ran.stderr);
    // Of another kind it is another gate too, and as it was before it is the same one again.
    let _ = human(&world, &["gate", "define", "lint", "--manual"]).ok();
    assert_eq!(code(&human(&world, &done).exits(6)), "gate_not_passed");
    define(&world, "lint", "true");
    let _ = human(&world, &done).ok();
}

#[test]
fn e6_git_sees_nothing_but_issues_and_gates() {
    let world = world();
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "jit"]);
    require(&world, "lint", "echo x");
    let _ = human(&world, &["gate", "run", "WI-001"]).ok();
    let status = world.git(&world.repo(), ["status", "--porcelain", "-uall"]);
    let paths: Vec<&str> = status.lines().filter_map(|line| line.get(3..)).collect();
    assert_eq!(
        paths,
        [
            ".jit/issues/WI-001/issue.json",
            ".jit/gates/registry.json",
            ".jit/gates/results/WI-001.json"
        ]
    );
    let left: Vec<PathBuf> = fs::read_dir(world.repo().join(".git"))
        .expect("a git folder")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().contains("jit-tree-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn e6_hostile_names_are_refused_and_hostile_output_is_harmless() {
    let world = world();
    for name in ["../x", "a/b", "", ".hidden", "Upper", "a b", "a\u{1b}[31m", "-x"] {
        let args = ["gate", "define", "--command", "true", "--json", "--", name];
        let ran = human(&world, &args).exits(2);
        assert_eq!(code(&ran), "invalid", "{name:?}");
    }
    assert!(!world.repo().join(".jit/gates/registry.json").exists());
    require(
        &world,
        "evil",
        r"printf '\033]0;owned\007\033[2J\n\377\342\200\256abc\n'; exit 1",
    );
    let ran = human(&world, &["gate", "run", "WI-001"]).exits(6);
    for bad in ['\u{1b}', '\u{7}', '\u{202e}'] {
        assert!(!ran.stdout.contains(bad), "{:?}", ran.stdout);
    }
    assert!(ran.stdout.contains("\\u{1b}"), "shown, not obeyed");
    let raw = fs::read(world.control().join("gates/WI-001/evil.log")).expect("the output");
    assert!(raw.contains(&0x1b) && raw.contains(&0xff), "kept as it was");
    assert!(
        human(&world, &["gate", "run", "WI-001", "--json"])
            .exits(6)
            .json()["gates"][0]["output"]
            .as_str()
            .is_some_and(|text| text.contains('\u{1b}'))
    );
}

#[test]
fn e6_hostile_names_in_a_file_are_told_with_their_line_and_the_rest_counts() {
    let world = world();
    let file = world.repo().join(".jit/issues/WI-001/issue.json");
    let text = fs::read_to_string(&file).expect("read");
    let edited = text
        .replace("\"gates\": []", "\"gates\": [\"../x\", \"Upper\"]")
        .replace("Parse dates", "Parse all dates");
    assert!(edited.contains("../x"), "{text}");
    fs::write(&file, &edited).expect("write");
    let issue = human(&world, &["issue", "show", "WI-001", "--json"]).ok().json();
    assert_eq!(
        (&issue["title"], &issue["gates"]),
        (&json!("Parse all dates"), &json!([]))
    );
    let found = human(&world, &["validate", "--json"]).exits(6).json();
    let line = edited
        .lines()
        .position(|line| line.contains("../x"))
        .map(|n| n + 1);
    for (n, name) in ["../x", "Upper"].into_iter().enumerate() {
        let problem = &found["problems"][n];
        assert!(problem["message"].to_string().contains(name), "{found}");
        assert_eq!(problem["line"], json!(line), "{found}");
        assert_eq!(problem["file"], json!(file), "{found}");
    }
}

#[test]
fn d1_what_a_killed_writer_left_in_the_tree_is_not_shown_and_goes() {
    let world = world();
    require(&world, "lint", "true");
    let _ = human(&world, &["gate", "run", "WI-001"]).ok();
    commit(&world, "all");
    let left = |name: &str| {
        let path = world
            .repo()
            .join(".jit")
            .join(format!("{name}.0123456789abcdef.tmp"));
        fs::write(&path, "half").expect("write");
        path
    };
    let leave = || {
        let names = ["worktree.json", "config.toml", "gates/registry.json"];
        let more = ["gates/results/WI-001.json", "issues/WI-001/issue.json"];
        names.into_iter().chain(more).map(left).collect::<Vec<_>>()
    };
    let notes = world.repo().join(".jit/gates/notes.tmp");
    fs::write(&notes, "mine").expect("write");
    let all = leave();
    let shown = || world.git(&world.repo(), ["status", "--porcelain", "-uall"]);
    assert_eq!(shown(), "?? .jit/gates/notes.tmp\n");
    let found = human(&world, &["validate", "--json"]).ok().json();
    assert!(found["notes"].to_string().contains("removed now: 5"), "{found}");
    assert!(all.iter().all(|path| !path.exists()));
    let _ = leave();
    let mended = human(&world, &["recover", "--json"]).ok().json();
    assert!(
        mended["mended"].to_string().contains("removed now: 5"),
        "{mended}"
    );
    // Whoever writes there next clears away too.
    let all = leave();
    define(&world, "other", "true");
    assert!(!all[2].exists());
    assert!(notes.exists());
    // A repository of an older version.
    let exclude = world.repo().join(".git/info/exclude");
    let text = fs::read_to_string(&exclude).expect("read");
    let former = text.replace("/.jit/**/*.????????????????.tmp", "/.jit/issues/*/*.tmp");
    assert_ne!(text, former);
    fs::write(&exclude, former).expect("write");
    let _ = human(&world, &["init"]).ok();
    assert!(!shown().contains("0123456789abcdef"), "{}", shown());
}

#[test]
fn e6_what_became_of_a_type_when_it_was_done_is_noted() {
    let world = world();
    let define = ["gate", "define", "rev", "--manual", "--required-for", "task"];
    let _ = human(&world, &define).ok();
    commit(&world, "gate");
    let _ = human(&world, &["issue", "create", "t", "--id", "ZZ-4"]).ok();
    let _ = world
        .jit_as(AGENT, ["issue", "update", "ZZ-4", "--state", "done"])
        .ok();
    let notes = || human(&world, &["validate", "--json"]).ok().json()["notes"].to_string();
    assert!(!notes().contains("ZZ-4"), "{}", notes());
    let _ = world
        .jit_as(AGENT, ["issue", "update", "ZZ-4", "--type", "task"])
        .ok();
    assert!(notes().contains("ZZ-4 (rev)"), "{}", notes());
}

#[test]
fn e6_presets_are_shown_and_taken() {
    let world = world();
    fs::write(world.repo().join("Cargo.toml"), "").expect("a file");
    let all = human(&world, &["gate", "presets", "--json"]).ok().json();
    assert_eq!(field(&all["presets"], "name"), ["cargo", "npm", "pytest", "go"]);
    let detected: Vec<bool> = (0..4).map(|n| all["presets"][n]["detected"] == true).collect();
    assert_eq!(detected, [true, false, false, false]);
    let args = ["gate", "define", "--preset", "cargo", "--required-for", "task"];
    let _ = human(&world, &args).ok();
    let gates = gates(&world, &world.repo(), "WI-001");
    let names: Vec<&Value> = gates.iter().map(|gate| &gate["name"]).collect();
    assert_eq!(names, ["clippy", "fmt", "test"]);
    assert!(gates.iter().all(|gate| gate["trusted"] == true));
    let ran = human(&world, &["gate", "define", "--preset", "make", "--json"]).exits(2);
    assert_eq!(code(&ran), "invalid");
    let ran = human(&world, &["gate", "list", "--json", "--fields", "name"]).ok();
    assert_eq!(
        ran.json(),
        json!({"gates": [{"name": "clippy"}, {"name": "fmt"}, {"name": "test"}]})
    );
}

#[test]
fn e6_what_came_with_a_clone_is_no_result_here() {
    let (world, clone) = cloned("true");
    let _ = human(&world, &["gate", "run", "WI-001"]).ok();
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "passed"]);
    world.git(&clone, ["pull", "-q"]);
    assert!(clone.join(".jit/gates/results/WI-001.json").exists());
    assert_eq!(gates(&world, &clone, "WI-001")[0]["status"], "missing");
    let _ = world
        .jit_as_in(HUMAN, &clone, ["issue", "update", "WI-001", "--state", "done"])
        .exits(6);
}

/// A repository whose issue must pass a gate with this command, and a clone of it.
fn cloned(command: &str) -> (World, PathBuf) {
    let world = world();
    require(&world, "test", command);
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "gates"]);
    world.git(world.root(), ["clone", "-q", "repo", "clone"]);
    let clone = world.root().join("clone");
    (world, clone)
}

#[test]
fn a8_what_came_with_a_clone_runs_only_after_the_user_approved_that_text() {
    let (world, clone) = cloned("echo ran >>../ran");
    let ran = || fs::read_to_string(world.root().join("ran")).unwrap_or_default();
    let run = |agent| world.jit_as_in(agent, &clone, ["gate", "run", "WI-001", "--json"]);
    let jit = |agent, args: &[&str]| world.jit_as_in(agent, &clone, args);

    let refused = run(HUMAN).exits(5);
    assert_eq!(code(&refused), "not_trusted");
    let error = &refused.json()["error"];
    assert_eq!(error["help"], json!(["jit trust"]));
    assert_eq!(error["details"]["command"], "echo ran >>../ran");
    assert_eq!(gates(&world, &clone, "WI-001")[0]["trusted"], false);

    // Nobody is there to be asked: shown, and refused.
    let refused = jit(HUMAN, &["trust"]).exits(5);
    assert!(
        refused.stderr.contains("gate test: echo ran >>../ran"),
        "{}",
        refused.stderr
    );
    assert_eq!(code(&jit(HUMAN, &["trust", "--json"]).exits(5)), "not_trusted");
    assert_eq!(
        code(&jit(AGENT, &["trust", "--yes", "--json"]).exits(5)),
        "not_allowed"
    );
    assert_eq!(code(&run(HUMAN).exits(5)), "not_trusted");
    assert_eq!(ran(), "", "nothing ran");

    let shown = jit(HUMAN, &["trust", "--yes", "--json"]).ok().json();
    assert_eq!(
        shown,
        json!({"commands": [
            {"kind": "gate", "name": "test", "command": "echo ran >>../ran", "trusted": true}
        ]})
    );
    let _ = run(AGENT).ok();
    assert_eq!(ran(), "ran\n");

    // A changed text asks again, also when it came by git.
    define(&world, "test", "echo changed >>../ran");
    world.git(&world.repo(), ["commit", "-qam", "changed"]);
    world.git(&clone, ["pull", "-q"]);
    assert_eq!(code(&run(HUMAN).exits(5)), "not_trusted");
    assert_eq!(ran(), "ran\n");
    let _ = jit(HUMAN, &["trust", "-y"]).ok();
    let _ = run(HUMAN).ok();
    assert_eq!(ran(), "ran\nchanged\n");

    let revoked = jit(HUMAN, &["trust", "--revoke", "--json"]).ok().json();
    assert_eq!(revoked, json!({"revoked": 2}));
    assert_eq!(code(&run(HUMAN).exits(5)), "not_trusted");
    // The other repository has approvals of its own.
    let _ = human(&world, &["gate", "run", "WI-001"]).ok();
}

#[test]
fn a8_nothing_runs_while_one_of_the_commands_is_not_approved() {
    let (world, clone) = cloned("echo ran >>../ran");
    let _ = world.jit_as_in(HUMAN, &clone, ["trust", "-y"]).ok();
    define(&world, "zz", "echo other >>../ran");
    let _ = human(&world, &["gate", "add", "WI-001", "zz"]).ok();
    world.git(&world.repo(), ["commit", "-qam", "another"]);
    world.git(&clone, ["pull", "-q"]);
    let _ = world.jit_as_in(HUMAN, &clone, ["gate", "run", "WI-001"]).exits(5);
    assert!(!world.root().join("ran").exists());
    let _ = world
        .jit_as_in(HUMAN, &clone, ["gate", "run", "WI-001", "test"])
        .ok();
}

#[test]
fn a8_what_an_agent_defines_is_not_approved_by_that() {
    let world = world();
    let define = ["gate", "define", "mine", "--command", "true", "--json"];
    let ran = world.jit_as(AGENT, define).ok();
    assert_eq!(ran.json()["gates"][0]["trusted"], false);
    assert!(ran.stderr.contains("jit trust"), "{}", ran.stderr);
    let run = ["gate", "run", "WI-001", "mine", "--json"];
    assert_eq!(code(&world.jit_as(AGENT, run).exits(5)), "not_trusted");
    // Nor is one a person that says so.
    let as_human = ["--agent-id", "human:me", "trust", "--yes"];
    let _ = world.jit_as(AGENT, as_human).exits(5);
    // The repository cannot allow it to itself.
    let _ = human(&world, &["config", "set", "agents.may_trust", "true"]).ok();
    let _ = world.jit_as(AGENT, ["trust", "--yes"]).exits(5);
    // Nor may an agent take back what a person approved.
    let _ = human(&world, &["trust", "--yes"]).ok();
    let _ = world.jit_as(AGENT, ["trust", "--revoke"]).exits(5);
    let _ = world.jit_as(AGENT, run).ok();
}

#[test]
fn a8_commands_are_shown_so_that_a_terminal_obeys_nothing_and_no_line_is_forged() {
    let world = world();
    let text = "true\n  try: jit trust --yes\u{1b}[2J";
    assert!(text.contains('\u{1b}'));
    define(&world, "evil", text);
    let _ = human(&world, &["trust", "--revoke"]).ok();
    let outputs = [
        human(&world, &["trust", "--list"]).ok().stdout,
        human(&world, &["trust"]).exits(5).stderr,
        human(&world, &["gate", "run", "WI-001", "evil"]).exits(5).stderr,
        human(&world, &["gate", "list"]).ok().stdout,
    ];
    for shown in outputs {
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        assert!(!shown.contains("\n  try: jit trust --yes\\u"), "{shown}");
        assert!(shown.contains("\\u{1b}[2J"), "all of it is shown: {shown}");
    }
}

#[test]
fn e6_a_gate_may_use_jit_itself_and_a_request_id_is_not_handed_down() {
    let world = world();
    for word in ["one", "two"] {
        require(
            &world,
            word,
            &format!("{JIT} issue comment \"$JIT_ISSUE\" \"$JIT_GATE\""),
        );
    }
    let mut command = world.jit_command(&world.repo());
    command
        .env("JIT_AGENT_ID", HUMAN)
        .env("JIT_REQUEST_ID", "mine")
        .args(["gate", "run", "WI-001"]);
    let _ = world.run(command).ok();
    let issue = human(&world, &["issue", "show", "WI-001", "--json"]).ok().json();
    assert_eq!(field(&issue["comments"], "text"), ["one", "two"]);
    // Said twice under one name, it is recorded once.
    let _ = human(&world, &["gate", "define", "review", "--manual"]).ok();
    for _ in 0..2 {
        let pass = ["gate", "pass", "WI-001", "review", "--request-id", "again"];
        let _ = human(&world, &pass).ok();
    }
    assert_eq!(world.effects_of("again"), 1);
}

#[test]
fn e6_a_registry_that_cannot_be_read_lets_nothing_become_done_and_is_in_no_other_way() {
    let world = world();
    fs::write(world.repo().join(".jit/gates/registry.json"), "<<<<<<< ours\n").expect("a file");
    for args in [
        &["issue", "update", "WI-001", "--state", "done"][..],
        &["gate", "list"],
        &["gate", "run", "WI-001"],
        &["gate", "define", "x", "--command", "true"],
        &["trust", "--list"],
    ] {
        let ran = world.jit_as(HUMAN, args.iter().chain(&["--json"])).exits(2);
        assert_eq!(code(&ran), "config", "{args:?}");
    }
    for args in [
        &["claim", "acquire", "WI-001"][..],
        &["issue", "update", "WI-001", "--priority", "high"],
        &["claim", "release", "WI-001"],
    ] {
        let _ = human(&world, args).ok();
    }
}

/// Changes fields of WI-001's file in a tree as an editor would.
fn edit(tree: &Path, changes: &[(&str, Value)]) {
    let path = tree.join(".jit/issues/WI-001/issue.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).expect("issue.json")).expect("JSON");
    for (name, value) in changes {
        file[*name] = value.clone();
    }
    fs::write(&path, serde_json::to_vec_pretty(&file).expect("text")).expect("write");
}

fn in_tree(tree: &Path, name: &str) -> Value {
    let file = fs::read(tree.join(".jit/issues/WI-001/issue.json")).expect("issue.json");
    serde_json::from_slice::<Value>(&file).expect("JSON")[name].clone()
}

#[test]
fn e6_an_edit_by_hand_makes_nothing_done_before_its_gates_have_passed() {
    let world = world();
    let _ = human(&world, &["gate", "define", "review", "--manual"]).ok();
    let _ = human(&world, &["gate", "add", "WI-001", "review"]).ok();
    let _ = human(
        &world,
        &[
            "issue",
            "create",
            "Next",
            "--id",
            "WI-002",
            "--depends-on",
            "WI-001",
        ],
    )
    .ok();
    edit(&world.repo(), &[("state", json!("done"))]);
    let ran = human(&world, &["issue", "show", "WI-001", "--json"]).ok();
    assert_eq!(ran.json()["state"], "gated");
    assert!(
        ran.stderr.contains("review") && ran.stderr.contains("gated"),
        "{}",
        ran.stderr
    );
    assert_eq!(in_tree(&world.repo(), "state"), "gated");
    let listed = human(&world, &["blocked", "--json"]).ok();
    assert!(listed.stdout.contains("WI-002"), "{}", listed.stdout);
    // The same with another type at once, which asks for nothing; and for an issue that the log has never heard of.
    let _ = human(
        &world,
        &[
            "gate",
            "define",
            "lint",
            "--command",
            "true",
            "--required-for",
            "task",
        ],
    )
    .ok();
    edit(
        &world.repo(),
        &[
            ("state", json!("done")),
            ("type", json!("chore")),
            ("gates", json!([])),
        ],
    );
    let ran = human(&world, &["issue", "show", "WI-001", "--json"]).ok();
    assert_eq!(
        (&ran.json()["state"], &ran.json()["gates"]),
        (&json!("gated"), &json!([]))
    );
    assert!(ran.stderr.contains("lint"), "{}", ran.stderr);
    let issues = world.repo().join(".jit/issues");
    fs::create_dir(issues.join("NEW-1")).expect("a folder");
    let file = json!({
        "id": "NEW-1", "title": "By hand", "type": "task", "state": "done", "created_at": "2026-01-01T00:00:00.000Z"
    });
    fs::write(issues.join("NEW-1/issue.json"), file.to_string()).expect("write");
    let shown = human(&world, &["issue", "show", "NEW-1", "--json"]).ok().json();
    assert_eq!(shown["state"], "gated");
    // What has passed can be made done by hand too.
    let _ = human(&world, &["gate", "run", "WI-001", "lint"]);
    let _ = human(&world, &["gate", "pass", "WI-001", "lint"]);
    edit(
        &world.repo(),
        &[("type", json!("issue")), ("state", json!("ready"))],
    );
    let _ = human(&world, &["issue", "show", "WI-001"]).ok();
    edit(&world.repo(), &[("state", json!("done"))]);
    let shown = human(&world, &["issue", "show", "WI-001", "--json"]).ok().json();
    assert_eq!(shown["state"], "done");
    let _ = human(&world, &["validate"]).ok();
}

#[test]
fn e6_no_agent_lessens_by_hand_what_an_issue_must_pass() {
    let world = world();
    define(&world, "lint", "true");
    let _ = human(
        &world,
        &[
            "gate",
            "define",
            "test",
            "--command",
            "true",
            "--required-for",
            "task",
        ],
    )
    .ok();
    let _ = human(&world, &["gate", "add", "WI-001", "lint"]).ok();
    edit(
        &world.repo(),
        &[
            ("gates", json!([])),
            ("type", json!("chore")),
            ("title", json!("Mine")),
        ],
    );
    let ran = world.jit_as(AGENT, ["issue", "show", "WI-001", "--json"]).ok();
    let shown = ran.json();
    assert_eq!(
        (&shown["gates"], &shown["type"], &shown["title"]),
        (&json!(["lint"]), &json!("task"), &json!("Mine"))
    );
    assert!(ran.stderr.contains("lint, test"), "{}", ran.stderr);
    assert_eq!(in_tree(&world.repo(), "gates"), json!(["lint"]));
    // Whoever looks first: what is edited where an agent is at work is the agent's, by its claim or its session.
    let mine = world.worktree("mine");
    for (begin, end) in [
        (["claim", "acquire", "WI-001"], ["claim", "release", "WI-001"]),
        (["session", "start", "--json"], ["session", "end", "--json"]),
    ] {
        let _ = world.jit_as_in(AGENT, &mine, begin).ok();
        let _ = world
            .jit_as_in(AGENT, &mine, ["issue", "comment", "WI-001", "hm"])
            .ok();
        edit(&mine, &[("gates", json!([]))]);
        let ran = world
            .jit_as_in(HUMAN, &mine, ["issue", "show", "WI-001", "--json"])
            .ok();
        assert_eq!(ran.json()["gates"], json!(["lint"]), "{begin:?}");
        assert!(ran.stderr.contains("agent:"), "{}", ran.stderr);
        let _ = world.jit_as_in(AGENT, &mine, end).ok();
    }
    // People may. (To the byte what an agent said before would be taken for the agent's old copy.)
    edit(
        &world.repo(),
        &[("gates", json!([])), ("title", json!("A person's"))],
    );
    let shown = human(&world, &["issue", "show", "WI-001", "--json"]).ok().json();
    assert_eq!(shown["gates"], json!([]));
}

#[test]
fn e6_what_another_clone_made_done_is_believed_and_noted() {
    let (world, clone) = cloned("true");
    let _ = human(&world, &["gate", "run", "WI-001"]).ok();
    let _ = human(&world, &["issue", "update", "WI-001", "--state", "done"]).ok();
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "done"]);
    world.git(&clone, ["pull", "-q"]);
    let shown = world
        .jit_as_in(HUMAN, &clone, ["issue", "show", "WI-001", "--json"])
        .ok();
    assert_eq!(shown.json()["state"], "done");
    let report = world.jit_as_in(HUMAN, &clone, ["validate", "--json"]).ok().json();
    let notes = report["notes"].to_string();
    assert!(notes.contains("WI-001 (test)"), "{report}");
}

#[test]
fn e6_what_is_done_past_a_gate_of_its_type_is_noted() {
    let world = world();
    for id in ["T-1", "T-2", "T-3"] {
        let _ = human(&world, &["issue", "create", "t", "--id", id, "--type", "task"]).ok();
    }
    commit(&world, "tasks");
    // A tree that does not know of the gate.
    let aside = world.worktree("aside");
    let done = |id: &'static str| ["issue", "update", id, "--state", "done"];
    let _ = human(&world, &done("T-1")).ok();
    let required = [
        "gate",
        "define",
        "lint",
        "--command",
        "true",
        "--required-for",
        "task",
    ];
    let _ = human(&world, &required).ok();
    let notes = || human(&world, &["validate", "--json"]).ok().json()["notes"].to_string();
    assert!(!notes().contains("(lint)"), "{}", notes());
    let _ = human(&world, &["gate", "run", "T-2"]).ok();
    let _ = human(&world, &done("T-2")).ok();
    let _ = world.jit_as_in(HUMAN, &aside, done("T-3")).ok();
    let notes = notes();
    assert!(notes.contains(": T-3 (lint)\""), "{notes}");
}

#[test]
fn e6_a_definition_can_be_taken_away_by_people_and_what_asks_for_it_is_told() {
    let world = world();
    require(&world, "lint", "true");
    let required = ["gate", "define", "review", "--manual", "--required-for", "task"];
    let _ = human(&world, &required).ok();
    commit(&world, "gates");
    let ran = world.jit_as(AGENT, ["gate", "undefine", "review"]).exits(5);
    assert!(ran.stderr.contains("may not"), "{}", ran.stderr);
    assert_eq!(
        code(&human(&world, &["gate", "undefine", "revue", "--json"]).exits(3)),
        "not_found"
    );
    let ran = human(&world, &["gate", "undefine", "review", "--json"]).ok();
    assert_eq!(ran.json()["gates"].as_array().map(Vec::len), Some(1));
    assert_eq!(ran.stderr, "", "nothing asks for it itself");
    let ran = human(&world, &["gate", "undefine", "lint"]).ok();
    assert!(
        ran.stderr.contains("WI-001") && ran.stderr.contains("jit gate rm"),
        "{}",
        ran.stderr
    );
    assert_eq!(human(&world, &["gate", "list"]).ok().stdout, "No gates.\n");
    // It is not passed by being unknown.
    let done = ["issue", "update", "WI-001", "--state", "done"];
    let _ = human(&world, &done).exits(6);
    let _ = human(&world, &["gate", "rm", "WI-001", "lint"]).ok();
    let _ = world.jit_as(AGENT, done).exits(6);
    let _ = human(&world, &done).ok();
}

#[test]
fn c7_results_that_two_branches_have_merge_without_a_conflict() {
    let world = world();
    require(&world, "one", "true");
    require(&world, "two", "true");
    commit(&world, "gates");
    let aside = world.worktree("aside");
    let ran_in = |dir: &Path, gate: &str| {
        let _ = world.jit_as_in(HUMAN, dir, ["gate", "run", "WI-001", gate]).ok();
        world.git(dir, ["add", "-A"]);
        world.git(dir, ["commit", "-q", "-m", gate]);
    };
    let merge = |dir: &Path, branch: &str| {
        let mut command = with_jit_on_path(&world, world.command("git", dir));
        command.args(["merge", "-q", "--no-edit", branch]);
        let _ = world.run(command).ok();
    };
    let results = |dir: &Path| -> Value {
        let file = fs::read(dir.join(".jit/gates/results/WI-001.json")).expect("results");
        let file: Value = serde_json::from_slice(&file).expect("JSON");
        file["results"].clone()
    };
    let repo = world.repo();
    // Both make the file, then both change it.
    for _ in 0..2 {
        ran_in(&repo, "one");
        ran_in(&repo, "two");
        ran_in(&aside, "one");
        let (two, one) = (results(&repo)["two"].clone(), results(&aside)["one"].clone());
        merge(&repo, "aside");
        let both = results(&repo);
        assert_eq!(
            (&both["one"], &both["two"]),
            (&one, &two),
            "the later one of each"
        );
        merge(&aside, "main");
        assert_eq!(results(&aside), both);
    }
    assert_eq!(world.jit_as(HUMAN, ["validate"]).code, 0);
    // A repository that was set up before has the line after the next init.
    let attributes = repo.join(".jit/.gitattributes");
    let now = fs::read_to_string(&attributes).expect("attributes");
    let before = now.replace(", gates and results gate by gate", "");
    let before = before.replace("gates/results/*.json merge=jit-issue text eol=lf\n", "");
    let before = before.replace("gates/registry.json merge=jit-issue text eol=lf\n", "");
    fs::write(&attributes, &before).expect("write");
    let _ = human(&world, &["init"]).ok();
    assert_eq!(fs::read_to_string(&attributes).expect("attributes"), now);
    fs::write(&attributes, before.clone() + "*.txt text\n").expect("write");
    let _ = human(&world, &["init"]).ok();
    assert_eq!(
        fs::read_to_string(&attributes).expect("attributes"),
        before + "*.txt text\n"
    );
}

#[test]
fn a4_a_gate_runs_once_for_one_request_id() {
    let world = world();
    require(&world, "one", "echo ran >> ../count");
    require(&world, "two", "echo ran >> ../count; false");
    let run = |words: &[&str]| {
        let mut all = vec!["gate", "run", "WI-001", "--json"];
        all.extend(words);
        human(&world, &all)
    };
    let ran = || {
        fs::read_to_string(world.root().join("count"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    let first = run(&["--request-id", "once"]);
    assert_eq!(ran(), 2);
    let again = run(&["--request-id", "once"]);
    assert_eq!(ran(), 2, "run again");
    assert_eq!((first.code, first.json()), (again.code, again.json()));
    let _ = run(&["--request-id", "another"]);
    assert_eq!(ran(), 4);
    let _ = run(&[]);
    assert_eq!(ran(), 6);
}

#[test]
fn a4_a_request_about_a_gate_has_its_own_answer_whatever_came_since() {
    let world = world();
    require(&world, "there", "test -e ../there");
    let run = |id: &str| human(&world, &["gate", "run", "WI-001", "--json", "--request-id", id]);
    let first = run("r1").exits(6).json();
    fs::write(world.root().join("there"), "").expect("written");
    let _ = run("r2").ok();
    let again = run("r1").exits(6).json();
    assert_eq!(again["gates"][0]["status"], "failed", "{again}");
    assert_eq!(again["gates"][0]["at"], first["gates"][0]["at"]);
    // Nor does it take back what was judged since, or say something else than then.
    let _ = human(&world, &["gate", "define", "look", "--manual"]).ok();
    let judge = |how: &str, id: &str, note: &str| {
        let words = [
            "gate",
            how,
            "WI-001",
            "look",
            "--json",
            "--request-id",
            id,
            "--note",
            note,
        ];
        human(&world, &words).json()
    };
    let kept = || {
        let file = world.repo().join(".jit/gates/results/WI-001.json");
        let kept: Value = serde_json::from_slice(&fs::read(file).expect("results")).expect("JSON");
        kept["results"]["look"].clone()
    };
    let _ = judge("fail", "q1", "first");
    let again = judge("fail", "q1", "again");
    assert_eq!(again["gates"][0]["note"], "first", "{again}");
    assert_eq!(kept()["note"], "first");
    let _ = judge("pass", "q2", "second");
    let again = judge("fail", "q1", "again");
    assert_eq!(again["gates"][0]["status"], "failed", "{again}");
    assert_eq!(
        (&kept()["status"], &kept()["note"]),
        (&json!("passed"), &json!("second"))
    );
}

#[test]
fn c7_gates_that_two_branches_define_merge_one_by_one() {
    let world = world();
    commit(&world, "issues");
    let aside = world.worktree("aside");
    let define = |dir: &Path, gate: &str, command: &str| {
        let _ = world
            .jit_as_in(HUMAN, dir, ["gate", "define", gate, "--command", command])
            .ok();
        world.git(dir, ["add", "-A"]);
        world.git(dir, ["commit", "-q", "-m", gate]);
    };
    let merge = || {
        let mut command = with_jit_on_path(&world, world.command("git", &world.repo()));
        command.args(["merge", "-q", "--no-edit", "aside"]);
        world.run(command)
    };
    define(&world.repo(), "one", "true");
    define(&aside, "two", "true");
    let _ = merge().ok();
    let gates = human(&world, &["gate", "list", "--json"]).ok().json()["gates"].clone();
    assert_eq!(
        (&gates[0]["name"], &gates[1]["name"]),
        (&json!("one"), &json!("two"))
    );
    // The same one in two ways is for a person to decide.
    define(&world.repo(), "three", "true");
    define(&aside, "three", "false");
    let ran = merge();
    assert_ne!(ran.code, 0);
    assert!(
        ran.stderr.contains("both sides define three differently"),
        "{}",
        ran.stderr
    );
    let text = fs::read_to_string(world.repo().join(".jit/gates/registry.json")).expect("gates");
    assert!(text.contains("<<<<<<<") && text.contains(">>>>>>>"), "{text}");
}

#[test]
fn e6_no_agent_defines_a_gate_anew_or_takes_its_definition_away() {
    let world = world();
    let _ = human(&world, &["gate", "define", "review", "--manual"]).ok();
    let _ = human(
        &world,
        &[
            "gate",
            "define",
            "lint",
            "--command",
            "true",
            "--required-for",
            "task",
        ],
    )
    .ok();
    for words in [
        &["gate", "define", "review", "--command", "true"][..],
        &["gate", "define", "lint", "--command", "true"],
        &["gate", "define", "lint", "--manual", "--required-for", "task"],
    ] {
        let ran = world.jit_as(AGENT, words).exits(5);
        assert!(ran.stderr.contains("may not define"), "{}", ran.stderr);
    }
    // What is new takes nothing away.
    let _ = world
        .jit_as(AGENT, ["gate", "define", "more", "--command", "true"])
        .ok();
    // What passed as something else does not count for an agent by being defined nowhere.
    let _ = human(&world, &["gate", "define", "once", "--command", "true"]).ok();
    let _ = human(
        &world,
        &["issue", "create", "t", "--id", "OD-1", "--gate", "once"],
    )
    .ok();
    let _ = human(&world, &["gate", "run", "OD-1"]).ok();
    let registry = world.repo().join(".jit/gates/registry.json");
    let text = std::fs::read_to_string(&registry).expect("a registry");
    std::fs::write(&registry, text.replace("\"once\"", "\"other\"")).expect("writes");
    let ran = world
        .jit_as(AGENT, ["issue", "update", "OD-1", "--state", "done"])
        .exits(6);
    assert!(ran.stderr.contains("once"), "{}", ran.stderr);
    std::fs::write(&registry, text).expect("writes");
    let _ = world
        .jit_as(AGENT, ["issue", "update", "OD-1", "--state", "done"])
        .ok();
}
