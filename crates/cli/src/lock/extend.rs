//! `jit lock extend`: extends the caller's own file locks.

use jit_engine::api::file_locks::FileLockRequest;
use jit_store::Outcome;

use super::Own;
use crate::invocation::{Invocation, Output, duration};

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    own: Own,
    /// How long from now on: 90s, 10m
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    ttl: Option<u64>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(FileLockRequest::Extend {
        which: flags.own.locks(),
        ttl_secs: flags.ttl,
    })
}
