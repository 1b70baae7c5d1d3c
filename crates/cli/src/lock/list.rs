//! `jit lock list`: lists all file locks and their holders.

use jit_engine::api::file_locks::FileLockRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(FileLockRequest::List)
}
