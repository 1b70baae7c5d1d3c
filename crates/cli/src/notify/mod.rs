//! `jit notify`: notifications to people outside, by a command or a webhook.

mod test;
pub mod text;

use crate::grammar::{Verb, verb};

pub const VERBS: &[Verb] = &[verb!(
    "test",
    "Send a notification to see whether it arrives",
    test
)];
