//! TODO header

use std::ffi::OsString;

use jit_core::model::ids::LeaseId;
use jit_core::model::scope::LockScope;

/// What is asked for about paths.
#[derive(Debug, Clone, Default)]
pub struct LockPaths {
    pub paths: Vec<OsString>,
    /// The paths are names of files, whatever characters are in them.
    pub literal: bool,
    pub shared: bool,
    pub scope: Option<LockScope>,
    pub ttl_secs: Option<u64>,
}

/// Which of one's own locks are meant.
#[derive(Debug, Clone)]
pub enum OwnLocks {
    All,
    Paths(Vec<OsString>),
    Leases(Vec<LeaseId>),
}
