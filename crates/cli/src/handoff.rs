//! `jit handoff`: hands the work of a unit to another agent.
//!
//! With `--to`, an agent of another kind continues in the same unit. With `--to-unit`, the next agent of that unit gets
//! the handoff.

use jit_engine::api::attempts::{AttemptRequest, HandAsk};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::run_flags::RunFlags;
use crate::worktree::logs;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --to, the agent at work in the unit is ended, its work is kept, and one of another kind goes on in \
    the same worktree with the same claim. With --to-unit nobody is ended: the next agent of that unit is told, or its first \
    one, if it is a unit of a workflow that has not begun.\n\n\
    Examples:\n  jit handoff date-1 --to claude --note 'the parser is done, the tests are not'\n  \
    jit handoff parser --to-unit printer\n  jit handoff date-1 --to claude --print"
)]
pub struct Flags {
    /// Unit, issue, branch or folder whose work is handed on
    unit: String,
    /// The kind of agent that goes on
    #[arg(
        long,
        value_name = "KIND",
        required_unless_present = "to_unit",
        conflicts_with = "to_unit"
    )]
    to: Option<String>,
    /// The unit whose next agent is told
    #[arg(long, value_name = "UNIT")]
    to_unit: Option<String>,
    /// Further note for the next agent
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Show what would be handed on, and do nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    run: RunFlags,
    /// With --to: show what it does, until it has ended
    #[arg(long, short, conflicts_with_all = ["print", "to_unit"])]
    wait: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let run = match &flags.to {
        Some(kind) => flags.run.for_kind(kind)?,
        None => flags.run.settings()?,
    };
    let handed = call.ask(AttemptRequest::Handoff(Box::new(HandAsk {
        unit: flags.unit.clone(),
        to: flags.to,
        to_unit: flags.to_unit,
        note: flags.note,
        print: flags.print,
        run,
    })))?;
    match flags.wait {
        true => logs::follow_to_the_end(Some(&flags.unit), call),
        false => Ok(handed),
    }
}
