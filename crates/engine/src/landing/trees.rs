//! Git tree objects: the differences between two trees, and a tree with some entries replaced.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use jit_core::model::refusal::{Code, Refusal};
use jit_git::Git;
use jit_git::objects::{Entry, TREE};
use jit_git::snapshot::Folder;
use jit_store::Outcome;

use super::Repo;
use crate::refusals::failed;

/// The mode that git prints for a missing entry.
pub const NOTHING: &str = "000000";

/// One path that differs.
#[derive(Debug)]
pub struct Change {
    pub path: PathBuf,
    /// Mode and object.
    pub old: (String, String),
    pub new: (String, String),
}

/// Lists the paths that differ between two commits.
pub fn changes(git: Git, old: &str, new: &str) -> Outcome<Vec<Change>> {
    let listed = git
        .args(["diff-tree", "-r", "-z", "--no-renames", old, new, "--"])
        .run()
        .map_err(failed)?;
    let mut found = Vec::new();
    let mut records = listed.split(|b| *b == 0);
    while let (Some(head), Some(path)) = (records.next(), records.next()) {
        let head = String::from_utf8_lossy(head);
        let words: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        if let [old_mode, new_mode, old, new, _] = words.as_slice() {
            let own = |mode: &str, object: &str| (mode.to_owned(), object.to_owned());
            found.push(Change {
                path: PathBuf::from(OsStr::from_bytes(path)),
                old: own(old_mode, old),
                new: own(new_mode, new),
            });
        }
    }
    Ok(found)
}

/// Mode and object by path; `None` removes the entry.
pub type Entries = BTreeMap<Vec<u8>, Option<(String, String)>>;

/// Writes a tree that equals `tree` except for these entries, and returns its id.
pub(crate) fn tree_with(repo: &Repo, tree: &str, entries: &Entries) -> Outcome<String> {
    let edits: Vec<Edit<'_>> = entries
        .iter()
        .map(|(path, entry)| (path.as_slice(), entry))
        .collect();
    match edited(repo, &format!("{tree}^{{tree}}"), &edits) {
        Some(written) => Ok(written),
        None => tree_by_index(repo, tree, entries),
    }
}

/// A path below a tree, and its entry; `None` removes it.
type Edit<'a> = (&'a [u8], &'a Option<(String, String)>);

/// Writes a tree with these edits, folder by folder. `None` where more than plain files in present folders changes.
fn edited(repo: &Repo, tree: &str, edits: &[Edit<'_>]) -> Option<String> {
    let mut listed = repo.entries(tree)?;
    let mut by_name: BTreeMap<&[u8], Vec<Edit<'_>>> = BTreeMap::new();
    for (path, entry) in edits {
        let end = path.iter().position(|b| *b == b'/').unwrap_or(path.len());
        let (name, rest) = path.split_at(end);
        by_name.entry(name).or_default().push((rest, entry));
    }
    for (name, below) in by_name {
        let place = listed.iter().position(|one| one.name == name);
        match below.as_slice() {
            [([], entry)] => {
                let present = place.and_then(|n| listed.get(n));
                if present.is_some_and(|one| one.mode == TREE) {
                    return None;
                }
                listed.retain(|one| one.name != name);
                if let Some((mode, id)) = entry {
                    listed.push(Entry {
                        mode: mode.clone(),
                        name: name.to_owned(),
                        id: id.clone(),
                    });
                }
            }
            below => {
                let folder = listed.get_mut(place?).filter(|one| one.mode == TREE)?;
                let inside: Option<Vec<Edit<'_>>> = below
                    .iter()
                    .map(|(rest, entry)| Some((rest.strip_prefix(b"/")?, *entry)))
                    .collect();
                folder.id = edited(repo, &folder.id, &inside?)?;
            }
        }
    }
    // Git has no empty folders.
    (!listed.is_empty()).then(|| repo.write_tree(&listed))?
}

fn tree_by_index(repo: &Repo, tree: &str, entries: &Entries) -> Outcome<String> {
    let folder = Folder::make(repo.scratch()).map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
    let index = folder.path.join("index");
    let git = || repo.git().env("GIT_INDEX_FILE", &index);
    git().args(["read-tree", tree]).run().map_err(failed)?;
    let mut lines = Vec::new();
    for (path, entry) in entries {
        let head = match entry {
            Some((mode, object)) => format!("{mode} {object} 0\t"),
            None => format!("0 {} 0\t", "0".repeat(tree.len())),
        };
        lines.extend(head.as_bytes());
        lines.extend(path);
        lines.push(0);
    }
    git()
        .args(["update-index", "-z", "--index-info"])
        .stdin(lines)
        .run()
        .map_err(failed)?;
    git().arg("write-tree").line().map_err(failed)
}
