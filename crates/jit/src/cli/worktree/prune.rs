use jit_engine::request::Request;
use jit_engine::store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Shows what does not fit together: units without a worktree, worktrees without a unit. With --settle, \
    units whose worktree is gone are ended; branches and files are left alone."
)]
pub struct Flags {
    /// End units whose worktree is gone
    #[arg(long)]
    settle: bool,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(Request::PruneUnits { settle: flags.settle })
}
