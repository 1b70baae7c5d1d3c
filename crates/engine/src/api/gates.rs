//! What is answered about gates.

use jit_core::ids::{AgentId, IssueId};
use jit_core::time::Wall;
use serde::Serialize;

use crate::gates::GateResult;

/// A gate as it is defined; all but the name is absent where nobody defined it.
#[derive(Debug, Clone, Serialize)]
pub struct GateView {
    pub name: String,
    pub command: Option<String>,
    pub manual: bool,
    pub timeout_secs: Option<u64>,
    pub description: Option<String>,
    pub required_for: Vec<String>,
    /// Whether its command may run; null when it has none.
    pub trusted: Option<bool>,
    /// Where an issue was asked about.
    #[serde(flatten)]
    pub standing: Option<GateStanding>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GateStatus {
    Passed,
    Failed,
    Missing,
}

/// How a gate stands for an issue.
#[derive(Debug, Clone, Serialize)]
pub struct GateStanding {
    pub required: bool,
    pub status: GateStatus,
    /// It was found on other content than is here now, or with another command.
    pub stale: bool,
    /// Whether it lets the issue be done: it passed, and the gate was not defined anew since.
    pub counts: bool,
    pub at: Option<Wall>,
    pub by: Option<AgentId>,
    pub note: Option<String>,
}

/// What came of the gates that were run or judged.
#[derive(Debug, Clone, Serialize)]
pub struct GateReport {
    pub issue_id: IssueId,
    pub gates: Vec<Judgement>,
    /// Gates that the issue has to pass and has not.
    pub missing: Vec<String>,
    /// The command to run next, where that is plain.
    pub next: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Judgement {
    pub name: String,
    #[serde(flatten)]
    pub result: GateResult,
}
