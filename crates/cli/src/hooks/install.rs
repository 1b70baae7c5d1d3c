//! `jit hooks install`: installs the git hooks, or registers the hook of an agent's program.
//!
//! What must hold: without `--server`, a bare repository and a repository without jit are refused.

use jit_core::model::refusal::{Code, Refusal};
use jit_engine::context::{Surroundings, not_initialized};
use jit_engine::hooks;
use jit_engine::hooks::git::install::Installed;
use jit_store::Outcome;

use super::agent_settings::{self, AgentFlags};
use crate::invocation::{Invocation, Output};
use crate::render::{Style, clean_line};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "One installation serves every worktree. A hook that is there already is kept beside ours as \
    <hook>.before-jit and called first. Where core.hooksPath is relative (husky, .githooks) nothing is written into that \
    folder: core.hooksPath is pointed at jit's own hooks, which call those first. `jit hooks uninstall` puts everything \
    back.\n\nWith --agent it is the program's own settings that are changed, shown before they are written; without --user \
    the project's: commit them, and everybody who works here has the hook.\n\nExamples:\n  jit hooks install --dry-run\n  \
    jit hooks install\n  jit hooks install --agent claude\n  jit hooks install --server"
)]
pub struct Flags {
    #[command(flatten)]
    agent: AgentFlags,
    /// For a bare repository that is pushed to: pre-receive
    #[arg(long, conflicts_with = "agent")]
    server: bool,
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if let Some(program) = flags.agent.program() {
        return agent_settings::change(&flags.agent, program, flags.dry_run, true, call);
    }
    let found = Surroundings::find(&call.options()?)?;
    let place = &found.place;
    if place.has_git() && place.is_bare() && !flags.server {
        let message = "this is a bare repository: nobody commits here, but somebody may push";
        return Err(Box::new(
            Refusal::new(Code::Invalid, message).help("jit hooks install --server"),
        ));
    }
    let set_up =
        place.control_dir.is_dir() || place.local_jit.as_deref().is_some_and(std::path::Path::is_dir);
    if place.has_git() && !flags.server && !set_up {
        let mut refusal = not_initialized(place);
        refusal.help = vec!["jit init --hooks".into()];
        return Err(refusal);
    }
    let done = hooks::git::install(place, flags.server, flags.dry_run)?;
    let shown = call.show(&done, |style| match call.quiet() {
        true => String::new(),
        false => text(&done, style),
    });
    Ok(shown)
}

pub fn text(done: &Installed, style: Style) -> String {
    let mut text: String = done
        .steps
        .iter()
        .map(|step| format!("  {}\n", clean_line(step)))
        .collect();
    for note in &done.notes {
        text.push_str(&format!("{} {}\n", style.bold("!"), clean_line(note)));
    }
    let folder = clean_line(&done.folder);
    text.push_str(&match (done.dry_run, done.steps.is_empty()) {
        (_, true) => format!("The hooks are in {folder} already; nothing was changed.\n"),
        (true, false) => "That is what would be done.\n".to_owned(),
        (false, false) => format!("{} hooks are in {folder}\n", style.good("✓")),
    });
    text
}
