//! Runs the real agent programs, offline, against a scripted model.
//!
//! What must hold:
//! - The agent has a network with loopback only, its own home, and made-up keys: it can reach no server, and it cannot use
//!   the logins of this machine.
//! - The agent is not root (claude refuses some modes to root): inside a user namespace it is `daemon` without
//!   capabilities. Files still belong to the user that runs the test, so that `jit` and `git` work on them from outside.
//! - The agent is killed after `PATIENCE`.
//!
//! Limitations: these tests need Linux, and root in the test's own user namespace, to enter a network namespace. Elsewhere
//! they are skipped with a line of output. The programs come from `build/agents`.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

use crate::scripted_model::{ModelApi, ModelTurn};
use crate::world::tools::say;
use crate::world::{Ran, World};

/// The time limit of an agent, in seconds.
const PATIENCE: &str = "150";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    Claude,
    /// Claude Code behind the Agent Client Protocol.
    ClaudeAcp,
    Codex,
    Gemini,
}

impl Agent {
    fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::ClaudeAcp => "claude-agent-acp",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }
}

/// An agent program with its network.
#[derive(Debug)]
pub struct Bench {
    agent: Agent,
    program: PathBuf,
    network: Network,
    /// The bubblewrap of the system, which the agent must not find.
    hidden: Vec<PathBuf>,
}

/// Where the PATH has bubblewrap. `None`, with a line of output, if `JIT_TEST_WITHOUT` names it. Fails if it is simply not
/// installed.
#[track_caller]
pub fn bubblewrap() -> Option<PathBuf> {
    let left_out = std::env::var("JIT_TEST_WITHOUT").unwrap_or_default();
    if left_out.split_whitespace().any(|left| left == "bubblewrap") {
        say("left out: JIT_TEST_WITHOUT names bubblewrap");
        return None;
    }
    let found = all_bubblewraps().into_iter().next();
    assert!(
        found.is_some(),
        "this test needs bwrap, of the package bubblewrap; to go without it: JIT_TEST_WITHOUT=bubblewrap"
    );
    found
}

fn all_bubblewraps() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let files = std::env::split_paths(&path).map(|folder| folder.join("bwrap"));
    let mut found: Vec<PathBuf> = files.filter_map(|file| file.canonicalize().ok()).collect();
    found.sort();
    found.dedup();
    found
}

impl Bench {
    /// `None`, with a line of output, if `JIT_TEST_WITHOUT` names the agent or the machine does not permit namespaces. Fails
    /// if the program is simply not installed.
    #[track_caller]
    pub fn of(agent: Agent) -> Option<Self> {
        let name = agent.name();
        let left_out = std::env::var("JIT_TEST_WITHOUT").unwrap_or_default();
        if left_out.split_whitespace().any(|left| left == name) {
            say(&format!("left out: JIT_TEST_WITHOUT names {name}"));
            return None;
        }
        let Some(program) = find(name) else {
            panic!(
                "this test needs {name}: run build/agents target/tools; to go without it: JIT_TEST_WITHOUT={name}"
            )
        };
        let network = Network::new()?;
        Some(Self {
            agent,
            program,
            network,
            hidden: Vec::new(),
        })
    }

    /// Hides the bubblewrap of the system from programs of [`Bench::wrapper`].
    pub fn without_bubblewrap(mut self) -> Self {
        self.hidden = all_bubblewraps();
        self
    }

    /// A scripted model on the network of this bench.
    pub fn model(&self, script: Vec<ModelTurn>) -> ModelApi {
        let listener = self.network.inside(|| TcpListener::bind("127.0.0.1:0"));
        ModelApi::start(listener.expect("a port"), script).expect("a server")
    }

    /// A model that refuses every request with this HTTP status.
    pub fn refusing_model(&self, status: u16) -> ModelApi {
        let listener = self.network.inside(|| TcpListener::bind("127.0.0.1:0"));
        ModelApi::start_refusing(listener.expect("a port"), status).expect("a server")
    }

    /// Writes a program that starts the agent as [`Bench::run`] does, with the arguments it gets: for code that starts
    /// agents.
    pub fn wrapper(&self, world: &World) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let file = world.home().join(format!("{}-offline", self.agent.name()));
        let run = format!(
            "exec timeout -k 5 {PATIENCE} unshare --user --map-user=1 --map-group=1 -- '{}' \"$@\"\n",
            self.program.display()
        );
        let hide = |file: &PathBuf| format!("mount --bind /dev/null '{}' || exit 1\n", file.display());
        let script = match self.hidden.iter().map(hide).collect::<String>() {
            none if none.is_empty() => format!("#!/bin/sh\n{run}"),
            // Once more in a mount namespace of its own.
            hide => format!(
                "#!/bin/sh\n[ \"$1\" = hidden ] || exec unshare --mount -- \"$0\" hidden \"$@\"\nshift\n{hide}{run}"
            ),
        };
        std::fs::write(&file, script).expect("a script");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("permissions");
        file
    }

    /// Any program of this world, on the network of the agents, with the environment and the home that the agent needs
    /// to reach the model.
    pub fn run_beside(&self, world: &World, mut command: Command, model: &ModelApi) -> Ran {
        command.env("PATH", path(world));
        match self.agent {
            Agent::Claude | Agent::ClaudeAcp => claude_env(&mut command, &model.url()),
            Agent::Codex => codex_home(&mut command, world, &model.url()),
            Agent::Gemini => {
                gemini_login(world);
                gemini_env(&mut command, &model.url());
            }
        }
        self.run_apart(world, command)
    }

    /// Any program of this world, on the network of the agents.
    pub fn run_apart(&self, world: &World, mut command: Command) -> Ran {
        command.env("PATH", path(world));
        self.network.inside(|| world.run(command))
    }

    /// Runs the agent in `dir` until it exits.
    pub fn run(&self, world: &World, dir: &Path, model: &ModelApi, prompt: &str) -> AgentRun {
        self.run_with(world, dir, model, prompt, &[])
    }

    /// Like [`Bench::run`], with more options for the program.
    pub fn run_with(
        &self,
        world: &World,
        dir: &Path,
        model: &ModelApi,
        prompt: &str,
        options: &[&str],
    ) -> AgentRun {
        let mut command = world.command("timeout", dir);
        command.args(["-k", "5", PATIENCE]);
        command.args(["unshare", "--user", "--map-user=1", "--map-group=1", "--"]);
        command.arg(&self.program).env("PATH", path(world));
        match self.agent {
            Agent::Claude => claude(&mut command, &model.url(), prompt),
            // Its client sends the prompt over the protocol.
            Agent::ClaudeAcp => claude_env(&mut command, &model.url()),
            Agent::Codex => codex(&mut command, &model.url(), prompt),
            Agent::Gemini => gemini(&mut command, world, &model.url(), prompt),
        }
        command.args(options);
        let ran = self.network.inside(|| world.run(command));
        AgentRun { ran }
    }
}

/// The output of an agent that has exited.
#[derive(Debug)]
pub struct AgentRun {
    pub ran: Ran,
}

impl AgentRun {
    /// Every event that the agent printed, one JSON document a line.
    pub fn events(&self) -> Vec<Value> {
        let lines = self.ran.stdout.lines();
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Claude's closing event.
    #[track_caller]
    pub fn result(&self) -> Value {
        let last = self.events().into_iter().rfind(|event| event["type"] == "result");
        match last {
            Some(event) => event,
            None => panic!("no result: {:?}", self.ran),
        }
    }
}

/// The PATH for the agent's shells, with `jit` in it.
fn path(world: &World) -> std::ffi::OsString {
    let folder = world.program().parent().map(Path::to_owned).unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder).chain(std::env::split_paths(&path));
    std::env::join_paths(all).expect("a PATH")
}

/// A program from `build/agents` that needs no network: in `tools/bin` of the target folder that this test was built in,
/// else on the PATH. `None`, with a line of output, if `JIT_TEST_WITHOUT` names it. Fails if it is simply not installed.
#[track_caller]
pub fn tool(name: &str) -> Option<PathBuf> {
    let left_out = std::env::var("JIT_TEST_WITHOUT").unwrap_or_default();
    if left_out.split_whitespace().any(|left| left == name) {
        say(&format!("left out: JIT_TEST_WITHOUT names {name}"));
        return None;
    }
    let found = find(name);
    assert!(
        found.is_some(),
        "this test needs {name}: run build/agents target/tools; to go without it: JIT_TEST_WITHOUT={name}"
    );
    found
}

fn find(name: &str) -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    let near = exe.ancestors().map(|folder| folder.join("tools/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = near.chain(std::env::split_paths(&path));
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

fn claude(command: &mut Command, url: &str, prompt: &str) {
    command
        .args(["-p", prompt, "--output-format", "stream-json", "--verbose"])
        .args(["--permission-mode", "bypassPermissions", "--max-turns", "30"]);
    claude_env(command, url);
}

fn claude_env(command: &mut Command, url: &str) {
    command
        .env("ANTHROPIC_BASE_URL", url)
        .env("ANTHROPIC_API_KEY", "made-up")
        .env("CLAUDE_CODE_MAX_RETRIES", "1")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .env("DISABLE_AUTOUPDATER", "1");
}

fn codex(command: &mut Command, url: &str, prompt: &str) {
    let provider = format!(
        "model_providers.script={{name=\"script\",base_url=\"{url}/v1\",env_key=\"SCRIPT_KEY\",wire_api=\"responses\"}}"
    );
    command
        .args(["exec", "--json", "--dangerously-bypass-approvals-and-sandbox"])
        .args([
            "--dangerously-bypass-hook-trust",
            "-c",
            "model_provider=script",
            "-c",
        ])
        // For an unknown model codex uses plain tools, one call each; for the newest ones a JavaScript sandbox.
        .args([&provider, "-m", "script", prompt])
        .env("SCRIPT_KEY", "made-up");
}

/// The same provider, in the settings of codex instead of on its command line.
fn codex_home(command: &mut Command, world: &World, url: &str) {
    let folder = world.home().join(".codex");
    std::fs::create_dir_all(&folder).expect("a folder");
    let settings = format!(
        "model = \"script\"\nmodel_provider = \"script\"\n[model_providers.script]\nname = \"script\"\n\
         base_url = \"{url}/v1\"\nenv_key = \"SCRIPT_KEY\"\nwire_api = \"responses\"\n\
         request_max_retries = 1\nstream_max_retries = 1\n"
    );
    std::fs::write(folder.join("config.toml"), settings).expect("settings");
    command.env("SCRIPT_KEY", "made-up");
}

fn gemini_login(world: &World) {
    let folder = world.home().join(".gemini");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("settings.json");
    if !file.exists() {
        let auth = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
        std::fs::write(file, auth.to_string()).expect("settings");
    }
}

fn gemini_env(command: &mut Command, url: &str) {
    command
        .env("GOOGLE_GEMINI_BASE_URL", url)
        .env("GEMINI_API_KEY", "made-up");
}

fn gemini(command: &mut Command, world: &World, url: &str, prompt: &str) {
    gemini_login(world);
    command.args([
        "-p",
        prompt,
        "-o",
        "stream-json",
        "--approval-mode",
        "yolo",
        "--skip-trust",
    ]);
    gemini_env(command, url);
}

/// A network namespace with loopback only; it exists as long as this value.
#[derive(Debug)]
struct Network {
    holder: Child,
    namespace: File,
}

impl Network {
    fn new() -> Option<Self> {
        let no = |why: &str| {
            say(&format!("left out: {why}"));
            None
        };
        let mut command = Command::new("unshare");
        // The namespace exists as long as a process is in it: `cat`, until its standard input is closed.
        command
            .args(["-n", "sh", "-c", "ip link set lo up && echo up && exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let Ok(mut holder) = command.spawn() else {
            return no("there is no unshare");
        };
        let mut line = String::new();
        let read = holder
            .stdout
            .take()
            .map(|out| BufReader::new(out).read_line(&mut line));
        if !matches!(read, Some(Ok(_))) || line.trim() != "up" {
            let _ = holder.wait();
            return no("this machine does not permit network namespaces (root and iproute2 are needed)");
        }
        let namespace = File::open(format!("/proc/{}/ns/net", holder.id())).expect("its namespace");
        Some(Self { holder, namespace })
    }

    /// Runs `work` inside: its listeners and processes are in the namespace. On a separate thread, because a thread
    /// cannot leave the namespace.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        use std::os::fd::AsFd as _;
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.namespace.as_fd(), kind)
                    .expect("the namespace can be entered");
                work()
            });
            match there.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
