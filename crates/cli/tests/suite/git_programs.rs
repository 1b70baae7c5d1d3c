//! Programs that the repository's own git settings name: they run after `jit trust` (L2).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

use crate::landing::Yard;
use crate::merging::with_jit_on_path;

const JIT: &str = env!("CARGO_BIN_EXE_jit");
const HUMAN: &str = "human:ada";
const AGENT: &str = "agent:one";

/// A filter that swaps letters, and leaves a mark when it runs.
fn filter(world: &World) -> (String, PathBuf) {
    let (path, mark) = (world.root().join("filter"), world.root().join("mark"));
    let script = format!("#!/bin/sh\necho ran >> '{}'\nexec tr a-z A-Z\n", mark.display());
    fs::write(&path, script).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    (path.to_str().expect("text").to_owned(), mark)
}

/// A repository with a file that needs the filter `large`.
fn world() -> World {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    fs::write(repo.join(".gitattributes"), "*.bin filter=large\n").expect("attributes");
    fs::write(repo.join("data.bin"), "data\n").expect("a file");
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "data"]);
    world
}

fn code(ran: &Ran) -> Value {
    ran.json()["error"]["code"].clone()
}

fn data_in(tree: &Path) -> String {
    fs::read_to_string(tree.join("data.bin")).expect("a file")
}

#[test]
fn l2_a_local_filter_is_approved_once_with_jit_trust() {
    let world = world();
    let (program, mark) = filter(&world);
    world.git(&world.repo(), ["config", "filter.large.smudge", &program]);
    let tree = world.root().join("repo-worktrees/one");
    let create = || world.jit_as(HUMAN, ["worktree", "create", "one", "--json"]);
    let refused = create().exits(5);
    assert_eq!(code(&refused), "not_trusted");
    let error = refused.json()["error"].clone();
    assert_eq!(error["help"], json!(["jit trust"]));
    let message = error["message"].as_str().expect("text");
    assert!(
        message.contains("filter.large.smudge") && message.contains(&program),
        "{message}"
    );
    assert!(!tree.exists() && !mark.exists());
    assert_eq!(
        world.git(&world.repo(), ["branch", "--list", "jit/*"]),
        "",
        "nothing is left"
    );

    let _ = world.jit_as(AGENT, ["trust", "--yes"]).exits(5);
    let _ = world.jit_as(HUMAN, ["trust", "--json"]).exits(5);
    let _ = create().exits(5);
    let shown = world.jit_as(HUMAN, ["trust", "--yes", "--json"]).ok().json();
    assert_eq!(
        shown["commands"],
        json!([{"kind": "git", "name": "filter.large.smudge", "command": program, "trusted": true}])
    );
    let _ = create().ok();
    assert_eq!(data_in(&tree), "DATA\n");
    assert!(mark.exists());

    // Another text is another program.
    world.git(&world.repo(), ["config", "filter.large.smudge", "cat"]);
    let two = ["worktree", "create", "two", "--json"];
    assert_eq!(code(&world.jit_as(HUMAN, two).exits(5)), "not_trusted");
    world.git(&world.repo(), ["config", "filter.large.smudge", &program]);
    let _ = world.jit_as(HUMAN, two).ok();
    let _ = world.jit_as(HUMAN, ["trust", "--revoke"]).ok();
    let three = ["worktree", "create", "three", "--json"];
    assert_eq!(code(&world.jit_as(HUMAN, three).exits(5)), "not_trusted");
}

#[test]
fn l2_doctor_names_withheld_programs_and_a_refusal_only_those_that_git_needed() {
    let world = world();
    let (program, mark) = filter(&world);
    let finding = || {
        let shown = world.jit_as(HUMAN, ["doctor", "--json"]).ok().json();
        let checks = shown["checks"].as_array().expect("checks").clone();
        checks.into_iter().find(|check| check["name"] == "git programs")
    };
    assert_eq!(finding(), None);
    for key in ["filter.large.smudge", "filter.other.smudge", "merge.other.driver"] {
        world.git(&world.repo(), ["config", key, &program]);
    }
    let found = finding().expect("a finding");
    let message = found["message"].as_str().expect("text");
    for key in ["filter.large.smudge", "filter.other.smudge", "merge.other.driver"] {
        assert!(message.contains(key), "{message}");
    }
    assert_eq!(found["help"], "jit trust");

    let refused = world
        .jit_as(HUMAN, ["worktree", "create", "one", "--json"])
        .exits(5);
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("filter.large.smudge"), "{message}");
    assert!(!message.contains("other"), "{message}");

    let _ = world.jit_as(HUMAN, ["trust", "--yes"]).ok();
    assert_eq!(finding(), None);
    assert!(!mark.exists());
}

#[test]
fn l2_a_filter_of_the_users_own_settings_needs_no_approval() {
    let world = world();
    let (program, _) = filter(&world);
    world.git(
        &world.repo(),
        ["config", "--global", "filter.large.smudge", &program],
    );
    let _ = world.jit_as(HUMAN, ["worktree", "create", "one"]).ok();
    assert_eq!(data_in(&world.root().join("repo-worktrees/one")), "DATA\n");
    let listed = world.jit_as(HUMAN, ["trust", "--list", "--json"]).ok().json();
    assert_eq!(listed["commands"], json!([]));
}

#[test]
fn l2_looking_at_conflicts_and_units_starts_nothing_of_the_repository() {
    let yard = Yard::checked_out();
    let repo = yard.repo();
    let (program, mark) = filter(&yard.world);
    yard.write(&repo, ".gitattributes", "file diff=own\n");
    yard.commit(&repo, "attributes");
    let path = yard.done("u1", "file", "mine\n");
    for key in [
        "core.fsmonitor",
        "diff.external",
        "diff.own.textconv",
        "core.hooksPath",
    ] {
        yard.world.git(&repo, ["config", key, &program]);
    }
    yard.write(&path, "file", "mine, and not committed\n");
    for words in [
        &["conflicts", "--json"][..],
        &["status", "--json"],
        &["worktree", "status", "--json"],
        &["worktree", "diff", "u1"],
        &["worktree", "list", "--json"],
    ] {
        let ran = yard.jit(words);
        assert!(
            matches!(ran.code, 0 | 3),
            "{words:?}: {} {}",
            ran.code,
            ran.stderr
        );
        assert!(!mark.exists(), "{words:?}");
    }
}

#[test]
fn h8_conflicts_names_a_worktree_that_it_could_not_examine() {
    let world = world();
    let _ = world.jit_as(HUMAN, ["worktree", "create", "one"]).ok();
    let (program, _) = filter(&world);
    world.git(&world.repo(), ["config", "filter.large.clean", &program]);
    fs::write(world.root().join("repo-worktrees/one/data.bin"), "changed\n").expect("a file");
    let ran = world.jit_as(HUMAN, ["conflicts"]).exits(6);
    assert!(
        ran.stdout.contains("one could not be examined: "),
        "{}",
        ran.stdout
    );
    let picture = world.jit_as(HUMAN, ["conflicts", "--json"]).exits(6).json();
    assert_eq!(picture["conflicts"], json!([]));
}

#[test]
fn l2_a_landing_is_refused_before_a_file_changes() {
    let yard = Yard::checked_out();
    let repo = yard.repo();
    yard.write(&repo, ".gitattributes", "*.bin filter=large\n");
    yard.write(&repo, "data.bin", "data\n");
    yard.commit(&repo, "data");
    let path = yard.done("u1", "a-file", "new\n");
    yard.write(&path, "data.bin", "more\n");
    yard.commit(&path, "more data");
    let (program, mark) = filter(&yard.world);
    yard.world.git(&repo, ["config", "filter.large.smudge", &program]);
    let before = yard.main();
    let refused = yard.merge(&["u1"]).exits(5);
    assert_eq!(code(&refused), "not_trusted", "{}", refused.stdout);
    assert!(!mark.exists() && !repo.join("a-file").exists());
    assert_eq!(yard.main(), before);
    assert_eq!(yard.world.git(&repo, ["status", "--porcelain", "-uno"]), "");
    let _ = yard.jit(["trust", "--yes"]).ok();
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(data_in(&repo), "MORE\n");
}

#[test]
fn l2_a_push_with_a_local_ssh_command_waits_for_its_approval() {
    let yard = Yard::new();
    yard.configure("[merge]\npush = \"target\"");
    let (program, mark) = filter(&yard.world);
    let repo = yard.repo();
    yard.world
        .git(&repo, ["remote", "add", "origin", "ssh://host.invalid/repo"]);
    yard.world.git(&repo, ["config", "core.sshCommand", &program]);
    yard.done("u1", "new", "new\n");
    let merged = yard.merge(&["u1"]).ok();
    assert!(merged.stderr.contains("core.sshcommand"), "{}", merged.stderr);
    assert!(merged.stderr.contains("jit trust"), "{}", merged.stderr);
    assert!(!mark.exists());
    assert_eq!(yard.on_main("new").as_deref(), Some("new\n"), "it has landed");
}

#[test]
fn l2_trailers_of_the_repository_start_nothing() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let (program, mark) = filter(&world);
    let _ = world.jit_as(HUMAN, ["hooks", "install"]).ok();
    let _ = world
        .jit_as(AGENT, ["issue", "create", "Work", "--id", "WORK-1"])
        .ok();
    let _ = world.jit_as(AGENT, ["claim", "acquire", "WORK-1"]).ok();
    world.git(&repo, ["config", "trailer.sign.command", &program]);
    world.git(&repo, ["config", "trailer.sign.ifmissing", "add"]);
    fs::write(repo.join("file"), "text\n").expect("a file");
    world.git(&repo, ["add", "file"]);
    let mut commit = world.command("git", &repo);
    commit
        .args(["commit", "-q", "-m", "a file"])
        .env("JIT_AGENT_ID", AGENT);
    let _ = world.run(with_jit_on_path(&world, commit)).ok();
    let message = world.git(&repo, ["log", "-1", "--format=%B"]);
    assert!(message.contains("JIT-Lease: "), "{message}");
    assert!(!message.contains("sign"), "{message}");
    assert!(!mark.exists());
}
