//! `jit lock check`: tells whether the caller could acquire the locks, and which locks conflict.

use jit_engine::api::file_locks::FileLockRequest;
use std::ffi::OsString;

use jit_core::model::scope::LockScope;
use jit_engine::api::file_locks::LockPaths;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Files, folders or patterns
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// As if you wanted to share it
    #[arg(long)]
    shared: bool,
    /// As if you wanted it there
    #[arg(long, value_name = "SCOPE")]
    scope: Option<LockScope>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(FileLockRequest::Check {
        paths: LockPaths {
            paths: flags.paths.into_iter().map(Into::into).collect(),
            shared: flags.shared,
            scope: flags.scope,
            ..LockPaths::default()
        },
    })
}
