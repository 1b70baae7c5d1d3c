//! What `jit` decides: pure functions over ids, leases, events and state. No IO, no clock, no randomness.
//!
//! Read `event` (what can have happened), `state` (what it adds up to) and `decide` (who gets what), in that order.

pub mod compat;
pub mod coordinator;
pub mod decide;
pub mod exchange;
pub mod issue_files;
pub mod landing;
pub mod log;
pub mod model;
pub mod query;
