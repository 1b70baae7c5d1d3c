//! `jit config set`: changes a setting in the repository's file or in the user's own file.

use jit_engine::api::config::ConfigRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Comments and order of the file are kept; a value that does not fit changes nothing.\n\n\
    Example:\n  jit config set coordination.default_ttl_secs 20m"
)]
pub struct Flags {
    /// Such as coordination.default_ttl_secs
    key: String,
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// In your own configuration instead of the repository's
    #[arg(long)]
    user: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let Flags { key, value, user } = flags;
    call.ask(ConfigRequest::Set { key, value, user })
}
