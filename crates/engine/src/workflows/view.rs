//! `ORCHESTRATION.yaml`: a workflow for people and programs that read files (G11).
//!
//! What must hold:
//!
//! - it follows from the log alone: the same workflow and units give the same bytes, so it can be made again at any time;
//! - readers see a whole file, the old one or the new one; it is written only when something changed;
//! - only whoever leads the workflow writes it, and nobody here reads it;
//! - every text comes back as it was, from readers of YAML 1.1 and of 1.2.
//!
//! Format: `orchestration` with `workflow_id`, `target_branch`, `status`, times and `instances`: units from their making
//! until they are gone, in the plan's order. Those that are gone are in `finished` with the same fields, those that have not
//! begun in `pending`, by name. `session_registry` has each session that is known, and whether it can be gone on with.

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
    /// Of all units, those that are gone included.
    pub cost_usd: Usd,
    pub tokens: Tokens,
    pub instances: Vec<Instance>,
    pub finished: Vec<Instance>,
    pub pending: Vec<UnitId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    pub id: UnitId,
    /// Who works in it, or which kind of agent; null as long as nobody does.
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
    /// Where it may write; empty for anywhere in its worktree.
    pub writes: Vec<String>,
    /// What its agents were handed, and by whom.
    pub handoffs: Vec<Handed>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub instance_id: UnitId,
    pub agent_id: Option<String>,
    pub session_id: String,
    pub worktree_path: String,
    /// As the instance's, in small letters.
    pub state: String,
    /// It began, it is not at work now, and its worktree is still there.
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
    /// `units` are the last ones of their names, whichever workflow they belong to.
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

    /// As it stands in the file.
    pub fn yaml(&self) -> io::Result<String> {
        let options = serde_saphyr::ser_options! {
            // One way to write a text, whatever is in it.
            prefer_block_scalars: false,
        };
        let body = serde_saphyr::to_string_with_options(self, options).map_err(io::Error::other)?;
        Ok(format!(
            "# Written by jit from its log, whenever something changes. What is changed here is lost.\n{body}"
        ))
    }
}

/// Where a workflow's file is.
pub fn path(control: &Path, id: &WorkflowId) -> PathBuf {
    plans::folder(control, id).join("ORCHESTRATION.yaml")
}

/// Brings the file up to date. Says whether it was not.
pub fn write(control: &Path, workflow: &Workflow, units: &[Unit]) -> io::Result<bool> {
    let goal = path(control, &workflow.id);
    let text = View::of(workflow, units).yaml()?;
    let old = match file::read_real(&goal, u64::MAX) {
        Ok(old) => old,
        // Whatever lies in its place is no file of ours, and is replaced.
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
