//! Stamps: when each field of an issue was last changed, and the history of its sets.
//!
//! Two copies of an issue that went separate ways (two branches, two clones, a replica and a tree) are brought together
//! without knowing where they parted:
//!
//! - each field is a register with a stamp, the time of its last change; the later one wins, and of two equal stamps
//!   the greater value, so that every order of merging gives the same issue;
//! - labels and dependencies are observed-remove sets: a log of additions, each with a tag of its own, and of removals
//!   of tags that were seen. Merging keeps the lines of both.
//!
//! Gates are a set of which each member is a register too: its stamp, under [`GATE`] and its name, says when it was last
//! asked for or taken away.
//!
//! Fields that this program does not know (a newer one wrote them, or somebody by hand) are registers like any other, of
//! which nobody here knows what they mean: they are kept as they are, and the later one wins.
//!
//! A stamp also has a check on its value, so that a field which somebody edited by hand is told from one that `jit` wrote.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use smol_str::SmolStr;
use xxhash_rust::xxh3::xxh3_64;

use crate::model::ids::AgentId;
use crate::model::issue::Issue;
use crate::model::time::Wall;

/// The fields of which there is one each, in the order they are written; `text` stands for the long description.
pub const FIELDS: &[&str] = &[
    "title", "type", "state", "priority", "parent", "actor", "blocked", "pivot", "gates", "text", "deleted",
];

/// The other fields that every `issue.json` has.
const BESIDE: &[&str] = &[
    "schema_version",
    "id",
    "created_at",
    "created_by",
    "updated_at",
    "revision",
    "stamps",
];

/// Begins the name of a single gate's stamp.
pub const GATE: &str = "gate:";

/// Whether a field of `issue.json` is one that this program does not know.
pub fn is_other(name: &str) -> bool {
    !FIELDS.contains(&name) && !BESIDE.contains(&name) && !name.starts_with(GATE)
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SetLine {
    /// `add` or `remove`.
    pub op: String,
    pub value: String,
    /// Names an addition. A removal says which one it removes.
    pub tag: String,
    pub agent_id: AgentId,
    pub at: Wall,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sheet {
    /// When a field was last changed; since the issue was created when it is not listed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stamps: BTreeMap<String, Wall>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<SetLine>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deps: Vec<SetLine>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// Fields that this program does not know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, Value>,
}

/// A field's value as JSON.
pub fn field(issue: &Issue, deleted: bool, name: &str) -> Value {
    let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    match name {
        "title" => issue.title.as_str().into(),
        "type" => issue.kind.as_str().into(),
        "state" => issue.state.as_str().into(),
        "priority" => issue.priority.as_str().into(),
        "parent" => issue.parent.as_ref().map_or(Value::Null, |id| id.as_str().into()),
        "actor" => issue.actor.as_str().into(),
        "blocked" => text(&issue.blocked),
        "pivot" => text(&issue.pivot),
        "gates" => issue.gates.clone().into(),
        "text" => text(&issue.text),
        "deleted" => deleted.into(),
        _ => Value::Null,
    }
}

/// Eight hex digits that tell whether a value is the one that was stamped.
pub fn check(value: &Value) -> String {
    let hash = xxh3_64(value.to_string().as_bytes());
    format!("{:08x}", hash >> 32)
}

impl Sheet {
    pub fn stamp(&self, issue: &Issue, name: &str) -> Wall {
        self.stamps.get(name).copied().unwrap_or(issue.created_at)
    }

    /// The value of a field that this program does not know; null when there is none.
    pub fn other(&self, name: &str) -> Value {
        self.others.get(name).cloned().unwrap_or_default()
    }

    /// The value of any field.
    pub fn value(&self, issue: &Issue, name: &str) -> Value {
        match FIELDS.contains(&name) {
            true => field(issue, self.deleted, name),
            false => self.other(name),
        }
    }

    /// The fields that this program does not know, also those that are no more.
    pub fn other_names(&self) -> impl Iterator<Item = &String> {
        let gone = self.stamps.keys().filter(|name| is_other(name));
        self.others.keys().chain(gone)
    }

    /// Stamps every field in which `new` differs from `old`.
    pub fn stamp_changes(&mut self, old: &Issue, old_deleted: bool, new: &Issue) {
        for name in FIELDS {
            if field(old, old_deleted, name) != field(new, self.deleted, name) {
                self.stamps.insert((*name).to_owned(), new.updated_at);
            }
        }
        for gate in old.gates.iter().chain(&new.gates) {
            if old.gates.contains(gate) != new.gates.contains(gate) {
                self.stamps.insert(format!("{GATE}{gate}"), new.updated_at);
            }
        }
    }
}

/// The values of a set: each of which some addition was not removed. Sorted.
pub fn members(lines: &[SetLine]) -> Vec<SmolStr> {
    let removed: BTreeSet<&str> = lines
        .iter()
        .filter(|line| line.op != "add")
        .map(|line| line.tag.as_str())
        .collect();
    let live: BTreeSet<&str> = lines
        .iter()
        .filter(|line| line.op == "add" && !removed.contains(line.tag.as_str()))
        .map(|line| line.value.as_str())
        .collect();
    live.into_iter().map(SmolStr::from).collect()
}

/// Makes `value` a member; false when it was one.
pub fn add(lines: &mut Vec<SetLine>, value: &str, tag: String, agent_id: &AgentId, at: Wall) -> bool {
    if members(lines).iter().any(|member| member == value) {
        return false;
    }
    lines.push(SetLine {
        op: "add".into(),
        value: value.into(),
        tag,
        agent_id: agent_id.clone(),
        at,
    });
    true
}

/// Makes `value` no member; false when it was none.
pub fn remove(lines: &mut Vec<SetLine>, value: &str, agent_id: &AgentId, at: Wall) -> bool {
    let gone: BTreeSet<String> = lines
        .iter()
        .filter(|line| line.op != "add")
        .map(|line| line.tag.clone())
        .collect();
    let seen: BTreeSet<String> = lines
        .iter()
        .filter(|line| line.op == "add" && line.value == value && !gone.contains(&line.tag))
        .map(|line| line.tag.clone())
        .collect();
    for tag in &seen {
        lines.push(SetLine {
            op: "remove".into(),
            value: value.into(),
            tag: tag.clone(),
            agent_id: agent_id.clone(),
            at,
        });
    }
    !seen.is_empty()
}

/// The lines of both, oldest first, whichever side they come from.
pub fn union(ours: &[SetLine], theirs: &[SetLine]) -> Vec<SetLine> {
    let all: BTreeSet<(Wall, &str, &SetLine)> = ours
        .iter()
        .chain(theirs)
        .map(|line| (line.at, line.tag.as_str(), line))
        .collect();
    all.into_iter().map(|(_, _, line)| line.clone()).collect()
}
