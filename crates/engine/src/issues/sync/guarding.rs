//! Guards rules against hand edits: edits that no command of their author would have been allowed to make.

use jit_core::decide::issues::is_held_back;
use jit_core::issue_files::format::FoundIssue;
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::ids::{AgentId, IssueId, WorktreeId};
use jit_core::model::issue::IssueState;
use jit_core::model::lease::Resource;
use jit_core::model::policy::{Enforce, Policy};
use jit_core::model::refusal::Code;
use jit_store::{Outcome, View};

use super::{Context, TreeChanges, refuse};

/// Sets aside edits that go beyond what a command could do (E6). Returns the policy to decide by, if an edit concerns
/// guarded fields.
pub(crate) fn hold_back(cx: &Context, view: &View, changes: &mut TreeChanges) -> Outcome<Option<Policy>> {
    let touches = |found: &FoundIssue| {
        let guarded = ["gates", "parent", "type"];
        guarded.iter().any(|name| found.by_hand.contains(name)) || is_done_by_hand(found)
    };
    let mut all = changes
        .found
        .iter()
        .chain(&changes.brought_back)
        .chain(&changes.held_back);
    if !all.any(touches) {
        return Ok(None);
    }
    // If the requirements cannot be read, no issue becomes done.
    let (agent_asks, editor) = (
        crate::context::calling_agent::asking_agent(cx).is_some(),
        agent_at_work(cx, view)?,
    );
    let by_agent = agent_asks || editor.is_some();
    let policy = crate::gates::committed_policy::policy_with_gates(cx, by_agent).unwrap_or_else(|_| Policy {
        gates_unknown: true,
        agents_may_pass_gates: false,
        ..cx.policy.clone()
    });
    let policy = Policy {
        agent_asks,
        editor,
        ..policy
    };
    let now = cx.clock.wall();
    let who = (&policy, &cx.actor.agent_id);
    for found in std::mem::take(&mut changes.found) {
        let back = touches(&found)
            && is_held_back(&*view.table, &found, who, now).map_err(|e| refuse(Code::Io, e))?;
        match back {
            true => changes.held_back.push(found),
            false => changes.found.push(found),
        }
    }
    Ok(Some(policy))
}

/// Returns an agent that holds a lease in this worktree, or has a live session there. Edits in the worktree count as
/// its own, whichever process reads them first.
fn agent_at_work(cx: &Context, view: &View) -> Outcome<Option<AgentId>> {
    let Some(here) = &cx.actor.worktree_id else {
        return Ok(None);
    };
    let mine =
        |agent: &AgentId, place: &Option<WorktreeId>| agent.kind() == "agent" && place.as_ref() == Some(here);
    let leases = state::leases(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    let holder = leases
        .into_iter()
        .find(|lease| mine(&lease.agent_id, &lease.worktree_id) && !lease.expired(&view.now));
    if let Some(lease) = holder {
        return Ok(Some(lease.agent_id));
    }
    let alive = crate::sessions::sessions_alive(cx, &*view.table)?;
    Ok(alive
        .into_iter()
        .find(|session| mine(&session.agent_id, &session.worktree_id))
        .map(|session| session.agent_id))
}

/// Returns the holder of an issue, if that is another agent in another tree and only the holder may change the issue
/// (B15).
pub(crate) fn held_elsewhere(cx: &Context, table: &dyn Table, id: &IssueId) -> Outcome<Option<AgentId>> {
    if !matches!(cx.policy.enforce, Enforce::Strict | Enforce::StrictExplicit) {
        return Ok(None);
    }
    let lease = state::lease_on(table, &Resource::Issue(id.clone()).key());
    let lease = lease.map_err(|e| refuse(Code::Io, e))?;
    let now = cx.store.now()?;
    let elsewhere = lease.filter(|lease| {
        !lease.expired(&now)
            && !lease.obeys(&cx.actor)
            && (lease.worktree_id.is_none() || lease.worktree_id != cx.actor.worktree_id)
    });
    Ok(elsewhere.map(|lease| lease.agent_id))
}

pub(crate) fn is_done_by_hand(found: &FoundIssue) -> bool {
    found.by_hand.contains(&"state") && found.issue.state == IssueState::Done
}
