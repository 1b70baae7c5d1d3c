//! `jit claim acquire`: acquires a lease on an issue.
//!
//! Of any number of callers exactly one gets the lease. The others get exit code 4, with the holder and the deadline.

use jit_core::model::ids::{AgentId, IssuePrefix};
use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, duration};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Of any number of callers exactly one gets it; the others learn who has it and until when \
    (exit code 4).\n\nExamples:\n  jit claim acquire WI-001\n  jit claim acquire WI-001 --ttl 30m --json\n  \
    jit claim acquire WI-001 --wait 5m"
)]
pub struct Flags {
    /// Its id, or the beginning of it
    issue: IssuePrefix,
    /// How long it lasts: 600, 90s, 10m, 1h30m
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    ttl: Option<u64>,
    /// If somebody has it, wait this long for it
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    wait: Option<u64>,
    /// Purpose of the claim
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Parent agent; it may release this lease from any worktree
    #[arg(long, value_name = "AGENT")]
    on_behalf_of: Option<AgentId>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let Flags {
        issue,
        ttl,
        wait,
        reason,
        on_behalf_of,
    } = flags;
    call.ask(ClaimRequest::Acquire {
        issue,
        ttl_secs: ttl,
        wait_secs: wait,
        note: reason,
        on_behalf_of,
    })
}
