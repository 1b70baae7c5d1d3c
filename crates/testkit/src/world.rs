//! A separate world for each test: a temporary home, a git repository, and the real `jit` in it.
//!
//! The world is isolated from the machine: the environment is empty except for PATH, git reads only the repository's
//! configuration, and dropping the [`World`] deletes every folder.

pub mod tools;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The exit code and the output of a program.
#[derive(Debug, Clone)]
#[must_use = "look at the exit code or the output"]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Fails the test unless the exit code is this one.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        self
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// Parses standard output, which must be exactly one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(e) => panic!(
                "not one JSON document ({e}): {:?}\nstderr: {}",
                self.stdout, self.stderr
            ),
        }
    }
}

#[derive(Debug)]
pub struct World {
    root: tempfile::TempDir,
    jit: PathBuf,
}

impl World {
    /// `jit` is the program under test: `env!("CARGO_BIN_EXE_jit")` in its own tests.
    pub fn new(jit: impl AsRef<Path>) -> Self {
        Self::within(jit, &std::env::temp_dir())
    }

    /// Like [`World::new`], in a folder of the caller's choice: on another file system, for example.
    pub fn within(jit: impl AsRef<Path>, folder: &Path) -> Self {
        let root = tempfile::Builder::new()
            .prefix("jit-world-")
            .tempdir_in(folder)
            .expect("a temporary folder");
        std::fs::create_dir(root.path().join("home")).expect("a home");
        let world = Self {
            root,
            jit: jit.as_ref().to_owned(),
        };
        world.git(world.root.path(), ["init", "-q", "-b", "main", "repo"]);
        let repo = world.repo();
        world.git(&repo, ["commit", "-q", "--allow-empty", "-m", "begin"]);
        world
    }

    /// A world in which `jit init` has been run.
    pub fn with_jit(jit: impl AsRef<Path>) -> Self {
        let world = Self::new(jit);
        let _ = world.jit(["init"]).ok();
        world
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The main worktree.
    pub fn repo(&self) -> PathBuf {
        self.root.path().join("repo")
    }

    pub fn control(&self) -> PathBuf {
        self.repo().join(".git/jit")
    }

    /// Adds a linked worktree with a branch of the same name.
    pub fn worktree(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        let words: [&OsStr; 6] = [
            "worktree".as_ref(),
            "add".as_ref(),
            "-q".as_ref(),
            "-b".as_ref(),
            name.as_ref(),
            path.as_ref(),
        ];
        self.git(&self.repo(), words);
        path
    }

    /// The environment of every program that is started in this world.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let home = self.home();
        vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("HOME".into(), home.clone().into()),
            ("XDG_CONFIG_HOME".into(), home.join(".config").into()),
            ("TMPDIR".into(), self.root.path().into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            // Not /dev/null: git would replace it by a file when a test that runs as root changes a setting.
            (
                "GIT_CONFIG_GLOBAL".into(),
                self.root().join("git-settings").into(),
            ),
            ("GIT_AUTHOR_NAME".into(), "Test".into()),
            ("GIT_AUTHOR_EMAIL".into(), "test@example.com".into()),
            ("GIT_COMMITTER_NAME".into(), "Test".into()),
            ("GIT_COMMITTER_EMAIL".into(), "test@example.com".into()),
            ("LC_ALL".into(), "C".into()),
        ]
    }

    /// A program in this world, not yet started.
    pub fn command(&self, program: impl AsRef<OsStr>, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.environment())
            .current_dir(dir)
            .stdin(Stdio::null());
        command
    }

    /// `jit` in this world, not yet started.
    pub fn jit_command(&self, dir: &Path) -> Command {
        self.command(&self.jit, dir)
    }

    pub fn run(&self, mut command: Command) -> Ran {
        let output = command.output().expect("the program starts");
        use std::os::unix::process::ExitStatusExt as _;
        Ran {
            code: output
                .status
                .code()
                .unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0)),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// `jit` in the main worktree.
    pub fn jit<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ran {
        self.jit_in(&self.repo(), args)
    }

    pub fn jit_in<A: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = A>) -> Ran {
        let mut command = self.jit_command(dir);
        command.args(args);
        self.run(command)
    }

    /// Runs git, which must succeed, and returns its output.
    #[track_caller]
    pub fn git<A: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = A>) -> String {
        let mut command = self.command("git", dir);
        command.args(args);
        self.run(command).ok().stdout
    }

    /// The output with everything that differs from run to run replaced: paths, times, ids.
    pub fn stable(&self, text: &str) -> String {
        let text = text.replace(&*self.root.path().to_string_lossy(), "[WORLD]");
        let mut out = String::with_capacity(text.len());
        let mut word = String::new();
        for c in text.chars().chain(std::iter::once('\0')) {
            if c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '.') {
                word.push(c);
                continue;
            }
            out.push_str(stand_in(&word).unwrap_or(&word));
            word.clear();
            if c != '\0' {
                out.push(c);
            }
        }
        out
    }
}

fn stand_in(word: &str) -> Option<&'static str> {
    let bytes = word.as_bytes();
    if bytes.len() == 26 && bytes.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase()) {
        return Some("[LEASE]");
    }
    if bytes.len() == 11 && word.starts_with("wt:") {
        return Some("[WT]");
    }
    if bytes.len() >= 20 && word.ends_with('Z') && word.contains('T') && bytes[4] == b'-' {
        return Some("[TIME]");
    }
    None
}
