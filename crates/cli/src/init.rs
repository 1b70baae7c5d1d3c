//! `jit init`: sets up jit in a repository.
//!
//! If the log is new, issues that are in `.jit/issues` already are adopted into it.
//!
//! What must hold: a second run changes nothing.

use jit_engine::context::Surroundings;
use jit_engine::worktree_identity::identity::Need;
use jit_engine::{hooks, init as setup};
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Running it again changes nothing. What it makes in the worktree (.jit/) is meant to be committed; \
    what all worktrees share stays in the git directory."
)]
pub struct Flags {
    /// Also install git hooks, as `jit hooks install` does
    #[arg(long)]
    hooks: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let options = call.options()?;
    let found = Surroundings::find(&options)?;
    let mut done = setup::init(&found, options.lock_timeout)?;
    let place = found.place.clone();
    if done.log_is_new {
        let (adopted, unsound) =
            jit_engine::issues::sync::join_tree(&jit_engine::opening::within(found, &options, Need::Write)?)?;
        if adopted > 0 {
            done.steps.push(format!("found {adopted} issues in .jit/issues"));
        }
        done.warnings
            .extend(unsound.into_iter().map(|what| format!("not an issue: {what}")));
    }
    let mut notes = String::new();
    if flags.hooks {
        let installed = hooks::git::install(&place, place.is_bare(), false)?;
        done.steps.extend(installed.steps);
        done.warnings.extend(installed.notes);
    } else if place.has_git() && !done.steps.is_empty() {
        notes =
            "  git hooks are left as they are; to let git ask jit before commits: jit hooks install\n".into();
    }
    let value = json!({
        "control_dir": place.control_dir.to_string_lossy(),
        "local_dir": place.local_jit.as_ref().map(|path| path.to_string_lossy()),
        "changed": !done.steps.is_empty(),
        "steps": done.steps,
    });
    let shown = call.done(&value, &[], |style| {
        let mut text: String = done
            .steps
            .iter()
            .map(|step| format!("  {}\n", clean_line(step)))
            .collect();
        if done.steps.is_empty() {
            text.push_str("jit is set up here already; nothing was changed.\n");
        } else {
            text.push_str(&notes);
            text.push_str(&format!(
                "{} jit is set up. Next: jit issue create \"what is to be done\"\n",
                style.good("✓")
            ));
        }
        text
    });
    Ok(shown.warn(done.warnings))
}
