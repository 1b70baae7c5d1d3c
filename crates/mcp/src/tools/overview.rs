//! The overview: ready issues, and the status of all agents.

use jit_engine::api::Reply;
use jit_engine::api::issues::Counts;
use jit_engine::api::issues::IssueFilter;
use jit_engine::api::issues::IssueReply;
use jit_engine::api::issues::IssueRequest;
use jit_engine::api::issues::Issues;
use jit_engine::api::overview::OverviewReply;
use jit_engine::api::overview::OverviewRequest;
use jit_engine::api::overview::StatusIssue;
use jit_store::Outcome;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Tool, ToolCall, issues, read, unexpected, without_blanks};

pub static READY: Tool = Tool {
    name: "ready",
    about: "Issues that can be taken now, best first.",
    takes: r#"{"label":{"type":"string"},"type":{"type":"string"},"limit":{"type":"integer","description":"default 10"}}"#,
    needs: &[],
    run: ready,
};

pub static STATUS: Tool = Tool {
    name: "status",
    about: "Who you are, what you and others hold, how far everything is, what needs a person.",
    takes: "{}",
    needs: &[],
    run: status,
};

/// Ready issues that are listed unless more are asked for.
const FEW: usize = 10;
/// Claims of others that are listed.
const OTHERS: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadyArgs {
    label: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    limit: Option<usize>,
}

fn ready(call: &mut ToolCall<'_>, given: JsonObject) -> Outcome<Value> {
    let asked: ReadyArgs = read(given)?;
    let filter = IssueFilter {
        label: asked.label,
        kind: asked.kind,
        ..IssueFilter::default()
    };
    let request = IssueRequest::Ready {
        filter,
        limit: Some(asked.limit.unwrap_or(FEW)),
    };
    match call.ask(request)? {
        Reply::Issues(IssueReply::Issues(Issues { issues })) => {
            let issues: Vec<Value> = issues.iter().map(|shown| issues::brief(&shown)).collect();
            Ok(json!({ "issues": issues }))
        }
        other => Err(unexpected(&other)),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusArgs {}

fn status(call: &mut ToolCall<'_>, given: JsonObject) -> Outcome<Value> {
    let StatusArgs {} = read(given)?;
    let status = match call.ask(OverviewRequest::Status)? {
        Reply::Overview(OverviewReply::Status(status)) => status,
        other => return Err(unexpected(&other)),
    };
    let listed = |issues: &[StatusIssue]| -> Vec<Value> {
        let one = |issue: &StatusIssue| {
            without_blanks(json!({ "id": issue.id, "title": issue.title, "why": issue.why }))
        };
        issues.iter().map(one).collect()
    };
    let (mine, others): (Vec<_>, Vec<_>) = status.active.iter().partition(|claim| claim.mine);
    let mine: Vec<Value> = mine
        .iter()
        .map(|held| (&held.claim.lease, &held.title))
        .map(|(lease, title)| json!({ "id": lease.issue_id, "title": title, "expires_at": lease.expires_at }))
        .collect();
    let held: Vec<Value> = others
        .iter()
        .take(OTHERS)
        .map(|held| &held.claim.lease)
        .map(|lease| json!({ "id": lease.issue_id, "agent_id": lease.agent_id, "expires_at": lease.expires_at }))
        .collect();
    let more_held = others.len().saturating_sub(OTHERS);
    Ok(without_blanks(json!({
        "agent_id": status.agent_id,
        "branch": status.branch,
        "counts": counted(&status.counts),
        "mine": mine,
        "held": held,
        "more_held": (more_held > 0).then_some(more_held),
        "ready": listed(&status.ready),
        "needs_attention": listed(&status.needs_attention),
    })))
}

/// The counts that are not zero.
fn counted(counts: &Counts) -> Value {
    let all = serde_json::to_value(counts).unwrap_or_default();
    match all {
        Value::Object(all) => all
            .into_iter()
            .filter(|(_, count)| count.as_u64() != Some(0))
            .collect(),
        other => other,
    }
}
