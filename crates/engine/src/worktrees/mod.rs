//! Worktrees of units: created, provisioned, cleaned up, rescued.

pub mod cleanup;
pub mod finish;
pub mod orphans;
pub mod provisioning;
pub mod removed_worktree;
pub mod rescue;
pub mod rescue_commands;
pub mod service;
