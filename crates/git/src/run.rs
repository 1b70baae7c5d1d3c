//! Starts git. No other code does.
//!
//! What must hold:
//! - Git has a clean environment and never waits for a person (`program`). It has no standard input but the one
//!   that it is given.
//! - Git starts nothing that the repository's own settings name and the user has not approved (`judge`).
//! - Git starts no garbage collection.
//! - A git that holds a lock of this process ([`Git::holding`]) has it as its standard input, which is empty. The kernel
//!   keeps the lock until that git exits, even if this process is killed.
//! - Output is bytes. A failure keeps the command and the end of git's error output.
//! - A worktree that another process is just creating breaks no command: git fails on its half-written files and is
//!   started again.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use crate::judge::{self, AskedCommand, Judged, Refused};
use crate::local_settings::LocalProgram;
use crate::program;
pub use crate::program::is_users_own;

/// How often git is started again, 10 milliseconds apart, while another process creates or removes a worktree.
const MAKING_TRIES: usize = 200;

/// How many bytes of git's error output are kept.
const TAIL: usize = 2000;

/// A git command failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("cannot start git in {dir:?}: {source}")]
    Start { dir: PathBuf, source: std::io::Error },
    #[error("`{command}` failed ({status}) in {dir:?}: {stderr}")]
    Failed {
        command: String,
        dir: PathBuf,
        status: ExitStatus,
        stderr: String,
    },
    #[error("`{command}` answered something unexpected: {what}")]
    Answer { command: String, what: String },
    #[error("git would start what the repository's own settings name and you have not approved: {} (approve: jit trust)", names(.0))]
    NotApproved(Vec<LocalProgram>),
    #[error("{repository:?} is a repository of another user ({part:?} is not yours)")]
    Owner { repository: PathBuf, part: PathBuf },
    #[error("cannot tell what git would start, so it is not started: {file:?}: {why}")]
    Settings { file: PathBuf, why: String },
}

impl From<Refused> for GitError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotApproved(programs) => Self::NotApproved(programs),
            Refused::Owner(foreign) => Self::Owner {
                repository: foreign.repository,
                part: foreign.part,
            },
            Refused::Unreadable(bad) => Self::Settings {
                file: bad.file,
                why: bad.why,
            },
        }
    }
}

fn names(programs: &[LocalProgram]) -> String {
    let mut names: Vec<&str> = programs.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

impl GitError {
    /// The exit code, if git ran and was not killed.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Failed { status, .. } => status.code(),
            _ => None,
        }
    }
}

/// Starts git for a [`Git`]. Tests answer in its place.
///
/// What must hold: an error means that git did not run. Every exit code is an answer.
pub trait GitRunner: std::fmt::Debug + Send + Sync {
    /// Runs the command to its end.
    fn run(&self, git: &Git) -> std::io::Result<Output>;

    /// Starts a command that answers questions while it runs, with pipes for its input and output.
    fn start(&self, _: &Git) -> std::io::Result<Child> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// Starts the git program of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemGit;

impl GitRunner for SystemGit {
    fn run(&self, git: &Git) -> std::io::Result<Output> {
        let mut child = git.command().spawn()?;
        let input = child.stdin.take().zip(git.stdin.as_deref());
        std::thread::scope(|scope| {
            if let Some((mut pipe, bytes)) = input {
                // In its own thread, or both sides wait for a full pipe. Git need not read all of it.
                scope.spawn(move || pipe.write_all(bytes));
            }
            child.wait_with_output()
        })
    }

    fn start(&self, git: &Git) -> std::io::Result<Child> {
        git.command().stdin(Stdio::piped()).stderr(Stdio::null()).spawn()
    }
}

/// Builds one git command.
#[derive(Debug)]
pub struct Git {
    runner: Arc<dyn GitRunner>,
    dir: PathBuf,
    settings: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Option<Vec<u8>>,
    holds: Option<Arc<File>>,
    skips_filters: bool,
    judged: Judged,
}

impl Git {
    /// Git of this machine, as if started in `dir`.
    pub fn at(dir: impl AsRef<Path>) -> Self {
        Self::by(Arc::new(SystemGit), dir)
    }

    /// Git as if started in `dir`, by this runner.
    pub fn by(runner: Arc<dyn GitRunner>, dir: impl AsRef<Path>) -> Self {
        Self {
            runner,
            dir: dir.as_ref().to_owned(),
            settings: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            holds: None,
            skips_filters: false,
            judged: Judged::default(),
        }
    }

    /// Git of this machine on this git folder, wherever its work tree may be.
    pub fn in_git_dir(git_dir: impl AsRef<Path>) -> Self {
        Self::in_git_dir_by(Arc::new(SystemGit), git_dir)
    }

    /// Git on this git folder, by this runner.
    pub fn in_git_dir_by(runner: Arc<dyn GitRunner>, git_dir: impl AsRef<Path>) -> Self {
        let mut option = OsString::from("--git-dir=");
        option.push(git_dir.as_ref());
        Self::by(runner, git_dir).arg(option)
    }

    /// The folder that git is started in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The arguments after the settings.
    pub fn arguments(&self) -> &[OsString] {
        &self.args
    }

    /// The standard input, if the command has one.
    pub fn input(&self) -> Option<&[u8]> {
        self.stdin.as_deref()
    }

    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Overrides a git setting for this command.
    #[must_use]
    pub fn setting(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut setting = OsString::from(name);
        setting.push("=");
        setting.push(value);
        self.settings.push(setting);
        self
    }

    /// Leaves filters out that are not approved, instead of failing: to bring back the bytes that git has.
    #[must_use]
    pub fn skipping_filters(mut self) -> Self {
        self.skips_filters = true;
        self
    }

    /// Sets a variable for this command, GIT_INDEX_FILE for example.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Applies the settings that the caller of a hook passed with `git -c`.
    #[must_use]
    pub fn with_callers_settings(mut self) -> Self {
        for (name, value) in program::callers_settings() {
            self = self.env(name, value);
        }
        self
    }

    /// Sees the objects of a push that git has not accepted yet, if called from the hook that checks it.
    #[must_use]
    pub fn in_quarantine(mut self) -> Self {
        let own = [
            "GIT_QUARANTINE_PATH",
            "GIT_OBJECT_DIRECTORY",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        ];
        if std::env::var_os("GIT_QUARANTINE_PATH").is_some() {
            for name in own {
                if let Some(value) = std::env::var_os(name) {
                    self = self.env(name, value);
                }
            }
        }
        self
    }

    /// Keeps this lock until the command exits, even if this process is killed. Not for a command with standard input.
    #[must_use]
    pub fn holding(mut self, lock: Option<Arc<File>>) -> Self {
        self.holds = lock;
        self
    }

    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Starts the command for questions that it answers while it runs.
    pub(crate) fn start(mut self) -> std::io::Result<Child> {
        self.judge().map_err(std::io::Error::other)?;
        self.runner.start(&self)
    }

    /// Runs the command and returns its output; any exit code but 0 is an error.
    pub fn run(mut self) -> Result<Vec<u8>, GitError> {
        let output = self.output()?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(self.failed(&output))
        }
    }

    /// Runs the command and returns true for exit code 0 and false for 1; anything else is an error.
    pub fn test(mut self) -> Result<bool, GitError> {
        let output = self.output()?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(self.failed(&output)),
        }
    }

    /// Runs the command and returns its output as text without the final newline.
    pub fn line(self) -> Result<String, GitError> {
        let command = self.shown();
        let mut bytes = self.run()?;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        String::from_utf8(bytes).map_err(|_| GitError::Answer {
            command,
            what: "the answer is not UTF-8".to_owned(),
        })
    }

    /// The ref HEAD points to, `None` when it is detached.
    pub fn symbolic_head(self) -> Result<Option<String>, GitError> {
        self.symbolic("HEAD")
    }

    /// The ref that a symbolic ref leads to; `None` if it is not symbolic or does not exist.
    pub fn symbolic(self, name: &str) -> Result<Option<String>, GitError> {
        let mut git = self.args(["symbolic-ref", "-q", name]);
        let output = git.output()?;
        match output.status.code() {
            Some(0) => {
                let name = output.stdout.trim_ascii_end().to_vec();
                match String::from_utf8(name) {
                    Ok(name) => Ok(Some(name)),
                    Err(_) => Err(GitError::Answer {
                        command: git.shown(),
                        what: "the branch name is not UTF-8".to_owned(),
                    }),
                }
            }
            Some(1) => Ok(None),
            _ => Err(git.failed(&output)),
        }
    }

    /// The object a revision names, `None` if there is none.
    pub fn verify(self, revision: &str) -> Result<Option<String>, GitError> {
        let mut git = self.args(["rev-parse", "--verify", "-q", "--end-of-options", revision]);
        let output = git.output()?;
        match output.status.code() {
            Some(0) => Ok(Some(
                String::from_utf8_lossy(output.stdout.trim_ascii_end()).into_owned(),
            )),
            Some(1) => Ok(None),
            _ => Err(git.failed(&output)),
        }
    }

    /// Runs the command and returns exit code, output and the end of the error output, whatever the code is.
    pub fn try_run(mut self) -> Result<(Option<i32>, Vec<u8>, String), GitError> {
        let output = self.output()?;
        let stderr = output.stderr.trim_ascii();
        let tail = stderr.get(stderr.len().saturating_sub(TAIL)..).unwrap_or(stderr);
        let tail = String::from_utf8_lossy(tail).into_owned();
        Ok((output.status.code(), output.stdout, tail))
    }

    fn judge(&mut self) -> Result<(), GitError> {
        let index = self.env.iter().rev().find(|(name, _)| name == "GIT_INDEX_FILE");
        self.judged = judge::judge(AskedCommand {
            dir: &self.dir,
            args: &self.args,
            index: index.map(|(_, value)| value.as_os_str()),
            skips_filters: self.skips_filters,
        })?;
        Ok(())
    }

    fn output(&mut self) -> Result<Output, GitError> {
        self.judge()?;
        let mut output = self.once()?;
        for _ in 0..MAKING_TRIES {
            if output.status.code() != Some(128) || !met_another_at_worktrees(&output.stderr) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            output = self.once()?;
        }
        match self.judged.needed(&output.stderr) {
            Some(programs) => Err(GitError::NotApproved(programs)),
            None => Ok(output),
        }
    }

    fn once(&self) -> Result<Output, GitError> {
        let begun = SystemTime::now();
        let output = self.runner.run(self).map_err(|source| GitError::Start {
            dir: self.dir.clone(),
            source,
        })?;
        if is_killed(output.status) {
            let _ = KILLED.set(begun);
        }
        Ok(output)
    }

    fn command(&self) -> Command {
        let mut command = program::command(&self.dir);
        let count = self.env.iter().find(|(name, _)| name == "GIT_CONFIG_COUNT");
        let count = count.and_then(|(_, count)| count.to_str()?.parse().ok());
        command
            .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
            .args(
                self.settings
                    .iter()
                    .flat_map(|setting| [OsStr::new("-c"), setting]),
            )
            .args(judge::without_diff_programs(&self.args))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .envs(self.judged.variables(count.unwrap_or(0)))
            .stdin(match (&self.stdin, &self.holds) {
                (Some(_), _) => Stdio::piped(),
                (None, Some(lock)) => lock.try_clone().map_or_else(|_| Stdio::null(), Stdio::from),
                (None, None) => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The command as a person would type it.
    fn shown(&self) -> String {
        let mut text = String::from("git");
        for arg in &self.args {
            let arg = arg.to_string_lossy();
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,~^{}".contains(c);
            if !arg.is_empty() && arg.chars().all(plain) {
                text.push(' ');
                text.push_str(&arg);
            } else {
                text.push_str(&format!(" {arg:?}"));
            }
        }
        text
    }

    fn failed(&self, output: &Output) -> GitError {
        let stderr = output.stderr.trim_ascii();
        let tail = stderr.get(stderr.len().saturating_sub(TAIL)..).unwrap_or(stderr);
        GitError::Failed {
            command: self.shown(),
            dir: self.dir.clone(),
            status: output.status,
            stderr: String::from_utf8_lossy(tail).into_owned(),
        }
    }
}

/// When the first git was started that was killed while this process waited for it.
static KILLED: OnceLock<SystemTime> = OnceLock::new();

/// Returns when the first git was started that was killed while this process waited for it. Such a git may have left lock
/// files.
pub fn killed_since() -> Option<SystemTime> {
    KILLED.get().copied()
}

/// Whether a signal ended git, or a process that git started: git then exits as a shell would.
fn is_killed(status: ExitStatus) -> bool {
    status.signal().is_some() || status.code().is_some_and(|code| (129..=192).contains(&code))
}

/// Whether git failed because another process was creating or removing a worktree. Git lists all worktrees first, and
/// fails if the `commondir` of one is still empty. The reason it prints is meaningless: an empty read is no error, so it
/// prints the error of an earlier call.
fn met_another_at_worktrees(stderr: &[u8]) -> bool {
    let has = |what: &[u8]| stderr.windows(what.len()).any(|part| part == what);
    let half_made = has(b"failed to read ") && has(b"/commondir: ");
    // Removing the last worktree removes the folder of all worktrees.
    let folder_gone = has(b"could not create directory of ") && has(b": No such file or directory");
    half_made || folder_gone
}

/// Whether the worktree has changes that are not committed: staged, unstaged or untracked, but not ignored.
pub fn is_dirty(root: &Path) -> Result<bool, GitError> {
    let status = Git::at(root)
        .args(["--no-optional-locks", "status", "--porcelain", "-z"])
        .args(["--untracked-files=normal", "--ignore-submodules=none"])
        .run()?;
    Ok(!status.is_empty())
}

/// The filters that the settings of the repository in `root` name and the user has not approved.
pub fn withheld_filters(root: &Path) -> Result<Vec<LocalProgram>, GitError> {
    Ok(judge::withheld_filters(root)?)
}

/// The contents of objects, up to the first that does not exist. Empty if git fails.
pub fn contents(at: &Path, names: impl IntoIterator<Item = String>) -> Vec<Vec<u8>> {
    let names: String = names.into_iter().map(|name| format!("{name}\n")).collect();
    let read = Git::at(at).args(["cat-file", "--batch"]).stdin(names).run();
    let read = read.unwrap_or_default();
    let mut rest = read.as_slice();
    std::iter::from_fn(|| next_content(&mut rest).map(<[u8]>::to_vec)).collect()
}

/// The next content in the output of `git cat-file --batch`.
pub fn next_content<'a>(out: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = out.iter().position(|b| *b == b'\n')?;
    let line = std::str::from_utf8(out.get(..end)?).ok()?;
    let size: usize = line.rsplit_once(' ')?.1.parse().ok()?;
    let content = out.get(end + 1..end + 1 + size)?;
    *out = out.get(end + 2 + size..)?;
    Some(content)
}
