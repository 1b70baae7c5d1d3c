//! Git: where things are (read from files, without starting a process), and the one place that starts git.

pub mod branches;
pub mod config;
pub mod discover;
pub mod files;
pub mod run;
pub mod snapshot;
pub mod worktrees;

pub use discover::{DiscoverError, GitEnv, Place};
pub use run::{Git, GitError};
pub use worktrees::WorktreeEntry;
