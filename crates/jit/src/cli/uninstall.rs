use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use jit_core::refusal::{Code, Refusal};
use jit_engine::app::Uninstall;
use jit_engine::store::Outcome;
use jit_engine::worktree::identity::Need;

use super::{Cx, Output, invalid};
use crate::render::{self, clean_line};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Removes the log and everything else that jit keeps in the git directory, its lines in git's \
    configuration and info/exclude, and what it wrote into worktrees and was never committed. Every issue is exported \
    first. What is committed stays, and so does anything that would be lost: it is named."
)]
pub struct Flags {
    /// Where to write the issues [default: jit-export-<time>.jsonl in the git directory]
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Remove .jit/ from this worktree although it is committed
    #[arg(long)]
    purge_tree: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let app = cx.app(Need::Write)?;
    app.may_uninstall()?;
    if !flags.yes {
        if cx.json() || !io::stdin().is_terminal() {
            let refusal = Refusal::new(Code::Invalid, "removing jit needs a yes").help("jit uninstall --yes");
            return Err(Box::new(refusal));
        }
        render::say(&format!(
            "This removes jit from {}. Every issue is exported first. Go on? [y/N]",
            clean_line(&app.place.control_dir.display().to_string())
        ));
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map_err(invalid)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(invalid("nothing was removed"));
        }
    }
    let done = app.uninstall(&Uninstall {
        export: flags.export,
        purge_tree: flags.purge_tree,
    })?;
    let shown = cx.show(&done, |style| {
        let mut text = String::new();
        if cx.quiet() {
            return text;
        }
        if let Some(file) = &done.export {
            text.push_str(&format!(
                "{} issues are in {}\n",
                done.issues,
                style.bold(&clean_line(file))
            ));
        }
        for one in &done.kept {
            let (path, why) = (clean_line(&one.path), clean_line(&one.why));
            text.push_str(&format!("Kept: {path} ({why})\n"));
        }
        text.push_str(&format!(
            "{} jit is removed from this repository.\n",
            style.good("✓")
        ));
        text
    });
    Ok(shown.warn(done.warnings))
}
