//! `jit session end`: ends a session as completed or failed, and releases its file locks.

use jit_core::model::ids::SessionId;
use jit_core::model::session::SessionStatus;
use jit_engine::api::sessions::SessionRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Yours when not given
    session: Option<SessionId>,
    /// How it ended: completed or failed
    #[arg(long, value_name = "STATUS", default_value = "completed", value_parser = ended)]
    status: SessionStatus,
}

fn ended(text: &str) -> Result<SessionStatus, String> {
    match text.parse() {
        Ok(status @ (SessionStatus::Completed | SessionStatus::Failed)) => Ok(status),
        _ => Err("a session ends as completed or failed".to_owned()),
    }
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(SessionRequest::End {
        session: flags.session,
        status: flags.status,
    })
}
