//! Lists the changes of the next commit. One call of git, however many there are (two before the first commit).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use jit_core::model::ids::IssueId;
use jit_core::model::refusal::Code;
use jit_git::{Git, GitError, Place};
use jit_store::Outcome;

use crate::gates::committed_policy::is_for_everybody;
use crate::refusals::refuse;

/// A path that differs between the index and HEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Relative to the top of the worktree.
    pub path: PathBuf,
    /// The blob in HEAD; `None` if there is none.
    pub old: Option<String>,
    /// The staged blob; `None` if the commit deletes the file.
    pub new: Option<String>,
}

/// The kinds of paths under `.jit/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A file of an issue, by its name in the issue's folder.
    Issue(IssueId, OsString),
    /// A file that applies to all worktrees: configuration, gates, types.
    Global,
    /// A file that no rule protects.
    Other,
}

impl Staged {
    pub fn is_ours(&self) -> bool {
        self.path.starts_with(".jit")
    }

    pub fn kind(&self) -> Kind {
        if is_for_everybody(&self.path) {
            return Kind::Global;
        }
        let mut parts = self.path.iter();
        if parts.next() != Some(OsStr::new(".jit")) {
            return Kind::Other;
        }
        let rest: Vec<&OsStr> = parts.collect();
        match rest.as_slice() {
            [issues, id, name @ ..] if *issues == "issues" && !name.is_empty() => {
                match id.to_str().and_then(|id| id.parse().ok()) {
                    Some(id) => Kind::Issue(id, name.iter().collect::<PathBuf>().into_os_string()),
                    None => Kind::Other,
                }
            }
            _ => Kind::Other,
        }
    }
}

/// Returns git for exactly the index that is being committed: `git commit -a` and `git commit <path>` use their own.
pub fn git(place: &Place) -> Option<Git> {
    let (root, git_dir) = (place.worktree_root.as_deref()?, place.git_dir.as_deref()?);
    let option = |name: &str, path: &Path| {
        let mut option = OsString::from(name);
        option.push(path);
        option
    };
    let git = Git::at(root)
        .arg(option("--git-dir=", git_dir))
        .arg(option("--work-tree=", root));
    Some(
        match std::env::var_os("GIT_INDEX_FILE").filter(|path| !path.is_empty()) {
            // The path is relative to the folder in which git starts hooks.
            Some(index) => git.env("GIT_INDEX_FILE", place.start.join(index)),
            None => git,
        },
    )
}

/// Returns all staged changes.
pub fn all(place: &Place) -> Outcome<Vec<Staged>> {
    let list = |compare: &[&str]| -> Result<Vec<u8>, GitError> {
        let Some(git) = git(place) else {
            return Ok(Vec::new());
        };
        git.args(compare)
            .args(["--raw", "-z", "--no-renames", "--no-abbrev", "--no-relative"])
            .args(["--no-ext-diff", "--ignore-submodules=none", "--"])
            .run()
    };
    // Twice as fast as `git diff`, which also works before the first commit.
    let listed = match list(&["diff-index", "--cached", "HEAD"]) {
        Err(e) if e.code() == Some(128) => list(&["diff", "--cached"]),
        other => other,
    };
    Ok(parse(&listed.map_err(|e| refuse(Code::Io, e))?))
}

/// Parses `:<mode> <mode> <blob> <blob> <status>` NUL `<path>` NUL, repeated.
fn parse(listed: &[u8]) -> Vec<Staged> {
    let mut parts = listed.split(|b| *b == 0);
    let mut all = Vec::new();
    while let (Some(about), Some(path)) = (parts.next(), parts.next()) {
        let mut words = about.split(|b| *b == b' ').skip(2);
        let mut blob = || {
            let hex = String::from_utf8_lossy(words.next()?).into_owned();
            hex.bytes().any(|b| b != b'0').then_some(hex)
        };
        all.push(Staged {
            old: blob(),
            new: blob(),
            path: PathBuf::from(OsString::from_vec(path.to_vec())),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn c2_any_name_of_a_file_is_read_as_it_is() {
        let listed =
            b":000000 100644 0000 a1b2 A\0a \n\xff\0:100644 000000 a1 00 D\0.jit/issues/WI-1/issue.json\0";
        let all = parse(listed);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].path.as_os_str().as_bytes(), b"a \n\xff");
        assert_eq!(
            (all[0].old.as_deref(), all[0].new.as_deref()),
            (None, Some("a1b2"))
        );
        assert_eq!((all[1].old.as_deref(), all[1].new.as_deref()), (Some("a1"), None));
        let id: IssueId = "WI-1".parse().expect("an id");
        assert_eq!(all[1].kind(), Kind::Issue(id, "issue.json".into()));
    }

    #[test]
    fn c2_global_files_are_told_from_others() {
        let kind = |path: &str| {
            let path = PathBuf::from(path);
            Staged {
                path,
                old: None,
                new: None,
            }
            .kind()
        };
        for path in [
            ".jit/config.toml",
            ".jit/gates/registry.json",
            ".jit/types.toml",
            ".jit/.gitattributes",
        ] {
            assert_eq!(kind(path), Kind::Global, "{path}");
        }
        for path in [
            "config.toml",
            ".jit/gates/results/WI-1.json",
            ".jit/notes.md",
            ".jit/issues/..",
            "x/.jit/config.toml",
        ] {
            assert_eq!(kind(path), Kind::Other, "{path}");
        }
    }
}
