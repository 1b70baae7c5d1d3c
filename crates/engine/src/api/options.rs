//! Options of a caller: where it is, who it says it is, and how long it waits. They belong to no request.

use std::path::PathBuf;
use std::time::Duration;

use jit_core::model::ids::RequestId;

/// Options that apply to every command.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub dir: Option<PathBuf>,
    pub agent: Option<String>,
    pub lock_timeout: Option<Duration>,
    pub request: Option<RequestId>,
    /// The program asks from its first thread only: waiting for other writers costs less then.
    pub single_threaded: bool,
}
