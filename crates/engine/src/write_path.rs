//! The one write path from a command to a durable reply: decide, append, make durable, update the files beside the
//! log.
//!
//! What must hold:
//!
//! - Every command that changes the log goes through `transact_as`.
//! - A repeated request id returns the first reply. A warning is added if the granted lease has ended since.
//! - If the outcome is unknown, the refusal carries the request id for the retry.
//! - Files beside the log are written only through the followers, before and after the append.

use crate::api::claims::ClaimReply;
use crate::api::claims::Evicted;
use crate::api::claims::Released;
use crate::api::file_locks::FileLockReply;
use crate::api::file_locks::Locks;
use crate::api::gates::GateReply;
use crate::api::issues::Deleted;
use crate::api::issues::IssueReply;
use crate::api::issues::Issues;
use crate::api::sessions::PrunedSessions;
use crate::api::sessions::SessionReply;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::actor::Actor;
use jit_core::model::ids::{IssueId, IssuePrefix, LeaseId, RequestId};
use jit_core::model::issue::Issue;
use jit_core::model::lease::Lease;
use jit_core::model::policy::Policy;
use jit_core::model::refusal::{Code, Details, left};
use jit_core::model::time::Now;
use jit_core::query::claim_views::LeaseView;
use jit_core::query::ready_queue;
use jit_core::query::session_and_lock_views::LockView;
use jit_os::random;
use jit_os::shell::shell_word;
use jit_store::{Ask, Done, Outcome, View};

use crate::api::issue_list::Listing;
use crate::api::issues::IssueView;
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::identity as agent;
use crate::refusals::{refuse, stopped};
use crate::replica;

/// Options of a write: texts, files, waiting time and identity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteOptions<'a> {
    /// Long texts that the events refer to by digest.
    pub(crate) texts: &'a [Vec<u8>],
    /// Texts to remember once the events are in the log.
    pub(crate) met: &'a [(IssueId, Vec<u8>)],
    /// Whether the issues it changes are written into this tree.
    pub(crate) project: bool,
    /// Maximum wait for the lock, for a write that is secondary and may be done later.
    pub(crate) aside: Option<Duration>,
    /// The policy for the decision, if it differs from the settings.
    pub(crate) policy: Option<&'a Policy>,
    /// The holder of the lease, if the caller acts for the holder.
    pub(crate) actor: Option<&'a Actor>,
}

impl Default for WriteOptions<'_> {
    fn default() -> Self {
        Self {
            texts: &[],
            met: &[],
            project: true,
            aside: None,
            policy: None,
            actor: None,
        }
    }
}

/// Retries `act` once after creating the log, if `.jit/` exists but this machine has no log yet.
pub(crate) fn with_log<T>(cx: &Context, act: &mut dyn FnMut() -> Outcome<T>) -> Outcome<T> {
    match act() {
        Err(refusal)
            if refusal.code == Code::NotInitialized
                && cx.place.local_jit.as_deref().is_some_and(Path::is_dir) =>
        {
            cx.store.create(&cx.actor)?;
            cx.followers.log_created(cx)?;
            act()
        }
        other => other,
    }
}

pub(crate) fn transact(cx: &Context, command: &Command) -> Outcome<Done> {
    transact_as(cx, cx.request.as_ref(), command, WriteOptions::default())
}

/// Runs one command. `named` is the request id that the caller gave for exactly this command.
pub(crate) fn transact_as(
    cx: &Context,
    named: Option<&RequestId>,
    command: &Command,
    options: WriteOptions<'_>,
) -> Outcome<Done> {
    let entropy = || random::u128().map_err(|e| refuse(Code::Io, e));
    let wall = cx.clock.wall().ms();
    let fresh_lease = LeaseId::generate(wall, entropy()?);
    let request = match named {
        Some(id) => id.clone(),
        None => RequestId::make_up(wall, entropy()?),
    };
    let policy = options.policy.unwrap_or(&cx.policy);
    // A caller that acts for a holder acts in no session of its own.
    let with_sessions = match options.actor {
        None => crate::context::calling_agent::with_sessions(cx, policy),
        Some(_) => None,
    };
    let policy = with_sessions.as_ref().unwrap_or(policy);
    let outcome = with_log(cx, &mut || {
        cx.store.transact(&mut Ask {
            command,
            actor: options.actor.unwrap_or(&cx.actor),
            branch: cx.branch.clone(),
            fresh_lease: fresh_lease.clone(),
            policy,
            request: request.clone(),
            repeatable: named.is_some(),
            wait: options.aside,
            prepare: &mut |events| cx.followers.prepare(cx, events, options.texts),
            publish: &mut |lines, table| {
                cx.followers
                    .publish(cx, lines, table, options.met, options.project)
            },
        })
    });
    outcome.map_err(|mut refusal| {
        if refusal.code == Code::Unknown {
            refusal.details = Details::Facts(vec![("request_id", request.to_string())]);
        }
        refusal
    })
}

pub fn view(cx: &Context) -> Outcome<View> {
    cx.followers.foresee(cx, view_of_log(cx)?)
}

/// Returns the view of the log alone, without lock files that are not in the log yet.
pub(crate) fn view_of_log(cx: &Context) -> Outcome<View> {
    with_log(cx, &mut || cx.store.view())
}

pub(crate) fn carry_out(cx: &Context, command: &Command) -> Outcome<Answer> {
    carry_out_by(cx, command, None)
}

/// Carries out a command by a policy that differs from the settings.
pub(crate) fn carry_out_by(cx: &Context, command: &Command, policy: Option<&Policy>) -> Outcome<Answer> {
    let options = WriteOptions {
        policy,
        ..WriteOptions::default()
    };
    let done = transact_as(cx, cx.request.as_ref(), command, options)?;
    let past = match &done.reply {
        // The first reply could be mistaken for a current grant.
        Decided::Lease { lease, .. } if done.repeated && lease.held_by(&cx.actor) => {
            let current = done
                .own
                .iter()
                .any(|own| own.token == lease.token && !own.expired(&done.now));
            (!current).then(|| {
                format!(
                    "this is the answer to a request of the past: lease {} has ended since",
                    lease.lease_id
                )
            })
        }
        _ => None,
    };
    let mut answer = answer(cx, done);
    answer.warnings.extend(past);
    Ok(answer)
}

pub(crate) fn answer(cx: &Context, done: Done) -> Answer {
    let views = |leases: &[Lease]| leases.iter().map(LeaseView::of).collect();
    let mut warnings = cx.warnings.clone();
    warnings.extend(done.notices);
    warnings.extend(crate::write_path::soon_over(cx, &done.own, &done.now));
    let reply = match done.reply {
        Decided::Lease {
            lease,
            existing,
            regranted,
        } => Reply::Claims(ClaimReply::Lease(LeaseView {
            existing,
            regranted,
            ..LeaseView::of(&lease)
        })),
        Decided::Released(leases) => Reply::Claims(ClaimReply::Released(Released {
            released: views(&leases),
        })),
        Decided::Evicted(leases) => {
            for lease in &leases {
                warnings.push(format!("{} lost its lease {}", lease.agent_id, lease.lease_id));
            }
            Reply::Claims(ClaimReply::Evicted(Evicted {
                evicted: views(&leases),
            }))
        }
        Decided::Joined(_) => Reply::Issues(IssueReply::Issues(Issues {
            issues: Listing::default(),
        })),
        Decided::Issue(issue) => Reply::Issues(IssueReply::Issue(Box::new(crate::write_path::described(
            cx, *issue, &done.own, &done.now,
        )))),
        Decided::Deleted(issue) => Reply::Issues(IssueReply::Deleted(Deleted { deleted: issue.id })),
        Decided::Commented(comment) => Reply::Issues(IssueReply::Comment(comment)),
        Decided::Judged(result) => Reply::Gates(GateReply::Judged(result)),
        Decided::Locks(leases) => Reply::FileLocks(FileLockReply::Locks(Locks {
            locks: leases.iter().filter_map(LockView::of).collect(),
        })),
        // The handlers of these commands build their own replies.
        Decided::Unit(_)
        | Decided::Workflow(_)
        | Decided::Led(_)
        | Decided::Account(_)
        | Decided::Conflicts(_)
        | Decided::Queued(_)
        | Decided::Session(_)
        | Decided::SessionEnded(_)
        | Decided::Pruned(_) => Reply::Sessions(SessionReply::Pruned(PrunedSessions { pruned: Vec::new() })),
    };
    Answer { reply, warnings }
}

pub(crate) fn read_answer(cx: &Context, view: &View, reply: Reply) -> Outcome<Answer> {
    let own = state::leases_of(&*view.table, &cx.actor.agent_id).map_err(|e| refuse(Code::Io, e))?;
    let mut warnings = cx.warnings.clone();
    warnings.extend(view.notices.iter().cloned());
    warnings.extend(crate::write_path::soon_over(cx, &own, &view.now));
    Ok(Answer { reply, warnings })
}

pub(crate) fn resolve(view: &View, text: &IssuePrefix) -> Outcome<Issue> {
    state::resolve(&*view.table, text).map_err(stopped)
}

/// Warns about leases that expire soon (B11).
pub(crate) fn soon_over(cx: &Context, own: &[Lease], now: &Now) -> Vec<String> {
    let pct = cx.config.lease_renewal_threshold_pct();
    // A caller that used the flag must repeat it in the suggested command.
    let who = match cx.whoami.source {
        agent::Source::Flag => format!(" --agent-id {}", shell_word(cx.actor.agent_id.as_str())),
        _ => String::new(),
    };
    let mine = own
        .iter()
        .filter(|lease| lease.held_by(&cx.actor) && !lease.expired(now) && lease.resource.issue().is_some());
    let said: Vec<String> = mine
        .filter(|lease| {
            lease.remaining_ms(now) * 100 < lease.ttl_secs.saturating_mul(1000).saturating_mul(pct)
        })
        .map(|lease| {
            format!(
                "your lease on {} ends in {}: jit claim renew {} --ttl {}{who}",
                lease.resource.issue().map_or("it", IssueId::as_str),
                left(lease.remaining_ms(now)),
                lease.lease_id,
                lease.ttl_secs
            )
        })
        .collect();
    *cx.reminders.lock().unwrap_or_else(PoisonError::into_inner) = Some(said.clone());
    said
}

/// Adds the warnings about leases that expire soon to those of an answer or a refusal that was made without them (B11).
pub(crate) fn remind(cx: &Context, warnings: &mut Vec<String>) {
    let last = cx
        .reminders
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    if last.is_some_and(|said| said.iter().all(|one| warnings.contains(one))) {
        return;
    }
    for one in soon_over_now(cx) {
        if !warnings.contains(&one) {
            warnings.push(one);
        }
    }
}

/// Warns about leases that expire soon, as they are now: a request may have ended some.
pub(crate) fn soon_over_now(cx: &Context) -> Vec<String> {
    let found = cx.store.view().ok().and_then(|view| {
        let own = state::leases_of(&*view.table, &cx.actor.agent_id).ok()?;
        Some(soon_over(cx, &own, &view.now))
    });
    found.unwrap_or_default()
}

/// Returns the open dependencies of an open issue, as lists show them.
pub(crate) fn waits_for(table: &dyn Table, issue: &Issue) -> Outcome<Vec<IssueId>> {
    if issue.state.is_closed() {
        return Ok(Vec::new());
    }
    ready_queue::open_dependencies(table, issue).map_err(|e| refuse(Code::Io, e))
}

pub(crate) fn carry_out_with(
    cx: &Context,
    command: &Command,
    texts: Vec<Vec<u8>>,
    policy: Option<&Policy>,
) -> Outcome<Answer> {
    let options = WriteOptions {
        texts: &texts,
        policy,
        ..WriteOptions::default()
    };
    let done = crate::write_path::transact_as(cx, cx.request.as_ref(), command, options)?;
    Ok(crate::write_path::answer(cx, done))
}

/// Returns a text of an issue: from the control plane, or the description in this tree if it is exactly this text.
pub(crate) fn text_of(cx: &Context, id: &IssueId, digest: &str) -> std::io::Result<Option<Vec<u8>>> {
    let found = cx.texts.read(id, digest)?;
    Ok(found.or_else(|| replica::in_tree(cx.place.local_jit.as_deref()?, id, digest)))
}

/// Returns an issue with its description, for the caller that just changed it.
pub(crate) fn described(cx: &Context, issue: Issue, own: &[Lease], now: &Now) -> IssueView {
    let text = issue.text.clone();
    let id = issue.id.clone();
    let lease = own.iter().find(|lease| lease.resource.issue() == Some(&id));
    // The change is done, even if this cannot be read any more.
    let blocked_by = match issue.depends_on.is_empty() {
        true => Ok(Vec::new()),
        false => crate::write_path::view_of_log(cx).and_then(|view| waits_for(&*view.table, &issue)),
    };
    let mut shown = IssueView::new(issue, lease, now);
    shown.blocked_by = blocked_by.unwrap_or_default();
    let found = text.and_then(|digest| text_of(cx, &id, &digest).ok().flatten());
    shown.description = found.map(|text| String::from_utf8_lossy(&text).into_owned());
    shown
}
