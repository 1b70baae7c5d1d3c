//! `jit claim history`: lists the claim records: each lease, its holder, and its end.

use jit_core::model::ids::{AgentId, IssuePrefix};
use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;
use serde_json::Value;

use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only this issue
    #[arg(long, value_name = "ISSUE")]
    issue: Option<IssuePrefix>,
    /// Only what this agent held or did
    #[arg(long, value_name = "AGENT")]
    agent: Option<AgentId>,
    /// The newest so many
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let Flags { issue, agent, limit } = flags;
    call.ask(ClaimRequest::History { issue, agent, limit })
}

/// Formats one record as a line of text.
pub fn line(record: &Value) -> String {
    let field = |name: &str| clean_line(record[name].as_str().unwrap_or_default());
    let at = [
        "renewed_at",
        "released_at",
        "evicted_at",
        "transferred_at",
        "acquired_at",
    ];
    let at = at
        .iter()
        .find_map(|name| record[*name].as_str())
        .unwrap_or_default();
    let reason = record["reason"]
        .as_str()
        .map_or(String::new(), |why| format!("  ({})", clean_line(why)));
    let (sequence, op) = (record["sequence"].as_u64().unwrap_or(0), field("op"));
    format!(
        "{sequence:>6}  {at:<24}  {op:<11}  {}  {}{reason}\n",
        field("issue_id"),
        field("agent_id")
    )
}
