//! Reply types of `jit init` and `jit uninstall`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The repository is set up.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetUp {
    /// The documented JSON of `jit init`.
    pub report: SetUpReport,
    /// Something was set up, and git's hooks were left as they are.
    pub hooks_left: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetUpReport {
    pub changed: bool,
    pub control_dir: String,
    pub local_dir: Option<String>,
    pub steps: Vec<String>,
}

/// A file that was not removed, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Left {
    pub path: String,
    pub why: String,
}
