//! Beads: `.beads/issues.jsonl`, or what `bd list --json` prints.

use std::collections::HashSet;

use super::record::{Record, read};
use super::{Imported, Parsed, priority};

pub fn beads(bytes: &[u8]) -> Parsed {
    let mut deleted = HashSet::new();
    let mut parsed = read(bytes, |record, _| issue(record, &mut deleted));
    for issue in &mut parsed.issues {
        issue.depends_on.retain(|key| !deleted.contains(key));
        issue.parent.take_if(|key| deleted.contains(key));
    }
    parsed
}

fn issue(record: &mut Record<'_>, deleted: &mut HashSet<String>) -> Result<Option<Imported>, String> {
    // Newer exports also carry records that are no issues.
    if let Some(other) = record.word("_type").filter(|name| name != "issue") {
        return Err(format!("the record is no issue but of type {other}"));
    }
    let key = record.word("id").ok_or("the record has no id")?;
    let status = record.word("status").unwrap_or_else(|| "open".to_owned());
    if status == "tombstone" || record.text("deleted_at").is_some_and(|at| !at.is_empty()) {
        deleted.insert(key);
        return Ok(None);
    }
    let title = record
        .text("title")
        .ok_or_else(|| format!("{key} has no title"))?;
    let mut issue = Imported::new(&key, &title);
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
    let estimate = record.number_or_word("estimated_minutes");
    issue.also([
        ("Assigned to", issue.assignee.clone()),
        ("External reference", record.word("external_ref")),
        ("Estimate", estimate.map(|minutes| format!("{minutes} minutes"))),
        ("Closed", record.word("closed_at")),
    ]);
    for mut comment in record.records("comments") {
        let text = comment.text("text").unwrap_or_default();
        let author = comment.word("author").unwrap_or_default();
        issue.comment(&author, comment.time("created_at"), &text);
    }
    Ok(Some(issue))
}

fn dependencies(record: &mut Record<'_>, issue: &mut Imported) {
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
