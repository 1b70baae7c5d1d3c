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

/// Jit may be removed now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MayUninstall {
    pub control_dir: String,
}

/// Jit is removed.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Uninstalled {
    /// The documented JSON of `jit uninstall`.
    pub report: UninstallReport,
    /// Committed files that were changed: the user commits them.
    pub commit: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct UninstallReport {
    /// The file with every issue; null if there were none.
    pub export: Option<String>,
    pub issues: usize,
    /// The file with the gate files that only the trees had; null if there were none.
    pub gates: Option<String>,
    pub removed: Vec<String>,
    pub kept: Vec<Left>,
}

/// A file that was not removed, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Left {
    pub path: String,
    pub why: String,
}
