//! What the tests of every crate stand on: a disk that loses power, a clock that is set by hand, a random number
//! generator that can be started again, and a second opinion on who holds what.
//!
//! Everything here is deterministic: a test that fails prints the seed that makes it fail again.

pub mod agent_cli;
pub mod git_world;
pub mod lease_model;
pub mod manual_clock;
pub mod rng;
pub mod scripted_model;
pub mod sim_disk;
pub mod store_commands;
pub mod store_contract;
pub mod world;

pub use manual_clock::ManualClock;
pub use rng::Rng;
pub use sim_disk::SimDisk;
