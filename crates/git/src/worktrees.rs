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

use rustix::io::Errno;

use crate::config::RepoConfig;
use crate::discover::{DiscoverError, read_config, short_branch};
use crate::files::{physical_or_plain, plain, read, read_head};
use crate::git_dir::{HeadFile, parse_head};
use crate::run::Git;

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

/// Refs of one repository; the packed ones are read at most once.
struct Refs<'a> {
    common_dir: &'a Path,
    packed: std::cell::OnceCell<Vec<u8>>,
}

impl<'a> Refs<'a> {
    fn new(common_dir: &'a Path) -> Self {
        Self {
            common_dir,
            packed: std::cell::OnceCell::new(),
        }
    }

    /// Branch and commit of one worktree. A HEAD that cannot be read leaves both unknown: one broken worktree must
    /// not hide the others.
    fn head(&self, git_dir: &Path) -> Result<(Option<String>, Option<String>), DiscoverError> {
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
            Err(Errno::NOENT | Errno::ISDIR | Errno::NOTDIR) => self.packed(name),
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
