//! `jit shim`: jit starts it to own one running agent.
//!
//! The runner in `jit_agents` starts and watches the agent. This file connects it to the log: it keeps the agent's session
//! and leases alive, parks an account that was refused, and ends the session.
//!
//! What must hold:
//! - Renewing waits only a short time for the store, because the agent's limits are not watched meanwhile.
//! - Broken settings in the agent's worktree do not let its leases expire.

use jit_engine::api::sessions::SessionReply;
use jit_engine::api::sessions::SessionRequest;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jit_agents as agents;
use jit_agents::event::{AgentEvent, EventLine};
use jit_agents::job::Job;
use jit_agents::runner::attempt::{self, Attempt};
use jit_agents::runner::shim::{self, Beat};
use jit_core::model::ids::{SessionId, UnitId};
use jit_core::model::refusal::{Code, Refusal};
use jit_core::model::session::SessionStatus;
use jit_core::model::time::Wall;
use jit_engine::api::Reply;
use jit_engine::context::{Context, Options, Surroundings};
use jit_engine::hooks::agent::permission::Policy;
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The folder of the attempt
    folder: PathBuf,
}

/// Longest time that renewing may wait for the store. The agent's limits are not watched meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let io = |e: io::Error| {
        let code = match e.kind() {
            io::ErrorKind::WouldBlock => Code::Busy,
            _ => Code::Io,
        };
        Box::new(Refusal::new(code, format!("the shim: {e}")))
    };
    let folder = flags.folder.canonicalize().map_err(io)?;
    let exit = match attempt::job(&folder) {
        Ok(job) => match agents::by_name(&job.agent) {
            Some(agent) => {
                let mut worker = Worker::of(&job, &folder);
                let mut ask = Policy::of(&job);
                shim::run(&folder, &*agent, &mut ask, &mut |beat| worker.tell(beat))
            }
            None => shim::refuse(&folder, &format!("there is no agent {:?}", job.agent)),
        },
        Err(e) if e.kind() == io::ErrorKind::InvalidData => shim::refuse(&folder, &e.to_string()),
        Err(e) => Err(e),
    };
    let exit = exit.map_err(io)?;
    Ok(call.show(&exit, |_| String::new()))
}

/// The agent in the log: a session that lasts as long as the agent runs.
struct Worker {
    options: Options,
    session: Option<SessionId>,
    folder: PathBuf,
    unit: UnitId,
    attempt: u32,
}

impl Worker {
    fn of(job: &Job, folder: &Path) -> Self {
        let options = Options {
            dir: Some(job.dir.clone()),
            agent: Some(job.worker.to_string()),
            lock_timeout: Some(PATIENCE),
            request: None,
            single_threaded: false,
        };
        Self {
            options,
            session: None,
            folder: folder.to_owned(),
            unit: job.unit.clone(),
            attempt: job.attempt,
        }
    }

    /// Parks the account in the log if a limit refused the agent and the agent waits for its retry.
    fn tell_refusal(&self, cx: &Context) -> Outcome<()> {
        let Ok(Attempt::Running(running)) = attempt::look(&self.folder) else {
            return Ok(());
        };
        match running.last {
            Some(EventLine {
                at,
                said: said @ AgentEvent::Retrying { delay_ms, .. },
            }) if said.is_limited() => {
                let until = Wall::from_ms(at).plus_ms(delay_ms);
                jit_engine::attempts::accounts::park_while_it_waits(
                    cx,
                    &self.unit,
                    self.attempt,
                    until,
                    &said.for_people(),
                )
            }
            _ => Ok(()),
        }
    }

    /// Opens the context of the agent. Its identity and folder come from the job. Broken settings in the worktree are
    /// ignored: the agent may have written them, and its leases must not expire because of that.
    fn open(&self) -> Outcome<Context> {
        let (surroundings, _broken) = Surroundings::despite(&self.options)?;
        jit_engine::opening::within(surroundings, &self.options, Need::Write)
    }

    fn tell(&mut self, beat: Beat) -> io::Result<()> {
        let told = match beat {
            Beat::Alive => self.renew(),
            Beat::Ended { well } => self.end(well),
        };
        told.map_err(|refusal| io::Error::other(refusal.message))
    }

    /// Writes a heartbeat of the session and renews the agent's leases.
    fn renew(&mut self) -> Outcome<()> {
        let cx = self.open()?;
        match &self.session {
            Some(session) => {
                jit_engine::handle::handle(
                    &cx,
                    SessionRequest::Beat {
                        session: Some(session.clone()),
                    },
                )?;
            }
            // The session starts with the first beat. An agent that ends before that gets no session.
            None => {
                let answer = jit_engine::handle::handle(&cx, SessionRequest::Start(Box::default()))?;
                if let Reply::Sessions(SessionReply::Session(session)) = answer.reply {
                    self.session = Some(session.session_id);
                }
            }
        }
        jit_engine::leases::renew_own(&cx)?;
        // Renewing the leases comes first.
        self.tell_refusal(&cx)
    }

    /// Releases the agent's file locks and ends its session. If this call never comes, the session becomes stale, because
    /// its heartbeats stop.
    fn end(&self, well: bool) -> Outcome<()> {
        let cx = self.open()?;
        jit_engine::file_locks::service::let_go_of_files(&cx, &cx.actor)?;
        if let Some(session) = &self.session {
            let status = if well {
                SessionStatus::Completed
            } else {
                SessionStatus::Failed
            };
            jit_engine::handle::handle(
                &cx,
                SessionRequest::End {
                    session: Some(session.clone()),
                    status,
                },
            )?;
        }
        Ok(())
    }
}
