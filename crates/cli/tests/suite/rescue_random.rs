//! H7: whatever happens to worktrees, in whatever order, not one byte that was ever written and is not on the target is
//! unrecoverable. Random work, random kills of a removal at a random system call, prunes, landings, restores.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jit_testkit::rng::{DEFAULT_SEED, Rng, SEED_VAR, SeedOnPanic, seed_in_env, side_by_side};
use jit_testkit::world::World;
use jit_testkit::world::tools::{long, without};

use crate::rescuing::{TO_MERGED, recoverable, unit, world, write};

/// A unit's worktree and everything that was written there.
struct Scene<'a> {
    world: &'a World,
    rng: Rng,
    units: Vec<(String, PathBuf)>,
    made: usize,
    /// Every content that was ever written.
    written: BTreeSet<Vec<u8>>,
}

impl Scene<'_> {
    /// New content, unlike any other.
    fn content(&mut self, about: &str) -> Vec<u8> {
        let end = *self.rng.choose(&["\n", "\r\n", "", "\r\nx\ny\r\n"]);
        let content = format!("{about} {:016x}{end}", self.rng.next_u64()).into_bytes();
        self.written.insert(content.clone());
        content
    }

    /// Git, whose refusals are part of the game.
    fn git(&self, dir: &Path, words: &[&str]) -> bool {
        let mut git = self.world.command("git", dir);
        git.args(words);
        self.world.run(git).code == 0
    }

    fn put(&mut self, dir: &Path, name: &str, about: &str) {
        let content = self.content(about);
        let path = dir.join(name);
        // A rebase or a reset may have left something else in its place.
        if !path.is_dir() && !path.parent().is_some_and(Path::is_file) {
            write(&path, content);
        }
    }

    fn work(&mut self, name: &str, dir: &Path) {
        let n = self.rng.range(0, 4);
        match self.rng.range(0, 14) {
            0 => {
                let file = format!("commit-{n}");
                self.put(dir, &file, "committed");
                if self.git(dir, &["add", "-f", &file]) {
                    self.git(dir, &["commit", "-q", "-m", "work"]);
                }
            }
            1 => {
                let file = format!("staged-{n}");
                self.put(dir, &file, "staged");
                self.git(dir, &["add", "-f", &file]);
            }
            2 => {
                let file = format!("new {n}\nline");
                self.put(dir, &file, "untracked");
            }
            3 => {
                self.put(dir, "a.txt", "unstaged");
            }
            4 => {
                let file = format!("today-{n}.log");
                self.put(dir, &file, "ignored");
            }
            5 => {
                let file = format!("out/{n}/.env");
                self.put(dir, &file, "configured");
            }
            6 => {
                self.put(dir, "stash.txt", "stashed");
                self.git(dir, &["stash", "push", "-q", "-u", "--", "stash.txt"]);
            }
            7 => {
                self.git(dir, &["update-index", "--skip-worktree", "b.txt"]);
                self.put(dir, "b.txt", "hidden");
            }
            8 => {
                let inner = dir.join(format!("inner-{n}"));
                if !inner.exists() {
                    self.git(dir, &["init", "-q", "-b", "main", &format!("inner-{n}")]);
                    self.git(&inner, &["config", "core.compression", "0"]);
                }
                self.put(&inner, "x", "in a repository");
                self.git(&inner, &["add", "x"]);
                self.git(&inner, &["commit", "-q", "-m", "inner"]);
            }
            9 => {
                // Both sides change a line: a rebase stops half-way.
                let repo = self.world.repo();
                let content = self.content("on main");
                write(&repo.join("dir/c.txt"), content);
                self.git(&repo, &["commit", "-q", "-a", "-m", "main goes on"]);
                self.put(dir, "dir/c.txt", "to be rebased");
                self.git(dir, &["add", "dir/c.txt"]);
                self.git(dir, &["commit", "-q", "-m", "conflicting"]);
                self.git(dir, &["rebase", "-q", "main"]);
            }
            10 => {
                // The commit before is known to the reflog alone. Git refuses in the middle of a merge.
                self.git(
                    dir,
                    &["commit", "-q", "--amend", "--allow-empty", "-m", "amended"],
                );
            }
            11 => {
                let lib = self.world.root().join("lib");
                let lib = lib.to_str().expect("UTF-8");
                let allow = "protocol.file.allow=always";
                if !dir.join("sub").exists()
                    && self.git(dir, &["-c", allow, "submodule", "add", "-q", lib, "sub"])
                {
                    self.git(&dir.join("sub"), &["config", "core.compression", "0"]);
                    self.put(&dir.join("sub"), "x", "in a submodule");
                    self.git(&dir.join("sub"), &["add", "x"]);
                    self.git(&dir.join("sub"), &["commit", "-q", "-m", "sub"]);
                    self.put(&dir.join("sub"), "y", "in a submodule, untracked");
                }
            }
            12 => {
                self.git(dir, &["checkout", "-q", "--detach"]);
            }
            _ => {
                self.git(dir, &["checkout", "-q", name]);
            }
        }
    }

    /// A removal that is killed at a random system call, or not at all.
    fn remove(&mut self, name: &str) {
        let force: &[&str] = if self.rng.bool(0.8) { &["--force"] } else { &[] };
        let words: Vec<&str> = ["worktree", "cleanup", name]
            .iter()
            .chain(force)
            .copied()
            .collect();
        if self.rng.bool(0.6) {
            let call = *self.rng.choose(&[
                "openat",
                "renameat2",
                "rename",
                "unlinkat",
                "unlink",
                "mkdir",
                "fsync",
                "rmdir",
                "write",
                "pidfd_open",
                "clone3",
                "vfork",
                "statx",
            ]);
            let most = match call {
                "openat" | "write" | "statx" => 400,
                "vfork" | "clone3" | "pidfd_open" => 40,
                _ => 10,
            };
            let nth = self.rng.range(1, most);
            let inject = format!("-einject={call}:signal=SIGKILL:when={nth}");
            let trace = format!("-etrace={call}");
            let way = ["strace", "-qq", "-o/dev/null", &trace, &inject];
            let _ = self
                .world
                .run(self.world.jit_by_way_of(&way, "human:tester", &words));
        } else {
            let _ = self.world.jit(&words);
        }
    }

    fn step(&mut self) {
        let Some((name, dir)) =
            (!self.units.is_empty()).then(|| self.rng.choose(&self.units.clone()).clone())
        else {
            return self.begin();
        };
        match self.rng.range(0, 20) {
            0 if self.units.len() < 3 => self.begin(),
            1..=2 => self.lossless("cleanup", |scene| scene.remove(&name)),
            3 => self.lossless("git worktree prune", |scene| {
                scene.git(&scene.world.repo(), &["worktree", "prune"]);
            }),
            4 => self.lossless("git gc", |scene| {
                scene.git(&scene.world.repo(), &["gc", "-q"]);
            }),
            5 => {
                self.git(&self.world.repo(), &["merge", "-q", "--no-edit", &name]);
                self.git(&self.world.repo(), &["merge", "--abort"]);
            }
            6 => self.lossless("rescue prune", |scene| {
                let _ = scene.world.jit(["rescue", "prune", "--older-than", "0"]);
            }),
            7 => self.lossless("restore", Self::restore),
            _ if dir.join(".git").is_file() => self.work(&name, &dir),
            _ => {}
        }
    }

    fn begin(&mut self) {
        self.made += 1;
        let name = format!("u{}", self.made);
        let dir = unit(self.world, &name, TO_MERGED);
        self.units.push((name, dir));
    }

    fn restore(&mut self) {
        let list = self.world.jit(["rescue", "list", "--json"]).ok().json();
        let all = list["rescues"].as_array().cloned().unwrap_or_default();
        if !all.is_empty() {
            let id = self.rng.choose(&all)["id"].as_str().expect("an id").to_owned();
            self.made += 1;
            let to = self.world.root().join(format!("back-{}", self.made));
            let branch = format!("back-{}", self.made);
            let words = [
                "rescue",
                "restore",
                &id,
                "--to",
                to.to_str().expect("UTF-8"),
                "--branch",
                &branch,
            ];
            let _ = self.world.jit(words);
        }
    }

    /// What can be found again of all that was written. Whoever works in a tree may overwrite what is there: that alone
    /// decides what counts before a step that must lose nothing.
    fn known(&self) -> BTreeSet<Vec<u8>> {
        recoverable(self.world)
            .intersection(&self.written)
            .cloned()
            .collect()
    }

    /// A step after which everything is there that was there before.
    fn lossless(&mut self, what: &str, step: impl FnOnce(&mut Self)) {
        let before = self.known();
        step(self);
        let after = self.known();
        let lost: Vec<String> = before
            .difference(&after)
            .map(|content| String::from_utf8_lossy(content).into_owned())
            .collect();
        assert!(lost.is_empty(), "{what} lost {lost:?}");
    }
}

fn play(seed: u64) {
    let _says = SeedOnPanic(seed);
    let world = world();
    // Bytes that git changes on the way in are bytes all the same.
    if seed.is_multiple_of(3) {
        world.git(&world.repo(), ["config", "core.autocrlf", "input"]);
    }
    world.git(world.root(), ["init", "-q", "-b", "main", "lib"]);
    world.git(
        &world.root().join("lib"),
        ["commit", "-q", "--allow-empty", "-m", "lib"],
    );
    let mut scene = Scene {
        world: &world,
        rng: Rng::new(seed),
        units: Vec::new(),
        made: 0,
        written: BTreeSet::new(),
    };
    for _ in 0..30 {
        scene.step();
    }
    // In the end every removal comes to its end, and still nothing is lost.
    scene.lossless("the last cleanups", |scene| {
        for (name, dir) in &scene.units {
            let ran = world.jit(["worktree", "cleanup", name, "--force", "--json"]).ok();
            assert_eq!(ran.json()["state"], "IDLE");
            assert!(!dir.exists(), "{name}");
        }
    });
    world.validates();
}

/// Sequences that have found something: a restore to another place, of a removal that was killed between its two halves; work
/// that went on after a removal was killed before the first of them.
const FOUND: [u64; 2] = [301, 405];

#[test]
fn heavy_h7_no_byte_is_lost_in_random_sequences_of_work_kills_and_removals() {
    if without("strace") {
        return;
    }
    let seeds: Vec<u64> = match seed_in_env(SEED_VAR) {
        Some(seed) => vec![seed],
        None => (0..if long() { 1000 } else { 10 })
            .chain(FOUND)
            .map(|n| DEFAULT_SEED + n)
            .collect(),
    };
    side_by_side(&seeds, play);
}

/// Work of several kinds in one worktree; gives its contents.
fn busy_unit(world: &World) -> (PathBuf, BTreeSet<Vec<u8>>) {
    let dir = unit(world, "u1", TO_MERGED);
    let mut written = BTreeSet::new();
    let mut put = |name: &str, content: &str| {
        write(&dir.join(name), content);
        written.insert(content.as_bytes().to_vec());
    };
    put("committed", "committed\n");
    world.git(&dir, ["add", "committed"]);
    world.git(&dir, ["commit", "-q", "-m", "work"]);
    put("amended", "amended\n");
    world.git(&dir, ["add", "amended"]);
    world.git(&dir, ["commit", "-q", "-m", "gone"]);
    world.git(&dir, ["reset", "-q", "--hard", "HEAD~1"]);
    put("staged", "staged\n");
    world.git(&dir, ["add", "staged"]);
    put("staged", "unstaged\n");
    put("untracked", "untracked\n");
    put("conf/.env", "configured\n");
    (dir, written)
}

/// The calls of `jit` itself (not of the gits it starts) that change something or start something, in order: name, which
/// one of that name.
fn calls(world: &World, words: &[&str]) -> Vec<(String, usize)> {
    let out = world.root().join("calls");
    let log = format!("-o{}", out.display());
    let names =
        "rename,renameat2,unlinkat,unlink,mkdir,rmdir,fsync,fdatasync,vfork,clone3,clone,ftruncate,pwrite64";
    let trace = format!("-etrace={names}");
    let way = ["strace", "-qq", &log, &trace];
    let _ = world.run(world.jit_by_way_of(&way, "human:tester", words)).ok();
    let text = String::from_utf8_lossy(&std::fs::read(&out).expect("a trace")).into_owned();
    let mut seen: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    let mut all = Vec::new();
    for line in text.lines() {
        let Some((name, _)) = line.split_once('(') else {
            continue;
        };
        if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            let nth = seen.entry(name.to_owned()).or_default();
            *nth += 1;
            all.push((name.to_owned(), *nth));
        }
    }
    all
}

/// What a removal had saved when it was killed stays saved, though the file is overwritten before the next attempt.
#[test]
fn h7_a_second_attempt_keeps_what_the_first_one_saved() {
    if without("strace") {
        return;
    }
    let world = world();
    let dir = unit(&world, "u1", TO_MERGED);
    write(&dir.join("note"), "first\n");
    // Dies when it writes down that all is saved: the second time a manifest is put in place.
    let way = [
        "strace",
        "-qq",
        "-o/dev/null",
        "-etrace=rename",
        "-einject=rename:signal=SIGKILL:when=2",
    ];
    let words = ["worktree", "cleanup", "u1", "--force"];
    let _ = world
        .run(world.jit_by_way_of(&way, "human:tester", words))
        .exits(137);
    assert_eq!(
        world
            .git(&world.repo(), ["for-each-ref", "refs/jit"])
            .matches("/worktree\n")
            .count(),
        1
    );
    write(&dir.join("note"), "second\n");
    let _ = world.jit(words).ok();
    let _ = world.jit(["rescue", "prune", "--older-than", "0"]).ok();
    let found = recoverable(&world);
    assert!(found.contains(&b"first\n"[..]) && found.contains(&b"second\n"[..]));
}

/// Whichever file a restoring dies at, the same command finishes it, and nothing of its own is left in the worktree.
#[test]
fn h7_a_restore_that_is_killed_is_finished_by_the_same_command() {
    if without("strace") {
        return;
    }
    let mut killed = 0;
    for nth in 1..=8 {
        let world = world();
        let dir = unit(&world, "u1", TO_MERGED);
        write(&dir.join("note"), "note\n");
        let words = ["worktree", "cleanup", "u1", "--force", "--json"];
        let gone = world.jit(words).ok().json();
        let id = gone["rescue"].as_str().expect("a rescue").to_owned();
        let inject = format!("-einject=rename:signal=SIGKILL:when={nth}");
        let way = ["strace", "-qq", "-o/dev/null", "-etrace=rename", &inject];
        let words = ["rescue", "restore", &id];
        let ran = world.run(world.jit_by_way_of(&way, "human:tester", words));
        if ran.code != 137 {
            break;
        }
        killed += 1;
        let _ = world.jit(words).ok();
        assert_eq!(
            world.git(&dir, ["status", "--porcelain"]),
            "?? note\n",
            "killed at {nth}"
        );
        let parent = dir.parent().expect("a folder");
        let left = std::fs::read_dir(parent).expect("a folder").flatten();
        let left: Vec<_> = left
            .map(|one| one.file_name())
            .filter(|name| name.to_string_lossy().starts_with(".jit-restore-"))
            .collect();
        assert!(left.is_empty(), "killed at {nth}: {left:?}");
        let listed = world.jit(["rescue", "show", &id, "--json"]).ok().json();
        assert_eq!(listed["stage"], "restored", "killed at {nth}: {listed}");
        let trees = world.git(&world.repo(), ["worktree", "list", "--porcelain"]);
        assert!(!trees.contains("locked"), "killed at {nth}: {trees}");
    }
    assert!(killed > 3, "only {killed} were killed");
}

/// H7, T11: whichever call a removal dies at, nothing is lost, git's own cleaning up does no harm, and the same command
/// brings it to its end.
#[test]
fn heavy_h7_a_removal_killed_at_any_call_goes_on_and_loses_nothing() {
    if without("strace") {
        return;
    }
    let words = ["worktree", "cleanup", "u1", "--force"];
    let points = {
        let world = world();
        let _ = busy_unit(&world);
        calls(&world, &words)
    };
    assert!(points.len() > 40, "{points:?}");
    let step = if long() { 1 } else { points.len().div_ceil(16) };
    let mut killed = 0;
    for (name, nth) in points.iter().rev().step_by(step) {
        let world = world();
        let (dir, written) = busy_unit(&world);
        let (trace, inject) = (
            format!("-etrace={name}"),
            format!("-einject={name}:signal=SIGKILL:when={nth}"),
        );
        let way = ["strace", "-qq", "-o/dev/null", &trace, &inject];
        let ran = world.run(world.jit_by_way_of(&way, "human:tester", words));
        killed += usize::from(ran.code == 137);
        world.git(&world.repo(), ["worktree", "prune"]);
        let lost: Vec<_> = written.difference(&recoverable(&world)).cloned().collect();
        assert!(lost.is_empty(), "after {name} {nth}: {lost:?}");
        let done = world
            .jit(["worktree", "cleanup", "u1", "--force", "--json"])
            .ok()
            .json();
        assert_eq!(done["state"], "IDLE", "after {name} {nth}");
        assert!(!dir.exists(), "after {name} {nth}");
        let lost: Vec<_> = written.difference(&recoverable(&world)).cloned().collect();
        assert!(lost.is_empty(), "at the end after {name} {nth}: {lost:?}");
        let id = done["rescue"].as_str().expect("a rescue").to_owned();
        let _ = world.jit(["rescue", "restore", &id]).ok();
        assert_eq!(
            world.git(&dir, ["status", "--porcelain", "--ignored"]),
            "AM staged\n?? untracked\n!! conf/\n",
            "after {name} {nth}"
        );
        world.validates();
    }
    assert!(killed * 2 > points.len() / step, "only {killed} were killed");
}
