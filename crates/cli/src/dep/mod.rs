//! `jit dep`: adds, removes and shows dependencies between issues.

mod add;
mod rm;
mod tree;

use crate::grammar::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("add", "An issue waits for another", add),
    verb!("rm", "It no longer does", rm),
    verb!("tree", "What an issue waits for, all the way down", tree),
];
