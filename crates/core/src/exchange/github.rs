//! GitHub: `gh issue list --state all --limit 1000 --json
//! number,title,body,state,stateReason,author,labels,assignees,milestone,url,comments,createdAt,updatedAt,closedAt`.

use super::record::{Record, read};
use super::{ForeignIssue, Parsed, priority};
use crate::model::issue::{IssueState, Priority};

pub fn github(bytes: &[u8]) -> Parsed {
    read(bytes, |record, _| issue(record).map(Some))
}

fn issue(record: &mut Record<'_>) -> Result<ForeignIssue, String> {
    record.pass_over(&["id", "closed"]);
    let number = record
        .number_or_word("number")
        .filter(|number| number.bytes().all(|b| b.is_ascii_digit()))
        .ok_or("the record has no number")?;
    let title = record
        .text("title")
        .ok_or_else(|| format!("#{number} has no title"))?;
    let mut issue = ForeignIssue::new(&format!("gh-{number}"), &title);
    if issue.title.is_empty() {
        return Err(format!("#{number} has an empty title"));
    }
    let reason = record.word("stateReason").unwrap_or_default().to_uppercase();
    let state = record
        .word("state")
        .unwrap_or_else(|| "OPEN".to_owned())
        .to_uppercase();
    issue.state = match (state.as_str(), reason.as_str()) {
        ("CLOSED", "NOT_PLANNED" | "DUPLICATE") => IssueState::Rejected,
        ("CLOSED", _) => IssueState::Done,
        ("OPEN", _) => IssueState::Ready,
        _ => {
            issue.warn(format!("state {state:?} is taken as ready"));
            IssueState::Ready
        }
    };
    issue.labels = record.words("labels", "name");
    for label in &issue.labels {
        let plain = label.to_lowercase();
        match plain.rsplit([':', '/']).next().unwrap_or_default().trim() {
            "bug" => issue.kind = "bug".to_owned(),
            "enhancement" | "feature" => issue.kind = "feature".to_owned(),
            "epic" => issue.kind = "epic".to_owned(),
            _ => issue.priority = labelled_priority(&plain).unwrap_or(issue.priority),
        }
    }
    // Newer than labels, and meant.
    if let Some(mut kind) = record.record("issueType") {
        issue.kind = kind.word("name").map_or(issue.kind, |name| name.to_lowercase());
    }
    if let Some(mut parent) = record.record("parent") {
        issue.parent = parent
            .number_or_word("number")
            .map(|number| format!("gh-{number}"));
    }
    if let Some(mut author) = record.record("author") {
        issue.created_by = author.word("login");
    }
    let assignees = record.words("assignees", "login");
    issue.assignee = assignees.first().cloned();
    issue.created_at = record.time("createdAt");
    issue.updated_at = record.time("updatedAt");
    let body = record.text("body").unwrap_or_default().replace("\r\n", "\n");
    issue.describe(None, &body);
    let mut origin = Vec::new();
    if let Some(mut milestone) = record.record("milestone") {
        origin.extend(milestone.word("title").map(|title| format!("Milestone: {title}")));
    }
    origin.extend(record.word("url").map(|url| format!("From: {url}")));
    if !assignees.is_empty() {
        origin.push(format!("Assigned to: {}", assignees.join(", ")));
    }
    origin.extend(record.word("closedAt").map(|at| format!("Closed: {at}")));
    issue.describe(None, &origin.join("\n"));
    for mut comment in record.records("comments") {
        let author = comment
            .record("author")
            .and_then(|mut author| author.word("login"));
        let text = comment.text("body").unwrap_or_default().replace("\r\n", "\n");
        // A deleted account leaves no name behind; GitHub itself shows it as a ghost.
        issue.comment(
            author.as_deref().unwrap_or("ghost"),
            comment.time("createdAt"),
            &text,
        );
        record.noticed("a comment", comment);
    }
    Ok(issue)
}

/// `P1`, `critical` and `priority: high` say how much it matters; `effort: high` does not.
fn labelled_priority(label: &str) -> Option<Priority> {
    let named = label
        .strip_prefix("priority")
        .or_else(|| label.strip_prefix("prio"));
    match named {
        Some(level) => priority(level.trim_start_matches([':', '/', '-', '_', ' '])),
        None if matches!(label, "p0" | "p1" | "p2" | "p3" | "p4" | "critical" | "urgent") => priority(label),
        None => None,
    }
}
