//! `jit init`: sets up jit in a repository.
//!
//! If the log is new, issues that are in `.jit/issues` already are adopted into it.
//!
//! What must hold: a second run changes nothing.

use jit_engine::api::Reply;
use jit_engine::api::init::SetUp;
use jit_engine::api::setup::{SetupReply, SetupRequest};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, unexpected};
use crate::render::{Style, clean_line};

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
    let answer = call.send(SetupRequest::Init { hooks: flags.hooks })?;
    let Reply::Setup(SetupReply::SetUp(done)) = &answer.reply else {
        return Err(unexpected());
    };
    let shown = call.done(&done.report, &[], |style| text(done, style));
    Ok(shown.warn(answer.warnings))
}

pub fn text(done: &SetUp, style: Style) -> String {
    let steps = &done.report.steps;
    let mut text: String = steps
        .iter()
        .map(|step| format!("  {}\n", clean_line(step)))
        .collect();
    if done.report.local_dir.as_deref() == Some(&done.report.control_dir) {
        text.push_str(&format!(
            "  there is no git here: jit keeps everything in {}\n",
            clean_line(&done.report.control_dir)
        ));
    }
    if !done.report.changed {
        text.push_str("jit is set up here already; nothing was changed.\n");
        return text;
    }
    if done.hooks_left {
        text.push_str(
            "  git hooks are left as they are; to let git ask jit before commits: jit hooks install\n",
        );
    }
    text.push_str(&format!(
        "{} jit is set up. Next: jit issue create \"what is to be done\"\n",
        style.good("✓")
    ));
    text
}
