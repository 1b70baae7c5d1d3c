//! The store keeps the log: one ordered sequence of events, shared by all processes that work on the repository, and the
//! state folded from it.
//!
//! Callers know only the [`port`]: the traits [`Store`] and [`Upkeep`]. [`open`] gives the store in files ([`mod@file`]),
//! [`memory`] the one for tests. Deciding is the task of `jit_core`: the store passes it the state and appends its events.
//!
//! Limits of this crate: it does not know git, worktrees or configuration. It writes only below the control directory, and
//! only through the port [`disk`].
//!
//! Begin reading with [`port`], then [`mod@file`]. A write in files goes like this:
//!
//! ```text
//!  transact(ask)
//!    │  acquire the kernel lock                          locks/control.lock
//!    │  load: the journal must end where the log ends    state/journal over state/run-*
//!    │        (if not: repair from the other copy)
//!    │  decide (jit_core), then ask.prepare
//!    │  append all lines with one write                  events/control.jsonl
//!    │  update the views and the journal                 claims.jsonl, claims.index.json
//!    │  ask.publish
//!    │  release the lock
//!    ▼  sync the log (shared by many processes), then answer
//!  Done
//! ```
//!
//! ```
//! use std::sync::Arc;
//!
//! use jit_store::{OpenOptions, Store};
//! use jit_testkit::ManualClock;
//! use jit_testkit::store_commands::{acquire, actor, ask, create, lease_in};
//!
//! let control_dir = tempfile::tempdir()?;
//! let options = OpenOptions {
//!     lock_wait: std::time::Duration::from_secs(5),
//!     single_threaded: false,
//! };
//! let store: Arc<dyn Store> = jit_store::open(control_dir.path(), Arc::new(ManualClock::new()), options)?;
//! let agent = actor("agent:a", 1);
//! store.create(&agent).expect("a log");
//! ask(&*store, &agent, &create("WI-1"), 1).expect("an issue");
//! let done = ask(&*store, &agent, &acquire("WI-1", 600), 2).expect("a lease");
//! // The token of a lease is the sequence of its event.
//! assert_eq!(lease_in(&done).token, done.sequence);
//! assert!(store.upkeep().validate(&agent).expect("a report").problems.is_empty());
//! # Ok::<(), std::io::Error>(())
//! ```

mod claim_records;
pub mod compressed;
pub mod disk;
pub mod file;
pub mod folded_state;
pub mod journal;
pub mod log;
pub mod memory;
pub mod port;
mod refusals;
pub mod segment_bytes;
pub mod sorted_run;
pub mod views;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use jit_core::model::time::Clock;
pub use port::{
    Ask, Done, LockHolder, LogProblem, LogReport, LogStamp, Outcome, Publish, ReadTable, Recovered, Store,
    Upkeep, View, WriteLock,
};
pub use refusals::request_reused;

/// How to open a store in files.
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions {
    /// Wait at most this long for other writers.
    pub lock_wait: Duration,
    /// The program uses the store from its first thread only, and the alarm clock of the process for nothing else:
    /// waiting for other writers costs less then.
    pub single_threaded: bool,
}

/// Opens the store in the files of a control directory. The directory must exist; the log need not.
pub fn open(control_dir: &Path, clock: Arc<dyn Clock>, options: OpenOptions) -> io::Result<Arc<dyn Store>> {
    let disk = disk::RealDisk::open(control_dir)?;
    let store = file::FileStore::new(Arc::new(disk), clock, options.lock_wait);
    Ok(Arc::new(if options.single_threaded {
        store.alone()
    } else {
        store
    }))
}
