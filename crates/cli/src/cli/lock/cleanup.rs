//! `jit lock cleanup`: removes file locks that have expired.

use jit_engine::api::file_locks::FileLockRequest;
use jit_store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(FileLockRequest::Cleanup)
}
