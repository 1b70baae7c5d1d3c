//! Hooks: where other programs ask jit before they act.

pub mod agent;
