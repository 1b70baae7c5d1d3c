//! `jit claim next`: acquires a lease on the best issue that is ready.
//!
//! Picking and acquiring are one step, so many callers get different issues. Exit code 3 if nothing is ready.

use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, duration};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Picks what is ready by priority, then by how much waits for it, then by age. Picking and taking is one \
    step: many callers get many different issues. When nothing is ready: exit code 3, code nothing_ready.\n\n\
    Examples:\n  jit claim next --json\n  jit claim next --label backend --wait 10m"
)]
pub struct Flags {
    /// Only issues with this label
    #[arg(long, value_name = "L")]
    label: Option<String>,
    /// Only issues of this type
    #[arg(long = "type", value_name = "T")]
    kind: Option<String>,
    /// How long it lasts: 600, 90s, 10m, 1h30m
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    ttl: Option<u64>,
    /// If nothing is ready, wait this long for something
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    wait: Option<u64>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(ClaimRequest::Next {
        label: flags.label,
        kind: flags.kind,
        ttl_secs: flags.ttl,
        wait_secs: flags.wait,
    })
}
