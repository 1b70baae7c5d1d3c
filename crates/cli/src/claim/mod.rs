//! `jit claim`: acquires, renews, transfers and ends leases on issues.

mod acquire;
mod force_evict;
pub mod history;
mod list;
mod next;
mod release;
mod renew;
mod status;
pub mod text;
mod transfer;

use crate::grammar::{Verb, verb};

pub const VERBS: &[Verb] = &[
    verb!("acquire", "Take an issue, for a time", acquire),
    verb!("next", "Take the best issue that is ready", next),
    verb!("renew", "Keep it longer", renew),
    verb!("release", "Give it back", release),
    verb!("transfer", "Hand it to another agent", transfer),
    verb!("force-evict", "Take it away from its holder", force_evict),
    verb!("status", "Who holds what", status),
    verb!("list", "Who holds what", list),
    verb!("history", "Who held what, and how it ended", history),
];

/// Parses the name of a lease: its own id, or its issue.
fn target(text: &str) -> Result<jit_core::decide::command::Target, String> {
    jit_core::decide::command::Target::parse(text).map_err(|e| e.to_string())
}
