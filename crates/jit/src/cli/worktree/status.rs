use jit_engine::request::Request;
use jit_engine::store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// By its name, issue, branch or path; all of them when not given
    unit: Option<String>,
    /// Those that are over too
    #[arg(long)]
    all: bool,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(Request::UnitStatus {
        unit: flags.unit,
        all: flags.all,
    })
}
