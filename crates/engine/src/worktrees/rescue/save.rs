//! Saves the contents of a worktree as objects under `refs/jit/rescue/<id>/`.
//!
//! What must hold:
//!
//! - All refs of an entry appear together, after everything they name is written and synced.
//! - Each attempt has its own id, so no ref is ever moved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jit_core::model::refusal::Code;
use jit_os::io_refusal;
use jit_store::Outcome;

use super::evidence::Evidence;
use super::raw::{self, Extra};
use super::site::Site;
use super::trash::Manifest;
use super::walk::{Found, Walk};
use crate::refusals::refuse;

/// Maximum number of parents of a commit; more of them go into a chain.
const MOST_PARENTS: usize = 500;
/// The file for the [`Extra`]s, one list for each raw tree.
pub const EXTRAS: &str = "extras.json";
pub const MANIFEST: &str = "manifest.json";

/// Returns whether a file of the worktree is kept: all files, except those in ignored folders that are not work.
fn is_kept(one: &Found, evidence: &Evidence) -> bool {
    let within = |folders: &[PathBuf]| folders.iter().any(|folder| one.path.starts_with(folder));
    !within(&evidence.ignored_folders) || within(&evidence.work_inside)
}

/// Writes objects and refs for all evidence, and records their names in the manifest.
pub fn save(
    site: &Site,
    evidence: &Evidence,
    walk: &Walk,
    admin: &Walk,
    scratch: &Path,
    manifest: &mut Manifest,
) -> Outcome<()> {
    let common = &site.common;
    let mut refs: BTreeMap<String, String> = BTreeMap::new();
    let mut extras: BTreeMap<&str, Vec<Extra>> = BTreeMap::new();
    if evidence.is_empty() {
        manifest.refs.clear();
        return Ok(());
    }
    if let Some(head) = &evidence.head {
        refs.insert("head".to_owned(), head.clone());
    }
    if let Some(tip) = evidence
        .branch_tip
        .as_ref()
        .filter(|tip| Some(*tip) != evidence.head.as_ref())
    {
        refs.insert("branch".to_owned(), tip.clone());
    }
    if let Some(kept) = keep_alive(common, evidence)? {
        refs.insert("kept".to_owned(), kept);
    }
    let message = |what: &str| format!("jit rescue {}: {what}", manifest.id);
    let parents: Vec<String> = evidence.head.iter().cloned().collect();
    if !evidence.files_are_safe() {
        let (plain, conflicts) = index_records(evidence);
        if !plain.is_empty() {
            let tree = raw::tree(common, scratch, plain)?;
            refs.insert(
                "index".to_owned(),
                raw::commit(common, &tree, &parents, &message("the index"))?,
            );
        }
        if !conflicts.is_empty() {
            let tree = raw::tree(common, scratch, conflicts)?;
            let commit = raw::commit(common, &tree, &parents, &message("the sides of conflicts"))?;
            refs.insert("conflicts".to_owned(), commit);
        }
        if site.root_is_there {
            let keep = |one: &Found| is_kept(one, evidence);
            let (tree, extra) = raw::write(common, scratch, &site.root, walk, &keep)?;
            refs.insert(
                "worktree".to_owned(),
                raw::commit(common, &tree, &parents, &message("the worktree, raw"))?,
            );
            extras.insert("worktree", extra);
        }
    }
    if let Some(folder) = &site.admin {
        let (tree, extra) = raw::write(common, scratch, folder, admin, &|_| true)?;
        refs.insert(
            "git-dir".to_owned(),
            raw::commit(common, &tree, &[], &message("the worktree's git folder"))?,
        );
        extras.insert("git-dir", extra);
    }
    manifest.refs = refs.clone();
    manifest.refs_complete = true;
    let entry = entry(common, scratch, manifest, &extras)?;
    refs.insert("entry".to_owned(), entry);
    sync(common)?;
    set(common, manifest, &refs)
}

/// The manifest as a commit, so that the refs can be understood without the trash.
fn entry(
    common: &Path,
    scratch: &Path,
    manifest: &Manifest,
    extras: &BTreeMap<&str, Vec<Extra>>,
) -> Outcome<String> {
    let json = |value: serde_json::Result<Vec<u8>>| value.map_err(|e| refuse(Code::Io, e));
    let mut records = Vec::new();
    for (name, content) in [
        (MANIFEST, json(serde_json::to_vec_pretty(manifest))?),
        (EXTRAS, json(serde_json::to_vec(extras))?),
    ] {
        let blob = raw::blob(common, common, content, true)?;
        records.extend_from_slice(format!("100644 {blob}\t{name}\0").as_bytes());
    }
    let tree = raw::tree(common, scratch, records)?;
    raw::commit(common, &tree, &[], &format!("jit rescue {}", manifest.id))
}

fn set(common: &Path, manifest: &Manifest, refs: &BTreeMap<String, String>) -> Outcome<()> {
    let mut lines = Vec::new();
    for (name, oid) in refs {
        let name = manifest.id.reference(name);
        lines.extend_from_slice(format!("update {name}\0{oid}\0\0").as_bytes());
    }
    raw::git(common, common)
        .args(["update-ref", "-z", "--stdin", "--no-deref"])
        .stdin(lines)
        .run()
        .map_err(|e| refuse(Code::Io, e))?;
    sync(common)
}

/// Ensures that all refs of the manifest exist, as far as their objects do.
pub fn complete(common: &Path, manifest: &Manifest) -> Outcome<()> {
    set(common, manifest, &manifest.refs)
}

/// Adds one more commit that was found after the rest was saved.
pub fn add(common: &Path, manifest: &mut Manifest, name: &str, oid: &str) -> Outcome<()> {
    set(
        common,
        manifest,
        &BTreeMap::from([(name.to_owned(), oid.to_owned())]),
    )?;
    manifest.refs.insert(name.to_owned(), oid.to_owned());
    Ok(())
}

/// Ensures that everything git wrote is on the disk: git itself does not wait for loose objects.
#[cfg(target_os = "linux")]
fn sync(common: &Path) -> Outcome<()> {
    let synced = std::fs::File::open(common).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
    synced.map_err(|e| io_refusal("sync", common, &e))
}

/// Starts writing everything to the disk. This variant was not run in our tests.
#[cfg(not(target_os = "linux"))]
fn sync(common: &Path) -> Outcome<()> {
    let _ = io_refusal;
    let _ = common;
    rustix::fs::sync();
    Ok(())
}

/// Makes one commit that references all commits and objects that nothing else references.
fn keep_alive(common: &Path, evidence: &Evidence) -> Outcome<Option<String>> {
    if evidence.loose.is_empty() {
        return Ok(None);
    }
    let ask: String = evidence.loose.iter().map(|name| format!("{name}\n")).collect();
    let kinds = raw::git(common, common)
        .args(["cat-file", "--batch-check=%(objectname) %(objecttype)"])
        .stdin(ask)
        .run()
        .map_err(|e| refuse(Code::Io, e))?;
    let kinds = String::from_utf8_lossy(&kinds).into_owned();
    let mut entries = Vec::new();
    let mut commits = Vec::new();
    for line in kinds.lines() {
        match line.split_once(' ') {
            Some((name, "commit")) => commits.push(name.to_owned()),
            Some((name, "tree")) => {
                entries.extend_from_slice(format!("040000 tree {name}\t{name}\0").as_bytes())
            }
            Some((name, "blob")) => {
                entries.extend_from_slice(format!("100644 blob {name}\t{name}\0").as_bytes())
            }
            _ => {}
        }
    }
    let tree = raw::git(common, common)
        .args(["mktree", "-z"])
        .stdin(entries)
        .line()
        .map_err(|e| refuse(Code::Io, e))?;
    let message = "jit rescue: what only a reflog or an unfinished operation knew";
    let mut last: Option<String> = None;
    // Even without any commit there may be objects.
    let groups: Vec<&[String]> = match commits.is_empty() {
        true => vec![&[]],
        false => commits.chunks(MOST_PARENTS).collect(),
    };
    for group in groups {
        let parents: Vec<String> = group.iter().cloned().chain(last.take()).collect();
        last = Some(raw::commit(common, &tree, &parents, message)?);
    }
    Ok(last)
}

/// The index as records for trees: the staged files, and the sides of conflicts below `1/`, `2/` and `3/`.
fn index_records(evidence: &Evidence) -> (Vec<u8>, Vec<u8>) {
    use std::os::unix::ffi::OsStrExt as _;
    let (mut plain, mut conflicts) = (Vec::new(), Vec::new());
    for one in &evidence.index {
        let (out, folder) = match one.stage {
            0 => (&mut plain, String::new()),
            stage => (&mut conflicts, format!("{stage}/")),
        };
        out.extend_from_slice(format!("{} {}\t{folder}", one.mode, one.oid).as_bytes());
        out.extend_from_slice(one.path.as_os_str().as_bytes());
        out.push(0);
    }
    for record in &evidence.undo {
        let Some(tab) = record.iter().position(|b| *b == b'\t') else {
            continue;
        };
        let head = raw::text(record.get(..tab).unwrap_or_default());
        if let [mode, oid, stage] = head.split_ascii_whitespace().collect::<Vec<_>>().as_slice() {
            conflicts.extend_from_slice(format!("{mode} {oid}\tresolved/{stage}/").as_bytes());
            conflicts.extend_from_slice(record.get(tab + 1..).unwrap_or_default());
            conflicts.push(0);
        }
    }
    (plain, conflicts)
}
