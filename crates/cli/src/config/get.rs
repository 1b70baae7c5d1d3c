//! `jit config get`: prints one setting.
//!
//! It warns if the repository's own file grants agents a right that does not count from there alone.

use jit_engine::api::config::ConfigRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Such as coordination.default_ttl_secs
    key: String,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(ConfigRequest::Get { key: flags.key })
}
