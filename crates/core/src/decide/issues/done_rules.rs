//! Rules for closing an issue: its gates have passed as they are defined now, and its parts are closed.
//!
//! The same rules hold for an edit by hand: see [`hold_back`].

use crate::decide::command::Context;
use crate::decide::issues::cycles::{require_no_deadlock, require_not_within};
use crate::issue_files::format::FoundIssue;
use crate::issue_files::merge;
use crate::issue_files::stamps::{GATE, Sheet};
use crate::log::state;
use crate::log::stop::Stop;
use crate::log::table::{Read, Table};
use crate::model::ids::{AgentId, IssueId};
use crate::model::issue::{Issue, IssueState};
use crate::model::policy::Policy;
use crate::model::refusal::{Code, Details, Refusal};
use crate::model::time::Wall;
use crate::query::ready_queue;

/// An agent that may not say by hand that a gate has passed.
pub(super) fn is_bound_by_gates(cx: &Context) -> bool {
    is_bound(&cx.policy, &cx.actor.agent_id)
}

pub(crate) fn is_bound(policy: &Policy, agent: &AgentId) -> bool {
    policy.kind_of(agent) == "agent" && !policy.agents_may_pass_gates
}

/// Names the caller that the rules for agents apply to, for messages.
pub(super) fn the_agent(cx: &Context) -> String {
    let id = &cx.actor.agent_id;
    match id.kind() {
        "agent" => format!("{id} is an agent"),
        _ => format!("an agent asks here, as {id}"),
    }
}

/// Agents may not remove required gates of an issue: neither its own nor those of its type.
pub(super) fn require_no_fewer_gates(old: &Issue, new: &Issue, cx: &Context) -> Result<(), Refusal> {
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
            "{}, and agents may not decide here that {} need not pass {gate}",
            the_agent(cx),
            old.id
        ),
    )
    .help(format!("ask a person to run: {help}")))
}

/// A gate that an issue needs and has not passed here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Missing {
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

/// For whom agents' rules hold, a gate that is defined nowhere here has not passed as it is defined now: who could take the
/// definition away could choose it.
pub(super) fn not_passed(
    table: &dyn Table,
    issue: &Issue,
    (policy, agent): (&Policy, &AgentId),
) -> Read<Vec<Missing>> {
    let is_bound = is_bound(policy, agent);
    let mut missing = Vec::new();
    for gate in policy.required_gates(&issue.kind, &issue.gates) {
        let passed = state::gate_result(table, &issue.id, &gate)?.filter(|result| result.passed);
        let was_another = match passed {
            None => false,
            Some(result) if policy.is_current(&gate, &result, is_bound) => continue,
            Some(_) => true,
        };
        missing.push(Missing { gate, was_another });
    }
    Ok(missing)
}

/// Reverts edits by hand that no command would have allowed (E6), in `new`, the result of joining `found` to `old`. Returns a
/// message for each.
pub(super) fn hold_back(
    table: &dyn Table,
    old: Option<&Issue>,
    (new, sheet): (&mut Issue, &mut Sheet),
    found: &FoundIssue,
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
    // The caller that reads an edit first need not be its author.
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
    if by_hand("parent") && !deleted && old.is_none_or(|old| old.parent != new.parent) {
        let parent = new.parent.clone();
        let allowed = parent.iter().try_for_each(|parent| {
            require_not_within(table, &new.id, parent)?;
            require_no_deadlock(table, new)
        });
        match allowed {
            Ok(()) => {}
            Err(Stop::Unreadable(e)) => return Err(e),
            Err(Stop::Refused(refusal)) => {
                new.parent = old.and_then(|old| old.parent.clone());
                keep(new, "parent");
                said.push(format!(
                    "the parent of {} was edited by hand, which is not taken: {}",
                    new.id, refusal.message
                ));
            }
        }
    }
    let was_done = old.is_some_and(|old| old.state == IssueState::Done);
    if new.state == IssueState::Done && !was_done && by_hand("state") && !deleted {
        let mut missing = not_passed(table, new, (policy, agent))?;
        if let Some(old) = old {
            // Another type is no way round.
            let mut as_before = new.clone();
            as_before.kind.clone_from(&old.kind);
            missing.extend(not_passed(table, &as_before, (policy, agent))?);
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
            new.state = IssueState::Gated;
            keep(new, "state");
            said.push(format!(
                "{id} was edited by hand to be done, and has not passed {}: it is taken as gated; jit gate list {id}",
                Missing::listed(&missing),
                id = new.id,
            ));
        }
        let open = ready_queue::open_parts(table, &new.id.key())?;
        if !open.is_empty() {
            if new.state == IssueState::Done {
                new.state = old.map_or(IssueState::InProgress, |old| old.state);
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
    found: &FoundIssue,
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

pub(super) fn require_gates(table: &dyn Table, issue: &Issue, cx: &Context) -> Result<(), Stop> {
    let missing = not_passed(table, issue, (&cx.policy, &cx.actor.agent_id))?;
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
pub(super) const NAMED: usize = 10;

pub(super) fn named(ids: &[IssueId]) -> String {
    let names: Vec<&str> = ids.iter().take(NAMED).map(IssueId::as_str).collect();
    let more = match ids.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.join(", ") + &more
}

/// An issue is done after its parts.
pub(super) fn require_no_open_parts(table: &dyn Table, issue: &Issue) -> Result<(), Stop> {
    let open = ready_queue::open_parts(table, &issue.id.key())?;
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
