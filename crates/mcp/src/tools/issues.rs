//! Shows, creates, updates and comments on one issue.

use jit_core::decide::command::IssueChange;
use jit_core::model::ids::IssueId;
use jit_core::model::issue::{IssueState, Performer, Priority, check_word};
use jit_engine::api::Reply;
use jit_engine::api::issues::CreateIssue;
use jit_engine::api::issues::IssueReply;
use jit_engine::api::issues::IssueRequest;
use jit_engine::api::issues::IssueView;
use jit_store::Outcome;
use rmcp::model::JsonObject;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Named, Tool, ToolCall, all_named, invalid, read, unexpected, without_blanks};

pub static SHOW: Tool = Tool {
    name: "show",
    about: "One issue with description and comments.",
    takes: r#"{"issue":{"type":"string"}}"#,
    needs: &["issue"],
    run: show,
};

pub static CREATE: Tool = Tool {
    name: "create",
    about: "Make an issue.",
    takes: r#"{"title":{"type":"string"},"description":{"type":"string"},"type":{"type":"string"},"priority":{"type":"string","enum":["critical","high","normal","low"]},"state":{"type":"string","enum":["ready","backlog"]},"parent":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}},"depends_on":{"type":"array","items":{"type":"string"},"description":"must be done first"},"gates":{"type":"array","items":{"type":"string"}}}"#,
    needs: &["title"],
    run: create,
};

pub static UPDATE: Tool = Tool {
    name: "update",
    about: "Change an issue that nobody else holds. Done ends your claim.",
    takes: r#"{"issue":{"type":"string"},"state":{"type":"string","enum":["backlog","ready","in_progress","gated","done","rejected"]},"title":{"type":"string"},"description":{"type":"string"},"priority":{"type":"string","enum":["critical","high","normal","low"]},"blocked":{"type":"string","description":"why it cannot go on; empty: it can"},"add_labels":{"type":"array","items":{"type":"string"}},"remove_labels":{"type":"array","items":{"type":"string"}},"add_deps":{"type":"array","items":{"type":"string"}},"remove_deps":{"type":"array","items":{"type":"string"}}}"#,
    needs: &["issue"],
    run: update,
};

pub static COMMENT: Tool = Tool {
    name: "comment",
    about: "Say something about an issue: progress, findings, questions.",
    takes: r#"{"issue":{"type":"string"},"text":{"type":"string"}}"#,
    needs: &["issue", "text"],
    run: comment,
};

/// Number of newest comments that are shown.
const COMMENTS: usize = 20;

/// The fields of an issue that lists show.
pub fn brief(shown: &impl Serialize) -> Value {
    const SHOWN: [&str; 6] = ["id", "title", "type", "priority", "labels", "resume_from"];
    let mut told = serde_json::to_value(shown).unwrap_or_default();
    if let Value::Object(fields) = &mut told {
        fields.retain(|name, _| SHOWN.contains(&name.as_str()));
    }
    without_blanks(told)
}

/// All fields of an issue that an agent needs to work on it.
pub fn whole(view: &IssueView) -> Value {
    let issue = &view.issue;
    let comments = view.comments.as_deref().unwrap_or_default();
    let older = comments.len().saturating_sub(COMMENTS);
    let newest: Vec<Value> = comments[older..]
        .iter()
        .map(|comment| json!({ "by": comment.agent_id, "at": comment.at, "text": comment.text }))
        .collect();
    let holder = view
        .lease
        .as_ref()
        .map(|lease| json!({ "agent_id": lease.agent_id, "expires_at": lease.expires_at }));
    let mut told = brief(view);
    let more = without_blanks(json!({
        "state": issue.state,
        "description": view.description,
        "parent": issue.parent,
        "depends_on": issue.depends_on,
        "blocked_by": view.blocked_by,
        "blocked": issue.blocked,
        "gates": issue.gates,
        "holder": holder,
        "comments": newest,
        "older_comments": (older > 0).then_some(older),
    }));
    if let (Value::Object(told), Value::Object(more)) = (&mut told, more) {
        told.extend(more);
    }
    told
}

/// The answer to a change: id, title and state.
fn changed(reply: Reply) -> Outcome<(IssueId, Value)> {
    match reply {
        Reply::Issues(IssueReply::Issue(view)) => {
            let told = json!({ "id": view.issue.id, "title": view.issue.title, "state": view.issue.state });
            Ok((view.issue.id, told))
        }
        other => Err(unexpected(&other)),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowArgs {
    issue: Named,
}

fn show(call: &mut ToolCall<'_>, given: JsonObject) -> Outcome<Value> {
    let ShowArgs { issue: Named(issue) } = read(given)?;
    match call.ask(IssueRequest::Show { issue })? {
        Reply::Issues(IssueReply::Issue(view)) => Ok(whole(&view)),
        other => Err(unexpected(&other)),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateArgs {
    title: String,
    description: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    priority: Option<Priority>,
    state: Option<IssueState>,
    parent: Option<Named>,
    labels: Option<Vec<String>>,
    depends_on: Option<Vec<Named>>,
    gates: Option<Vec<String>>,
}

/// Checks that each is a valid word, and trims it.
fn words(name: &str, given: Option<Vec<String>>) -> Outcome<Vec<String>> {
    let given = given.unwrap_or_default();
    for word in &given {
        check_word(word).map_err(|why| invalid(format!("{name}: {why}")))?;
    }
    Ok(given.into_iter().map(|word| word.trim().to_owned()).collect())
}

fn create(call: &mut ToolCall<'_>, given: JsonObject) -> Outcome<Value> {
    let asked: CreateArgs = read(given)?;
    let state = asked.state.unwrap_or(IssueState::Ready);
    if !matches!(state, IssueState::Ready | IssueState::Backlog) {
        return Err(invalid("state: a new issue is ready or backlog"));
    }
    let kind = words("type", asked.kind.map(|kind| vec![kind]))?;
    let new = CreateIssue {
        id: None,
        title: asked.title,
        kind: kind.into_iter().next(),
        state,
        priority: asked.priority.unwrap_or(Priority::Normal),
        parent: asked.parent.map(|named| named.0),
        labels: words("labels", asked.labels)?,
        depends_on: all_named(asked.depends_on),
        gates: words("gates", asked.gates)?,
        actor: Performer::Any,
        description: asked.description,
    };
    changed(call.ask(IssueRequest::Create(Box::new(new)))?).map(|(_, told)| told)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateArgs {
    issue: Named,
    state: Option<IssueState>,
    title: Option<String>,
    description: Option<String>,
    priority: Option<Priority>,
    blocked: Option<String>,
    add_labels: Option<Vec<String>>,
    remove_labels: Option<Vec<String>>,
    add_deps: Option<Vec<Named>>,
    remove_deps: Option<Vec<Named>>,
}

fn update(call: &mut ToolCall<'_>, given: JsonObject) -> Outcome<Value> {
    let asked: UpdateArgs = read(given)?;
    let change = IssueChange {
        title: asked.title,
        state: asked.state,
        priority: asked.priority,
        blocked: asked
            .blocked
            .map(|why| Some(why).filter(|why| !why.trim().is_empty())),
        add_labels: words("add_labels", asked.add_labels)?,
        remove_labels: asked.remove_labels.unwrap_or_default(),
        add_deps: all_named(asked.add_deps),
        remove_deps: all_named(asked.remove_deps),
        ..IssueChange::default()
    };
    if change == IssueChange::default() && asked.description.is_none() {
        return Err(invalid("say what to change: state, title, description, …"));
    }
    let request = IssueRequest::Change {
        issue: asked.issue.0,
        change: Box::new(change),
        description: asked.description,
        strict: false,
    };
    let (id, told) = changed(call.ask(request)?)?;
    if asked.state.is_some_and(IssueState::is_closed) {
        call.keeper.end(&id);
    }
    Ok(told)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommentArgs {
    issue: Named,
    text: String,
}

fn comment(call: &mut ToolCall<'_>, given: JsonObject) -> Outcome<Value> {
    let CommentArgs {
        issue: Named(issue),
        text,
    } = read(given)?;
    match call.ask(IssueRequest::Comment { issue, text })? {
        Reply::Issues(IssueReply::Comment(comment)) => Ok(json!({ "id": comment.id, "at": comment.at })),
        other => Err(unexpected(&other)),
    }
}
