//! The replica: the newest files of all issues, in the control plane.
//!
//! What must hold: a text is read only if it matches its digest. `issue.json` is written last, after the files it
//! refers to.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jit_core::issue_files::format::{self, DESCRIPTION, MAX_FILE};
use jit_core::model::ids::IssueId;
use jit_core::model::issue::text_digest;
use jit_os::file;

use crate::ports::Texts;

/// The texts and the replica in files.
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

    /// Returns the path of the file that names the two parts of a merged text.
    fn parts_path(&self, id: &IssueId, digest: &str) -> PathBuf {
        self.text_path(id, &format!("{digest}.parts"))
    }
}

impl Texts for Replica {
    fn folder(&self, id: &IssueId) -> PathBuf {
        self.folder.join(id.as_str())
    }

    fn text_path(&self, id: &IssueId, digest: &str) -> PathBuf {
        self.folder(id).join("texts").join(format!("{digest}.md"))
    }

    /// A reader compares a text with its digest, so the order of the writes does not matter.
    fn keep(&self, texts: &[(&IssueId, &[u8])]) -> io::Result<()> {
        let mut changed: Vec<PathBuf> = Vec::new();
        for (id, text) in texts {
            let path = self.text_path(id, &text_digest(text));
            if read(&path)?.as_deref() == Some(*text) {
                continue;
            }
            let texts = self.folder(id).join("texts");
            for folder in [&self.folder, &self.folder(id), &texts] {
                if !folder.is_dir() {
                    file::make_dir_like_parent(folder)?;
                    changed.extend(folder.parent().map(Path::to_owned));
                }
            }
            file::refresh(&path, text)?;
            changed.extend([path, texts]);
        }
        changed.sort();
        changed.dedup();
        file::sync_all(&self.folder, &changed)
    }

    fn keep_parts(&self, id: &IssueId, digest: &str, parts: [&str; 2]) -> io::Result<()> {
        file::make_dir_like_parent(&self.folder)?;
        file::make_dir_like_parent(&self.folder(id))?;
        file::make_dir_like_parent(&self.folder(id).join("texts"))?;
        file::refresh(&self.parts_path(id, digest), parts.join("\n").as_bytes())
    }

    fn parts(&self, id: &IssueId, digest: &str) -> io::Result<Vec<String>> {
        let parts = read(&self.parts_path(id, digest))?.unwrap_or_default();
        let parts = String::from_utf8_lossy(&parts);
        Ok(parts.lines().map(str::to_owned).collect())
    }

    /// A file with other content is ignored.
    fn read(&self, id: &IssueId, digest: &str) -> io::Result<Option<Vec<u8>>> {
        for path in [self.text_path(id, digest), self.folder(id).join(DESCRIPTION)] {
            if let Some(text) = read(&path)?.filter(|text| text_digest(text) == digest) {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    fn holds(&self, id: &IssueId, files: &[(&'static str, Vec<u8>)]) -> bool {
        let folder = self.folder(id);
        folder.symlink_metadata().is_ok_and(|meta| meta.is_dir())
            && format::NAMES.into_iter().all(|name| {
                let path = folder.join(name);
                match files.iter().find(|(given, _)| *given == name) {
                    Some((_, content)) => file::has_content(&path, content).unwrap_or(false),
                    None => path
                        .symlink_metadata()
                        .is_err_and(|e| e.kind() == io::ErrorKind::NotFound),
                }
            })
    }

    /// Removes temporary files among the texts.
    fn sweep(&self) -> usize {
        let mut swept = 0;
        for issue in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let texts = fs::read_dir(issue.path().join("texts")).into_iter().flatten();
            for entry in texts.flatten() {
                let name = entry.file_name();
                let left = name.to_str().and_then(|name| name.strip_suffix(".tmp"));
                let left = left.and_then(|name| name.rsplit_once('.'));
                if left.is_some_and(|(of, digits)| of.ends_with(".md") && is_digits(digits))
                    && fs::remove_file(entry.path()).is_ok()
                {
                    swept += 1;
                }
            }
        }
        swept
    }

    fn has_left_overs(&self) -> bool {
        let issues = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        issues
            .filter_map(|issue| fs::read_dir(issue.path().join("texts")).ok())
            .flat_map(|texts| texts.flatten())
            .any(|entry| entry.path().extension().is_some_and(|end| end == "tmp"))
    }

    fn refresh(&self, id: &IssueId, files: &[(&'static str, Vec<u8>)]) -> io::Result<()> {
        file::make_dir_like_parent(&self.folder)?;
        let folder = self.folder(id);
        file::make_dir_like_parent(&folder)?;
        refresh(&folder, files)
    }
}

/// Returns the description in a tree, if it is the text with this digest.
pub fn in_tree(tree_jit: &Path, id: &IssueId, digest: &str) -> Option<Vec<u8>> {
    let path = tree_jit.join("issues").join(id.as_str()).join(DESCRIPTION);
    read(&path)
        .ok()
        .flatten()
        .filter(|text| text_digest(text) == digest)
}

/// Reads one of an issue's files. A file that is too large or not a regular file counts as missing.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match file::read_real(path, MAX_FILE) {
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge
            ) =>
        {
            Ok(None)
        }
        other => other,
    }
}

/// Whether this is the name of a temporary file that [`file`] uses while it writes one of an issue's files.
fn is_left_over(name: &str) -> bool {
    format::NAMES.into_iter().any(|of| {
        let middle = name.strip_prefix(of).and_then(|rest| rest.strip_suffix(".tmp"));
        let digits = middle.and_then(|rest| rest.strip_prefix('.'));
        digits.is_some_and(is_digits)
    })
}

fn is_digits(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Makes a folder contain exactly these of an issue's files. Correct files are not touched, and other files stay.
fn refresh(folder: &Path, files: &[(&'static str, Vec<u8>)]) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_left_over) {
            // Its writer was killed: there is only one writer at a time.
            let _ = fs::remove_file(entry.path());
        }
    }
    // The files that `issue.json` refers to are written before it.
    for name in format::NAMES.into_iter().rev() {
        let path = folder.join(name);
        match files.iter().find(|(given, _)| *given == name) {
            Some((_, content)) => {
                let is_new = name != format::ISSUE && path.symlink_metadata().is_err();
                if !is_new && read(&path)?.as_deref() == Some(content) {
                    continue;
                }
                // The other files are not read before `issue.json` exists.
                if !is_new
                    || file::create_like_parent(&path)
                        .and_then(|file| (&file).write_all(content))
                        .is_err()
                {
                    file::refresh(&path, content)?;
                }
            }
            None => match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            },
        }
    }
    Ok(())
}

/// Writes an issue's files into a tree.
pub fn project(tree_jit: &Path, id: &IssueId, files: &[(&'static str, Vec<u8>)]) -> io::Result<()> {
    let issues = tree_jit.join("issues");
    let folder = issues.join(id.as_str());
    for dir in [tree_jit, &issues, &folder] {
        file::ensure_real_dir(dir)?;
    }
    refresh(&folder, files)
}
