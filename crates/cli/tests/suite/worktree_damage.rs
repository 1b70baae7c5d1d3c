//! Worktrees whose files of git are damaged, or look unusual: nothing in them is removed, and a repair is named.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use jit_testkit::world::World;

use crate::unit_life::{create, shell, unit, world};

fn admin(world: &World, name: &str) -> PathBuf {
    world.repo().join(".git/worktrees").join(name)
}

/// A FAILED unit with a file of somebody. Its next retry succeeds.
fn failed(world: &World, name: &str) -> PathBuf {
    let mark = world.root().join("passes");
    let steps = serde_json::to_string(&[format!("test -e '{}'", mark.display())]).expect("JSON");
    let _ = world
        .jit(["config", "set", "--user", "worktree.provision", &steps])
        .ok();
    assert_ne!(world.jit(["worktree", "create", name]).code, 0);
    fs::write(mark, "").expect("a file");
    let failed = unit(world, name);
    assert_eq!(failed["state"], "FAILED");
    let path = PathBuf::from(failed["worktree_path"].as_str().expect("a path"));
    fs::write(path.join("new.txt"), "mine\n").expect("a file");
    path
}

/// A worktree of a person, with commits on no branch and a staged file.
fn of_a_person(world: &World, name: &str) -> PathBuf {
    let path = world.root().join("p").join(name);
    let shown = path.to_string_lossy();
    world.git(&world.repo(), ["worktree", "add", "-q", "--detach", &shown]);
    world.git(&path, ["commit", "-q", "--allow-empty", "-m", "detached"]);
    fs::write(path.join("staged"), "staged\n").expect("a file");
    world.git(&path, ["add", "staged"]);
    path
}

/// The command that a message names after this text.
fn repair<'a>(said: &'a str, after: &str) -> &'a str {
    let line = said.lines().find_map(|line| line.split_once(after));
    line.unwrap_or_else(|| panic!("{after}: {said}")).1.trim()
}

fn damage(head: &Path, how: &str) {
    match how {
        "link" => {
            fs::remove_file(head).expect("a file");
            symlink("refs/heads/jit/u", head).expect("a link");
        }
        "empty" => fs::write(head, "").expect("a file"),
        "gone" => fs::remove_file(head).expect("a file"),
        _ => fs::set_permissions(head, fs::Permissions::from_mode(0o0)).expect("a mode"),
    }
}

#[test]
fn h7_a_retry_removes_no_file_of_a_worktree_with_a_damaged_head() {
    for how in ["link", "empty", "gone", "unreadable"] {
        let world = world();
        let path = failed(&world, "u");
        let head = admin(&world, "u").join("HEAD");
        damage(&head, how);
        let ran = world.jit(["worktree", "retry", "u", "--json"]);
        let code = ran.code;
        assert!(path.join("new.txt").is_file(), "{how}: {}", ran.stdout);
        assert!(admin(&world, "u").join("index").is_file(), "{how}");
        if how == "unreadable" {
            let _ = fs::set_permissions(&head, fs::Permissions::from_mode(0o644));
        } else if how != "link" {
            let refused = ran.exits(2).json();
            let help = refused["error"]["help"][0].as_str().expect("help").to_owned();
            let _ = shell(&world, &help).ok();
        }
        if code != 0 {
            let _ = world.jit(["worktree", "retry", "u"]).ok();
        }
        assert_eq!(unit(&world, "u")["state"], "READY", "{how}");
        assert_eq!(world.git(&path, ["status", "--porcelain"]).trim(), "?? new.txt");
    }
}

#[test]
fn h7_a_retry_removes_no_worktree_that_git_left_locked() {
    let world = world();
    let path = failed(&world, "u");
    fs::write(admin(&world, "u").join("locked"), "initializing").expect("a file");
    let refused = world.jit(["worktree", "retry", "u", "--json"]).exits(2).json();
    assert!(path.join("new.txt").is_file());
    let help = refused["error"]["help"][0].as_str().expect("help").to_owned();
    assert!(help.starts_with("git worktree unlock"), "{help}");
    let _ = shell(&world, &help).ok();
    let _ = world.jit(["worktree", "retry", "u"]).ok();
    assert!(path.join("new.txt").is_file());
}

#[test]
fn h7_prune_leaves_a_damaged_worktree_of_a_person() {
    let world = world();
    let path = of_a_person(&world, "mine");
    let head = admin(&world, "mine").join("HEAD");
    let commit = fs::read_to_string(&head).expect("HEAD");
    fs::write(&head, "").expect("a file");
    let told = world.jit(["worktree", "prune", "--settle"]).ok().stdout;
    assert!(told.contains("has no HEAD"), "{told}");
    assert!(admin(&world, "mine").join("index").is_file());
    let told = world.jit(["doctor"]).stdout;
    let help = format!("printf {}", repair(&told, "printf "));
    let _ = shell(&world, &help).ok();
    assert_eq!(fs::read_to_string(&head).expect("HEAD"), commit);
    assert_eq!(world.git(&path, ["status", "--porcelain"]).trim(), "A  staged");
    // Git itself writes HEAD as a link where core.preferSymlinkRefs says so.
    world.git(&path, ["switch", "-q", "-c", "own"]);
    fs::remove_file(&head).expect("a file");
    symlink("refs/heads/own", &head).expect("a link");
    assert_eq!(world.git(&path, ["status", "--porcelain"]).trim(), "A  staged");
    let told = world.jit(["doctor"]).stdout;
    assert!(!told.contains("has no HEAD"), "{told}");
    let told = world.jit(["worktree", "prune", "--settle"]).ok().stdout;
    assert!(!told.contains("has no HEAD"), "{told}");
    assert_eq!(world.git(&path, ["status", "--porcelain"]).trim(), "A  staged");
}

#[test]
fn h7_a_lock_that_git_left_on_a_complete_worktree_is_only_unlocked() {
    let world = world();
    let path = of_a_person(&world, "mine");
    let locked = admin(&world, "mine").join("locked");
    fs::write(&locked, "initializing").expect("a file");
    let told = world.jit(["worktree", "prune", "--settle"]).ok().stdout;
    assert!(!told.contains("remove"), "{told}");
    let told = world.jit(["doctor"]).stdout;
    assert!(!told.contains("git worktree remove"), "{told}");
    let help = format!("git worktree unlock{}", repair(&told, "git worktree unlock"));
    let _ = shell(&world, &help).ok();
    assert!(!locked.exists());
    assert_eq!(world.git(&path, ["status", "--porcelain"]).trim(), "A  staged");
}

#[test]
fn h7_a_retry_removes_no_git_folder_of_another_worktree_with_the_same_name() {
    let world = world();
    let other = of_a_person(&world, "u");
    let path = failed(&world, "u");
    let link = admin(&world, "u").join("gitdir");
    fs::write(&link, "").expect("a file");
    let _ = world.jit(["worktree", "retry", "u"]).ok();
    assert!(path.join("new.txt").is_file());
    assert!(admin(&world, "u").join("index").is_file());
    let told = world.jit(["worktree", "prune", "--settle"]).ok().stdout;
    assert!(told.contains("git worktree repair <where it is>"), "{told}");
    let shown = other.to_string_lossy();
    world.git(&world.repo(), ["worktree", "repair", &shown]);
    assert_eq!(world.git(&other, ["status", "--porcelain"]).trim(), "A  staged");
}

#[test]
fn d5_doctor_and_prune_report_a_unit_with_damaged_files_of_git() {
    for name in ["HEAD", "commondir", "gitdir"] {
        let world = world();
        let path = create(&world, &["u"]);
        fs::write(path.join("new.txt"), "mine\n").expect("a file");
        fs::write(admin(&world, "u").join(name), "").expect("a file");
        let told = world.jit(["worktree", "prune", "--settle"]).ok().stdout;
        assert!(told.contains(&format!("has no {name}")), "{told}");
        let told = world.jit(["doctor"]).stdout;
        assert!(told.contains(&format!("has no {name}")), "{told}");
        let abandon = ["worktree", "abandon", "u", "--reason", "x", "--json"];
        let refused = world.jit(abandon).exits(2).json();
        let help = refused["error"]["help"][0].as_str().expect("help");
        assert!(told.contains(help), "{help}: {told}");
        let _ = shell(&world, help).ok();
        assert_eq!(world.git(&path, ["status", "--porcelain"]).trim(), "?? new.txt");
        let told = world.jit(["doctor"]).stdout;
        assert!(!told.contains("damaged"), "{told}");
        let _ = world.jit(abandon).ok();
        let kept = world.jit(["rescue", "list", "--json"]).ok().stdout;
        assert!(kept.contains("new.txt"), "{kept}");
    }
}

#[test]
fn g16_git_folders_that_prune_removes_go_to_the_trash() {
    let world = world();
    let stray = admin(&world, "stray");
    fs::create_dir_all(stray.join("logs")).expect("a folder");
    fs::write(stray.join("logs/HEAD"), "something\n").expect("a file");
    fs::write(stray.join("locked"), "initializing").expect("a file");
    let _ = world.jit(["worktree", "prune", "--settle"]).ok();
    assert!(!stray.exists());
    let list = world.jit(["rescue", "list", "--json"]).ok().json();
    let id = list["rescues"][0]["id"].as_str().expect("an id");
    assert!(id.starts_with("stray-"), "{list}");
    let kept = world
        .repo()
        .join(".git/jit/trash")
        .join(id)
        .join("admin/logs/HEAD");
    assert_eq!(fs::read_to_string(kept).expect("a file"), "something\n");
    let _ = world.jit(["rescue", "show", id]).ok();
}
