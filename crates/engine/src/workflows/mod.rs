//! Workflows: starting, showing and cancelling them (G11). The coordinator runs them.

pub mod overlap;
pub mod service;
pub mod snapshot;
pub mod view;
