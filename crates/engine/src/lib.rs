//! What `jit` does to the world: files, git, clocks and processes. It decides nothing and prints nothing.

pub mod agent;
pub mod config;
pub mod duration;
pub mod git;
pub mod os;
pub mod store;
pub mod worktree;
