//! Requests and replies about sessions: agents at work.

use jit_core::model::ids::SessionId;
use jit_core::model::scope::LockScope;
use jit_core::model::session::SessionStatus;
use jit_core::query::session_and_lock_views::SessionView;
use jit_os::process::ProcessRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests, writes};

requests! {
    /// Sessions. No id means the caller's own session.
    pub enum SessionRequest {
        Start(start: Box<StartSession>) => writes(Nothing),
        /// Records a heartbeat.
        Beat { session: Option<SessionId> } => writes(Nothing),
        End { session: Option<SessionId>, status: SessionStatus } => writes(Nothing),
        /// With `all`, also sessions that have ended.
        List { all: bool } => reads(Nothing),
        Show { session: Option<SessionId> } => reads(Nothing),
        /// Takes sessions off the list that have ended.
        Prune => writes(Nothing),
    }
}

replies! {
    pub enum SessionReply {
        Session(Box<SessionView>),
        Sessions(Sessions),
        Pruned(PrunedSessions),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    pub sessions: Vec<SessionView>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PrunedSessions {
    pub pruned: Vec<SessionId>,
}

/// The process that a session is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BindTo {
    Process(ProcessRef),
    /// The process with this number.
    Pid(u32),
    /// The program that started the process with this number. Shells in between do not count.
    CallerOf(u32),
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StartSession {
    /// `None` means developer.
    pub agent_type: Option<String>,
    pub task: Option<String>,
    pub pr_group: Option<String>,
    pub lock_scope: Option<LockScope>,
    /// The process that acts in the session, together with all its children.
    pub bind: Option<BindTo>,
    pub program: Option<String>,
    pub program_session: Option<String>,
}
