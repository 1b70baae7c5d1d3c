//! `jit worktree status`: shows one unit or all units, and repeats that with `--watch` when something changes.

use std::io::IsTerminal as _;
use std::ops::ControlFlow;

use jit_engine::api::stream::{StreamItem, Subscribe};
use jit_engine::api::units::UnitRequest;
use jit_engine::api::{Answer, Reply};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::render;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// By its name, issue, branch or path; all of them when not given
    unit: Option<String>,
    /// Those that are over too
    #[arg(long)]
    all: bool,
    /// Go on showing how they stand
    #[arg(long, short)]
    watch: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if flags.watch {
        return watch(flags, call);
    }
    let answer = status(flags, call)?;
    let shown = call.show(&answer.reply.value(), |style| call.text(&answer.reply, style));
    Ok(shown.warn(answer.warnings))
}

/// Returns the units as they are: attempts that ended are recorded first. Where no agent is at work, nothing is written.
fn status(flags: Flags, call: &Invocation) -> Outcome<Answer> {
    let Flags { unit, all, .. } = flags;
    let answer = call.send(UnitRequest::Status {
        unit: unit.clone(),
        all,
    })?;
    match &answer.reply {
        Reply::Units(units) if units.has_agent_at_work() => {
            // Recording comes second: if it is refused, the units are shown as they were found.
            Ok(call.send(UnitRequest::Settle { unit, all }).unwrap_or(answer))
        }
        _ => Ok(answer),
    }
}

fn watch(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let mut before = String::new();
    call.follow(
        Subscribe::Units {
            unit: flags.unit,
            all: flags.all,
            settle: true,
        },
        &mut |item| {
            let StreamItem::Units(units) = item else {
                return ControlFlow::Continue(());
            };
            let reply = Reply::Units(*units);
            let now = match call.json() {
                true => call.json_line(&reply.value()),
                false => call.text(&reply, call.style),
            };
            if now == before {
                return ControlFlow::Continue(());
            }
            // On a terminal the new text replaces the old one. Elsewhere each text is printed below the last one.
            let home = if !call.json() && std::io::stdout().is_terminal() {
                "\x1b[H\x1b[2J"
            } else {
                ""
            };
            before = now;
            render::pass_on(&format!("{home}{before}"))
        },
    )
}
