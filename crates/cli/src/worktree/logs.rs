//! `jit worktree logs`: shows the recorded output of an agent, and follows it with `--follow`.
//!
//! Commands that wait for an agent use `follow_to_the_end`.
//!
//! What must hold: the last lines of an attempt are not missed, even if it ends while they are read.

use jit_engine::api::units::UnitReply;
use jit_engine::api::units::UnitRequest;
use std::path::Path;
use std::time::Duration;

use jit_agents::event::EventLine;
use jit_agents::runner::attempt;
use jit_core::model::unit::{Phase, Unit};
use jit_engine::api::Reply;
use jit_engine::context::Context;
use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;

use crate::exit::{BROKEN_PIPE, CHECK_FAILED};
use crate::invocation::{Invocation, Output, invalid, unexpected};
use crate::render::{self, clean_line};
use crate::reply_text::text;

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

fn unit(cx: &Context, named: Option<&str>) -> Outcome<Unit> {
    let settle = UnitRequest::Settle {
        unit: Some(match named {
            Some(named) => named.to_owned(),
            None => jit_engine::units::service::unit_here(cx)?.to_string(),
        }),
        all: true,
    };
    match jit_engine::handle::handle(cx, settle)?.reply {
        Reply::Units(UnitReply::Unit(view)) => Ok(view.unit),
        _ => Err(unexpected()),
    }
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let cx = call.open(Need::Read)?;
    let unit = unit(&cx, flags.unit.as_deref())?;
    let folder =
        jit_engine::units::service::attempt_folder(&cx, &unit.id, flags.attempt.unwrap_or(unit.attempt));
    if !folder.is_dir() {
        return Err(Box::new(
            jit_core::model::refusal::Refusal::new(
                jit_core::model::refusal::Code::NotFound,
                format!("no agent was started in {}", unit.id),
            )
            .help(format!("jit worktree dispatch {}", unit.id)),
        ));
    }
    if flags.folder {
        let shown = folder.to_string_lossy().into_owned();
        return Ok(call.show(&serde_json::json!({ "folder": shown }), |_| format!("{shown}\n")));
    }
    if call.json() && !flags.follow {
        let mut events = Vec::new();
        each(&folder, false, &mut || Ok(()), &mut |line| {
            events.push(line);
            true
        })?;
        return Ok(call.show(&serde_json::json!({ "events": events }), |_| String::new()));
    }
    match each(&folder, flags.follow, &mut || Ok(()), &mut |line| {
        print(&line, call)
    })? {
        true => Ok(Output::nothing()),
        false => Ok(Output::nothing().exit(BROKEN_PIPE)),
    }
}

/// Prints one line as JSON or as text. Returns `false` if the reader has closed standard output.
fn print(line: &EventLine, call: &Invocation) -> bool {
    let text = if call.json() {
        call.json_line(line)
    } else {
        let at = jit_core::model::time::Wall::from_ms(line.at);
        format!("{at}  {}\n", clean_line(&line.said.for_people()))
    };
    matches!(render::print(&text), Ok(true))
}

/// Passes every recorded line to `take`. With `to_the_end`, also passes new lines until the attempt is over, and calls
/// `now_and_then` about every two seconds. Returns `false` if `take` stopped early.
fn each(
    folder: &Path,
    to_the_end: bool,
    now_and_then: &mut dyn FnMut() -> Outcome<()>,
    take: &mut dyn FnMut(EventLine) -> bool,
) -> Outcome<bool> {
    let mut from = 0;
    for round in 1_u32.. {
        // Checked before reading, so that the last lines are not missed.
        let over = !to_the_end || attempt::is_over(folder).map_err(invalid)?;
        loop {
            let (lines, next) = attempt::follow(folder, from).map_err(invalid)?;
            if next == from {
                break;
            }
            from = next;
            for line in lines {
                if !take(line) {
                    return Ok(false);
                }
            }
        }
        if over {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(100));
        if round % 20 == 0 {
            now_and_then()?;
        }
    }
    Ok(true)
}

/// Follows the agent of a unit to its end, and shows the state of the unit. The exit code is 6 if the unit failed.
pub fn follow_to_the_end(named: Option<&str>, call: &Invocation) -> Outcome<Output> {
    let cx = call.open(Need::Write)?;
    let mut unit = unit(&cx, named)?;
    // With --json, standard output is for the one answer at the end.
    let mut shown = |line: EventLine| call.json() || call.quiet() || print(&line, call);
    // Asking for the unit's status can restart a shim that died before it started its agent.
    let mut look = || self::unit(&cx, Some(unit.id.as_str())).map(drop);
    if !each(
        &jit_engine::units::service::attempt_folder(&cx, &unit.id, unit.attempt),
        true,
        &mut look,
        &mut shown,
    )? {
        return Ok(Output::nothing().exit(BROKEN_PIPE));
    }
    // Any process may record the end of the attempt. Another one may be doing it now, so this one retries.
    while matches!(unit.state, Phase::Dispatched | Phase::Running) {
        jit_engine::attempts::outcome::settle_unless_led(&cx, &unit.id)?;
        unit = self::unit(&cx, Some(unit.id.as_str()))?;
        if matches!(unit.state, Phase::Dispatched | Phase::Running) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let answer = jit_engine::handle::handle(
        &cx,
        UnitRequest::Status {
            unit: Some(unit.id.to_string()),
            all: true,
        },
    )?;
    let shown = call
        .show(&answer.reply.value(), |style| text(&answer.reply, "", style))
        .warn(answer.warnings);
    Ok(match unit.state {
        Phase::Failed => shown.exit(CHECK_FAILED),
        _ => shown,
    })
}
