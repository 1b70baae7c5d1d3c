//! Questions about the state: the queue of ready work, graphs of issues, and leases, sessions and locks as they are shown.

pub mod claim_views;
pub mod graph;
pub mod ready_queue;
pub mod session_and_lock_views;
