//! Refuses cycles: of parents, of dependencies, and of issues that would wait for each other.

use crate::decide::command::Context;
use crate::log::state;
use crate::log::stop::Stop;
use crate::log::table::{Read, Table};
use crate::model::ids::{IssueId, IssuePrefix};
use crate::model::issue::{Issue, MAX_MEMBERS};
use crate::model::refusal::{Code, Details, Refusal};
use crate::query::{graph, ready_queue};

/// The issue that `text` names, if one of type `kind` called `id` may be part of it.
pub(super) fn require_parent(
    table: &dyn Table,
    id: &IssueId,
    kind: &str,
    text: &IssuePrefix,
    cx: &Context,
) -> Result<IssueId, Stop> {
    let parent = state::resolve(table, text)?;
    require_fit(("a", kind), (&parent.id, &parent.kind), cx)?;
    require_not_within(table, id, &parent.id)?;
    Ok(parent.id)
}

/// Refuses that an issue of one type is part of one of another, where the hierarchy of types has that otherwise.
fn require_fit(
    (subject, kind): (&str, &str),
    (parent, parent_kind): (&IssueId, &str),
    cx: &Context,
) -> Result<(), Refusal> {
    if cx.policy.may_be_part_of(kind, parent_kind) {
        return Ok(());
    }
    let allowed = match cx.policy.parents_of(kind).unwrap_or_default() {
        allowed if allowed.is_empty() => "nothing".to_owned(),
        allowed => allowed.join(", "),
    };
    Err(Refusal::new(Code::Invalid, format!(
        "{subject} {kind} cannot be part of {parent}, which is a {parent_kind}: it can be part of {allowed}"
    ))
    .help("jit config get types.hierarchy"))
}

/// The same for an issue whose type has changed: what it is part of, and what is part of it.
pub(super) fn require_type_fits(table: &dyn Table, issue: &Issue, cx: &Context) -> Result<(), Stop> {
    if let Some(parent) = &issue.parent
        && let Some(parent) = state::issue(table, parent)?
    {
        require_fit(("a", &issue.kind), (&parent.id, &parent.kind), cx)?;
    }
    for part in ready_queue::parts(table, &issue.id.key())? {
        if let Some(part) = state::issue_at(table, &part)? {
            let subject = format!("{} is part of it, and a", part.id);
            require_fit((&subject, &part.kind), (&issue.id, &issue.kind), cx)?;
        }
    }
    Ok(())
}

/// Refuses a parent that would make an issue a part of itself, and shows how.
pub(super) fn require_not_within(table: &dyn Table, id: &IssueId, parent: &IssueId) -> Result<(), Stop> {
    let mut path = vec![id.to_string()];
    let mut above = Some(parent.clone());
    while let Some(next) = above {
        path.push(next.to_string());
        if next.key() == id.key() {
            return Err(circle("be part of itself", path).into());
        }
        if path.len() > MAX_MEMBERS {
            return Err(Refusal::new(
                Code::Invalid,
                format!("{id} would lie more than {MAX_MEMBERS} levels deep"),
            )
            .help(format!("jit issue show {parent}"))
            .into());
        }
        above = state::issue(table, &next)?.and_then(|issue| issue.parent);
    }
    Ok(())
}

pub(super) fn circle(what: &str, path: Vec<String>) -> Refusal {
    Refusal::new(
        Code::Cycle,
        format!("{} would {what}: {}", path[0], path.join(" -> ")),
    )
    .help(format!("jit dep tree {}", path.get(1).map_or("", String::as_str)))
    .details(Details::Candidates(path))
}

/// Refuses a dependency that would lead back to where it starts, and shows how.
pub(super) fn require_no_circle(table: &dyn Table, from: &IssueId, on: &IssueId) -> Result<(), Stop> {
    let mut trouble = None;
    let found = graph::cycle_through(from, on, |id| match state::issue(table, id) {
        Ok(issue) => issue.map_or(Vec::new(), |issue| issue.depends_on),
        Err(e) => {
            trouble = Some(e);
            Vec::new()
        }
    });
    match (trouble, found) {
        (Some(e), _) => Err(e.into()),
        (None, Some(path)) => {
            let path = path.iter().map(ToString::to_string).collect();
            Err(circle("depend on itself", path).into())
        }
        (None, None) => Ok(()),
    }
}

/// Issues that have to be closed before this one: its dependencies, and its open parts.
pub(super) fn comes_after(table: &dyn Table, id: &IssueId, changed: &Issue) -> Read<Vec<IssueId>> {
    let is_changed = |id: &IssueId| id.key() == changed.id.key();
    let mut before = if is_changed(id) {
        changed.depends_on.clone()
    } else {
        state::issue(table, id)?.map_or(Vec::new(), |issue| issue.depends_on)
    };
    for part in ready_queue::parts(table, &id.key())? {
        if let Some(part) = state::issue_at(table, &part)?
            && !part.state.is_closed()
            && !is_changed(&part.id)
        {
            before.push(part.id);
        }
    }
    if !changed.state.is_closed()
        && changed
            .parent
            .as_ref()
            .is_some_and(|parent| parent.key() == id.key())
    {
        before.push(changed.id.clone());
    }
    Ok(before)
}

/// Refuses what would never come to an end: something is done after its parts, and they would wait for it.
pub(super) fn require_no_deadlock(table: &dyn Table, issue: &Issue) -> Result<(), Stop> {
    if issue.parent.is_none() && issue.depends_on.is_empty() {
        return Ok(());
    }
    for first in comes_after(table, &issue.id, issue)? {
        let mut trouble = None;
        let found = graph::cycle_through(&issue.id, &first, |id| {
            comes_after(table, id, issue).unwrap_or_else(|e| {
                trouble = Some(e);
                Vec::new()
            })
        });
        if let Some(e) = trouble {
            return Err(e.into());
        }
        if let Some(path) = found {
            let path = path.iter().map(ToString::to_string).collect();
            return Err(circle("wait for itself, as an issue is done after its parts", path).into());
        }
    }
    Ok(())
}
