//! Locks on files: resolving paths, acquiring, waiting and releasing.

pub mod lock_paths;
pub mod others;
pub mod service;

use crate::api::Answer;
use crate::api::file_locks::FileLockRequest;
use crate::context::Context;
use jit_store::Outcome;

/// Carries out a request about locks on files.
pub(crate) fn handle(cx: &Context, request: FileLockRequest) -> Outcome<Answer> {
    match request {
        FileLockRequest::Acquire { paths, wait_secs } => {
            service::lock_files(cx, &paths, wait_secs.map(crate::duration::bounded))
        }
        FileLockRequest::Check { paths } => service::check_locks(cx, &paths),
        FileLockRequest::Extend { which, ttl_secs } => service::extend_locks(cx, &which, ttl_secs),
        FileLockRequest::Release { which } => service::release_locks(cx, &which),
        FileLockRequest::List => service::list_locks(cx),
        FileLockRequest::Cleanup => service::clean_locks(cx),
    }
}
