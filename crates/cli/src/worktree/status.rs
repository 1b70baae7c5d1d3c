//! `jit worktree status`: shows one unit or all units, and repeats that with `--watch` when something changes.

use jit_engine::api::units::UnitRequest;
use std::io::IsTerminal as _;
use std::time::Duration;

use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;

use crate::exit::BROKEN_PIPE;
use crate::invocation::{Invocation, Output};
use crate::render;
use crate::reply_text::text;

/// Time between two polls.
const LOOK: Duration = Duration::from_millis(500);

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
    // Attempts that ended are recorded first, so that the units are shown as they are.
    let request = UnitRequest::Settle {
        unit: flags.unit,
        all: flags.all,
    };
    let cx = call.open(Need::Read)?;
    if !flags.watch {
        let answer = jit_engine::handle::handle(&cx, request)?;
        let shown = call.show(&answer.reply.value(), |style| text(&answer.reply, "", style));
        return Ok(shown.warn(answer.warnings));
    }
    let mut before = String::new();
    loop {
        let reply = jit_engine::handle::handle(&cx, request.clone())?.reply;
        let now = match call.json() {
            true => call.json_line(&reply.value()),
            false => text(&reply, "", call.style),
        };
        if now != before {
            // On a terminal the new text replaces the old one. Elsewhere each text is printed below the last one.
            let home = if !call.json() && std::io::stdout().is_terminal() {
                "\x1b[H\x1b[2J"
            } else {
                ""
            };
            if !matches!(render::print(&format!("{home}{now}")), Ok(true)) {
                return Ok(Output::nothing().exit(BROKEN_PIPE));
            }
            before = now;
        }
        std::thread::sleep(LOOK);
    }
}
