//! Repositories as they are out there: repositories as test data, histories without a common commit, names that differ in
//! case only, submodules whose address is gone, a branch that is not the usual one.

use std::fs;

use serde_json::Value;

use crate::landing::Yard;
use crate::rescuing::{TO_MERGED, unit, world};
use crate::unit_life::with_submodule;

/// H7: what the target has is not work, also where it looks like a repository.
#[test]
fn h7_repositories_that_are_tracked_as_files_do_not_stop_a_cleanup() {
    let world = world();
    let repo = world.repo();
    world.git(&repo, ["clone", "-q", "--bare", ".", "tests/bare.git"]);
    let bare = repo.join("tests/bare.git");
    // Git tracks no empty folder.
    for folder in ["refs/heads", "refs/tags", "objects/info", "objects/pack"] {
        fs::create_dir_all(bare.join(folder)).expect("a folder");
        fs::write(bare.join(folder).join(".gitkeep"), "").expect("a file");
    }
    world.git(&repo, ["add", "-f", "tests"]);
    world.git(&repo, ["commit", "-q", "-m", "test data"]);
    let dir = unit(&world, "u1", TO_MERGED);
    assert!(dir.join("tests/bare.git/HEAD").is_file());
    let _ = world.jit(["worktree", "cleanup", "u1"]).ok();
    assert!(!dir.exists());
    // A commit that only such a repository has is a file that is in no commit.
    let dir = unit(&world, "u2", TO_MERGED);
    let bare = dir.join("tests/bare.git");
    let tree = world.git(&bare, ["rev-parse", "HEAD^{tree}"]);
    let made = world.git(&bare, ["commit-tree", tree.trim(), "-m", "only here"]);
    world.git(&bare, ["update-ref", "refs/heads/only", made.trim()]);
    let said = world.jit(["worktree", "cleanup", "u2"]).exits(5).stderr;
    assert!(said.contains("untracked: tests/bare.git/"), "{said}");
    assert!(dir.exists());
}

fn pair<'a>(picture: &'a Value, a: &str) -> Option<&'a Value> {
    picture["conflicts"]
        .as_array()
        .expect("conflicts")
        .iter()
        .find(|one| one["a"] == a)
}

#[test]
fn h1_unrelated_histories_are_told_alike_by_the_radar_and_the_landing() {
    let yard = Yard::new();
    let path = yard.unit("u1");
    yard.world.git(&path, ["switch", "-q", "--orphan", "fresh"]);
    yard.write(&path, "own", "own\n");
    yard.commit(&path, "a history of its own");
    yard.world.git(&path, ["branch", "-q", "-f", "u1", "HEAD"]);
    yard.world.git(&path, ["switch", "-q", "u1"]);
    // A worktree that is no unit may have a history of its own on purpose.
    let pages = yard.world.root().join("pages");
    yard.world.git(
        &yard.repo(),
        [
            "worktree",
            "add",
            "-q",
            "--detach",
            &pages.to_string_lossy(),
            "main",
        ],
    );
    yard.world.git(&pages, ["switch", "-q", "--orphan", "pages"]);
    yard.write(&pages, "index.html", "page\n");
    yard.commit(&pages, "pages");
    let seen = yard.jit(["conflicts", "--json"]).ok().json();
    let told = pair(&seen, "u1").expect("the unit");
    assert_eq!(told["paths"][0]["kind"], "unrelated histories", "{seen}");
    assert!(pair(&seen, "pages").is_none(), "{seen}");
    let named = yard.jit(["conflicts", "u1", "--json"]).ok().json();
    assert!(pair(&named, "u1").is_some(), "{named}");
    let report = yard.merge(&["u1"]).exits(6).json();
    let told = &report["units"][0];
    assert_eq!(told["verdict"], "conflict", "{report}");
    assert!(
        told["message"].to_string().contains("no commit in common"),
        "{report}"
    );
    // The command that is told works.
    let help = told["help"][0].as_str().expect("help");
    let (command, _) = help.split_once(" #").expect("a remark");
    let words: Vec<&str> = command.split(' ').skip(3).collect();
    yard.world.git(&path, words.iter().chain(&["--no-edit", "-q"]));
    let report = yard.merge(&["u1", "--continue"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
    assert_eq!(yard.on_main("own").as_deref(), Some("own\n"));
}

#[test]
fn h5_a_conflict_of_unrelated_histories_can_be_sent_back() {
    let yard = Yard::new();
    let path = yard.unit("u1");
    yard.world.git(&path, ["switch", "-q", "--orphan", "fresh"]);
    yard.write(&path, "own", "own\n");
    yard.commit(&path, "a history of its own");
    yard.world.git(&path, ["branch", "-q", "-f", "u1", "HEAD"]);
    yard.world.git(&path, ["switch", "-q", "u1"]);
    let _ = yard.merge(&["u1", "--send-back"]).exits(6);
    assert!(path.join("file").is_file(), "the target's files are there");
}

#[test]
fn h1_a_file_that_both_sides_renamed_is_told_with_both_new_names() {
    let yard = Yard::new();
    let path = yard.unit("u1");
    yard.world.git(&path, ["mv", "file", "here"]);
    yard.commit(&path, "here");
    let person = yard.world.root().join("person");
    yard.push_to_main("unused", "x\n");
    yard.world.git(&person, ["mv", "file", "there"]);
    let new = yard.commit(&person, "there");
    yard.world.git(&person, ["update-ref", "refs/heads/main", &new]);
    let report = yard.merge(&["u1"]).exits(6).json();
    let paths: Vec<&str> = report["units"][0]["conflicts"]
        .as_array()
        .expect("conflicts")
        .iter()
        .filter(|one| one["kind"] == "rename/rename")
        .filter_map(|one| one["path"].as_str())
        .collect();
    for name in ["file", "here", "there"] {
        assert!(paths.contains(&name), "{name}: {report}");
    }
    let seen = yard.jit(["conflicts"]).ok().stdout;
    assert!(seen.contains("here") && seen.contains("there"), "{seen}");
}

#[test]
fn h3_names_that_differ_in_case_only_are_told_when_they_land() {
    let yard = Yard::new();
    let _ = yard.done("u1", "docs/README.md", "one\n");
    let quiet = yard.jit(["worktree", "merge", "u1"]).ok();
    assert!(!quiet.stderr.contains("differs only in case"), "{}", quiet.stderr);
    let _ = yard.done("u2", "docs/Readme.md", "two\n");
    let said = yard.jit(["worktree", "merge", "u2"]).ok().stderr;
    assert!(
        said.contains("docs/Readme.md") && said.contains("docs/README.md") && said.contains("case"),
        "{said}"
    );
    // Once: what was there before is not told again.
    let _ = yard.done("u3", "docs/other.md", "three\n");
    let quiet = yard.jit(["worktree", "merge", "u3"]).ok();
    assert!(!quiet.stderr.contains("differs only in case"), "{}", quiet.stderr);
}

#[test]
fn g1_a_submodule_comes_from_the_main_checkout_where_its_address_is_gone() {
    let yard = Yard::new();
    let _ = with_submodule(&yard);
    let repo = yard.repo();
    yard.world.git(&repo, ["switch", "-q", "main"]);
    // A commit that was never pushed, too.
    let sub = repo.join("sub");
    yard.write(&sub, "more.txt", "more\n");
    let commit = yard.commit(&sub, "only in the copy");
    yard.commit(&repo, "points there");
    let address = yard.world.root().join("lib");
    fs::rename(&address, yard.world.root().join("gone")).expect("a folder");
    let made = yard.jit(["worktree", "create", "fresh", "--json"]).ok().json();
    let path = made["worktree_path"].as_str().expect("a path");
    let own = std::path::Path::new(path).join("sub");
    assert_eq!(yard.rev(&own, "HEAD"), commit);
    let remote = yard.world.git(&own, ["remote", "get-url", "origin"]);
    assert_eq!(remote.trim(), address.to_string_lossy(), "its own address stays");
}

#[test]
fn g2_an_address_of_a_submodule_that_the_user_configured_stays() {
    let yard = Yard::new();
    let _ = with_submodule(&yard);
    let repo = yard.repo();
    yard.world.git(&repo, ["switch", "-q", "main"]);
    let name = yard.world.git(
        &repo,
        [
            "config",
            "-f",
            ".gitmodules",
            "--name-only",
            "--get-regexp",
            "url$",
        ],
    );
    let mirror = yard.world.root().join("mirror").display().to_string();
    yard.world.git(&repo, ["config", name.trim(), &mirror]);
    let made = yard.jit(["worktree", "create", "fresh", "--json"]).ok().json();
    assert_eq!(yard.world.git(&repo, ["config", name.trim()]).trim(), mirror);
    let own = std::path::Path::new(made["worktree_path"].as_str().expect("a path")).join("sub");
    let remote = yard.world.git(&own, ["remote", "get-url", "origin"]);
    assert_eq!(remote.trim(), mirror);
}

#[test]
fn i6_start_tells_that_it_does_not_begin_at_the_branch_that_is_checked_out() {
    let yard = Yard::checked_out();
    let repo = yard.repo();
    yard.world.git(&repo, ["switch", "-q", "-c", "dev"]);
    let same = yard.jit(["start", "nothing of its own yet"]).ok().stderr;
    assert!(!same.contains("dev"), "{same}");
    yard.write(&repo, "new", "new\n");
    yard.commit(&repo, "only on dev");
    let said = yard.jit(["start", "with more than that"]).ok().stderr;
    assert!(
        said.contains("begins at main") && said.contains("--base dev"),
        "{said}"
    );
    let told = yard
        .jit(["start", "from where it was told", "--base", "dev"])
        .ok()
        .stderr;
    assert!(!told.contains("begins at"), "{told}");
    // Without a branch the commit is named.
    yard.world.git(&repo, ["switch", "-q", "--detach"]);
    let commit = yard.world.git(&repo, ["rev-parse", "--short", "HEAD"]);
    let said = yard.jit(["start", "on no branch"]).ok().stderr;
    assert!(
        said.contains("begins at main") && said.contains(&format!("--base {}", commit.trim())),
        "{said}"
    );
}
