//! Requests and replies about locks on files.

use jit_core::model::ids::LeaseId;
use jit_core::model::scope::LockScope;
use jit_core::query::session_and_lock_views::LockView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests, writes};
use crate::api::path::ApiPath;

requests! {
    /// Locks on files.
    pub enum FileLockRequest {
        /// Locks all of these paths or none, after waiting in the queue if `wait_secs` is set.
        Acquire { paths: LockPaths, wait_secs: Option<u64> } => writes(Nothing),
        Check { paths: LockPaths } => reads(Nothing),
        Extend { which: OwnLocks, ttl_secs: Option<u64> } => writes(Nothing),
        Release { which: OwnLocks } => writes(Nothing),
        List => reads(Nothing),
        /// Ends locks and places in the queue whose owners are gone.
        Cleanup => writes(Nothing),
    }
}

replies! {
    pub enum FileLockReply {
        Locks(Locks),
        Released(ReleasedLocks),
        Checks(LockChecks),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Locks {
    pub locks: Vec<LockView>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReleasedLocks {
    pub released: Vec<LockView>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LockChecks {
    pub paths: Vec<LockCheck>,
}

/// The paths to lock, and how.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LockPaths {
    pub paths: Vec<ApiPath>,
    /// The paths are file names: characters of patterns have no special meaning.
    pub literal: bool,
    pub shared: bool,
    pub scope: Option<LockScope>,
    pub ttl_secs: Option<u64>,
}

/// Selects some of the caller's own locks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnLocks {
    All,
    Paths(Vec<ApiPath>),
    Leases(Vec<LeaseId>),
}

/// Whether a path can be locked now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LockCheck {
    pub file_path: String,
    pub lock_scope: LockScope,
    pub available: bool,
    /// The caller holds the lock already.
    pub mine: bool,
    /// Number of requests ahead in the queue.
    pub waiting: usize,
    /// Locks that conflict.
    pub locks: Vec<LockView>,
}
