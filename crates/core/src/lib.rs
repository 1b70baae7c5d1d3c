//! Decides: pure functions over ids, leases, events and state. This crate does no IO, reads no clock, environment or random
//! source and starts no process: whatever a decision needs is an argument, so every decision can be replayed and tested.
//!
//! Rooms, each using only those before it: [`model`] (nouns), [`issue_files`] (issues as files), [`log`] (events and the state
//! they add up to), [`compat`] (files of other programs), [`query`] (questions), [`decide`] (decisions); beside them [`landing`],
//! [`coordinator`] (next steps of a workflow) and [`exchange`] (import and export). Begin with [`log::event`], [`log::fold`],
//! [`decide`] and [`model::unit`].
//!
//! ```
//! use jit_core::decide::command::{Command, Context};
//! use jit_core::decide::{Draft, decide};
//! use jit_core::log::table::MemoryTable;
//! use jit_core::model::{actor::Actor, ids::LeaseId, policy::Policy, time};
//!
//! let now = time::Now { wall: time::Wall::from_ms(0), boot: time::BootId("boot".into()), ticks: 0 };
//! let actor = Actor { agent_id: "agent:copilot-1".parse().unwrap(), worktree_id: None };
//! let (wall, fresh_lease) = (now.wall, LeaseId::generate(0, 1));
//! let cx = Context { now, actor: actor.clone(), branch: None, fresh_lease, policy: Policy::default() };
//!
//! let table = MemoryTable::default();
//! let mut draft = Draft::new(&table, 0, wall, actor);
//! let refused = decide(&mut draft, &Command::Acquire {
//!     issue: "task-1".parse().unwrap(), ttl_secs: None, note: None, on_behalf_of: None,
//! }, &cx);
//! assert!(refused.is_err(), "there is no such issue");
//! assert!(draft.events().is_empty(), "a refusal writes nothing");
//! ```

pub mod compat;
pub mod coordinator;
pub mod decide;
pub mod exchange;
pub mod issue_files;
pub mod landing;
pub mod log;
pub mod model;
pub mod query;
