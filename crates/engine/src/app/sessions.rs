//! Sessions: an agent says that it is at work, beats, and ends (F1, F7).

use std::io;

use jit_core::command::{Command, Reply as Decided};
use jit_core::event::{Event, Stamped};
use jit_core::ids::SessionId;
use jit_core::refusal::{Code, Refusal};
use jit_core::registry::AGENT_TYPES;
use jit_core::roster::{self, SessionView};
use jit_core::scope::Scope;
use jit_core::session::{self, Session, Status};
use jit_core::state;
use jit_core::table::Table;
use jit_core::time::Wall;
use jit_os::process::ProcessRef;
use jit_os::{clock, file, random};
use jit_store::{Outcome, View};

use super::App;
use crate::heartbeat::{self, Beats, Heartbeat};
use crate::refusals::refuse;
use crate::request::{Answer, Reply};
use crate::sessions;

/// The registry that other programs read.
pub const SESSIONS: &str = "agent_sessions.json";

/// Where the locks of a built-in type of agents count: developers write, the others look at everything.
fn default_scope(agent_type: &str) -> Scope {
    match agent_type {
        "developer" => Scope::Worktree,
        _ => Scope::Global,
    }
}

#[derive(Debug, Clone, Default)]
pub struct StartSession {
    /// Developer when nothing is said.
    pub agent_type: Option<String>,
    pub task: Option<String>,
    pub pr_group: Option<String>,
    pub lock_scope: Option<Scope>,
    /// The process that, with all it starts, is to act in the session.
    pub bind: Option<ProcessRef>,
    pub program: Option<String>,
    pub program_session: Option<String>,
}

impl App {
    pub(super) fn start_session(&self, asked: &StartSession) -> Outcome<Answer> {
        let agent_type = asked.agent_type.as_deref().unwrap_or("developer");
        let extra = self.config.agent_types();
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
        let entropy = random::u128().map_err(|e| refuse(Code::Io, e))?;
        let started = Session {
            session_id: SessionId::generate(entropy),
            agent_id: self.actor.agent_id.clone(),
            agent_type: agent_type.to_owned(),
            task_id: asked.task.clone().filter(|text| session::is_task(text)),
            pr_group: asked.pr_group.clone(),
            worktree_id: self.actor.worktree_id.clone(),
            worktree_path: self.worktree_path(),
            branch: self.branch.clone(),
            lock_scope: asked.lock_scope.unwrap_or(by_type),
            started_at: Wall::from_ms(clock::wall_ms()),
            status: Status::Active,
            ended_at: None,
            program: asked.program.clone(),
            program_session: asked.program_session.clone(),
        };
        let done = self.transact(&Command::StartSession(Box::new(started)))?;
        let Decided::Session(session) = &done.reply else {
            return Err(refuse(Code::Io, "the log has no answer to that request"));
        };
        let session = (**session).clone();
        let io = |e: io::Error| refuse(Code::Io, e);
        self.beat_for(&session, asked.bind).map_err(io)?;
        if let Some(process) = asked.bind {
            let control = &self.place.control_dir;
            sessions::unbind(control, &[]).map_err(io)?;
            sessions::bind(control, process, &session.session_id, &session.agent_id).map_err(io)?;
        }
        let mut answer = self.answer(done);
        answer.reply = Reply::Session(Box::new(self.session_view(&session)));
        Ok(answer)
    }

    fn session_view(&self, session: &Session) -> SessionView {
        let mut beats = Beats::new(&self.place.control_dir);
        self.seen(session, &mut beats)
    }

    fn seen(&self, session: &Session, beats: &mut Beats) -> SessionView {
        let beat = beats.of(&session.agent_id).map(|beat| beat.heartbeat.last_beat);
        let now = Wall::from_ms(clock::wall_ms());
        SessionView::of(session, beat, now, self.config.stale_after_ms())
    }

    /// A sign of life for a session's agent. Not in the log.
    fn beat_for(&self, session: &Session, process: Option<ProcessRef>) -> io::Result<()> {
        let process = match process {
            Some(process) => Some(process),
            None => sessions::all(&self.place.control_dir)?
                .iter()
                .find(|bound| bound.session_id == session.session_id)
                .map(sessions::Bound::process),
        };
        let process = match process {
            Some(process) => process,
            None => ProcessRef::current()?,
        };
        heartbeat::write(
            &self.place.control_dir,
            &Heartbeat {
                agent_id: session.agent_id.clone(),
                worktree_id: session.worktree_id.clone(),
                branch: self.branch.clone(),
                pid: process.pid,
                start_time: process.start,
                last_beat: Wall::from_ms(clock::wall_ms()),
                interval_secs: self.config.heartbeat_interval_secs(),
            },
        )
    }

    /// The session that is named, or the caller's own.
    fn meant(&self, view: &View, named: Option<&SessionId>) -> Outcome<Session> {
        match named {
            Some(id) => state::session(&*view.table, id)
                .map_err(|e| refuse(Code::Io, e))?
                .ok_or_else(|| Box::new(session::unknown(id))),
            None => self.own_session(view)?.ok_or_else(|| {
                Box::new(
                    Refusal::new(
                        Code::NotFound,
                        format!("{} has no session here", self.actor.agent_id),
                    )
                    .help("jit session start")
                    .help("jit session list"),
                )
            }),
        }
    }

    /// A sign of life, and more time for what the session's agent holds. Others may pass on that it lives; what it holds
    /// is for itself to keep.
    pub(super) fn beat_session(&self, named: Option<&SessionId>) -> Outcome<Answer> {
        let view = self.view()?;
        let session = self.meant(&view, named)?;
        if !session.is_active() {
            return Err(Box::new(
                Refusal::new(
                    Code::Closed,
                    format!("{} is {}", session.session_id, session.status),
                )
                .help("jit session start"),
            ));
        }
        self.beat_for(&session, None).map_err(|e| refuse(Code::Io, e))?;
        if session.actor() == self.actor {
            self.renew_own()?;
        }
        let shown = Reply::Session(Box::new(self.session_view(&session)));
        self.refresh_sessions(&view).map_err(|e| refuse(Code::Io, e))?;
        self.read_answer(&view, shown)
    }

    pub(super) fn end_session(&self, named: Option<&SessionId>, status: Status) -> Outcome<Answer> {
        let view = self.view()?;
        let session = self.meant(&view, named)?;
        let done = self.transact(&Command::EndSession {
            session: session.session_id.clone(),
            status,
        })?;
        let io = |e: io::Error| refuse(Code::Io, e);
        sessions::unbind(&self.place.control_dir, std::slice::from_ref(&session.session_id)).map_err(io)?;
        let held: Vec<String> = done
            .own
            .iter()
            .filter(|lease| lease.held_by(&session.actor()))
            .filter_map(|lease| Some(lease.resource.issue()?.to_string()))
            .collect();
        let mut answer = self.answer(done);
        if !held.is_empty() {
            answer.warnings.push(format!(
                "{} still holds {}: jit claim release {}",
                session.agent_id,
                held.join(", "),
                held[0]
            ));
        }
        let after = self.view()?;
        let session = self.meant(&after, Some(&session.session_id))?;
        answer.reply = Reply::Session(Box::new(self.session_view(&session)));
        Ok(answer)
    }

    pub(super) fn list_sessions(&self, all: bool) -> Outcome<Answer> {
        let view = self.view()?;
        let mut sessions = self.session_views(&*view.table)?;
        if !all {
            sessions.retain(|session| matches!(session.status, Status::Active | Status::Stale));
        }
        sessions.sort_by_key(|session| session.started_at);
        self.read_answer(&view, Reply::Sessions { sessions })
    }

    /// Sessions that were not ended and whose heart beats.
    pub(super) fn sessions_alive(&self, table: &dyn Table) -> Outcome<Vec<Session>> {
        let mut beats = Beats::new(&self.place.control_dir);
        let mut sessions = state::sessions(table).map_err(|e| refuse(Code::Io, e))?;
        sessions.retain(|session| self.seen(session, &mut beats).status == Status::Active);
        Ok(sessions)
    }

    fn session_views(&self, table: &dyn Table) -> Outcome<Vec<SessionView>> {
        let mut beats = Beats::new(&self.place.control_dir);
        let sessions = state::sessions(table).map_err(|e| refuse(Code::Io, e))?;
        Ok(sessions
            .iter()
            .map(|session| self.seen(session, &mut beats))
            .collect())
    }

    pub(super) fn show_session(&self, named: Option<&SessionId>) -> Outcome<Answer> {
        let view = self.view()?;
        let session = self.meant(&view, named)?;
        let shown = Reply::Session(Box::new(self.session_view(&session)));
        self.read_answer(&view, shown)
    }

    /// Takes what is over off the list: ended sessions, and stale ones whose process is gone.
    pub(super) fn prune_sessions(&self) -> Outcome<Answer> {
        let view = self.view()?;
        let mut beats = Beats::new(&self.place.control_dir);
        let sessions = state::sessions(&*view.table).map_err(|e| refuse(Code::Io, e))?;
        let over = sessions.iter().filter(|session| {
            let status = self.seen(session, &mut beats).status;
            let alive = beats.of(&session.agent_id).is_some_and(|beat| beat.alive);
            matches!(status, Status::Completed | Status::Failed) || (status == Status::Stale && !alive)
        });
        let ids: Vec<SessionId> = over.map(|session| session.session_id.clone()).collect();
        let done = self.transact(&Command::PruneSessions { sessions: ids })?;
        let pruned = match &done.reply {
            Decided::Pruned(ids) => ids.clone(),
            _ => Vec::new(),
        };
        sessions::unbind(&self.place.control_dir, &pruned).map_err(|e| refuse(Code::Io, e))?;
        let mut answer = self.answer(done);
        answer.reply = Reply::Pruned { pruned };
        Ok(answer)
    }

    /// Brings the registry up to date after `lines`, under the store's lock.
    pub(super) fn note_sessions(&self, lines: &[Stamped], table: &dyn Table) -> io::Result<()> {
        let touched = lines.iter().any(|line| {
            matches!(
                line.event,
                Event::SessionStarted { .. }
                    | Event::SessionEnded { .. }
                    | Event::SessionsPruned { .. }
                    | Event::LogRecovered { .. }
            )
        });
        match lines.last().filter(|_| touched) {
            Some(last) => self.write_sessions(table, last.sequence),
            None => Ok(()),
        }
    }

    fn write_sessions(&self, table: &dyn Table, sequence: u64) -> io::Result<()> {
        let sessions = self
            .session_views(table)
            .map_err(|refusal| io::Error::other(refusal.message))?;
        let now = Wall::from_ms(clock::wall_ms());
        let content = roster::sessions_file(&sessions, now, sequence);
        file::replace_unsynced(&self.place.control_dir.join(SESSIONS), &content)
    }

    /// The same where only hearts have beaten. Somebody else may write a newer one at this moment; theirs stays.
    fn refresh_sessions(&self, view: &View) -> io::Result<()> {
        let guard = self.store.hold_still(&self.actor);
        let guard = guard.map_err(|refusal| io::Error::other(refusal.message))?;
        let fresh = self.view().map_err(|refusal| io::Error::other(refusal.message))?;
        let view = if fresh.sequence > view.sequence {
            &fresh
        } else {
            view
        };
        self.write_sessions(&*view.table, view.sequence)?;
        drop(guard);
        Ok(())
    }
}
