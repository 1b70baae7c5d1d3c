//! Single issues: create, change and show them.

use crate::api::claims::ClaimReply;
use crate::api::issues::IssueReply;
use crate::api::issues::Issues;
use jit_core::decide::command::{Command, IssueChange, NewIssue};
use jit_core::decide::issues::implied_type;
use jit_core::issue_files::format::MAX_DESCRIPTION;
use jit_core::log::state;
use jit_core::model::ids::{IssueId, IssuePrefix};
use jit_core::model::issue::{Issue, IssueState, text_digest};
use jit_core::model::lease::Resource;
use jit_core::model::policy::Policy;
use jit_core::model::refusal::{Code, Refusal};
use jit_os::{io_refusal, random};
use jit_store::{Outcome, View};

use crate::api::claims::Picked;
use crate::api::issues::CreateIssue;
use crate::api::issues::IssueView;
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::gates::Registry;
use crate::gates::service::require_jit;
use crate::refusals::refuse;
use crate::write_path::{carry_out_with, waits_for};

/// Normalizes a description: every line ends in a newline alone, and an empty text is none.
fn kept_text(text: &str) -> Outcome<Option<Vec<u8>>> {
    if text.len() as u64 >= MAX_DESCRIPTION {
        return Err(refuse(Code::Invalid, "the description is longer than 4 MiB"));
    }
    if text.is_empty() {
        return Ok(None);
    }
    // As the file is read again: git may convert every line ending for another system, so line endings mean nothing.
    let lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches('\r')).collect();
    let mut text = lines.join("\n").into_bytes();
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    Ok(Some(text))
}

pub(crate) fn create_issue(cx: &Context, create: CreateIssue) -> Outcome<Answer> {
    let random = || random::u64().map_err(|e| refuse(Code::Io, e));
    let implied = create.id.as_ref().and_then(implied_type);
    let kind = create
        .kind
        .unwrap_or_else(|| implied.unwrap_or("issue").to_owned());
    let (ids, chosen) = match create.id {
        Some(id) => (vec![id], true),
        None => (
            (0..8)
                .map(|_| random().map(IssueId::generate))
                .collect::<Result<_, _>>()?,
            false,
        ),
    };
    let text = match &create.description {
        Some(text) => kept_text(text)?,
        None => None,
    };
    let asked = create.gates.clone();
    let command = Command::CreateIssue(NewIssue {
        ids,
        chosen,
        title: create.title,
        kind,
        state: create.state,
        priority: create.priority,
        parent: create.parent,
        labels: create.labels,
        depends_on: create.depends_on,
        gates: create.gates,
        actor: create.actor,
        text: text.as_deref().map(text_digest),
    });
    let mut answer = carry_out_with(cx, &command, text.into_iter().collect(), None)?;
    if let Reply::Issues(IssueReply::Issue(shown)) = &mut answer.reply {
        shown.comments = Some(Vec::new());
    }
    answer
        .warnings
        .extend(crate::gates::service::undefined(cx, &asked));
    Ok(answer)
}

pub(crate) fn change_issue(
    cx: &Context,
    issue: IssuePrefix,
    mut change: IssueChange,
    description: Option<String>,
    strict: bool,
) -> Outcome<Answer> {
    let mut texts = Vec::new();
    if let Some(text) = description {
        let text = kept_text(&text)?;
        change.text = Some(text.as_deref().map(text_digest));
        texts.extend(text);
    }
    let undefined = crate::gates::service::undefined(cx, &change.add_gates);
    let finishes = change.state == Some(IssueState::Done);
    let lessens = !change.remove_gates.is_empty() || change.kind.is_some();
    let agent_asks = (finishes || lessens) && crate::context::calling_agent::asking_agent(cx).is_some();
    let policy = match finishes || agent_asks {
        true => Some(Policy {
            agent_asks,
            ..crate::gates::committed_policy::policy_with_gates(cx, agent_asks)?
        }),
        false => None,
    };
    let command = Command::ChangeIssue {
        issue,
        change: Box::new(change),
        strict,
    };
    let changed = carry_out_with(cx, &command, texts, policy.as_ref());
    let mut answer = changed.map_err(|refusal| match agent_asks {
        true => crate::gates::service::with_way_to_gates(cx, refusal),
        false => refusal,
    })?;
    answer.warnings.extend(undefined);
    let Reply::Issues(IssueReply::Issue(shown)) = &mut answer.reply else {
        return Ok(answer);
    };
    let view = crate::write_path::view(cx)?;
    let comments = state::comments(&*view.table, &shown.issue.id);
    shown.comments = Some(comments.map_err(|e| refuse(Code::Io, e))?);
    if shown.lease.is_none() {
        // Another agent may hold it.
        let key = Resource::Issue(shown.issue.id.clone()).key();
        let lease = state::lease_on(&*view.table, &key).map_err(|e| refuse(Code::Io, e))?;
        let fresh = IssueView::new(shown.issue.clone(), lease.as_ref(), &view.now);
        shown.issue.state = fresh.issue.state;
        shown.lease = fresh.lease;
        shown.assignee = fresh.assignee;
    }
    Ok(answer)
}

pub(crate) fn show_issue(cx: &Context, text: &IssuePrefix) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let issue = crate::write_path::resolve(&view, text)?;
    let (shown, lost) = whole(cx, &view, issue)?;
    let mut answer =
        crate::write_path::read_answer(cx, &view, Reply::Issues(IssueReply::Issue(Box::new(shown))))?;
    answer.warnings.extend(lost);
    Ok(answer)
}

/// Adds the issue to the answer of a lease that was just granted.
pub(crate) fn picked(cx: &Context, mut answer: Answer) -> Outcome<Answer> {
    let Reply::Claims(ClaimReply::Lease(lease)) = answer.reply else {
        return Ok(answer);
    };
    let view = crate::write_path::view(cx)?;
    let id = lease.issue_id.as_ref().map(|id| state::issue(&*view.table, id));
    let issue = id.transpose().map_err(|e| refuse(Code::Io, e))?.flatten();
    answer.reply = match issue {
        Some(issue) => {
            let (issue, lost) = whole(cx, &view, issue)?;
            answer.warnings.extend(lost);
            Reply::Claims(ClaimReply::Picked(Box::new(Picked { lease, issue })))
        }
        None => Reply::Claims(ClaimReply::Lease(lease)),
    };
    Ok(answer)
}

/// Returns everything about one issue, and a warning if its text is lost.
pub(crate) fn whole(cx: &Context, view: &View, issue: Issue) -> Outcome<(IssueView, Option<String>)> {
    let unreadable = |e| refuse(Code::Io, e);
    let id = issue.id.clone();
    let digest = issue.text.clone();
    let description = match &digest {
        None => None,
        Some(digest) => crate::write_path::text_of(cx, &id, digest)
            .map_err(|e| io_refusal("read", &cx.texts.folder(&id), &e))?,
    };
    let lost = (digest.is_some() && description.is_none()).then(|| {
        format!("the description of {id} is missing from the control plane; it may be in .jit/issues/{id} of a worktree or in git")
    });
    let key = Resource::Issue(id.clone()).key();
    let lease = state::lease_on(&*view.table, &key).map_err(unreadable)?;
    let blocked_by = waits_for(&*view.table, &issue)?;
    let mut shown = IssueView::new(issue, lease.as_ref(), &view.now);
    shown.description = description.map(|text| String::from_utf8_lossy(&text).into_owned());
    shown.comments = Some(state::comments(&*view.table, &id).map_err(unreadable)?);
    shown.blocked_by = blocked_by;
    if shown.lease.is_none() && !shown.issue.state.is_closed() {
        shown.resume_from = state::last_branch(&*view.table, &key).map_err(unreadable)?;
    }
    Ok((shown, lost))
}

/// Searches titles, labels, comments and long texts for words, ignoring case.
pub(crate) fn search(cx: &Context, text: &str, limit: Option<usize>) -> Outcome<Answer> {
    let wanted = text.trim().to_lowercase();
    if wanted.is_empty() {
        return Err(Box::new(
            Refusal::new(Code::Invalid, "nothing to search for").help("jit issue search <text>"),
        ));
    }
    let view = crate::write_path::view(cx)?;
    let unreadable = |e| refuse(Code::Io, e);
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    let mut said: std::collections::HashSet<String> = std::collections::HashSet::new();
    for (id, comment) in state::all_comments(&*view.table).map_err(unreadable)? {
        if has(&comment.text) {
            said.insert(id);
        }
    }
    let mut found = Vec::new();
    for issue in state::issues(&*view.table).map_err(unreadable)? {
        let in_fields = has(&issue.title)
            || has(issue.id.as_str())
            || issue.labels.iter().any(|label| has(label))
            || said.contains(&issue.id.key());
        let in_text = || {
            issue
                .text
                .as_ref()
                .and_then(|digest| crate::write_path::text_of(cx, &issue.id, digest).ok().flatten())
                .is_some_and(|text| has(&String::from_utf8_lossy(&text)))
        };
        if in_fields || in_text() {
            found.push(issue);
        }
        if limit.is_some_and(|limit| found.len() >= limit) {
            break;
        }
    }
    let issues = crate::issues::issue_lists::shown(&view, found)?;
    crate::write_path::read_answer(cx, &view, Reply::Issues(IssueReply::Issues(Issues { issues })))
}

/// Refuses an undefined gate, most likely a typing error: with it the issue could never be done.
pub(crate) fn require_gate(cx: &Context, issue: IssuePrefix, gate: String, strict: bool) -> Outcome<Answer> {
    Registry::load(require_jit(cx)?)?.require(&gate)?;
    let change = IssueChange {
        add_gates: vec![gate],
        ..IssueChange::default()
    };
    crate::issues::change::change_issue(cx, issue, change, None, strict)
}
