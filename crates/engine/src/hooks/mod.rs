//! Hooks: git and agent programs call jit here before they act.

pub mod agent;
pub mod git;
