//! The gate definitions: `.jit/gates/registry.json`, versioned with the tree.
//!
//! Format: `{"schema_version": 1, "gates": {"<name>": {"command", "manual", "timeout_secs", "description",
//! "required_for"}}}`, gates by name. Absent keys have the defaults of [`Gate`]; unknown keys are refused.
//!
//! Invariants:
//! - A gate that exists was checked: it has a command or is manual, never both, and it has a timeout.
//! - A name is one safe word, so that it can be part of a path, a line and a command.
//! - An undefined gate that an issue requires is still required. It does not pass because it is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jit_core::model::policy::Policy;
use jit_core::model::refusal::{Code, Details, Refusal};
use jit_store::Outcome;
use serde::{Deserialize, Serialize};

use super::json;
use crate::api::gates::{Gate, GateName};

const MAX_FILE: u64 = 1 << 20;

/// All gates of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    schema_version: u32,
    #[serde(deserialize_with = "json::unique")]
    gates: BTreeMap<GateName, Gate>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            schema_version: json::SCHEMA,
            gates: BTreeMap::new(),
        }
    }
}

impl Registry {
    /// Returns the path of the file in a worktree's `.jit`.
    pub fn path(jit: &Path) -> PathBuf {
        jit.join("gates").join("registry.json")
    }

    /// Reads the registry of a worktree's `.jit`; without a file there are no gates.
    pub fn load(jit: &Path) -> Outcome<Self> {
        Ok(json::load(&Self::path(jit), MAX_FILE)?.unwrap_or_default())
    }

    /// Returns whether a path in a repository is such a file.
    pub fn is_path(path: &Path) -> bool {
        path.ends_with("gates/registry.json")
    }

    /// Merges two registries, given their common ancestor; returns the text of the file. A gate that both sides
    /// changed differently is refused.
    pub fn merge(path: &Path, base: &[u8], ours: &[u8], theirs: &[u8]) -> Outcome<Vec<u8>> {
        let read = |bytes: &[u8]| match bytes {
            [] => Ok(Self::default()),
            bytes => Self::parse(path, bytes),
        };
        // An unreadable ancestor, for example a text merge of two such files, defines no gate.
        let base = read(base).unwrap_or_default();
        let (ours, theirs) = (read(ours)?, read(theirs)?);
        let names: BTreeSet<&GateName> = ours.gates.keys().chain(theirs.gates.keys()).collect();
        let (mut merged, mut differing) = (Self::default(), Vec::new());
        for name in names {
            let [b, o, t] = [&base, &ours, &theirs].map(|side| side.gates.get(name));
            let taken = match () {
                () if o == t || t == b => o,
                () if o == b => t,
                () => {
                    differing.push(name.as_str());
                    o
                }
            };
            merged
                .gates
                .extend(taken.map(|gate| (name.clone(), gate.clone())));
        }
        if !differing.is_empty() {
            let message = format!(
                "{}: both sides define {} differently",
                path.display(),
                differing.join(", ")
            );
            return Err(Box::new(Refusal::new(Code::Config, message).help(
                "choose between the lines that are marked in the file, then git add it",
            )));
        }
        json::encode(path, MAX_FILE, &merged)
    }

    /// Reads the registry of a commit, called `name` in refusals.
    pub fn parse(name: &Path, bytes: &[u8]) -> Outcome<Self> {
        json::decode(name, bytes)
    }

    /// Changes the registry; other writers wait meanwhile. If `change` refuses, nothing is written.
    pub fn edit<T>(jit: &Path, change: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let (_folder, _lock) = json::lock(jit, &["gates"])?;
        let before = Self::load(jit)?;
        let mut registry = before.clone();
        let done = change(&mut registry)?;
        if registry != before {
            json::save(&Self::path(jit), MAX_FILE, &registry)?;
        }
        Ok(done)
    }

    /// Adds a gate, or replaces the one of that name and returns it.
    pub fn define(&mut self, name: GateName, gate: Gate) -> Option<Gate> {
        self.gates.insert(name, gate)
    }

    pub fn remove(&mut self, name: &str) -> Outcome<Gate> {
        self.gates.remove(name).ok_or_else(|| self.unknown(name))
    }

    pub fn find(&self, name: &str) -> Option<&Gate> {
        self.gates.get(name)
    }

    /// Returns the gate of that name, or a refusal that lists the existing ones.
    pub fn require(&self, name: &str) -> Outcome<&Gate> {
        self.find(name).ok_or_else(|| self.unknown(name))
    }

    /// Returns all gates, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&GateName, &Gate)> {
        self.gates.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// Returns the gates that an issue of this type with these requested gates must pass. May contain undefined
    /// gates.
    pub fn required<'a>(&'a self, issue_type: &str, asked: &'a [String]) -> BTreeSet<&'a str> {
        let by_type = self
            .iter()
            .filter(|(_, gate)| gate.required_for.iter().any(|word| word == issue_type))
            .map(|(name, _)| name.as_str());
        by_type.chain(asked.iter().map(String::as_str)).collect()
    }

    /// Adds the gates that issue types require, and each gate's definition, to a policy.
    pub fn bind(&self, policy: &mut Policy) {
        for (name, gate) in self.iter() {
            let kinds = gate.required_for().iter();
            let required = kinds.map(|kind| (kind.clone(), name.to_string()));
            policy.gates_for.extend(required);
            policy.gates.push((name.to_string(), gate.definition()));
        }
    }

    fn unknown(&self, name: &str) -> Box<Refusal> {
        let shown: String = name.chars().take(80).collect();
        let known: Vec<&str> = self.gates.keys().map(GateName::as_str).collect();
        let message = match known.as_slice() {
            [] => format!("there is no gate {shown:?}; none is defined"),
            _ => format!("there is no gate {shown:?}; there are: {}", known.join(", ")),
        };
        Box::new(
            Refusal::new(Code::NotFound, message)
                .help("jit gate list")
                .help("jit gate define <name> --command <command>")
                .details(Details::Candidates(
                    known.into_iter().map(str::to_owned).collect(),
                )),
        )
    }
}
