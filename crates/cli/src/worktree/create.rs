//! `jit worktree create`: creates a unit: a worktree and a branch for a piece of work.
//!
//! If the argument is an issue, the issue is claimed in the new worktree.

use jit_engine::api::units::UnitRequest;
use std::path::PathBuf;

use jit_engine::api::units::CreateUnit;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, duration};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "For an issue, it is claimed for you in the new worktree. A plain name makes a unit without an \
    issue.\n\nExamples:\n  jit worktree create DATE-1\n  jit worktree create try-it --base v1.2 --path ../try-it"
)]
pub struct Flags {
    /// An issue, or a name
    #[arg(value_name = "ISSUE|NAME")]
    what: String,
    /// Where its branch begins; the target branch when not given
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Where the worktree is made
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// The new branch
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// How long the claim lasts
    #[arg(long, value_name = "D", value_parser = duration, allow_hyphen_values = true)]
    ttl: Option<u64>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    call.ask(UnitRequest::Create(Box::new(CreateUnit {
        what: flags.what,
        base: flags.base,
        path: flags.path.map(Into::into),
        branch: flags.branch,
        ttl_secs: flags.ttl,
        ..CreateUnit::default()
    })))
}
