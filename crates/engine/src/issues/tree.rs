//! Reading issues from a tree: what a clone or a pull brought and the log here does not know yet.
//!
//! Everything found there is data from outside: a folder that is not a sound issue is named and left alone.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use serde::Deserialize;

use jit_core::ids::IssueId;
use jit_core::issue::{Issue, MAX_TITLE, Priority, State};
use jit_core::time::Wall;

use super::Files;

/// The names of an issue's files, and the most that is read of one.
const NAMES: [&str; 5] = [
    "issue.json",
    "labels.or-set.jsonl",
    "deps.or-set.jsonl",
    "comments.jsonl",
    "description.md",
];
const MAX_FILE: u64 = 4 << 20;

#[derive(Deserialize)]
struct IssueFile {
    id: IssueId,
    title: String,
    #[serde(rename = "type")]
    kind: String,
    state: State,
    priority: Priority,
    #[serde(default)]
    parent: Option<IssueId>,
    #[serde(default)]
    gates: Vec<String>,
    created_at: Wall,
    updated_at: Wall,
    revision: u64,
}

#[derive(Deserialize)]
struct SetLine {
    op: String,
    value: String,
    tag: String,
}

/// Sound issues with their files, and what was found to be unsound.
#[derive(Debug, Default)]
pub struct Found {
    pub issues: Vec<(Issue, Files)>,
    pub unsound: Vec<String>,
}

/// Reads the issues of a tree that `known` does not know.
pub fn read(tree_jit: &Path, known: &dyn Fn(&IssueId) -> bool) -> io::Result<Found> {
    let mut found = Found::default();
    let folder = tree_jit.join("issues");
    if !folder.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Ok(found);
    }
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        let id: Option<IssueId> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(id) = id.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir())) else {
            continue;
        };
        if known(&id) {
            continue;
        }
        match read_one(&entry.path(), &id) {
            Ok(issue) => found.issues.push(issue),
            Err(why) => found.unsound.push(format!("{}: {why}", entry.path().display())),
        }
    }
    found.issues.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    Ok(found)
}

fn read_one(folder: &Path, id: &IssueId) -> Result<(Issue, Files), String> {
    let mut files: Files = Vec::new();
    for name in NAMES {
        let path = folder.join(name);
        let Ok(meta) = path.symlink_metadata() else {
            continue;
        };
        if !meta.is_file() || meta.len() > MAX_FILE {
            return Err(format!("{name} is not a file of at most 4 MiB"));
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(&path).map_err(|e| e.to_string())?;
        file.take(MAX_FILE)
            .read_to_end(&mut bytes)
            .map_err(|e| e.to_string())?;
        files.push((name, bytes));
    }
    let content = |name: &str| {
        files
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, bytes)| bytes.as_slice())
    };
    let file: IssueFile = serde_json::from_slice(content("issue.json").ok_or("issue.json is missing")?)
        .map_err(|e| format!("issue.json: {e}"))?;
    if file.id != *id {
        return Err(format!("issue.json says it is {}", file.id));
    }
    if file.title.trim().is_empty() || file.title.len() > MAX_TITLE {
        return Err("issue.json: the title is empty or too long".into());
    }
    let labels = set(content("labels.or-set.jsonl").unwrap_or_default())?;
    let depends_on = set(content("deps.or-set.jsonl").unwrap_or_default())?
        .into_iter()
        .map(|value| value.parse::<IssueId>().map_err(|e| e.to_string()))
        .collect::<Result<Vec<_>, _>>()?;
    let issue = Issue {
        id: file.id,
        title: file.title,
        kind: file.kind,
        state: file.state,
        priority: file.priority,
        parent: file.parent,
        labels,
        depends_on,
        gates: file.gates,
        created_at: file.created_at,
        updated_at: file.updated_at,
        revision: file.revision,
        lives_in: None,
    };
    Ok((issue, files))
}

/// What an observed-remove set holds: each value of which some addition was not removed.
fn set(bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut added: BTreeMap<String, String> = BTreeMap::new();
    let mut removed = Vec::new();
    for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let line: SetLine = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        match line.op.as_str() {
            "add" => {
                added.insert(line.tag, line.value);
            }
            _ => removed.push(line.tag),
        }
    }
    for tag in removed {
        added.remove(&tag);
    }
    let mut values: Vec<String> = added.into_values().collect();
    values.sort();
    values.dedup();
    Ok(values)
}
