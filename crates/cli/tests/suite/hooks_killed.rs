//! `jit hooks install` and `uninstall`, killed before every system call that may change something: the user's own hooks
//! run at every moment, and the same command finishes (C1).

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use jit_testkit::world::World;
use jit_testkit::world::tools::{Folder, say, without};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// A system call of the program itself: its name, its number among calls of that name, and the line.
struct Call {
    name: String,
    nth: usize,
    line: String,
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("mode");
}

/// Two hooks of the user: a file and a link.
fn world() -> World {
    let world = World::with_jit(JIT);
    let hooks = world.repo().join(".git/hooks");
    let _ = fs::create_dir(&hooks);
    script(&hooks.join("pre-commit"), "#!/bin/sh\necho mine: commit\n");
    script(&world.repo().join(".git/push.sh"), "#!/bin/sh\necho mine: push\n");
    symlink("../push.sh", hooks.join("pre-push")).expect("a link");
    world
}

/// The calls of the program alone: git, which it starts, is not traced.
fn trace(world: &World, words: &[&str]) -> Vec<Call> {
    let out = world.root().join("trace");
    let out = out.to_str().expect("text");
    let way = ["strace", "-qq", "-s200", "-o", out];
    let _ = world.run(world.jit_by_way_of(&way, "human:h", words)).ok();
    let text = String::from_utf8_lossy(&fs::read(out).expect("a trace")).into_owned();
    let mut calls: Vec<Call> = Vec::new();
    for line in text.lines() {
        let Some((name, _)) = line.split_once('(') else {
            continue;
        };
        if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            let nth = 1 + calls.iter().filter(|call| call.name == name).count();
            calls.push(Call {
                name: name.to_owned(),
                nth,
                line: line.to_owned(),
            });
        }
    }
    calls
}

/// Whether what others see may differ after this call.
fn changes(call: &Call) -> bool {
    let names = [
        "link",
        "linkat",
        "rename",
        "renameat",
        "renameat2",
        "unlink",
        "unlinkat",
        "mkdir",
        "rmdir",
        "write",
        "fchmod",
        "chmod",
    ];
    names.contains(&&*call.name) || call.line.contains("O_CREAT")
}

fn run_as_git(world: &World, hook: &str) -> String {
    let mut command = world.command(world.repo().join(".git/hooks").join(hook), &world.repo());
    command.args(["origin", "nowhere"]);
    match command.output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => error.to_string(),
    }
}

fn killed_everywhere(words: &[&str], installed_before: bool) {
    if without("strace") {
        return;
    }
    let world = world();
    let git = world.repo().join(".git");
    let users = Folder::read(&git.join("hooks")).expect("hooks");
    if installed_before {
        let _ = world.jit(["hooks", "install"]).ok();
    }
    let start = Folder::read(&git).expect("a repository");
    let calls = trace(&world, words);
    let done = Folder::read(&git.join("hooks")).expect("hooks");
    let (mut kills, mut failures) = (0, String::new());
    let mut is_due = false;
    for call in &calls {
        let was_due = std::mem::replace(&mut is_due, changes(call));
        if call.name == "execve" || !(was_due || changes(call)) {
            continue;
        }
        kills += 1;
        start.restore(&git).expect("a repository");
        let inject = format!("-einject={}:signal=KILL:when={}", call.name, call.nth);
        let only = format!("-etrace={}", call.name);
        let way = ["strace", "-qq", "-o/dev/null", &only, &inject];
        let _ = world.run(world.jit_by_way_of(&way, "human:h", words)).exits(137);
        let mut check = |what: &str, is_fine: bool| {
            if !is_fine {
                let _ = writeln!(failures, "{what}, killed at {}", call.line);
            }
        };
        check(
            "no pre-commit",
            run_as_git(&world, "pre-commit").contains("mine: commit"),
        );
        check(
            "no pre-push",
            run_as_git(&world, "pre-push").contains("mine: push"),
        );
        let _ = world.jit(words).ok();
        let hooks = Folder::read(&git.join("hooks")).expect("hooks");
        check("another result", hooks == done);
        start.restore(&git).expect("a repository");
        let _ = world.run(world.jit_by_way_of(&way, "human:h", words)).exits(137);
        let _ = world.jit(["hooks", "uninstall"]).ok();
        let hooks = Folder::read(&git.join("hooks")).expect("hooks");
        check("uninstalling leaves something", hooks == users);
    }
    say(&format!("{words:?}: {kills} kills"));
    assert!(kills > 10 && failures.is_empty(), "{kills} kills\n{failures}");
}

#[test]
fn heavy_c1_a_killed_hooks_install_leaves_the_users_hooks_in_place() {
    killed_everywhere(&["hooks", "install"], false);
}

#[test]
fn heavy_c1_a_killed_hooks_uninstall_leaves_the_users_hooks_in_place() {
    killed_everywhere(&["hooks", "uninstall"], true);
}
