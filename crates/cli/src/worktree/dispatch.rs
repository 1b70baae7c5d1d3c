//! `jit worktree dispatch`: starts an agent in a unit.
//!
//! With `--wait` it follows the agent to its end.

use std::path::PathBuf;

use jit_engine::api::Reply;
use jit_engine::api::attempts::{Again, AttemptRequest, DispatchAsk};
use jit_engine::api::units::{UnitReply, UnitView};
use jit_store::Outcome;

use super::logs;
use crate::invocation::{Invocation, Output};
use crate::render::{self, clean_line};
use crate::run_flags::RunFlags;

/// Returns a note on the settings that come from the last attempt or from the plan.
pub fn as_before(view: &UnitView) -> Option<String> {
    (!view.as_before.is_empty()).then(|| format!("as before: {}", view.as_before.join(", ")))
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The agent works in the unit's worktree, watched by a process of its own: it goes on when this command \
    ends. What it says can be read with `jit worktree logs`. What is not said here is as the last attempt or the plan had it: \
    agent, program, prompt, limits.\n\nExamples:\n  jit worktree dispatch date-1\n  \
    jit worktree dispatch date-1 --budget 2 --timeout 30m --wait\n  \
    jit worktree dispatch date-1 --command my-agent --flag"
)]
pub struct Flags {
    /// Unit, issue, branch or folder; that of this worktree if left out
    unit: Option<String>,
    /// Text for the agent, in addition to the issue
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// A template for what it is told
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    #[command(flatten)]
    run: RunFlags,
    /// Where it may write, a path or a glob; may be repeated. As before, when not given
    #[arg(long, value_name = "GLOB")]
    writes: Vec<String>,
    /// Go on with the session of the last attempt
    #[arg(long, conflicts_with = "fork")]
    resume: bool,
    /// Begin a new session from that of the last attempt
    #[arg(long)]
    fork: bool,
    /// Also on an account that is parked
    #[arg(long)]
    force: bool,
    /// Show what it does, until it has ended
    #[arg(long, short)]
    wait: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let again = match (flags.resume, flags.fork) {
        (true, _) => Again::Resume,
        (_, true) => Again::Fork,
        _ => Again::Fresh,
    };
    let request = AttemptRequest::Dispatch(Box::new(DispatchAsk {
        unit: flags.unit.clone(),
        run: flags.run.settings()?,
        prompt: flags.prompt,
        prompt_file: flags.prompt_file.map(Into::into),
        again,
        writes: Some(flags.writes).filter(|writes| !writes.is_empty()),
        force: flags.force,
        ..DispatchAsk::default()
    }));
    if !flags.wait {
        return call.ask(request);
    }
    // The notes are printed while the agent works, not after its end. With --json there is one answer, at the end.
    let started = call.send(request)?;
    if call.json() {
        return Ok(logs::follow_to_the_end(flags.unit.as_deref(), call)?.warn(started.warnings));
    }
    let mut notes = started.warnings;
    if let Reply::Units(UnitReply::Unit(view)) = &started.reply {
        notes.extend(as_before(view));
    }
    for note in notes.iter().filter(|_| !call.quiet()) {
        render::say(&format!("note: {}", clean_line(note)));
    }
    logs::follow_to_the_end(flags.unit.as_deref(), call)
}
