//! What `jit` decides: pure functions over ids, leases, events and state. No IO, no clock, no randomness.
//!
//! Read `event` (what can have happened), `state` (what it adds up to) and `decide` (who gets what), in that order.

pub mod coordinate;
pub mod decide;
pub mod exchange;
pub mod graph;
pub mod issue_files;
pub mod log;
pub mod merge_order;
pub mod merge_policy;
pub mod model;
pub mod queue;
pub mod registry;
pub mod roster;
