//! Requests about units.

use std::path::PathBuf;

use jit_core::model::ids::{UnitId, WorkflowId};

/// Options for a new unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateUnit {
    /// An issue, or a name for a unit without one.
    pub what: String,
    pub base: Option<String>,
    pub path: Option<PathBuf>,
    pub branch: Option<String>,
    pub ttl_secs: Option<u64>,
    /// The workflow that the unit belongs to.
    pub workflow: Option<WorkflowId>,
    /// Name of the unit, if it does not follow from the issue.
    pub name: Option<UnitId>,
    /// The branch to land on, if it is not the default target.
    pub target: Option<String>,
}
