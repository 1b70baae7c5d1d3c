//! `jit gate fail`: records that an issue has failed a manual gate.

use jit_store::Outcome;

use super::{Verdict, judge};
use crate::invocation::{Invocation, Output};

pub type Flags = Verdict;

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    judge(flags, false, call)
}
