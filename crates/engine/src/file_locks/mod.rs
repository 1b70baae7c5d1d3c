//! Locks on files.

pub mod lock_paths;
pub mod others;
pub mod service;
