//! The worktrees of a repository, listed without starting git.
//!
//! Format read: `<common>/worktrees/<name>/{gitdir,HEAD,locked,commondir}`, loose refs and `packed-refs`.
//! Invariant: the same list, in the same order, as `git worktree list --porcelain` gives: the main one first, the
//! others by path. `prunable` is set exactly where git says so.
//! Limitations: git does not record where the main work tree of a repository made with `--separate-git-dir` lies (it shows the
//! git folder itself), so its root is `None`. With reftable, git is asked for each HEAD.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::config::RepoConfig;
use crate::discover::{DiscoverError, read_config};
use crate::files::{physical_or_plain, plain, read};
use crate::refs::Refs;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeEntry {
    pub git_dir: PathBuf,
    /// `None` for a bare repository, or where it cannot be known.
    pub root: Option<PathBuf>,
    /// `None` when HEAD is detached.
    pub branch: Option<String>,
    /// The commit, `None` on a branch without one.
    pub head: Option<String>,
    /// The reason, perhaps empty, when it is locked against removal.
    pub locked: Option<String>,
    /// Why `git worktree prune` would forget it.
    pub prunable: Option<&'static str>,
    pub is_main: bool,
    pub is_bare: bool,
}

/// All worktrees of the repository with this common folder, the main one first.
pub fn list(common_dir: &Path) -> Result<Vec<WorktreeEntry>, DiscoverError> {
    let refs = Refs::new(common_dir);
    let mut entries = vec![main_entry(common_dir, &refs)?];
    let folder = common_dir.join("worktrees");
    let listing = match std::fs::read_dir(&folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(entries),
        Err(source) => return Err(DiscoverError::Io { path: folder, source }),
    };
    let mut linked = Vec::new();
    for item in listing {
        let item = item.map_err(|source| DiscoverError::Io {
            path: folder.clone(),
            source,
        })?;
        if let Some(entry) = linked_entry(item.path(), &refs)? {
            linked.push(entry);
        }
    }
    linked.sort_by(|a, b| a.root.cmp(&b.root));
    entries.append(&mut linked);
    Ok(entries)
}

fn main_entry(common_dir: &Path, refs: &Refs<'_>) -> Result<WorktreeEntry, DiscoverError> {
    let mut config = RepoConfig::default();
    read_config(&common_dir.join("config"), &mut config)?;
    if config.worktree_config {
        read_config(&common_dir.join("config.worktree"), &mut config)?;
    }
    let is_bare = config.bare == Some(true);
    let in_dot_git = common_dir.file_name() == Some(OsStr::new(".git"));
    let root = match (is_bare, &config.worktree) {
        (true, _) => None,
        (false, Some(path)) => Some(physical_or_plain(&common_dir.join(path))),
        (false, None) if in_dot_git => common_dir.parent().map(Path::to_owned),
        (false, None) => None,
    };
    let (branch, head) = refs.head(common_dir)?;
    Ok(WorktreeEntry {
        git_dir: common_dir.to_owned(),
        root,
        branch,
        head,
        locked: None,
        prunable: None,
        is_main: true,
        is_bare,
    })
}

/// Branch and commit that are checked out in the worktree with this git folder, read from its files. `None` as branch: HEAD
/// is detached. `None` as commit: there is none yet, or it cannot be read.
pub fn head(common_dir: &Path, git_dir: &Path) -> Result<(Option<String>, Option<String>), DiscoverError> {
    Refs::new(common_dir).head(git_dir)
}

/// Whether the `.git` of a folder leads to this git folder.
pub fn is_its_root(root: &Path, git_dir: &Path) -> bool {
    let Ok(content) = read(&root.join(".git")) else {
        return false;
    };
    let goal = content.strip_prefix(b"gitdir: ").map(<[u8]>::trim_ascii_end);
    goal.is_some_and(|goal| {
        physical_or_plain(&root.join(OsStr::from_bytes(goal))) == physical_or_plain(git_dir)
    })
}

fn linked_entry(git_dir: PathBuf, refs: &Refs<'_>) -> Result<Option<WorktreeEntry>, DiscoverError> {
    // Without it git does not list the worktree at all.
    let Ok(link) = read(&git_dir.join("gitdir")) else {
        return Ok(None);
    };
    let link = link.trim_ascii_end();
    if link.is_empty() {
        return Ok(None);
    }
    let dot_git = plain(&git_dir.join(OsStr::from_bytes(link)));
    let root = match dot_git.file_name() {
        Some(name) if name == ".git" => dot_git.parent().map_or_else(|| dot_git.clone(), Path::to_owned),
        _ => dot_git.clone(),
    };
    let locked = match read(&git_dir.join("locked")) {
        Ok(reason) => Some(String::from_utf8_lossy(reason.trim_ascii_end()).into_owned()),
        Err(_) => None,
    };
    let there = rustix::fs::lstat(&dot_git).is_ok();
    let prunable = match (&locked, there) {
        (None, false) => Some("gitdir file points to non-existent location"),
        _ => None,
    };
    let (branch, head) = refs.head(&git_dir)?;
    Ok(Some(WorktreeEntry {
        git_dir,
        root: Some(root),
        branch,
        head,
        locked,
        prunable,
        is_main: false,
        is_bare: false,
    }))
}
