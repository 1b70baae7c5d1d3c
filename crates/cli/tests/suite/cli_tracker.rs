//! The tracker from the command line: changing issues and who may (B15), dependencies (E4), states (E3), progress (E5),
//! picking work (B3).

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn create(world: &World, id: &str, more: &[&str]) {
    let mut args = vec!["issue", "create", id, "--id", id];
    args.extend(more);
    let _ = world.jit(args).ok();
}

fn ids(list: &Value) -> Vec<String> {
    let issues = list["issues"].as_array().expect("issues");
    issues
        .iter()
        .map(|issue| issue["id"].as_str().expect("an id").to_owned())
        .collect()
}

fn ready(world: &World) -> Vec<String> {
    ids(&world.jit(["ready", "--json"]).ok().json())
}

fn show(world: &World, id: &str) -> Value {
    world.jit(["issue", "show", id, "--json"]).ok().json()
}

fn refused(ran: &Ran, exit: i32, code: &str) -> Value {
    assert_eq!(ran.code, exit, "{}{}", ran.stdout, ran.stderr);
    let error = ran.json()["error"].clone();
    assert_eq!(error["code"], code, "{error}");
    error
}

#[test]
fn e2_every_field_can_be_changed() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &[]);
    create(
        &world,
        "WI-2",
        &["--label", "old", "--depends-on", "WI-1", "--gate", "g"],
    );
    let changed = world
        .jit([
            "issue",
            "update",
            "WI-2",
            "--title",
            "--new title",
            "--priority",
            "critical",
            "--type",
            "bug",
            "--parent",
            "WI-1",
            "--add-label",
            "new",
            "--remove-label",
            "old",
            "--remove-dep",
            "WI-1",
            "--add-gate",
            "h",
            "--remove-gate",
            "g",
            "--actor",
            "human",
            "--description",
            "Text",
            "--state",
            "backlog",
            "--json",
        ])
        .ok()
        .json();
    assert_eq!(changed["title"], "--new title");
    assert_eq!(
        (&changed["priority"], &changed["type"]),
        (&json!("critical"), &json!("bug"))
    );
    assert_eq!(
        (&changed["parent"], &changed["actor"]),
        (&json!("WI-1"), &json!("human"))
    );
    assert_eq!(
        (&changed["labels"], &changed["gates"]),
        (&json!(["new"]), &json!(["h"]))
    );
    assert_eq!(
        (&changed["depends_on"], &changed["state"]),
        (&json!([]), &json!("backlog"))
    );
    assert_eq!(
        (&changed["description"], &changed["revision"]),
        (&json!("Text\n"), &json!(2))
    );
    // What is so already changes nothing, and nothing at all is a mistake.
    let again = world
        .jit(["issue", "update", "WI-2", "--priority", "critical", "--json"])
        .ok()
        .json();
    assert_eq!(again["revision"], 2);
    refused(&world.jit(["issue", "update", "WI-2", "--json"]), 2, "invalid");
    let cleared = world
        .jit([
            "issue",
            "update",
            "WI-2",
            "--parent",
            "none",
            "--description",
            "",
            "--json",
        ])
        .ok()
        .json();
    assert_eq!(
        (&cleared["parent"], &cleared["description"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn e2_a_deleted_issue_is_known_as_such_and_comes_back_whole() {
    let world = World::with_jit(JIT);
    let words = ["issue", "create", "One", "--id", "WI-1", "--label", "x"];
    let _ = world.jit(words.iter().chain(&["--description", "long"])).ok();
    let _ = world.jit(["issue", "comment", "WI-1", "hm"]).ok();
    let before = world.jit(["issue", "show", "WI-1", "--json"]).ok().json();
    let _ = world.jit(["issue", "restore", "WI-1"]).exits(2);
    let _ = world.jit(["issue", "delete", "WI-1"]).ok();
    let shown = world.jit(["issue", "show", "WI-1"]).exits(3).stderr;
    assert!(
        shown.contains("WI-1 was deleted at 20") && shown.contains("jit issue restore WI-1"),
        "{shown}"
    );
    let after = world.jit(["issue", "restore", "wi-1", "--json"]).ok().json();
    for field in ["title", "labels", "state", "created_at"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    let shown = world.jit(["issue", "show", "WI-1", "--json"]).ok().json();
    assert_eq!(shown["description"], "long\n");
    assert_eq!(shown["comments"], before["comments"]);
    let folder = world.repo().join(".jit/issues/WI-1");
    for name in ["labels.or-set.jsonl", "comments.jsonl", "description.md"] {
        assert!(folder.join(name).exists(), "{name}");
    }
    let _ = world.jit(["issue", "restore", "WI-9"]).exits(3);
    let _ = world.jit(["validate"]).ok();
}

#[test]
fn e2_comments_search_and_deletion() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &["--description", "A needle in here"]);
    create(&world, "WI-2", &["--label", "Needlework"]);
    create(&world, "WI-3", &[]);
    create(&world, "WI-4", &["--depends-on", "WI-3"]);
    let _ = world.jit(["issue", "comment", "WI-3", "the NEEDLE\nagain"]).ok();
    assert_eq!(show(&world, "WI-3")["comments"][0]["text"], "the NEEDLE\nagain");
    assert_eq!(
        ids(&world.jit(["issue", "search", "needle", "--json"]).ok().json()),
        ["WI-1", "WI-2", "WI-3"]
    );
    refused(
        &world.jit(["issue", "comment", "WI-3", " ", "--json"]),
        2,
        "invalid",
    );
    let ran = world.jit(["issue", "delete", "WI-3", "--json"]).ok();
    assert_eq!(ran.json(), json!({"deleted": "WI-3"}));
    assert!(
        ran.stderr.contains("WI-4"),
        "who waited for it is told: {}",
        ran.stderr
    );
    refused(&world.jit(["issue", "show", "WI-3", "--json"]), 3, "not_found");
    refused(&world.jit(["claim", "acquire", "WI-3", "--json"]), 3, "not_found");
    refused(
        &world.jit(["issue", "create", "x", "--id", "wi-3", "--json"]),
        2,
        "exists",
    );
    assert_eq!(
        ready(&world),
        ["WI-1", "WI-2", "WI-4"],
        "nobody waits for what was deleted"
    );
}

#[test]
fn e3_transitions_are_those_of_the_table() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &["--state", "backlog"]);
    assert_eq!(ready(&world), [""; 0]);
    let error = refused(
        &world.jit(["issue", "update", "WI-1", "--state", "done", "--json"]),
        2,
        "bad_transition",
    );
    assert_eq!(error["details"]["candidates"], json!(["ready", "rejected"]));
    for state in [
        "ready",
        "in_progress",
        "gated",
        "done",
        "ready",
        "rejected",
        "backlog",
    ] {
        let now = world
            .jit(["issue", "update", "WI-1", "--state", state, "--json"])
            .ok()
            .json();
        assert_eq!(now["state"], state);
    }
}

#[test]
fn e3_what_was_begun_is_offered_again_with_its_branch() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &[]);
    let tree = world.worktree("agent-branch");
    let lease = world
        .jit_as_in("agent:a", &tree, ["claim", "acquire", "WI-1", "--json"])
        .ok()
        .json();
    assert_eq!(show(&world, "WI-1")["state"], "in_progress");
    assert_eq!(ready(&world), [""; 0]);
    let evict = ["claim", "force-evict", "WI-1", "--reason", "crashed"];
    let _ = world.jit(evict).ok();
    let offered = world.jit(["ready", "--json"]).ok().json();
    assert_eq!(offered["issues"][0]["resume_from"], lease["branch"]);
    // A change by somebody in passing does not make that one the last worker.
    let _ = world.jit(["issue", "update", "WI-1", "--priority", "high"]).ok();
    assert_eq!(show(&world, "WI-1")["resume_from"], lease["branch"]);
}

#[test]
fn e4_circles_are_refused_and_shown() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &[]);
    create(&world, "WI-2", &["--depends-on", "WI-1"]);
    create(&world, "WI-3", &["--depends-on", "WI-2"]);
    create(&world, "WI-4", &["--parent", "WI-1"]);
    let error = refused(&world.jit(["dep", "add", "WI-1", "WI-3", "--json"]), 2, "cycle");
    assert_eq!(
        error["details"]["candidates"],
        json!(["WI-1", "WI-3", "WI-2", "WI-1"])
    );
    refused(&world.jit(["dep", "add", "WI-1", "WI-1", "--json"]), 2, "cycle");
    refused(
        &world.jit(["issue", "update", "WI-1", "--parent", "WI-4", "--json"]),
        2,
        "cycle",
    );
    refused(
        &world.jit(["dep", "add", "WI-1", "WI-9", "--json"]),
        3,
        "not_found",
    );
    refused(
        &world.jit(["dep", "rm", "WI-1", "WI-2", "--json"]),
        3,
        "not_found",
    );
    let _ = world.jit(["dep", "rm", "WI-3", "WI-2"]).ok();
    let _ = world.jit(["dep", "add", "WI-2", "WI-3"]).ok();
}

#[test]
fn e4_ready_is_open_unblocked_unheld_and_best_first() {
    let world = World::with_jit(JIT);
    create(&world, "OLD", &[]);
    create(&world, "LATE-URGENT", &["--priority", "critical"]);
    create(&world, "BASE", &[]);
    create(&world, "MIDDLE", &["--depends-on", "BASE"]);
    create(
        &world,
        "TOP",
        &["--depends-on", "MIDDLE", "--priority", "critical"],
    );
    create(&world, "LATER", &["--state", "backlog"]);
    // Priority, then how much waits for it, then age.
    assert_eq!(ready(&world), ["LATE-URGENT", "BASE", "OLD"]);
    let blocked = world.jit(["blocked", "--json"]).ok().json();
    assert_eq!(ids(&blocked), ["TOP", "MIDDLE"]);
    assert_eq!(blocked["issues"][1]["blocked_by"], json!(["BASE"]));
    let _ = world.jit(["claim", "acquire", "BASE"]).ok();
    assert_eq!(ready(&world), ["LATE-URGENT", "OLD"]);
    let _ = world.jit(["issue", "update", "BASE", "--state", "done"]).ok();
    assert_eq!(
        ready(&world),
        ["LATE-URGENT", "MIDDLE", "OLD"],
        "the lease ended with the issue"
    );
    let _ = world.jit(["block", "MIDDLE", "--reason", "no key"]).ok();
    assert_eq!(ready(&world), ["LATE-URGENT", "OLD"]);
    let blocked = world.jit(["blocked", "--json"]).ok().json();
    assert_eq!(blocked["issues"][1]["blocked"], "no key");
    let _ = world.jit(["unblock", "MIDDLE"]).ok();
    let _ = world
        .jit(["issue", "update", "MIDDLE", "--state", "rejected"])
        .ok();
    assert_eq!(
        ready(&world),
        ["LATE-URGENT", "TOP", "OLD"],
        "critical and older than nothing else"
    );
    let _ = world.jit(["issue", "update", "BASE", "--state", "ready"]).ok();
    assert_eq!(ready(&world), ["LATE-URGENT", "TOP", "OLD", "BASE"]);
    assert_eq!(
        ids(&world.jit(["ready", "--json", "--limit", "1"]).ok().json()),
        ["LATE-URGENT"]
    );
}

#[test]
fn e5_progress_rolls_up_and_names_who_waits_for_a_person() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &["--type", "work_item"]);
    create(&world, "A-1", &["--type", "activity", "--parent", "WI-1"]);
    create(&world, "T-1", &["--type", "task", "--parent", "A-1"]);
    create(
        &world,
        "T-2",
        &["--type", "task", "--parent", "A-1", "--actor", "human"],
    );
    create(
        &world,
        "T-3",
        &["--type", "task", "--parent", "A-1", "--depends-on", "T-2"],
    );
    let _ = world.jit(["issue", "update", "T-1", "--state", "done"]).ok();
    let progress = world.jit(["progress", "WI-1", "--json"]).ok().json();
    let total = &progress["total"];
    assert_eq!(
        (&total["issues"], &total["done"], &total["percent_done"]),
        (&json!(3), &json!(1), &json!(33))
    );
    assert_eq!(
        (&total["blocked"], &total["waiting_for_human"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        progress["issues"][0]["parts"][0]["parts"][1]["waiting_for_human"],
        true
    );
    assert!(world.jit(["ready"]).ok().stdout.contains("waiting for a human"));
    assert!(
        world
            .jit(["progress"])
            .ok()
            .stdout
            .contains("waiting for a human")
    );
    // A task holds no activity, and the default hierarchy says so.
    refused(
        &world.jit([
            "issue", "create", "x", "--type", "activity", "--parent", "T-1", "--json",
        ]),
        2,
        "invalid",
    );
    // An agent is not given what waits for a person.
    refused(
        &world.jit_as("agent:a", ["claim", "acquire", "T-2", "--json"]),
        5,
        "not_allowed",
    );
    let _ = world.jit_as("human:h", ["claim", "acquire", "T-2"]).ok();
}

#[test]
fn b15_every_change_passes_the_same_gate() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &["--label", "x", "--gate", "g"]);
    create(&world, "WI-2", &[]);
    let _ = world.jit_as("agent:holder", ["claim", "acquire", "WI-1"]).ok();
    let changes: &[&[&str]] = &[
        &["issue", "update", "WI-1", "--title", "t"],
        &["issue", "update", "WI-1", "--state", "rejected"],
        &["issue", "update", "WI-1", "--priority", "low"],
        &["issue", "update", "WI-1", "--add-label", "y"],
        &["issue", "update", "WI-1", "--remove-label", "x"],
        &["issue", "update", "WI-1", "--add-gate", "h"],
        &["issue", "update", "WI-1", "--remove-gate", "g"],
        &["issue", "update", "WI-1", "--parent", "WI-2"],
        &["issue", "update", "WI-1", "--description", "d", "--title", "t"],
        &["dep", "add", "WI-1", "WI-2"],
        &["block", "WI-1", "--reason", "r"],
        &["pivot", "start", "WI-1", "--reason", "r"],
        &["issue", "delete", "WI-1"],
    ];
    let before = world.events().len();
    for change in changes {
        let mut args = change.to_vec();
        args.push("--json");
        let error = refused(&world.jit_as("agent:other", &args), 5, "not_holder");
        assert_eq!(error["details"]["lease"]["agent_id"], "agent:holder");
    }
    assert_eq!(world.events().len(), before, "refusals write nothing");
    // Reading, commenting and describing are everybody's.
    let _ = world
        .jit_as("agent:other", ["issue", "comment", "WI-1", "a word"])
        .ok();
    let _ = world
        .jit_as("agent:other", ["issue", "update", "WI-1", "--description", "d"])
        .ok();
    // The holder may.
    let _ = world
        .jit_as("agent:holder", ["issue", "update", "WI-1", "--title", "mine"])
        .ok();
    // What nobody holds is taken and returned within one append.
    let before = world.events().len();
    let _ = world
        .jit_as("agent:other", ["issue", "update", "WI-2", "--priority", "high"])
        .ok();
    let kinds: Vec<Value> = world.events()[before..]
        .iter()
        .map(|event| event["type"].clone())
        .collect();
    assert_eq!(kinds, ["claim.acquired", "issue.changed", "claim.released"]);
    assert_eq!(world.events()[before]["tx"], json!([1, 3]));
    assert_eq!(show(&world, "WI-2")["lease"], Value::Null);
    // Unless a lease of one's own is demanded.
    let strict = [
        "issue",
        "update",
        "WI-2",
        "--priority",
        "low",
        "--strict",
        "--json",
    ];
    refused(&world.jit_as("agent:other", strict), 5, "lease_required");
    let _ = world.jit_as("agent:other", ["claim", "acquire", "WI-2"]).ok();
    let _ = world.jit_as("agent:other", strict).ok();
}

#[test]
fn b15_settings_say_how_strict() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &[]);
    create(&world, "WI-2", &[]);
    let _ = world.jit_as("agent:holder", ["claim", "acquire", "WI-1"]).ok();
    let set = |value: &str| {
        let _ = world
            .jit_as("human:h", ["config", "set", "worktree.enforce_leases", value])
            .ok();
    };
    let commit = || {
        world.git(&world.repo(), ["add", ".jit/config.toml"]);
        world.git(&world.repo(), ["commit", "-qm", "settings"]);
    };
    let update = |id: &str, priority: &str| {
        world.jit_as(
            "agent:other",
            ["issue", "update", id, "--priority", priority, "--json"],
        )
    };
    set("strict-explicit");
    refused(&update("WI-2", "low"), 5, "lease_required");
    set("warn");
    commit();
    let warned = update("WI-1", "high").ok();
    assert!(warned.stderr.contains("agent:holder"), "{}", warned.stderr);
    set("off");
    commit();
    assert_eq!(update("WI-1", "low").ok().stderr, "");
}

/// B15: what an agent wrote into the file of settings opens no lease of somebody else.
#[test]
fn b15_an_agent_switches_no_enforcement_off_by_a_file() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    create(&world, "WI-1", &[]);
    world.git(&repo, ["add", ".jit"]);
    world.git(&repo, ["commit", "-qm", "jit"]);
    let _ = world.jit_as("agent:b", ["claim", "acquire", "WI-1"]).ok();
    let write = |text: &str| std::fs::write(repo.join(".jit/config.toml"), text).expect("written");
    let hijack = ["issue", "update", "WI-1", "--title", "hijack", "--json"];
    for loose in [
        "enforce_leases = \"off\"",
        "enforce_leases = \"warn\"",
        "mode = \"off\"",
    ] {
        write(&format!("[worktree]\n{loose}\n"));
        let ran = world.jit_as("agent:a", hijack);
        refused(&ran, 5, "not_holder");
        // A person may, and one's own settings count.
        let _ = world
            .jit_as("human:h", ["issue", "update", "WI-1", "--title", "fine"])
            .ok();
    }
    let ran = world.jit_as("agent:a", ["issue", "list"]).ok();
    assert!(ran.stderr.contains("does not count for agents"), "{}", ran.stderr);
    // On a branch of its own it is committed, and on the target it is not.
    world.git(&repo, ["switch", "-qc", "own"]);
    world.git(&repo, ["commit", "-qam", "loose"]);
    refused(&world.jit_as("agent:a", hijack), 5, "not_holder");
    world.git(&repo, ["branch", "-f", "main", "own"]);
    let _ = world.jit_as("agent:a", hijack).ok();
}

#[test]
fn b3_many_callers_get_many_different_issues() {
    const CALLERS: usize = 24;
    let world = World::with_jit(JIT);
    for n in 0..CALLERS {
        create(&world, &format!("NEXT-{n:02}"), &[]);
    }
    let trees = [world.repo(), world.worktree("second"), world.worktree("third")];
    let barrier = Barrier::new(CALLERS + 3);
    let taken: Vec<Ran> = thread::scope(|scope| {
        let all: Vec<_> = (0..CALLERS + 3)
            .map(|n| {
                let (world, tree, barrier) = (&world, &trees[n % 3], &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    world.jit_as_in(&format!("agent:n{n}"), tree, ["claim", "next", "--json"])
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().expect("a caller")).collect()
    });
    let won: BTreeSet<String> = taken
        .iter()
        .filter(|ran| ran.code == 0)
        .map(|ran| ran.json()["issue"]["id"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(won.len(), CALLERS, "each one's own");
    for late in taken.iter().filter(|ran| ran.code != 0) {
        let error = refused(late, 3, "nothing_ready");
        assert_eq!(error["details"]["held"], CALLERS);
        assert!(
            error["details"]["retry_after_secs"]
                .as_u64()
                .is_some_and(|secs| secs > 0)
        );
    }
    assert_eq!(taken.iter().filter(|ran| ran.code != 0).count(), 3);
}

#[test]
fn b3_next_picks_what_fits() {
    let world = World::with_jit(JIT);
    create(&world, "EPIC", &["--type", "epic", "--priority", "critical"]);
    create(&world, "PART", &["--parent", "EPIC", "--label", "backend"]);
    create(&world, "HUMAN", &["--actor", "human", "--priority", "critical"]);
    create(&world, "BUG", &["--type", "bug", "--priority", "low"]);
    let next = |agent: &str, more: &[&str]| {
        let mut args = vec!["claim", "next", "--json"];
        args.extend(more);
        world.jit_as(agent, args)
    };
    let bug = next("agent:a", &["--type", "bug"]).ok().json();
    assert_eq!(
        (&bug["issue_id"], &bug["issue"]["id"]),
        (&json!("BUG"), &json!("BUG"))
    );
    assert!(bug["lease_id"].is_string() && bug["issue"]["state"] == "in_progress");
    refused(&next("agent:a", &["--label", "frontend"]), 3, "nothing_ready");
    // An agent gets neither what waits for a person nor what is only the sum of its parts.
    assert_eq!(next("agent:b", &[]).ok().json()["issue_id"], "PART");
    refused(&next("agent:c", &[]), 3, "nothing_ready");
    assert_eq!(next("human:h", &[]).ok().json()["issue_id"], "HUMAN");
}

/// A copy of an issue's folder that went another way is merged when both sides made it.
#[test]
fn c7_what_only_one_side_changed_since_creation_is_no_conflict() {
    let world = World::with_jit(JIT);
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "jit"]);
    let tree = world.worktree("other");
    create(&world, "WI-1", &[]);
    let update = ["issue", "update", "WI-1", "--priority", "high"];
    let _ = world.jit_as_in("human:h", &tree, update).ok();
    for dir in [&world.repo(), &tree] {
        world.git(dir, ["add", "-A"]);
        world.git(dir, ["commit", "-q", "-m", "work"]);
    }
    let bin = std::path::Path::new(JIT).parent().expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path)));
    let mut merge = world.command("git", &world.repo());
    merge
        .env("PATH", path.expect("a path"))
        .args(["merge", "-q", "--no-edit", "other"]);
    let _ = world.run(merge).ok();
    assert_eq!(show(&world, "WI-1")["priority"], "high");
}

#[test]
fn e4_validate_sees_at_once_what_a_merge_made() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &[]);
    create(&world, "WI-2", &["--depends-on", "WI-1"]);
    let deps = world.repo().join(".jit/issues/WI-1/deps.or-set.jsonl");
    let line =
        r#"{"op":"add","value":"WI-2","tag":"t","agent_id":"human:h","at":"2026-01-01T00:00:00.000Z"}"#;
    std::fs::write(deps, format!("{line}\n")).expect("write");
    let ran = world.jit(["validate", "--json"]).exits(6);
    assert!(ran.stdout.contains("WI-2"), "{}", ran.stdout);
    // And a circle hides nothing.
    let progress = world.jit(["progress", "--json"]).ok().json();
    assert_eq!(progress["total"]["issues"], 2);
}

#[test]
fn e4_a_deletion_is_not_taken_back_where_that_would_make_a_circle() {
    let world = World::with_jit(JIT);
    create(&world, "WI-1", &[]);
    create(&world, "WI-2", &["--depends-on", "WI-1"]);
    let _ = world.jit(["issue", "delete", "WI-2"]).ok();
    create(&world, "WI-3", &[]);
    let _ = world.jit(["issue", "restore", "WI-2"]).ok();
    let _ = world.jit(["issue", "update", "WI-3", "--add-dep", "WI-2"]).ok();
    let _ = world.jit(["issue", "delete", "WI-2"]).ok();
    let _ = world.jit(["issue", "update", "WI-1", "--add-dep", "WI-3"]).ok();
    let error = refused(&world.jit(["issue", "restore", "WI-2", "--json"]), 2, "cycle");
    assert!(
        error["message"]
            .to_string()
            .contains("WI-2 -> WI-1 -> WI-3 -> WI-2"),
        "{error}"
    );
    // Nor where it would be part of itself.
    create(&world, "UP-1", &[]);
    create(&world, "UP-2", &["--parent", "UP-1"]);
    create(&world, "UP-3", &["--parent", "UP-2"]);
    let _ = world.jit(["issue", "delete", "UP-2"]).ok();
    let _ = world.jit(["issue", "update", "UP-1", "--parent", "UP-3"]).ok();
    let _ = refused(&world.jit(["issue", "restore", "UP-2", "--json"]), 2, "cycle");
    let _ = world.jit(["validate"]).ok();
}

#[test]
fn e4_nothing_is_opened_again_that_would_wait_for_itself() {
    let world = World::with_jit(JIT);
    create(&world, "W", &[]);
    create(&world, "P", &["--parent", "W"]);
    let _ = world.jit(["issue", "update", "P", "--state", "done"]).ok();
    let _ = world.jit(["dep", "add", "P", "W"]).ok();
    let reopen = ["issue", "update", "P", "--state", "ready", "--json"];
    let error = refused(&world.jit(reopen), 2, "cycle");
    assert!(error["message"].to_string().contains("P -> W -> P"), "{error}");
    let _ = world.jit(["dep", "rm", "P", "W"]).ok();
    let _ = world.jit(reopen).ok();
    // Nor brought back.
    create(&world, "Q", &[]);
    create(&world, "R", &[]);
    create(&world, "V", &["--parent", "Q", "--depends-on", "R"]);
    let _ = world.jit(["issue", "delete", "V"]).ok();
    let _ = world.jit(["dep", "add", "R", "Q"]).ok();
    let error = refused(&world.jit(["issue", "restore", "V", "--json"]), 2, "cycle");
    assert!(
        error["message"].to_string().contains("V -> R -> Q -> V"),
        "{error}"
    );
    let _ = world.jit(["dep", "rm", "R", "Q"]).ok();
    let _ = world.jit(["issue", "restore", "V"]).ok();
}

#[test]
fn b3_what_has_open_parts_is_not_offered_and_what_has_none_any_more_is() {
    let world = World::with_jit(JIT);
    create(&world, "EPIC-1", &["--type", "epic", "--priority", "critical"]);
    create(&world, "PART-1", &["--parent", "EPIC-1"]);
    create(&world, "PART-2", &["--parent", "EPIC-1", "--state", "backlog"]);
    let next = || world.jit_as("agent:one", ["claim", "next", "--json"]);
    let taken = next().ok().json();
    assert_eq!(taken["issue_id"], "PART-1", "{taken}");
    let _ = world
        .jit_as("agent:one", ["issue", "update", "PART-1", "--state", "done"])
        .ok();
    let _ = refused(&next(), 3, "nothing_ready");
    // Taken out of it, deleted, or closed: then the rest is to be done as a whole.
    let _ = world.jit(["issue", "update", "PART-2", "--parent", "none"]).ok();
    assert_eq!(next().ok().json()["issue_id"], "EPIC-1");
}

/// B3, E4: ready offers what `claim next` would take, and what waits for its own end is not made.
#[test]
fn b3_ready_and_next_agree_and_nothing_waits_for_its_own_parent() {
    let world = World::with_jit(JIT);
    let create = |id: &str, more: &[&str]| {
        let mut args = vec!["issue", "create", id, "--id", id, "--json"];
        args.extend(more);
        world.jit(args)
    };
    let _ = create("PP-1", &[]).ok();
    let refused = create("CC-1", &["--parent", "PP-1", "--depends-on", "PP-1"]);
    assert_eq!(
        refused.json()["error"]["details"]["candidates"],
        serde_json::json!(["CC-1", "PP-1", "CC-1"]),
        "{}",
        refused.stdout
    );
    assert_eq!(refused.json()["error"]["code"], "cycle");
    let _ = create("CC-1", &["--parent", "PP-1"]).ok();
    let _ = create("XX-1", &["--depends-on", "PP-1"]).ok();
    for (args, said) in [
        (["dep", "add", "CC-1", "PP-1"].as_slice(), "CC-1 -> PP-1 -> CC-1"),
        (&["dep", "add", "CC-1", "XX-1"], "CC-1 -> XX-1 -> PP-1 -> CC-1"),
        (
            &["issue", "update", "XX-1", "--parent", "PP-1"],
            "XX-1 -> PP-1 -> XX-1",
        ),
    ] {
        let refused = world.jit(args);
        assert!(
            refused.code != 0 && refused.stderr.contains(said),
            "{}",
            refused.stderr
        );
    }
    // The whole is not offered while a part of it is open, and that is told.
    let ready = || {
        let ready = world.jit(["ready", "--json"]).ok().json();
        ready["issues"]
            .as_array()
            .expect("issues")
            .iter()
            .map(|issue| issue["id"].as_str().expect("an id").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ready(), ["CC-1"]);
    let _ = world.jit(["claim", "next"]).ok();
    let none = world.jit(["claim", "next", "--json"]).json();
    assert_eq!(none["error"]["details"]["open_parts"], 1, "{none}");
    let _ = world.jit(["issue", "update", "CC-1", "--state", "done"]).ok();
    assert_eq!(ready(), ["PP-1"]);
    let next = world.jit(["claim", "next", "--json"]).ok().json();
    assert_eq!(next["issue"]["id"], "PP-1", "{next}");
}

/// E2: comments are in every answer that shows an issue.
#[test]
fn e2_a_changed_issue_is_shown_with_its_comments() {
    let world = World::with_jit(JIT);
    let created = world
        .jit(["issue", "create", "One", "--id", "AA-1", "--json"])
        .ok();
    assert_eq!(created.json()["comments"], json!([]));
    let _ = world.jit(["issue", "comment", "AA-1", "hello"]).ok();
    let _ = world.jit(["gate", "define", "look", "--manual"]).ok();
    for args in [
        ["issue", "update", "AA-1", "--title", "Two"].as_slice(),
        &["block", "AA-1", "--reason", "no key"],
        &["gate", "add", "AA-1", "look"],
    ] {
        let mut args = args.to_vec();
        args.push("--json");
        let shown = world.jit(&args).ok().json();
        assert_eq!(shown["comments"][0]["text"], "hello", "{args:?}: {shown}");
    }
}

/// D1, E6: what killed writers left is removed; results of gates that cannot be read are told with their line.
#[test]
fn d1_validate_sweeps_texts_and_reads_the_results_of_gates() {
    let world = World::with_jit(JIT);
    let _ = world
        .jit(["issue", "create", "One", "--id", "AA-1", "--description", "long"])
        .ok();
    let texts = world.repo().join(".git/jit/issues/AA-1/texts");
    let left = texts.join("0123456789abcdef.md.00112233445566ff.tmp");
    std::fs::write(&left, "half").expect("write");
    let found = world.jit(["validate", "--json"]).ok().json();
    assert!(
        found["notes"][0].to_string().contains("killed writing"),
        "{found}"
    );
    assert!(!left.exists());
    assert_eq!(std::fs::read_dir(&texts).expect("list").count(), 1);
    let _ = world.jit(["validate"]).ok();
    let results = world.repo().join(".jit/gates/results");
    std::fs::create_dir_all(&results).expect("folder");
    std::fs::write(results.join("AA-1.json"), "{\n\"schema_version\": 1,\n!}").expect("write");
    let found = world.jit(["validate", "--json"]).json();
    assert_eq!(
        (&found["problems"][0]["check"], &found["problems"][0]["line"]),
        (&json!("gates"), &json!(3)),
        "{found}"
    );
    let said = world.jit(["validate"]).stdout;
    assert!(said.contains("AA-1.json:3)") && !said.contains(":0)"), "{said}");
}

/// E4: each side of a merge is sound, and together nothing in it can ever be done.
#[test]
fn e4_a_part_that_a_merge_makes_wait_for_its_whole_is_reported() {
    let world = World::with_jit(JIT);
    create(&world, "PP-1", &[]);
    create(&world, "CC-1", &[]);
    let _ = world.jit(["validate"]).ok();
    let _ = world.jit(["issue", "update", "CC-1", "--parent", "PP-1"]).ok();
    // As a merge leaves it: another clone added the dependency, and knew of no parent.
    let deps = world.repo().join(".jit/issues/CC-1/deps.or-set.jsonl");
    let line = json!({
        "op": "add", "value": "PP-1", "tag": "elsewhere.1", "agent_id": "human:h", "at": "2026-01-24T10:00:00Z",
    });
    std::fs::write(&deps, format!("{line}\n")).expect("write");
    let found = world.jit(["validate", "--json"]).exits(6).json();
    let said = found["problems"][0]["message"].as_str().unwrap_or_default();
    assert!(said.contains("done after its parts: CC-1, PP-1"), "{found}");
}

#[test]
fn e1_a_description_is_answered_as_it_is_kept() {
    let world = World::with_jit(JIT);
    let create = [
        "issue",
        "create",
        "t",
        "--id",
        "WI-1",
        "--description",
        "a\r\nb\r\r\n",
        "--json",
    ];
    let made = world.jit(create).ok().json();
    assert_eq!(made["description"], "a\nb\n");
    assert_eq!(show(&world, "WI-1")["description"], "a\nb\n");
}

#[test]
fn e8_what_is_no_file_is_not_imported_and_not_waited_for() {
    let world = World::with_jit(JIT);
    let fifo = world.root().join("fifo");
    let mut command = world.command("mkfifo", world.root());
    command.arg(&fifo);
    let _ = world.run(command).ok();
    for (from, path) in [("beads", world.root()), ("jsonl", &fifo)] {
        let path = path.to_string_lossy();
        let ran = world.jit(["issue", "import", "--from", from, &path, "--json"]);
        let _ = refused(&ran, 2, "invalid");
    }
}
