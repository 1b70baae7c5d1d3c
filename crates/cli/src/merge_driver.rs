//! `jit merge-driver`: git calls it to merge issue files, gate definitions and gate results.
//!
//! Issues are merged field by field, gates gate by gate. A file that cannot be merged that way is merged by lines, as git
//! merges any text.
//!
//! What must hold:
//! - The result replaces the file of our side.
//! - The exit code is 0 only if no conflict is left for a person.

use std::path::{Path, PathBuf};

use jit_core::issue_files::format::{MAX_FILE, agreed};
use jit_core::issue_files::merge::{merge, render};
use jit_core::issue_files::strict_json;
use jit_core::model::refusal::{Code, Refusal};
use jit_engine::gates::{Registry, Results};
use jit_engine::issues::lineage;
use jit_engine::worktree_identity::identity::Need;
use jit_git::Git;
use jit_os::file;
use jit_store::Outcome;
use serde_json::{Map, Value, json};

use crate::invocation::{Invocation, Output, invalid};
use crate::render::{clean_line, say};

#[derive(Debug, clap::Args)]
pub struct Flags {
    base: PathBuf,
    ours: PathBuf,
    theirs: PathBuf,
    /// Where the file is in the repository, for messages
    path: Option<String>,
}

/// Reads one side of a merge.
fn side(path: &Path) -> Outcome<Vec<u8>> {
    let bytes = file::read_real(path, MAX_FILE).map_err(invalid)?;
    bytes.ok_or_else(|| invalid(format!("{} is not there", path.display())))
}

pub fn run(flags: Flags, call: &Invocation) -> Outcome<Output> {
    let shown = flags.path.as_deref().unwrap_or("the file");
    let path = Path::new(shown);
    let (base, ours, theirs) = (side(&flags.base)?, side(&flags.ours)?, side(&flags.theirs)?);
    // git itself passes files with conflict markers (rerere, the base of several merges), and knows their result.
    let is_json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).is_ok();
    let has_markers = !is_json(&ours) || !is_json(&theirs);
    let is_results = Results::is_path(path);
    if is_results || Registry::is_path(path) {
        let merged = match is_results {
            true => Results::merge(path, &ours, &theirs),
            false => Registry::merge(path, &base, &ours, &theirs),
        };
        return match merged {
            Ok(merged) => {
                file::replace(&flags.ours, &merged).map_err(invalid)?;
                jit_engine::hooks::git::run::remember_merged(&merged);
                Ok(call.show(&json!({ "conflicts": [] }), |_| String::new()))
            }
            Err(refusal) => by_lines(&flags, call, refusal, has_markers),
        };
    }
    let fields = |bytes: &[u8], name: &str| read(shown, bytes, name);
    let sides = fields(&ours, "our side").and_then(|ours| Ok((ours, fields(&theirs, "their side")?)));
    let merged = sides.and_then(|(ours, theirs)| {
        let base = match fields(&base, "what both sides began with") {
            // The base has conflict markers: only fields outside them count. If that is no issue either, the base says
            // nothing about any field. Where the sides differ, a person decides.
            Err(_) if !is_json(&base) => Some(agreed(&base).unwrap_or_default()),
            base => base?,
        };
        let (ours, theirs) = (ours.unwrap_or_default(), theirs.unwrap_or_default());
        let mut merged = merge(base.as_ref(), &ours, &theirs);
        lineage::settle(&mut merged, base.as_ref(), &ours, &theirs, shown);
        if !merged.conflicts.is_empty()
            && let Ok(cx) = call.open(Need::Read)
        {
            lineage::settle_by_log(&mut merged, &ours, &theirs, &cx);
        }
        Ok(merged)
    });
    let merged = match merged {
        Ok(merged) => merged,
        Err(refusal) => return by_lines(&flags, call, refusal, has_markers),
    };
    let text = render(&merged);
    file::replace(&flags.ours, text.as_bytes()).map_err(invalid)?;
    if merged.conflicts.is_empty() {
        jit_engine::hooks::git::run::remember_merged(text.as_bytes());
    }
    let fields: Vec<&str> = merged
        .conflicts
        .iter()
        .map(|conflict| conflict.field.as_str())
        .collect();
    if !fields.is_empty() && !call.json() {
        let path = flags.path.as_deref().unwrap_or("an issue");
        say(&clean_line(&format!(
            "jit: {path}: both sides changed {}",
            fields.join(", ")
        )));
    }
    let code = u8::from(!fields.is_empty());
    Ok(call
        .show(&json!({ "conflicts": fields }), |_| String::new())
        .exit(code))
}

/// Returns the fields of one side, or `None` if the side has no file.
fn read(shown: &str, bytes: &[u8], name: &str) -> Outcome<Option<Map<String, Value>>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let fields =
        serde_json::from_slice(bytes).map_err(|e| invalid(format!("{shown} is not an issue: {e}")))?;
    // JSON that would not be written back as it was read is left to a person, with both sides unchanged.
    strict_json::check(bytes).map_err(|e| {
        let message = format!("{shown} is not merged, {name}: {e}");
        Box::new(Refusal::new(Code::Invalid, message).help(format!(
            "git checkout --ours -- {shown}, or --theirs; mend it, then: git add {shown}"
        )))
    })?;
    Ok(Some(fields))
}

/// Merges by lines, as git merges any text. `refusal` says why the content itself cannot be merged. Lines that both sides
/// changed get conflict markers, and a person decides. Without `may_settle`, a person also decides about a clean merge.
fn by_lines(flags: &Flags, call: &Invocation, refusal: Box<Refusal>, may_settle: bool) -> Outcome<Output> {
    let (code, _, _) = Git::at(".")
        .args([
            "merge-file",
            "-q",
            "-L",
            "ours",
            "-L",
            "base",
            "-L",
            "theirs",
            "--",
        ])
        .args([&flags.ours, &flags.base, &flags.theirs])
        .try_run()
        .map_err(invalid)?;
    let marked = match code {
        Some(marked @ 0..=127) => marked,
        _ => return Err(refusal),
    };
    let is_left = marked > 0 || !may_settle;
    if is_left && !call.json() {
        say(&clean_line(&format!("jit: {}", refusal.message)));
        refusal
            .help
            .iter()
            .for_each(|help| say(&clean_line(&format!("  {help}"))));
    }
    Ok(call
        .show(&json!({ "conflicts": [], "marked": marked }), |_| String::new())
        .exit(u8::from(is_left)))
}
