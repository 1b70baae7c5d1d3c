//! Requests and replies about workflows: plans that agents work through.

use jit_core::model::account::Parked;
use jit_core::model::cost::{Tokens, Usd};
use jit_core::model::ids::{AgentId, UnitId};
use jit_core::model::workflow::Workflow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::Nothing;
use crate::api::facts::{reads, replies, requests};
use crate::api::units::UnitView;

requests! {
    /// Workflows. No name means the only running one, or else the last one.
    pub enum WorkflowRequest {
        /// All running workflows; with `all`, also those that have ended.
        List { all: bool } => reads(Nothing),
        Status { workflow: Option<String> } => reads(Nothing),
    }
}

replies! {
    pub enum WorkflowReply {
        Workflow(Box<WorkflowView>),
        Workflows(Workflows),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Workflows {
    pub workflows: Vec<WorkflowView>,
}

/// A workflow as it is shown.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowView {
    #[serde(flatten)]
    pub workflow: Workflow,
    /// The agent that coordinates it now.
    pub led_by: Option<AgentId>,
    pub cost_usd: Usd,
    pub tokens: Tokens,
    pub instances: Vec<UnitView>,
    /// Units of the plan that have not started, and why.
    pub waiting: Vec<Waiting>,
    /// Parked accounts of its agents, and until when they are parked.
    pub parked: Vec<Parked>,
    /// Path of the ORCHESTRATION.yaml view for other programs.
    pub orchestration: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    pub unit: UnitId,
    pub why: String,
}
