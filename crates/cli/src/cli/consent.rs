//! A yes before files of other programs are changed.

use std::io::{self, BufRead as _, IsTerminal as _};

use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

use super::{Cx, invalid};
use crate::render::{self, clean};

/// Shows the change and asks for it; where nobody can be asked, a yes on the command line is needed.
pub fn ask(change: &str, cx: &Cx) -> Outcome<()> {
    if cx.json() || !io::stdin().is_terminal() {
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
