//! Reads issues from a tree, as a clone, a pull, a merge or an editor left them.
//!
//! All of this is untrusted data. A folder that is not a valid issue is reported and left alone. Links are not
//! followed, and nothing larger than an issue can be is read.

use std::path::{Path, PathBuf};
use std::{fs, io};

use jit_core::issue_files::format::{
    self, COMMENTS, DEPS, DESCRIPTION, FoundIssue, ISSUE, IssueFileProblem, IssueFolder, LABELS,
    MAX_DESCRIPTION, MAX_FILE, parse,
};
use jit_core::model::ids::IssueId;
use jit_os::file;

/// A problem with a file in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsound {
    pub path: PathBuf,
    /// Counted from 1; 0 if the problem concerns the whole file.
    pub line: usize,
    pub what: String,
}

impl std::fmt::Display for Unsound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.what),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.what),
        }
    }
}

/// Returns the folder of issues in a tree; `None` if it is missing or is not a folder.
pub fn issues_dir(tree_jit: &Path) -> Option<PathBuf> {
    let folder = tree_jit.join("issues");
    folder
        .symlink_metadata()
        .is_ok_and(|meta| meta.is_dir())
        .then_some(folder)
}

/// Returns the issues in a tree by name, and the entries that are no issues.
pub fn names(issues: &Path) -> io::Result<(Vec<IssueId>, Vec<Unsound>)> {
    let (mut ids, mut unsound) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(issues)? {
        let entry = entry?;
        let id: Option<IssueId> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match id {
            Some(id) if folder => ids.push(id),
            _ => unsound.push(Unsound {
                path: entry.path(),
                line: 0,
                what: if folder {
                    "not the id of an issue"
                } else {
                    "not a folder"
                }
                .into(),
            }),
        }
    }
    ids.sort_by_key(IssueId::key);
    for pair in ids.windows(2) {
        if let [a, b] = pair
            && a.key() == b.key()
        {
            unsound.push(Unsound {
                path: issues.join(b.as_str()),
                line: 0,
                what: format!("differs from {a} only in case: ids are the same without regard to it"),
            });
        }
    }
    ids.dedup_by_key(|id| id.key());
    Ok((ids, unsound))
}

/// Returns an issue's folder as bytes; `None` if there is no such folder.
pub fn load(issues: &Path, id: &IssueId) -> Result<Option<IssueFolder>, Unsound> {
    match load_what_can_be(issues, id) {
        Some((_, mut unsound)) if !unsound.is_empty() => Err(unsound.swap_remove(0)),
        loaded => Ok(loaded.map(|(folder, _)| folder)),
    }
}

/// Returns the same without the unreadable files, and the problems of those.
fn load_what_can_be(issues: &Path, id: &IssueId) -> Option<(IssueFolder, Vec<Unsound>)> {
    let folder = issues.join(id.as_str());
    if !folder.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return None;
    }
    let mut unsound = Vec::new();
    let mut content = |name: &str, most: u64| -> Option<Vec<u8>> {
        let path = folder.join(name);
        let what = match file::read_real(&path, most) {
            Ok(found) => return found,
            Err(e) => e.to_string(),
        };
        unsound.push(Unsound { path, line: 0, what });
        None
    };
    let mut loaded = IssueFolder {
        issue: content(ISSUE, MAX_FILE).unwrap_or_default(),
        description: content(DESCRIPTION, MAX_DESCRIPTION).map(without_returns),
        labels: content(LABELS, MAX_FILE).unwrap_or_default(),
        deps: content(DEPS, MAX_FILE).unwrap_or_default(),
        comments: content(COMMENTS, MAX_FILE).unwrap_or_default(),
    };
    if let Some(text) = &loaded.description
        && let Err(e) = std::str::from_utf8(text)
    {
        let before = text.get(..e.valid_up_to()).unwrap_or_default();
        unsound.push(Unsound {
            path: folder.join(DESCRIPTION),
            line: before.iter().filter(|b| **b == b'\n').count() + 1,
            what: "not UTF-8".into(),
        });
        loaded.description = None;
    }
    Some((loaded, unsound))
}

/// Returns all problems of an issue's folder; `None` if its `issue.json` is missing or empty.
pub fn problems(issues: &Path, id: &IssueId) -> Option<Vec<Unsound>> {
    let Some((folder, mut all)) = load_what_can_be(issues, id) else {
        return Some(Vec::new());
    };
    let in_issue = all.iter().any(|unsound| unsound.path.ends_with(ISSUE));
    if folder.issue.is_empty() && all.is_empty() {
        return None;
    }
    let found = format::problems(id, &folder).into_iter();
    // An unreadable file is already reported; its absence is not reported again.
    let found = found.filter(|problem| !in_issue || problem.file != ISSUE);
    all.extend(found.map(|problem| place(issues, id, problem)));
    Some(all)
}

/// Removes carriage returns: git may convert every line ending for another system, which is no edit.
fn without_returns(text: Vec<u8>) -> Vec<u8> {
    if !text.contains(&b'\r') {
        return text;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter().peekable();
    while let Some(byte) = rest.next() {
        if *byte != b'\r' || rest.peek() != Some(&&b'\n') {
            out.push(*byte);
        }
    }
    out
}

/// Parses an issue's folder.
pub fn read(issues: &Path, id: &IssueId, folder: &IssueFolder) -> Result<FoundIssue, Unsound> {
    parse(id, folder).map_err(|problem| place(issues, id, problem))
}

/// Adds the path to a problem.
pub fn place(issues: &Path, id: &IssueId, problem: IssueFileProblem) -> Unsound {
    Unsound {
        path: issues.join(id.as_str()).join(problem.file),
        line: problem.line,
        what: problem.what,
    }
}
