//! `ORCHESTRATION.yaml`: a view of a workflow for people and for programs that read files (G11).
//!
//! What must hold:
//!
//! - It follows from the log alone. The same workflow and units give the same bytes, so it can be rebuilt at any
//!   time.
//! - Readers see a whole file, either the old one or the new one. It is written only when something changed.
//! - Only the process that leads the workflow writes it, and no code here reads it back.
//! - Readers of YAML 1.1 and of YAML 1.2 get every text unchanged.
//!
//! Format: `orchestration` has `workflow_id`, `target_branch`, `status`, times and `instances`. `instances` lists
//! units from their creation until their removal, in the order of the plan. Removed units are in `finished` with the
//! same fields. Units that have not started are in `pending`, by name. `session_registry` has each known session, and
//! whether it can be resumed.

use std::io;
use std::path::{Path, PathBuf};

use jit_core::model::cost::{Tokens, Usd};
use jit_core::model::ids::{UnitId, WorkflowId};
use jit_core::model::time::Wall;
use jit_core::model::unit::{Artifact, Clash, Failure, Handed, MergeStatus, Phase, Unit};
use jit_core::model::workflow::{Workflow, WorkflowOutcome as Status};
use jit_os::file;
use serde::{Deserialize, Serialize};

use crate::plans;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    pub orchestration: Orchestration,
    pub session_registry: Vec<Session>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Orchestration {
    pub workflow_id: WorkflowId,
    pub target_branch: String,
    pub status: Status,
    pub created_at: Wall,
    pub ended_at: Option<Wall>,
    /// Sum over all units, including removed ones.
    pub cost_usd: Usd,
    pub tokens: Tokens,
    pub instances: Vec<Instance>,
    pub finished: Vec<Instance>,
    pub pending: Vec<UnitId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    pub id: UnitId,
    /// The agent that works in it, or its kind; null before the first attempt.
    pub agent: Option<String>,
    pub state: Phase,
    pub worktree_path: String,
    pub branch: String,
    pub project_id: Option<String>,
    pub issue_id: Option<String>,
    pub provisioning_time_ms: Option<u64>,
    pub pid: Option<u32>,
    pub session_id: Option<String>,
    pub attempt: u32,
    pub dispatch_time: Option<Wall>,
    pub start_time: Option<Wall>,
    pub completion_time: Option<Wall>,
    pub cost_usd: Option<Usd>,
    pub tokens: Tokens,
    pub turns: u64,
    pub duration_ms: Option<u64>,
    pub retry_count: u32,
    pub artifacts: Vec<Artifact>,
    pub error: Option<Failure>,
    pub merge_status: MergeStatus,
    pub merge_attempt_time: Option<Wall>,
    pub merge_commit: Option<String>,
    pub merge_conflicts: Vec<Clash>,
    pub abandoned: Option<String>,
    /// Paths the unit may write; empty means anywhere in its worktree.
    pub writes: Vec<String>,
    /// Handoffs that its agents received, with the senders.
    pub handoffs: Vec<Handed>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub instance_id: UnitId,
    pub agent_id: Option<String>,
    pub session_id: String,
    pub worktree_path: String,
    /// The state of the instance, in lower case.
    pub state: String,
    /// The session has started, is not running now, and its worktree exists.
    pub resumable: bool,
}

fn agent(unit: &Unit) -> Option<String> {
    let worker = unit.worker.as_ref().map(ToString::to_string);
    worker.or_else(|| unit.agent.clone())
}

impl Instance {
    fn of(unit: &Unit) -> Self {
        Self {
            id: unit.id.clone(),
            agent: agent(unit),
            state: unit.state,
            worktree_path: unit.worktree_path.clone(),
            branch: unit.branch.clone(),
            project_id: unit.project_id.clone(),
            issue_id: unit.issue_id.as_ref().map(ToString::to_string),
            provisioning_time_ms: unit.provisioning_time_ms,
            pid: unit.pid,
            session_id: unit.session_id.clone(),
            attempt: unit.attempt,
            dispatch_time: unit.dispatch_time,
            start_time: unit.start_time,
            completion_time: unit.completion_time,
            cost_usd: unit.cost_usd,
            tokens: unit.tokens,
            turns: unit.turns,
            duration_ms: unit.duration_ms,
            retry_count: unit.retry_count,
            artifacts: unit.artifacts.clone(),
            error: unit.error.clone(),
            merge_status: unit.merge_status,
            merge_attempt_time: unit.merge_attempt_time,
            merge_commit: unit.merge_commit.clone(),
            merge_conflicts: unit.merge_conflicts.clone(),
            abandoned: unit.abandoned.clone(),
            writes: unit.writes.clone(),
            handoffs: unit.handoffs.clone(),
        }
    }
}

impl Session {
    fn of(unit: &Unit) -> Option<Self> {
        let at_rest = matches!(
            unit.state,
            Phase::Ready | Phase::Completed | Phase::Failed | Phase::Merged
        );
        Some(Self {
            instance_id: unit.id.clone(),
            agent_id: agent(unit),
            session_id: unit.session_id.clone()?,
            worktree_path: unit.worktree_path.clone(),
            state: unit.state.as_str().to_ascii_lowercase(),
            resumable: at_rest && unit.start_time.is_some(),
        })
    }
}

impl View {
    /// `units` are the latest units of their names, of any workflow.
    pub fn of(workflow: &Workflow, units: &[Unit]) -> Self {
        let own = |id: &UnitId| {
            let found = units.iter().find(|unit| unit.id == *id);
            found.filter(|unit| unit.workflow.as_ref() == Some(&workflow.id))
        };
        let known: Vec<&Unit> = workflow.units.iter().filter_map(own).collect();
        let (gone, here): (Vec<&Unit>, Vec<&Unit>) = known.iter().partition(|unit| unit.is_over());
        let pending = workflow.units.iter().filter(|id| own(id).is_none());
        let cost = known.iter().filter_map(|unit| unit.cost_usd);
        Self {
            orchestration: Orchestration {
                workflow_id: workflow.id.clone(),
                target_branch: workflow.target.clone(),
                status: workflow.status,
                created_at: workflow.created_at,
                ended_at: workflow.ended_at,
                cost_usd: Usd(cost.fold(0, |sum, one| sum.saturating_add(one.0))),
                tokens: known
                    .iter()
                    .fold(Tokens::default(), |sum, unit| sum.plus(unit.tokens)),
                instances: here.into_iter().map(Instance::of).collect(),
                finished: gone.into_iter().map(Instance::of).collect(),
                pending: pending.cloned().collect(),
            },
            session_registry: known.into_iter().filter_map(Session::of).collect(),
        }
    }

    /// Returns the content of the file.
    pub fn yaml(&self) -> io::Result<String> {
        let options = serde_saphyr::ser_options! {
            // Every text is written in one style, independent of its content.
            prefer_block_scalars: false,
        };
        let body = serde_saphyr::to_string_with_options(self, options).map_err(io::Error::other)?;
        Ok(format!(
            "# Written by jit from its log, whenever something changes. What is changed here is lost.\n{body}"
        ))
    }
}

/// Returns the path of a workflow's file.
pub fn path(control: &Path, id: &WorkflowId) -> PathBuf {
    plans::folder(control, id).join("ORCHESTRATION.yaml")
}

/// Updates the file. Returns whether it changed.
pub fn write(control: &Path, workflow: &Workflow, units: &[Unit]) -> io::Result<bool> {
    let goal = path(control, &workflow.id);
    let text = View::of(workflow, units).yaml()?;
    let old = match file::read_real(&goal, u64::MAX) {
        Ok(old) => old,
        // A link or folder at this path is not our file, and is replaced.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => None,
        Err(e) => return Err(e),
    };
    if old.as_deref() == Some(text.as_bytes()) {
        return Ok(false);
    }
    file::make_dir_like_parent(&control.join("workflows"))?;
    file::make_dir_like_parent(&plans::folder(control, &workflow.id))?;
    file::refresh(&goal, text.as_bytes())?;
    Ok(true)
}

#[cfg(test)]
mod tests;
