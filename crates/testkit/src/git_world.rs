//! A temporary folder for tests with real git, isolated from the user's settings.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[derive(Debug)]
pub struct GitWorld {
    _folder: tempfile::TempDir,
    pub top: PathBuf,
}

impl Default for GitWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl GitWorld {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let top = folder.path().canonicalize().expect("physical");
        Self { _folder: folder, top }
    }

    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.top.join(below)
    }

    /// A repository with one commit on `main`.
    pub fn repo(&self, below: impl AsRef<Path>) -> PathBuf {
        let path = self.path(below);
        std::fs::create_dir_all(&path).expect("folder");
        self.git(&path, ["init", "-q", "-b", "main"]);
        self.commit(&path, "one");
        path
    }

    pub fn commit(&self, dir: &Path, message: &str) {
        self.git(dir, ["commit", "-q", "--allow-empty", "-m", message]);
    }

    pub fn worktree(&self, repo: &Path, below: impl AsRef<Path>, branch: &str) -> PathBuf {
        let path = self.path(below);
        let args = [
            "worktree".as_ref(),
            "add".as_ref(),
            "-q".as_ref(),
            "-b".as_ref(),
            branch.as_ref(),
            path.as_os_str(),
        ];
        self.git(repo, args);
        path
    }

    pub fn try_git<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
        env: &[(&str, &OsStr)],
    ) -> Output {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", &self.top)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "t")
            .env("GIT_AUTHOR_EMAIL", "t@example.com")
            .env("GIT_COMMITTER_NAME", "t")
            .env("GIT_COMMITTER_EMAIL", "t@example.com")
            .args(["-c", "protocol.file.allow=always"])
            .args(args)
            .current_dir(dir)
            .envs(env.iter().copied());
        command.output().expect("git starts")
    }

    pub fn git<A: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = A>) -> Vec<u8> {
        let output = self.try_git(dir, args, &[]);
        assert!(
            output.status.success(),
            "git failed in {dir:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }
}

pub fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}
