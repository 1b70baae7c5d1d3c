//! L6: what is not a file in the place of one of jit's files; and a surrounding that fails: standard output, the list of
//! users, the umask.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jit_testkit::world::World;
use jit_testkit::world::tools::{Folder, long, without};

use crate::landing::JIT;
use crate::unit_life::{commit, create, world};

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.file_type().expect("a type").is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

fn make_pipe(world: &World, path: &Path) {
    fs::remove_file(path).expect("a file");
    let mut make = world.command("mkfifo", world.root());
    make.arg(path);
    let _ = world.run(make).ok();
}

#[test]
fn heavy_l6_no_command_waits_for_a_pipe_in_place_of_a_file() {
    let world = world();
    for words in [
        &[
            "issue",
            "create",
            "Work",
            "--id",
            "WORK-1",
            "--description",
            "Long",
        ][..],
        &["claim", "acquire", "WORK-1"],
        &["session", "start"],
        &["lock", "acquire", "a.txt"],
        &["heartbeat", "--once"],
        &["hooks", "install"],
        &["gate", "define", "tests", "--command", "true"],
    ] {
        let _ = world.jit(words).ok();
    }
    let unit = create(&world, &["u"]);
    commit(&world, &unit, "new.txt", "new\n");
    let _ = world.jit(["worktree", "merge", "u"]).ok();
    let git = world.repo().join(".git");
    let start = Folder::read(&git).expect("a git folder");
    let mut all = files(&world.control());
    all.extend(["jit-seen", "jit-worktree.json"].map(|name| git.join(name)));
    let commands: &[&[&str]] = &[
        &["claim", "list"],
        &["claim", "acquire", "WORK-1"],
        &["claim", "history"],
        &["issue", "show", "WORK-1"],
        &["issue", "update", "WORK-1", "--title", "New"],
        &["status"],
        &["session", "list"],
        &["lock", "list"],
        &["worktree", "status"],
        &["worktree", "cleanup", "u"],
        &["validate"],
        &["recover"],
        &["doctor"],
    ];
    for (n, path) in all.iter().enumerate() {
        if !path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            continue;
        }
        make_pipe(&world, path);
        let some = commands
            .iter()
            .enumerate()
            .filter(|(at, _)| long() || at % 4 == n % 4);
        for (_, words) in some {
            let mut command = world.command("timeout", &world.repo());
            command.arg("60").arg(JIT).args(*words);
            let ran = world.run(command);
            assert_ne!(ran.code, 124, "{words:?} waits for {}", path.display());
            assert!(!ran.stderr.contains("panicked"), "{words:?}: {}", ran.stderr);
        }
        start.restore(&git).expect("a git folder");
    }
}

#[test]
fn b9_a_folder_in_place_of_the_index_is_moved_away() {
    for name in ["claims.index.json", "claims.index.json.new", "claims.jsonl"] {
        let world = World::with_jit(JIT);
        let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
        let _ = world.jit(["claim", "acquire", "WORK-1"]).ok();
        let _ = world.jit(["claim", "release", "WORK-1"]).ok();
        let path = world.control().join(name);
        let _ = fs::remove_file(&path);
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("mine"), "mine\n").expect("a file");
        for _ in 0..3 {
            let _ = world.jit(["claim", "acquire", "WORK-1"]).ok();
            let _ = world.jit(["claim", "release", "WORK-1"]).ok();
        }
        let _ = world.jit(["claim", "acquire", "WORK-1"]).ok();
        let index = fs::read_to_string(world.control().join("claims.index.json")).expect("an index");
        assert!(index.contains("WORK-1"), "{name}: {index}");
        let records = fs::read_to_string(world.control().join("claims.jsonl")).expect("records");
        assert_eq!(records.lines().count(), 9, "{name}: {records}");
        let kept = files(&world.control());
        assert!(kept.iter().any(|path| path.ends_with("mine")), "{name}: {kept:?}");
        world.validates();
    }
}

#[test]
fn i1_an_answer_that_cannot_be_printed_after_the_change_is_exit_7() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let to_full = |words: &str| {
        let mut shell = world.command("sh", &world.repo());
        shell.args(["-c", &format!("'{JIT}' {words} > /dev/full")]);
        world.run(shell)
    };
    for words in [
        "claim acquire WORK-1",
        "issue update WORK-1 --title New --json",
        "worktree create u",
    ] {
        let ran = to_full(words).exits(7);
        assert!(ran.stderr.contains("was carried out"), "{words}: {}", ran.stderr);
    }
    let _ = to_full("claim list").exits(1);
    let shown = world.jit(["issue", "show", "WORK-1", "--json"]).ok().json();
    assert_eq!(shown["title"], "New", "{shown}");
    assert!(shown["lease"].is_object(), "{shown}");
}

#[test]
fn a4_a_list_of_users_that_cannot_be_read_changes_nobodys_name() {
    if without("strace") {
        return;
    }
    let world = World::with_jit(JIT);
    let way = [
        "strace",
        "-f",
        "-qq",
        "-o/dev/null",
        "-P",
        "/etc/passwd",
        "-einject=open,openat:error=EACCES",
    ];
    let run = |agent: Option<&str>| {
        let mut command = world.command(way[0], &world.repo());
        command
            .args(&way[1..])
            .arg(JIT)
            .args(["issue", "create", "Work"])
            .env("USER", "somebody-else");
        command.envs(agent.map(|agent| ("JIT_AGENT_ID", agent)));
        world.run(command)
    };
    let refused = run(None).exits(1);
    assert!(refused.stderr.contains("/etc/passwd"), "{}", refused.stderr);
    let _ = run(Some("agent:one")).ok();
}

#[test]
fn a5_what_jit_keeps_in_the_git_folder_is_private_under_any_umask() {
    for umask in ["000", "022", "077", "277"] {
        let world = World::new(JIT);
        let mut shell = world.command("sh", &world.repo());
        let script =
            format!("umask {umask} && '{JIT}' init && '{JIT}' issue create Work && '{JIT}' issue list");
        shell.args(["-c", &script]);
        let _ = world.run(shell).ok();
        for name in ["jit-seen", "jit-worktree.json"] {
            let meta = fs::metadata(world.repo().join(".git").join(name)).expect(name);
            assert_eq!(
                meta.permissions().mode() & 0o777,
                0o600,
                "{name} with umask {umask}"
            );
        }
    }
}

#[test]
fn a5_a_folder_that_everybody_may_write_opens_nothing_of_jit() {
    let world = World::new(JIT);
    let git = world.repo().join(".git");
    let script = format!("umask 000 && chmod 777 .git && '{JIT}' init && '{JIT}' issue create Work");
    let mut shell = world.command("sh", &world.repo());
    shell.args(["-c", &script]);
    let _ = world.run(shell).ok();
    let mode = |name: &str| {
        let meta = fs::metadata(git.join(name)).expect(name);
        meta.permissions().mode() & 0o777
    };
    assert_eq!((mode("jit-seen"), mode("jit-worktree.json")), (0o600, 0o600));
    // Unless the repository is shared.
    world.git(&world.repo(), ["config", "core.sharedRepository", "group"]);
    let _ = world.jit(["issue", "create", "More"]).ok();
    let _ = world.jit(["issue", "list"]).ok();
    assert_eq!(mode("jit-seen"), 0o660);
}

#[test]
fn l6_a_pipe_or_a_device_in_place_of_a_file_that_jit_reads_is_named() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let refused = |words: &[&str], file: &Path| {
        let mut command = world.command("timeout", &repo);
        command.arg("60").arg(JIT).args(words);
        let ran = world.run(command);
        assert!(!matches!(ran.code, 0 | 124), "{words:?}: {}", ran.code);
        let said = format!("{:?}", file.file_name().expect("a name")).replace('"', "");
        assert!(
            ran.stderr.contains("it is not a regular file") && ran.stderr.contains(&said),
            "{words:?}: {}",
            ran.stderr
        );
    };
    let replace = |file: &Path, by: &str| {
        let _ = fs::remove_file(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        match by {
            "pipe" => {
                fs::write(file, "").expect("a file");
                make_pipe(&world, file);
            }
            device => std::os::unix::fs::symlink(device, file).expect("a link"),
        }
    };
    let exclude = repo.join(".git/info/exclude");
    let own = world.home().join(".config/jit/config.toml");
    for by in ["pipe", "/dev/zero"] {
        replace(&exclude, by);
        refused(&["init"], &exclude);
        fs::remove_file(&exclude).expect("a file");
        replace(&own, by);
        refused(&["issue", "list"], &own);
        fs::remove_file(&own).expect("a file");
    }
    // The user may link to a file.
    fs::write(world.root().join("mine.toml"), "").expect("a file");
    std::os::unix::fs::symlink(world.root().join("mine.toml"), &own).expect("a link");
    let _ = world.jit(["issue", "list"]).ok();
    for name in ["HEAD", "config"] {
        let file = repo.join(".git").join(name);
        let kept = fs::read(&file).expect("a file");
        replace(&file, "pipe");
        refused(&["issue", "list"], &file);
        fs::remove_file(&file).expect("a file");
        fs::write(&file, kept).expect("a file");
    }
}
