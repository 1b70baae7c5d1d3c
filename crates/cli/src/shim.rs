//! `jit shim`: jit starts it to own one running agent.
//!
//! The runner in `jit_agents` starts and watches the agent. This file owns the process, and sends the engine one request a
//! beat: it keeps the agent's session and leases alive, parks an account that was refused, and ends the session.
//!
//! What must hold:
//! - Renewing waits only a short time for the store, because the agent's limits are not watched meanwhile.
//! - Broken settings in the agent's worktree do not let its leases expire. The agent may have written them.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use jit_agents::job::Job;
use jit_agents::runner::attempt;
use jit_agents::runner::shim::{self, Beat};
use jit_agents::{self as agents, Ask, Permission, Question};
use jit_core::model::ids::{SessionId, UnitId};
use jit_core::model::refusal::{Code, Refusal};
use jit_engine::api::Options;
use jit_engine::api::attempts::AttemptRequest;
use jit_engine::api::hooks::{HookReply, HookRequest, PermissionAsk, ToolPermission};
use jit_engine::api::sessions::SessionReply;
use jit_engine::api::{Reply, Request};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, unexpected};

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
                let mut worker = Worker::of(&job);
                let mut ask = Questions::of(&job);
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

/// Returns the options with which a shim asks for its agent.
fn options(job: &Job) -> Options {
    Options {
        dir: Some(job.dir.clone()),
        agent: Some(job.worker.to_string()),
        ..Options::default()
    }
}

/// The agent in the log: a session that lasts as long as the agent runs.
struct Worker {
    options: Options,
    session: Option<SessionId>,
    unit: UnitId,
    attempt: u32,
}

impl Worker {
    fn of(job: &Job) -> Self {
        Self {
            options: Options {
                lock_timeout: Some(PATIENCE),
                ..options(job)
            },
            session: None,
            unit: job.unit.clone(),
            attempt: job.attempt,
        }
    }

    fn send(&self, request: impl Into<Request>) -> Outcome<Reply> {
        jit_engine::handle::ask(&self.options, request).map(|answer| answer.reply)
    }

    fn tell(&mut self, beat: Beat) -> io::Result<()> {
        let told = match beat {
            Beat::Alive => self.keep_alive(),
            Beat::Ended { well } => self.end(well),
        };
        told.map_err(|refusal| io::Error::other(refusal.message))
    }

    fn keep_alive(&mut self) -> Outcome<()> {
        // The session starts with the first beat. An agent that ends before that gets no session.
        let session = self.session.clone();
        if session.is_none() {
            match self.send(AttemptRequest::StartSession)? {
                Reply::Sessions(SessionReply::Session(started)) => self.session = Some(started.session_id),
                _ => return Err(unexpected()),
            }
        }
        let beat = AttemptRequest::KeepAlive {
            unit: self.unit.clone(),
            attempt: self.attempt,
            session,
        };
        self.send(beat).map(drop)
    }

    fn end(&self, well: bool) -> Outcome<()> {
        let session = self.session.clone();
        self.send(AttemptRequest::EndSession { session, well }).map(drop)
    }
}

/// Answers the agent's questions about its tools.
struct Questions {
    options: Options,
    allowed: Vec<String>,
}

impl Questions {
    fn of(job: &Job) -> Self {
        Self {
            options: options(job),
            allowed: job.allowed_tools.clone(),
        }
    }

    fn ask(&self, question: &Question<'_>, approve: bool) -> Permission {
        let ask = PermissionAsk {
            tool: question.tool.to_owned(),
            input: question.input.get().to_owned(),
            cwd: question.cwd.map(|cwd| cwd.to_owned().into()),
            allowed: self.allowed.clone(),
            approve,
        };
        let asked = jit_engine::handle::ask(&self.options, HookRequest::Permission(Box::new(ask)));
        match asked.map(|answer| answer.reply) {
            Ok(Reply::Hooks(HookReply::Permission(permission))) => match permission {
                ToolPermission::Allow => Permission::Allow,
                ToolPermission::Warn(text) => Permission::Warn(text),
                ToolPermission::Deny(text) => Permission::Deny(text),
            },
            Ok(_) => Permission::Deny(unexpected().message),
            Err(refusal) => Permission::Deny(refusal.message),
        }
    }
}

impl Ask for Questions {
    fn may(&mut self, question: &Question<'_>) -> Permission {
        self.ask(question, false)
    }

    fn approve(&mut self, question: &Question<'_>) -> Permission {
        self.ask(question, true)
    }
}
