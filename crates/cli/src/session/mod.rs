//! `jit session`: starts, lists and ends the sessions of agents.
//!
//! This file has the table of verbs and the text of session replies.

mod beat;
mod end;
mod list;
mod prune;
mod show;
mod start;
pub mod text;

use crate::grammar::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("start", "An agent begins to work", start),
    verb!("beat", "A sign of life", beat),
    verb!("end", "It is over; its file locks are let go", end),
    verb!("list", "Who is at work", list),
    verb!("show", "One session", show),
    verb!("prune", "Take what is over off the list", prune),
];
