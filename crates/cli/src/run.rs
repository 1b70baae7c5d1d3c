//! `jit run`: starts a workflow from a plan, or from all issues that are ready, and coordinates it.
//!
//! What must hold: without --json and --quiet, the limits of each agent are printed before any agent is started.

use std::path::PathBuf;

use jit_engine::api::Reply;
use jit_engine::api::workflows::{PlanAsk, WorkflowReply, WorkflowRequest};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, unexpected};
use crate::render;
use crate::run_flags::RunFlags;
use crate::workflow::{follow, text};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Every unit gets a worktree and an agent; what passes lands on the target. Agents go on when this \
    command ends, and `jit workflow resume` goes on with the rest.\n\nExamples:\n  jit run plan.yaml\n  \
    jit run --ready --max 3 --budget 2\n  jit schema plan"
)]
pub struct Flags {
    /// The plan
    #[arg(required_unless_present = "ready", conflicts_with = "ready")]
    plan: Option<PathBuf>,
    /// Issues that are ready, best first
    #[arg(long)]
    ready: bool,
    /// So many agents at the same time
    #[arg(long, value_name = "N")]
    max: Option<u32>,
    /// So many issues at most, with --ready
    #[arg(long, value_name = "N", requires = "ready")]
    limit: Option<usize>,
    #[command(flatten)]
    run: RunFlags,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let ask = PlanAsk {
        file: flags.plan.map(Into::into),
        limit: flags.limit,
        max: flags.max,
        run: flags.run.settings()?,
    };
    let planned = match call.send_as("plan", WorkflowRequest::Plan(Box::new(ask)))?.reply {
        Reply::Workflows(WorkflowReply::Planned(planned)) => planned,
        _ => return Err(unexpected()),
    };
    if !call.json() && !call.quiet() {
        render::say(text::planned_text(&planned).trim_end());
    }
    if flags.dry_run {
        return Ok(call.show(&planned.plan, |_| String::new()));
    }
    let workflow = follow::sent(WorkflowRequest::Start(Box::new(planned.plan)), call)?;
    follow::lead(&workflow.id, call)
}
