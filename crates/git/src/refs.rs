//! Refs, read from git's files.
//!
//! Format read: loose refs, and `packed-refs`, which has no symbolic ones.
//! Limitations: a reftable is read by git.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::discover::{DiscoverError, short_branch};
use crate::files::{is_no_file, read, read_head};
use crate::git_dir::{HeadFile, parse_head};
use crate::run::{Git, GitError};

fn in_reftable(common_dir: &Path) -> bool {
    common_dir.join("reftable").is_dir()
}

/// Whether this can be the full name of a ref: it leads out of no folder.
fn is_name(name: &str) -> bool {
    let is_odd = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    name.starts_with("refs/") && name.split('/').all(is_part) && !name.contains(is_odd)
}

/// The commit that a ref of the repository leads to, by its full name. Whether that commit exists is not asked.
pub fn commit_of(common_dir: &Path, name: &str) -> Result<Option<String>, GitError> {
    if !is_name(name) {
        return Ok(None);
    }
    if in_reftable(common_dir) {
        return Git::in_git_dir(common_dir).verify(name);
    }
    let found = Refs::new(common_dir).resolve(common_dir, name.as_bytes(), 0);
    // Git takes a ref of zeros for a broken one.
    Ok(found.filter(|commit| commit.bytes().any(|b| b != b'0')))
}

/// A ref that is another name for a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbolic {
    pub name: String,
    /// The ref that it names.
    pub goal: String,
}

/// The symbolic refs in a folder of refs, such as `refs/heads`, whether they lead somewhere or not. Names that are not
/// UTF-8 are left out.
pub fn symbolic_in(common_dir: &Path, folder: &str) -> Result<Vec<Symbolic>, GitError> {
    let mut found = Vec::new();
    if in_reftable(common_dir) {
        let listing = Git::in_git_dir(common_dir)
            .args(["for-each-ref", "--format=%(refname)%00%(symref)", folder])
            .run()?;
        for line in String::from_utf8_lossy(&listing).lines() {
            if let Some((name, goal)) = line.split_once('\0').filter(|(_, goal)| !goal.is_empty()) {
                found.push(Symbolic {
                    name: name.to_owned(),
                    goal: goal.to_owned(),
                });
            }
        }
        return Ok(found);
    }
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // A folder that is gone has no refs.
        let listing = std::fs::read_dir(common_dir.join(&folder)).into_iter();
        for entry in listing.flatten().flatten() {
            let Ok(last) = entry.file_name().into_string() else {
                continue;
            };
            let name = format!("{folder}/{last}");
            let kind = entry.file_type();
            if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
                folders.push(name);
                continue;
            }
            // Very old repositories have symbolic links.
            let goal = match kind {
                Ok(kind) if kind.is_symlink() => std::fs::read_link(entry.path()).ok(),
                _ => None,
            };
            let goal = match goal.filter(|goal| goal.starts_with("refs")) {
                Some(goal) => goal.into_os_string().into_string().ok(),
                None => match read(&entry.path()).ok().as_deref().and_then(parse_head) {
                    Some(HeadFile::Ref(goal)) => String::from_utf8(goal).ok(),
                    _ => None,
                },
            };
            found.extend(goal.map(|goal| Symbolic { name, goal }));
        }
    }
    Ok(found)
}

/// Refs of one repository; the packed ones are read at most once.
pub(crate) struct Refs<'a> {
    common_dir: &'a Path,
    packed: std::cell::OnceCell<Vec<u8>>,
}

impl<'a> Refs<'a> {
    pub(crate) fn new(common_dir: &'a Path) -> Self {
        Self {
            common_dir,
            packed: std::cell::OnceCell::new(),
        }
    }

    /// Branch and commit of one worktree. A HEAD that cannot be read leaves both unknown: one broken worktree must
    /// not hide the others.
    pub(crate) fn head(&self, git_dir: &Path) -> Result<(Option<String>, Option<String>), DiscoverError> {
        let Ok(bytes) = read_head(git_dir) else {
            return Ok((None, None));
        };
        Ok(match parse_head(&bytes) {
            None => (None, None),
            Some(HeadFile::Detached(commit)) => (None, Some(commit)),
            Some(HeadFile::Ref(name)) => (
                short_branch(&name).ok().flatten(),
                self.resolve(git_dir, &name, 0),
            ),
            Some(HeadFile::Elsewhere) => {
                let name = Git::in_git_dir(git_dir).symbolic_head()?;
                let branch = name.and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned));
                (branch, Git::in_git_dir(git_dir).verify("HEAD")?)
            }
        })
    }

    fn resolve(&self, git_dir: &Path, name: &[u8], depth: u8) -> Option<String> {
        // These few belong to one worktree each, all others to the repository.
        let own: [&[u8]; 3] = [b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/"];
        let base = if own.iter().any(|prefix| name.starts_with(prefix)) {
            git_dir
        } else {
            self.common_dir
        };
        match read(&base.join(OsStr::from_bytes(name))) {
            Ok(bytes) => match parse_head(&bytes)? {
                HeadFile::Detached(commit) => Some(commit),
                // Git gives up after five steps too.
                HeadFile::Ref(next) if depth < 5 => self.resolve(git_dir, &next, depth + 1),
                HeadFile::Ref(_) | HeadFile::Elsewhere => None,
            },
            Err(error) if is_no_file(&error) => self.packed(name),
            Err(_) => None,
        }
    }

    fn packed(&self, name: &[u8]) -> Option<String> {
        let packed = self
            .packed
            .get_or_init(|| read(&self.common_dir.join("packed-refs")).unwrap_or_default());
        packed.split(|b| *b == b'\n').find_map(|line| {
            let (hex, rest) = line.split_at_checked(line.iter().position(|b| *b == b' ')?)?;
            let matches = rest.get(1..) == Some(name);
            match matches.then(|| parse_head(hex)).flatten()? {
                HeadFile::Detached(commit) => Some(commit),
                HeadFile::Ref(_) | HeadFile::Elsewhere => None,
            }
        })
    }
}
