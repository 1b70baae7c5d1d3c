//! Fills a control plane with a long history, to see whether a claim still costs what it costs on an empty one.
//!
//! Not written yet: a million records have to come from the store itself, because only it knows its formats, and running
//! the command a million times would take the better part of an hour. Until then this says so, and nothing is printed
//! that looks like a figure.

use std::path::Path;

#[derive(Debug, Clone, Copy)]
pub struct History {
    pub records: usize,
    pub leases: usize,
}

/// Gives the repository at `_repo` that history, or says why it cannot.
pub fn fill(_repo: &Path, history: History) -> Result<(), String> {
    let History { records, leases } = history;
    Err(format!(
        "nothing writes a log of {records} records with {leases} active leases yet"
    ))
}
