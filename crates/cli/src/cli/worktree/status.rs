//! `jit worktree status`: shows one unit or all units, and repeats that with `--watch` when something changes.

use jit_engine::api::units::UnitRequest;
use std::io::IsTerminal as _;
use std::time::Duration;

use jit_engine::worktree_identity::identity::Need;
use jit_store::Outcome;

use crate::cli::{Cx, Output, text};
use crate::exit::BROKEN_PIPE;
use crate::render;

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

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    // Attempts that ended are recorded first, so that the units are shown as they are.
    let request = UnitRequest::Settle {
        unit: flags.unit,
        all: flags.all,
    };
    let app = cx.app(Need::Read)?;
    if !flags.watch {
        let answer = jit_engine::handle::handle(&app, request)?;
        let shown = cx.show(&answer.reply.value(), |style| text(&answer.reply, "", style));
        return Ok(shown.warn(answer.warnings));
    }
    let mut before = String::new();
    loop {
        let reply = jit_engine::handle::handle(&app, request.clone())?.reply;
        let now = match cx.json() {
            true => cx.json_line(&reply.value()),
            false => text(&reply, "", cx.style),
        };
        if now != before {
            // On a terminal the new text replaces the old one. Elsewhere each text is printed below the last one.
            let home = if !cx.json() && std::io::stdout().is_terminal() {
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
