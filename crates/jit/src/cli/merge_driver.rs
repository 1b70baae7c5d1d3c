use std::path::{Path, PathBuf};

use jit_core::exact;
use jit_core::issue_file::MAX_FILE;
use jit_core::merge::{merge, render};
use jit_core::refusal::{Code, Refusal};
use jit_engine::gates::Results;
use jit_engine::issues::lineage;
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

/// One side of a merge.
fn side(path: &Path) -> Outcome<Vec<u8>> {
    let bytes = file::read_real(path, MAX_FILE).map_err(invalid)?;
    bytes.ok_or_else(|| invalid(format!("{} is not there", path.display())))
}

pub fn run(flags: Flags, cx: &Cx) -> Outcome<Output> {
    let shown = flags.path.as_deref().unwrap_or("the file");
    if Results::is_path(Path::new(shown)) {
        let merged = Results::merge(Path::new(shown), &side(&flags.ours)?, &side(&flags.theirs)?)?;
        file::replace(&flags.ours, &merged).map_err(invalid)?;
        return Ok(cx.show(&json!({ "conflicts": [] }), |_| String::new()));
    }
    let read = |path: &PathBuf, name: &str| -> Outcome<Option<Map<String, Value>>> {
        let bytes = side(path)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let fields =
            serde_json::from_slice(&bytes).map_err(|e| invalid(format!("{shown} is not an issue: {e}")))?;
        // What would not be written as it was read is left to a person, with both sides as they are.
        exact::check(&bytes).map_err(|e| {
            let message = format!("{shown} is not merged, {name}: {e}");
            Box::new(Refusal::new(Code::Invalid, message).help(format!(
                "git checkout --ours -- {shown}, or --theirs; mend it, then: git add {shown}"
            )))
        })?;
        Ok(Some(fields))
    };
    let base = read(&flags.base, "what both sides began with")?;
    let (ours, theirs) = (read(&flags.ours, "our side")?, read(&flags.theirs, "their side")?);
    let (ours, theirs) = (ours.unwrap_or_default(), theirs.unwrap_or_default());
    let mut merged = merge(base.as_ref(), &ours, &theirs);
    lineage::settle(&mut merged, &ours, &theirs, shown);
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
