//! Consent of the user, before jit changes files of other programs.
//!
//! What must hold: without a yes, at the terminal or by `--yes`, nothing is written.

use std::io::{self, BufRead as _, IsTerminal as _};

use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

use crate::invocation::{Invocation, invalid};
use crate::render::{self, clean};

/// Shows the change and asks for consent. Without a terminal, or with --json, refuses and names `--yes`.
pub fn ask(change: &str, call: &Invocation) -> Outcome<()> {
    if call.json() || !io::stdin().is_terminal() {
        let refusal = Refusal::new(
            Code::Invalid,
            "changing the settings of another program needs a yes",
        );
        return Err(Box::new(refusal.help("add --yes; --dry-run shows the change")));
    }
    render::say(&clean(change));
    render::say("Write that? [y/N]");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(invalid)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(invalid("nothing was written")),
    }
}
