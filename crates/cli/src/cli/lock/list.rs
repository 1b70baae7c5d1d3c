//! `jit lock list`: lists all file locks and their holders.

use jit_engine::api::file_locks::FileLockRequest;
use jit_store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(FileLockRequest::List)
}
