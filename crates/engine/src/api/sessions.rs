//! TODO header

use jit_core::model::scope::LockScope;
use jit_os::process::ProcessRef;

#[derive(Debug, Clone, Default)]
pub struct StartSession {
    /// Developer when nothing is said.
    pub agent_type: Option<String>,
    pub task: Option<String>,
    pub pr_group: Option<String>,
    pub lock_scope: Option<LockScope>,
    /// The process that, with all it starts, is to act in the session.
    pub bind: Option<ProcessRef>,
    pub program: Option<String>,
    pub program_session: Option<String>,
}
