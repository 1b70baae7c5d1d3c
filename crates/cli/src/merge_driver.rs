//! `jit merge-driver`: git calls it to merge issue files, gate definitions and gate results.
//!
//! What must hold: the exit code is 0 only if no conflict is left for a person.

use std::path::PathBuf;

use jit_engine::api::Reply;
use jit_engine::api::hooks::{HookReply, HookRequest, MergeFile, MergedFile};
use jit_store::Outcome;
use serde_json::json;

use crate::invocation::{Invocation, Output, unexpected};
use crate::render::{clean_line, say};

#[derive(Debug, clap::Args)]
pub struct Flags {
    base: PathBuf,
    ours: PathBuf,
    theirs: PathBuf,
    /// Where the file is in the repository, for messages
    path: Option<String>,
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let shown = flags.path.clone().unwrap_or_else(|| "an issue".to_owned());
    let merge = MergeFile {
        base: flags.base.into(),
        ours: flags.ours.into(),
        theirs: flags.theirs.into(),
        path: flags.path,
    };
    let answer = call.send(HookRequest::MergeFile(Box::new(merge)))?;
    let Reply::Hooks(HookReply::Merged(merged)) = &answer.reply else {
        return Err(unexpected());
    };
    if !merged.clean && !call.json() {
        report(merged, &shown);
    }
    let value = match merged.marked {
        Some(marked) => json!({ "conflicts": merged.conflicts, "marked": marked }),
        None => json!({ "conflicts": merged.conflicts }),
    };
    let shown = call.show(&value, |_| String::new()).warn(answer.warnings);
    Ok(shown.exit(u8::from(!merged.clean)))
}

/// Reports the conflicts that a person has to resolve.
fn report(merged: &MergedFile, path: &str) {
    match &merged.refused {
        None => say(&clean_line(&format!(
            "jit: {path}: both sides changed {}",
            merged.conflicts.join(", ")
        ))),
        Some(refused) => {
            say(&clean_line(&format!("jit: {}", refused.message)));
            refused
                .help
                .iter()
                .for_each(|help| say(&clean_line(&format!("  {help}"))));
        }
    }
}
