//! The attributes of a commit for a git that cannot read them from a commit (`--attr-source`, git 2.41).
//!
//! What must hold: only files named `.gitattributes` are written, below a folder that is removed afterwards. A path of the
//! commit cannot lead out of that folder.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use jit_core::model::refusal::{Code, Refusal};
use jit_git::Git;
use jit_git::run::next_content;
use jit_git::snapshot::{Folder, option};
use jit_store::Outcome;

use crate::refusals::{failed, io_failed};

const NAME: &str = ".gitattributes";

/// A folder with the attribute files of a commit, in their places.
#[derive(Debug)]
pub(super) struct CheckedOut {
    folder: Folder,
}

impl CheckedOut {
    /// Writes the attribute files of a commit to a new folder in `scratch`.
    pub(super) fn of(git: &dyn Fn() -> Git, commit: &str, scratch: &Path) -> Outcome<Self> {
        let folder =
            Folder::in_memory(scratch).map_err(|e| Box::new(Refusal::new(Code::Io, e.to_string())))?;
        let listed = git()
            .args(["ls-tree", "-r", "-z", "--full-tree", commit])
            .run()
            .map_err(failed)?;
        let files: Vec<(String, PathBuf)> = listed.split(|b| *b == 0).filter_map(attribute_file).collect();
        let ask: String = files.iter().map(|(object, _)| format!("{object}\n")).collect();
        let read = git()
            .args(["cat-file", "--batch"])
            .stdin(ask)
            .run()
            .map_err(failed)?;
        let mut rest = read.as_slice();
        for (_, path) in &files {
            let Some(content) = next_content(&mut rest) else {
                break;
            };
            let path = folder.path.join(path);
            let parent = path.parent().unwrap_or(&folder.path);
            fs::create_dir_all(parent).map_err(io_failed("create", parent))?;
            fs::write(&path, content).map_err(io_failed("write", &path))?;
        }
        Ok(Self { folder })
    }

    /// Git in this folder, as in a work tree that has these files.
    pub(super) fn apply(&self, git: Git) -> Git {
        git.arg("-C")
            .arg(&self.folder.path)
            .arg(option("--work-tree=", &self.folder.path))
    }
}

/// Object and path of an attribute file in a line of `git ls-tree`.
fn attribute_file(line: &[u8]) -> Option<(String, PathBuf)> {
    let tab = line.iter().position(|b| *b == b'\t')?;
    let head = std::str::from_utf8(line.get(..tab)?).ok()?;
    let path = Path::new(OsStr::from_bytes(line.get(tab + 1..)?));
    let is_inside = path
        .components()
        .all(|part| matches!(part, Component::Normal(name) if name != ".git"));
    let words: Vec<&str> = head.split(' ').collect();
    match words.as_slice() {
        // Git ignores an attribute file that is a link.
        ["100644" | "100755", "blob", object] if is_inside && path.file_name() == Some(OsStr::new(NAME)) => {
            Some(((*object).to_owned(), path.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_only_attribute_files_inside_the_tree_are_written() {
        let file = |line: &str| attribute_file(line.as_bytes()).map(|(_, path)| path);
        let place = |path: &str| Some(PathBuf::from(path));
        assert_eq!(file("100644 blob abc\t.gitattributes"), place(".gitattributes"));
        assert_eq!(
            file("100644 blob abc\ta/b/.gitattributes"),
            place("a/b/.gitattributes")
        );
        for line in [
            "120000 blob abc\t.gitattributes",
            "160000 commit abc\t.gitattributes",
            "100644 blob abc\tgitattributes",
            "100644 blob abc\t../.gitattributes",
            "100644 blob abc\t/etc/.gitattributes",
            "100644 blob abc\t.git/.gitattributes",
            "",
        ] {
            assert_eq!(file(line), None, "{line}");
        }
    }
}
