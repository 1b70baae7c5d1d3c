//! Locks on files: resolving paths, acquiring, waiting and releasing.

pub mod lock_paths;
pub mod others;
pub mod service;
