//! The environment of the demo: a scratch repository and the processes in it.
//!
//! What must hold:
//! - No process of the demo outlives it.
//! - The demo does not read the settings of the machine or of the user.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use jit_core::model::refusal::Refusal;
use jit_git::Git;
use jit_os::random;
use jit_store::Outcome;
use serde_json::Value;

use super::player::{Event, Word};
use super::trouble;

pub fn failed(what: &str) -> impl Fn(io::Error) -> Box<Refusal> {
    let what = what.to_owned();
    move |e| trouble(format!("{what}: {e}"))
}

#[derive(Debug)]
pub struct Stage {
    root: PathBuf,
    jit: PathBuf,
    /// The process that removes the folder when this process has ended, for whatever reason. `None` if the folder stays.
    janitor: Option<Child>,
}

impl Stage {
    pub fn build(keep: bool) -> Outcome<Self> {
        let jit = std::env::current_exe().map_err(failed("where is this program"))?;
        let name = format!("jit-demo-{:016x}", random::u64().map_err(failed("random"))?);
        // Absolute, because processes in other folders use the path.
        let root =
            std::path::absolute(std::env::temp_dir().join(name)).map_err(failed("temporary folder"))?;
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&root)
            .map_err(failed(&format!("cannot make {}", root.display())))?;
        let mut stage = Self {
            root,
            jit,
            janitor: None,
        };
        if !keep {
            let janitor = Command::new(&stage.jit)
                .args(["demo", "--role", "janitor"])
                .arg(&stage.root)
                .current_dir("/")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // Ctrl-C must not reach it, because it removes the folder afterwards.
                .process_group(0)
                .spawn();
            match janitor {
                Ok(child) => stage.janitor = Some(child),
                Err(e) => {
                    let _ = std::fs::remove_dir_all(&stage.root);
                    return Err(failed("cannot start the janitor")(e));
                }
            }
        }
        std::fs::create_dir(stage.root.join("home")).map_err(failed("a home"))?;
        stage.git(&stage.root, &["init", "-q", "-b", "main", "repo"])?;
        for (key, value) in [
            ("user.name", "jit demo"),
            ("user.email", "demo@example.com"),
            ("gc.auto", "0"),
            ("maintenance.auto", "false"),
        ] {
            stage.git(&stage.repo(), &["config", key, value])?;
        }
        stage.git(&stage.repo(), &["commit", "-q", "--allow-empty", "-m", "begin"])?;
        Ok(stage)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn repo(&self) -> PathBuf {
        self.root.join("repo")
    }

    pub fn worktree_path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the environment of the demo's processes. From the machine they get only the PATH.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let home = self.root.join("home");
        vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
            ("HOME".into(), home.clone().into()),
            ("XDG_CONFIG_HOME".into(), home.join(".config").into()),
            ("TMPDIR".into(), self.root.clone().into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
            ("LC_ALL".into(), "C".into()),
        ]
    }

    fn git(&self, dir: &Path, args: &[&str]) -> Outcome<Vec<u8>> {
        let mut git = Git::at(dir).args(args);
        for (name, value) in self.environment() {
            git = git.env(name, value);
        }
        git.run().map_err(|e| {
            let mut refusal = trouble(e.to_string());
            refusal.help.push(format!(
                "the demo needs git {} or newer: git --version",
                jit_git::version::oldest()
            ));
            refusal
        })
    }

    pub fn commit_setup(&self) -> Outcome<()> {
        self.git(&self.repo(), &["add", ".jit"])?;
        self.git(&self.repo(), &["commit", "-q", "-m", "use jit"])?;
        Ok(())
    }

    pub fn worktree(&self, name: &str) -> Outcome<()> {
        let path = format!("../{name}");
        self.git(&self.repo(), &["worktree", "add", "-q", "-b", name, &path])?;
        Ok(())
    }

    /// Writes a file with this text and commits it there.
    pub fn commit_file(&self, dir: &Path, name: &str, text: &str) -> Outcome<()> {
        std::fs::write(dir.join(name), text).map_err(failed(name))?;
        self.git(dir, &["add", "--", name])?;
        self.git(dir, &["commit", "-q", "-m", name])?;
        Ok(())
    }

    /// Returns the subjects of all commits on all branches.
    pub fn subjects(&self) -> Outcome<Vec<String>> {
        let out = self.git(&self.repo(), &["log", "--branches", "--format=%s"])?;
        Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
    }

    pub fn jit(&self, agent: &str, dir: &Path) -> Command {
        let mut command = Command::new(&self.jit);
        command
            .env_clear()
            .envs(self.environment())
            .env("JIT_AGENT_ID", agent)
            .current_dir(dir);
        command
    }

    /// Runs a command whose answer is one JSON document. Returns its exit code and the document.
    pub fn jit_as(&self, agent: &str, dir: &Path, args: &[&str]) -> Outcome<(i32, Value)> {
        let output = self
            .jit(agent, dir)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .map_err(failed("cannot start jit"))?;
        let value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Ok((output.status.code().unwrap_or(-1), value))
    }

    /// Runs a command in the main worktree. Refuses a failure.
    pub fn jit_ok(&self, args: &[&str]) -> Outcome<()> {
        let output = self
            .jit("human:you", &self.repo())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .map_err(failed("cannot start jit"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(trouble(format!(
            "jit {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        )))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let Some(mut janitor) = self.janitor.take() else {
            return;
        };
        // The end of its standard input tells the janitor to remove the folder.
        drop(janitor.stdin.take());
        let _ = janitor.wait();
    }
}

/// Waits until the demo has ended or closed the input, then removes its folder. Removes only an absolute path whose name
/// begins with `jit-demo-`.
pub fn janitor(folder: &Path) {
    let ours = folder
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("jit-demo-"));
    if !ours || !folder.is_absolute() {
        return;
    }
    let _ = io::stdin().read_to_end(&mut Vec::new());
    // A process that is still running may write into the folder, so removing it is retried.
    let until = Instant::now() + Duration::from_secs(10);
    while std::fs::remove_dir_all(folder).is_err() && folder.exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Member {
    child: Child,
    stdin: Option<ChildStdin>,
}

/// The name of an agent, and its report.
pub type Report = (String, Event);

/// The agents. Dropping this value ends all of them.
#[derive(Default)]
pub struct Cast {
    members: HashMap<String, Member>,
    channel: Option<(Sender<Report>, Receiver<Report>)>,
}

impl Cast {
    pub fn start(&mut self, stage: &Stage, name: &str, ttl_secs: u64) -> Outcome<()> {
        let mut child = stage
            .jit(&format!("agent:{name}"), &stage.worktree_path(name))
            .args(["demo", "--role", "agent", &ttl_secs.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(failed("cannot start an agent"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        self.members.insert(name.to_owned(), Member { child, stdin });
        let (sender, _) = self.channel.get_or_insert_with(channel);
        let (sender, name) = (sender.clone(), name.to_owned());
        std::thread::spawn(move || {
            for line in stdout.map(BufReader::new).into_iter().flat_map(|out| out.lines()) {
                let event = match line.map_err(|e| e.to_string()).and_then(|line| {
                    serde_json::from_str(&line)
                        .map_err(|e| format!("said {line:?}, which means nothing: {e}"))
                }) {
                    Ok(event) => event,
                    Err(what) => Event::Trouble { what },
                };
                if sender.send((name.clone(), event)).is_err() {
                    return;
                }
            }
            let _ = sender.send((name, Event::Gone));
        });
        Ok(())
    }

    /// Returns the channel of the agents' reports. Call it once, after all agents have been started.
    pub fn events(&mut self) -> Receiver<Report> {
        self.channel.take().unwrap_or_else(channel).1
    }

    pub fn say(&mut self, name: &str, word: Word) -> Outcome<()> {
        let stdin = self
            .members
            .get_mut(name)
            .and_then(|member| member.stdin.as_mut());
        let stdin = stdin.ok_or_else(|| trouble(format!("{name} is not there")))?;
        let mut line = serde_json::to_vec(&word).unwrap_or_default();
        line.push(b'\n');
        stdin
            .write_all(&line)
            .map_err(failed(&format!("{name} does not listen")))
    }

    /// Kills an agent with SIGKILL. Its pid cannot belong to another process, because this process has not waited for it yet.
    pub fn kill(&mut self, name: &str) -> Outcome<()> {
        let member = self.members.get_mut(name);
        let child = &mut member
            .ok_or_else(|| trouble(format!("{name} is not there")))?
            .child;
        child.kill().map_err(failed("cannot kill"))?;
        child.wait().map_err(failed("cannot wait"))?;
        Ok(())
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        for member in self.members.values_mut() {
            drop(member.stdin.take());
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}
