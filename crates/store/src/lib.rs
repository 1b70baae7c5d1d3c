//! The store: one ordered log of events, shared by everyone who works on the repository, and the state folded from it.
//!
//! [`port`] lists every verb of a store. [`open`] opens the store in files.

pub mod disk;
pub mod file;
pub mod folded_state;
pub mod journal;
pub mod log;
pub mod memory;
pub mod port;
mod refusals;
pub mod sorted_run;
pub mod views;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use jit_os::clock::Clock;
pub use port::{
    Ask, Done, LockHolder, LogProblem, LogReport, LogStamp, Outcome, Publish, ReadTable, Recovered, Store,
    Upkeep, View, WriteLock,
};

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
