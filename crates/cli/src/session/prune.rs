//! `jit session prune`: removes sessions from the list that have ended, or are stale without a live heartbeat.

use jit_engine::api::sessions::SessionRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(SessionRequest::Prune)
}
