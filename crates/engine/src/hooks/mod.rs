//! Hooks: where git and agents ask jit before they act.

pub mod agent;
pub mod git;
