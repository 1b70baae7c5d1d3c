//! Decisions about issues: create, change, delete and restore one, comment on it and judge its gates.
//!
//! What must hold:
//!
//! - an issue that another agent holds is not changed (unless the settings allow it), and every change passes here;
//! - no command makes a cycle of dependencies or parents;
//! - an issue is not done while a gate that it needs has not passed, as that gate is defined now. Files that jit wrote
//!   elsewhere are believed; an edit by hand may say no more than a command may;
//! - an issue is not done while a part of it is open.

mod cycles;
mod done_rules;
mod implied;
mod join;

pub(crate) use done_rules::is_bound;
pub use done_rules::is_held_back;
pub use implied::implied_type;
pub(crate) use join::join;

use std::collections::BTreeSet;

use crate::decide::activities::{self, work};
use crate::decide::claims::require_performer;
use crate::decide::command::{CommandReply, Context, IssueChange, NewIssue, Pivot, Target};
use crate::decide::draft::{Decision, Draft};
use crate::decide::issues::cycles::{
    require_no_circle, require_no_deadlock, require_not_within, require_parent, require_type_fits,
};
use crate::decide::issues::done_rules::{
    is_bound_by_gates, require_gates, require_no_fewer_gates, require_no_open_parts, the_agent,
};
use crate::decide::leases::{fresh_lease, let_go, live, not_holder};
use crate::issue_files::format::MOST_LINES;
use crate::issue_files::stamps::{self, Sheet};
use crate::log::event::{ChangelogAction, Event, IssueAction};
use crate::log::state;
use crate::log::stop::Stop;
use crate::log::table::Table;
use crate::model::ids::{IssueId, IssuePrefix};
use crate::model::issue::{
    ACTIVITY, Comment, GateResult, Issue, IssueState, MAX_COMMENT, MAX_MEMBERS, MAX_TITLE, TASK, WORK_ITEM,
    check_gate, check_word,
};
use crate::model::lease::{Lease, Resource};
use crate::model::policy::Enforce;
use crate::model::refusal::{Code, Details, Refusal};
use crate::model::time::Wall;
use crate::query::ready_queue;

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

/// Any word is a type, but one that is written almost as one that rules hang on is likely meant as that.
fn notice_near_type(draft: &mut Draft<'_>, kind: &str, cx: &Context) {
    let plain = |word: &str| -> String {
        let letters = word.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect()
    };
    let named = cx.policy.hierarchy.iter().flatten().map(String::as_str);
    let known: Vec<&str> = [WORK_ITEM, ACTIVITY, TASK].into_iter().chain(named).collect();
    if known.contains(&kind) {
        return;
    }
    if let Some(near) = known.iter().find(|near| plain(near) == plain(kind)) {
        draft.notice(format!(
            "the type {kind:?} is taken as one of its own: it is not {near}"
        ));
    }
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

pub(crate) fn create(draft: &mut Draft<'_>, new: &NewIssue, cx: &Context) -> Result<Decision, Stop> {
    let title = titled(&new.title)?;
    worded("the type", &new.kind)?;
    notice_near_type(draft, &new.kind, cx);
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
        None if new.chosen => implied::implied_parent(draft, &id, &new.kind, cx)?,
        None => None,
    };
    let at = cx.now.wall;
    let by = &cx.actor.agent_id;
    let (mut sheet, mut tags) = (Sheet::default(), Tags { cx, next: 0 });
    for label in &new.labels {
        worded("the label", label)?;
        stamps::add(&mut sheet.labels, label, tags.tag(), by, at);
    }
    for text in &new.depends_on {
        let on = state::resolve(draft.state(), text)?.id;
        stamps::add(&mut sheet.deps, on.as_str(), tags.tag(), by, at);
    }
    let gates: BTreeSet<&String> = new.gates.iter().collect();
    for gate in &gates {
        check_gate(gate).map_err(|why| invalid(format!("{gate:?} is not the name of a gate: {why}")))?;
    }
    let issue = Issue {
        id,
        title,
        kind: new.kind.as_str().into(),
        state: new.state,
        priority: new.priority,
        parent,
        labels: stamps::members(&sheet.labels),
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
    require_few(&issue, &sheet)?;
    require_no_deadlock(draft.state(), &issue)?;
    let work = (issue.kind == WORK_ITEM).then(|| {
        work(
            ChangelogAction::WorkItemCreated,
            &issue,
            Some(issue.title.clone()),
        )
    });
    draft.emit(Event::Issue {
        did: IssueAction::Created,
        issue,
        sheet,
    })?;
    if let Some(work) = work {
        draft.emit(work)?;
    }
    Ok(Decision::Done)
}

fn members_as_ids(sheet: &Sheet) -> Vec<IssueId> {
    stamps::members(&sheet.deps)
        .iter()
        .filter_map(|id| id.parse().ok())
        .collect()
}

fn require_few(issue: &Issue, sheet: &Sheet) -> Result<(), Refusal> {
    for (what, many) in [
        ("labels", issue.labels.len()),
        ("dependencies", issue.depends_on.len()),
        ("gates", issue.gates.len()),
    ] {
        if many > MAX_MEMBERS {
            return Err(invalid(format!("an issue has at most {MAX_MEMBERS} {what}")));
        }
    }
    for (what, lines) in [("labels", &sheet.labels), ("dependencies", &sheet.deps)] {
        // More are not read from its file.
        if lines.len() > MOST_LINES {
            return Err(invalid(format!(
                "{what} of {} were added and removed {MOST_LINES} times: no more of that is kept",
                issue.id
            )));
        }
    }
    Ok(())
}

/// The permission for a change, and the lease it needs.
enum Leave {
    /// Nothing is to be taken or returned.
    Given,
    /// The issue was free: acquired for the length of this change.
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
    let lease = live(draft, &resource.key(), cx)?;
    if lease.as_ref().is_some_and(|lease| cx.commands(lease)) {
        return Ok(Leave::Given);
    }
    let target = |lease: &Lease| Target::Lease(lease.lease_id.clone());
    // A free issue is acquired on the way, where the caller may acquire it.
    let in_the_way = match lease {
        Some(lease) => Some(not_holder(&lease, &target(&lease), cx)),
        None => match activities::rival(draft, issue, cx)? {
            Some(lease) => {
                let mut refusal = not_holder(&lease, &target(&lease), cx);
                refusal.message = format!("{}: {} is not to be changed meanwhile", refusal.message, issue.id);
                Some(refusal)
            }
            None => require_performer(issue, cx).err(),
        },
    };
    if let Some(refusal) = in_the_way {
        if enforce == Enforce::Warn {
            draft.notice(format!("{}: changed all the same", refusal.message));
            return Ok(Leave::Given);
        }
        return Err(refusal.into());
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
    (did, issue, sheet): (IssueAction, Issue, Sheet),
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

/// The entry of the changelog for an issue that is done.
fn completed(issue: &Issue) -> Option<Event> {
    let action = match issue.kind.as_str() {
        TASK => ChangelogAction::CompletedTask,
        ACTIVITY => ChangelogAction::CompletedActivity,
        _ => return None,
    };
    Some(work(action, issue, Some(issue.title.clone())))
}

pub(crate) fn change(
    draft: &mut Draft<'_>,
    text: &IssuePrefix,
    change: &IssueChange,
    strict: bool,
    cx: &Context,
) -> Result<Decision, Stop> {
    let old = state::resolve(draft.state(), text)?;
    let old_sheet = state::sheet(draft.state(), &old.id)?;
    let at = cx
        .now
        .wall
        .max(Wall::from_ms(old.updated_at.ms().saturating_add(1)));
    let (mut issue, mut sheet, work) = match changed(draft.state(), (&old, &old_sheet), change, at, cx) {
        // A caller that may not change the issue gets that refusal first.
        Err(Stop::Refused(refusal)) => {
            require_leave(draft, &old, strict, cx)?;
            return Err(Stop::Refused(refusal));
        }
        changed => changed?,
    };
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
            change.state == Some(IssueState::Done) && old.state == IssueState::Done && cx.commands(lease)
        }) else {
            return Ok(Decision::Already(CommandReply::Issue(Box::new(old))));
        };
        draft.emit(Event::Issue {
            did: IssueAction::Changed,
            issue: old.clone(),
            sheet: old_sheet,
        })?;
        if let Some(event) = completed(&old) {
            draft.emit(event)?;
        }
        let_go(draft, &lease, &cx.actor.agent_id)?;
        return Ok(Decision::Done);
    }
    if issue.kind != old.kind {
        notice_near_type(draft, &issue.kind, cx);
    }
    issue.updated_at = at;
    issue.count_change();
    issue.lives_in = cx.actor.worktree_id.clone().or(issue.lives_in);
    sheet.stamp_changes(&old, old_sheet.deleted, &issue);
    write(draft, leave, (IssueAction::Changed, issue, sheet), work, cx)?;
    Ok(Decision::Done)
}

/// An issue as it would be after a change, and what the changelog is told of it.
fn changed(
    table: &dyn Table,
    (old, old_sheet): (&Issue, &Sheet),
    change: &IssueChange,
    at: Wall,
    cx: &Context,
) -> Result<(Issue, Sheet, Vec<Event>), Stop> {
    let (mut issue, mut sheet, mut work) = (old.clone(), old_sheet.clone(), Vec::new());
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
            issue.parent = Some(require_parent(table, &issue.id, &issue.kind, text, cx)?);
        }
        Some(None) => issue.parent = None,
        None => {}
    }
    if issue.kind != old.kind {
        require_type_fits(table, &issue, cx)?;
    }
    change_sets(table, (&mut issue, &mut sheet), change, at, cx)?;
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
        require_transition(old, state)?;
        issue.state = state;
        if state == IssueState::Done {
            // Another type is no way round.
            let mut as_before = issue.clone();
            as_before.kind.clone_from(&old.kind);
            require_gates(table, &as_before, cx)?;
            require_gates(table, &issue, cx)?;
            require_no_open_parts(table, &issue)?;
            work.extend(completed(&issue));
        }
    }
    require_few(&issue, &sheet)?;
    let reopens = old.state.is_closed() && !issue.state.is_closed();
    if issue.parent != old.parent || !change.add_deps.is_empty() || reopens {
        require_no_deadlock(table, &issue)?;
    }
    Ok((issue, sheet, work))
}

fn change_sets(
    table: &dyn Table,
    (issue, sheet): (&mut Issue, &mut Sheet),
    change: &IssueChange,
    at: Wall,
    cx: &Context,
) -> Result<(), Stop> {
    let by = &cx.actor.agent_id;
    let mut tags = Tags { cx, next: 0 };
    for label in &change.remove_labels {
        if !stamps::remove(&mut sheet.labels, label, by, at) {
            return Err(Refusal::new(Code::NotFound, format!("{} has no label {label:?}", issue.id)).into());
        }
    }
    for label in &change.add_labels {
        worded("the label", label)?;
        stamps::add(&mut sheet.labels, label, tags.tag(), by, at);
    }
    for text in &change.remove_deps {
        // A dependency on an unknown or deleted issue can still be removed.
        let on = match state::resolve(table, text) {
            Ok(issue) => issue.id.to_string(),
            Err(Stop::Refused(refusal)) if refusal.code == Code::NotFound => text.as_str().to_owned(),
            Err(stop) => return Err(stop),
        };
        let named = stamps::members(&sheet.deps)
            .into_iter()
            .find(|id| id.eq_ignore_ascii_case(&on));
        if !named.is_some_and(|id| stamps::remove(&mut sheet.deps, &id, by, at)) {
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
        stamps::add(&mut sheet.deps, on.as_str(), tags.tag(), by, at);
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
        check_gate(gate).map_err(|why| invalid(format!("{gate:?} is not the name of a gate: {why}")))?;
        gates.insert(gate.clone());
    }
    issue.gates = gates.into_iter().collect();
    issue.labels = stamps::members(&sheet.labels);
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
                events.push(work(ChangelogAction::Blocked, issue, Some(reason.to_owned())));
            }
        }
        None => {
            let Some(reason) = issue.blocked.take() else {
                return Err(invalid(format!("{} is not marked as blocked", issue.id))
                    .help(format!("jit issue show {}", issue.id)));
            };
            events.push(work(ChangelogAction::Unblocked, issue, Some(reason)));
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
            events.push(work(
                ChangelogAction::PivotStarted,
                issue,
                Some(reason.to_owned()),
            ));
        }
        Pivot::Complete(reason) => {
            let reason = require_reason(reason)?;
            if issue.pivot.take().is_none() {
                return Err(invalid(format!("{} is not being revised", issue.id))
                    .help(format!("jit pivot start {} --reason <why>", issue.id)));
            }
            events.push(work(
                ChangelogAction::PivotCompleted,
                issue,
                Some(reason.to_owned()),
            ));
        }
    }
    Ok(())
}

fn require_transition(issue: &Issue, to: IssueState) -> Result<(), Refusal> {
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

pub(crate) fn delete(
    draft: &mut Draft<'_>,
    text: &IssuePrefix,
    strict: bool,
    cx: &Context,
) -> Result<Decision, Stop> {
    let old = state::resolve(draft.state(), text)?;
    let leave = require_leave(draft, &old, strict, cx)?;
    let key = old.id.key();
    for (what, keys) in [
        (
            "no longer waiting for it",
            ready_queue::dependents(draft.state(), &key)?,
        ),
        (
            "now without their parent",
            ready_queue::parts(draft.state(), &key)?,
        ),
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
    issue.count_change();
    issue.lives_in = cx.actor.worktree_id.clone().or(issue.lives_in);
    sheet.deleted = true;
    sheet.stamp_changes(&old, false, &issue);
    write(draft, leave, (IssueAction::Deleted, issue, sheet), Vec::new(), cx)?;
    Ok(Decision::Done)
}

/// Takes a deletion back. Nobody can hold what is not there, so anybody may.
pub(crate) fn restore(draft: &mut Draft<'_>, id: &IssueId, cx: &Context) -> Result<Decision, Stop> {
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
    // Its dependencies may have come to depend on it meanwhile.
    for on in &old.depends_on {
        require_no_circle(draft.state(), &old.id, on)?;
    }
    if let Some(parent) = &old.parent {
        require_not_within(draft.state(), &old.id, parent)?;
    }
    require_no_deadlock(draft.state(), &old)?;
    let mut sheet = state::sheet(draft.state(), &old.id)?;
    let mut issue = old.clone();
    issue.updated_at = cx
        .now
        .wall
        .max(Wall::from_ms(old.updated_at.ms().saturating_add(1)));
    issue.count_change();
    issue.lives_in = cx.actor.worktree_id.clone().or(issue.lives_in);
    sheet.deleted = false;
    sheet.stamp_changes(&old, true, &issue);
    draft.emit(Event::Issue {
        did: IssueAction::Changed,
        issue,
        sheet,
    })?;
    Ok(Decision::Done)
}

pub(crate) fn comment(
    draft: &mut Draft<'_>,
    issue: &IssuePrefix,
    text: &str,
    cx: &Context,
) -> Result<Decision, Stop> {
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
    Ok(Decision::Done)
}

/// Records how a gate came out. Anybody may: a reviewer is seldom the holder.
pub(crate) fn judge(
    draft: &mut Draft<'_>,
    issue: &IssuePrefix,
    gate: &str,
    result: GateResult,
    cx: &Context,
) -> Result<Decision, Stop> {
    let issue = state::resolve(draft.state(), issue)?;
    if result.manual && result.passed && is_bound_by_gates(cx) {
        return Err(Refusal::new(
            Code::NotAllowed,
            format!(
                "{}, and agents may not say by hand that a gate has passed here",
                the_agent(cx)
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
    Ok(Decision::Done)
}
