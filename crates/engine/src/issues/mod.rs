//! Issues in files: the shared replica, and their projection into the caller's tree.
//!
//! # Format of an issue's folder, in the replica (`<control>/issues/<id>/`) and in a tree (`.jit/issues/<id>/`) alike
//!
//! - `issue.json`: the fields of which there is one each;
//! - `labels.or-set.jsonl`, `deps.or-set.jsonl`: sets as a log of additions and removals, one JSON object a line, each
//!   addition with a tag of its own, so that two branches merge by keeping the lines of both;
//! - `description.md`: the long text, when there is one.
//!
//! # Invariants
//!
//! - A folder of the replica appears whole or not at all: it is written and synced beside, then renamed.
//! - The replica has an issue before the log does; a folder that the log does not know is what a crash left behind, and
//!   is moved aside when its id is used again.

pub mod tree;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use jit_core::ids::{AgentId, IssueId, LeaseId};
use jit_core::issue::Issue;
use jit_core::time::Wall;

use crate::os::file;

/// Longest description, in bytes.
pub const MAX_DESCRIPTION: u64 = 4 << 20;

#[derive(Serialize)]
struct IssueFile<'a> {
    schema_version: u64,
    id: &'a IssueId,
    title: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    state: jit_core::issue::State,
    priority: jit_core::issue::Priority,
    parent: Option<&'a IssueId>,
    gates: &'a [String],
    created_at: Wall,
    created_by: &'a AgentId,
    updated_at: Wall,
    revision: u64,
}

#[derive(Serialize)]
struct SetLine<'a> {
    op: &'static str,
    value: &'a str,
    tag: LeaseId,
    agent_id: &'a AgentId,
    at: Wall,
}

/// The files of one issue: name and content.
pub type Files = Vec<(&'static str, Vec<u8>)>;

pub fn files(
    issue: &Issue,
    description: Option<&str>,
    by: &AgentId,
    entropy: &mut dyn FnMut() -> io::Result<u128>,
) -> io::Result<Files> {
    let mut main = serde_json::to_vec_pretty(&IssueFile {
        schema_version: 1,
        id: &issue.id,
        title: &issue.title,
        kind: &issue.kind,
        state: issue.state,
        priority: issue.priority,
        parent: issue.parent.as_ref(),
        gates: &issue.gates,
        created_at: issue.created_at,
        created_by: by,
        updated_at: issue.updated_at,
        revision: issue.revision,
    })?;
    main.push(b'\n');
    let mut set = |values: &mut dyn Iterator<Item = &str>| -> io::Result<Vec<u8>> {
        let mut lines = Vec::new();
        for value in values {
            let tag = LeaseId::generate(issue.created_at.ms(), entropy()?);
            let line = SetLine {
                op: "add",
                value,
                tag,
                agent_id: by,
                at: issue.created_at,
            };
            serde_json::to_writer(&mut lines, &line)?;
            lines.push(b'\n');
        }
        Ok(lines)
    };
    let mut files = vec![("issue.json", main)];
    let labels = set(&mut issue.labels.iter().map(String::as_str))?;
    if !labels.is_empty() {
        files.push(("labels.or-set.jsonl", labels));
    }
    let deps = set(&mut issue.depends_on.iter().map(IssueId::as_str))?;
    if !deps.is_empty() {
        files.push(("deps.or-set.jsonl", deps));
    }
    if let Some(text) = description.filter(|text| !text.is_empty()) {
        let mut text = text.as_bytes().to_vec();
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        files.push(("description.md", text));
    }
    Ok(files)
}

/// The replica of all issues.
#[derive(Debug, Clone)]
pub struct Replica {
    folder: PathBuf,
}

impl Replica {
    pub fn at(control_dir: &Path) -> Self {
        Self {
            folder: control_dir.join("issues"),
        }
    }

    pub fn folder(&self, id: &IssueId) -> PathBuf {
        self.folder.join(id.as_str())
    }

    /// Writes a whole new issue, durable when this returns.
    pub fn add(&self, id: &IssueId, files: &[(&'static str, Vec<u8>)], tag: &str) -> io::Result<()> {
        file::make_dir_like_parent(&self.folder)?;
        let beside = self.folder.join(format!(".new-{tag}"));
        file::make_dir_like_parent(&beside)?;
        let written = (|| {
            for (name, content) in files {
                let new = file::create_like_parent(&beside.join(name))?;
                io::Write::write_all(&mut &new, content)?;
                new.sync_all()?;
            }
            fs::File::open(&beside)?.sync_all()?;
            let place = self.folder(id);
            if place.symlink_metadata().is_ok() {
                // The log does not know this id, so a crash left this here between the rename and the append.
                fs::rename(&place, self.folder.join(format!(".orphan-{tag}")))?;
            }
            fs::rename(&beside, &place)?;
            fs::File::open(&self.folder)?.sync_all()
        })();
        if written.is_err() {
            let _ = fs::remove_dir_all(&beside);
        }
        written
    }

    /// The long text, if there is one.
    pub fn description(&self, id: &IssueId) -> io::Result<Option<String>> {
        let path = self.folder(id).join("description.md");
        match fs::File::open(&path) {
            Ok(file) => {
                let mut bytes = Vec::new();
                io::Read::read_to_end(&mut io::Read::take(file, MAX_DESCRIPTION), &mut bytes)?;
                Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Writes an issue's files into a tree.
pub fn project(tree_jit: &Path, id: &IssueId, files: &[(&'static str, Vec<u8>)]) -> io::Result<()> {
    let issues = tree_jit.join("issues");
    let folder = issues.join(id.as_str());
    for dir in [tree_jit, &issues, &folder] {
        file::ensure_real_dir(dir)?;
    }
    for (name, content) in files {
        file::replace_here(&folder.join(name), content)?;
    }
    Ok(())
}
