//! `jit rescue list`: lists the rescued work, oldest first.

use jit_engine::api::rescue::RescueRequest;
use jit_store::Outcome;

use crate::cli::{Cx, Output};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, cx: &Cx) -> Outcome<Output> {
    cx.ask(RescueRequest::List)
}
