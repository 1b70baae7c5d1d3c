//! Sessions: an agent starts a session, sends heartbeats, and ends it (F1, F7).

use crate::api::sessions::PrunedSessions;
use crate::api::sessions::SessionReply;
use crate::api::sessions::SessionRequest;
use crate::api::sessions::Sessions;
use std::io;
use std::time::UNIX_EPOCH;

use jit_core::compat::AGENT_TYPES;
use jit_core::decide::command::{Command, CommandReply as Decided};
use jit_core::decide::sessions as decide_sessions;
use jit_core::log::event::{Event, Stamped};
use jit_core::log::state;
use jit_core::log::table::Table;
use jit_core::model::ids::SessionId;
use jit_core::model::policy::Policy;
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::scope::LockScope;
use jit_core::model::session::{self, Session, SessionStatus};
use jit_core::query::session_and_lock_views::{self, SessionView};
use jit_os::process::ProcessRef;
use jit_os::{file, random};
use jit_store::{Outcome, View};

use crate::api::claims::Heartbeat;
use crate::api::sessions::{BindTo, StartSession};
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::heartbeats::Beats;
use crate::identity::process_binding as sessions;
use crate::refusals::refuse;
use crate::write_path::WriteOptions;

/// The registry for other programs.
pub const SESSIONS: &str = "agent_sessions.json";

/// Returns the default lock scope for a built-in agent type. Developers write in one worktree; the others look at
/// everything.
fn default_scope(agent_type: &str) -> LockScope {
    match agent_type {
        "developer" => LockScope::Worktree,
        _ => LockScope::Global,
    }
}

/// Finds the process that a session is bound to.
fn process_of(bind: BindTo) -> Outcome<ProcessRef> {
    let found = match bind {
        BindTo::Process(process) => Ok(Some(process)),
        BindTo::Pid(pid) => ProcessRef::of(pid),
        BindTo::CallerOf(pid) => sessions::agent_process(pid),
    };
    let found = found.map_err(|e| refuse(Code::Invalid, e))?;
    found.ok_or_else(|| refuse(Code::NotFound, "there is no such process"))
}

pub(crate) fn start_session(cx: &Context, asked: &StartSession) -> Outcome<Answer> {
    let agent_type = asked.agent_type.as_deref().unwrap_or("developer");
    let extra = cx.config.agent_types();
    let known = || {
        let built_in = AGENT_TYPES.iter().map(|name| (*name, default_scope(name)));
        built_in.chain(extra.iter().map(|(name, scope)| (name.as_str(), *scope)))
    };
    let Some((_, by_type)) = known().find(|(name, _)| *name == agent_type) else {
        let names: Vec<&str> = known().map(|(name, _)| name).collect();
        return Err(Box::new(
            Refusal::new(
                Code::Invalid,
                format!(
                    "there is no agent type {agent_type:?}; there are {}",
                    names.join(", ")
                ),
            )
            .help(format!(
                "jit config set sessions.types '[\"{agent_type} = global\"]'"
            )),
        ));
    };
    if let Some(group) = asked
        .pr_group
        .as_deref()
        .filter(|text| !session::is_pr_group(text))
    {
        return Err(refuse(
            Code::Invalid,
            format!("a PR group is PR- and three digits, such as PR-001, not {group:?}"),
        ));
    }
    let task_id = asked.task.clone().filter(|text| session::is_task(text));
    let dropped = asked.task.as_ref().filter(|_| task_id.is_none()).map(|task| {
        format!(
            "the task {task:?} is not recorded with the session: a task is T- and three digits, such as T-015"
        )
    });
    let bind = asked.bind.map(process_of).transpose()?;
    let entropy = random::u128().map_err(|e| refuse(Code::Io, e))?;
    let started = Session {
        session_id: SessionId::generate(entropy),
        agent_id: cx.actor.agent_id.clone(),
        agent_type: agent_type.to_owned(),
        task_id,
        pr_group: asked.pr_group.clone(),
        worktree_id: cx.actor.worktree_id.clone(),
        worktree_path: crate::file_locks::service::worktree_path(cx),
        branch: cx.branch.clone(),
        lock_scope: asked.lock_scope.unwrap_or(by_type),
        started_at: cx.clock.wall(),
        status: SessionStatus::Active,
        ended_at: None,
        program: asked.program.clone(),
        program_session: asked.program_session.clone(),
    };
    let done = crate::write_path::transact(cx, &Command::StartSession(Box::new(started)))?;
    let Decided::Session(session) = &done.reply else {
        return Err(Box::new(Refusal::bug("a session in the reply of the log")));
    };
    let session = (**session).clone();
    let io = |e: io::Error| refuse(Code::Io, e);
    beat_for(cx, &session, bind).map_err(io)?;
    if let Some(process) = bind {
        let control = &cx.place.control_dir;
        sessions::unbind(control, &[]).map_err(io)?;
        sessions::bind(control, process, &session.session_id, &session.agent_id).map_err(io)?;
    }
    let mut answer = crate::write_path::answer(cx, done);
    answer.reply = Reply::Sessions(SessionReply::Session(Box::new(session_view(cx, &session))));
    answer.warnings.extend(dropped);
    Ok(answer)
}

fn session_view(cx: &Context, session: &Session) -> SessionView {
    let mut beats = Beats::new(&*cx.heartbeats);
    seen(cx, session, &mut beats)
}

pub(crate) fn seen(cx: &Context, session: &Session, beats: &mut Beats<'_>) -> SessionView {
    let beat = beats.of(&session.agent_id).map(|beat| beat.heartbeat.last_beat);
    let now = cx.clock.wall();
    SessionView::of(session, beat, now, cx.config.stale_after_ms())
}

/// Records a heartbeat for a session's agent. It is not in the log.
fn beat_for(cx: &Context, session: &Session, process: Option<ProcessRef>) -> io::Result<()> {
    let process = match process {
        Some(process) => Some(process),
        None => sessions::all(&cx.place.control_dir)?
            .iter()
            .find(|bound| bound.session_id == session.session_id)
            .map(sessions::Bound::process),
    };
    let process = match process {
        Some(process) => process,
        None => ProcessRef::current()?,
    };
    cx.heartbeats.beat(&Heartbeat {
        agent_id: session.agent_id.clone(),
        worktree_id: session.worktree_id.clone(),
        branch: cx.branch.clone(),
        pid: process.pid,
        start_time: process.start,
        last_beat: cx.clock.wall(),
        interval_secs: cx.config.heartbeat_interval_secs(),
    })
}

/// Returns the named session, or the caller's own.
pub(crate) fn meant(cx: &Context, view: &View, named: Option<&SessionId>) -> Outcome<Session> {
    match named {
        Some(id) => state::session(&*view.table, id)
            .map_err(|e| refuse(Code::Io, e))?
            .ok_or_else(|| Box::new(decide_sessions::unknown(id))),
        None => crate::file_locks::service::own_session(cx, view)?.ok_or_else(|| {
            Box::new(
                Refusal::new(
                    Code::NotFound,
                    format!("{} has no session here", cx.actor.agent_id),
                )
                .help("jit session start")
                .help("jit session list"),
            )
        }),
    }
}

/// Records a heartbeat, and renews the leases of the session's agent. Other agents may send the heartbeat, but only
/// the session's own agent renews its leases.
pub(crate) fn beat_session(cx: &Context, named: Option<&SessionId>) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let session = meant(cx, &view, named)?;
    if !session.is_active() {
        return Err(Box::new(
            Refusal::new(
                Code::Closed,
                format!("{} is {}", session.session_id, session.status),
            )
            .help("jit session start"),
        ));
    }
    beat_for(cx, &session, None).map_err(|e| refuse(Code::Io, e))?;
    if session.actor() == cx.actor {
        crate::leases::renew_own(cx)?;
    }
    let shown = Reply::Sessions(SessionReply::Session(Box::new(session_view(cx, &session))));
    refresh_sessions(cx, &view).map_err(|e| refuse(Code::Io, e))?;
    crate::write_path::read_answer(cx, &view, shown)
}

pub(crate) fn end_session(cx: &Context, named: Option<&SessionId>, status: SessionStatus) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let session = meant(cx, &view, named)?;
    let policy = Policy {
        agent_asks: crate::context::calling_agent::is_asked_by_agent(cx),
        ..cx.policy.clone()
    };
    let command = Command::EndSession {
        session: session.session_id.clone(),
        status,
    };
    let options = WriteOptions {
        policy: Some(&policy),
        ..WriteOptions::default()
    };
    let done = crate::write_path::transact_as(cx, cx.request.as_ref(), &command, options)?;
    let io = |e: io::Error| refuse(Code::Io, e);
    sessions::unbind(&cx.place.control_dir, std::slice::from_ref(&session.session_id)).map_err(io)?;
    let held: Vec<String> = done
        .own
        .iter()
        .filter(|lease| lease.held_by(&session.actor()))
        .filter_map(|lease| Some(lease.resource.issue()?.to_string()))
        .collect();
    let mut answer = crate::write_path::answer(cx, done);
    if !held.is_empty() {
        answer.warnings.push(format!(
            "{} still holds {}: jit claim release {}",
            session.agent_id,
            held.join(", "),
            held[0]
        ));
    }
    let after = crate::write_path::view(cx)?;
    let session = meant(cx, &after, Some(&session.session_id))?;
    answer.reply = Reply::Sessions(SessionReply::Session(Box::new(session_view(cx, &session))));
    Ok(answer)
}

pub(crate) fn list_sessions(cx: &Context, all: bool) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let mut sessions = session_views(cx, &*view.table)?;
    if has_new_stale(cx, &sessions) {
        // The registry is a view. If it cannot be written now, the next write to the log does.
        let _ = refresh_sessions(cx, &view);
    }
    if !all {
        sessions.retain(|session| matches!(session.status, SessionStatus::Active | SessionStatus::Stale));
    }
    sessions.sort_by_key(|session| session.started_at);
    crate::write_path::read_answer(
        cx,
        &view,
        Reply::Sessions(SessionReply::Sessions(Sessions { sessions })),
    )
}

/// Returns sessions that were not ended and have recent heartbeats.
pub(crate) fn sessions_alive(cx: &Context, table: &dyn Table) -> Outcome<Vec<Session>> {
    let mut beats = Beats::new(&*cx.heartbeats);
    let mut sessions = state::sessions(table).map_err(|e| refuse(Code::Io, e))?;
    sessions.retain(|session| seen(cx, session, &mut beats).status == SessionStatus::Active);
    Ok(sessions)
}

fn session_views(cx: &Context, table: &dyn Table) -> Outcome<Vec<SessionView>> {
    let mut beats = Beats::new(&*cx.heartbeats);
    let sessions = state::sessions(table).map_err(|e| refuse(Code::Io, e))?;
    Ok(sessions
        .iter()
        .map(|session| seen(cx, session, &mut beats))
        .collect())
}

pub(crate) fn show_session(cx: &Context, named: Option<&SessionId>) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let session = meant(cx, &view, named)?;
    let shown = Reply::Sessions(SessionReply::Session(Box::new(session_view(cx, &session))));
    crate::write_path::read_answer(cx, &view, shown)
}

/// Removes ended sessions, and stale ones whose process is gone.
pub(crate) fn prune_sessions(cx: &Context) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let mut beats = Beats::new(&*cx.heartbeats);
    let sessions = state::sessions(&*view.table).map_err(|e| refuse(Code::Io, e))?;
    let over = sessions.iter().filter(|session| {
        let status = seen(cx, session, &mut beats).status;
        let alive = beats.of(&session.agent_id).is_some_and(|beat| beat.alive);
        matches!(status, SessionStatus::Completed | SessionStatus::Failed)
            || (status == SessionStatus::Stale && !alive)
    });
    let ids: Vec<SessionId> = over.map(|session| session.session_id.clone()).collect();
    // Without the caller's request id: after half of it, fewer sessions are left to be pruned.
    let command = Command::PruneSessions { sessions: ids };
    let done = crate::write_path::transact_as(cx, None, &command, WriteOptions::default())?;
    let pruned = match &done.reply {
        Decided::Pruned(ids) => ids.clone(),
        _ => Vec::new(),
    };
    sessions::unbind(&cx.place.control_dir, &pruned).map_err(|e| refuse(Code::Io, e))?;
    let mut answer = crate::write_path::answer(cx, done);
    answer.reply = Reply::Sessions(SessionReply::Pruned(PrunedSessions { pruned }));
    Ok(answer)
}

/// Updates the registry after `lines` were appended, under the store's lock.
pub(crate) fn note_sessions(cx: &Context, lines: &[Stamped], table: &dyn Table) -> io::Result<()> {
    let touched = lines.iter().any(|line| {
        matches!(
            line.event,
            Event::SessionStarted { .. }
                | Event::SessionEnded { .. }
                | Event::SessionsPruned { .. }
                | Event::LogRecovered { .. }
        )
    });
    match lines.last() {
        Some(last) if touched || is_old(cx) => write_sessions(cx, table, last.sequence),
        _ => Ok(()),
    }
}

/// The time when the registry was written last.
fn written(cx: &Context) -> Option<i64> {
    let meta = cx.place.control_dir.join(SESSIONS).symlink_metadata().ok()?;
    let since = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

/// Whether the registry is older than the time between two heartbeats: sessions may have become stale since.
fn is_old(cx: &Context) -> bool {
    let interval = cx.config.heartbeat_interval_secs().saturating_mul(1000);
    // A time in the future is no reason to wait for it.
    written(cx).is_some_and(|at| cx.clock.wall().ms().abs_diff(at) >= interval)
}

/// Whether the registry was written before one of these sessions became stale.
fn has_new_stale(cx: &Context, sessions: &[SessionView]) -> bool {
    let stale = sessions
        .iter()
        .filter(|session| session.status == SessionStatus::Stale);
    let since = |session: &SessionView| {
        session
            .last_heartbeat
            .ms()
            .saturating_add(cx.config.stale_after_ms())
    };
    match (stale.map(since).max(), written(cx)) {
        (Some(since), Some(at)) => at <= since || at > cx.clock.wall().ms(),
        _ => false,
    }
}

/// Writes the registry. Only under the store's lock.
pub(crate) fn write_sessions(cx: &Context, table: &dyn Table, sequence: u64) -> io::Result<()> {
    let sessions = session_views(cx, table).map_err(|refusal| io::Error::other(refusal.message))?;
    let now = cx.clock.wall();
    let content = session_and_lock_views::sessions_file(&sessions, now, sequence);
    file::replace_unsynced(&cx.place.control_dir.join(SESSIONS), &content)
}

/// Updates the registry after heartbeats only. If another process is writing a newer registry, that one stays.
fn refresh_sessions(cx: &Context, view: &View) -> io::Result<()> {
    let guard = cx.store.hold_still(&cx.actor);
    let guard = guard.map_err(|refusal| io::Error::other(refusal.message))?;
    let fresh = crate::write_path::view(cx).map_err(|refusal| io::Error::other(refusal.message))?;
    let view = if fresh.sequence > view.sequence {
        &fresh
    } else {
        view
    };
    cx.followers.heartbeats_changed(cx, view)?;
    drop(guard);
    Ok(())
}

/// Carries out a request about sessions.
pub(crate) fn handle(cx: &Context, request: SessionRequest) -> Outcome<Answer> {
    match request {
        SessionRequest::Start(start) => start_session(cx, &start),
        SessionRequest::Beat { session } => beat_session(cx, session.as_ref()),
        SessionRequest::End { session, status } => end_session(cx, session.as_ref(), status),
        SessionRequest::List { all } => list_sessions(cx, all),
        SessionRequest::Show { session } => show_session(cx, session.as_ref()),
        SessionRequest::Prune => prune_sessions(cx),
    }
}
