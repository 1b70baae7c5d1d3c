//! Worktrees of units: created and retried (`service`, `provisioning`), finished (`finish`), removed (`cleanup`),
//! checked (`orphans`), and rescued (`rescue`, `rescue_commands`).
//!
//! What must hold: a removal first keeps all work that is not on the target (see `rescue`).

pub mod cleanup;
pub mod finish;
pub mod orphans;
pub mod provisioning;
pub mod removed_worktree;
pub mod rescue;
pub mod rescue_commands;
pub mod service;
