//! Decisions about issues: making, changing, taking and closing them.
//!
//! What must hold:
//!
//! - what somebody else holds is changed by nobody else (unless the settings say so), and every change passes here;
//! - dependencies and parents never make a circle by a command;
//! - an issue is not done while a gate that it needs has not passed, as that gate is defined now; what jit wrote elsewhere is believed, an edit by hand
//!   may say no more than a command may;
//! - nor is it while a part of it is open;
//! - picking the next issue and taking it is one decision.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::{Change, Context, NewIssue, Pivot, Reply};
use crate::decide::{Answer, Draft, Terms, acquire, clear_expired, fresh_lease, let_go, live, not_holder};
use crate::event::{Action, Did, Event};
use crate::graph;
use crate::ids::{AgentId, IssueId, IssuePrefix};
use crate::issue::{
    ACTIVITY, Comment, GateResult, Issue, MAX_COMMENT, MAX_MEMBERS, MAX_TITLE, Performer, State, TASK,
    WORK_ITEM, check_word,
};
use crate::issue_file::{Found, said_first, set_aside};
use crate::lease::{Lease, Resource};
use crate::merge;
use crate::policy::{Enforce, Policy};
use crate::queue;
use crate::refusal::{Code, Details, Refusal, Stop};
use crate::sheet::{self, GATE, Sheet};
use crate::state;
use crate::table::{Read, Table};
use crate::time::Wall;

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::Invalid, message)
}

fn titled(title: &str) -> Result<String, Refusal> {
    let title = title.trim();
    if title.is_empty() {
        return Err(invalid("the title is empty").help("jit issue create \"what is to be done\""));
    }
    if title.len() > MAX_TITLE {
        return Err(invalid(format!(
            "the title is longer than {MAX_TITLE} bytes: put the rest into --description"
        )));
    }
    Ok(title.to_owned())
}

fn worded(what: &str, word: &str) -> Result<(), Refusal> {
    check_word(word).map_err(|why| invalid(format!("{what} {word:?}: {why}")))
}

/// Gives each addition to a set a tag of its own.
struct Tags<'a> {
    cx: &'a Context,
    next: usize,
}

impl Tags<'_> {
    fn tag(&mut self) -> String {
        self.next += 1;
        format!("{}.{}", self.cx.fresh_lease, self.next)
    }
}

pub(crate) fn create(draft: &mut Draft<'_>, new: &NewIssue, cx: &Context) -> Result<Answer, Stop> {
    let title = titled(&new.title)?;
    worded("the type", &new.kind)?;
    let mut free = None;
    for id in &new.ids {
        if let Some(issue) = state::issue(draft.state(), id)? {
            if new.chosen {
                return Err(
                    Refusal::new(Code::Exists, format!("there is an issue {} already", issue.id))
                        .help(format!("jit issue show {}", issue.id))
                        .into(),
                );
            }
        } else if state::was_deleted(draft.state(), &id.key())? {
            if new.chosen {
                return Err(Refusal::new(
                    Code::Exists,
                    format!("{id} was deleted, and ids are never used again"),
                )
                .help("jit issue create <title> --id <another>")
                .help(format!("jit issue restore {id}"))
                .into());
            }
        } else {
            free = Some(id.clone());
            break;
        }
    }
    let Some(id) = free else {
        return Err(Refusal::new(Code::Io, "no free id was found")
            .help("try again")
            .into());
    };
    let parent = match &new.parent {
        Some(text) => Some(require_parent(draft.state(), &id, &new.kind, text, cx)?),
        None => None,
    };
    let at = cx.now.wall;
    let by = &cx.actor.agent_id;
    let (mut sheet, mut tags) = (Sheet::default(), Tags { cx, next: 0 });
    for label in &new.labels {
        worded("the label", label)?;
        sheet::add(&mut sheet.labels, label, tags.tag(), by, at);
    }
    for text in &new.depends_on {
        let on = state::resolve(draft.state(), text)?.id;
        sheet::add(&mut sheet.deps, on.as_str(), tags.tag(), by, at);
    }
    let gates: BTreeSet<&String> = new.gates.iter().collect();
    for gate in &gates {
        worded("the gate", gate)?;
    }
    let issue = Issue {
        id,
        title,
        kind: new.kind.as_str().into(),
        state: new.state,
        priority: new.priority,
        parent,
        labels: sheet::members(&sheet.labels),
        depends_on: members_as_ids(&sheet),
        gates: gates.into_iter().cloned().collect(),
        actor: new.actor,
        blocked: None,
        pivot: None,
        created_at: at,
        created_by: Some(by.clone()),
        updated_at: at,
        revision: 1,
        lives_in: cx.actor.worktree_id.clone(),
        text: new.text.clone(),
    };
    require_few(&issue)?;
    require_no_deadlock(draft.state(), &issue)?;
    let work =
        (issue.kind == WORK_ITEM).then(|| work(Action::WorkItemCreated, &issue, Some(issue.title.clone())));
    draft.emit(Event::Issue {
        did: Did::Created,
        issue,
        sheet,
    })?;
    if let Some(work) = work {
        draft.emit(work)?;
    }
    Ok(Answer::Done)
}

fn members_as_ids(sheet: &Sheet) -> Vec<IssueId> {
    sheet::members(&sheet.deps)
        .iter()
        .filter_map(|id| id.parse().ok())
        .collect()
}

fn require_few(issue: &Issue) -> Result<(), Refusal> {
    for (what, many) in [
        ("labels", issue.labels.len()),
        ("dependencies", issue.depends_on.len()),
        ("gates", issue.gates.len()),
    ] {
        if many > MAX_MEMBERS {
            return Err(invalid(format!("an issue has at most {MAX_MEMBERS} {what}")));
        }
    }
    Ok(())
}

/// What an entry of the changelog says about an issue.
pub(crate) fn work(action: Action, issue: &Issue, details: Option<String>) -> Event {
    let (activity_id, task_id) = if issue.kind == TASK {
        (issue.parent.clone(), Some(issue.id.clone()))
    } else {
        (Some(issue.id.clone()), None)
    };
    Event::Worked {
        action,
        activity_id,
        task_id,
        details,
        previous: 0,
    }
}

/// The issue that `text` names, if one of type `kind` called `id` may be part of it.
fn require_parent(
    table: &dyn Table,
    id: &IssueId,
    kind: &str,
    text: &IssuePrefix,
    cx: &Context,
) -> Result<IssueId, Stop> {
    let parent = state::resolve(table, text)?;
    if let Some(allowed) = cx.policy.parents_of(kind)
        && cx
            .policy
            .hierarchy
            .iter()
            .any(|chain| chain.iter().any(|kind| parent.kind == *kind))
        && !allowed.contains(&parent.kind.as_str())
    {
        let allowed = if allowed.is_empty() {
            "nothing".to_owned()
        } else {
            allowed.join(", ")
        };
        return Err(invalid(format!(
            "a {kind} cannot be part of {}, which is a {}: it can be part of {allowed}",
            parent.id, parent.kind
        ))
        .help("jit config get types.hierarchy")
        .into());
    }
    require_not_within(table, id, &parent.id)?;
    Ok(parent.id)
}

/// Refuses a parent that would make an issue a part of itself, and shows how.
fn require_not_within(table: &dyn Table, id: &IssueId, parent: &IssueId) -> Result<(), Stop> {
    let mut path = vec![id.to_string()];
    let mut above = Some(parent.clone());
    while let Some(next) = above {
        path.push(next.to_string());
        if next.key() == id.key() {
            return Err(circle("be part of itself", path).into());
        }
        if path.len() > MAX_MEMBERS {
            break;
        }
        above = state::issue(table, &next)?.and_then(|issue| issue.parent);
    }
    Ok(())
}

fn circle(what: &str, path: Vec<String>) -> Refusal {
    Refusal::new(
        Code::Cycle,
        format!("{} would {what}: {}", path[0], path.join(" -> ")),
    )
    .help(format!("jit dep tree {}", path.get(1).map_or("", String::as_str)))
    .details(Details::Candidates(path))
}

/// Refuses a dependency that would lead back to where it starts, and shows how.
fn require_no_circle(table: &dyn Table, from: &IssueId, on: &IssueId) -> Result<(), Stop> {
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

/// What has to be closed before an issue can be: what it depends on, and the parts of it that are open.
fn comes_after(table: &dyn Table, id: &IssueId, changed: &Issue) -> Read<Vec<IssueId>> {
    let is_changed = |id: &IssueId| id.key() == changed.id.key();
    let mut before = if is_changed(id) {
        changed.depends_on.clone()
    } else {
        state::issue(table, id)?.map_or(Vec::new(), |issue| issue.depends_on)
    };
    for part in queue::parts(table, &id.key())? {
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
fn require_no_deadlock(table: &dyn Table, issue: &Issue) -> Result<(), Stop> {
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

/// Whose leave a change needs, and what becomes of it.
enum Leave {
    /// Nothing is to be taken or returned.
    Given,
    /// Nobody held it: taken for the length of this change.
    Taken(Box<Lease>),
}

/// The one place where it is decided whether somebody may change an issue (B15).
fn require_leave(draft: &mut Draft<'_>, issue: &Issue, strict: bool, cx: &Context) -> Result<Leave, Stop> {
    let enforce = match cx.policy.enforce {
        _ if strict => Enforce::StrictExplicit,
        enforce => enforce,
    };
    if enforce == Enforce::Off {
        return Ok(Leave::Given);
    }
    let resource = Resource::Issue(issue.id.clone());
    if let Some(lease) = live(draft, &resource.key(), cx)? {
        if lease.obeys(&cx.actor) {
            return Ok(Leave::Given);
        }
        if enforce == Enforce::Warn {
            draft.notice(format!(
                "{} is held by {}: changed all the same",
                issue.id, lease.agent_id
            ));
            return Ok(Leave::Given);
        }
        let target = crate::command::Target::Lease(lease.lease_id.clone());
        return Err(not_holder(&lease, &target, cx).into());
    }
    if enforce == Enforce::StrictExplicit {
        return Err(Refusal::new(
            Code::LeaseRequired,
            format!(
                "{} can be changed only by whoever holds it, and nobody does",
                issue.id
            ),
        )
        .help(format!("jit claim acquire {}", issue.id))
        .into());
    }
    if enforce == Enforce::Warn {
        return Ok(Leave::Given);
    }
    let ttl_secs = cx.policy.ttl.resolve(None, &issue.kind, &cx.actor.agent_id)?;
    let lease = fresh_lease(draft, resource, ttl_secs, cx);
    Ok(Leave::Taken(Box::new(lease)))
}

/// Writes a change with the lease it needs around it. A lease on an issue that is closed ends.
fn write(
    draft: &mut Draft<'_>,
    leave: Leave,
    (did, issue, sheet): (Did, Issue, Sheet),
    work: Vec<Event>,
    cx: &Context,
) -> Result<(), Stop> {
    let by = &cx.actor.agent_id;
    let closed = issue.state.is_closed() || sheet.deleted;
    let resource = Resource::Issue(issue.id.clone());
    let taken = match leave {
        Leave::Taken(mut lease) => {
            lease.token = draft.next_sequence();
            draft.emit(Event::Acquired {
                lease: (*lease).clone(),
                regranted: false,
            })?;
            Some(*lease)
        }
        Leave::Given => None,
    };
    draft.emit(Event::Issue { did, issue, sheet })?;
    for event in work {
        draft.emit(event)?;
    }
    if let Some(lease) = taken {
        draft.emit(Event::Released {
            lease,
            by: by.clone(),
            brief: true,
        })?;
    } else if closed && let Some(lease) = state::lease_on(draft.state(), &resource.key())? {
        let_go(draft, &lease, by)?;
    }
    Ok(())
}

/// What the changelog is told of an issue that is done.
fn completed(issue: &Issue) -> Option<Event> {
    let action = match issue.kind.as_str() {
        TASK => Action::CompletedTask,
        ACTIVITY => Action::CompletedActivity,
        _ => return None,
    };
    Some(work(action, issue, Some(issue.title.clone())))
}

pub(crate) fn change(
    draft: &mut Draft<'_>,
    text: &IssuePrefix,
    change: &Change,
    strict: bool,
    cx: &Context,
) -> Result<Answer, Stop> {
    let old = state::resolve(draft.state(), text)?;
    let old_sheet = state::sheet(draft.state(), &old.id)?;
    let (mut issue, mut sheet, mut work) = (old.clone(), old_sheet.clone(), Vec::new());
    let at = cx
        .now
        .wall
        .max(Wall::from_ms(old.updated_at.ms().saturating_add(1)));
    if let Some(title) = &change.title {
        issue.title = titled(title)?;
    }
    if let Some(kind) = &change.kind {
        worded("the type", kind)?;
        issue.kind = kind.into();
    }
    issue.priority = change.priority.unwrap_or(issue.priority);
    issue.actor = change.actor.unwrap_or(issue.actor);
    match &change.parent {
        Some(Some(text)) => {
            issue.parent = Some(require_parent(draft.state(), &issue.id, &issue.kind, text, cx)?);
        }
        Some(None) => issue.parent = None,
        None => {}
    }
    change_sets(draft.state(), (&mut issue, &mut sheet), change, at, cx)?;
    if let Some(digest) = &change.text {
        issue.text.clone_from(digest);
    }
    if let Some(reason) = &change.blocked {
        obstruct(&mut issue, reason.as_deref(), &mut work)?;
    }
    if let Some(pivot) = &change.pivot {
        turn(&mut issue, pivot, &mut work)?;
    }
    if let Some(state) = change.state.filter(|state| *state != old.state) {
        require_transition(&old, state)?;
        issue.state = state;
        if state == State::Done {
            // Another type is no way round.
            let mut as_before = issue.clone();
            as_before.kind.clone_from(&old.kind);
            require_gates(draft.state(), &as_before, cx)?;
            require_gates(draft.state(), &issue, cx)?;
            require_no_open_parts(draft.state(), &issue)?;
            work.extend(completed(&issue));
        }
    }
    require_few(&issue)?;
    if issue.parent != old.parent || !change.add_deps.is_empty() {
        require_no_deadlock(draft.state(), &issue)?;
    }
    // Texts are everybody's; all else is the holder's. Asked before anything is said about what is so already.
    let mut but_text = issue.clone();
    but_text.text.clone_from(&old.text);
    let leave = if strict || but_text != old || sheet != old_sheet {
        require_leave(draft, &old, strict, cx)?
    } else {
        Leave::Given
    };
    require_no_fewer_gates(&old, &issue, cx)?;
    if issue == old && sheet == old_sheet && work.is_empty() {
        // Done by a file that was brought in: whoever says so with a claim on it lets go of that.
        let lease = state::lease_on(draft.state(), &Resource::Issue(old.id.clone()).key())?;
        let Some(lease) = lease.filter(|lease| {
            change.state == Some(State::Done) && old.state == State::Done && lease.obeys(&cx.actor)
        }) else {
            return Ok(Answer::Already(Reply::Issue(Box::new(old))));
        };
        draft.emit(Event::Issue {
            did: Did::Changed,
            issue: old.clone(),
            sheet: old_sheet,
        })?;
        if let Some(event) = completed(&old) {
            draft.emit(event)?;
        }
        let_go(draft, &lease, &cx.actor.agent_id)?;
        return Ok(Answer::Done);
    }
    issue.updated_at = at;
    issue.revision = issue.revision.saturating_add(1);
    issue.lives_in = cx.actor.worktree_id.clone().or(issue.lives_in);
    sheet.stamp_changes(&old, old_sheet.deleted, &issue);
    write(draft, leave, (Did::Changed, issue, sheet), work, cx)?;
    Ok(Answer::Done)
}

fn change_sets(
    table: &dyn Table,
    (issue, sheet): (&mut Issue, &mut Sheet),
    change: &Change,
    at: Wall,
    cx: &Context,
) -> Result<(), Stop> {
    let by = &cx.actor.agent_id;
    let mut tags = Tags { cx, next: 0 };
    for label in &change.remove_labels {
        if !sheet::remove(&mut sheet.labels, label, by, at) {
            return Err(Refusal::new(Code::NotFound, format!("{} has no label {label:?}", issue.id)).into());
        }
    }
    for label in &change.add_labels {
        worded("the label", label)?;
        sheet::add(&mut sheet.labels, label, tags.tag(), by, at);
    }
    for text in &change.remove_deps {
        // What is unknown here or was deleted can still be let go of.
        let on = match state::resolve(table, text) {
            Ok(issue) => issue.id.to_string(),
            Err(Stop::Refused(refusal)) if refusal.code == Code::NotFound => text.as_str().to_owned(),
            Err(stop) => return Err(stop),
        };
        let named = sheet::members(&sheet.deps)
            .into_iter()
            .find(|id| id.eq_ignore_ascii_case(&on));
        if !named.is_some_and(|id| sheet::remove(&mut sheet.deps, &id, by, at)) {
            return Err(
                Refusal::new(Code::NotFound, format!("{} does not depend on {on}", issue.id))
                    .help(format!("jit dep tree {}", issue.id))
                    .into(),
            );
        }
    }
    for text in &change.add_deps {
        let on = state::resolve(table, text)?.id;
        require_no_circle(table, &issue.id, &on)?;
        sheet::add(&mut sheet.deps, on.as_str(), tags.tag(), by, at);
    }
    let mut gates: BTreeSet<String> = issue.gates.iter().cloned().collect();
    for gate in &change.remove_gates {
        if !gates.remove(gate) {
            return Err(
                Refusal::new(Code::NotFound, format!("{} has no gate {gate:?}", issue.id))
                    .help(format!("jit gate list {}", issue.id))
                    .into(),
            );
        }
    }
    for gate in &change.add_gates {
        worded("the gate", gate)?;
        gates.insert(gate.clone());
    }
    issue.gates = gates.into_iter().collect();
    issue.labels = sheet::members(&sheet.labels);
    issue.depends_on = members_as_ids(sheet);
    Ok(())
}

fn require_reason(text: &str) -> Result<&str, Refusal> {
    match text.trim() {
        "" => Err(invalid("say why: --reason must not be empty")),
        text if text.len() > MAX_COMMENT => Err(invalid("the reason is longer than 64 KiB")),
        text => Ok(text),
    }
}

fn obstruct(issue: &mut Issue, reason: Option<&str>, events: &mut Vec<Event>) -> Result<(), Refusal> {
    match reason {
        Some(reason) => {
            let reason = require_reason(reason)?;
            if issue.blocked.as_deref() != Some(reason) {
                issue.blocked = Some(reason.to_owned());
                events.push(work(Action::Blocked, issue, Some(reason.to_owned())));
            }
        }
        None => {
            let Some(reason) = issue.blocked.take() else {
                return Err(invalid(format!("{} is not marked as blocked", issue.id))
                    .help(format!("jit issue show {}", issue.id)));
            };
            events.push(work(Action::Unblocked, issue, Some(reason)));
        }
    }
    Ok(())
}

fn turn(issue: &mut Issue, pivot: &Pivot, events: &mut Vec<Event>) -> Result<(), Refusal> {
    match pivot {
        Pivot::Start(reason) => {
            let reason = require_reason(reason)?;
            if let Some(before) = &issue.pivot {
                return Err(
                    invalid(format!("{} is being revised already: {before}", issue.id)).help(format!(
                        "jit pivot complete {} --reason <what came of it>",
                        issue.id
                    )),
                );
            }
            issue.pivot = Some(reason.to_owned());
            events.push(work(Action::PivotStarted, issue, Some(reason.to_owned())));
        }
        Pivot::Complete(reason) => {
            let reason = require_reason(reason)?;
            if issue.pivot.take().is_none() {
                return Err(invalid(format!("{} is not being revised", issue.id))
                    .help(format!("jit pivot start {} --reason <why>", issue.id)));
            }
            events.push(work(Action::PivotCompleted, issue, Some(reason.to_owned())));
        }
    }
    Ok(())
}

fn require_transition(issue: &Issue, to: State) -> Result<(), Refusal> {
    if issue.state.next().contains(&to) {
        return Ok(());
    }
    let names: Vec<&str> = issue.state.next().iter().map(|state| state.as_str()).collect();
    Err(Refusal::new(
        Code::BadTransition,
        format!(
            "{} is {} and cannot become {to}: it can become {}",
            issue.id,
            issue.state,
            names.join(", ")
        ),
    )
    .help(format!("jit issue update {} --state {}", issue.id, names[0]))
    .details(Details::Candidates(
        names.into_iter().map(str::to_owned).collect(),
    )))
}

/// An agent that may not say by hand that a gate has passed.
fn is_bound_by_gates(cx: &Context) -> bool {
    is_bound(&cx.policy, &cx.actor.agent_id)
}

fn is_bound(policy: &Policy, agent: &AgentId) -> bool {
    let is_agent = policy.agent_asks || agent.kind() == "agent";
    is_agent && !policy.agents_may_pass_gates
}

/// What an issue has to pass is not lessened by agents: neither its own gates nor those of its type.
fn require_no_fewer_gates(old: &Issue, new: &Issue, cx: &Context) -> Result<(), Refusal> {
    if !is_bound_by_gates(cx) {
        return Ok(());
    }
    let now = cx.policy.required_gates(&new.kind, &new.gates);
    let before = cx.policy.required_gates(&old.kind, &old.gates);
    let Some(gate) = before.iter().find(|gate| !now.contains(gate)) else {
        return Ok(());
    };
    let help = match new.gates == old.gates {
        true => format!("jit issue update {} --type {}", old.id, new.kind),
        false => format!("jit gate rm {} {gate}", old.id),
    };
    Err(Refusal::new(
        Code::NotAllowed,
        format!(
            "{} is an agent, and agents may not decide here that {} need not pass {gate}",
            cx.actor.agent_id, old.id
        ),
    )
    .help(format!("ask a person to run: {help}")))
}

/// A gate that an issue needs and has not passed here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Missing {
    gate: String,
    /// It has, but it was another gate then.
    was_another: bool,
}

impl Missing {
    fn listed(all: &[Self]) -> String {
        let name = |one: &Self| match one.was_another {
            true => format!("{} as it is defined now", one.gate),
            false => one.gate.clone(),
        };
        all.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

fn not_passed(table: &dyn Table, issue: &Issue, policy: &Policy) -> Read<Vec<Missing>> {
    let mut missing = Vec::new();
    for gate in policy.required_gates(&issue.kind, &issue.gates) {
        let passed = state::gate_result(table, &issue.id, &gate)?.filter(|result| result.passed);
        let was_another = match passed {
            None => false,
            Some(result) if policy.is_current(&gate, &result) => continue,
            Some(_) => true,
        };
        missing.push(Missing { gate, was_another });
    }
    Ok(missing)
}

/// What somebody edited by hand and no command would have done (E6): taken back in `new`, which is what came of joining
/// `found` to `old`. Says in words what was.
fn hold_back(
    table: &dyn Table,
    old: Option<&Issue>,
    (new, sheet): (&mut Issue, &mut Sheet),
    found: &Found,
    (policy, agent): (&Policy, &AgentId),
) -> Read<Vec<String>> {
    let mut said = Vec::new();
    let deleted = sheet.deleted;
    // Later than the edit, so that it does not come back from another copy.
    let mut keep = |new: &mut Issue, name: &str| {
        let whole = match name.starts_with(GATE) {
            true => "gates",
            false => name,
        };
        let before = sheet.stamp(new, name).max(sheet.stamp(new, whole));
        let at = Wall::from_ms(before.ms().saturating_add(1));
        sheet.stamps.insert(name.to_owned(), at);
        new.updated_at = new.updated_at.max(at);
    };
    let by_hand = |name: &str| found.by_hand.contains(&name);
    // Whoever looks first need not be whoever edited.
    let agent = policy.editor.as_ref().unwrap_or(agent);
    if let Some(old) = old.filter(|_| is_bound(policy, agent)) {
        let mut kept: Vec<String> = Vec::new();
        if by_hand("gates") {
            kept.extend(old.gates.iter().filter(|gate| !new.gates.contains(gate)).cloned());
        }
        if !kept.is_empty() {
            new.gates.extend(kept.iter().cloned());
            new.gates.sort();
            keep(new, "gates");
            for gate in &kept {
                keep(new, &format!("{GATE}{gate}"));
            }
        }
        let fewer = |kind: &str| {
            let now = policy.required_gates(kind, &new.gates);
            let before = policy.required_gates(&old.kind, &old.gates).into_iter();
            before.filter(|gate| !now.contains(gate)).collect::<Vec<_>>()
        };
        let by_type = fewer(&new.kind);
        if by_hand("type") && new.kind != old.kind && (policy.gates_unknown || !by_type.is_empty()) {
            kept.extend(by_type);
            new.kind.clone_from(&old.kind);
            keep(new, "type");
        }
        if !kept.is_empty() {
            said.push(format!(
                "{} was edited by hand so that it need not pass {}, which {agent} as an agent may not decide: it still has to",
                new.id,
                kept.join(", ")
            ));
        }
    }
    let was_done = old.is_some_and(|old| old.state == State::Done);
    if new.state == State::Done && !was_done && by_hand("state") && !deleted {
        let mut missing = not_passed(table, new, policy)?;
        if let Some(old) = old {
            // Another type is no way round.
            let mut as_before = new.clone();
            as_before.kind.clone_from(&old.kind);
            missing.extend(not_passed(table, &as_before, policy)?);
            missing.sort();
            missing.dedup();
        }
        if policy.gates_unknown {
            missing.push(Missing {
                gate: "what the registry of gates asks for, which cannot be read".into(),
                was_another: false,
            });
        }
        if !missing.is_empty() {
            new.state = State::Gated;
            keep(new, "state");
            said.push(format!(
                "{id} was edited by hand to be done, and has not passed {}: it is taken as gated; jit gate list {id}",
                Missing::listed(&missing),
                id = new.id,
            ));
        }
        let open = queue::open_parts(table, &new.id.key())?;
        if !open.is_empty() {
            if new.state == State::Done {
                new.state = old.map_or(State::InProgress, |old| old.state);
                keep(new, "state");
            }
            said.push(format!(
                "{id} was edited by hand to be done, and parts of it are open: {}; it is taken as {}: jit issue list --parent {id}",
                named(&open),
                new.state,
                id = new.id,
            ));
        }
    }
    Ok(said)
}

/// Whether joining what was found would take something back of what it says.
pub fn is_held_back(
    table: &dyn Table,
    found: &Found,
    (policy, agent): (&Policy, &AgentId),
    now: Wall,
) -> Read<bool> {
    let id = &found.issue.id;
    let old = state::issue_or_tombstone(table, id)?;
    let (mut new, mut sheet) = match &old {
        None => (found.issue.clone(), found.sheet.clone()),
        Some(_) if state::is_known_file(table, id, &found.digest)? => return Ok(false),
        Some(mine) => match merge::join((mine, &state::sheet(table, id)?), found, now) {
            Some(joined) => joined,
            None => return Ok(false),
        },
    };
    let said = hold_back(
        table,
        old.as_ref(),
        (&mut new, &mut sheet),
        found,
        (policy, agent),
    )?;
    Ok(!said.is_empty())
}

fn require_gates(table: &dyn Table, issue: &Issue, cx: &Context) -> Result<(), Stop> {
    let missing = not_passed(table, issue, &cx.policy)?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(
        Code::GateNotPassed,
        format!(
            "{} cannot be done before it has passed {}",
            issue.id,
            Missing::listed(&missing)
        ),
    )
    .help(format!("jit gate run {}", issue.id))
    .help(format!("jit gate list {}", issue.id))
    .details(Details::Candidates(
        missing.into_iter().map(|one| one.gate).collect(),
    ))
    .into())
}

/// So many parts are named in a sentence.
const NAMED: usize = 10;

fn named(ids: &[IssueId]) -> String {
    let names: Vec<&str> = ids.iter().take(NAMED).map(IssueId::as_str).collect();
    let more = match ids.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.join(", ") + &more
}

/// An issue is done after its parts.
fn require_no_open_parts(table: &dyn Table, issue: &Issue) -> Result<(), Stop> {
    let open = queue::open_parts(table, &issue.id.key())?;
    let Some(first) = open.first() else {
        return Ok(());
    };
    Err(Refusal::new(
        Code::OpenParts,
        format!(
            "{} cannot be done before its parts are: open are {}",
            issue.id,
            named(&open)
        ),
    )
    .help(format!("jit issue list --parent {}", issue.id))
    .help(format!("jit issue update {first} --state done"))
    .help(format!("jit issue update {first} --state rejected"))
    .details(Details::Candidates(
        open.iter().map(ToString::to_string).collect(),
    ))
    .into())
}

pub(crate) fn delete(
    draft: &mut Draft<'_>,
    text: &IssuePrefix,
    strict: bool,
    cx: &Context,
) -> Result<Answer, Stop> {
    let old = state::resolve(draft.state(), text)?;
    let leave = require_leave(draft, &old, strict, cx)?;
    let key = old.id.key();
    for (what, keys) in [
        (
            "no longer waiting for it",
            queue::dependents(draft.state(), &key)?,
        ),
        ("now without their parent", queue::parts(draft.state(), &key)?),
    ] {
        let mut names = Vec::new();
        for key in keys {
            names.extend(state::issue_at(draft.state(), &key)?.map(|issue| issue.id.to_string()));
        }
        if !names.is_empty() {
            draft.notice(format!("{what}: {}", names.join(", ")));
        }
    }
    let mut sheet = state::sheet(draft.state(), &old.id)?;
    let mut issue = old.clone();
    issue.updated_at = cx
        .now
        .wall
        .max(Wall::from_ms(old.updated_at.ms().saturating_add(1)));
    issue.revision = issue.revision.saturating_add(1);
    issue.lives_in = cx.actor.worktree_id.clone().or(issue.lives_in);
    sheet.deleted = true;
    sheet.stamp_changes(&old, false, &issue);
    write(draft, leave, (Did::Deleted, issue, sheet), Vec::new(), cx)?;
    Ok(Answer::Done)
}

/// Takes a deletion back. Nobody can hold what is not there, so anybody may.
pub(crate) fn restore(draft: &mut Draft<'_>, id: &IssueId, cx: &Context) -> Result<Answer, Stop> {
    let Some(old) = state::deleted(draft.state(), id)? else {
        let there = state::issue(draft.state(), id)?;
        return Err(match there {
            Some(issue) => Refusal::new(Code::Exists, format!("{} was not deleted", issue.id))
                .help(format!("jit issue show {}", issue.id)),
            None => Refusal::new(Code::NotFound, format!("no issue was called {id}"))
                .help("jit events --type issue.deleted"),
        }
        .into());
    };
    // What it waits for may have come to wait for it meanwhile.
    for on in &old.depends_on {
        require_no_circle(draft.state(), &old.id, on)?;
    }
    if let Some(parent) = &old.parent {
        require_not_within(draft.state(), &old.id, parent)?;
    }
    let mut sheet = state::sheet(draft.state(), &old.id)?;
    let mut issue = old.clone();
    issue.updated_at = cx
        .now
        .wall
        .max(Wall::from_ms(old.updated_at.ms().saturating_add(1)));
    issue.revision = issue.revision.saturating_add(1);
    issue.lives_in = cx.actor.worktree_id.clone().or(issue.lives_in);
    sheet.deleted = false;
    sheet.stamp_changes(&old, true, &issue);
    draft.emit(Event::Issue {
        did: Did::Changed,
        issue,
        sheet,
    })?;
    Ok(Answer::Done)
}

pub(crate) fn comment(
    draft: &mut Draft<'_>,
    issue: &IssuePrefix,
    text: &str,
    cx: &Context,
) -> Result<Answer, Stop> {
    let issue = state::resolve(draft.state(), issue)?;
    let text = text.trim_end();
    if text.trim().is_empty() {
        return Err(invalid("the comment is empty").into());
    }
    if text.len() > MAX_COMMENT {
        return Err(invalid("the comment is longer than 64 KiB: put it into the description").into());
    }
    draft.emit(Event::Commented {
        issue_id: issue.id,
        comment: Comment {
            id: cx.fresh_lease.to_string(),
            at: cx.now.wall,
            agent_id: cx.actor.agent_id.clone(),
            text: text.to_owned(),
        },
    })?;
    Ok(Answer::Done)
}

/// Records how a gate came out. Anybody may: a reviewer is seldom the holder.
pub(crate) fn judge(
    draft: &mut Draft<'_>,
    issue: &IssuePrefix,
    gate: &str,
    result: GateResult,
    cx: &Context,
) -> Result<Answer, Stop> {
    let issue = state::resolve(draft.state(), issue)?;
    if result.manual && result.passed && is_bound_by_gates(cx) {
        return Err(Refusal::new(
            Code::NotAllowed,
            format!(
                "{} is an agent, and agents may not say by hand that a gate has passed here",
                cx.actor.agent_id
            ),
        )
        .help(format!("ask a person to run: jit gate pass {} {gate}", issue.id))
        .into());
    }
    draft.emit(Event::GateJudged {
        issue_id: issue.id,
        gate: gate.to_owned(),
        result,
    })?;
    Ok(Answer::Done)
}

/// What is part of something else that was found comes before it: a whole is done after its parts.
fn parts_first(all: &[Found]) -> Vec<&Found> {
    let wholes: BTreeMap<String, &Found> = all.iter().map(|found| (found.issue.id.key(), found)).collect();
    let depth = |found: &Found| {
        let mut above = found.issue.parent.as_ref();
        let mut depth = 0;
        while let Some(whole) = above.and_then(|id| wholes.get(&id.key())) {
            depth += 1;
            if depth > wholes.len() {
                // In a circle nothing comes first.
                return 0;
            }
            above = whole.issue.parent.as_ref();
        }
        depth
    };
    let mut ordered: Vec<(usize, &Found)> = all.iter().map(|found| (depth(found), found)).collect();
    ordered.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    ordered.into_iter().map(|(_, found)| found).collect()
}

/// Brings in what trees or files from elsewhere have and the log does not.
pub(crate) fn join(draft: &mut Draft<'_>, all: &[Found], cx: &Context) -> Result<Answer, Stop> {
    let who = (&cx.policy, &cx.actor.agent_id);
    for found in parts_first(all) {
        let id = &found.issue.id;
        let known = state::issue_or_tombstone(draft.state(), id)?;
        let here = |mut issue: Issue| {
            issue.lives_in = cx.actor.worktree_id.clone().or(issue.lives_in);
            issue
        };
        match known {
            None => {
                let (mut issue, mut sheet) = (found.issue.clone(), found.sheet.clone());
                let said = hold_back(draft.state(), None, (&mut issue, &mut sheet), found, who)?;
                let event = |did| Event::Issue {
                    did,
                    issue: here(issue.clone()),
                    sheet: sheet.clone(),
                };
                draft.emit(event(Did::Created))?;
                if !said.is_empty() {
                    // What is in the file is known, and may be written over.
                    let digest = found.digest.clone();
                    draft.emit(event(Did::Joined { digest }))?;
                }
                said.into_iter().for_each(|said| draft.notice(said));
            }
            Some(mine) => {
                let my_sheet = state::sheet(draft.state(), id)?;
                let seen = state::is_known_file(draft.state(), id, &found.digest)?;
                // What was seen before tells nothing new but in its sets, which are files of their own, and its text.
                let mut theirs = found.clone();
                if seen {
                    theirs.edited.retain(|name| *name == "text");
                    theirs.edited_others.clear();
                    theirs.by_hand.retain(|name| *name == "text");
                }
                let joined = merge::join((&mine, &my_sheet), &theirs, cx.now.wall);
                let did = Did::Joined {
                    digest: found.digest.clone(),
                };
                match joined {
                    Some((mut issue, mut sheet)) => {
                        let taken = (&mut issue, &mut sheet);
                        let said = hold_back(draft.state(), Some(&mine), taken, &theirs, who)?;
                        said.into_iter().for_each(|said| draft.notice(said));
                        draft.emit(Event::Issue {
                            did,
                            issue: here(issue),
                            sheet,
                        })?;
                    }
                    None if !seen => draft.emit(Event::Issue {
                        did,
                        issue: mine,
                        sheet: my_sheet,
                    })?,
                    None => {}
                }
            }
        }
        for comment in &found.comments {
            if state::holds_comment(draft.state(), id, comment)? {
                continue;
            }
            let said = |comment: &Comment| Event::Commented {
                issue_id: id.clone(),
                comment: comment.clone(),
            };
            match state::comment(draft.state(), id, &comment.id)? {
                None => draft.emit(said(comment))?,
                Some(known) => {
                    // Both are kept, and every copy gives the id to the same one.
                    let (first, other) = said_first(&known, comment);
                    if *first != known {
                        draft.emit(said(first))?;
                    }
                    draft.emit(said(&set_aside(other)))?;
                    draft.notice(format!(
                        "comment {} of {id} says something else than before: both are kept",
                        comment.id
                    ));
                }
            }
        }
    }
    Ok(if draft.events().is_empty() {
        Answer::Already(Reply::Joined(0))
    } else {
        Answer::Done
    })
}

/// The best issue that the caller may take, taken.
pub(crate) fn acquire_next(
    draft: &mut Draft<'_>,
    label: Option<&str>,
    kind: Option<&str>,
    terms: Terms,
    cx: &Context,
) -> Result<Answer, Stop> {
    // What nobody holds any more is offered again, all of it.
    while clear_expired(draft, cx)? > 0 {}
    let mut limit = 8;
    let mut looked_at = 0;
    loop {
        let queued = queue::queued(draft.state(), limit)?;
        for (_, key) in &queued[looked_at..] {
            let Some(issue) = state::issue_at(draft.state(), key)? else {
                continue;
            };
            let wanted = label.is_none_or(|label| issue.labels.iter().any(|l| l == label))
                && kind.is_none_or(|kind| issue.kind == kind)
                && issue.actor.allows(cx.actor.agent_id.kind());
            if !wanted || is_container(draft.state(), &issue)? {
                continue;
            }
            match acquire(draft, &issue, terms.clone(), cx) {
                // Inside an activity that somebody else holds.
                Err(Stop::Refused(refusal)) if refusal.code == Code::Held => {}
                other => return other,
            }
        }
        if queued.len() < limit {
            return Err(nothing_ready(draft.state(), cx)?.into());
        }
        looked_at = queued.len();
        limit *= 4;
    }
}

/// Whether the work is in its parts. An activity is taken as a whole.
pub fn is_container(table: &dyn Table, issue: &Issue) -> Result<bool, Stop> {
    if issue.kind == ACTIVITY {
        return Ok(false);
    }
    Ok(queue::has_open_parts(table, &issue.id.key())?)
}

fn nothing_ready(table: &dyn Table, cx: &Context) -> Result<Refusal, Stop> {
    let (mut blocked, mut backlog, mut gated, mut human, mut in_parts) = (0, 0, 0, 0, 0);
    let held: BTreeSet<String> = state::claims(table)?
        .iter()
        .map(|lease| lease.resource.key())
        .collect();
    for issue in state::issues(table)? {
        let free = !held.contains(&Resource::Issue(issue.id.clone()).key());
        match issue.state {
            State::Backlog => backlog += 1,
            State::Gated => gated += 1,
            State::Done | State::Rejected => {}
            _ if !free => {}
            _ if issue.blocked.is_some() || !queue::open_dependencies(table, &issue)?.is_empty() => {
                blocked += 1
            }
            _ if is_container(table, &issue)? => in_parts += 1,
            _ if issue.actor == Performer::Human => human += 1,
            _ => {}
        }
    }
    let soonest = state::claims(table)?
        .iter()
        .map(|lease| lease.remaining_ms(&cx.now).div_ceil(1000))
        .min();
    let many = held.len() as u64;
    Ok(Refusal::new(
        Code::NothingReady,
        format!("nothing is ready to be taken: {many} held, {blocked} blocked, {human} waiting for a person, {in_parts} whose parts are open, {backlog} in the backlog"),
    )
    .help("jit ready")
    .help("jit blocked")
    .details(Details::Counts(vec![
        ("held", Some(many)),
        ("blocked", Some(blocked)),
        ("waiting_for_human", Some(human)),
        ("open_parts", Some(in_parts)),
        ("gated", Some(gated)),
        ("backlog", Some(backlog)),
        ("retry_after_secs", soonest),
    ])))
}

pub(crate) fn require_performer(issue: &Issue, cx: &Context) -> Result<(), Refusal> {
    if issue.actor.allows(cx.actor.agent_id.kind()) {
        return Ok(());
    }
    Err(
        Refusal::new(Code::NotAllowed, format!("{} waits for a person", issue.id))
            .help("jit claim next")
            .help(format!("jit issue update {} --actor any", issue.id)),
    )
}

/// Taking what cannot be worked on is allowed, but worth a word.
pub(crate) fn notice_obstacles(draft: &mut Draft<'_>, issue: &Issue) -> Result<(), Stop> {
    if let Some(reason) = &issue.blocked {
        draft.notice(format!("{} is marked as blocked: {reason}", issue.id));
    }
    let open = queue::open_dependencies(draft.state(), issue)?;
    if !open.is_empty() {
        let names: Vec<&str> = open.iter().map(IssueId::as_str).collect();
        draft.notice(format!("{} still waits for {}", issue.id, names.join(", ")));
    }
    Ok(())
}
