//! TODO header

use std::path::PathBuf;

use jit_core::model::ids::{UnitId, WorkflowId};

/// What is asked for about a new unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateUnit {
    /// An issue, or a name for a unit without one.
    pub what: String,
    pub base: Option<String>,
    pub path: Option<PathBuf>,
    pub branch: Option<String>,
    pub ttl_secs: Option<u64>,
    /// The workflow that it is made for.
    pub workflow: Option<WorkflowId>,
    /// Its name, where that does not follow from what it is for.
    pub name: Option<UnitId>,
    /// The branch it is to land on, where that is not the usual one.
    pub target: Option<String>,
}
