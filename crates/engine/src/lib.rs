//! What `jit` does to the world: files, git, clocks and processes. It decides nothing and prints nothing.
//!
//! `request` says what can be asked, `app` carries it out, `store` keeps what was decided.

pub mod activities;
pub mod agent;
pub mod app;
pub mod config;
pub mod coordinator;
pub mod doctor;
pub use jit_core::duration;
pub mod exchange;
pub mod gates;
pub mod handoffs;
pub mod heartbeat;
pub mod hooks;
pub mod issues;
pub mod landing;
pub mod locks;
pub mod notify;
pub mod plans;
pub mod refusals;
pub mod registry;
pub mod request;
pub mod rescue;
pub mod sessions;
pub mod setup;
pub mod trust;
pub mod units;
pub mod workflows;
pub mod worktree;
