//! Landing with each git of this machine (M3): the one on PATH, and those where systems and people install theirs. The
//! oldest supported one does not know every option of the newest.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use jit_testkit::world::{Ran, World};
use serde_json::Value;

use crate::landing::JIT;

/// The gits of this machine that jit supports, one of each version.
fn gits() -> Vec<(String, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"].map(PathBuf::from);
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for folder in std::env::split_paths(&path).chain(usual) {
        let git = folder.join("git");
        let Ok(said) = Command::new(&git).arg("--version").output() else {
            continue;
        };
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        let supported = jit_git::version::GitVersion::parse(&version).is_supported();
        if supported && !found.iter().any(|(known, _)| *known == version) {
            found.push((version, git));
        }
    }
    assert!(!found.is_empty(), "there is a git");
    found
}

/// A world in which `git` is this one.
struct With {
    world: World,
    path: std::ffi::OsString,
}

impl With {
    fn new(git: &Path) -> Self {
        let world = World::new(JIT);
        let folder = world.root().join("this-git");
        fs::create_dir(&folder).expect("a folder");
        std::os::unix::fs::symlink(git, folder.join("git")).expect("a link");
        let own = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(folder).chain(std::env::split_paths(&own));
        let path = std::env::join_paths(all).expect("a path");
        let with = Self { world, path };
        let _ = with.jit(&with.world.repo(), &["init"]).ok();
        with
    }

    fn run(&self, mut command: Command, args: &[&str]) -> Ran {
        command.env("PATH", &self.path).args(args);
        self.world.run(command)
    }

    fn jit(&self, dir: &Path, args: &[&str]) -> Ran {
        self.run(self.world.jit_command(dir), args)
    }

    #[track_caller]
    fn git(&self, dir: &Path, args: &[&str]) -> String {
        // Looked up by hand: a command is found by the PATH of the test, not by that of its child.
        let program = self.world.root().join("this-git/git");
        self.run(self.world.command(program, dir), args).ok().stdout
    }

    fn write(&self, dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn commit(&self, dir: &Path, message: &str) {
        self.git(dir, &["add", "-A"]);
        self.git(dir, &["commit", "-q", "-m", message]);
    }

    /// A new unit of an issue; returns its worktree.
    fn start(&self, issue: &str) -> PathBuf {
        let made = self
            .jit(&self.world.repo(), &["start", issue, "--json"])
            .ok()
            .json();
        let path = made["worktree_path"]
            .as_str()
            .or(made["unit"]["worktree_path"].as_str());
        PathBuf::from(path.expect("a worktree"))
    }
}

fn verdicts(report: &Value) -> Vec<&str> {
    let units = report["units"].as_array().expect("units");
    units.iter().filter_map(|one| one["verdict"].as_str()).collect()
}

/// The story that must work with each git: claim, work, see conflicts coming, land with checks, clean up.
fn story(with: &With) {
    let repo = with.world.repo();
    for id in ["WI-1", "WI-2", "WI-3"] {
        let _ = with.jit(&repo, &["issue", "create", "Work", "--id", id]).ok();
    }
    with.write(&repo, "log/.gitattributes", "events merge=union\n");
    with.write(&repo, "log/events", "first\n");
    with.write(&repo, "file", "one\ntwo\nthree\n");
    with.commit(&repo, "files");
    let [a, b, c] = ["WI-1", "WI-2", "WI-3"].map(|issue| with.start(issue));
    // Both append to one file: its attribute is in a folder of the target.
    with.write(&a, "log/events", "first\nfrom a\n");
    with.commit(&a, "a");
    with.write(&b, "log/events", "first\nfrom b\n");
    with.commit(&b, "b");
    // It brings its own attributes, which do not count.
    with.write(&c, ".gitattributes", "file merge=union\n");
    with.write(&c, "file", "one\nfrom c\nthree\n");
    with.commit(&c, "c");
    let seen = with.jit(&repo, &["conflicts", "--json"]).ok().json();
    assert_eq!(seen["conflicts"].as_array().map(Vec::len), Some(0), "{seen}");
    with.write(&repo, "file", "one\nfrom main\nthree\n");
    with.commit(&repo, "main went on");
    let report = with
        .jit(&repo, &["worktree", "merge", "wi-1", "wi-2", "--json"])
        .ok()
        .json();
    assert_eq!(verdicts(&report), ["landed", "landed"], "{report}");
    let text = fs::read_to_string(repo.join("log/events")).expect("a file");
    assert!(text.contains("from a") && text.contains("from b"), "{text}");
    let report = with
        .jit(&repo, &["worktree", "merge", "wi-3", "--json"])
        .exits(6)
        .json();
    assert_eq!(verdicts(&report), ["conflict"], "{report}");
    assert!(
        with.jit(&repo, &["conflicts"]).ok().stdout.contains("file"),
        "the radar says the same"
    );
    // A person settles it.
    let _ = with.run(
        with.world.command(with.world.root().join("this-git/git"), &c),
        &["merge", "-q", "main"],
    );
    with.write(&c, "file", "one\nfrom both\nthree\n");
    with.commit(&c, "settled");
    let report = with
        .jit(&repo, &["worktree", "merge", "wi-3", "--continue", "--json"])
        .ok()
        .json();
    assert_eq!(verdicts(&report), ["landed"], "{report}");
    for (issue, unit) in [("WI-1", "wi-1"), ("WI-2", "wi-2"), ("WI-3", "wi-3")] {
        let shown = with.jit(&repo, &["issue", "show", issue, "--json"]).ok().json();
        assert_eq!(shown["state"], "done", "{shown}");
        let _ = with.jit(&repo, &["worktree", "cleanup", unit]).ok();
    }
    let listed = with.git(&repo, &["worktree", "list", "--porcelain"]);
    assert_eq!(listed.matches("worktree ").count(), 1, "{listed}");
}

#[test]
fn m3_units_land_with_each_git_of_this_machine() {
    for (_, git) in gits() {
        story(&With::new(&git));
    }
}

#[test]
fn m3_checks_run_on_what_lands_with_each_git_of_this_machine() {
    for (_, git) in gits() {
        let with = With::new(&git);
        let repo = with.world.repo();
        let _ = with
            .jit(
                &repo,
                &["config", "set", "merge.validate", "[\"test -f wanted\"]"],
            )
            .ok();
        with.commit(&repo, "a check");
        let _ = with.jit(&repo, &["trust", "--yes"]).ok();
        let _ = with.jit(&repo, &["issue", "create", "Work", "--id", "WI-1"]).ok();
        let unit = with.start("WI-1");
        with.write(&unit, "other", "x\n");
        with.commit(&unit, "without it");
        let report = with
            .jit(&repo, &["worktree", "merge", "wi-1", "--json"])
            .exits(6)
            .json();
        assert_eq!(verdicts(&report), ["validation_failed"], "{report}");
        with.write(&unit, "wanted", "x\n");
        with.commit(&unit, "with it");
        let _ = with.jit(&repo, &["worktree", "retry", "wi-1"]).ok();
        let report = with
            .jit(&repo, &["worktree", "merge", "wi-1", "--json"])
            .ok()
            .json();
        assert_eq!(verdicts(&report), ["landed"], "{report}");
    }
}

#[test]
fn m3_init_and_doctor_tell_of_a_git_that_is_too_old() {
    let world = World::new(JIT);
    let folder = world.root().join("old-git");
    fs::create_dir(&folder).expect("a folder");
    let (_, real) = gits().remove(0);
    let script = format!(
        "#!/bin/sh\nfor word; do [ \"$word\" = --version ] && echo git version 2.30.2 && exit 0; done\nexec '{}' \"$@\"\n",
        real.display()
    );
    fs::write(folder.join("git"), script).expect("a file");
    fs::set_permissions(folder.join("git"), fs::Permissions::from_mode(0o755)).expect("a program");
    let own = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&own)));
    let path = path.expect("a path");
    let run = |args: &[&str]| {
        let mut command = world.jit_command(&world.repo());
        command.env("PATH", &path).args(args);
        world.run(command)
    };
    let said = run(&["init"]).ok().stderr;
    assert!(
        said.contains("2.30.2 is too old") && said.contains("2.39"),
        "{said}"
    );
    let checks = run(&["doctor", "--json"]).json();
    let git = checks["checks"].as_array().expect("checks").iter();
    let git = git
        .clone()
        .find(|one| one["name"] == "git")
        .expect("a check of git");
    assert_eq!(git["status"], "fail", "{git}");
    assert!(git["help"].to_string().contains("2.39"), "{git}");
}
