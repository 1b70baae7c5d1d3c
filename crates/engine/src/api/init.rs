//! Reply types of `jit init` and `jit uninstall`.

use serde::Serialize;

/// A file that was not removed, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    pub path: String,
    pub why: String,
}
