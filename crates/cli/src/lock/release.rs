//! `jit lock release`: releases the caller's own file locks.

use jit_engine::api::file_locks::FileLockRequest;
use jit_store::Outcome;

use super::Own;
use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    own: Own,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(FileLockRequest::Release {
        which: flags.own.locks(),
    })
}
