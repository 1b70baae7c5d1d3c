//! `jit uninstall`: exports every issue and removes jit from the repository.
//!
//! Without `--yes`, it asks first at a terminal. Scripts are not asked: every issue is exported first, and jit refuses to be
//! removed while it is in use.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;

use jit_engine::api::Reply;
use jit_engine::api::init::{MayUninstall, Uninstalled};
use jit_engine::api::setup::{SetupReply, SetupRequest};
use jit_store::Outcome;

use crate::invocation::{Invocation, Output, invalid, unexpected};
use crate::render::{self, Style, clean_line};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Removes the log and everything else that jit keeps in the git directory, its lines in git's \
    configuration and info/exclude, what it wrote into worktrees and was never committed, and what agents' programs were \
    told of it in this project; what they were told for all that you do is named, with the command to take it back. Every \
    issue is exported first, and in a file beside it what only the trees had about gates. What else is committed stays, and so does anything that would be lost: it is named."
)]
pub struct Flags {
    /// Where to write the issues [default: jit-export-TIME.jsonl in the git directory]
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Remove .jit/ from this worktree although it is committed
    #[arg(long)]
    purge_tree: bool,
    /// Do not ask; without a terminal nobody is asked
    #[arg(long, short)]
    yes: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    if !flags.yes && io::stdin().is_terminal() {
        ask_first(call)?;
    }
    let answer = call.send(SetupRequest::Uninstall {
        export: flags.export.map(Into::into),
        purge_tree: flags.purge_tree,
    })?;
    let Reply::Setup(SetupReply::Uninstalled(done)) = &answer.reply else {
        return Err(unexpected());
    };
    let shown = call.show(&done.report, |style| match call.quiet() {
        true => String::new(),
        false => text(done, style),
    });
    Ok(shown.warn(answer.warnings))
}

fn ask_first(call: &Invocation) -> Outcome<()> {
    let answer = call.send(SetupRequest::MayUninstall)?;
    let Reply::Setup(SetupReply::MayUninstall(MayUninstall { control_dir })) = &answer.reply else {
        return Err(unexpected());
    };
    render::say(&format!(
        "This removes jit from {}. Every issue is exported first. Go on? [y/N]",
        clean_line(control_dir)
    ));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(invalid)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(invalid("nothing was removed")),
    }
}

pub fn text(done: &Uninstalled, style: Style) -> String {
    let mut text = String::new();
    let report = &done.report;
    if let Some(file) = &report.export {
        text.push_str(&format!(
            "{} issues are in {}\n",
            report.issues,
            style.bold(&clean_line(file))
        ));
    }
    if let Some(file) = &report.gates {
        text.push_str(&format!(
            "Definitions and results of gates are in {}\n",
            style.bold(&clean_line(file))
        ));
    }
    for file in &done.commit {
        text.push_str(&format!("Changed, and to be committed: {}\n", clean_line(file)));
    }
    for one in &report.kept {
        let (path, why) = (clean_line(&one.path), clean_line(&one.why));
        text.push_str(&format!("Kept: {path} ({why})\n"));
    }
    text.push_str(&format!(
        "{} jit is removed from this repository.\n",
        style.good("✓")
    ));
    text
}
