//! The results of an issue's gates: `.jit/gates/results/<issue>.json`.
//!
//! Format: `{"schema_version": 1, "issue_id", "results": {"<gate>": {…}}}`, the latest result of each gate.
//!
//! Invariants:
//! - A result records its tree and its command, and counts for no other ([`Results::standing`]).
//! - A gate that could not run has failed, with the reason.
//! - A file holds the results of the issue it is named after.
//! - Two branches that each ran a gate merge without a conflict, in any order. The files only report results; the log
//!   decides which result counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jit_core::model::ids::IssueId;
use jit_core::model::json::json_bytes;
use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;
use serde::{Deserialize, Serialize};

use super::json;
use crate::api::gates::{Gate, GateName, GateResult, Kind, Status};

/// The bytes of output that a result keeps.
pub const MAX_OUTPUT: usize = 16 << 10;
const MAX_FILE: u64 = 16 << 20;

/// The current state of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Passed,
    Failed,
    /// There is no result.
    Missing,
    /// The gate passed or failed on other content.
    OtherTree,
    /// The gate passed or failed with another definition.
    OtherGate,
}

/// The results of one issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    schema_version: u32,
    issue_id: IssueId,
    #[serde(deserialize_with = "json::unique")]
    results: BTreeMap<GateName, GateResult>,
}

impl Results {
    pub fn none(issue: &IssueId) -> Self {
        Self {
            schema_version: json::SCHEMA,
            issue_id: issue.clone(),
            results: BTreeMap::new(),
        }
    }

    /// Returns the path of the file in a worktree's `.jit`.
    pub fn path(jit: &Path, issue: &IssueId) -> PathBuf {
        jit.join("gates").join("results").join(format!("{issue}.json"))
    }

    /// Returns whether a path in a repository is such a file.
    pub fn is_path(path: &Path) -> bool {
        let folder = path
            .parent()
            .is_some_and(|folder| folder.ends_with("gates/results"));
        folder && path.extension().is_some_and(|end| end == "json")
    }

    /// Merges two files and returns the text: of two results of one gate the later counts.
    pub fn merge(path: &Path, ours: &[u8], theirs: &[u8]) -> Outcome<Vec<u8>> {
        let (mut merged, theirs): (Self, Self) = (json::decode(path, ours)?, json::decode(path, theirs)?);
        if merged.issue_id != theirs.issue_id {
            let message = format!(
                "{}: one side is about {}, the other about {}",
                path.display(),
                merged.issue_id,
                theirs.issue_id
            );
            return Err(Box::new(Refusal::new(Code::Config, message)));
        }
        let rank = |result: &GateResult| (result.at, json_bytes(result));
        for (gate, result) in theirs.results {
            let known = merged.results.get(&gate);
            if known.is_none_or(|known| rank(known) < rank(&result)) {
                merged.results.insert(gate, result);
            }
        }
        json::encode(path, MAX_FILE, &merged)
    }

    /// Reads the results of an issue; without a file there are none.
    pub fn load(jit: &Path, issue: &IssueId) -> Outcome<Self> {
        let path = Self::path(jit, issue);
        let Some(found) = json::load::<Self>(&path, MAX_FILE)? else {
            return Ok(Self::none(issue));
        };
        if found.issue_id == *issue {
            return Ok(found);
        }
        let message = format!("{}: `issue_id` says {}", path.display(), found.issue_id);
        Err(Box::new(Refusal::new(Code::Config, message)))
    }

    /// Replaces the gate's last result, unless that one is later, or is the same result recorded before. Other
    /// writers wait meanwhile.
    pub fn record(jit: &Path, issue: &IssueId, gate: &GateName, result: GateResult) -> Outcome<Self> {
        let (_folder, _lock) = json::lock(jit, &["gates", "results"])?;
        let mut results = Self::load(jit, issue)?;
        let kept = results.results.get(gate);
        if kept.is_some_and(|kept| kept.at > result.at || kept.is_same(&result)) {
            return Ok(results);
        }
        results.results.insert(gate.clone(), result);
        json::save(&Self::path(jit, issue), MAX_FILE, &results)?;
        Ok(results)
    }

    pub fn find(&self, gate: &str) -> Option<&GateResult> {
        self.results.get(gate)
    }

    /// Returns all results, by gate.
    pub fn iter(&self) -> impl Iterator<Item = (&GateName, &GateResult)> {
        self.results.iter()
    }

    /// Returns the state of a gate for this content. `gate` is the current definition; `None` if it is not defined.
    /// Without git (`tree` is `None`) the content counts as unchanged.
    pub fn standing(&self, name: &str, gate: Option<&Gate>, tree: Option<&str>) -> Standing {
        let (Some(result), Some(gate)) = (self.find(name), gate) else {
            return Standing::Missing;
        };
        let is_manual = result.kind == Kind::Manual;
        if is_manual != gate.is_manual() || result.command.as_deref() != gate.command() {
            Standing::OtherGate
        } else if tree.is_some() && result.tree.as_deref() != tree {
            Standing::OtherTree
        } else {
            match result.status {
                Status::Passed => Standing::Passed,
                Status::Failed => Standing::Failed,
            }
        }
    }
}
