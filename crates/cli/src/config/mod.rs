//! `jit config`: shows and changes settings.

mod get;
mod set;
mod show;
pub mod text;

use crate::grammar::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("show", "Every setting", show),
    verb!("get", "One setting", get),
    verb!("set", "Change a setting", set),
];
