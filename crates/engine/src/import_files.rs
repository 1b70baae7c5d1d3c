//! Reads files to import: with limits, and without following links in folders.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jit_core::model::refusal::{Code, Refusal};
use jit_store::Outcome;

use crate::api::content::FileSource;
use crate::api::issues::MAX_IMPORT_BYTES;

/// The most files of a folder, and their greatest depth in it.
const MAX_FILES: usize = 100_000;
const MAX_DEPTH: usize = 16;

fn refuse(path: &Path, e: &io::Error) -> Box<Refusal> {
    let code = match e.kind() {
        io::ErrorKind::NotFound => Code::NotFound,
        io::ErrorKind::InvalidInput => Code::Invalid,
        _ => Code::Io,
    };
    Box::new(Refusal::new(code, format!("cannot read {}: {e}", path.display())))
}

fn too_much() -> io::Error {
    let text = format!(
        "there is more than can be imported at once ({} MiB)",
        MAX_IMPORT_BYTES >> 20
    );
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn bounded(from: impl io::Read, left: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(left.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > left {
        return Err(too_much());
    }
    Ok(bytes)
}

/// Opens a file. Anything else is refused: a pipe without a writer would be waited for.
fn open(path: &Path) -> io::Result<fs::File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    fs::File::open(path)
}

/// Returns the content of a file.
pub fn file(source: &FileSource) -> Outcome<Vec<u8>> {
    let path = source.path.as_path();
    let read = || match &source.content {
        Some(content) => bounded(content.as_bytes(), MAX_IMPORT_BYTES),
        None => bounded(open(path)?, MAX_IMPORT_BYTES),
    };
    read().map_err(|e| refuse(path, &e))
}

/// The files of a folder.
#[derive(Debug, Default)]
pub struct Files {
    /// Name and content of each file.
    pub files: Vec<(String, Vec<u8>)>,
    /// Folders or files that are not for tasks.
    pub left_out: BTreeSet<String>,
}

/// The folders of tasks in Backlog.md, which also has documents, decisions and milestones.
const TASKS: &[&str] = &["tasks", "drafts", "completed", "archive/tasks", "archive/drafts"];

/// Reads every Markdown file under a folder that may be a task, or a single file.
pub fn folder(source: &FileSource) -> Outcome<Files> {
    let (path, mut all) = (source.path.as_path(), Files::default());
    if source.content.is_some() || path.is_file() {
        let name = path.file_name().unwrap_or_default();
        let folder = path.parent().filter(|_| source.content.is_none());
        let name = within(folder).join(name);
        let bytes = file(source)?;
        all.files.push((name.to_string_lossy().into_owned(), bytes));
        return Ok(all);
    }
    let (within, is_whole) = (within(Some(path)), path.join("tasks").is_dir());
    let mut left = MAX_IMPORT_BYTES;
    for found in markdown(path).map_err(|e| refuse(path, &e))? {
        let name = found.strip_prefix(path).unwrap_or(&found);
        if is_whole && !TASKS.iter().any(|folder| name.starts_with(folder)) {
            let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty());
            let what = folder.unwrap_or(name).to_string_lossy().into_owned();
            all.left_out.insert(what);
            continue;
        }
        let bytes = fs::File::open(&found).and_then(|file| bounded(file, left));
        let bytes = bytes.map_err(|e| refuse(&found, &e))?;
        left -= bytes.len() as u64;
        let name = within.join(name).to_string_lossy().into_owned();
        all.files.push((name, bytes));
    }
    Ok(all)
}

/// Returns the end of a folder's path if it shows that the folder is archived.
fn within(folder: Option<&Path>) -> PathBuf {
    let whole = folder.and_then(|folder| match folder.as_os_str().is_empty() {
        true => Path::new(".").canonicalize().ok(),
        false => folder.canonicalize().ok(),
    });
    let ends = ["archive", "archive/tasks", "archive/drafts"];
    let end = ends
        .into_iter()
        .find(|end| whole.as_ref().is_some_and(|whole| whole.ends_with(end)));
    end.unwrap_or_default().into()
}

fn markdown(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() && depth < MAX_DEPTH {
                folders.push((path, depth + 1));
            } else if kind.is_file() && path.extension().is_some_and(|end| end.eq_ignore_ascii_case("md")) {
                if found.len() == MAX_FILES {
                    return Err(too_much());
                }
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
