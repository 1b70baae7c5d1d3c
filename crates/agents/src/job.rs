//! The files by which a shim and everybody else understand each other.

use std::path::PathBuf;

use jit_core::ids::{AgentId, UnitId};
use jit_core::plan::Settings;
use jit_core::unit::{Artifact, Tokens, Usd};
use serde::{Deserialize, Serialize};

use crate::event::{AgentVerdict, Meter};
use crate::price::Price;

/// What a shim is to do. Holds no secret: those come with the environment the shim is started in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub unit: UnitId,
    pub attempt: u32,
    /// `claude`, `command`, …
    pub agent: String,
    /// Who it is in claims, locks and commits.
    pub worker: AgentId,
    pub dir: PathBuf,
    /// The file with what the agent is told: `prompt.md` of the attempt's folder, from the root.
    #[serde(default)]
    pub prompt_file: PathBuf,
    /// Program and arguments, for `command` and `acp`; the program alone, for the others, if it is not the usual one.
    #[serde(default)]
    pub command: Vec<String>,
    /// `JIT_*` and what the unit's environment has besides.
    pub vars: Vec<(String, String)>,
    /// The agent's own session: chosen beforehand, so that it is known even if nobody hears of it.
    pub session: Option<String>,
    /// The session of an earlier attempt to go on with.
    #[serde(default)]
    pub resume: Option<Resume>,
    /// What the session that is gone on with had cost by then, for agents that add up over sessions and do not say from
    /// where.
    #[serde(default)]
    pub cost_before: Option<Usd>,
    /// What the session's own counter of tokens showed by then, for agents that have one.
    #[serde(default)]
    pub meter_before: Option<Meter>,
    /// What models cost, for agents that do not say it.
    #[serde(default)]
    pub prices: Vec<Price>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub allowed_tools: Vec<String>,
    #[serde(default)]
    pub permission_mode: Option<String>,
    /// One answer at the end instead of a conversation.
    #[serde(default)]
    pub one_shot: bool,
    #[serde(default)]
    pub max_turns: Option<u32>,
    #[serde(default)]
    pub budget: Option<Usd>,
    #[serde(default)]
    pub budget_tokens: Option<u64>,
    pub timeout_secs: u64,
    /// Silent and without any work of the processor for so long, it counts as hung.
    pub idle_secs: u64,
    /// How long it may live on after its result.
    pub linger_secs: u64,
    /// Between the polite signal and the other one.
    pub grace_secs: u64,
    /// What must be there when it has ended.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// What must succeed in its worktree when it has ended.
    #[serde(default)]
    pub validate: Vec<String>,
    /// Where it may write, seen from `dir`; none: anywhere in it.
    #[serde(default)]
    pub writes: Vec<String>,
    /// The words of whoever started it, for whoever goes on.
    #[serde(default)]
    pub task: Option<String>,
    /// The file they came from, from the root, if it was one.
    #[serde(default)]
    pub task_file: Option<PathBuf>,
    /// How whoever started it wanted it to be run, without what the configuration adds.
    #[serde(default)]
    pub asked: Settings,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    pub session: String,
    /// Leaves that session as it is and begins a new one from it.
    pub fork: bool,
}

/// Why an agent is to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pub by: String,
    pub reason: String,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    pub end: AttemptEnd,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// What the agent said about its end, if it did.
    #[serde(default)]
    pub verdict: Option<AgentVerdict>,
    /// Its session, as it said itself.
    #[serde(default)]
    pub session_id: Option<String>,
    /// What the session's own counter of tokens showed last.
    #[serde(default)]
    pub meter: Option<Meter>,
    pub tokens: Tokens,
    #[serde(default)]
    pub cost_usd: Option<Usd>,
    pub turns: u64,
    pub duration_ms: u64,
    /// The end of what it printed to standard error.
    pub stderr_tail: String,
    /// Processes that had to be ended after it.
    pub ended_orphans: u32,
}

/// What made an attempt end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// By itself.
    Exited,
    /// It could not be started.
    NotStarted,
    TimedOut,
    /// Silent and idle, before its result.
    Hung,
    /// It had given its result and did not end.
    Lingered,
    OverBudget,
    OverTurns,
    /// Somebody asked for it.
    Stopped,
    /// The shim was killed.
    ShimLost,
}
