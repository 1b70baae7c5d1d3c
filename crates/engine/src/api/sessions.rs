//! Requests about sessions.

use jit_core::model::scope::LockScope;
use jit_os::process::ProcessRef;

#[derive(Debug, Clone, Default)]
pub struct StartSession {
    /// `None` means developer.
    pub agent_type: Option<String>,
    pub task: Option<String>,
    pub pr_group: Option<String>,
    pub lock_scope: Option<LockScope>,
    /// The process that acts in the session, together with all its children.
    pub bind: Option<ProcessRef>,
    pub program: Option<String>,
    pub program_session: Option<String>,
}
