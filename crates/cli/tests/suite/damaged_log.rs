//! A log that is damaged in the middle: what goes on without it, and what salvaging brings back.

use std::fs;

use jit_testkit::world::World;
use serde_json::Value;

use crate::landing::JIT;

/// Two issues with descriptions, and some claims; then a line in the middle of the log is damaged.
fn damaged(line: usize) -> World {
    let world = World::with_jit(JIT);
    for id in ["WORK-1", "WORK-2"] {
        let text = format!("Long text of {id}");
        let _ = world
            .jit(["issue", "create", "Work", "--id", id, "--description", &text])
            .ok();
        let _ = world.jit(["claim", "acquire", id]).ok();
    }
    let _ = world.jit(["claim", "release", "WORK-1"]).ok();
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "work"]);
    damage(&world, line);
    world
}

fn damage(world: &World, line: usize) {
    let log = world.control().join("events/control.jsonl");
    let text = fs::read_to_string(&log).expect("a log");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[line] = lines[line].replacen("\"sequence\"", "\"seqXence\"", 1);
    fs::write(&log, lines.join("\n") + "\n").expect("a log");
}

fn history(world: &World) -> Vec<(u64, String)> {
    let told = world.jit(["claim", "history", "--json"]).ok().json();
    let records = told["records"].as_array().cloned().unwrap_or_default();
    let of = |record: &Value| {
        let what = format!(
            "{} {}",
            record["op"].as_str().unwrap_or_default(),
            record["issue_id"]
        );
        (record["sequence"].as_u64().unwrap_or_default(), what)
    };
    records.iter().map(of).collect()
}

#[test]
fn c1_a_damaged_log_stops_no_commit_that_touches_nothing_of_ours() {
    let world = damaged(3);
    let repo = world.repo();
    fs::remove_dir_all(world.control().join("state")).expect("a state");
    let _ = world.jit(["claim", "list"]).exits(1);
    let hooks = |words: &[&str]| {
        let mut hook = world.jit_command(&repo);
        hook.args(["hooks", "run"]).args(words);
        world.run(hook)
    };
    fs::write(repo.join("plain.txt"), "plain\n").expect("a file");
    world.git(&repo, ["add", "plain.txt"]);
    let ran = hooks(&["pre-commit"]).ok();
    assert!(ran.stderr.contains("damaged"), "it is told: {}", ran.stderr);
    // A commit with jit's own files cannot be judged.
    let issue = repo.join(".jit/issues/WORK-2/issue.json");
    let text = fs::read_to_string(&issue).expect("an issue");
    fs::write(&issue, text.replace("\"Work\"", "\"Mine\"")).expect("an issue");
    world.git(&repo, ["add", ".jit"]);
    let _ = hooks(&["pre-commit"]).exits(1);
}

#[test]
fn d1_salvage_keeps_the_history_of_claims() {
    let world = damaged(3);
    let whole = [
        "acquire \"WORK-1\"".to_owned(),
        "acquire \"WORK-2\"".to_owned(),
        "release \"WORK-1\"".to_owned(),
    ];
    let _ = world.jit(["recover"]).ok();
    let after: Vec<String> = history(&world).into_iter().map(|(_, what)| what).collect();
    assert_eq!(after[..3], whole[..], "from claims.jsonl: {after:?}");
    let own = world
        .jit(["claim", "history", "--issue", "WORK-1", "--json"])
        .ok()
        .json();
    assert_eq!(own["records"].as_array().map(Vec::len), Some(2), "{own}");
    let last = world
        .jit(["claim", "history", "--limit", "1", "--json"])
        .ok()
        .json();
    assert_eq!(last["records"].as_array().map(Vec::len), Some(1), "{last}");
    world.validates();
    // Damaged again, and the records are gone: the lines that can be read are in the backup.
    let world = damaged(3);
    fs::remove_file(world.control().join("claims.jsonl")).expect("records");
    let _ = world.jit(["recover"]).ok();
    let after: Vec<String> = history(&world).into_iter().map(|(_, what)| what).collect();
    assert!(
        after.contains(&whole[1]) && after.contains(&whole[2]),
        "{after:?}"
    );
    world.validates();
}

#[test]
fn d1_descriptions_come_from_the_tree_when_the_replica_is_gone() {
    let world = damaged(3);
    fs::remove_dir_all(world.control().join("issues")).expect("a replica");
    let _ = world.jit(["recover"]).ok();
    let shown = world.jit(["issue", "show", "WORK-2", "--json"]).ok();
    assert_eq!(
        shown.json()["description"],
        "Long text of WORK-2\n",
        "{}",
        shown.stdout
    );
    assert!(!shown.stderr.contains("missing"), "{}", shown.stderr);
    let found = world.jit(["issue", "search", "long text", "--json"]).ok().json();
    assert_eq!(found["issues"].as_array().map(Vec::len), Some(2), "{found}");
    // Validating brings them back for all worktrees.
    world.validates();
    let tree = world.repo().join(".jit/issues/WORK-2/description.md");
    fs::remove_file(tree).expect("a description");
    let shown = world.jit(["issue", "show", "WORK-2", "--json"]).ok().json();
    assert_eq!(shown["description"], "Long text of WORK-2\n", "{shown}");
}

/// As ARCHITECTURE.md has it: everyday commands read the state and the end of the log, the checks read all of it.
#[test]
fn d1_damage_in_older_lines_is_found_by_the_checks_and_stops_nobody_before() {
    let world = World::with_jit(JIT);
    // More than the end of the log that every command compares.
    for n in 0..120 {
        let _ = world
            .jit(["issue", "create", "Pad", "--id", &format!("PAD-{n}")])
            .ok();
    }
    damage(&world, 3);
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let _ = world.jit(["claim", "acquire", "WORK-1"]).ok();
    let told = world.jit(["validate"]).exits(6).stdout;
    assert!(told.contains("line 4") && told.contains("jit recover"), "{told}");
    let _ = world.jit(["doctor"]).exits(6);
}
