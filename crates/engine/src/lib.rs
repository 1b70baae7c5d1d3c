//! The engine: performs requests with files, git, clocks and processes. It decides nothing and prints nothing.
//!
//! `api` defines requests and replies. `handle` dispatches a request to its room. `context` holds the data that every
//! room needs. `write_path` is the only way into the log.

pub mod api;
pub mod approvals;
pub mod attempts;
pub mod claims;
pub mod compat;
pub mod config;
pub mod context;
pub mod coordinator;
pub mod crash_point;
pub mod doctor;
pub mod file_locks;
pub mod gates;
pub mod git_locks;
pub mod handle;
pub mod heartbeats;
pub mod hooks;
pub mod identity;
pub mod import_files;
pub mod init;
pub mod issues;
pub mod landing;
pub mod leases;
pub mod memory;
pub mod notify;
pub mod opening;
pub mod overview;
pub mod plans;
pub mod ports;
pub mod refusals;
pub mod replica;
pub mod sessions;
pub mod settings;
pub mod stream;
pub mod target_locks;
pub mod trust;
pub mod units;
pub mod wiring;
pub mod workflows;
pub mod worktree_identity;
pub mod worktrees;
pub mod write_path;

pub use jit_core::model::duration;
