//! Requests and replies of the checks. They work with a damaged log and with broken settings.

use std::borrow::Cow;
use std::path::Path;

use jit_core::model::ids::IssueId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests, writes};
use crate::api::path::ApiPath;

requests! {
    /// Checks and repairs.
    pub enum DoctorRequest {
        /// Runs all checks of the installation.
        Check => reads(Nothing),
        /// Compares every file with the log, and repairs issue files that are behind it. With `write_missing`, also
        /// writes issues that no worktree and no branch has.
        Validate { write_missing: bool } => writes(Nothing),
        /// Whether this branch contains the tip of the main branch.
        Divergence => reads(Nothing),
        /// Checks one file by the schema of this name.
        CheckFile { schema: String, file: ApiPath } => reads(Nothing),
        /// The names of all schemas.
        Schemas => reads(Nothing),
        Schema { name: String } => reads(Nothing),
        /// Converts a registry of sessions or locks from version 2.0.0 to 3.0.0.
        Migrate { file: ApiPath, dry_run: bool } => writes(Nothing).writes_if(!dry_run),
        /// Repairs the store, and salvages the rest of a damaged log.
        Recover => writes(Nothing),
    }
}

replies! {
    pub enum DoctorReply {
        Checks(Checks),
        Validated(Validated),
        Divergence(Divergence),
        RegistryErrors(RegistryErrors),
        PlanErrors(PlanErrors),
        Schemas(Schemas),
        Schema(serde_json::Value),
        Migrated(MigratedFile),
        Recovered(Recovered),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checks {
    /// No check failed.
    pub ok: bool,
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    /// Works, but should be reported.
    Warn,
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    pub name: Cow<'static, str>,
    pub status: CheckStatus,
    pub message: String,
    pub help: Option<String>,
}

/// The result of comparing every file with the log.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Validated {
    pub issues: u64,
    pub leases: u64,
    pub lines: u64,
    /// Issues whose files were behind the log and were rewritten.
    pub mended: Vec<IssueId>,
    /// Observations that may be correct, but should be reported.
    pub notes: Vec<String>,
    /// There is no problem.
    pub ok: bool,
    pub problems: Vec<Problem>,
    pub segments: u64,
}

/// A problem of the log, of the settings, or of an issue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Problem {
    Log(LogProblem),
    Issue(IssueProblem),
    Config(ConfigProblem),
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogProblem {
    pub check: Cow<'static, str>,
    /// The next command that meets the problem repairs it.
    pub heals: bool,
    pub help: String,
    pub message: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssueProblem {
    pub check: Cow<'static, str>,
    pub file: Option<ApiPath>,
    pub heals: bool,
    pub help: String,
    /// Counted from 1; null means the whole file.
    pub line: Option<usize>,
    pub message: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigProblem {
    pub check: Cow<'static, str>,
    pub column: Option<usize>,
    pub file: Option<ApiPath>,
    pub heals: bool,
    pub help: String,
    pub line: Option<usize>,
    pub message: String,
}

/// The relation of HEAD to the main branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Divergence {
    pub ok: bool,
    pub branch: Option<String>,
    /// The ref it was compared with; null if there is none.
    pub against: Option<String>,
    /// Commits that only HEAD has, and that only the main branch has.
    pub ahead: u64,
    pub behind: u64,
    pub message: String,
    pub help: Vec<String>,
}

/// The errors of a registry file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RegistryErrors {
    pub errors: Vec<RegistryError>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct RegistryError {
    pub fix: String,
    pub line: usize,
    /// JSON pointer of the value; empty means the whole file.
    pub path: String,
    pub problem: String,
}

/// The errors of a plan.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlanErrors {
    pub errors: Vec<PlanError>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlanError {
    pub column: u64,
    pub line: u64,
    /// For example `units[2].depends_on[0]`; empty means the whole file.
    pub path: String,
    pub problem: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Schemas {
    pub schemas: Vec<Cow<'static, str>>,
}

/// The result of a migration.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MigratedFile {
    /// The file with the old content, if the file was replaced.
    pub backup: Option<ApiPath>,
    pub changed: bool,
    pub dry_run: bool,
    pub file: ApiPath,
    /// JSON pointers of the entries that were migrated.
    pub migrated: Vec<String>,
    pub notes: Vec<EntryNote>,
    pub problems: Vec<EntryProblem>,
    /// The number of entries that had the new version already.
    pub untouched: usize,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EntryNote {
    pub note: String,
    pub path: String,
}

/// An entry that could not be migrated.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EntryProblem {
    pub path: String,
    pub problem: String,
}

/// The state of the store after its repair.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Recovered {
    /// Lines were lost. A new log begins with what survived.
    Salvaged {
        backup: String,
        issues: u64,
        leases: u64,
        lost: u64,
        salvaged: bool,
    },
    Sound {
        lines: u64,
        mended: Vec<String>,
        salvaged: bool,
    },
}

impl PlanError {
    /// The problem as one line.
    pub fn shown(&self, file: &Path) -> String {
        let place = format!("{}:{}:{}", file.display(), self.line, self.column);
        match self.path.is_empty() {
            true => format!("{place}: {}", self.problem),
            false => format!("{place}: {}: {}", self.path, self.problem),
        }
    }
}
