//! Performs what `jit-core` decides: files, git, processes, clocks. Prints nothing; what a person should hear is
//! returned as data.

pub mod agent;
pub mod config;
pub mod duration;
pub mod git;
pub mod os;
pub mod worktree;
