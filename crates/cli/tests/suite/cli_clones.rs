//! Settings and files of a clone lead nowhere and start nothing (L1); the folder that jit uses without git (A3).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use jit_testkit::world::tools::inside_own_mounts;
use jit_testkit::world::{Ran, World};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn world() -> World {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "begin"]);
    world
}

/// Writes the repository's own settings, as a clone may bring them.
fn settings(world: &World, text: &str) {
    fs::write(world.repo().join(".jit/config.toml"), text).expect("a file");
}

fn names(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).expect("a folder");
    let mut all: Vec<String> = all
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    all.sort();
    all
}

#[track_caller]
fn refused(ran: &Ran, with: &str) {
    assert_ne!(ran.code, 0, "{}", ran.stdout);
    assert!(ran.stderr.contains(with), "{}", ran.stderr);
}

/// A worktree in the user's settings of git would start a program at the next `git status`.
#[test]
fn l1_a_clone_places_no_worktree_where_programs_look() {
    let world = world();
    let settings_of_git = world.home().join(".config/git");
    fs::create_dir_all(world.home().join(".config")).expect("a folder");
    for path in [
        "{unit}/../../home/.config/git",
        "../home/.config/git",
        "../repo-x/../home/bin",
        "../node_modules/{unit}",
        "../{unit}",
        "/tmp/{unit}",
    ] {
        settings(&world, &format!("[worktree]\npath = \"{path}\"\n"));
        let ran = world.jit(["worktree", "create", "u1"]);
        refused(&ran, "worktree.path in this repository's own settings leads to");
        assert_eq!(ran.code, 5, "{path}");
        assert!(
            ran.stderr.contains("jit worktree create u1 --path"),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains("jit config set --user worktree.path"),
            "{}",
            ran.stderr
        );
    }
    assert!(!settings_of_git.exists());
    assert_eq!(names(world.root()).len(), 2, "{:?}", names(world.root()));
    assert_eq!(world.git(&world.repo(), ["branch", "--list", "jit/*"]), "");
    // A place that is named after the repository is fine, and so is any place that the user names.
    settings(&world, "[worktree]\npath = \"../{repo}-elsewhere/{unit}\"\n");
    let _ = world.jit(["worktree", "create", "u1"]).ok();
    assert!(world.root().join("repo-elsewhere/u1/.git").is_file());
    settings(&world, "[worktree]\npath = \"../home/.config/git\"\n");
    let asked = world.root().join("asked");
    let _ = world
        .jit([
            "worktree",
            "create",
            "u2",
            "--path",
            asked.to_str().expect("text"),
        ])
        .ok();
    assert!(asked.join(".git").is_file());
    let own = ["config", "set", "--user", "worktree.path", "../home/{unit}"];
    let _ = world.jit(own).ok();
    let _ = world.jit(["worktree", "create", "u3"]).ok();
    assert!(world.home().join("u3/.git").is_file());
    assert!(!settings_of_git.exists());
}

#[test]
fn l1_a_branch_from_a_clone_is_a_new_branch_and_nothing_else() {
    let world = world();
    let repo = world.repo();
    world.git(&repo, ["switch", "-q", "-c", "other"]);
    world.git(&repo, ["switch", "-q", "main"]);
    let refs = || world.git(&repo, ["for-each-ref"]);
    let before = refs();
    for branch in [
        "@{-1}",
        "../../../config",
        "-f",
        "--force",
        "main",
        "main/{unit}",
        "HEAD",
        "a b",
        "a..b",
        "x.lock",
    ] {
        settings(&world, &format!("[worktree]\nbranch = \"{branch}\"\n"));
        let ran = world.jit(["worktree", "create", "u1"]);
        assert_ne!(ran.code, 0, "{branch}: {}", ran.stdout);
        assert_eq!(refs(), before, "{branch}");
        assert!(!world.root().join("repo-worktrees").exists(), "{branch}");
    }
}

/// A branch may have a link where the main checkout has a folder.
#[test]
fn l1_untracked_files_are_brought_through_no_link() {
    let world = world();
    let (repo, out) = (world.repo(), world.root().join("out"));
    fs::create_dir(&out).expect("a folder");
    symlink(&out, repo.join("conf")).expect("a link");
    world.git(&repo, ["add", "conf"]);
    world.git(&repo, ["commit", "-q", "-m", "a link"]);
    world.git(&repo, ["switch", "-q", "-c", "side"]);
    world.git(&repo, ["rm", "-q", "conf"]);
    fs::create_dir(repo.join("conf")).expect("a folder");
    fs::write(repo.join("conf/config"), "[core]\n").expect("a file");
    for (n, how) in ["", " = hardlink", " = symlink"].into_iter().enumerate() {
        settings(&world, &format!("[worktree]\nfiles = [\"conf/config{how}\"]\n"));
        let ran = world.jit(["worktree", "create", &format!("u{n}"), "--base", "main"]);
        refused(&ran.exits(6), "does not write through it");
        assert_eq!(names(&out), Vec::<String>::new(), "{how}");
    }
}

#[test]
fn l1_worktreeinclude_is_a_file_and_brings_nothing_of_git_or_jit() {
    let world = world();
    let repo = world.repo();
    symlink("/dev/zero", repo.join(".worktreeinclude")).expect("a link");
    refused(
        &world.jit(["worktree", "create", "u1"]).exits(6),
        ".worktreeinclude: it is not a regular file",
    );
    fs::remove_file(repo.join(".worktreeinclude")).expect("removed");
    fs::write(repo.join(".worktreeinclude"), "*\n").expect("a file");
    settings(
        &world,
        "[worktree]\nfiles = [\".git = symlink\", \".jit/worktree.json = symlink\", \"**/.git\", \".env\"]\n",
    );
    fs::write(repo.join(".env"), "A=1\n").expect("a file");
    let _ = world.jit(["worktree", "create", "u2"]).ok();
    let tree = world.root().join("repo-worktrees/u2");
    assert!(tree.join(".env").is_file() && tree.join(".git").is_file());
    assert!(!tree.join(".jit/worktree.json").is_symlink());
}

#[test]
fn l1_a_jit_that_is_a_link_is_refused_by_every_command() {
    let world = World::new(JIT);
    let (repo, out) = (world.repo(), world.root().join("out"));
    fs::create_dir(&out).expect("a folder");
    symlink(&out, repo.join(".jit")).expect("a link");
    let _ = world.jit(["hooks", "install"]);
    for words in [
        &["init"][..],
        &["issue", "create", "x"],
        &["gate", "define", "t", "--command", "true"],
        &["config", "set", "worktree.mode", "off"],
        &["worktree", "init"],
        &["claim", "list"],
        &["whoami"],
        &["validate"],
        &["doctor"],
    ] {
        let ran = world.jit(words);
        assert_ne!(ran.code, 0, "{words:?}: {}", ran.stdout);
        let said = ran.stdout + &ran.stderr;
        assert!(said.contains("is a symbolic link"), "{words:?}: {said}");
        assert_eq!(names(&out), Vec::<String>::new(), "{words:?}");
    }
    // One that leads nowhere creates nothing there.
    fs::remove_file(repo.join(".jit")).expect("removed");
    symlink(world.root().join("nowhere"), repo.join(".jit")).expect("a link");
    refused(&world.jit(["init"]), "is a symbolic link");
    assert!(!world.root().join("nowhere").exists());
    // Without the link all is well.
    fs::remove_file(repo.join(".jit")).expect("removed");
    let _ = world.jit(["init"]).ok();
    world.validates();
}

#[test]
fn l1_links_below_jit_are_refused_by_init_and_by_writers() {
    let world = World::with_jit(JIT);
    let (local, out) = (world.repo().join(".jit"), world.root().join("out"));
    fs::create_dir(&out).expect("a folder");
    let precious = out.join("precious");
    for name in ["issues", "gates"] {
        fs::remove_dir_all(local.join(name)).expect("removed");
        symlink(&out, local.join(name)).expect("a link");
        refused(&world.jit(["init"]), "is a symbolic link");
        let _ = world.jit(["issue", "create", "x"]);
        let _ = world.jit(["gate", "define", "t", "--command", "true"]);
        assert_eq!(names(&out), Vec::<String>::new(), "{name}");
        fs::remove_file(local.join(name)).expect("removed");
        fs::create_dir(local.join(name)).expect("a folder");
    }
    fs::write(&precious, "mine").expect("a file");
    for name in [".gitattributes", "config.toml"] {
        fs::remove_file(local.join(name)).expect("removed");
        symlink(&precious, local.join(name)).expect("a link");
        refused(&world.jit(["init"]), "is a symbolic link");
        if name == "config.toml" {
            refused(
                &world.jit(["config", "set", "worktree.mode", "off"]),
                "is a symbolic link",
            );
            refused(&world.jit(["issue", "list"]), "is a symbolic link");
        }
        assert_eq!(fs::read_to_string(&precious).expect("a file"), "mine", "{name}");
        fs::remove_file(local.join(name)).expect("removed");
        let _ = world.jit(["init"]).ok();
    }
}

#[test]
fn a3_init_without_git_means_this_folder_and_says_so() {
    let world = World::new(JIT);
    let top = world.root().join("plain");
    let below = top.join("deep/below");
    fs::create_dir_all(&below).expect("folders");
    let ran = world.jit_in(&top, ["init"]).ok();
    assert!(ran.stdout.contains("there is no git here"), "{}", ran.stdout);
    // Other commands find it from below, and say which one they found.
    let shown = world.jit_in(&below, ["whoami"]).ok().stdout;
    assert!(shown.contains(&format!("in {}\n", top.display())), "{shown}");
    let said = world.jit_in(&below, ["status"]).ok().stderr;
    assert!(said.contains(&format!("{}/.jit", top.display())), "{said}");
    assert_eq!(world.jit_in(&top, ["status"]).ok().stderr, "");
    // `init` means the folder it runs in.
    let ran = world.jit_in(&below, ["init", "--json"]).ok();
    assert_eq!(
        ran.json()["control_dir"],
        below.join(".jit").to_str().expect("text")
    );
    assert!(ran.stderr.contains("has a .jit/ too"), "{}", ran.stderr);
    let _ = world
        .jit_in(&below, ["issue", "create", "x", "--id", "WI-1"])
        .ok();
    let _ = world.jit_in(&top, ["issue", "show", "WI-1"]).exits(3);
    let who = world.jit_in(&below, ["whoami", "--json"]).ok().json();
    assert_eq!(who["root"], below.to_str().expect("text"));
    assert_eq!(who["control_dir"], below.join(".jit").to_str().expect("text"));
    let who = world.jit(["whoami", "--json"]).ok().json();
    assert_eq!(who["root"], world.repo().to_str().expect("text"));
}

#[test]
fn a3_a_reading_command_makes_no_place_without_git() {
    let world = World::new(JIT);
    let top = world.root().join("plain");
    let below = top.join("below");
    fs::create_dir_all(&below).expect("folders");
    for words in [
        &["whoami"][..],
        &["worktree", "info"],
        &["config", "show"],
        &["doctor"],
        &["status"],
    ] {
        let _ = world.jit_in(&top, words);
        assert!(!top.join(".jit").exists(), "{words:?}");
    }
    let who = world.jit_in(&top, ["whoami", "--json"]).ok().json();
    assert!(who["worktree_id"].is_null(), "{who}");
    // A folder that an earlier version left captures nothing, and is no place itself.
    fs::create_dir(top.join(".jit")).expect("a folder");
    fs::write(top.join(".jit/worktree.json"), "{}").expect("a file");
    for folder in [&top, &below] {
        let ran = world.jit_in(folder, ["issue", "create", "x"]).exits(3);
        assert!(ran.stderr.contains("jit init"), "{}", ran.stderr);
    }
    let who = world.jit_in(&below, ["whoami", "--json"]).ok().json();
    assert_eq!(who["root"], below.to_str().expect("text"));
    // `jit init` makes a place.
    fs::remove_dir_all(top.join(".jit")).expect("removed");
    let _ = world.jit_in(&top, ["init"]).ok();
    let _ = world.jit_in(&below, ["issue", "create", "x"]).ok();
    let who = world.jit_in(&below, ["whoami", "--json"]).ok().json();
    assert_eq!(who["root"], top.to_str().expect("text"));
}

#[test]
fn a3_a_border_of_file_systems_ends_the_search() {
    if !inside_own_mounts(module_path!(), "a3_a_border_of_file_systems_ends_the_search") {
        return;
    }
    let world = World::new(JIT);
    let top = world.root().join("plain");
    let below = top.join("disk");
    fs::create_dir_all(&below).expect("folders");
    let _ = world.jit_in(&top, ["init"]).ok();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "none"])
        .arg(&below)
        .status();
    assert!(mounted.expect("mount").success());
    let _ = world.jit_in(&below, ["issue", "list"]).exits(3);
    let who = world.jit_in(&below, ["whoami", "--json"]).ok().json();
    assert_eq!(who["root"], below.to_str().expect("text"));
    let unmounted = Command::new("umount").arg(&below).status();
    assert!(unmounted.expect("umount").success());
}
