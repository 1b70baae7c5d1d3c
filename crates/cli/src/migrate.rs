//! `jit migrate`: converts a registry of sessions or locks from version 2.0.0 to 3.0.0.
//!
//! What must hold:
//! - The old content is kept in a backup file.
//! - Entries of version 3.0.0 stay unchanged.
//! - The exit code is 6 if an entry cannot be migrated.

use std::path::PathBuf;

use jit_engine::compat::registry;
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output};
use crate::render::clean_line;

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
    let report = registry::migrate(&flags.file, &crate::schema::agent_types(call), flags.dry_run)?;
    let out = &report.outcome;
    let about = |all: &[(String, String)], name: &str| -> Vec<_> {
        all.iter()
            .map(|(path, text)| json!({ "path": path, name: text }))
            .collect()
    };
    let value = json!({
        "file": flags.file,
        "changed": out.text.is_some(),
        "dry_run": flags.dry_run,
        "backup": report.backup,
        "migrated": out.migrated,
        "untouched": out.untouched,
        "notes": about(&out.notes, "note"),
        "problems": about(&out.problems, "problem"),
    });
    // The report of a dry run, and any problem, is the answer. --quiet does not hide it.
    let quiet = call.quiet() && !flags.dry_run && out.problems.is_empty();
    let shown = call.show(&value, |style| {
        if quiet {
            return String::new();
        }
        let would = if flags.dry_run { "would be " } else { "" };
        let mut text = format!(
            "{} entries {would}migrated, {} of version 3.0.0 already\n",
            out.migrated.len(),
            out.untouched
        );
        if let Some(backup) = &report.backup {
            let backup = backup.display().to_string();
            text.push_str(&format!("the old content is in {}\n", clean_line(&backup)));
        }
        for (path, note) in &out.notes {
            text.push_str(&format!("{} {}: {note}\n", style.bold("!"), clean_line(path)));
        }
        for (path, problem) in &out.problems {
            text.push_str(&format!(
                "{} {}: not migrated: {}\n",
                style.bad("✗"),
                clean_line(path),
                clean_line(problem)
            ));
        }
        text
    });
    Ok(shown.exit(if out.problems.is_empty() { 0 } else { 6 }))
}
