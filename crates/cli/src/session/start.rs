//! `jit session start`: starts a session of an agent.
//!
//! With `--bind`, the calling program and every process it starts act as this agent, without any variable.

use jit_core::model::scope::LockScope;
use jit_engine::api::sessions::{BindTo, SessionRequest, StartSession};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --bind the calling program, and all that it starts, acts as this agent from now on, without \
    any variable. What leaves the tree of processes (setsid -f, a daemon) leaves the session.\n\nExamples:\n  jit session start --type developer --task T-015 --pr-group PR-001\n  \
    jit session start --agent-id agent:reviewer-1 --type bug-hunter --bind"
)]
pub struct Flags {
    /// Kind of work it does: developer, bug-hunter, …
    #[arg(long = "type", value_name = "TYPE")]
    agent_type: Option<String>,
    /// The task it works on: T- and three digits
    #[arg(long, value_name = "T-015")]
    task: Option<String>,
    /// The group of pull requests it belongs to
    #[arg(long, value_name = "PR-001")]
    pr_group: Option<String>,
    /// Where its file locks count at least; by its type when not given
    #[arg(long, value_name = "SCOPE")]
    lock_scope: Option<LockScope>,
    /// The calling program acts in this session from now on
    #[arg(long)]
    bind: bool,
    /// The same for a program by its number
    #[arg(long, value_name = "PID", conflicts_with = "bind")]
    bind_pid: Option<u32>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let bind = match (flags.bind, flags.bind_pid) {
        (_, Some(pid)) => Some(BindTo::Pid(pid)),
        (true, None) => Some(BindTo::CallerOf(std::process::id())),
        (false, None) => None,
    };
    call.ask(SessionRequest::Start(Box::new(StartSession {
        agent_type: flags.agent_type,
        task: flags.task,
        pr_group: flags.pr_group,
        lock_scope: flags.lock_scope,
        bind,
        program: None,
        program_session: None,
    })))
}
