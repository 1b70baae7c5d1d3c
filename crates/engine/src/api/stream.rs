//! Subscriptions: a surface names what it follows, and gets one item after the other.
//!
//! What must hold:
//! - A subscription and its items travel as JSON both ways.
//! - An item that a subscriber can resume behind has a position, see [`StreamItem::position`].

use std::borrow::Cow;

use jit_agents::event::EventLine;
use jit_core::log::event::Stamped;
use jit_core::log::line;
use jit_core::model::ids::{AgentId, IssueId};
use jit_core::model::time::Wall;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, requests, writes};
use crate::api::landing::Picture;
use crate::api::units::UnitReply;

requests! {
    /// A subscription. With `follow`, later items are passed on as they occur. Without it, the subscription ends with the
    /// last item that exists.
    pub enum Subscribe {
        /// Events of the log, from the one behind the sequence `after`.
        Events {
            since: Option<Wall>,
            /// Types (`claim.acquired`) or groups (`claim`); none means all.
            kinds: Vec<String>,
            after: u64,
            follow: bool,
        } => reads(Nothing),
        /// Entries of the changelog, from the one behind the sequence `after`.
        Changelog { since: Option<Wall>, after: u64, follow: bool } => reads(Nothing),
        /// Conflicts between worktrees, each time they change. Each change is also written to the log.
        Conflicts {
            into: Option<String>,
            /// Time between two looks where the system does not report changes.
            interval_secs: u64,
        } => writes(Nothing),
        /// Lines of an attempt, from the one behind the line `after`. No attempt means the last one.
        AttemptLog { unit: Option<String>, attempt: Option<u32>, after: u64, follow: bool } => reads(Nothing),
        /// Lines of the last attempt of a unit. It ends with the unit, once the outcome of the attempt is in the log.
        AttemptEnd { unit: Option<String> } => writes(Nothing),
        /// Units, each time they change. With `settle`, attempts that ended are recorded first.
        Units { unit: Option<String>, all: bool, settle: bool } => writes(Nothing).writes_if(*settle),
    }
}

/// An item of a subscription.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamItem {
    Event(Box<LoggedEvent>),
    Work(Box<WorkEntry>),
    Conflicts(Box<Picture>),
    AttemptLine(Box<AttemptLine>),
    Units(Box<UnitReply>),
    /// A finding beside the subscription, such as a lease that expires soon. Warnings come before all other items.
    Warning(String),
}

impl StreamItem {
    /// Returns the value for `after` with which a subscription goes on behind this item.
    pub fn position(&self) -> Option<u64> {
        match self {
            Self::Event(event) => Some(event.0.sequence),
            Self::Work(entry) => entry.sequence,
            Self::AttemptLine(line) => Some(line.number),
            Self::Conflicts(_) | Self::Units(_) | Self::Warning(_) => None,
        }
    }
}

/// How a subscription ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StreamEnd {
    /// There are no further items.
    Complete,
    /// The subscriber wanted no further items.
    Stopped,
}

/// An event of the log. As JSON it is the unified event: a line of the log without `durable`, `prev` and `sum`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEvent(pub Stamped);

impl LoggedEvent {
    /// Returns the unified event.
    pub fn value(&self) -> serde_json::Value {
        serde_json::from_slice(&line::encode_event(&self.0)).unwrap_or_default()
    }
}

impl Serialize for LoggedEvent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(to)
    }
}

impl<'de> Deserialize<'de> for LoggedEvent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        let bytes = serde_json::to_vec(&value).map_err(D::Error::custom)?;
        line::decode_event(&bytes).map(Self).map_err(D::Error::custom)
    }
}

impl JsonSchema for LoggedEvent {
    fn schema_name() -> Cow<'static, str> {
        "LoggedEvent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "object",
            "required": ["schema_version", "sequence", "type", "timestamp", "actor", "payload", "tx"],
            "properties": {
                "schema_version": { "type": "integer" },
                "sequence": { "type": "integer" },
                "type": { "type": "string" },
                "timestamp": { "type": "string" },
                "actor": { "type": "object" },
                "payload": { "type": "object" },
                "tx": { "type": "array", "items": { "type": "integer" } },
                "request": { "type": "object" }
            }
        })
    }
}

/// An entry of the changelog, with the fields of a line in `changelog.log`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkEntry {
    pub timestamp: Wall,
    pub worker: AgentId,
    pub worker_type: String,
    pub action: String,
    pub activity_id: Option<IssueId>,
    pub task_id: Option<IssueId>,
    pub details: Option<String>,
    /// `None` for an entry that another program appended to the file: the log does not have it.
    pub sequence: Option<u64>,
}

/// A line that an agent's shim recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptLine {
    /// Counted from 1.
    pub number: u64,
    #[schemars(with = "serde_json::Value")]
    pub line: EventLine,
}
