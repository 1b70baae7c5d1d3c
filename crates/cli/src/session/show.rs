//! `jit session show`: shows one session.

use jit_core::model::ids::SessionId;
use jit_engine::api::sessions::SessionRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Yours when not given
    session: Option<SessionId>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(SessionRequest::Show {
        session: flags.session,
    })
}
