//! The registries of sessions and file locks that other programs read and write: `agent_sessions.json` and
//! `agent_lock.json`, version 3.0.0 (F1, F2, F8).
//!
//! What must hold:
//! - the types below are the format: the JSON Schemas are made from them, and nothing else says what a field is;
//! - every field that may be null is written, as null when there is nothing to say. `task_id` may not be null in this
//!   format, so it is left out instead; as input null is taken for absent;
//! - fields that nobody here knows are kept when a record is written again.
//!
//! Modules: `check` tells what is wrong with a file, `migrate` brings one from version 2.0.0 to 3.0.0, `json` knows the
//! line of each value.

pub mod check;
mod json;
pub mod migrate;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::scope::LockScope;
use crate::model::time::Wall;

/// The version of the format that is written here.
pub const VERSION: &str = "3.0.0";

/// Types of agents that the format names. Settings can add others.
pub const AGENT_TYPES: &[&str] = &[
    "developer",
    "bug-hunter",
    "security-auditor",
    "code-quality",
    "test-coverage",
    "contracts-reviewer",
    "accessibility-auditor",
];

/// Agents at work, by session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Agent Sessions Registry")]
pub struct Sessions {
    #[serde(default)]
    pub sessions: BTreeMap<String, SessionRecord>,
    #[serde(default)]
    pub metadata: SessionsMetadata,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SessionsMetadata {
    /// When the file was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_updated: Option<Wall>,
    /// How many sessions are active.
    #[serde(default)]
    #[schemars(with = "u64", extend("minimum" = 0))]
    pub active_count: u64,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// One agent, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRecord {
    /// The session, and its key in the map.
    #[schemars(regex(pattern = r"^sess-[a-zA-Z0-9]{8}$"))]
    pub session_id: String,
    /// Which agent it is.
    pub agent_id: String,
    /// The role of the agent.
    #[schemars(extend("enum" = AGENT_TYPES))]
    pub agent_type: String,
    /// The task it works on, when that has an id of this form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^T-\d{3}$"))]
    pub task_id: Option<String>,
    /// The pull request its work goes into.
    #[schemars(regex(pattern = r"^PR-\d{3}$"))]
    pub pr_group: Option<String>,
    /// Its worktree; null when it works in the only one.
    pub worktree_path: Option<String>,
    /// The branch checked out there.
    pub branch: Option<String>,
    /// How far its locks reach at least.
    #[serde(default = "global")]
    #[schemars(with = "String", extend("enum" = LockScope::ALL))]
    pub lock_scope: LockScope,
    /// When it began.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started_at: Wall,
    /// When it last gave a sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_heartbeat: Option<Wall>,
    /// How it stands.
    pub status: RecordedSessionStatus,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

fn global() -> LockScope {
    LockScope::Global
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordedSessionStatus {
    Active,
    Completed,
    Failed,
    Stale,
}

/// Files that are locked, by lock key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Agent Lock Registry")]
pub struct Locks {
    #[serde(default)]
    pub locks: BTreeMap<String, LockRecord>,
    #[serde(default)]
    pub metadata: LocksMetadata,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct LocksMetadata {
    /// When the file was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_updated: Option<Wall>,
    /// How many locks there are.
    #[serde(default)]
    #[schemars(with = "u64", extend("minimum" = 0))]
    pub active_locks: u64,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// One file, directory or glob that somebody has locked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockRecord {
    /// `{worktree_path}:{file_path}`, or `{file_path}` of a global lock.
    pub lock_key: String,
    /// The locked path, relative to the root of the worktree.
    pub file_path: String,
    /// How far the lock reaches.
    #[schemars(with = "String", extend("enum" = LockScope::ALL))]
    pub lock_scope: LockScope,
    /// The worktree it holds in; null when it holds in all.
    pub worktree_path: Option<String>,
    /// The pull request of its holder; null when the lock is global.
    #[schemars(regex(pattern = r"^PR-\d{3}$"))]
    pub pr_group: Option<String>,
    /// The branch of its holder; null when the lock is global.
    pub branch: Option<String>,
    /// The agent that holds the lock.
    pub agent_id: String,
    /// The role of the holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub agent_type: Option<String>,
    /// The task the holder works on, when that has an id of this form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^T-\d{3}$"))]
    pub task_id: Option<String>,
    /// Since when.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub acquired_at: Wall,
    /// Until when.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub expires_at: Wall,
    /// Whether others may hold it at the same time.
    pub lock_type: LockMode,
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LockMode {
    Exclusive,
    Shared,
}

impl LockMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

/// The key of a lock in the registry.
pub fn lock_key(worktree_path: Option<&str>, file_path: &str) -> String {
    match worktree_path {
        Some(worktree) => format!("{worktree}:{file_path}"),
        None => file_path.to_owned(),
    }
}

/// Schemas that [`schema`] can make.
pub const SCHEMAS: &[&str] = &["agent_sessions", "agent_lock"];

/// The JSON Schema (draft 7) of this name. `agent_types` are those that settings add.
pub fn schema(name: &str, agent_types: &[String]) -> Option<Value> {
    let mut settings = schemars::generate::SchemaSettings::draft07();
    settings.inline_subschemas = true;
    let generator = settings.into_generator();
    let schema = match name {
        "agent_sessions" => generator.into_root_schema_for::<Sessions>(),
        "agent_lock" => generator.into_root_schema_for::<Locks>(),
        _ => return None,
    };
    let mut value = schema.to_value();
    let types = value.pointer_mut("/properties/sessions/additionalProperties/properties/agent_type/enum");
    if let Some(Value::Array(known)) = types {
        for name in agent_types {
            let name = Value::from(name.as_str());
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests;
