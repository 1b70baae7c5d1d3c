//! Commands that change worktrees, and what they start: whichever process is killed, at whatever system call, the same
//! command then succeeds, and git works in the whole repository.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jit_testkit::world::tools::{Folder, long, say, without};
use jit_testkit::world::{Ran, World};

use crate::landing::JIT;
use crate::unit_life::{commit, create, unit, world};

/// A command to be disturbed.
struct Case {
    name: &'static str,
    /// Prepares the world and returns the command.
    prepare: fn(&World) -> Vec<String>,
    /// Why the command has not done its work, if so.
    missing: fn(&World) -> Option<String>,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn tree(world: &World) -> PathBuf {
    world.root().join("repo-worktrees/u")
}

/// A unit with a commit.
fn with_work(world: &World) -> PathBuf {
    let path = create(world, &["u"]);
    commit(world, &path, "new.txt", "new\n");
    path
}

fn ready(world: &World, name: &str) -> Option<String> {
    let shown = world.jit(["worktree", "status", name, "--json"]);
    if shown.code != 0 {
        return Some(shown.stdout);
    }
    let unit = shown.json();
    let there = Path::new(unit["worktree_path"].as_str().unwrap_or_default()).join("a.txt");
    (unit["state"] != "READY" || !there.is_file()).then(|| unit.to_string())
}

fn removed(world: &World) -> Option<String> {
    let unit = unit(world, "u");
    let branch = world.git(&world.repo(), ["branch", "--list", "jit/u"]);
    let left = unit["state"] != "IDLE" || tree(world).exists() || !branch.is_empty();
    left.then(|| format!("{unit} {branch}"))
}

const CREATE: Case = Case {
    name: "create",
    prepare: |_| words(&["worktree", "create", "u"]),
    missing: |world| ready(world, "u"),
};

const START: Case = Case {
    name: "start",
    prepare: |world| {
        let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
        words(&["start", "WORK-1"])
    },
    missing: |world| ready(world, "work-1"),
};

const CLEANUP: Case = Case {
    name: "cleanup",
    prepare: |world| {
        let path = with_work(world);
        let _ = world.jit(["worktree", "merge", "u"]).ok();
        fs::write(path.join("loose.txt"), "loose\n").expect("a file");
        words(&["worktree", "cleanup", "u", "--force"])
    },
    missing: removed,
};

const FINISH: Case = Case {
    name: "finish",
    prepare: |world| {
        let _ = with_work(world);
        words(&["finish", "u"])
    },
    missing: |world| {
        let landed = world.repo().join("new.txt").is_file();
        removed(world).or_else(|| (!landed).then(|| "it has not landed".to_owned()))
    },
};

const RESTORE: Case = Case {
    name: "restore",
    prepare: |world| {
        let path = with_work(world);
        fs::write(path.join("loose.txt"), "loose\n").expect("a file");
        let _ = world.jit(["worktree", "abandon", "u", "--reason", "x"]).ok();
        let list = world.jit(["rescue", "list", "--json"]).ok().json();
        let id = list["rescues"][0]["id"].as_str().expect("an id");
        words(&["rescue", "restore", id])
    },
    missing: |world| {
        let there = ["new.txt", "loose.txt"].map(|name| tree(world).join(name).is_file());
        (there != [true, true]).then(|| format!("{there:?}"))
    },
};

const HOOKS: Case = Case {
    name: "hooks install",
    prepare: |world| {
        let hook = world.repo().join(".git/hooks/pre-commit");
        fs::create_dir_all(hook.parent().expect("a folder")).expect("a folder");
        fs::write(&hook, "#!/bin/sh\ntouch asked\n").expect("a hook");
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a mode");
        words(&["hooks", "install"])
    },
    missing: |world| {
        let message = ["commit", "-q", "--allow-empty", "-m", "asked"];
        world.git(&world.repo(), message);
        let asked = world.repo().join("asked");
        let was_asked = asked.is_file();
        let _ = fs::remove_file(asked);
        let listed = world.jit(["hooks", "list"]).ok().stdout;
        (!was_asked || listed.contains("missing")).then_some(listed)
    },
};

/// Which system call of which process to kill at.
struct Point {
    /// The number of the git command; 0 is jit itself.
    git: usize,
    call: String,
    nth: usize,
    line: String,
}

/// Whether others see a difference between before and after this call.
fn changes_something(name: &str, line: &str) -> bool {
    const CHANGING: &[&str] = &[
        "mkdir",
        "mkdirat",
        "rename",
        "renameat",
        "renameat2",
        "link",
        "linkat",
        "symlink",
        "symlinkat",
        "unlink",
        "unlinkat",
        "rmdir",
        "write",
        "pwrite64",
        "ftruncate",
    ];
    let to_people = line.contains("write(1,") || line.contains("write(2,");
    CHANGING.contains(&name) && !to_people || line.contains("O_CREAT")
}

/// The points of one trace. Calls are counted for each process.
fn points(git: usize, trace: &str) -> Vec<Point> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut points = Vec::new();
    for line in trace.lines() {
        let Some((pid, rest)) = line.split_once(' ') else {
            continue;
        };
        let Some((name, _)) = rest.trim_start().split_once('(') else {
            continue;
        };
        let nth = counts.entry((pid, name)).or_default();
        *nth += 1;
        if changes_something(name, rest) && seen.insert((name, *nth)) {
            points.push(Point {
                git,
                call: name.to_owned(),
                nth: *nth,
                line: rest.trim_start().chars().take(150).collect(),
            });
        }
    }
    points
}

/// A scene to disturb a command in, again and again from the same start.
struct Scene {
    world: World,
    start: Folder,
    words: Vec<String>,
}

impl Scene {
    fn new(case: &Case) -> Self {
        let world = world();
        let words = (case.prepare)(&world);
        let bin = world.root().join("bin");
        fs::create_dir(&bin).expect("a folder");
        let git = bin.join("git");
        // Counts the git commands, and disturbs one.
        let script = r#"#!/bin/sh
PATH=${PATH#*:}
n=$(cat "$JIT_TEST_AT/count" 2>/dev/null || echo 0)
n=$((n+1))
echo $n > "$JIT_TEST_AT/count"
[ "$JIT_TEST_GIT" = all ] && exec strace -f -qq -s150 -o "$JIT_TEST_AT/trace-$n" git "$@"
[ "$JIT_TEST_GIT" = $n ] || exec git "$@"
strace $JIT_TEST_HOW -qq -o/dev/null "-etrace=$JIT_TEST_CALL" "-einject=$JIT_TEST_CALL:signal=KILL:when=$JIT_TEST_NTH" git "$@"
code=$?
[ $code -gt 128 ] && [ "$JIT_TEST_WITH" = jit ] && kill -9 $PPID
[ $code -gt 128 ] && kill -9 $$
exit $code
"#;
        fs::write(&git, script).expect("a script");
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("a mode");
        let start = Folder::read(world.root()).expect("a world");
        Self { world, start, words }
    }

    fn restore(&self) {
        self.start.restore(self.world.root()).expect("a world");
    }

    /// Runs the command, started by `way`, with git disturbed as `env` says.
    fn run(&self, way: &[String], env: &[(&str, &str)]) -> Ran {
        let mut command = match way.split_first() {
            Some((first, rest)) => {
                let mut command = self.world.command(first, &self.world.repo());
                command.args(rest).arg(JIT);
                command
            }
            None => self.world.jit_command(&self.world.repo()),
        };
        if !env.is_empty() {
            let path = std::env::var("PATH").unwrap_or_default();
            let bin = self.world.root().join("bin");
            command.env("PATH", format!("{}:{path}", bin.display()));
            command.env("JIT_TEST_AT", self.world.root());
        }
        command.args(&self.words).envs(env.iter().copied());
        self.world.run(command)
    }

    /// Kills at this point: a git, perhaps together with the jit that waits for it, or jit.
    fn kill(&self, point: &Point, with: &str) -> Ran {
        let nth = point.nth.to_string();
        if point.git > 0 {
            let git = point.git.to_string();
            let env = [
                ("JIT_TEST_GIT", &*git),
                ("JIT_TEST_CALL", &*point.call),
                ("JIT_TEST_NTH", &*nth),
                ("JIT_TEST_WITH", with),
                // Together with jit only one git: it cannot have begun to take back what another left.
                ("JIT_TEST_HOW", if with.is_empty() { "-f" } else { "" }),
            ];
            return self.run(&[], &env);
        }
        let way = [
            "strace".to_owned(),
            "-qq".to_owned(),
            "-o/dev/null".to_owned(),
            format!("-etrace={}", point.call),
            format!("-einject={}:signal=KILL:when={nth}", point.call),
        ];
        self.run(&way, &[])
    }

    /// The points of the command's gits.
    fn points_of_git(&self) -> Vec<Point> {
        self.restore();
        let _ = self.run(&[], &[("JIT_TEST_GIT", "all")]).ok();
        let traces = (1..).map_while(|n| {
            let trace = fs::read(self.world.root().join(format!("trace-{n}"))).ok()?;
            Some(points(n, &String::from_utf8_lossy(&trace)))
        });
        traces.flatten().collect()
    }

    /// The points of jit itself.
    fn points_of_jit(&self) -> Vec<Point> {
        self.restore();
        let out = self.world.root().join("trace");
        let way = ["strace", "-f", "-qq", "-s150", "-o", &out.to_string_lossy()].map(str::to_owned);
        let _ = self.run(&way, &[]).ok();
        let trace = fs::read(out).expect("a trace");
        let trace = String::from_utf8_lossy(&trace);
        let first = trace.split(' ').next().unwrap_or_default();
        let own: Vec<&str> = trace
            .lines()
            .filter(|line| line.split(' ').next() == Some(first))
            .collect();
        points(0, &own.join("\n"))
    }

    /// What is wrong after the command was disturbed and repeated.
    fn problem(&self, case: &Case, ran: &Ran) -> Option<String> {
        let world = &self.world;
        if ran.code != 0 && (case.missing)(world).is_some() {
            let again = world.jit(&self.words);
            if again.code != 0 {
                return Some(format!("{} {} {}", again.code, again.stdout, again.stderr));
            }
        }
        for words in [&["worktree", "list"][..], &["for-each-ref"], &["gc", "-q"]] {
            let mut git = world.command("git", &world.repo());
            git.args(words);
            let ran = world.run(git);
            if ran.code != 0 {
                return Some(format!("git {words:?}: {}", ran.stderr));
            }
        }
        let validated = world.jit(["validate", "--json"]);
        // A view that is behind the log is no damage: the next command that writes brings it up to date.
        let problems = validated.json()["problems"].clone();
        let mut problems = problems.as_array().into_iter().flatten();
        if problems.any(|one| one["heals"] != true) {
            return Some(validated.stdout);
        }
        let mut find = world.command("find", &world.repo().join(".git"));
        find.args([".", "-name", "jit", "-prune", "-o", "-name", "*.lock", "-print"]);
        let locks = world.run(find).stdout;
        if !locks.is_empty() {
            return Some(format!("left behind: {locks}"));
        }
        (case.missing)(world)
    }
}

/// Kills at these points, each time from the same start; without `JIT_TEST_LONG` only at some of them.
fn kill_at(case: &Case, scene: &Scene, points: &[Point], with: &str, most: usize) {
    let step = if long() {
        1
    } else {
        points.len().div_ceil(most).max(1)
    };
    let (mut failures, mut ended) = (String::new(), 0);
    for point in points.iter().step_by(step) {
        scene.restore();
        let ran = scene.kill(point, with);
        ended += usize::from(ran.code != 0);
        if let Some(problem) = scene.problem(case, &ran) {
            let Point { git, call, nth, line } = point;
            let _ = writeln!(
                failures,
                "git {git}, {call} {nth}: {line}\n    {} {}\n    {problem}",
                ran.code, ran.stderr
            );
        }
    }
    say(&format!(
        "{}: {} points, step {step}, {ended} failed commands",
        case.name,
        points.len()
    ));
    assert!(failures.is_empty(), "{}:\n{failures}", case.name);
}

fn kill_git(case: &Case) {
    kill_git_with(case, "");
}

fn kill_git_with(case: &Case, with: &str) {
    if without("strace") {
        return;
    }
    let scene = Scene::new(case);
    let points = scene.points_of_git();
    assert!(!points.is_empty(), "git changes something");
    kill_at(case, &scene, &points, with, 24);
}

fn kill_jit(case: &Case) {
    if without("strace") {
        return;
    }
    let scene = Scene::new(case);
    let points = scene.points_of_jit();
    kill_at(case, &scene, &points, "", 12);
}

#[test]
fn heavy_g2_git_is_killed_at_every_change_of_a_creation() {
    kill_git(&CREATE);
}

/// As in a container that is stopped.
#[test]
fn heavy_g2_git_and_jit_are_killed_together_at_every_change_of_a_creation() {
    kill_git_with(&CREATE, "jit");
}

#[test]
fn heavy_g2_jit_is_killed_at_every_change_of_a_creation() {
    kill_jit(&CREATE);
}

#[test]
fn heavy_i6_git_is_killed_at_every_change_of_a_start() {
    kill_git(&START);
}

#[test]
fn heavy_i6_jit_is_killed_at_every_change_of_a_start() {
    kill_jit(&START);
}

#[test]
fn heavy_h7_git_is_killed_at_every_change_of_a_cleanup() {
    kill_git(&CLEANUP);
}

#[test]
fn heavy_h7_jit_is_killed_at_every_change_of_a_cleanup() {
    kill_jit(&CLEANUP);
}

#[test]
fn heavy_h3_git_is_killed_at_every_change_of_a_finish() {
    kill_git(&FINISH);
}

#[test]
fn heavy_h3_jit_is_killed_at_every_change_of_a_finish() {
    kill_jit(&FINISH);
}

#[test]
fn heavy_h7_git_is_killed_at_every_change_of_a_restore() {
    kill_git(&RESTORE);
}

#[test]
fn heavy_h7_jit_is_killed_at_every_change_of_a_restore() {
    kill_jit(&RESTORE);
}

#[test]
fn heavy_c1_jit_is_killed_at_every_change_of_hooks_install() {
    kill_jit(&HOOKS);
}

#[test]
fn g2_what_a_killed_creation_left_is_named_and_repaired() {
    let world = world();
    // As git leaves it when it is killed between creating `commondir` and writing it.
    let path = create(&world, &["u"]);
    let admin = world.repo().join(".git/worktrees/u");
    let stray = world.repo().join(".git/worktrees/stray");
    fs::create_dir(&stray).expect("a folder");
    for (name, content) in [
        ("locked", "initializing"),
        ("gitdir", "/nowhere/stray/.git\n"),
        ("HEAD", "0000000000000000000000000000000000000000\n"),
        ("commondir", ""),
    ] {
        fs::write(stray.join(name), content).expect("a file");
    }
    let mut git = world.command("git", &world.repo());
    git.args(["worktree", "list"]);
    assert_ne!(world.run(git).code, 0, "git fails in the whole repository");
    let told = world.jit(["doctor"]).stdout;
    assert!(told.contains("has no commondir"), "{told}");
    assert!(told.contains("jit worktree prune --settle"), "{told}");
    let told = world.jit(["worktree", "prune"]).ok().stdout;
    assert!(told.contains("has no commondir"), "{told}");
    assert!(stray.is_dir(), "nothing is removed unless asked");
    let _ = world.jit(["worktree", "prune", "--settle"]).ok();
    assert!(!stray.exists());
    world.git(&world.repo(), ["worktree", "list"]);
    // A worktree that is complete stays.
    assert!(admin.is_dir() && path.join("a.txt").is_file());
    assert_eq!(unit(&world, "u")["state"], "READY");
}
