//! What is told after rescued work came back: commands that work, whatever state it is in (H7).

use std::fs;
use std::path::{Path, PathBuf};

use jit_testkit::world::World;

use crate::unit_life::{commit, create, on_main, shell, world};

/// Gives a unit up and restores it. What is told to do next.
fn back(world: &World, name: &str) -> Vec<String> {
    let words = ["worktree", "abandon", name, "--reason", "x", "--json"];
    let gone = world.jit(words).ok().json();
    let rescue = gone["rescue"].as_str().expect("a rescue").to_owned();
    let restored = world.jit(["rescue", "restore", &rescue, "--json"]).ok().json();
    let next = restored["next"].as_array().expect("commands");
    next.iter()
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect()
}

fn follow(world: &World, next: &[String]) {
    for command in next {
        let ran = shell(world, command);
        assert_eq!(ran.code, 0, "{command}: {} {}", ran.stdout, ran.stderr);
    }
}

fn git(world: &World, dir: &Path, words: &[&str]) -> i32 {
    let mut git = world.command("git", dir);
    git.args(words).env("GIT_EDITOR", "true");
    world.run(git).code
}

#[test]
fn h7_an_unfinished_rebase_is_told_before_anything_is_committed() {
    let world = world();
    let path = create(&world, &["u"]);
    commit(&world, &path, "a.txt", "mine\n");
    commit(&world, &world.repo(), "a.txt", "theirs\n");
    assert_eq!(git(&world, &path, &["rebase", "-q", "main"]), 1);
    let next = back(&world, "u");
    assert!(
        next[0].contains("git rebase --continue") && next[0].contains("git rebase --abort"),
        "{next:?}"
    );
    assert!(!next.iter().any(|one| one.contains("add -A")), "{next:?}");
    fs::write(path.join("a.txt"), "both\n").expect("a file");
    world.git(&path, ["add", "a.txt"]);
    assert_eq!(git(&world, &path, &["rebase", "--continue"]), 0);
    follow(&world, &next);
    assert_eq!(on_main(&world, "a.txt").as_deref(), Some("both\n"));
}

#[test]
fn h7_a_repository_inside_does_not_land_as_a_pointer() {
    let world = world();
    let path = create(&world, &["u"]);
    fs::write(path.join("loose"), "loose\n").expect("a file");
    let inner: PathBuf = path.join("deep/in ner");
    fs::create_dir_all(&inner).expect("folders");
    world.git(&inner, ["init", "-q"]);
    commit(&world, &inner, "x", "x\n");
    let next = back(&world, "u");
    assert!(next[0].contains("repository of its own"), "{next:?}");
    follow(&world, &next);
    assert_eq!(on_main(&world, "loose").as_deref(), Some("loose\n"));
    let listed = world.git(&world.repo(), ["ls-tree", "-r", "main"]);
    assert!(!listed.contains("160000"), "{listed}");
    assert!(inner.join("x").exists());
    // Nothing else is there: nothing could land.
    let path = create(&world, &["v"]);
    fs::create_dir_all(path.join("inner")).expect("a folder");
    world.git(&path.join("inner"), ["init", "-q"]);
    commit(&world, &path.join("inner"), "x", "x\n");
    let next = back(&world, "v");
    assert_eq!(next.len(), 1, "{next:?}");
    follow(&world, &next);
}

#[test]
fn h7_a_bisect_is_told_and_brings_nothing() {
    let world = world();
    let path = create(&world, &["u"]);
    world.git(&path, ["bisect", "start"]);
    world.git(&path, ["bisect", "bad", "HEAD"]);
    let next = back(&world, "u");
    assert_eq!(next.len(), 1, "{next:?}");
    assert!(next[0].contains("git bisect reset"), "{next:?}");
}

#[test]
fn h7_commits_that_no_branch_had_are_told_with_a_way_to_look_at_them() {
    let world = world();
    let path = create(&world, &["u"]);
    commit(&world, &path, "lost", "lost\n");
    let lost = world.git(&path, ["rev-parse", "HEAD"]).trim().to_owned();
    world.git(&path, ["reset", "-q", "--hard", "HEAD~1"]);
    let next = back(&world, "u");
    assert_eq!(next.len(), 1, "{next:?}");
    assert!(next[0].contains(&lost), "{next:?}");
    let ran = shell(&world, &next[0]).ok();
    assert!(ran.stdout.contains("lost"), "{}", ran.stdout);
    let (_, branch) = next[0].rsplit_once(": ").expect("a command");
    let _ = shell(&world, branch).ok();
}
