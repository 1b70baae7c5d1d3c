//! The entry point of the engine: one request in, one answer out.
//!
//! What must hold:
//! - Changes by git or an editor in the caller's tree are imported before a request is carried out, as far as it
//!   needs them.
//! - An answer that was prepared before a change was found is discarded.
//! - Every request has exactly one arm in `carry`, which calls the room that owns it.

use std::time::Duration;

use jit_core::decide::command::Command;
use jit_core::model::refusal::Code;
use jit_store::Outcome;

use crate::api::{Answer, Reply, Request};
use crate::context::Context;
use crate::write_path::carry_out;

/// Carries out a request, after importing the changes that git or an editor made in this tree.
pub fn handle(cx: &Context, request: Request) -> Outcome<Answer> {
    handle_and(cx, request, |_| ()).map(|(answer, ())| answer)
}

/// Does the same, and also returns the result of `show`, which may run while other threads still check the tree.
pub fn handle_and<T>(cx: &Context, request: Request, show: impl Fn(&Reply) -> T) -> Outcome<(Answer, T)> {
    let mut shown = None;
    let (mut noticed, early) = crate::issues::sync::take_notice(cx, &request, || {
        let answer = carry(cx, request.clone());
        shown = answer.as_ref().ok().map(|answer| show(&answer.reply));
        answer
    });
    if early.is_none() {
        // The early answer is no longer valid.
        shown = None;
    }
    if request.claims() {
        noticed.extend(crate::compat::lock_files::honour_lock_files(cx)?);
    }
    let mut answer = match early.unwrap_or_else(|| carry(cx, request.clone())) {
        // A program without jit was faster: it created a lock file.
        Err(refusal)
            if refusal.code == Code::Io
                && refusal.message.contains(crate::compat::lock_files::LOCK_APPEARED) =>
        {
            noticed.extend(crate::compat::lock_files::honour_lock_files(cx)?);
            carry(cx, request)
        }
        // Before an issue is reported as missing, issues that only the tree has are imported.
        Err(refusal) if refusal.code == Code::NotFound && crate::issues::sync::join_unknown(cx)? > 0 => {
            carry(cx, request)
        }
        other => other,
    }?;
    noticed.append(&mut answer.warnings);
    answer.warnings = noticed;
    let shown = shown.unwrap_or_else(|| show(&answer.reply));
    Ok((answer, shown))
}

pub(crate) fn carry(cx: &Context, request: Request) -> Outcome<Answer> {
    match request {
        Request::Acquire {
            issue,
            ttl_secs,
            wait_secs,
            note,
            on_behalf_of,
        } => {
            let command = Command::Acquire {
                issue,
                ttl_secs,
                note,
                on_behalf_of,
            };
            crate::claims::acquire(cx, &command, wait_secs.map(Duration::from_secs))
        }
        Request::Renew { target, ttl_secs } => carry_out(
            cx,
            &Command::Renew {
                target,
                ttl_secs,
                if_half_gone: false,
            },
        ),
        Request::Release { target } => carry_out(cx, &Command::Release { target }),
        Request::Transfer { target, to, worktree } => {
            let branch = match &worktree {
                Some(id) => crate::leases::branch_of(cx, id)?,
                None => None,
            };
            carry_out(
                cx,
                &Command::Transfer {
                    target,
                    to,
                    worktree,
                    branch,
                },
            )
        }
        Request::ForceEvict { target, reason } => crate::claims::force_evict(cx, target, reason),
        Request::Claims { issue } => crate::claims::claims(cx, issue.as_ref()),
        Request::History { issue, agent, limit } => {
            crate::claims::history(cx, issue.as_ref(), agent.as_ref(), limit)
        }
        Request::Next {
            label,
            kind,
            ttl_secs,
            wait_secs,
        } => {
            let command = Command::AcquireNext {
                label,
                kind,
                ttl_secs,
                on_behalf_of: None,
            };
            crate::issues::change::picked(
                cx,
                crate::claims::acquire(cx, &command, wait_secs.map(Duration::from_secs))?,
            )
        }
        Request::CreateIssue(create) => crate::issues::change::create_issue(cx, *create),
        Request::ChangeIssue {
            issue,
            change,
            description,
            strict,
        } => crate::issues::change::change_issue(cx, issue, *change, description, strict),
        Request::RestoreIssue { issue } => crate::issues::restore::restore_issue(cx, issue),
        Request::DeleteIssue { issue, strict } => carry_out(cx, &Command::DeleteIssue { issue, strict }),
        Request::Comment { issue, text } => carry_out(cx, &Command::Comment { issue, text }),
        Request::ShowIssue { issue } => crate::issues::change::show_issue(cx, &issue),
        Request::ListIssues { filter, sort, limit } => {
            crate::issues::issue_lists::list_issues(cx, &filter, sort, limit)
        }
        Request::Search { text, limit } => crate::issues::change::search(cx, &text, limit),
        Request::Ready { filter, limit } => crate::issues::issue_lists::ready(cx, &filter, limit),
        Request::Blocked => crate::issues::issue_lists::blocked(cx),
        Request::Progress { issue } => crate::issues::issue_lists::progress(cx, issue.as_ref()),
        Request::DefineGates { brought, gates } => crate::gates::service::define_gates(cx, &gates, brought),
        Request::UndefineGate { name } => crate::gates::service::undefine_gate(cx, &name),
        Request::RequireGate { issue, gate, strict } => {
            crate::issues::change::require_gate(cx, issue, gate, strict)
        }
        Request::RunGates { issue, gate } => crate::gates::service::run_gates(cx, &issue, gate.as_deref()),
        Request::JudgeGate {
            issue,
            gate,
            passed,
            note,
        } => crate::gates::service::judge_gate(cx, issue, &gate, passed, note),
        Request::ListGates { issue } => crate::gates::service::list_gates(cx, issue.as_ref()),
        Request::Commands => crate::trust::commands(cx),
        Request::Trust { commands } => crate::trust::trust(cx, commands),
        Request::Revoke => crate::trust::revoke(cx),
        Request::Status => crate::overview::status(cx),
        Request::Graph { issue, closed } => crate::issues::graph::graph(cx, issue.as_ref(), closed),
        Request::DepTree { issue } => crate::issues::graph::dep_tree(cx, &issue),
        Request::Import(import) => crate::issues::exchange::import(cx, &import),
        Request::Export => crate::issues::exchange::export(cx),
        Request::CreateUnit(asked) => crate::worktrees::service::create_unit(cx, &asked),
        Request::UnitStatus { unit, all } => crate::worktrees::service::unit_status(cx, unit.as_deref(), all),
        Request::UnitEnv { unit } => crate::units::service::unit_env(cx, unit.as_deref()),
        Request::Landings { unit, limit } => crate::landing::service::landings(cx, unit.as_deref(), limit),
        Request::PruneUnits { settle } => crate::worktrees::orphans::prune_units(cx, settle),
        Request::Dispatch(asked) => crate::attempts::dispatch::dispatch_unit(cx, &asked),
        Request::Handoff(asked) => crate::attempts::handoff::hand_on_unit(cx, &asked),
        Request::StopUnit { unit, reason } => {
            crate::attempts::dispatch::stop_unit(cx, unit.as_deref(), &reason)
        }
        Request::Unpark { account } => crate::attempts::accounts::unpark(cx, account),
        Request::NotifyTest => crate::notify::service::notify_test(cx),
        Request::UnitDiff { unit } => crate::worktrees::service::unit_diff(cx, unit.as_deref()),
        Request::Workflows { all } => crate::workflows::service::workflows(cx, all),
        Request::WorkflowStatus { workflow } => {
            crate::workflows::service::workflow_status(cx, workflow.as_deref())
        }
        Request::RetryUnit { unit } => crate::worktrees::service::retry_by_hand(cx, unit.as_deref()),
        Request::StartSession(asked) => crate::sessions::start_session(cx, &asked),
        Request::BeatSession { session } => crate::sessions::beat_session(cx, session.as_ref()),
        Request::EndSession { session, status } => crate::sessions::end_session(cx, session.as_ref(), status),
        Request::ListSessions { all } => crate::sessions::list_sessions(cx, all),
        Request::ShowSession { session } => crate::sessions::show_session(cx, session.as_ref()),
        Request::PruneSessions => crate::sessions::prune_sessions(cx),
        Request::LockAcquire { paths, wait_secs } => {
            crate::file_locks::service::lock_files(cx, &paths, wait_secs.map(Duration::from_secs))
        }
        Request::LockCheck { paths } => crate::file_locks::service::check_locks(cx, &paths),
        Request::LockExtend { which, ttl_secs } => {
            crate::file_locks::service::extend_locks(cx, &which, ttl_secs)
        }
        Request::LockRelease { which } => crate::file_locks::service::release_locks(cx, &which),
        Request::LockList => crate::file_locks::service::list_locks(cx),
        Request::LockCleanup => crate::file_locks::service::clean_locks(cx),
        Request::Verify { range } => {
            let verified = crate::hooks::git::verify::range(&cx.place, Some(cx), &range)?;
            let warnings = cx.warnings.clone();
            Ok(Answer {
                reply: Reply::Verified(verified),
                warnings,
            })
        }
        Request::Merge(ask) => crate::landing::service::merge_units(cx, &ask),
        Request::Finish { unit, pr: false } => crate::worktrees::finish::finish_unit(cx, unit.as_deref()),
        Request::Finish { unit, pr: true } => crate::worktrees::finish::propose_unit(cx, unit.as_deref()),
        Request::Conflicts { into, branches } => {
            crate::landing::service::conflicts(cx, into.as_deref(), &branches)
        }
        Request::Rescue(asked) => crate::worktrees::cleanup::rescue(cx, asked),
    }
}
