//! The one place where decisions are made. [`decide`] looks at the state and either emits events or refuses.
//!
//! `command` has the requests and replies, `draft` the events in the making, `leases` the verbs that all leases share; then there
//! is one file a noun. What must hold, whatever the order of commands:
//!
//! - at most one live lease a resource: a grant happens only where there is none, or in the same transaction as the end of
//!   the old one;
//! - a lease changes hands only by its holder's will, by its deadline, or by an eviction with a name and a reason;
//! - of two grants on one resource the later has the higher token;
//! - a decision that changes nothing writes nothing;
//! - a parent's end is its children's end, in the same transaction.

pub mod accounts;
pub mod activities;
pub mod claims;
pub mod command;
pub mod conflicts;
mod draft;
pub mod file_locks;
pub mod issues;
mod leases;
pub mod next_claim;
mod reply;
pub mod sessions;
pub mod units;
pub mod workflows;

pub use draft::{Decision, Draft};

use crate::decide::claims::{Terms, acquire};
use crate::decide::command::{Command, Context};
use crate::log::state;
use crate::log::stop::Stop;
use crate::model::issue::GateResult;

pub fn decide(draft: &mut Draft<'_>, command: &Command, cx: &Context) -> Result<Decision, Stop> {
    let answer = answer(draft, command, cx)?;
    if matches!(answer, Decision::Already(_)) {
        draft.forget();
    }
    Ok(answer)
}

fn answer(draft: &mut Draft<'_>, command: &Command, cx: &Context) -> Result<Decision, Stop> {
    state::refuse_newer(draft.state())?;
    match command {
        Command::Acquire {
            issue,
            ttl_secs,
            note,
            on_behalf_of,
        } => {
            let issue = state::resolve(draft.state(), issue)?;
            let terms = Terms {
                ttl_secs: *ttl_secs,
                note: note.clone(),
                on_behalf_of: on_behalf_of.clone(),
            };
            acquire(draft, &issue, terms, cx)
        }
        Command::AcquireNext {
            label,
            kind,
            ttl_secs,
            on_behalf_of,
        } => {
            let terms = Terms {
                ttl_secs: *ttl_secs,
                note: None,
                on_behalf_of: on_behalf_of.clone(),
            };
            next_claim::acquire_next(draft, label.as_deref(), kind.as_deref(), terms, cx)
        }
        Command::Renew {
            target,
            ttl_secs,
            if_half_gone,
        } => claims::renew(draft, target, *ttl_secs, *if_half_gone, cx),
        Command::Release { target } => claims::release(draft, target, cx),
        Command::Transfer {
            target,
            to,
            worktree,
            branch,
        } => claims::transfer(draft, target, to, (worktree, branch), cx),
        Command::ForceEvict { target, reason } => claims::force_evict(draft, target, reason, cx),
        Command::CreateIssue(new) => issues::create(draft, new, cx),
        Command::ChangeIssue {
            issue,
            change,
            strict,
        } => issues::change(draft, issue, change, *strict, cx),
        Command::DeleteIssue { issue, strict } => issues::delete(draft, issue, *strict, cx),
        Command::RestoreIssue { issue } => issues::restore(draft, issue, cx),
        Command::Comment { issue, text } => issues::comment(draft, issue, text, cx),
        Command::JudgeGate {
            issue,
            gate,
            passed,
            manual,
            tree,
            definition,
        } => {
            let result = GateResult {
                passed: *passed,
                manual: *manual,
                by: cx.actor.agent_id.clone(),
                at: cx.now.wall,
                tree: tree.clone(),
                definition: definition.clone(),
            };
            issues::judge(draft, issue, gate, result, cx)
        }
        Command::JoinIssues(found) => issues::join(draft, found, cx),
        Command::LockFiles { wants, queueing } => file_locks::take(draft, wants, queueing, cx),
        Command::KeepLocks => file_locks::keep(draft, cx),
        Command::ExtendLocks { which, ttl_secs } => file_locks::extend(draft, which, *ttl_secs, cx),
        Command::ReleaseLocks { which } => file_locks::release(draft, which, cx),
        Command::LeaveQueue { ticket } => file_locks::leave(draft, ticket),
        Command::CleanLocks { gone } => file_locks::clean_up(draft, gone, cx),
        Command::CreateUnit(new) => units::create(draft, new, cx),
        Command::ChangeHands { unit, ended, begun } => units::change_hands(draft, unit, ended, begun, cx),
        Command::AdvanceUnit { unit, input, facts } => units::advance(draft, unit, *input, facts, cx),
        Command::StartWorkflow(new) => workflows::start(draft, new, cx),
        Command::LeadWorkflow { workflow, vacant } => workflows::lead(draft, workflow, *vacant, cx),
        Command::LeaveWorkflow { workflow } => workflows::leave(draft, workflow, cx),
        Command::CancelWorkflow { workflow } => workflows::cancel(draft, workflow, cx),
        Command::EndWorkflow { workflow, outcome } => workflows::end(draft, workflow, *outcome, cx),
        Command::ReopenWorkflow { workflow } => workflows::reopen(draft, workflow, cx),
        Command::ParkAccount(hit) => accounts::park(draft, hit, cx),
        Command::UnparkAccount { account } => accounts::unpark(draft, account, cx),
        Command::NoteConflicts(seen) => conflicts::note(draft, seen, cx.now.wall),
        Command::StartSession(session) => sessions::start(draft, session),
        Command::EndSession { session, status } => sessions::end(draft, session, *status, cx),
        Command::PruneSessions { sessions } => sessions::prune(draft, sessions),
        Command::HonourLocks { there, gone } => activities::honour(draft, there, gone, cx),
    }
}
