//! Requests about locks on files.

use std::ffi::OsString;

use jit_core::model::ids::LeaseId;
use jit_core::model::scope::LockScope;

/// The paths to lock, and how.
#[derive(Debug, Clone, Default)]
pub struct LockPaths {
    pub paths: Vec<OsString>,
    /// The paths are file names: characters of patterns have no special meaning.
    pub literal: bool,
    pub shared: bool,
    pub scope: Option<LockScope>,
    pub ttl_secs: Option<u64>,
}

/// Selects some of the caller's own locks.
#[derive(Debug, Clone)]
pub enum OwnLocks {
    All,
    Paths(Vec<OsString>),
    Leases(Vec<LeaseId>),
}
