//! What `jit` decides: pure functions over ids, leases, events and state. No IO, no clock, no randomness.
//!
//! Read `event` (what can have happened), `state` (what it adds up to) and `decide` (who gets what), in that order.

pub mod account;
pub mod activity;
pub mod command;
pub mod conflict;
pub mod coordinate;
pub mod decide;
pub mod duration;
pub mod event;
pub mod exact;
pub mod exchange;
pub mod file_lock;
pub mod graph;
pub mod ids;
pub mod ignore;
pub mod issue;
pub mod issue_file;
pub mod lease;
pub mod merge;
pub mod merge_order;
pub mod merge_policy;
pub mod pack;
pub mod pattern;
pub mod plan;
pub mod policy;
pub mod queue;
pub mod refusal;
pub mod registry;
pub mod roster;
pub mod scope;
pub mod session;
pub mod sheet;
pub mod state;
pub mod table;
pub mod time;
pub mod tracker;
pub mod unit;
pub mod wire;
pub mod workflow;
