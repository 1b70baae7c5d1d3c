//! `jit claim …` (B1, B2, B4, B5, B10, B11) and `jit issue …` through the real command line.

use std::process::Stdio;
use std::time::{Duration, Instant};

use jit_testkit::world::World;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn world() -> World {
    let world = World::with_jit(JIT);
    let _ = world
        .jit(["issue", "create", "Parse dates", "--id", "WI-001"])
        .ok();
    world
}

/// As this agent in the main worktree.
fn by(world: &World, agent: &str, args: &[&str]) -> jit_testkit::world::Ran {
    world.jit(["--agent-id", agent, "--json"].iter().chain(args))
}

fn code(value: &Value) -> &str {
    value["error"]["code"].as_str().unwrap_or_default()
}

/// Takes the issue for a second and comes back when that second is over, told by the store's own waiting.
fn let_expire(world: &World, agent: &str) -> Value {
    let lease = by(world, agent, &["claim", "acquire", "WI-001", "--ttl", "1s"])
        .ok()
        .json();
    let until = Instant::now() + Duration::from_secs(20);
    // Readers compare for themselves: nothing can be waited on, because nothing is written when time passes.
    while world.jit(["claim", "list", "--json"]).ok().json()["active"] != json!([]) {
        assert!(Instant::now() < until, "the lease does not end");
    }
    lease
}

#[test]
fn b1_b2_acquire_shows_the_lease_and_again_gives_the_same_one() {
    let world = world();
    let ran = world
        .jit([
            "claim", "acquire", "WI-001", "--ttl", "30m", "--reason", "why not",
        ])
        .ok();
    insta::assert_snapshot!(world.stable(&ran.stdout).replace(&whoami(&world), "[ME]"), @r"
    Granted: WI-001 to [ME] until [TIME]
      lease [LEASE]  token 4  ([WT], branch main)
    ");
    let again = world.jit(["claim", "acquire", "WI-001", "--json"]).ok().json();
    let mut names: Vec<&str> = again
        .as_object()
        .expect("a lease")
        .keys()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "acquired_at",
            "agent_id",
            "branch",
            "existing",
            "expires_at",
            "issue_id",
            "lease_id",
            "note",
            "on_behalf_of",
            "parent",
            "regranted",
            "token",
            "ttl_secs",
            "worktree_id"
        ]
    );
    assert_eq!(
        (&again["existing"], &again["ttl_secs"], &again["token"]),
        (&json!(true), &json!(1800), &json!(4))
    );
    assert_eq!(again["note"], "why not");
    let ran = world.jit(["claim", "acquire", "WI-001"]).ok();
    assert!(ran.stdout.starts_with("Held already: WI-001"), "{}", ran.stdout);
}

fn whoami(world: &World) -> String {
    world.jit(["whoami", "--json"]).ok().json()["agent_id"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn b2_others_learn_holder_and_expiry_and_nothing_is_written() {
    let world = world();
    let lease = by(&world, "agent:one", &["claim", "acquire", "WI-001"])
        .ok()
        .json();
    let log = || std::fs::read(world.control().join("events/control.jsonl")).expect("the log");
    let before = log();
    let elsewhere = world.worktree("two");
    // Another agent; the same agent in another worktree.
    let refusals = [
        by(&world, "agent:two", &["claim", "acquire", "WI-001"]),
        world.jit_in(
            &elsewhere,
            ["--agent-id", "agent:one", "--json", "claim", "acquire", "wi-001"],
        ),
    ];
    for ran in refusals {
        let error = &ran.exits(4).json()["error"];
        assert_eq!(error["code"], "held");
        let held = &error["details"]["lease"];
        for name in [
            "lease_id",
            "agent_id",
            "worktree_id",
            "expires_at",
            "token",
            "issue_id",
        ] {
            assert_eq!(held[name], lease[name], "{name}");
        }
    }
    assert_eq!(log(), before);
}

#[test]
fn b4_only_the_holder_or_the_one_it_acts_for_renews_and_releases() {
    let world = world();
    let lease = by(
        &world,
        "agent:one",
        &["claim", "acquire", "WI-001", "--on-behalf-of", "human:boss"],
    )
    .ok()
    .json();
    let id = lease["lease_id"].as_str().expect("an id");
    for target in ["WI-001", id] {
        for verb in ["renew", "release"] {
            let refused = by(&world, "agent:two", &["claim", verb, target]).exits(5).json();
            assert_eq!(code(&refused), "not_holder");
            assert_eq!(
                refused["error"]["details"]["lease"]["lease_id"],
                lease["lease_id"]
            );
        }
    }
    let renewed = by(&world, "agent:one", &["claim", "renew", id, "--ttl", "2h"])
        .ok()
        .json();
    assert_eq!(
        (&renewed["lease_id"], &renewed["ttl_secs"]),
        (&lease["lease_id"], &json!(7200))
    );
    assert_eq!(renewed["token"], lease["token"], "a renewal is no new grant");
    assert_eq!(renewed["regranted"], false);
    let shown = world
        .jit(["--agent-id", "agent:one", "claim", "renew", "WI-001"])
        .ok()
        .stdout;
    assert!(shown.starts_with("Renewed: WI-001 to agent:one"), "{shown}");
    let elsewhere = world.worktree("two");
    let released = world
        .jit_in(
            &elsewhere,
            ["--agent-id", "human:boss", "--json", "claim", "release", id],
        )
        .ok();
    assert_eq!(
        released.json()["released"][0]["lease_id"],
        lease["lease_id"],
        "from anywhere"
    );
    let gone = by(&world, "agent:one", &["claim", "renew", id]).exits(5).json();
    assert_eq!(code(&gone), "not_holder");
}

#[test]
fn b4_an_expired_lease_is_granted_again_to_its_holder_with_a_new_token() {
    let world = world();
    let old = let_expire(&world, "agent:one");
    let id = old["lease_id"].as_str().expect("an id");
    // For anybody else it is a lease that nobody holds any more.
    let _ = by(&world, "agent:two", &["claim", "renew", id]).exits(3);
    let new = by(&world, "agent:one", &["claim", "renew", id, "--ttl", "1m"])
        .ok()
        .json();
    assert_eq!(new["regranted"], true);
    assert!(new["token"].as_u64() > old["token"].as_u64(), "{old} {new}");
}

#[test]
fn b4_an_expired_lease_that_another_took_is_refused() {
    let world = world();
    let old = let_expire(&world, "agent:one");
    let id = old["lease_id"].as_str().expect("an id");
    let taken = by(&world, "agent:two", &["claim", "acquire", "WI-001"])
        .ok()
        .json();
    assert!(taken["token"].as_u64() > old["token"].as_u64());
    for verb in ["renew", "release"] {
        for target in [id, "WI-001"] {
            let refused = by(&world, "agent:one", &["claim", verb, target]).exits(5).json();
            assert_eq!(code(&refused), "not_holder", "{verb} {target}");
        }
    }
    let records = world.jit(["claim", "history", "--json"]).ok().json();
    let ops: Vec<&str> = records["records"]
        .as_array()
        .expect("records")
        .iter()
        .filter_map(|r| r["op"].as_str())
        .collect();
    assert_eq!(ops, ["acquire", "auto-evict", "acquire"]);
}

#[test]
fn b4_transfer_is_one_step_with_a_new_lease() {
    let world = world();
    let two = world.worktree("two");
    let wt = world.jit_in(&two, ["worktree", "init", "--json"]).ok().json()["worktree_id"].clone();
    let wt = wt.as_str().expect("an id");
    let old = by(&world, "agent:one", &["claim", "acquire", "WI-001"])
        .ok()
        .json();
    let new = by(
        &world,
        "agent:one",
        &[
            "claim",
            "transfer",
            "WI-001",
            "--to",
            "agent:two",
            "--worktree",
            wt,
        ],
    )
    .ok()
    .json();
    assert_eq!(
        (&new["agent_id"], &new["worktree_id"], &new["branch"]),
        (&json!("agent:two"), &json!(wt), &json!("two"))
    );
    assert_ne!(new["lease_id"], old["lease_id"]);
    assert!(new["token"].as_u64() > old["token"].as_u64());
    let _ = by(&world, "agent:one", &["claim", "release", "WI-001"]).exits(5);
    let history = world.jit(["claim", "history", "--json"]).ok().json();
    let last = history["records"]
        .as_array()
        .and_then(|all| all.last())
        .cloned()
        .unwrap_or_default();
    assert_eq!(
        (&last["op"], &last["from_lease_id"]),
        (&json!("transfer"), &old["lease_id"]),
        "{last}"
    );
    let unknown = world.jit_in(
        &two,
        [
            "--agent-id",
            "agent:two",
            "--json",
            "claim",
            "transfer",
            "WI-001",
            "--to",
            "agent:x",
            "--worktree",
            "wt:00000000",
        ],
    );
    assert_eq!(code(&unknown.exits(3).json()), "not_found");
    let _ = world
        .jit_in(&two, ["--agent-id", "agent:two", "claim", "release", "WI-001"])
        .ok();
}

#[test]
fn b4_force_evict_is_for_people_unless_configured_and_is_recorded() {
    let world = world();
    let _ = by(&world, "agent:one", &["claim", "acquire", "WI-001"]).ok();
    let refused = by(
        &world,
        "agent:two",
        &["claim", "force-evict", "WI-001", "--reason", "stuck"],
    )
    .exits(5)
    .json();
    assert_eq!(code(&refused), "not_allowed");
    let _ = by(&world, "human:ann", &["claim", "force-evict", "WI-001"]).exits(2);
    let _ = by(
        &world,
        "human:ann",
        &["claim", "force-evict", "WI-001", "--reason", " "],
    )
    .exits(2);
    let done = by(
        &world,
        "human:ann",
        &["claim", "force-evict", "WI-001", "--reason", "stuck"],
    )
    .ok();
    assert!(
        done.stderr.contains("warning: agent:one lost its lease"),
        "{}",
        done.stderr
    );
    assert_eq!(done.json()["evicted"][0]["agent_id"], "agent:one");
    let history = world.jit(["claim", "history", "--json"]).ok().json();
    let last = history["records"]
        .as_array()
        .and_then(|all| all.last())
        .cloned()
        .unwrap_or_default();
    assert_eq!(
        (&last["op"], &last["reason"], &last["by"]),
        (&json!("force-evict"), &json!("stuck"), &json!("human:ann")),
        "{last}"
    );
    let _ = by(&world, "agent:one", &["claim", "renew", "WI-001"]).exits(5);
    let _ = world
        .jit(["config", "set", "agents.may_force_evict", "true"])
        .ok();
    let _ = by(&world, "agent:one", &["claim", "acquire", "WI-001"]).ok();
    // Not before it is committed: anybody can write it into the file.
    let _ = by(
        &world,
        "agent:two",
        &["claim", "force-evict", "WI-001", "--reason", "stuck"],
    )
    .exits(5);
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "agents may"]);
    let _ = by(
        &world,
        "agent:two",
        &["claim", "force-evict", "WI-001", "--reason", "stuck"],
    )
    .ok();
    let _ = by(
        &world,
        "agent:two",
        &["claim", "force-evict", "WI-001", "--reason", "again"],
    )
    .exits(3);
}

#[test]
fn b5_how_long_a_lease_lasts_by_type_and_kind_of_holder() {
    let world = World::with_jit(JIT);
    for (kind, agent, secs) in [
        ("activity", "human:a", 28_800),
        ("activity", "agent:a", 3600),
        ("task", "human:a", 14_400),
        ("task", "agent:a", 1800),
        ("bug", "human:a", 28_800),
        ("bug", "agent:a", 600),
        ("activity", "ci:a", 600),
    ] {
        let id = world
            .jit(["issue", "create", "x", "--type", kind, "--json"])
            .ok()
            .json()["id"]
            .clone();
        let id = id.as_str().expect("an id");
        let lease = by(&world, agent, &["claim", "acquire", id]).ok().json();
        assert_eq!(lease["ttl_secs"], secs, "{kind} {agent}");
    }
    for (text, secs) in [
        ("600", 600),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("30d", 2_592_000),
    ] {
        let id = world.jit(["issue", "create", "x", "--json"]).ok().json()["id"].clone();
        let id = id.as_str().expect("an id");
        let lease = by(&world, "agent:a", &["claim", "acquire", id, "--ttl", text])
            .ok()
            .json();
        assert_eq!(lease["ttl_secs"], secs, "{text}");
    }
    let _ = world
        .jit(["config", "set", "coordination.default_ttl_secs", "20m"])
        .ok();
    let _ = world
        .jit(["config", "set", "coordination.ttl.task.agent", "7m"])
        .ok();
    for (kind, secs) in [("bug", 1200), ("task", 420)] {
        let id = world
            .jit(["issue", "create", "x", "--type", kind, "--json"])
            .ok()
            .json()["id"]
            .clone();
        let lease = by(
            &world,
            "agent:a",
            &["claim", "acquire", id.as_str().expect("an id")],
        )
        .ok()
        .json();
        assert_eq!(lease["ttl_secs"], secs, "{kind}");
    }
}

#[test]
fn b5_absurd_lengths_are_refused_for_renewals_too() {
    let world = world();
    let _ = by(&world, "agent:a", &["claim", "acquire", "WI-001"]).ok();
    for ttl in [
        "0",
        "0s",
        "-1",
        "-0",
        "31d",
        "9223372036854775808",
        "18446744073709551616",
        "1e3",
        "",
        " 5",
        "ten",
    ] {
        let _ = by(&world, "agent:a", &["claim", "renew", "WI-001", "--ttl", ttl]).exits(2);
        let _ = by(&world, "agent:b", &["claim", "acquire", "WI-001", "--ttl", ttl]).exits(2);
    }
}

#[test]
fn b2_waiting_ends_when_the_holder_lets_go() {
    let world = world();
    let _ = by(
        &world,
        "agent:one",
        &["claim", "acquire", "WI-001", "--ttl", "1h"],
    )
    .ok();
    let waiter = world
        .jit_command(&world.repo())
        .args([
            "--agent-id",
            "agent:two",
            "--json",
            "claim",
            "acquire",
            "WI-001",
            "--wait",
            "60s",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("jit starts");
    // Whether it watches already or not yet, it must get it.
    let _ = by(&world, "agent:one", &["claim", "release", "WI-001"]).ok();
    let output = waiter.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let lease: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(lease["agent_id"], "agent:two");
    // Waiting is bounded, and its end is the ordinary refusal.
    let began = Instant::now();
    let refused = by(
        &world,
        "agent:one",
        &["claim", "acquire", "WI-001", "--wait", "1s"],
    )
    .exits(4);
    assert_eq!(code(&refused.json()), "held");
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[test]
fn b2_waiting_ends_when_the_lease_does() {
    let world = world();
    let _ = by(
        &world,
        "agent:one",
        &["claim", "acquire", "WI-001", "--ttl", "1s"],
    )
    .ok();
    let lease = by(
        &world,
        "agent:two",
        &["claim", "acquire", "WI-001", "--wait", "60s"],
    )
    .ok()
    .json();
    assert_eq!(lease["agent_id"], "agent:two");
}

#[test]
fn b10_status_list_and_history_for_people_and_programs() {
    let world = world();
    let ran = world.jit(["claim", "status"]).ok();
    insta::assert_snapshot!(ran.stdout, @"Nobody holds anything.");
    let _ = by(
        &world,
        "agent:one",
        &["claim", "acquire", "WI-001", "--ttl", "2d"],
    )
    .ok();
    let ran = world.jit(["claim", "list"]).ok();
    insta::assert_snapshot!(world.stable(&ran.stdout), @r"
    ISSUE   HOLDER     WORKTREE     BRANCH  LEFT    HEARTBEAT  LEASE
    WI-001  agent:one  [WT]  main    47h59m  -          [LEASE]
    ");
    let status = world
        .jit(["claim", "status", "--issue", "wi-0", "--json"])
        .ok()
        .json();
    assert_eq!(status["schema_version"], 1);
    assert_eq!(status["sequence"], 4);
    let one = &status["active"][0];
    assert_eq!(one["agent_id"], "agent:one");
    assert!(
        one["remaining_secs"].as_u64().is_some_and(|left| left > 172_000),
        "{one}"
    );
    assert!(one["heartbeat_age_secs"].is_null());
    let _ = by(&world, "agent:one", &["heartbeat", "--once"]).ok();
    let status = world.jit(["claim", "status", "--json"]).ok().json();
    assert!(status["active"][0]["heartbeat_age_secs"].is_u64(), "{status}");
    let _ = by(&world, "agent:one", &["claim", "release", "WI-001"]).ok();
    let ran = world.jit(["claim", "history"]).ok();
    insta::assert_snapshot!(world.stable(&ran.stdout), @r"
    4  [TIME]  acquire      WI-001  agent:one
    5  [TIME]  release      WI-001  agent:one
    ");
    let records = |args: &[&str]| {
        let ran = world.jit(["claim", "history", "--json"].iter().chain(args)).ok();
        ran.json()["records"].as_array().map(Vec::len)
    };
    assert_eq!(records(&[]), Some(2));
    assert_eq!(records(&["--issue", "WI-001"]), Some(2));
    assert_eq!(records(&["--agent", "agent:two"]), Some(0));
    assert_eq!(records(&["--agent", "agent:one", "--limit", "1"]), Some(1));
}

#[test]
fn b11_a_lease_that_is_nearly_over_is_warned_of_with_the_command_to_run() {
    let world = world();
    // With a threshold of 100 % every lease is nearly over as soon as a moment has passed.
    let _ = world
        .jit(["config", "set", "coordination.lease_renewal_threshold_pct", "100"])
        .ok();
    let lease = by(
        &world,
        "agent:one",
        &["claim", "acquire", "WI-001", "--ttl", "1h"],
    )
    .ok()
    .json();
    let id = lease["lease_id"].as_str().expect("an id");
    let mut command = world.jit_command(&world.repo());
    command
        .env("JIT_AGENT_ID", "agent:one")
        .args(["issue", "list", "--json"]);
    let ran = world.run(command).ok();
    let expected = format!("jit claim renew {id} --ttl 3600");
    assert!(ran.stderr.trim_end().ends_with(&expected), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("warning: your lease on WI-001 ends in "),
        "{}",
        ran.stderr
    );
    assert!(
        ran.json()["issues"].is_array(),
        "standard output stays one document"
    );
    // The printed command works as printed, also where the agent was named on the command line.
    let ran = by(&world, "agent:one", &["claim", "list"]).ok();
    let (_, printed) = ran.stderr.trim_end().split_once(": jit ").expect("a command");
    assert_eq!(
        printed,
        format!("claim renew {id} --ttl 3600 --agent-id agent:one")
    );
    let _ = world.jit(printed.split(' ')).ok();
    // Not somebody else's business, and not with --quiet.
    assert_eq!(by(&world, "agent:two", &["claim", "list"]).ok().stderr, "");
    assert_eq!(
        by(&world, "agent:one", &["claim", "list", "--quiet"]).ok().stderr,
        ""
    );
}

#[test]
fn e2_issues_are_created_shown_and_listed() {
    let world = World::with_jit(JIT);
    let ran = world
        .jit([
            "issue",
            "create",
            "Write tests",
            "--id",
            "WI-001-A1",
            "--type",
            "task",
            "--priority",
            "high",
            "--label",
            "b",
            "--label",
            "a",
            "--description",
            "Long\ntext",
            "--gate",
            "tests",
        ])
        .ok();
    insta::assert_snapshot!(world.stable(&ran.stdout), @r"
    WI-001-A1  Write tests
      state       ready
      type        task
      priority    high
      labels      a, b
      gates       tests
      created     [TIME]
      updated     [TIME] (revision 1)

    Long
    text
    ");
    let _ = world.jit(["issue", "create", "Before it", "--id", "BB-1"]).ok();
    let child = world
        .jit([
            "issue",
            "create",
            "--json",
            "--parent",
            "wi-001",
            "--depends-on",
            "BB-1",
            "--state",
            "backlog",
            "--",
            "--odd title",
        ])
        .ok()
        .json();
    assert_eq!(child["parent"], "WI-001-A1");
    assert_eq!(child["depends_on"], json!(["BB-1"]));
    assert_eq!(child["title"], "--odd title");
    assert!(child["lives_in"].as_str().is_some_and(|wt| wt.starts_with("wt:")));
    let mut names: Vec<&str> = child
        .as_object()
        .expect("an issue")
        .keys()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "actor",
            "assignee",
            "blocked",
            "blocked_by",
            "comments",
            "created_at",
            "created_by",
            "depends_on",
            "description",
            "gates",
            "id",
            "labels",
            "lease",
            "lives_in",
            "parent",
            "pivot",
            "priority",
            "resume_from",
            "revision",
            "state",
            "title",
            "type",
            "updated_at",
        ]
    );
    let ids = |args: &[&str]| {
        let ran = world
            .jit(["issue", "list", "--json"].iter().chain(args))
            .ok()
            .json();
        ran["issues"].as_array().map(Vec::len)
    };
    assert_eq!(ids(&[]), Some(3));
    assert_eq!(ids(&["--state", "backlog"]), Some(1));
    assert_eq!(ids(&["--label", "a"]), Some(1));
    assert_eq!(ids(&["--type", "task"]), Some(1));
    assert_eq!(ids(&["--parent", "WI-001-A1"]), Some(1));
    assert_eq!(ids(&["--limit", "1"]), Some(1));
    assert_eq!(ids(&["--assignee", "agent:one"]), Some(0));
    // E3, E7: a lease shows as in progress, and everything is there in another worktree before any commit.
    let _ = by(&world, "agent:one", &["claim", "acquire", "WI-001-A1"]).ok();
    assert_eq!(
        ids(&["--assignee", "agent:one", "--state", "in_progress"]),
        Some(1)
    );
    let two = world.worktree("two");
    let seen = world
        .jit_in(&two, ["issue", "show", "WI-001-A1", "--json"])
        .ok()
        .json();
    assert_eq!(seen["description"], "Long\ntext\n");
    assert_eq!(seen["state"], "in_progress");
    assert_eq!(seen["lease"]["agent_id"], "agent:one");
    for bad in [
        &["--priority", "urgent"][..],
        &["--state", "done"],
        &["--id", "../x"],
        &["--id", "a b"],
        &["--parent", "NOPE-1"],
        &["--label", ""],
    ] {
        let ran = world.jit(["issue", "create", "x", "--json"].iter().chain(bad));
        assert!(ran.code == 2 || ran.code == 3, "{bad:?}: {ran:?}");
    }
    assert_eq!(ids(&[]), Some(3));
    let none = World::with_jit(JIT);
    assert_eq!(none.jit(["issue", "list"]).ok().stdout, "No issues.\n");
}

#[test]
fn e2_a_description_comes_from_standard_input() {
    let world = World::with_jit(JIT);
    let file = world.root().join("text");
    std::fs::write(&file, "from a pipe").expect("a file");
    let mut command = world.jit_command(&world.repo());
    command
        .stdin(std::fs::File::open(&file).expect("the file"))
        .args(["issue", "create", "x", "--description", "-", "--json"]);
    let made = world.run(command).ok().json();
    assert_eq!(made["description"], "from a pipe\n");
    std::fs::write(&file, b"\xff\xfe").expect("a file");
    let mut command = world.jit_command(&world.repo());
    command
        .stdin(std::fs::File::open(&file).expect("the file"))
        .args(["issue", "create", "x", "--description", "-", "--json"]);
    let _ = world.run(command).exits(2);
}
