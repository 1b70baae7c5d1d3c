//! The contract of the store, on each store there is: in memory, in files, and in files on a disk of our own making
//! whose segments and runs are so small that sealing and compaction happen all the time.

use std::sync::Arc;
use std::time::Duration;

use jit_store::OpenOptions;
use jit_store::file::FileStore;
use jit_store::memory::MemoryStore;
use jit_testkit::store_commands::open;
use jit_testkit::store_contract;
use jit_testkit::store_contract::{Backend, Handle};
use jit_testkit::{ManualClock, SimDisk};

struct InMemory(ManualClock, MemoryStore);

fn in_memory() -> InMemory {
    let clock = ManualClock::new();
    InMemory(clock.clone(), MemoryStore::new(Arc::new(clock)))
}

impl Backend for InMemory {
    fn clock(&self) -> &ManualClock {
        &self.0
    }

    fn open(&self) -> Handle {
        Arc::new(self.1.clone())
    }
}

/// Through [`jit_store::open`], as programs open it.
struct InFiles(ManualClock, tempfile::TempDir);

fn in_files() -> InFiles {
    InFiles(ManualClock::new(), tempfile::tempdir().expect("a directory"))
}

impl Backend for InFiles {
    fn clock(&self) -> &ManualClock {
        &self.0
    }

    fn open(&self) -> Handle {
        let options = OpenOptions {
            lock_wait: Duration::from_secs(10),
            single_threaded: false,
        };
        jit_store::open(self.1.path(), Arc::new(self.0.clone()), options).expect("a directory")
    }
}

struct Simulated(ManualClock, SimDisk);

fn simulated() -> Simulated {
    Simulated(ManualClock::new(), SimDisk::new())
}

impl Simulated {
    fn store(&self) -> FileStore {
        open(&self.1.another_process(), &self.0)
            .with_segment_limit(6_000)
            .with_journal_limit(4_000)
    }
}

impl Backend for Simulated {
    fn clock(&self) -> &ManualClock {
        &self.0
    }

    fn open(&self) -> Handle {
        Arc::new(self.store())
    }
}

store_contract!(memory, super::in_memory());
store_contract!(files, super::in_files());
store_contract!(simulated_disk, super::simulated());
