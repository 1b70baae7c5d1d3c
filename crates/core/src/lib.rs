//! What `jit` decides: pure functions over ids, leases, events and state. No IO, no clock, no randomness.
//!
//! Read `event` (what can have happened), `state` (what it adds up to) and `decide` (who gets what), in that order.

pub mod activity;
pub mod command;
pub mod coordinate;
pub mod decide;
pub mod event;
pub mod exchange;
pub mod graph;
pub mod issue_files;
pub mod merge_order;
pub mod merge_policy;
pub mod model;
pub mod pack;
pub mod queue;
pub mod registry;
pub mod roster;
pub mod state;
pub mod table;
pub mod tracker;
pub mod wire;
