//! `jit issue`: the work itself.

mod create;
mod list;
mod show;

use super::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("create", "Write down what is to be done", create),
    verb!("show", "Everything about one issue", show),
    verb!("list", "All issues, or some", list),
];
