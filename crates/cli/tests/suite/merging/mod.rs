//! Worktrees and clones of a repository with issues, and git with `jit` on its PATH.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jit_testkit::world::{Ran, World};
use serde_json::Value;

pub const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// A repository with three issues, all committed.
pub fn world() -> World {
    let world = World::with_jit(JIT);
    let text = "first\n\nmiddle\n\nmore\n\nlast\n";
    for words in [
        &[
            "Parse dates",
            "--id",
            "WI-001",
            "--label",
            "old",
            "--description",
            text,
        ][..],
        &["two", "--id", "WI-002"],
        &["three", "--id", "WI-003"],
    ] {
        let _ = world.jit(["issue", "create"].iter().chain(words)).ok();
    }
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "issues"]);
    world
}

pub fn with_jit_on_path(_: &World, mut command: Command) -> Command {
    let bin = Path::new(JIT).parent().expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path)));
    command.env("PATH", path.expect("a path"));
    command
}

/// A worktree, or a clone with its own control plane.
pub struct Tree<'a> {
    pub world: &'a World,
    pub path: PathBuf,
    pub name: String,
}

impl<'a> Tree<'a> {
    pub fn worktree_of(world: &'a World, name: &str) -> Self {
        let path = world.worktree(name);
        let name = name.to_owned();
        Self { world, path, name }
    }

    pub fn clone_of(world: &'a World, name: &str) -> Self {
        let tree = Self::clone_without_init(world, name);
        let _ = tree.run(["init"]).ok();
        tree
    }

    pub fn clone_without_init(world: &'a World, name: &str) -> Self {
        Self::clone_from(world, &world.repo(), name)
    }

    pub fn clone_of_tree(world: &'a World, from: &Self, name: &str) -> Self {
        let tree = Self::clone_from(world, &from.path, name);
        let _ = tree.run(["init"]).ok();
        tree
    }

    fn clone_from(world: &'a World, from: &Path, name: &str) -> Self {
        let path = world.root().join(name);
        let words: [&OsStr; 4] = ["clone".as_ref(), "-q".as_ref(), from.as_ref(), path.as_ref()];
        world.git(world.root(), words);
        let name = name.to_owned();
        Self { world, path, name }
    }

    pub fn run<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) -> Ran {
        let mut command = self.world.jit_command(&self.path);
        command
            .env("JIT_AGENT_ID", format!("human:{}", self.name))
            .args(words);
        self.world.run(command)
    }

    #[track_caller]
    pub fn jit<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) {
        let ran = self.run(words).ok();
        assert!(!ran.stderr.contains("could not be written"), "{}", ran.stderr);
    }

    #[track_caller]
    pub fn show(&self, id: &str) -> Value {
        self.run(["issue", "show", id, "--json"]).ok().json()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(".jit/issues/WI-001").join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// As an editor does it.
    pub fn edit(&self, name: &str, change: impl Fn(String) -> String) {
        let new = change(self.read(name));
        let beside = self.file("edited~");
        fs::write(&beside, new).expect("write");
        fs::rename(&beside, self.file(name)).expect("rename");
    }

    pub fn status(&self) -> String {
        self.world.git(&self.path, ["status", "--porcelain"])
    }

    /// git with `jit` on its PATH. Exit code and both outputs.
    pub fn git<A: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = A>) -> (i32, String) {
        let mut command = with_jit_on_path(self.world, self.world.command("git", &self.path));
        command.env("GIT_EDITOR", "true").args(words);
        let ran = self.world.run(command);
        (ran.code, ran.stdout + &ran.stderr)
    }

    #[track_caller]
    pub fn commit(&self) {
        self.world.git(&self.path, ["add", "-A"]);
        self.world
            .git(&self.path, ["commit", "-q", "--allow-empty", "-m", "work"]);
    }

    pub fn commit_at(&self, time: &str) {
        self.world.git(&self.path, ["add", "-A"]);
        let mut command = self.world.command("git", &self.path);
        command
            .env("GIT_COMMITTER_DATE", time)
            .args(["commit", "-q", "-m", "work"]);
        let _ = self.world.run(command).ok();
    }

    /// Brings another tree's last commits in, one way or another.
    pub fn take(&self, how: &str, other: &Self) -> (i32, String) {
        let (code, said) = self.git(["fetch", "-q", &other.path.to_string_lossy(), "HEAD"]);
        assert_eq!(code, 0, "{said}");
        match how {
            "merge" => self.git(["merge", "--no-edit", "FETCH_HEAD"]),
            "rebase" => self.git(["rebase", "FETCH_HEAD"]),
            _ => self.git(["cherry-pick", "HEAD..FETCH_HEAD"]),
        }
    }

    /// Settles the conflict about the title, as a person would.
    pub fn resolve(&self, title: &str) {
        self.edit("issue.json", |text| {
            let mut out = String::new();
            let mut inside = false;
            for line in text.lines() {
                if line.starts_with("<<<<<<< ") {
                    inside = true;
                    out.push_str(&format!("  \"title\": \"{title}\",\n"));
                } else if line.starts_with(">>>>>>> ") {
                    inside = false;
                } else if !inside {
                    out.push_str(line);
                    out.push('\n');
                }
            }
            out
        });
    }

    #[track_caller]
    pub fn go_on(&self, how: &str) {
        self.world.git(&self.path, ["add", "-A"]);
        let (code, said) = match how {
            "merge" => self.git(["commit", "-q", "--no-edit"]),
            how => self.git([how, "--continue"]),
        };
        assert_eq!(code, 0, "{said}");
    }
}
