//! Whose branches a removal may touch, and how worktrees come back where refs are all there is (H7): symbolic refs, refs in
//! tables, and a restore that is killed half way.

use std::fs;
use std::path::{Path, PathBuf};

use jit_core::model::unit::UnitInput;
use jit_testkit::world::World;
use serde_json::Value;

use crate::rescuing::kinds::{TO_READY, commit, land};
use crate::rescuing::{JIT, TO_MERGED, filled, unit, world, write};

fn tip(world: &World, branch: &str) -> String {
    let name = format!("refs/heads/{branch}");
    world.git(&world.repo(), ["rev-parse", "-q", "--verify", &name])
}

/// The branch of a unit becomes another name for `main`.
fn renamed(world: &World, name: &str, inputs: &[UnitInput]) -> PathBuf {
    let dir = unit(world, name, inputs);
    let own = format!("refs/heads/{name}");
    world.git(&dir, ["symbolic-ref", &own, "refs/heads/main"]);
    dir
}

#[test]
fn h7_a_branch_that_is_another_name_for_main_takes_nothing_along() {
    let world = world();
    let main = tip(&world, "main");
    let landed = renamed(&world, "u1", TO_MERGED);
    let begun = renamed(&world, "u2", TO_READY);
    // Nobody has main checked out.
    world.git(&world.repo(), ["switch", "-q", "--detach"]);
    let done = world.jit(["worktree", "cleanup", "u1", "--json"]).ok().json();
    assert_eq!(done["branch_deleted"], false, "{done}");
    assert_eq!(done["branch_stays"], "it is another name for main");
    let told = world.jit(["worktree", "abandon", "u2", "--reason", "x"]).ok();
    assert!(told.stdout.contains("u2 stays"), "{}", told.stdout);
    assert!(!landed.exists() && !begun.exists());
    for name in ["main", "u1", "u2"] {
        assert_eq!(tip(&world, name), main, "{name}");
    }
}

#[test]
fn h7_a_branch_that_somebody_has_another_name_for_stays() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    commit(&world, &dir, "new.txt", "new\n");
    land(&world, "u1");
    let before = tip(&world, "u1");
    world.git(
        &world.repo(),
        ["symbolic-ref", "refs/heads/mine", "refs/heads/u1"],
    );
    let done = world.jit(["worktree", "cleanup", "u1", "--json"]).ok().json();
    assert_eq!(done["branch_stays"], "mine is another name for it", "{done}");
    assert_eq!(tip(&world, "mine"), before);
}

#[test]
fn g2_a_unit_that_is_not_made_deletes_no_branch_of_others() {
    let world = world();
    let words = ["worktree", "create", "u1", "--branch", "u1", "--json"];
    let made = world.jit(words).ok().json();
    let path = made["worktree_path"].as_str().expect("a path").to_owned();
    world.git(&world.repo(), ["worktree", "remove", "--force", &path]);
    world.git(
        &world.repo(),
        ["symbolic-ref", "refs/heads/u1", "refs/heads/main"],
    );
    world.git(&world.repo(), ["switch", "-q", "--detach"]);
    let main = tip(&world, "main");
    // Its commits would go to main.
    let refused = world.jit(["worktree", "retry", "u1", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "exists", "{refused}");
    assert!(!Path::new(&path).exists());
    let _ = world
        .jit(["worktree", "abandon", "u1", "--reason", "not needed"])
        .ok();
    assert_eq!(tip(&world, "main"), main);
    // A name that leads nowhere is not followed either.
    world.git(
        &world.repo(),
        ["symbolic-ref", "refs/heads/u2", "refs/heads/nowhere"],
    );
    let _ = world
        .jit(["worktree", "create", "u2", "--branch", "u2", "--json"])
        .ok();
    let all = world.git(&world.repo(), ["for-each-ref", "refs/heads/nowhere"]);
    assert_eq!(all, "");
}

/// A world whose refs are in tables; `None` where git cannot do that.
fn with_tables() -> Option<World> {
    let world = World::new(JIT);
    fs::remove_dir_all(world.repo()).expect("a repository");
    let mut init = world.command("git", world.root());
    init.args(["init", "-q", "-b", "main", "--ref-format=reftable", "repo"]);
    if world.run(init).code != 0 {
        return None;
    }
    world.git(&world.repo(), ["commit", "-q", "--allow-empty", "-m", "begin"]);
    let _ = world.jit(["init"]).ok();
    Some(filled(world))
}

fn abandoned(world: &World, name: &str) -> String {
    let words = ["worktree", "abandon", name, "--reason", "another way", "--json"];
    let done = world.jit(words).ok().json();
    done["rescue"].as_str().expect("a rescue").to_owned()
}

fn head(world: &World, dir: &Path) -> String {
    world.git(dir, ["symbolic-ref", "HEAD"]).trim().to_owned()
}

fn emptied(world: &World) {
    let _ = world.jit(["rescue", "prune", "--older-than", "0"]).ok();
}

#[test]
fn h7_a_worktree_comes_back_where_refs_are_in_tables() {
    let Some(world) = with_tables() else { return };
    let dir = unit(&world, "u1", TO_READY);
    commit(&world, &dir, "x.txt", "committed\n");
    write(&dir.join("y.txt"), "not committed\n");
    let (before, log) = (tip(&world, "u1"), world.git(&dir, ["reflog", "--format=%H"]));
    let id = abandoned(&world, "u1");
    let restore = |more: &[&str]| {
        let words = ["rescue", "restore", &id, "--json"];
        world.jit(words.iter().chain(more)).ok().json()
    };
    let there = |dir: &Path, branch: &str| {
        assert_eq!(head(&world, dir), format!("refs/heads/{branch}"));
        assert_eq!(tip(&world, branch), before);
        // Another name for the branch is one line more.
        let now = world.git(dir, ["reflog", "--format=%H"]);
        assert!(now.ends_with(&log), "{now}");
        assert_eq!(world.git(dir, ["status", "--porcelain"]), "?? y.txt\n");
        let content = fs::read_to_string(dir.join("y.txt")).expect("a file");
        assert_eq!(content, "not committed\n");
    };
    let done = restore(&[]);
    assert_eq!((&done["from"], &done["branch"]), (&"trash".into(), &"u1".into()));
    there(&dir, "u1");
    // Out of the refs, beside the first.
    let back = world.root().join("back");
    let path = back.to_str().expect("UTF-8");
    let done = restore(&["--to", path, "--branch", "again"]);
    assert_eq!(
        (&done["from"], &done["branch"]),
        (&"refs".into(), &"again".into())
    );
    there(&back, "again");
    // And under its own name, from an entry that does not tell which branch it was on.
    for root in [dir.as_path(), &back] {
        let root = root.to_str().expect("UTF-8");
        world.git(&world.repo(), ["worktree", "remove", "--force", root]);
    }
    let file = world.control().join("trash").join(&id).join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&file).expect("a manifest")).expect("JSON");
    assert_eq!(manifest["head_ref"], "refs/heads/u1");
    let fields = manifest.as_object_mut().expect("an object");
    fields.remove("head_ref");
    write(&file, manifest.to_string());
    assert_eq!(restore(&[])["branch"], "u1");
    there(&dir, "u1");
}

#[test]
fn h7_in_tables_a_branch_of_that_name_is_not_taken_for_the_old_one() {
    let Some(world) = with_tables() else { return };
    let dir = unit(&world, "u1", TO_READY);
    write(&dir.join("y.txt"), "not committed\n");
    let id = abandoned(&world, "u1");
    commit(&world, &world.repo(), "z.txt", "goes on\n");
    world.git(&world.repo(), ["branch", "u1"]);
    for _ in ["trash", "refs"] {
        let refused = world.jit(["rescue", "restore", &id, "--json"]).exits(2).json();
        assert_eq!(refused["error"]["code"], "exists", "{refused}");
        assert!(!dir.exists());
        emptied(&world);
    }
    let words = ["rescue", "restore", &id, "--branch", "again", "--json"];
    assert_eq!(world.jit(words).ok().json()["branch"], "again");
    assert_eq!(head(&world, &dir), "refs/heads/again");
}

#[test]
fn h7_a_restore_that_is_done_succeeds_again() {
    let world = world();
    let dir = unit(&world, "u1", TO_READY);
    commit(&world, &dir, "x.txt", "committed\n");
    write(&dir.join("y.txt"), "not committed\n");
    let id = abandoned(&world, "u1");
    // Killed after its last step, before it could say so.
    let mut jit = world.jit_command(&world.repo());
    jit.env("JIT_TEST_DIE_AT", "unlocked")
        .args(["rescue", "restore", &id]);
    assert_ne!(world.run(jit).code, 0);
    write(&dir.join("y.txt"), "worked on\n");
    let said = world.jit(["rescue", "restore", &id]).ok().stdout;
    assert!(said.contains("was restored already"), "{said}");
    let done = world.jit(["rescue", "restore", &id, "--json"]).ok().json();
    assert_eq!(
        (&done["from"], &done["branch"], &done["path"]),
        (&"already".into(), &"u1".into(), &dir.to_str().into())
    );
    assert_eq!(
        fs::read_to_string(dir.join("y.txt")).expect("a file"),
        "worked on\n"
    );
    // Another folder in its place is not it.
    let root = dir.to_str().expect("UTF-8");
    world.git(&world.repo(), ["worktree", "remove", "--force", root]);
    fs::create_dir_all(&dir).expect("a folder");
    write(&dir.join("mine"), "mine\n");
    let refused = world.jit(["rescue", "restore", &id, "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "exists", "{refused}");
}

#[test]
fn h7_a_restore_that_was_killed_goes_on() {
    let world = world();
    let dir = unit(&world, "u1", TO_READY);
    commit(&world, &dir, "x.txt", "committed\n");
    write(&dir.join("y.txt"), "not committed\n");
    write(&dir.join("a.txt"), "staged\n");
    world.git(&dir, ["add", "a.txt"]);
    let id = abandoned(&world, "u1");
    let place = |at: &str| {
        let mut jit = world.jit_command(&world.repo());
        jit.env("JIT_TEST_DIE_AT", at).args(["rescue", "restore", &id]);
        assert_ne!(world.run(jit).code, 0, "{at}");
    };
    let roots = || {
        let all = world.git(&world.repo(), ["worktree", "list", "--porcelain"]);
        all.matches("worktree ").count()
    };
    for at in ["put_back", "made_again", "half_read", "half_restored", "placed"] {
        let from = if at == "put_back" { "trash" } else { "refs" };
        place(at);
        if at == "placed" {
            // Somebody does not wait for it.
            write(&dir.join("y.txt"), "worked on\n");
        }
        let elsewhere = at == "half_read";
        let back = world.root().join("back");
        let to: &[&str] = match elsewhere {
            true => &["--to", "../back"],
            false => &[],
        };
        let words = ["rescue", "restore", &id, "--json"];
        let done = world.jit(words.iter().chain(to)).ok().json();
        assert_eq!(
            (&done["from"], &done["branch"]),
            (&from.into(), &"u1".into()),
            "{at}"
        );
        let goal = if elsewhere { &back } else { &dir };
        assert_eq!(roots(), 2, "{at}");
        assert_eq!(
            world.git(goal, ["status", "--porcelain"]),
            "M  a.txt\n?? y.txt\n",
            "{at}"
        );
        let wanted = match at {
            "placed" => "worked on\n",
            _ => "not committed\n",
        };
        assert_eq!(
            fs::read_to_string(goal.join("y.txt")).ok().as_deref(),
            Some(wanted),
            "{at}"
        );
        // Neither locked nor with anything left beside it.
        let root = goal.to_str().expect("UTF-8");
        world.git(&world.repo(), ["worktree", "remove", "--force", root]);
        let names = fs::read_dir(world.root()).expect("a folder").flatten();
        let left: Vec<_> = names
            .map(|one| one.file_name())
            .filter(|name| name.to_string_lossy().starts_with(".jit-"))
            .collect();
        assert!(left.is_empty(), "{at}: {left:?}");
    }
}

/// H7: where refs are in tables, what only a worktree's own refs name is kept too, and what others kept is not its history.
#[test]
fn h7_what_a_worktree_names_in_tables_is_kept_and_nothing_else() {
    let Some(world) = with_tables() else { return };
    let dir = unit(&world, "u1", TO_READY);
    commit(&world, &dir, "x.txt", "given up\n");
    let first = abandoned(&world, "u1");
    let others = world.jit(["rescue", "show", &first, "--json"]).ok().json();
    let lost = others["head"].as_str().expect("a commit");
    let dir = unit(&world, "u2", TO_MERGED);
    let tree = world.git(&dir, ["rev-parse", "HEAD^{tree}"]);
    let mut own = Vec::new();
    for name in ["MY_HEAD", "ORIG_HEAD", "REBASE_HEAD"] {
        let made = world.git(&dir, ["commit-tree", tree.trim(), "-m", name]);
        own.push(made.trim().to_owned());
        world.git(&dir, ["update-ref", name, made.trim()]);
    }
    let done = world.jit(["worktree", "cleanup", "u2", "--json"]).ok().json();
    let id = done["rescue"].as_str().expect("a rescue");
    let kept = world.jit(["rescue", "show", id, "--json"]).ok().json();
    assert!(!kept["aside"].to_string().contains(lost), "{kept}");
    emptied(&world);
    world.git(&world.repo(), ["gc", "-q", "--prune=now"]);
    for one in own {
        world.git(&world.repo(), ["cat-file", "-e", &one]);
    }
}
