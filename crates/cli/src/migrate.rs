//! `jit migrate`: converts a registry of sessions or locks from version 2.0.0 to 3.0.0.
//!
//! What must hold:
//! - The old content is kept in a backup file.
//! - Entries of version 3.0.0 stay unchanged.
//! - The exit code is 6 if an entry cannot be migrated.

use std::path::PathBuf;

use jit_engine::api::Reply;
use jit_engine::api::doctor::{DoctorReply, DoctorRequest, MigratedFile};
use jit_store::Outcome;

use crate::exit::CHECK_FAILED;
use crate::invocation::{Invocation, Output, unexpected};
use crate::render::{Style, clean_line};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Brings agent_sessions.json and agent_lock.json from version 2.0.0 to 3.0.0. Entries of the new version \
                  stay as they are. The old content is kept as FILE.v2.bak.\n\nExamples:\n  \
                  jit migrate _state/agent_sessions.json --dry-run"
)]
pub struct Flags {
    /// The registry
    file: PathBuf,
    /// Say what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let answer = call.send(DoctorRequest::Migrate {
        file: flags.file.into(),
        dry_run: flags.dry_run,
    })?;
    let Reply::Doctor(DoctorReply::Migrated(done)) = &answer.reply else {
        return Err(unexpected());
    };
    // The report of a dry run, and any problem, is the answer. --quiet does not hide it.
    let quiet = call.quiet() && !done.dry_run && done.problems.is_empty();
    let shown = call.show(done, |style| match quiet {
        true => String::new(),
        false => text(done, style),
    });
    let shown = shown.warn(answer.warnings);
    Ok(shown.exit(if done.problems.is_empty() { 0 } else { CHECK_FAILED }))
}

pub fn text(done: &MigratedFile, style: Style) -> String {
    let would = if done.dry_run { "would be " } else { "" };
    let mut text = format!(
        "{} entries {would}migrated, {} of version 3.0.0 already\n",
        done.migrated.len(),
        done.untouched
    );
    if let Some(backup) = &done.backup {
        let backup = backup.as_path().display().to_string();
        text.push_str(&format!("the old content is in {}\n", clean_line(&backup)));
    }
    for one in &done.notes {
        let path = clean_line(&one.path);
        text.push_str(&format!("{} {path}: {}\n", style.bold("!"), one.note));
    }
    for one in &done.problems {
        text.push_str(&format!(
            "{} {}: not migrated: {}\n",
            style.bad("✗"),
            clean_line(&one.path),
            clean_line(&one.problem)
        ));
    }
    text
}
