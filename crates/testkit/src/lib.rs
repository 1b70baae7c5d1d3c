//! Worlds to test in. Never shipped.
//!
//! - Without a process: a disk that loses power ([`SimDisk`]), a clock that tests set ([`ManualClock`]), random numbers that
//!   can be repeated ([`Rng`]), a reference model of leases ([`lease_model`]), and the contract of every store
//!   ([`mod@store_contract`]).
//! - With processes: a home with a repository and the real `jit` ([`world`]), real git alone ([`git_world`]), and real agent
//!   programs against a scripted model ([`agent_cli`], [`scripted_model`]).
//!
//! Limits of this crate: only tests depend on it. Everything in the first group is deterministic: a test that fails prints
//! the seed that repeats the failure. Begin reading with [`store_commands`] and [`world`].
//!
//! ```
//! use jit_store::Store as _;
//! use jit_testkit::store_commands::{actor, ask, create, open, sequence};
//! use jit_testkit::{ManualClock, SimDisk};
//!
//! let (disk, clock) = (SimDisk::new(), ManualClock::new());
//! let agent = actor("agent:a", 1);
//! let store = open(&disk, &clock);
//! store.create(&agent).expect("a log");
//! let done = ask(&store, &agent, &create("WI-1"), 1).expect("an issue");
//! // An acknowledged event survives a power loss, even if only synced data does.
//! let after = open(&disk.crash_losing_all(), &clock);
//! assert_eq!(sequence(&after), done.sequence);
//! ```

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
