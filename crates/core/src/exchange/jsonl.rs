//! Our own form: one object a line, fields named as `jit issue show --json` names them. To be read, a title is enough.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::record::{Record, read};
use super::{ForeignIssue, Parsed, priority};
use crate::model::issue::{IssueState, MAX_TITLE, Performer, Priority};
use crate::model::time::Wall;

pub fn jsonl(bytes: &[u8]) -> Parsed {
    read(bytes, |record, _| issue(record).map(Some))
}

fn issue(record: &mut Record<'_>) -> Result<ForeignIssue, String> {
    // Our own export is imported unchanged.
    record.is_own = record.has("pivot");
    // Fields that only `jit issue show --json` has.
    record.pass_over(&["revision", "lives_in", "resume_from", "schema_version"]);
    let title = record.text("title").ok_or("the record has no title")?;
    let key = record
        .number_or_word("id")
        .unwrap_or_else(|| format!("line-{}", record.digest()));
    let mut issue = ForeignIssue::new(&key, "");
    match title.trim() {
        own if record.is_own && own.len() <= MAX_TITLE => issue.title = own.to_owned(),
        _ => issue.set_title(&title),
    }
    if issue.title.is_empty() {
        return Err("the title is empty".to_owned());
    }
    if let Some(name) = record.word("state").or_else(|| record.word("status")) {
        // Our own words mean themselves; others are translated.
        match name.parse() {
            Ok(state) => issue.state = state,
            Err(_) => issue.set_status("state", &name),
        }
    }
    if let Some(name) = record.number_or_word("priority") {
        match priority(&name) {
            Some(priority) => issue.priority = priority,
            None => issue.warn(format!("priority {name:?} is taken as normal")),
        }
    }
    if let Some(kind) = record.word("type") {
        issue.kind = kind;
    }
    issue.parent = record.number_or_word("parent");
    issue.labels = record.words("labels", "name");
    issue.depends_on = match record.has("depends_on") {
        true => record.words("depends_on", "id"),
        false => record.words("dependencies", "id"),
    };
    issue.gates = record.words("gates", "name");
    issue.assignee = record.word("assignee").or_else(|| {
        let all = record.words("assignees", "login");
        Some(all.join(", ")).filter(|all| !all.is_empty())
    });
    if let Some(name) = record.word("actor") {
        match name.parse() {
            Ok(actor) => issue.actor = actor,
            Err(_) => issue.warn(format!("actor {name:?} is taken as any")),
        }
    }
    for (name, field) in [("blocked", &mut issue.blocked), ("pivot", &mut issue.pivot)] {
        let Some(mut reason) = record.plain_text(name) else {
            continue;
        };
        if super::cut(&mut reason, super::MAX_COMMENT) {
            record
                .warnings
                .push(format!("{name} is cut at {} bytes", super::MAX_COMMENT));
        }
        *field = Some(reason);
    }
    // Of other trackers it may be true or false.
    if issue.blocked.is_none() && record.is_true("blocked") {
        issue.blocked = Some(super::BLOCKED_THERE.to_owned());
    }
    issue.created_at = record.time("created_at");
    issue.created_by = record.word("created_by");
    issue.updated_at = record.time("updated_at");
    issue.others = record.others("others");
    take_description(record, &mut issue);
    for mut comment in record.records("comments") {
        let text = comment.text("text").or_else(|| comment.text("body"));
        let author = comment.word("author").or_else(|| comment.word("agent_id"));
        let at = comment.time("at").or_else(|| comment.time("created_at"));
        issue.comment(&author.unwrap_or_default(), at, &text.unwrap_or_default());
        if let Some(new) = issue.comments.last_mut() {
            new.id = comment.number_or_word("id");
        }
        record.noticed("a comment", comment);
    }
    Ok(issue)
}

/// As it is, to the last space, so that what was exported comes back the same.
fn take_description(record: &mut Record<'_>, issue: &mut ForeignIssue) {
    let text = record.text("description").or_else(|| record.text("body"));
    let text = text.unwrap_or_default();
    if issue.description.is_empty() && text.len() <= super::MAX_DESCRIPTION {
        issue.description = text;
    } else {
        issue.describe(None, &text);
    }
}

#[derive(Serialize)]
struct ExportLine<'a> {
    id: &'a str,
    title: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    state: IssueState,
    priority: Priority,
    parent: Option<&'a str>,
    labels: &'a [String],
    depends_on: &'a [String],
    gates: &'a [String],
    actor: Performer,
    blocked: Option<&'a str>,
    pivot: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    assignee: Option<&'a str>,
    description: &'a str,
    comments: Vec<CommentLine<'a>>,
    created_at: Option<Wall>,
    created_by: Option<&'a str>,
    updated_at: Option<Wall>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    others: &'a BTreeMap<String, Value>,
}

#[derive(Serialize)]
struct CommentLine<'a> {
    id: Option<&'a str>,
    author: &'a str,
    at: Option<Wall>,
    text: &'a str,
}

/// One line for each issue, in the order given.
pub fn export(issues: &[ForeignIssue]) -> Result<String, serde_json::Error> {
    let mut out = String::new();
    for issue in issues {
        let comments = issue.comments.iter().map(|comment| CommentLine {
            id: comment.id.as_deref(),
            author: &comment.author,
            at: comment.at,
            text: &comment.text,
        });
        let line = ExportLine {
            id: &issue.key,
            title: &issue.title,
            kind: &issue.kind,
            state: issue.state,
            priority: issue.priority,
            parent: issue.parent.as_deref(),
            labels: &issue.labels,
            depends_on: &issue.depends_on,
            gates: &issue.gates,
            actor: issue.actor,
            blocked: issue.blocked.as_deref(),
            pivot: issue.pivot.as_deref(),
            assignee: issue.assignee.as_deref(),
            description: &issue.description,
            comments: comments.collect(),
            created_at: issue.created_at,
            created_by: issue.created_by.as_deref(),
            updated_at: issue.updated_at,
            others: &issue.others,
        };
        out.push_str(&serde_json::to_string(&line)?);
        out.push('\n');
    }
    Ok(out)
}
