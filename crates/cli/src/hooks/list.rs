//! `jit hooks list`: shows the state of each git hook.

use jit_engine::context::Surroundings;
use jit_engine::hooks;
use jit_engine::hooks::git::install::State;
use jit_store::Outcome;

use crate::invocation::{Invocation, Output};
use crate::render::{clean_line, table};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "installed: git runs it. missing: there is none. foreign: another program's is in its place. edited: \
    somebody changed jit's, or it cannot be executed. shadowed: jit's is there, but core.hooksPath leads elsewhere."
)]
pub struct Flags {}

pub fn run(_: Flags, call: &Invocation) -> Outcome<Output> {
    let found = Surroundings::find(&call.options()?)?;
    let survey = hooks::git::survey(&found.place, found.place.is_bare())?;
    Ok(call.show(&survey, |style| {
        let rows: Vec<Vec<String>> = survey
            .hooks
            .iter()
            .map(|hook| {
                let state = match hook.state {
                    State::Installed => style.good("installed"),
                    State::Edited => style.bold("edited"),
                    State::Foreign => style.bold("foreign"),
                    State::Shadowed => style.bad("shadowed"),
                    State::Missing => style.dim("missing"),
                };
                let first = hook
                    .calls_first
                    .as_deref()
                    .map_or(String::new(), |path| format!("after {}", clean_line(path)));
                vec![hook.name.to_owned(), state, first]
            })
            .collect();
        let mut text = format!("{}\n{}", clean_line(&survey.folder), table(&rows));
        for note in &survey.notes {
            text.push_str(&format!("{} {}\n", style.bold("!"), clean_line(note)));
        }
        text
    }))
}
