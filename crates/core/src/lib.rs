//! What `jit` decides: pure functions over ids, leases, events and state. No IO, no clock, no randomness.

pub mod ids;
