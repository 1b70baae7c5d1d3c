//! `jit gate pass`: records that an issue has passed a manual gate.

use jit_store::Outcome;

use super::{Verdict, judge};
use crate::cli::{Cx, Output};

pub type Flags = Verdict;

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    judge(flags, true, cx)
}
