//! Reply types of `jit init` and `jit uninstall`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file that was not removed, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Left {
    pub path: String,
    pub why: String,
}
