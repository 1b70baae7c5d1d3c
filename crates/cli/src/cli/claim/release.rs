//! `jit claim release`: releases a lease.

use jit_core::decide::command::Target;
use jit_engine::api::claims::ClaimRequest;
use jit_store::Outcome;

use super::target;
use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// The lease, or its issue
    #[arg(value_parser = target)]
    lease: Target,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(ClaimRequest::Release { target: flags.lease })
}
