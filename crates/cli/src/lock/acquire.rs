//! `jit lock acquire`: acquires locks on files, folders or patterns, all or none.
//!
//! Callers that wait are served in the order of arrival.

use jit_engine::api::file_locks::FileLockRequest;
use std::ffi::OsString;

use jit_core::model::scope::LockScope;
use jit_engine::api::file_locks::LockPaths;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, duration};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A folder (dir/) means all below it; quote patterns (\"src/**/*.rs\") so that the shell leaves them \
    alone. Who waits is served in the order of arrival.\n\nExamples:\n  jit lock acquire src/auth.rs tests/auth.rs\n  \
    jit lock acquire docs/ --shared\n  jit lock acquire Cargo.lock --scope global --wait 2m"
)]
pub struct Flags {
    /// Files, folders or patterns
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Others may lock it too, as long as they also share
    #[arg(long)]
    shared: bool,
    /// Where it counts: in this worktree, or in all of them
    #[arg(long, value_name = "SCOPE")]
    scope: Option<LockScope>,
    /// How long it lasts: 90s, 10m
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    ttl: Option<u64>,
    /// If somebody has some of it, wait this long
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    wait: Option<u64>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(FileLockRequest::Acquire {
        paths: LockPaths {
            paths: flags.paths.into_iter().map(Into::into).collect(),
            literal: false,
            shared: flags.shared,
            scope: flags.scope,
            ttl_secs: flags.ttl,
        },
        wait_secs: flags.wait,
    })
}
