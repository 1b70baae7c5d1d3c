//! What a landing says in git about the unit's issue (E7, H3): whoever has only the commits sees what was done.

use std::fs;
use std::path::PathBuf;

use jit_testkit::world::World;

use crate::landing::Yard;

const FILE: &str = ".jit/issues/WI-1/issue.json";

/// Main checked out, and an issue in its commits.
fn yard() -> Yard {
    let yard = Yard::checked_out();
    let _ = yard
        .world
        .jit(["issue", "create", "Parse dates", "--id", "WI-1"])
        .ok();
    yard.commit(&yard.repo(), "the issue");
    yard
}

fn state(text: &str) -> String {
    let file: serde_json::Value = serde_json::from_str(text).expect("an issue");
    file["state"].as_str().unwrap_or_default().to_owned()
}

/// The unit of the issue, with a commit that is ready to land.
fn worked(yard: &Yard) -> PathBuf {
    let started = yard.world.jit(["start", "WI-1", "--json"]).ok().json();
    let path = PathBuf::from(started["worktree_path"].as_str().expect("a path"));
    yard.write(&path, "dates", "parsed\n");
    yard.commit(&path, "dates");
    path
}

fn is_clean(yard: &Yard) {
    let status = yard.world.git(&yard.repo(), ["status", "--porcelain"]);
    assert_eq!(status, "");
}

#[test]
fn e7_what_lands_says_that_its_issue_is_done() {
    let yard = yard();
    let path = worked(&yard);
    let tip = yard.rev(&path, "HEAD");
    let _ = yard.world.jit_in(&path, ["finish"]).ok();
    assert_eq!(state(&yard.on_main(FILE).expect("there")), "done");
    let about = yard.world.git(
        &yard.repo(),
        ["log", "-1", "--format=%P %(trailers:key=Issue,valueonly)", "main"],
    );
    assert_eq!(about.trim(), format!("{tip} WI-1"));
    // It came to the checkout of the target as everything else, and stays so when jit looks at it.
    is_clean(&yard);
    let shown = yard.world.jit(["issue", "list", "--json"]).ok().json();
    assert_eq!(shown["issues"][0]["state"], "done");
    let _ = yard.world.jit(["validate"]).ok();
    is_clean(&yard);
    // Somebody elsewhere.
    let clone = yard.world.root().join("clone");
    let from = yard.repo().to_string_lossy().into_owned();
    yard.world.git(yard.world.root(), ["clone", "-q", &from, "clone"]);
    let _ = yard.world.jit_in(&clone, ["init", "--quiet"]).ok();
    let ready = yard.world.jit_in(&clone, ["ready", "--json"]).ok().json();
    assert_eq!(ready["issues"].as_array().map(Vec::len), Some(0), "{ready}");
}

#[test]
fn e5_what_lands_of_a_whole_does_not_make_it_done_before_its_parts() {
    let yard = yard();
    let _ = yard
        .world
        .jit(["issue", "create", "Part", "--id", "WI-2", "--parent", "WI-1"])
        .ok();
    yard.commit(&yard.repo(), "the part");
    let path = worked(&yard);
    let ran = yard.world.jit_in(&path, ["finish"]).ok();
    assert!(
        ran.stderr.contains("WI-1 is not done yet") && ran.stderr.contains("WI-2"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        yard.on_main("dates").as_deref(),
        Some("parsed\n"),
        "its work is there"
    );
    assert_ne!(state(&yard.on_main(FILE).expect("there")), "done");
    let shown = yard.world.jit(["issue", "show", "WI-1", "--json"]).ok().json();
    assert_ne!(shown["state"], "done", "{shown}");
    is_clean(&yard);
    let _ = yard
        .world
        .jit(["issue", "update", "WI-2", "--state", "done"])
        .ok();
    // Nobody holds it any more.
    let _ = yard
        .world
        .jit(["issue", "update", "WI-1", "--state", "done"])
        .ok();
    let _ = yard.world.jit(["validate"]).ok();
}

#[test]
fn e7_from_the_checkout_of_the_target_too_and_merged_or_squashed() {
    for strategy in ["auto", "squash"] {
        let yard = yard();
        yard.configure(&format!("[merge]\nstrategy = \"{strategy}\""));
        worked(&yard);
        yard.write(&yard.repo(), "theirs", "theirs\n");
        yard.commit(&yard.repo(), "theirs");
        let _ = yard.world.jit(["worktree", "merge", "WI-1"]).ok();
        assert_eq!(state(&yard.on_main(FILE).expect("there")), "done", "{strategy}");
        assert_eq!(yard.on_main("dates").as_deref(), Some("parsed\n"));
        assert_eq!(yard.on_main("theirs").as_deref(), Some("theirs\n"));
        is_clean(&yard);
    }
}

#[test]
fn e7_who_wants_only_to_go_forward_gets_only_the_commits_of_the_unit() {
    let yard = yard();
    yard.configure("[merge]\nstrategy = \"ff\"");
    let path = worked(&yard);
    let tip = yard.rev(&path, "HEAD");
    let _ = yard.world.jit_in(&path, ["finish"]).ok();
    assert_eq!(yard.main(), tip);
    // The log knows it, and it is written into the tree by whoever asks for that there.
    let shown = yard.world.jit(["issue", "show", "WI-1", "--json"]).ok().json();
    assert_eq!(shown["state"], "done");
    let _ = yard.world.jit(["validate", "--write-missing"]).ok();
    let there = fs::read_to_string(yard.repo().join(FILE)).expect("there");
    assert_eq!(state(&there), "done");
}

#[test]
fn e7_a_file_that_somebody_edited_lands_as_it_is() {
    let yard = yard();
    let path = worked(&yard);
    let text = fs::read_to_string(path.join(FILE)).expect("there");
    let edited = text.replacen("Parse dates", "Parse all dates", 1);
    fs::write(path.join(FILE), &edited).expect("written");
    yard.commit(&path, "another title");
    let _ = yard.world.jit_in(&path, ["finish"]).ok();
    let shown = yard.world.jit(["issue", "show", "WI-1", "--json"]).ok().json();
    assert_eq!(shown["title"], "Parse all dates");
    assert_eq!(shown["state"], "done");
}

fn issue_of(world: &World, name: &str) -> serde_json::Value {
    let path = world.repo().join(".jit/issues").join(name).join("issue.json");
    let text = fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[test]
fn e7_what_no_tree_has_is_told_and_written_in_the_main_worktree_when_asked_for() {
    let world = World::with_jit(crate::landing::JIT);
    let _ = world.jit(["issue", "create", "Here", "--id", "HERE-1"]).ok();
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "issue"]);
    let away = world.worktree("away");
    let _ = world
        .jit_in(&away, ["issue", "create", "Lost", "--id", "LOST-1"])
        .ok();
    let _ = world
        .jit_in(&away, ["issue", "update", "HERE-1", "--title", "Changed"])
        .ok();
    let other = world.worktree("other");
    // As long as a tree has them, they are left there.
    let _ = world.jit(["validate"]).ok();
    assert_eq!(issue_of(&world, "LOST-1"), serde_json::Value::Null);
    assert_eq!(issue_of(&world, "HERE-1")["title"], "Here");
    let path = away.to_string_lossy().into_owned();
    world.git(&world.repo(), ["worktree", "remove", "--force", &path]);
    let _ = world.jit_in(&other, ["validate", "--write-missing"]).ok();
    assert!(!other.join(".jit/issues/LOST-1").exists());
    let report = world.validates();
    assert!(
        report["notes"]
            .to_string()
            .contains("HERE-1, LOST-1; jit validate --write-missing"),
        "{report}"
    );
    assert_eq!(issue_of(&world, "LOST-1"), serde_json::Value::Null);
    let report = world.jit(["validate", "--write-missing", "--json"]).ok().json();
    assert_eq!(report["mended"], serde_json::json!(["HERE-1", "LOST-1"]));
    assert_eq!(issue_of(&world, "LOST-1")["title"], "Lost");
    assert_eq!(issue_of(&world, "HERE-1")["title"], "Changed");
    let again = world.jit(["validate", "--json"]).ok().json();
    assert_eq!(again["mended"], serde_json::json!([]));
}

#[test]
fn e7_what_jit_changed_in_the_checkout_meanwhile_stays_to_be_seen() {
    let yard = yard();
    let path = yard.unit_for("u1", Some("WI-1"));
    yard.write(&path, "dates", "parsed\n");
    yard.commit(&path, "dates");
    let _ = yard
        .world
        .jit_as_in(crate::landing::WHO, &path, ["claim", "release", "WI-1"])
        .ok();
    let words = [
        "issue",
        "update",
        "WI-1",
        "--priority",
        "high",
        "--description",
        "Long.",
    ];
    let _ = yard.jit(words).ok();
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(state(&yard.on_main(FILE).expect("there")), "done");
    let text = fs::read_to_string(yard.repo().join(FILE)).expect("there");
    let there: serde_json::Value = serde_json::from_str(&text).expect("an issue");
    assert_eq!(
        (&there["state"], &there["priority"]),
        (&"done".into(), &"high".into())
    );
}

#[test]
fn c7_what_a_unit_only_carries_of_another_issue_is_no_conflict() {
    let yard = yard();
    let other = ["issue", "create", "Sort", "--id", "WI-2"];
    let _ = yard.world.jit(other).ok();
    yard.commit(&yard.repo(), "another");
    let path = worked(&yard);
    let rename = |title: &str| {
        let _ = yard.world.jit(["issue", "update", "WI-2", "--title", title]).ok();
        yard.commit(&yard.repo(), title);
    };
    rename("one");
    // Its files are written in the unit as they are.
    let _ = yard
        .world
        .jit_in(&path, ["issue", "comment", "WI-2", "seen"])
        .ok();
    yard.commit(&path, "a comment");
    rename("two");
    let _ = yard.world.jit_in(&path, ["finish"]).ok();
    let landed = yard.on_main(".jit/issues/WI-2/issue.json").expect("there");
    assert!(landed.contains("\"two\""), "{landed}");
    let comments = yard.on_main(".jit/issues/WI-2/comments.jsonl").expect("there");
    assert!(comments.contains("seen"), "{comments}");
}

#[test]
fn e7_a_landing_ends_the_claim_where_the_issue_was_found_done_before() {
    let yard = yard();
    let _ = yard.world.jit(["issue", "update", "WI-1", "--type", "task"]).ok();
    yard.commit(&yard.repo(), "a task");
    let path = worked(&yard);
    let mut command = yard.world.jit_command(&path);
    command.env("JIT_TEST_DIE_AT", "moved").arg("finish");
    assert_eq!(yard.world.run(command).code, 137);
    // Somebody looks at what landed before it is written down.
    let shown = yard.world.jit(["issue", "list", "--json"]).ok().json();
    assert_eq!(shown["issues"][0]["state"], "done");
    let claims = || yard.world.jit(["claim", "list", "--json"]).ok().stdout;
    assert!(claims().contains("WI-1"));
    let _ = yard.world.jit_in(&path, ["finish"]).ok();
    assert!(!claims().contains("WI-1"), "{}", claims());
    assert!(
        yard.world
            .events()
            .iter()
            .any(|event| event["type"] == "work.completed_task")
    );
}

#[test]
fn g12_a_killed_landing_without_commits_of_its_own_is_found_again() {
    let yard = yard();
    let path = worked(&yard);
    let branch = yard
        .world
        .git(&path, ["branch", "--show-current"])
        .trim()
        .to_owned();
    yard.world.git(&yard.repo(), ["branch", "kept", &branch]);
    let _ = yard
        .world
        .jit(["worktree", "abandon", "wi-1", "--reason", "again"])
        .ok();
    let words = [
        "worktree", "create", "WI-1", "--base", "kept", "--branch", "again", "--json",
    ];
    let made = yard.world.jit(words).ok().json();
    let path = PathBuf::from(made["worktree_path"].as_str().expect("a path"));
    let mut command = yard.world.jit_command(&path);
    command.env("JIT_TEST_DIE_AT", "moved").arg("finish");
    assert_eq!(yard.world.run(command).code, 137);
    assert_eq!(yard.on_main("dates").as_deref(), Some("parsed\n"));
    let report = yard.world.jit_in(&path, ["finish", "--json"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "already_landed", "{report}");
}

#[test]
fn e7_what_is_committed_on_another_branch_is_not_missing_here() {
    let world = World::with_jit(crate::landing::JIT);
    let repo = world.repo();
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "jit"]);
    world.git(&repo, ["checkout", "-q", "-b", "feature"]);
    let _ = world.jit(["issue", "create", "x", "--id", "WI-1"]).ok();
    world.git(&repo, ["add", ".jit"]);
    world.git(&repo, ["commit", "-q", "-m", "issue"]);
    world.git(&repo, ["checkout", "-q", "main"]);
    for args in [
        &["validate", "--json"][..],
        &["validate", "--write-missing", "--json"],
    ] {
        let report = world.jit(args).ok().json();
        assert_eq!(
            (&report["notes"], &report["mended"]),
            (&serde_json::json!([]), &serde_json::json!([]))
        );
        assert_eq!(world.git(&repo, ["status", "--porcelain"]), "");
    }
    world.git(&repo, ["checkout", "-q", "feature"]);
    // What was done after that commit is in no commit.
    let _ = world.jit(["issue", "update", "WI-1", "--title", "y"]).ok();
    world.git(&repo, ["checkout", "-q", "-f", "main"]);
    let report = world.jit(["validate", "--json"]).ok().json();
    assert!(report["notes"].to_string().contains("WI-1"), "{report}");
    assert_eq!(world.git(&repo, ["status", "--porcelain"]), "");
}

#[test]
fn e7_what_lands_says_so_too_where_somebody_edited_its_file() {
    let yard = yard();
    let path = worked(&yard);
    let file = path.join(FILE);
    let text = fs::read_to_string(&file).expect("an issue");
    let text = text.replace("\"Parse dates\"", "\"Parse all dates\"");
    fs::write(&file, text).expect("writes");
    yard.commit(&path, "another title");
    let _ = yard.world.jit_in(&path, ["finish"]).ok();
    let landed = yard.on_main(FILE).expect("there");
    assert_eq!(state(&landed), "done", "{landed}");
    assert!(landed.contains("Parse all dates"), "{landed}");
    is_clean(&yard);
    let shown = yard.world.jit(["issue", "show", "WI-1", "--json"]).ok().json();
    assert_eq!(shown["title"], "Parse all dates");
    is_clean(&yard);
}

#[test]
fn e5_parts_land_before_their_whole_and_both_are_done() {
    let yard = yard();
    let _ = yard
        .world
        .jit(["issue", "create", "Part", "--id", "WI-2", "--parent", "WI-1"])
        .ok();
    yard.commit(&yard.repo(), "the part");
    for id in ["WI-1", "WI-2"] {
        let started = yard.world.jit(["start", id, "--json"]).ok().json();
        let path = PathBuf::from(started["worktree_path"].as_str().expect("a path"));
        yard.write(&path, id, "done\n");
        yard.commit(&path, id);
    }
    let report = yard
        .world
        .jit(["worktree", "merge", "--all", "--json"])
        .ok()
        .json();
    assert_eq!(report["order"].as_array().map(Vec::len), Some(2), "{report}");
    for id in ["WI-1", "WI-2"] {
        let shown = yard.world.jit(["issue", "show", id, "--json"]).ok().json();
        assert_eq!(shown["state"], "done", "{id}: {report}");
    }
    let claims = yard.world.jit(["claim", "list", "--json"]).ok().json();
    assert_eq!(claims["active"].as_array().map(Vec::len), Some(0), "{claims}");
}

/// A branch that has one later change of an issue need not have the others.
#[test]
fn e7_what_no_tree_has_is_told_though_a_branch_has_something_later() {
    let world = World::with_jit(crate::landing::JIT);
    let repo = world.repo();
    let _ = world.jit(["issue", "create", "Here", "--id", "HERE-1"]).ok();
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "issue"]);
    let away = world.worktree("away");
    let changes = [
        "issue",
        "update",
        "HERE-1",
        "--priority",
        "high",
        "--add-label",
        "urgent",
    ];
    let _ = world.jit_in(&away, changes).ok();
    // Edited by hand after that, and committed.
    let file = repo.join(".jit/issues/HERE-1/issue.json");
    let text = fs::read_to_string(&file).expect("there");
    fs::write(&file, text.replace("\"Here\"", "\"Elsewhere\"")).expect("written");
    world.git(&repo, ["commit", "-q", "-am", "title"]);
    let _ = world.jit(["issue", "list"]).ok();
    let path = away.to_string_lossy().into_owned();
    world.git(&repo, ["worktree", "remove", "--force", &path]);
    world.git(&repo, ["branch", "-D", "away"]);
    let notes = world.validates()["notes"].to_string();
    assert!(notes.contains("HERE-1"), "{notes}");
    let _ = world.jit(["validate", "--write-missing"]).ok();
    let there = issue_of(&world, "HERE-1");
    assert_eq!(
        (&there["title"], &there["priority"]),
        (&"Elsewhere".into(), &"high".into())
    );
    let labels = fs::read_to_string(repo.join(".jit/issues/HERE-1/labels.or-set.jsonl")).expect("there");
    assert!(labels.contains("urgent"), "{labels}");
    // What a branch has is not told of.
    world.git(&repo, ["checkout", "-q", "-b", "kept"]);
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "all of it"]);
    world.git(&repo, ["checkout", "-q", "-"]);
    let notes = world.validates()["notes"].to_string();
    assert!(!notes.contains("HERE-1"), "{notes}");
}
