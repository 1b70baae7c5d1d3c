use std::path::PathBuf;

use jit_core::issue_file::MAX_FILE;
use jit_core::merge::{merge, render};
use jit_engine::os::file;
use jit_engine::store::Outcome;
use serde_json::{Map, Value, json};

use super::{Cx, Output, invalid};
use crate::render::{clean_line, say};

#[derive(Debug, clap::Args)]
pub struct Flags {
    base: PathBuf,
    ours: PathBuf,
    theirs: PathBuf,
    /// Where the file is in the repository, for messages
    path: Option<String>,
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let read = |path: &PathBuf| -> Outcome<Option<Map<String, Value>>> {
        let bytes = file::read_real(path, MAX_FILE).map_err(invalid)?;
        let bytes = bytes.ok_or_else(|| invalid(format!("{} is not there", path.display())))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            invalid(format!(
                "{} is not an issue: {e}",
                flags.path.as_deref().unwrap_or("the file")
            ))
        })
    };
    let (base, ours, theirs) = (read(&flags.base)?, read(&flags.ours)?, read(&flags.theirs)?);
    let merged = merge(
        base.as_ref(),
        &ours.unwrap_or_default(),
        &theirs.unwrap_or_default(),
    );
    let text = render(&merged);
    file::replace(&flags.ours, text.as_bytes()).map_err(invalid)?;
    if merged.conflicts.is_empty() {
        jit_engine::hooks::remember_merged(text.as_bytes());
    }
    let fields: Vec<&str> = merged
        .conflicts
        .iter()
        .map(|conflict| conflict.field.as_str())
        .collect();
    if !fields.is_empty() && !cx.json() {
        let path = flags.path.as_deref().unwrap_or("an issue");
        say(&clean_line(&format!(
            "jit: {path}: both sides changed {}",
            fields.join(", ")
        )));
    }
    let code = u8::from(!fields.is_empty());
    Ok(cx
        .show(&json!({ "conflicts": fields }), |_| String::new())
        .exit(code))
}
