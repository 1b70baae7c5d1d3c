//! Requests and replies about workflows: plans that agents work through.

use jit_core::model::account::Parked;
use jit_core::model::cost::{Tokens, Usd};
use jit_core::model::ids::{AgentId, UnitId};
use jit_core::model::plan::{Plan, Settings};
use jit_core::model::workflow::Workflow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::facts::TreeScope::{All, Nothing};
use crate::api::facts::{reads, replies, requests, writes};
use crate::api::path::ApiPath;
use crate::api::units::UnitView;

requests! {
    /// Workflows. No name means the only running one, or else the last one.
    pub enum WorkflowRequest {
        /// All running workflows; with `all`, also those that have ended.
        List { all: bool } => reads(Nothing),
        Status { workflow: Option<String> } => reads(Nothing),
        /// Loads a plan and checks it, or makes one of the issues that are ready. Nothing starts.
        Plan(ask: Box<PlanAsk>) => writes(if ask.file.is_some() { Nothing } else { All }),
        /// Starts a workflow with a plan that `Plan` returned. A coordinator must lead it.
        Start(plan: Box<Plan>) => writes(Nothing),
        /// Asks for the end of a workflow. Its coordinator ends it; without one, the caller must become it.
        Cancel { workflow: Option<String> } => writes(Nothing),
        /// Opens a workflow again that has ended, if one of its units can go on. A running one stays as it is.
        Reopen { workflow: Option<String> } => writes(Nothing),
    }
}

replies! {
    pub enum WorkflowReply {
        /// A workflow with its units.
        Workflow(Box<WorkflowView>),
        /// The workflow alone, after it was started, cancelled or opened again.
        Changed(Box<Workflow>),
        Workflows(Workflows),
        Planned(Box<PlannedWorkflow>),
    }
}

/// A plan that is to be carried out.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlanAsk {
    /// The file with the plan; none means the issues that are ready, best first.
    pub file: Option<ApiPath>,
    /// The most issues that are taken without a file.
    pub limit: Option<usize>,
    /// The most agents at the same time, instead of the plan's own number.
    pub max: Option<u32>,
    /// Settings that override those of the plan.
    pub run: Settings,
}

/// A plan, and the limits of each agent that it would start.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlannedWorkflow {
    pub plan: Plan,
    /// In the order of the plan.
    pub units: Vec<PlannedAgent>,
    /// Limits that cannot be enforced, and locks that have no effect.
    pub cautions: Vec<String>,
}

/// The settings of an agent that has not been started.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlannedAgent {
    pub unit: String,
    pub settings: Settings,
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
