//! `jit worktree logs`: shows the recorded output of an agent, and follows it with `--follow`.
//!
//! Commands that wait for an agent use `follow_to_the_end`.
//!
//! What must hold: without `--follow`, it writes nothing and starts nothing.

use std::ops::ControlFlow;

use jit_agents::event::EventLine;
use jit_core::model::time::Wall;
use jit_core::model::unit::{Phase, Unit};
use jit_engine::api::attempts::AttemptRequest;
use jit_engine::api::stream::{StreamEnd, StreamItem, Subscribe};
use jit_engine::api::units::{UnitReply, UnitRequest};
use jit_store::Outcome;
use serde_json::json;

use crate::exit::{BROKEN_PIPE, CHECK_FAILED};
use crate::invocation::{Invocation, Output, unexpected};
use crate::render::{self, clean_line};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "All that it printed is in the folder that --folder names.\n\nExamples:\n  jit worktree logs date-1 \
    --follow\n  jit worktree logs date-1 --attempt 1 --json"
)]
pub struct Flags {
    /// Unit, issue, branch or folder; that of this worktree if left out
    unit: Option<String>,
    /// Go on until the agent has ended
    #[arg(long, short)]
    follow: bool,
    /// Of an earlier attempt
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Only say where the files are
    #[arg(long)]
    folder: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if flags.folder {
        return call.ask(AttemptRequest::Folder {
            unit: flags.unit,
            attempt: flags.attempt,
        });
    }
    if flags.follow {
        // Starts a shim again that died before its agent: otherwise there is no end to wait for. If it is refused, the
        // lines are shown all the same.
        let _ = call.send(UnitRequest::Settle {
            unit: flags.unit.clone(),
            all: true,
        });
    }
    let log = Subscribe::AttemptLog {
        unit: flags.unit,
        attempt: flags.attempt,
        after: 0,
        follow: flags.follow,
    };
    if call.json() && !flags.follow {
        let mut events = Vec::new();
        call.subscribe(log, &mut |item| {
            if let StreamItem::AttemptLine(line) = item {
                events.push(line.line);
            }
            ControlFlow::Continue(())
        })?;
        return Ok(call.show(&json!({ "events": events }), |_| String::new()));
    }
    call.follow(log, &mut |item| match item {
        StreamItem::AttemptLine(line) => print(&line.line, call),
        _ => ControlFlow::Continue(()),
    })
}

/// Prints one line as JSON or as text.
fn print(line: &EventLine, call: &Invocation) -> ControlFlow<()> {
    let text = if call.json() {
        call.json_line(line)
    } else {
        let at = Wall::from_ms(line.at);
        format!("{at}  {}\n", clean_line(&line.said.for_people()))
    };
    render::pass_on(&text)
}

/// Follows the agent of a unit to its end, and shows the state of the unit. The exit code is 6 if the unit failed.
pub fn follow_to_the_end(named: Option<&str>, call: &Invocation) -> Outcome<Output> {
    let mut ended: Option<Unit> = None;
    let end = call.subscribe(
        Subscribe::AttemptEnd {
            unit: named.map(str::to_owned),
        },
        &mut |item| {
            match item {
                // With --json, standard output is for the one answer at the end.
                StreamItem::AttemptLine(line) if !call.json() && !call.quiet() => {
                    return print(&line.line, call);
                }
                StreamItem::Units(units) => {
                    if let UnitReply::Unit(view) = *units {
                        ended = Some(view.unit);
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        },
    )?;
    if end == StreamEnd::Stopped {
        return Ok(Output::nothing().exit(BROKEN_PIPE));
    }
    let unit = ended.ok_or_else(unexpected)?;
    let answer = call.send(UnitRequest::Status {
        unit: Some(unit.id.to_string()),
        all: true,
    })?;
    let shown = call
        .show(&answer.reply.value(), |style| call.text(&answer.reply, style))
        .warn(answer.warnings);
    Ok(match unit.state {
        Phase::Failed => shown.exit(CHECK_FAILED),
        _ => shown,
    })
}
