//! `jit run`: starts a workflow from a plan, or from all issues that are ready, and coordinates it.
//!
//! What must hold: without --json and --quiet, the limits of each agent are printed before any agent is started.

use jit_engine::api::issues::IssueReply;
use jit_engine::api::issues::IssueRequest;
use jit_engine::api::issues::Issues;
use std::collections::BTreeSet;
use std::path::PathBuf;

use jit_agents as agents;
use jit_core::model::ids::IssueId;
use jit_core::model::plan::{Plan, Settings};
use jit_core::model::refusal::{Code, Refusal};
use jit_engine::api::Reply;
use jit_engine::context::Context;
use jit_engine::plans;
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, unexpected};
use crate::render;
use crate::workflow::follow;
use crate::worktree::dispatch::{self, RunFlags};

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

fn plan(flags: &mut Flags, cx: &Context) -> Outcome<Plan> {
    let run = std::mem::take(&mut flags.run).settings()?;
    let mut plan = match &flags.plan {
        Some(path) => plans::load_for(
            path,
            &jit_engine::attempts::dispatch::run_settings(cx),
            agents::NAMES,
            &|plan| {
                // Options of this command override the settings of the plan.
                jit_engine::workflows::service::lacks(
                    cx,
                    &Plan {
                        run: run.over(&plan.run),
                        ..plan.clone()
                    },
                )
            },
        )?,
        None => {
            let ready = jit_engine::handle::handle(
                cx,
                IssueRequest::Ready {
                    filter: Default::default(),
                    limit: flags.limit,
                },
            )?;
            let Reply::Issues(IssueReply::Issues(Issues { issues })) = ready.reply else {
                return Err(unexpected());
            };
            if issues.is_empty() {
                return Err(Box::new(
                    Refusal::new(Code::NotFound, "nothing is ready to be worked on").help("jit blocked"),
                ));
            }
            let ids: Vec<IssueId> = issues.iter().map(|shown| shown.issue.id.issue_id()).collect();
            plans::from_ready(&ids, cx.config.dispatching().max_concurrent, Settings::default())
        }
    };
    plan.run = run.over(&plan.run);
    if let Some(max) = flags.max {
        plan.max_concurrent = max;
    }
    Ok(plan)
}

/// Returns the limits of each agent, to be printed before money is spent.
fn announce(plan: &Plan, cx: &Context) -> String {
    let config = jit_engine::attempts::dispatch::run_settings(cx);
    let mut out = format!(
        "{} units, {} agents at a time\n",
        plan.units.len(),
        plan.max_concurrent
    );
    for unit in &plan.units {
        let run = plan.settings(unit, &config);
        out.push_str(&format!("  {:<20}  {}\n", unit.id, dispatch::announce(&run)));
    }
    let all: BTreeSet<String> = plan
        .units
        .iter()
        .flat_map(|unit| jit_engine::attempts::dispatch::cautions(cx, &plan.settings(unit, &config)))
        .collect();
    for caution in all {
        out.push_str(&format!("  note: {}\n", render::clean_line(&caution)));
    }
    out
}

pub fn run(mut flags: Flags, call: &Invocation) -> Outcome<Output> {
    let cx = call.open(Need::Write)?;
    let plan = plan(&mut flags, &cx)?;
    if !call.json() && !call.quiet() {
        render::say(announce(&plan, &cx).trim_end());
    }
    if flags.dry_run {
        return Ok(call.show(&plan, |_| String::new()));
    }
    let workflow = jit_engine::workflows::service::start_workflow(&cx, &plan)?;
    follow::lead(&workflow.id, call, &cx)
}
