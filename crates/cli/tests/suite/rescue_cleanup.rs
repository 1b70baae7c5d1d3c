//! `jit worktree cleanup`, `abandon` and `jit rescue` (H7, T11, T13): no work is lost with a worktree.

use std::fs;
use std::path::Path;

use jit_testkit::world::World;
use jit_testkit::world::tools::{Folder, field, inside_own_mounts, without};
use serde_json::Value;

use crate::rescuing::kinds::{KINDS, TO_READY, commit, land};
use crate::rescuing::{JIT, TO_MERGED, filled, recoverable, register, unit, world, write};

/// A worktree in memory, without the file that says where its git folder is: that may change.
fn picture(dir: &Path) -> Folder {
    let link = dir.join(".git");
    let content = fs::read(&link).expect("a link");
    fs::remove_file(&link).expect("a link");
    let folder = Folder::read(dir).expect("a worktree");
    fs::write(&link, content).expect("a link");
    folder
}

fn status(world: &World, dir: &Path) -> String {
    world.git(
        dir,
        [
            "status",
            "--porcelain=v2",
            "--branch",
            "--untracked-files=all",
            "--ignored=matching",
        ],
    )
}

fn only_rescue(world: &World) -> String {
    let list = world.jit(["rescue", "list", "--json"]).ok().json();
    let ids = field(&list["rescues"], "id");
    assert_eq!(ids.len(), 1, "{list}");
    ids[0].to_owned()
}

#[test]
fn t11_a_clean_worktree_that_has_landed_is_removed_at_once() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    commit(&world, &dir, "new.txt", "new\n");
    write(&dir.join("out/build.o"), "what tools make");
    land(&world, "u1");
    let done = world.jit(["worktree", "cleanup", "u1", "--json"]).ok().json();
    assert_eq!(done["state"], "IDLE");
    assert_eq!(
        (&done["rescue"], &done["branch_deleted"]),
        (&Value::Null, &Value::Bool(true))
    );
    assert!(!dir.exists());
    assert_eq!(world.git(&world.repo(), ["branch", "--list", "u1"]), "");
    assert_eq!(
        world
            .git(&world.repo(), ["worktree", "list", "--porcelain"])
            .matches("worktree ")
            .count(),
        1
    );
    assert_eq!(
        fs::read_dir(world.control().join("trash"))
            .expect("a trash")
            .count(),
        0
    );
    // Doing it again does nothing.
    let again = world.jit(["worktree", "cleanup", "u1", "--json"]).ok().json();
    assert_eq!(again["state"], "IDLE");
    world.validates();
}

#[test]
fn h7_what_a_killed_cleanup_left_without_anything_in_it_is_not_shown_and_goes() {
    let world = world();
    for name in ["u1", "u2"] {
        let dir = unit(&world, name, TO_MERGED);
        commit(&world, &dir, &format!("{name}.txt"), "new\n");
        land(&world, name);
    }
    let listed = || world.jit(["rescue", "list", "--json"]).ok().json()["rescues"].clone();
    let none = Value::Array(Vec::new());
    let trash = world.control().join("trash");
    let entries = || -> Vec<_> {
        let all = fs::read_dir(&trash).expect("a trash").flatten();
        all.map(|entry| entry.path()).collect()
    };
    // At its last step: only what is written down about it is left.
    let mut killed = world.jit_command(&world.repo());
    killed.env("JIT_TEST_DIE_AT", "emptied");
    killed.args(["worktree", "cleanup", "u1"]);
    let _ = world.run(killed).exits(137);
    let manifest = fs::read(entries()[0].join("manifest.json")).expect("a file");
    assert_eq!(listed(), none);
    let _ = world.jit(["worktree", "cleanup", "u2"]).ok();
    assert_eq!(entries(), Vec::<std::path::PathBuf>::new());
    // One that was begun for a unit that is over, one for a unit that is not, and a folder without even that.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for id in ["u1-begun", "u2-begun", "u2-empty"] {
        let folder = trash.join(id);
        fs::create_dir(&folder).expect("a folder");
        if id.ends_with("begun") {
            let mut text: Value = serde_json::from_slice(&manifest).expect("JSON");
            text["id"] = id.into();
            text["unit"] = id[..2].into();
            text["stage"] = "saving".into();
            fs::write(folder.join("manifest.json"), text.to_string()).expect("a file");
        }
        let folder = fs::File::open(&folder).expect("a folder");
        folder.set_modified(old).expect("a time");
    }
    assert_eq!(listed(), none);
    let _ = world.jit(["rescue", "prune"]).ok();
    assert_eq!(entries(), [trash.join("u1-begun")]);
    // What holds something is shown, also where only its refs tell of it.
    let refname = "refs/jit/rescue/u1-begun/head";
    world.git(&world.repo(), ["update-ref", refname, "HEAD"]);
    assert_eq!(field(&listed(), "id"), ["u1-begun"]);
    world.git(&world.repo(), ["update-ref", "-d", refname]);
    let _ = world.jit(["worktree", "cleanup", "u1"]).ok();
    assert_eq!(entries(), Vec::<std::path::PathBuf>::new());
    world.validates();
}

#[test]
fn h7_a_submodule_works_where_it_is_restored() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    let (_, make, _) = KINDS
        .iter()
        .find(|(kind, ..)| *kind == "submodule")
        .expect("a kind");
    make(&world, &dir);
    let _ = world.jit(["worktree", "cleanup", "u1", "--force"]).ok();
    let id = only_rescue(&world);
    let _ = world.jit(["rescue", "restore", &id, "--to", "../back"]).ok();
    let sub = world.root().join("back/sub");
    assert_eq!(world.git(&sub, ["log", "--format=%s"]), "local.txt\nlib.txt\n");
    assert_eq!(world.git(&sub, ["status", "--porcelain"]), "");
}

/// Each kind of work by itself: refused without `--force`, and brought back whole from the trash and from the refs.
#[test]
fn heavy_h7_every_kind_of_work_stops_a_cleanup_and_comes_back_byte_for_byte() {
    for (n, (kind, make, called)) in KINDS.iter().enumerate() {
        let world = world();
        let name = format!("u{n}");
        let dir = unit(&world, &name, TO_MERGED);
        make(&world, &dir);
        let (before, said) = (picture(&dir), status(&world, &dir));
        let log = world.git(&dir, ["reflog", "show", "--format=%H", "HEAD"]);
        if !called.is_empty() {
            let refused = world
                .jit(["worktree", "cleanup", &name, "--json"])
                .exits(5)
                .json();
            assert_eq!(refused["error"]["code"], "work_left", "{kind}");
            let listed = refused["error"]["details"]["candidates"].to_string();
            assert!(listed.contains(called), "{kind}: {listed}");
            assert!(picture(&dir) == before, "{kind}");
            assert_eq!(status(&world, &dir), said, "{kind}");
        }
        let force: &[&str] = if called.is_empty() { &[] } else { &["--force"] };
        let words = ["worktree", "cleanup", &name, "--json"];
        let done = world.jit(words.iter().chain(force)).ok().json();
        assert!(!dir.exists(), "{kind}");
        let id = done["rescue"]
            .as_str()
            .unwrap_or_else(|| panic!("{kind}: {done}"))
            .to_owned();
        world.git(&world.repo(), ["gc", "-q", "--prune=now"]);
        world.git(&world.repo(), ["worktree", "prune"]);
        let shown = world.jit(["rescue", "show", &id, "--json"]).ok().json();
        // First as it is, then from the refs alone.
        for from in ["trash", "refs"] {
            if from == "refs" {
                let _ = world.jit(["rescue", "prune", "--older-than", "0"]).ok();
            }
            if shown["in_trash"] == false && from == "trash" {
                continue;
            }
            if from == "refs" {
                let copy = world.control().join("trash").join(&id);
                assert!(!copy.join("tree").exists(), "{kind}");
            }
            let done = world.jit(["rescue", "restore", &id, "--json"]).ok().json();
            assert_eq!(done["from"], from, "{kind}");
            if shown["in_trash"] == true {
                assert!(picture(&dir) == before, "{kind} from {from}");
            }
            assert_eq!(status(&world, &dir), said, "{kind} from {from}");
            if shown["in_trash"] == true {
                let restored = world.git(&dir, ["reflog", "show", "--format=%H", "HEAD"]);
                assert_eq!(restored, log, "{kind} from {from}");
            }
            if from == "trash" {
                // The same command again changes nothing. A worktree without a branch is not known as what was restored.
                let again = world.jit(["rescue", "restore", &id, "--json"]);
                match again.code {
                    0 => assert_eq!(again.json()["from"], "already", "{kind}"),
                    _ => assert_eq!(again.exits(2).json()["error"]["code"], "exists", "{kind}"),
                }
                assert_eq!(status(&world, &dir), said, "{kind} restored again");
                // Away with it once more, as if it had never been restored.
                world.git(
                    &world.repo(),
                    [
                        "worktree",
                        "remove",
                        "--force",
                        "--force",
                        dir.to_str().expect("UTF-8"),
                    ],
                );
                let _ = world.run({
                    let mut git = world.command("git", &world.repo());
                    git.args(["branch", "-D", &name]);
                    git
                });
            }
        }
    }
}

#[test]
fn h7_a_squash_has_landed_and_its_commits_are_kept() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    commit(&world, &dir, "x.txt", "first\n");
    commit(&world, &dir, "x.txt", "second\n");
    world.git(&world.repo(), ["merge", "-q", "--squash", "u1"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "squashed"]);
    let _ = world.jit(["worktree", "cleanup", "u1"]).ok();
    assert!(!dir.exists());
    assert!(recoverable(&world).contains(&b"first\n"[..]));
    let id = only_rescue(&world);
    let _ = world
        .jit(["rescue", "restore", &id, "--to", "../back", "--branch", "again"])
        .ok();
    assert_eq!(
        world.git(&world.repo(), ["log", "--format=%s", "again", "-2"]),
        "x.txt\nx.txt\n"
    );
}

#[test]
fn h7_a_commit_made_after_a_squash_is_work() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    commit(&world, &dir, "x.txt", "wanted\n");
    world.git(&world.repo(), ["merge", "-q", "--squash", "u1"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "squashed"]);
    commit(&world, &dir, "y.txt", "more\n");
    let refused = world.jit(["worktree", "cleanup", "u1", "--json"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "work_left");
}

#[test]
fn t13_an_abandoned_unit_keeps_everything() {
    let world = world();
    let dir = unit(&world, "u1", TO_READY);
    commit(&world, &dir, "x.txt", "committed\n");
    write(&dir.join("y.txt"), "not committed\n");
    let refused = world.jit(["worktree", "cleanup", "u1", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "bad_transition");
    let _ = world.jit(["worktree", "abandon", "u1", "--reason", " "]).exits(2);
    let done = world
        .jit(["worktree", "abandon", "u1", "--reason", "another way", "--json"])
        .ok()
        .json();
    assert_eq!(done["state"], "IDLE");
    assert!(!dir.exists());
    let id = only_rescue(&world);
    let shown = world.jit(["rescue", "show", &id, "--json"]).ok().json();
    assert_eq!(shown["reason"], "another way");
    let found = recoverable(&world);
    for content in ["committed\n", "not committed\n"] {
        assert!(found.contains(content.as_bytes()), "{content}");
    }
    let refs = world.git(
        &world.repo(),
        ["show", &format!("refs/jit/rescue/{id}/worktree:y.txt")],
    );
    assert_eq!(refs, "not committed\n");
}

#[test]
fn h7_the_main_worktree_links_and_foreign_folders_are_never_touched() {
    let world = world();
    let elsewhere = world.root().join("elsewhere");
    write(&elsewhere.join("file"), "mine\n");
    world.git(world.root(), ["clone", "-q", "repo", "clone"]);
    let real = world.worktree("real");
    std::os::unix::fs::symlink(&real, world.root().join("link")).expect("a link");
    for (name, path) in [
        ("main1", world.repo()),
        ("above", world.root().to_owned()),
        ("else1", elsewhere.clone()),
        ("clone", world.root().join("clone")),
        ("link", world.root().join("link")),
    ] {
        world.git(&world.repo(), ["branch", "-f", name]);
        register(&world.control(), name, &path, TO_MERGED);
        let refused = world
            .jit(["worktree", "cleanup", name, "--force", "--force", "--json"])
            .exits(5)
            .json();
        assert_eq!(refused["error"]["code"], "not_allowed", "{name}: {refused}");
        assert!(path.exists(), "{name}");
    }
    assert!(world.repo().join(".git/HEAD").exists() && elsewhere.join("file").exists());
    assert!(real.join(".git").exists());
}

#[test]
fn h7_another_worktree_at_the_same_path_is_not_the_units() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    let path = dir.to_str().expect("UTF-8");
    world.git(&world.repo(), ["worktree", "remove", path]);
    world.git(world.root(), ["clone", "-q", "repo", path]);
    let refused = world
        .jit(["worktree", "cleanup", "u1", "--force", "--json"])
        .exits(5)
        .json();
    assert_eq!(refused["error"]["code"], "not_allowed");
    assert!(dir.join(".git/HEAD").exists());
}

#[test]
fn h7_a_worktree_inside_another_stays() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    let inner = dir.join("inner");
    world.git(
        &world.repo(),
        [
            "worktree",
            "add",
            "-q",
            "-b",
            "inner",
            inner.to_str().expect("UTF-8"),
        ],
    );
    let refused = world
        .jit(["worktree", "cleanup", "u1", "--force", "--json"])
        .exits(5)
        .json();
    assert!(
        refused["error"]["message"].to_string().contains("inside"),
        "{refused}"
    );
    assert!(inner.join("a.txt").exists());
}

#[test]
fn h7_a_locked_worktree_needs_force_twice() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    let path = dir.to_str().expect("UTF-8");
    world.git(
        &world.repo(),
        ["worktree", "lock", "--reason", "on a stick", path],
    );
    for force in [&[][..], &["--force"]] {
        let words = ["worktree", "cleanup", "u1", "--json"];
        let refused = world.jit(words.iter().chain(force)).exits(5).json();
        assert!(
            refused["error"]["message"].to_string().contains("on a stick"),
            "{refused}"
        );
    }
    let _ = world
        .jit(["worktree", "cleanup", "u1", "--force", "--force"])
        .ok();
    assert!(!dir.exists());
    // A lock of jit's own is no obstacle.
    let dir = unit(&world, "u2", TO_MERGED);
    world.git(
        &world.repo(),
        [
            "worktree",
            "lock",
            "--reason",
            "jit: unit u2",
            dir.to_str().expect("UTF-8"),
        ],
    );
    let _ = world.jit(["worktree", "cleanup", "u2"]).ok();
    assert!(!dir.exists());
}

#[cfg(target_os = "linux")]
#[test]
fn h7_a_worktree_that_a_process_works_in_stays_and_the_process_is_named() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    let mut sleeper = world.command("sleep", &dir.join("dir"));
    let mut sleeper = sleeper.arg("600").spawn().expect("sleep");
    let refused = world
        .jit(["worktree", "cleanup", "u1", "--force", "--json"])
        .exits(4)
        .json();
    let message = refused["error"]["message"].to_string();
    assert!(message.contains(&sleeper.id().to_string()), "{message}");
    let here = world
        .jit_in(&dir, ["worktree", "cleanup", "u1", "--json"])
        .exits(4)
        .json();
    assert_eq!(here["error"]["code"], "held");
    sleeper.kill().expect("a signal");
    sleeper.wait().expect("an end");
    let _ = world.jit(["worktree", "cleanup", "u1"]).ok();
    assert!(!dir.exists());
}

#[test]
fn h7_stashes_are_never_touched() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    write(&dir.join("a.txt"), "stashed\n");
    world.git(&dir, ["stash", "-q"]);
    let before = world.git(&world.repo(), ["stash", "list", "--format=%H"]);
    let _ = world.jit(["worktree", "cleanup", "u1"]).ok();
    assert_eq!(world.git(&world.repo(), ["stash", "list", "--format=%H"]), before);
    assert!(recoverable(&world).contains(&b"stashed\n"[..]));
}

#[test]
fn h7_ignored_files_that_the_main_worktree_has_too_are_no_work() {
    let world = world();
    write(&world.repo().join(".env"), "SECRET=1\n");
    let dir = unit(&world, "u1", TO_MERGED);
    write(&dir.join(".env"), "SECRET=1\n");
    let done = world.jit(["worktree", "cleanup", "u1", "--json"]).ok().json();
    assert_eq!(done["rescue"], Value::Null);
    let dir = unit(&world, "u2", TO_MERGED);
    write(&dir.join(".env"), "SECRET=2\n");
    let _ = world.jit(["worktree", "cleanup", "u2", "--json"]).exits(5);
}

#[test]
fn h7_pipes_and_sockets_are_written_down_and_do_not_hang() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    write(&dir.join("note"), "n\n");
    let mut pipe = world.command("mkfifo", &dir);
    pipe.arg("pipe");
    let _ = world.run(pipe).ok();
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).expect("a socket");
    let _ = world.jit(["worktree", "cleanup", "u1", "--force"]).ok();
    let id = only_rescue(&world);
    let extras = world.git(
        &world.repo(),
        ["show", &format!("refs/jit/rescue/{id}/entry:extras.json")],
    );
    assert!(
        extras.contains("\"pipe\"") && extras.contains("\"socket\""),
        "{extras}"
    );
    let _ = world.jit(["rescue", "prune", "--older-than", "0"]).ok();
    let _ = world.jit(["rescue", "restore", &id]).ok();
    assert_eq!(fs::read_to_string(dir.join("note")).expect("a file"), "n\n");
}

#[test]
fn h7_a_worktree_that_somebody_deleted_still_gives_up_its_commits() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    commit(&world, &dir, "x.txt", "committed\n");
    fs::remove_dir_all(&dir).expect("a folder");
    let _ = world.jit(["worktree", "cleanup", "u1", "--json"]).exits(5);
    let _ = world.jit(["worktree", "cleanup", "u1", "--force"]).ok();
    assert!(recoverable(&world).contains(&b"committed\n"[..]));
}

#[test]
fn h7_a_trash_on_another_file_system_gets_a_copy_that_is_compared() {
    use std::os::unix::fs::MetadataExt as _;
    let memory = Path::new("/dev/shm");
    let here = std::env::temp_dir();
    if !memory.is_dir()
        || fs::metadata(memory).expect("meta").dev() == fs::metadata(&here).expect("meta").dev()
    {
        jit_testkit::world::tools::say("left out: there is no second file system");
        return;
    }
    let control = tempfile::tempdir_in(memory).expect("a folder");
    let world = filled(World::new(JIT));
    let jit = |words: &[&str]| {
        let mut command = world.jit_command(&world.repo());
        command.env("JIT_DIR", control.path().join("jit")).args(words);
        world.run(command)
    };
    let _ = jit(&["init"]).ok();
    let dir = world.worktree("u1");
    register(&control.path().join("jit"), "u1", &dir, TO_MERGED);
    for (kind, make, _) in KINDS
        .iter()
        .filter(|(kind, ..)| matches!(*kind, "odd names" | "repository" | "staged"))
    {
        let _ = kind;
        make(&world, &dir);
    }
    let before = picture(&dir);
    let _ = jit(&["worktree", "cleanup", "u1", "--force"]).ok();
    assert!(!dir.exists());
    assert_eq!(
        fs::read_dir(world.root())
            .expect("a folder")
            .flatten()
            .filter(|e| e.file_name().to_string_lossy().contains("jit-trash"))
            .count(),
        0
    );
    let list = jit(&["rescue", "list", "--json"]).ok().json();
    let id = field(&list["rescues"], "id")[0].to_owned();
    assert!(control.path().join("jit/trash").join(&id).join("tree").is_dir());
    let done = jit(&["rescue", "restore", &id, "--json"]).ok().json();
    assert_eq!(done["from"], "trash");
    assert!(picture(&dir) == before);
}

#[cfg(target_os = "linux")]
#[test]
fn h7_a_full_disk_removes_nothing() {
    if without("strace") {
        return;
    }
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    write(&dir.join("precious"), "precious\n");
    let before = picture(&dir);
    // Git cannot write a single object.
    let way = [
        "strace",
        "-f",
        "-qq",
        "-o/dev/null",
        "-etrace=link,linkat,rename",
        "-einject=link,linkat,rename:error=ENOSPC",
    ];
    let ran = world.run(world.jit_by_way_of(&way, "human:h", ["worktree", "cleanup", "u1", "--force"]));
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(picture(&dir) == before);
    assert!(status(&world, &dir).contains("precious"));
    let trash = fs::read_dir(world.control().join("trash")).into_iter().flatten();
    assert_eq!(trash.count(), 0, "no empty folder is left");
    let _ = world.jit(["worktree", "cleanup", "u1", "--force"]).ok();
    assert!(recoverable(&world).contains(&b"precious\n"[..]));
}

/// Everything below, in the hands of somebody else.
pub(crate) fn give(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).expect("we are root");
    if path.symlink_metadata().expect("meta").is_dir() {
        for entry in fs::read_dir(path).expect("a folder").flatten() {
            give(&entry.path(), user);
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn h7_what_cannot_be_read_stops_a_removal() {
    use std::os::unix::fs::PermissionsExt as _;
    let way = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if !crate::process_disk::may_be_another() {
        return;
    }
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    write(&dir.join("closed/secret"), "secret\n");
    write(&dir.join("secret"), "secret\n");
    give(world.root(), 65534);
    for (name, closed, open) in [("closed", 0o000, 0o755), ("secret", 0o000, 0o644)] {
        let mode =
            |mode| fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).expect("a mode");
        mode(closed);
        let words = ["worktree", "cleanup", "u1", "--force", "--json"];
        let refused = world
            .run(world.jit_by_way_of(&way, "human:h", words))
            .exits(1)
            .json();
        let message = refused["error"]["message"].to_string();
        assert!(message.contains(name), "{message}");
        mode(open);
        assert_eq!(fs::read(dir.join("secret")).expect("a file"), b"secret\n");
        assert!(dir.join(".git").exists() && dir.join("a.txt").exists(), "{name}");
    }
    let words = ["worktree", "cleanup", "u1", "--force"];
    let _ = world.run(world.jit_by_way_of(&way, "human:h", words)).ok();
    assert!(!dir.exists());
}

#[test]
fn h7_the_trash_is_emptied_by_age_and_refs_only_by_a_person() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    write(&dir.join("x"), "x\n");
    let _ = world.jit(["worktree", "cleanup", "u1", "--force"]).ok();
    let id = only_rescue(&world);
    let kept = world.jit(["rescue", "prune", "--json"]).ok().json();
    assert_eq!(
        kept["pruned"],
        Value::Array(Vec::new()),
        "younger than rescue.keep_days"
    );
    let refused = world.jit(["uninstall", "--yes", "--json"]).exits(5).json();
    assert!(refused["error"]["message"].to_string().contains(&id), "{refused}");
    let pruned = world
        .jit(["rescue", "prune", "--older-than", "0", "--json"])
        .ok()
        .json();
    assert_eq!(pruned["pruned"][0], id.as_str());
    assert!(recoverable(&world).contains(&b"x\n"[..]), "the refs have it");
    let _ = world.jit(["uninstall", "--yes", "--json"]).exits(5);
    let _ = world.jit_as("agent:a", ["rescue", "drop", &id, "--yes"]).exits(5);
    let as_human = ["--agent-id", "human:me", "rescue", "drop", &id, "--yes"];
    let _ = world.jit_as("agent:a", as_human).exits(5);
    let _ = world.jit(["rescue", "drop", &id]).exits(2);
    let _ = world.jit(["rescue", "drop", &id, "--yes"]).ok();
    let _ = world.jit(["rescue", "show", &id]).exits(3);
    assert_eq!(world.git(&world.repo(), ["for-each-ref", "refs/jit"]), "");
    let _ = world.jit(["uninstall", "--yes"]).ok();
}

#[test]
fn h7_a_restore_overwrites_neither_a_path_nor_a_branch() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    commit(&world, &dir, "x", "x\n");
    write(&dir.join("y"), "y\n");
    let _ = world.jit(["worktree", "cleanup", "u1", "--force"]).ok();
    let id = only_rescue(&world);
    fs::create_dir(&dir).expect("a folder");
    let _ = world.jit(["rescue", "restore", &id]).exits(2);
    world.git(&world.repo(), ["branch", "u1"]);
    let refused = world
        .jit(["rescue", "restore", &id, "--to", "../back", "--json"])
        .exits(2)
        .json();
    assert!(
        refused["error"]["help"].to_string().contains("--branch"),
        "{refused}"
    );
    let _ = world
        .jit([
            "rescue", "restore", &id, "--to", "../back", "--branch", "u1-again",
        ])
        .ok();
    let back = world.root().join("back");
    assert_eq!(fs::read(back.join("y")).expect("a file"), b"y\n");
    assert_eq!(world.git(&back, ["branch", "--show-current"]), "u1-again\n");
    assert_eq!(world.git(&back, ["status", "--porcelain"]), "?? y\n");
    let _ = world.jit(["rescue", "restore", "../../etc", "--json"]).exits(2);
    let _ = world.jit(["rescue", "restore", "nothing", "--json"]).exits(3);
}

#[test]
fn h7_people_see_what_was_kept_and_nothing_that_moves_their_terminal() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    write(&dir.join("evil\u{1b}[2J\nname"), "x\n");
    let refused = world.jit(["worktree", "cleanup", "u1"]).exits(5);
    assert!(
        refused.stderr.contains("untracked: evil%1B[2J%0Aname"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("try: jit worktree cleanup u1 --force\n"),
        "{}",
        refused.stderr
    );
    let done = world.jit(["worktree", "cleanup", "u1", "--force"]).ok().stdout;
    let id = only_rescue(&world);
    assert!(done.contains(&format!("jit rescue restore {id}")), "{done}");
    for words in [&["rescue", "list"][..], &["rescue", "show", &id]] {
        let text = world.jit(words).ok().stdout;
        assert!(
            text.contains(&id) && text.contains("untracked evil%1B[2J%0Aname"),
            "{text}"
        );
    }
    let quiet = world
        .jit(["rescue", "prune", "--older-than", "0", "--quiet"])
        .ok()
        .stdout;
    assert_eq!(quiet, format!("{id}\n"));
    assert_eq!(
        world.jit(["rescue", "list"]).ok().stdout.matches("refs").count(),
        1
    );
}

/// The contract: a unit is named by its id, issue, branch or path, or not at all inside its worktree.
#[test]
fn h7_a_unit_to_be_removed_goes_by_any_of_its_names() {
    let world = world();
    for (n, by) in ["branch", "path", "id"].into_iter().enumerate() {
        let name = format!("u{n}");
        let dir = unit(&world, &name, TO_MERGED);
        let branch = world
            .git(&dir, ["rev-parse", "--abbrev-ref", "HEAD"])
            .trim()
            .to_owned();
        let words = ["worktree", "cleanup", "--force", "--json"]
            .map(str::to_owned)
            .to_vec();
        let cleaned = match by {
            "branch" => world.jit([words, vec![branch]].concat()),
            "path" => world.jit([words, vec![dir.to_string_lossy().into_owned()]].concat()),
            _ => world.jit([words, vec![name]].concat()),
        };
        assert_eq!(cleaned.ok().json()["state"], "IDLE", "{by}");
        assert!(!dir.exists(), "{by}");
    }
    // Known where it is, though nobody's feet are cut off.
    let dir = unit(&world, "u9", TO_MERGED);
    let inside = world.jit_in(&dir, ["worktree", "cleanup", "--force"]).exits(4);
    assert!(inside.stderr.contains("cd somewhere else"), "{}", inside.stderr);
}

/// H7: what is mounted in a worktree lies elsewhere too, and would be deleted there.
#[test]
#[cfg(target_os = "linux")]
fn h7_what_is_mounted_in_a_worktree_is_not_deleted() {
    if !inside_own_mounts(module_path!(), "h7_what_is_mounted_in_a_worktree_is_not_deleted") {
        return;
    }
    let mount = |program: &str, paths: &[&Path]| {
        let mut command = std::process::Command::new(program);
        if program == "mount" {
            command.arg("--bind");
        }
        assert!(command.args(paths).status().expect(program).success());
    };
    let world = world();
    let outside = world.root().join("outside");
    write(&outside.join("precious.txt"), "precious");
    for (name, inputs) in [("u1", TO_MERGED), ("u2", TO_READY)] {
        let dir = unit(&world, name, inputs);
        let place = dir.join("out/a b");
        fs::create_dir_all(&place).expect("a folder");
        mount("mount", &[&outside, &place]);
        let words: &[&str] = match name {
            "u1" => &["worktree", "cleanup", "u1", "--force"],
            _ => &["worktree", "abandon", "u2", "--reason", "x"],
        };
        let ran = world.jit(words);
        assert!(outside.join("precious.txt").exists(), "{name}: {ran:?}");
        let text = ran.exits(5).stderr;
        assert!(text.contains("mounted on") && text.contains("umount '"), "{text}");
        assert!(dir.join("a.txt").exists(), "{name}: nothing was moved");
        mount("umount", &[&place]);
        let _ = world.jit(words).ok();
        assert!(!dir.exists() && outside.join("precious.txt").exists());
    }
    // Somebody mounts it in the trash.
    let dir = unit(&world, "u3", TO_READY);
    write(&dir.join("notes.txt"), "notes");
    fs::create_dir_all(dir.join("out/m")).expect("a folder");
    let _ = world.jit(["worktree", "abandon", "u3", "--reason", "x"]).ok();
    let list = world.jit(["rescue", "list", "--json"]).ok().json();
    let rescues = list["rescues"].as_array().expect("a list");
    let last = rescues.last().expect("a rescue");
    let place = Path::new(last["trash_path"].as_str().expect("a path")).join("out/m");
    mount("mount", &[&outside, &place]);
    let id = last["id"].as_str().expect("an id");
    let text = world.jit(["rescue", "drop", id, "--yes"]).exits(1).stderr;
    assert!(text.contains("mounted on"), "{text}");
    assert!(outside.join("precious.txt").exists());
    mount("umount", &[&place]);
    let _ = world.jit(["rescue", "drop", id, "--yes"]).ok();
    assert!(!place.exists() && outside.join("precious.txt").exists());
}

/// H7: a repository inside is kept, also one without a checkout.
#[test]
fn h7_a_bare_repository_in_an_ignored_folder_is_kept() {
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    world.git(&dir, ["clone", "-q", "--bare", ".", "out/bare.git"]);
    let bare = dir.join("out/bare.git");
    let _ = world.jit(["worktree", "cleanup", "u1"]).exits(5);
    world.git(
        &bare,
        [
            "config",
            "remote.origin.fetch",
            "+refs/heads/*:refs/remotes/origin/*",
        ],
    );
    world.git(&bare, ["fetch", "-q"]);
    let tree = world.git(&bare, ["rev-parse", "HEAD^{tree}"]);
    let made = world.git(&bare, ["commit-tree", tree.trim(), "-m", "only here"]);
    world.git(&bare, ["update-ref", "refs/heads/only", made.trim()]);
    let text = world.jit(["worktree", "cleanup", "u1"]).exits(5).stderr;
    assert!(text.contains("repository: out/bare.git"), "{text}");
    let _ = world.jit(["worktree", "cleanup", "u1", "--force"]).ok();
    let to = world.root().join("back");
    let id = only_rescue(&world);
    let _ = world
        .jit(["rescue", "restore", &id, "--to", to.to_str().expect("UTF-8")])
        .ok();
    let back = world.git(&to.join("out/bare.git"), ["log", "-1", "--format=%s", "only"]);
    assert_eq!(back.trim(), "only here");
}
