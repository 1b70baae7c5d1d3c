//! Gates: requests, replies, definitions and results.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jit_core::model::ids::IssuePrefix;
use jit_core::model::ids::{AgentId, IssueId, is_unprintable};
use jit_core::model::issue::{GateResult as RecordedResult, check_gate, text_digest};
use jit_core::model::time::Wall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::content::FileSource;
use crate::api::facts::TreeScope::IfMoved;
use crate::api::facts::{named, reads, replies, requests, writes};

requests! {
    /// Gates: what an issue must pass to be done.
    pub enum GateRequest {
        Define { gates: Vec<(GateName, Gate)> } => writes(IfMoved),
        /// Defines the gates of a preset. A timeout replaces those of the preset.
        DefinePreset {
            preset: String,
            timeout_secs: Option<u64>,
            required_for: Vec<String>,
        } => writes(IfMoved),
        /// Defines the gates of an export of `jit uninstall`. They were not written here, so none may replace another.
        DefineExported { file: FileSource } => writes(IfMoved),
        /// Deletes a gate definition from this tree.
        Undefine { name: String } => writes(IfMoved),
        /// Runs the named gate, or every automatic gate that the issue must pass.
        Run { issue: IssuePrefix, gate: Option<String> } => writes(named([issue.as_str()])),
        /// Records a judgement about a gate without a command.
        Judge { issue: IssuePrefix, gate: String, passed: bool, note: Option<String> } => writes(named([issue.as_str()])),
        /// Lists all gates; with an issue, the gates that apply to it and their state.
        List { issue: Option<IssuePrefix> } => reads(match issue {
            Some(issue) => named([issue.as_str()]),
            None => IfMoved,
        }),
    }
}

replies! {
    pub enum GateReply {
        Gates(Gates),
        Report(Box<GateReport>),
        Judged(RecordedResult),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Gates {
    pub gates: Vec<GateView>,
}

/// A gate definition. If the gate is not defined, only the name is set.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GateView {
    pub name: String,
    pub command: Option<String>,
    pub manual: bool,
    pub timeout_secs: Option<u64>,
    pub description: Option<String>,
    pub required_for: Vec<String>,
    /// Whether its command is trusted and may run; null if the gate has no command.
    pub trusted: Option<bool>,
    /// Set if the request named an issue.
    #[serde(flatten)]
    pub standing: Option<GateStanding>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateStatus {
    Passed,
    Failed,
    Missing,
}

/// The state of a gate for one issue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GateStanding {
    pub required: bool,
    pub status: GateStatus,
    /// The result is for other content than the current one, or for another command.
    pub stale: bool,
    /// Whether it allows the issue to become done: it passed, and the gate was not redefined since.
    pub counts: bool,
    pub at: Option<Wall>,
    pub by: Option<AgentId>,
    pub note: Option<String>,
}

/// Results of the gates that were run or judged.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    pub issue_id: IssueId,
    pub gates: Vec<Judgement>,
    /// Gates that the issue must pass and has not passed.
    pub missing: Vec<String>,
    /// The next command to run, if there is an obvious one.
    pub next: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    pub name: String,
    #[serde(flatten)]
    pub result: GateResult,
}

pub const DEFAULT_TIMEOUT_SECS: u64 = 600;

/// One day, the longest timeout of a gate.
pub const MAX_TIMEOUT_SECS: u64 = 86_400;

/// Longest command line, in bytes.
pub const MAX_COMMAND: usize = 16 << 10;

pub(crate) const MAX_DESCRIPTION: usize = 4 << 10;

pub(crate) const MAX_TYPE: usize = 64;

/// The reason why a gate definition is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadGate(String);

/// The name of a gate: a lower-case letter or digit, then at most 63 of those, `.`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct GateName(String);

impl GateName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for GateName {
    type Err = BadGate;

    fn from_str(text: &str) -> Result<Self, BadGate> {
        let shown: String = text.chars().take(80).collect();
        check_gate(text)
            .map(|()| Self(text.to_owned()))
            .map_err(|why| BadGate(format!("{shown:?} is not the name of a gate: {why}")))
    }
}

impl TryFrom<String> for GateName {
    type Error = BadGate;
    fn try_from(text: String) -> Result<Self, BadGate> {
        text.parse()
    }
}

impl fmt::Display for GateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for GateName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A gate definition that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Draft")]
pub struct Gate {
    /// The command to run; `None` for a manual gate.
    pub(crate) command: Option<String>,
    pub(crate) manual: bool,
    pub(crate) timeout_secs: u64,
    pub(crate) description: Option<String>,
    pub(crate) required_for: Vec<String>,
}

/// A gate definition that was not checked yet.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Draft {
    #[serde(default)]
    pub command: Option<String>,
    #[serde(default)]
    pub manual: bool,
    #[serde(default = "default_timeout")]
    pub timeout_secs: u64,
    #[serde(default)]
    pub description: Option<String>,
    /// Types of issues that must pass it.
    #[serde(default)]
    pub required_for: Vec<String>,
}

pub(crate) fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT_SECS
}

impl Draft {
    pub fn automatic(command: impl Into<String>) -> Self {
        Self {
            command: Some(command.into()),
            manual: false,
            timeout_secs: DEFAULT_TIMEOUT_SECS,
            description: None,
            required_for: Vec::new(),
        }
    }

    pub fn manual() -> Self {
        Self {
            command: None,
            manual: true,
            ..Self::automatic("")
        }
    }
}

impl TryFrom<Draft> for Gate {
    type Error = BadGate;

    fn try_from(draft: Draft) -> Result<Self, BadGate> {
        let bad = |why: String| Err(BadGate(why));
        match (&draft.command, draft.manual) {
            (None, false) => return bad("a gate needs a command, or must be manual".to_owned()),
            (Some(_), true) => return bad("a manual gate has no command".to_owned()),
            (Some(command), false) => check_command(command)?,
            (None, true) => {}
        }
        if !(1..=MAX_TIMEOUT_SECS).contains(&draft.timeout_secs) {
            return bad(format!(
                "timeout_secs is {}, and must be from 1 to {MAX_TIMEOUT_SECS}",
                draft.timeout_secs
            ));
        }
        if draft
            .description
            .as_ref()
            .is_some_and(|text| text.len() > MAX_DESCRIPTION)
        {
            return bad(format!("the description is longer than {MAX_DESCRIPTION} bytes"));
        }
        let is_type = |word: &String| {
            (1..=MAX_TYPE).contains(&word.len())
                && !word.chars().any(|c| c.is_whitespace() || is_unprintable(c))
        };
        if let Some(word) = draft.required_for.iter().find(|word| !is_type(word)) {
            let shown: String = word.chars().take(80).collect();
            return bad(format!("required_for: {shown:?} is not a type of issues"));
        }
        let mut required_for = draft.required_for;
        required_for.sort();
        required_for.dedup();
        Ok(Self {
            command: draft.command,
            manual: draft.manual,
            timeout_secs: draft.timeout_secs,
            description: draft.description,
            required_for,
        })
    }
}

pub(crate) fn check_command(command: &str) -> Result<(), BadGate> {
    let why = if command.trim().is_empty() {
        "the command is empty".to_owned()
    } else if command.len() > MAX_COMMAND {
        format!("the command is longer than {MAX_COMMAND} bytes")
    } else if command.contains('\0') {
        "the command contains a zero byte".to_owned()
    } else {
        return Ok(());
    };
    Err(BadGate(why))
}

impl Gate {
    pub fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    pub fn is_manual(&self) -> bool {
        self.manual
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_secs)
    }

    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Identifies the definition by the command that must succeed. Changing the timeout or the description does not
    /// make it a different gate.
    pub fn definition(&self) -> String {
        Self::definition_of(self.command())
    }

    /// Returns the same digest for a gate that runs this command, or for a manual gate.
    pub fn definition_of(command: Option<&str>) -> String {
        match command {
            Some(command) => text_digest(format!("command\0{command}").as_bytes()),
            None => text_digest(b"manual"),
        }
    }

    /// Types of issues that must pass it.
    pub fn required_for(&self) -> &[String] {
        &self.required_for
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Passed,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Automatic,
    Manual,
}

/// The result of one gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateResult {
    pub status: Status,
    pub kind: Kind,
    pub by: AgentId,
    pub at: Wall,
    #[serde(default)]
    pub duration_ms: Option<u64>,
    #[serde(default)]
    pub exit_code: Option<i32>,
    #[serde(default)]
    pub signal: Option<i32>,
    #[serde(default)]
    pub timed_out: bool,
    /// Why the gate failed.
    #[serde(default)]
    pub reason: Option<String>,
    /// Note of the person or agent that judged the gate.
    #[serde(default)]
    pub note: Option<String>,
    #[serde(default)]
    pub command: Option<String>,
    /// The content that was checked; `None` if it is not known.
    #[serde(default)]
    pub tree: Option<String>,
    /// The last part of the output.
    #[serde(default)]
    pub output: String,
    #[serde(default)]
    pub output_truncated: bool,
    /// The file with the whole output, on the machine where the gate ran.
    #[serde(default)]
    pub output_file: Option<String>,
}

impl GateResult {
    /// Makes the result of a run.
    pub fn automatic(command: &str, ran: &Ran, by: AgentId, at: Wall, tree: Option<String>) -> Self {
        let reason = ran.reason();
        Self {
            status: match reason {
                None => Status::Passed,
                Some(_) => Status::Failed,
            },
            kind: Kind::Automatic,
            by,
            at,
            duration_ms: Some(ran.duration_ms),
            exit_code: ran.exit_code,
            signal: ran.signal,
            timed_out: ran.timed_out,
            reason,
            note: None,
            command: Some(command.to_owned()),
            tree,
            output: ran.tail_text(),
            output_truncated: ran.truncated,
            output_file: None,
        }
    }

    /// Whether both are the same result: same time, agent and status. Other fields may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.at, &self.by, self.status) == (other.at, &other.by, other.status)
    }

    /// Makes a failed result for a gate that could not run.
    pub fn impossible(reason: impl Into<String>, by: AgentId, at: Wall) -> Self {
        Self {
            kind: Kind::Automatic,
            reason: Some(reason.into()),
            ..Self::manual(Status::Failed, None, by, at, None)
        }
    }

    /// Makes the result of a manual judgement.
    pub fn manual(status: Status, note: Option<String>, by: AgentId, at: Wall, tree: Option<String>) -> Self {
        Self {
            status,
            kind: Kind::Manual,
            by,
            at,
            duration_ms: None,
            exit_code: None,
            signal: None,
            timed_out: false,
            reason: None,
            note,
            command: None,
            tree,
            output: String::new(),
            output_truncated: false,
            output_file: None,
        }
    }
}

impl From<GateName> for String {
    fn from(name: GateName) -> String {
        name.0
    }
}

/// The outcome of running a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ran {
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    pub timed_out: bool,
    pub duration_ms: u64,
    /// Why the command did not start.
    pub spawn_error: Option<String>,
    /// The last part of the output.
    pub tail: Vec<u8>,
    /// The output is longer than `tail`.
    pub truncated: bool,
    /// The output is longer than `MAX_OUTPUT_FILE` of the gates room, or the file could not be written.
    pub file_cut: bool,
    /// Why the output file could not be written.
    pub output_error: Option<String>,
    /// Process ids that could not be ended.
    pub survivors: Vec<u32>,
}

impl Ran {
    pub fn passed(&self) -> bool {
        self.reason().is_none()
    }

    /// Why the command failed; `None` if it passed.
    pub fn reason(&self) -> Option<String> {
        if let Some(error) = &self.spawn_error {
            return Some(format!("it could not be started: {error}"));
        }
        if self.timed_out {
            return Some("it did not end in time and was ended".to_owned());
        }
        if let Some(signal) = self.signal {
            return Some(format!("it was ended by signal {signal}"));
        }
        match self.exit_code {
            Some(0) => None,
            Some(126) => Some("exit code 126: the command cannot be executed".to_owned()),
            Some(127) => Some("exit code 127: the command was not found".to_owned()),
            Some(code @ 129..=192) => Some(format!(
                "exit code {code}: probably ended by signal {}",
                code - 128
            )),
            Some(code) => Some(format!("exit code {code}")),
            None => Some("it is not known how it ended".to_owned()),
        }
    }

    /// Returns the last part of the output as text.
    pub fn tail_text(&self) -> String {
        let broken = self
            .tail
            .iter()
            .take(3)
            .take_while(|b| **b & 0xc0 == 0x80)
            .count();
        // The cut may have split a character.
        let skip = if self.truncated { broken } else { 0 };
        String::from_utf8_lossy(self.tail.get(skip..).unwrap_or_default()).into_owned()
    }
}
