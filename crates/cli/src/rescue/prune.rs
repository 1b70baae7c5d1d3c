//! `jit rescue prune`: deletes old folders in the trash.
//!
//! Work that is also in refs can still be restored. Work that is only in the trash stays for `rescue.keep_days`.

use jit_engine::api::rescue::RescueRequest;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, duration};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Empties folders in the trash; what is in refs stays there, and can still be restored. What is in the \
    trash alone stays for rescue.keep_days, whatever is asked for."
)]
pub struct Flags {
    /// Only what is at least so old, such as 14d [default: rescue.keep_days]
    #[arg(long, value_name = "D", value_parser = duration)]
    older_than: Option<u64>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(RescueRequest::Prune {
        older_than_secs: flags.older_than,
    })
}
