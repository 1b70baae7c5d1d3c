//! The merge driver: git calls it to merge issue files, gate definitions and gate results.
//!
//! Issues are merged field by field, gates gate by gate. A file that cannot be merged that way is merged by lines, as git
//! merges any text.
//!
//! What must hold: the result replaces the file of our side, and it is clean only if no conflict is left for a person.

use std::path::Path;

use jit_core::issue_files::format::{MAX_FILE, agreed};
use jit_core::issue_files::merge::{Fields, merge, render};
use jit_core::issue_files::strict_json;
use jit_core::model::refusal::{Code, Refusal};
use jit_git::Git;
use jit_os::file;
use jit_store::Outcome;
use serde_json::Value;

use crate::api::Options;
use crate::api::hooks::{MergeFile, MergedFile, RefusedMerge};
use crate::api::path::ApiPath;
use crate::gates::{Registry, Results};
use crate::hooks::git::run::remember_merged;
use crate::issues::lineage;
use crate::refusals::refuse;
use crate::worktree_identity::identity::Need;

fn invalid(e: impl ToString) -> Box<Refusal> {
    refuse(Code::Invalid, e)
}

/// The content of the three files.
struct Sides {
    base: Vec<u8>,
    ours: Vec<u8>,
    theirs: Vec<u8>,
}

/// Merges one file.
pub fn merge_file(options: &Options, request: &MergeFile) -> Outcome<MergedFile> {
    let shown = request.path.as_deref().unwrap_or("the file");
    let path = Path::new(shown);
    let sides = Sides {
        base: side(&request.base)?,
        ours: side(&request.ours)?,
        theirs: side(&request.theirs)?,
    };
    let merged = if Results::is_path(path) {
        let merged = Results::merge(path, &sides.ours, &sides.theirs);
        merged.map(|merged| (merged, Vec::new()))
    } else if Registry::is_path(path) {
        let merged = Registry::merge(path, &sides.base, &sides.ours, &sides.theirs);
        merged.map(|merged| (merged, Vec::new()))
    } else {
        merge_issue(options, shown, &sides)
    };
    match merged {
        Ok((merged, conflicts)) => {
            file::replace(request.ours.as_path(), &merged).map_err(invalid)?;
            let clean = conflicts.is_empty();
            if clean {
                remember_merged(&merged);
            }
            Ok(MergedFile {
                clean,
                conflicts,
                marked: None,
                refused: None,
            })
        }
        // git itself passes files with conflict markers (rerere, the base of several merges), and knows their result.
        Err(refusal) => by_lines(
            request,
            *refusal,
            !is_json(&sides.ours) || !is_json(&sides.theirs),
        ),
    }
}

/// Reads one side of a merge.
fn side(path: &ApiPath) -> Outcome<Vec<u8>> {
    let path = path.as_path();
    let bytes = file::read_real(path, MAX_FILE).map_err(invalid)?;
    bytes.ok_or_else(|| invalid(format!("{} is not there", path.display())))
}

fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok()
}

/// Merges an issue field by field. Returns its file and the fields that both sides changed.
fn merge_issue(options: &Options, shown: &str, sides: &Sides) -> Outcome<(Vec<u8>, Vec<String>)> {
    let ours = fields(shown, &sides.ours, "our side")?;
    let theirs = fields(shown, &sides.theirs, "their side")?;
    let base = match fields(shown, &sides.base, "what both sides began with") {
        // The base has conflict markers: only fields outside them count. If that is no issue either, the base says
        // nothing about any field. Where the sides differ, a person decides.
        Err(_) if !is_json(&sides.base) => Some(agreed(&sides.base).unwrap_or_default()),
        base => base?,
    };
    let (ours, theirs) = (ours.unwrap_or_default(), theirs.unwrap_or_default());
    let mut merged = merge(base.as_ref(), &ours, &theirs);
    lineage::settle(&mut merged, base.as_ref(), &ours, &theirs, shown);
    if !merged.conflicts.is_empty()
        && let Ok(cx) = crate::opening::open(options, Need::Read)
    {
        lineage::settle_by_log(&mut merged, &ours, &theirs, &cx);
    }
    let text = render(&merged);
    let conflicts = merged
        .conflicts
        .iter()
        .map(|conflict| conflict.field.as_str().to_owned());
    Ok((text.into_bytes(), conflicts.collect()))
}

/// Returns the fields of one side, or `None` if the side has no file.
fn fields(shown: &str, bytes: &[u8], name: &str) -> Outcome<Option<Fields>> {
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
fn by_lines(request: &MergeFile, refusal: Refusal, may_settle: bool) -> Outcome<MergedFile> {
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
        .args([&request.ours, &request.base, &request.theirs].map(ApiPath::as_os_str))
        .try_run()
        .map_err(invalid)?;
    let marked = match code {
        Some(marked @ 0..=127) => marked,
        _ => return Err(Box::new(refusal)),
    };
    Ok(MergedFile {
        clean: marked == 0 && may_settle,
        conflicts: Vec::new(),
        marked: Some(marked),
        refused: Some(RefusedMerge {
            message: refusal.message,
            help: refusal.help,
        }),
    })
}
