//! The engine: carries out requests. A request goes in, a reply comes out.
//!
//! Every surface (command line, MCP) uses the same doors: [`handle`] for a request, [`stream`] for items to follow, and
//! [`coordinator`] for the process that leads a workflow. [`api`] has all requests and replies, one file a noun. Behind
//! the doors is one room a noun. A room gets a [`Context`](context::Context), and everything outside this program through
//! the [`ports`]. [`write_path`] is the only way into the log.
//!
//! Limits of this crate: it prints nothing and reads no standard input. It decides nothing about the log: `jit_core`
//! does. A request that only reads changes nothing, but what an editor or git
//! changed in the tree is taken in before it, as before every request whose facts name the tree.
//!
//! Begin reading with [`api`], then [`mod@handle`], [`context`], [`write_path`], and one room, such as [`claims`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use jit_engine::api::issues::{IssueFilter, IssueRequest};
//! use jit_engine::api::Options;
//! use jit_engine::handle::handle;
//! use jit_engine::memory::MemoryRepository;
//! use jit_testkit::ManualClock;
//!
//! // A repository without files, for tests. A surface calls `handle::ask`, which opens the one in the current folder.
//! let repository = MemoryRepository::new(Arc::new(ManualClock::new()));
//! let agent = "agent:copilot-1".parse().expect("an agent id");
//! let worktree = "wt:00000001".parse().expect("a worktree id");
//! let place = std::path::Path::new("/nowhere");
//! let cx = repository.enter(place, agent, worktree, Options::default()).expect("a context");
//!
//! let request = IssueRequest::Ready { filter: IssueFilter::default(), limit: None };
//! let answer = handle(&cx, request).expect("a reply");
//! assert_eq!(serde_json::to_string(&answer.reply.value()).expect("JSON"), r#"{"issues":[]}"#);
//! ```

mod answers;
pub mod api;
pub mod approvals;
pub mod attempts;
pub mod claims;
pub mod compat;
pub mod config;
pub mod context;
pub mod coordinator;
pub mod crash_point;
pub mod doctor;
pub mod file_locks;
pub mod gates;
pub mod git_locks;
mod git_programs;
pub mod handle;
pub mod heartbeats;
pub mod hooks;
pub mod identity;
pub mod import_files;
pub mod init;
pub mod issues;
pub mod landing;
pub mod leases;
pub mod memory;
pub mod notify;
pub mod opening;
pub mod overview;
pub mod plans;
pub mod ports;
pub mod refusals;
pub mod replica;
pub mod sessions;
pub mod settings;
pub mod stream;
pub mod target_locks;
pub mod trust;
pub mod units;
pub mod wiring;
pub mod workflows;
pub mod worktree_identity;
pub mod worktrees;
pub mod write_path;

pub use jit_core::model::duration;
