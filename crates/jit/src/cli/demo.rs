use jit_engine::store::Outcome;

use super::{Cx, Output, invalid};

#[derive(Debug, clap::Args)]
pub struct Flags {}

pub fn run(_: Flags, _: &Cx) -> Outcome<Output> {
    Err(invalid("the demo is being written"))
}
