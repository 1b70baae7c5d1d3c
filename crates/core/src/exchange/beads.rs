//! Beads: `.beads/issues.jsonl`, or what `bd list --json` prints.

use std::collections::HashMap;

use super::record::{Record, read};
use super::{ForeignIssue, Parsed, priority};
use crate::model::time::Wall;

pub fn beads(bytes: &[u8]) -> Parsed {
    let mut deleted = Deleted::new();
    let mut parsed = read(bytes, |record, line| issue(record, &mut deleted, line));
    // Of a record and a tombstone the newer counts, too; a tombstone where nothing tells.
    let mut both = Vec::new();
    parsed.issues.retain(|issue| {
        let key = issue.key.to_lowercase();
        let Some(&(at, line)) = deleted.get(&key) else {
            return true;
        };
        both.push((line, issue.key.clone()));
        let lives = issue.updated_at.or(issue.created_at) > at;
        if lives {
            deleted.remove(&key);
        }
        lives
    });
    for (line, key) in both {
        let what = format!("{key} occurs more than once, also as deleted: the newest is kept");
        parsed.problem(None, line, what);
    }
    let is_gone = |key: &String| deleted.contains_key(&key.to_lowercase());
    for issue in &mut parsed.issues {
        issue.depends_on.retain(|key| !is_gone(key));
        issue.parent.take_if(|key| is_gone(key));
    }
    parsed
}

/// When each was deleted, and on which line that stands.
type Deleted = HashMap<String, (Option<Wall>, usize)>;

fn issue(
    record: &mut Record<'_>,
    deleted: &mut Deleted,
    line: usize,
) -> Result<Option<ForeignIssue>, String> {
    // Counts, and what beads keeps for itself.
    record.pass_over(&[
        "comment_count",
        "compaction_level",
        "content_hash",
        "dependency_count",
        "dependent_count",
        "original_size",
        "source_repo",
    ]);
    // Newer exports also carry records that are no issues.
    if let Some(other) = record.word("_type").filter(|name| name != "issue") {
        return Err(format!("the record is no issue but of type {other}"));
    }
    let key = record.word("id").ok_or("the record has no id")?;
    let status = record.word("status").unwrap_or_else(|| "open".to_owned());
    if status == "tombstone" || record.text("deleted_at").is_some_and(|at| !at.is_empty()) {
        let at = record.time("deleted_at").or_else(|| record.time("updated_at"));
        let known = deleted.entry(key.to_lowercase()).or_insert((at, line));
        *known = (at, line).max(*known);
        return Ok(None);
    }
    let title = record
        .text("title")
        .ok_or_else(|| format!("{key} has no title"))?;
    let mut issue = ForeignIssue::new(&key, &title);
    if issue.title.is_empty() {
        return Err(format!("{key} has an empty title"));
    }
    issue.set_status("status", &status);
    if let Some(number) = record.number_or_word("priority") {
        match priority(&number) {
            Some(priority) => issue.priority = priority,
            None => issue.warn(format!("priority {number:?} is taken as normal")),
        }
    }
    if let Some(kind) = record.word("issue_type").or_else(|| record.word("type")) {
        issue.kind = kind;
    }
    issue.assignee = record.word("assignee");
    issue.labels = record.words("labels", "label");
    issue.created_at = record.time("created_at");
    issue.created_by = record.word("created_by");
    issue.updated_at = record.time("updated_at");
    for (field, heading) in [
        ("description", None),
        ("design", Some("Design")),
        ("acceptance_criteria", Some("Acceptance criteria")),
        ("notes", Some("Notes")),
        ("close_reason", Some("Why it was closed")),
    ] {
        let text = record.text(field).unwrap_or_default();
        issue.describe(heading, &text);
    }
    dependencies(record, &mut issue);
    if issue.parent.is_none() {
        issue.parent = record.word("parent");
    }
    issue.deferred = record.time("defer_until");
    let estimate = record.number_or_word("estimated_minutes");
    issue.also([
        ("Assigned to", issue.assignee.clone()),
        ("Owner", record.word("owner")),
        ("Due", record.word("due_at")),
        ("Deferred until", issue.deferred.map(|at| at.to_string())),
        ("External reference", record.word("external_ref")),
        ("Estimate", estimate.map(|minutes| format!("{minutes} minutes"))),
        ("Closed", record.word("closed_at")),
    ]);
    for mut comment in record.records("comments") {
        let text = comment.text("text").unwrap_or_default();
        let author = comment.word("author").unwrap_or_default();
        issue.comment(&author, comment.time("created_at"), &text);
        record.noticed("a comment", comment);
    }
    Ok(Some(issue))
}

fn dependencies(record: &mut Record<'_>, issue: &mut ForeignIssue) {
    let mut links = Vec::new();
    for mut dependency in record.records("dependencies") {
        let Some(to) = dependency.word("depends_on_id") else {
            issue.warn("a dependency does not say on what: left out".to_owned());
            continue;
        };
        let kind = dependency.word("type").unwrap_or_else(|| "blocks".to_owned());
        match kind.as_str() {
            "blocks" | "conditional-blocks" | "waits-for" => issue.depends_on.push(to),
            "parent-child" => issue.parent = Some(to),
            _ => links.push(format!("- {kind}: {to}")),
        }
    }
    // Other links mean nothing to the order of work, but somebody wrote them down.
    issue.describe(Some("Links"), &links.join("\n"));
}
