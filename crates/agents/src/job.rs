//! The files that the shim and other processes exchange: [`Job`], [`Stop`] and [`Exit`].

use std::path::PathBuf;

use jit_core::model::cost::{Tokens, Usd};
use jit_core::model::ids::{AgentId, UnitId};
use jit_core::model::plan::Settings;
use jit_core::model::unit::Artifact;
use serde::{Deserialize, Serialize};

use crate::event::{AgentVerdict, Meter};
use crate::price::Price;

/// The task of one attempt: `job.json`. Its file holds no secrets of the command line: the process that starts the shim
/// passes those on in the environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub unit: UnitId,
    pub attempt: u32,
    /// `claude`, `command`, …
    pub agent: String,
    /// The agent's identity in claims, locks and commits.
    pub worker: AgentId,
    pub dir: PathBuf,
    /// The file with the prompt: `prompt.md` in the attempt's folder, as an absolute path.
    #[serde(default)]
    pub prompt_file: PathBuf,
    /// For `command` and `acp`: program and arguments. For other agents: the program, if it is not the default one.
    #[serde(default)]
    pub command: Vec<String>,
    /// `JIT_*` and the variables of the unit's environment.
    pub vars: Vec<(String, String)>,
    /// The id of the agent's session. jit chooses it in advance, so that it is known even if the agent never reports
    /// it.
    pub session: Option<String>,
    /// The session of an earlier attempt to resume.
    #[serde(default)]
    pub resume: Option<Resume>,
    /// The cost of the resumed session so far, for agents that report a total over all sessions without its start.
    #[serde(default)]
    pub cost_before: Option<Usd>,
    /// The token counter of the resumed session, for agents that have one.
    #[serde(default)]
    pub meter_before: Option<Meter>,
    /// Model prices, for agents that do not report their cost.
    #[serde(default)]
    pub prices: Vec<Price>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub allowed_tools: Vec<String>,
    #[serde(default)]
    pub permission_mode: Option<String>,
    /// One answer at the end instead of a two-way conversation.
    #[serde(default)]
    pub one_shot: bool,
    #[serde(default)]
    pub max_turns: Option<u32>,
    #[serde(default)]
    pub budget: Option<Usd>,
    #[serde(default)]
    pub budget_tokens: Option<u64>,
    pub timeout_secs: u64,
    /// The agent counts as hung after this many seconds without output and without CPU use.
    pub idle_secs: u64,
    /// Seconds that the agent may continue after its result.
    pub linger_secs: u64,
    /// Seconds between SIGTERM and SIGKILL.
    pub grace_secs: u64,
    /// Files that must exist when the agent has exited.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// The folder for its artifacts, relative to `dir`: whatever is there at the end is an artifact.
    #[serde(default)]
    pub artifact_dir: Option<String>,
    /// Commands that must succeed in its worktree when the agent has exited.
    #[serde(default)]
    pub validate: Vec<String>,
    /// Paths that the agent may write, relative to `dir`. Empty: all of `dir`.
    #[serde(default)]
    pub writes: Vec<String>,
    /// The text of the person or program that dispatched the unit, kept for later attempts.
    #[serde(default)]
    pub task: Option<String>,
    /// The absolute path of the file that `task` came from, if it was a file.
    #[serde(default)]
    pub task_file: Option<PathBuf>,
    /// The settings that were requested for this dispatch, without those from the configuration.
    #[serde(default)]
    pub asked: Settings,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    pub session: String,
    /// Starts a new session from it and leaves the old one unchanged.
    pub fork: bool,
}

/// The reason to stop an agent: `stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pub by: String,
    pub reason: String,
}

/// The end of an attempt: `exit.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    pub end: AttemptEnd,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// The agent's own report of how it ended, if there was one.
    #[serde(default)]
    pub verdict: Option<AgentVerdict>,
    /// The session id that the agent reported.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The last value of the session's token counter.
    #[serde(default)]
    pub meter: Option<Meter>,
    pub tokens: Tokens,
    #[serde(default)]
    pub cost_usd: Option<Usd>,
    pub turns: u64,
    pub duration_ms: u64,
    /// The end of its standard error.
    pub stderr_tail: String,
    /// The number of processes that the agent left behind and that had to be ended.
    pub ended_orphans: u32,
}

/// The cause of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// The agent exited by itself.
    Exited,
    /// The agent could not be started.
    NotStarted,
    TimedOut,
    /// No output and no CPU use, before its result.
    Hung,
    /// The agent reported its result and did not exit.
    Lingered,
    OverBudget,
    OverTurns,
    /// A stop was requested.
    Stopped,
    /// The shim was killed.
    ShimLost,
}
