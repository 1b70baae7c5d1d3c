//! Finds the repository, the worktree and jit's own folders by reading files, without starting a process.
//!
//! What must hold, each checked against git itself in `tests/paths.rs` (A2):
//! - `common_dir`, `git_dir` and `worktree_root` are what `git rev-parse` says from the same folder with the same
//!   environment, as physical paths: no symbolic links, no `..`, bytes unchanged.
//! - Every worktree of a repository finds the same `control_dir`.
//! - No git at all is an ordinary case: the nearest place upwards, else the start, serves as both planes (A3).
//! - A `.git` that leads nowhere is an error, never "no git": guessing would split the control plane.
//! - A repository of another user is refused as git refuses it (L2, `owner`).
//! - Without git, the search ends at a folder of another user, at a `.jit` of another user, at a border of file systems,
//!   and where git's would. A `.jit` that is a symbolic link is passed over, and so is one that `jit init` did not make
//!   ([`is_place`]).
//!
//! Limitations: includes in git's configuration are ignored, see [`crate::config`]; refs kept as reftable have no
//! readable HEAD, so [`Place::branch`] then asks git.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::config::{BadConfig, RepoConfig, Shared};
use crate::files::{physical, physical_or_plain, read};
use crate::git_dir::{GitFolder, HeadFile, Unusable, explicit_git_dir, git_folder, parse_head, probe};
use crate::owner::{self, Foreign, Owners};
use crate::run::{Git, GitError};

/// The environment variables that change where git and jit look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitEnv {
    pub git_dir: Option<OsString>,
    pub git_work_tree: Option<OsString>,
    pub git_common_dir: Option<OsString>,
    pub git_ceiling_directories: Option<OsString>,
    pub git_discovery_across_filesystem: Option<OsString>,
    /// Overrides the control folder and nothing else.
    pub jit_dir: Option<OsString>,
    /// The user that called sudo.
    pub sudo_uid: Option<OsString>,
}

impl GitEnv {
    pub fn from_process() -> Self {
        // For all of these, empty means unset.
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            git_dir: var("GIT_DIR"),
            git_work_tree: var("GIT_WORK_TREE"),
            git_common_dir: var("GIT_COMMON_DIR"),
            git_ceiling_directories: var("GIT_CEILING_DIRECTORIES"),
            git_discovery_across_filesystem: var("GIT_DISCOVERY_ACROSS_FILESYSTEM"),
            jit_dir: var("JIT_DIR"),
            sudo_uid: var("SUDO_UID"),
        }
    }

    /// For a folder that no variable of this process speaks of: only the user counts.
    pub fn elsewhere() -> Self {
        Self {
            sudo_uid: Self::from_process().sudo_uid,
            ..Self::default()
        }
    }

    fn crosses_filesystems(&self) -> bool {
        self.git_discovery_across_filesystem
            .as_deref()
            .and_then(OsStr::to_str)
            .is_some_and(|value| {
                matches!(value.to_ascii_lowercase().as_str(), "true" | "yes" | "on")
                    || value.parse::<i64>().is_ok_and(|n| n != 0)
            })
    }
}

/// Discovery failed.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("cannot work in {path:?}: {source}")]
    Start { path: PathBuf, source: io::Error },
    #[error("GIT_DIR says {path:?}, which is not a git repository")]
    NotARepository { path: PathBuf },
    #[error("{file:?} is not a folder, and not a file that says `gitdir: <path>` either")]
    BadGitFile { file: PathBuf },
    #[error(
        "{file:?} leads to {target:?}, which is not a git repository (moved or deleted? `git worktree repair` run in the main worktree mends the link)"
    )]
    Dangling { file: PathBuf, target: PathBuf },
    #[error("{repository:?} is a repository of another user ({part:?} is not yours)")]
    Owner { repository: PathBuf, part: PathBuf },
    #[error("cannot find the work tree {path:?} that {from} names: {source}")]
    WorkTree {
        path: PathBuf,
        from: &'static str,
        source: io::Error,
    },
    #[error("git's configuration {file:?}, {bad}")]
    Config { file: PathBuf, bad: BadConfig },
    #[error("cannot read {path:?}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("the branch name {0:?} is not UTF-8")]
    BranchName(OsString),
    #[error(transparent)]
    Git(#[from] GitError),
}

/// The folders of a repository and of jit, seen from one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The git folder that all worktrees of the repository share; `None` without git.
    pub common_dir: Option<PathBuf>,
    /// This worktree's own git folder: the common one, or `<common>/worktrees/<name>`.
    pub git_dir: Option<PathBuf>,
    /// Top of the checked-out files; `None` in a bare repository and inside a git folder.
    pub worktree_root: Option<PathBuf>,
    /// Versioned plane: `<worktree_root>/.jit`, which need not exist.
    pub local_jit: Option<PathBuf>,
    /// Shared plane: `<common_dir>/jit`, or `.jit` without git, or the value of JIT_DIR. Need not exist.
    pub control_dir: PathBuf,
    /// The folder the search began in, as a physical path.
    pub start: PathBuf,
    /// `core.sharedRepository`: the permissions of new files in the control plane.
    pub shared: Shared,
    bare: bool,
    head: Vec<u8>,
}

impl From<Unusable> for DiscoverError {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::NotARepository { path } => Self::NotARepository { path },
            Unusable::BadGitFile { file } => Self::BadGitFile { file },
            Unusable::Dangling { file, target } => Self::Dangling { file, target },
            Unusable::Io { path, source } => Self::Io { path, source },
        }
    }
}

impl From<Foreign> for DiscoverError {
    fn from(Foreign { repository, part }: Foreign) -> Self {
        Self::Owner { repository, part }
    }
}

impl Place {
    /// Looks from `start` upwards. `"."` is cheapest: the system knows its physical path already.
    pub fn discover(start: &Path, env: &GitEnv) -> Result<Self, DiscoverError> {
        let start = physical(start).map_err(|source| DiscoverError::Start {
            path: start.to_owned(),
            source,
        })?;
        let common = env.git_common_dir.as_ref().map(|path| start.join(path));
        let common = common.as_deref();
        if let Some(git_dir) = &env.git_dir {
            let path = start.join(git_dir);
            let found = explicit_git_dir(&path, common)?;
            return Self::settle(start.clone(), found, Some(start), env);
        }
        let limits = Limits::new(&start, env);
        let owners = Owners::new(env.sudo_uid.as_deref());
        let mut next = Some(start.as_path());
        while let Some(folder) = next {
            let dot_git = folder.join(".git");
            if let Some(found) = probe(&dot_git, common)? {
                // A folder `.git` is the git folder, which is checked anyway.
                let git_file = Some(dot_git.as_path()).filter(|path| *path != found.git_dir);
                owner::check(owners, git_file, Some(folder), &found.git_dir, &found.common_dir)?;
                let root = folder.to_owned();
                return Self::settle(start, found, Some(root), env);
            }
            if let Some(found) = git_folder(folder, common)? {
                owner::check(owners, None, None, &found.git_dir, &found.common_dir)?;
                return Self::settle(start, found, None, env);
            }
            next = folder.parent().filter(|parent| limits.allow(parent));
        }
        Ok(Self::without_git(start, env, &limits))
    }

    /// Decides the work tree by the rules of git's `setup.c`.
    fn settle(
        start: PathBuf,
        found: GitFolder,
        implied_root: Option<PathBuf>,
        env: &GitEnv,
    ) -> Result<Self, DiscoverError> {
        let GitFolder {
            git_dir,
            common_dir,
            head,
            has_common,
        } = found;
        let mut config = RepoConfig::default();
        read_config(&common_dir.join("config"), &mut config)?;
        let own = if config.worktree_config {
            read_config(&git_dir.join("config.worktree"), &mut config)?;
            true
        } else {
            !has_common
        };
        let bare_setting = if own { config.bare } else { None };
        let worktree_setting = config.worktree.take().filter(|_| own);

        let worktree_root = if let Some(path) = &env.git_work_tree {
            let path = start.join(path);
            Some(physical_folder(path, "GIT_WORK_TREE")?)
        } else if let Some(path) = worktree_setting {
            let path = git_dir.join(path);
            Some(physical_folder(path, "core.worktree")?)
        } else if bare_setting == Some(true) {
            None
        } else {
            implied_root
        };
        let control_dir = match &env.jit_dir {
            Some(path) => physical_or_plain(&start.join(path)),
            None => common_dir.join("jit"),
        };
        Ok(Self {
            local_jit: worktree_root.as_ref().map(|root| root.join(".jit")),
            // Without a work tree the setting counts wherever it stands.
            bare: worktree_root.is_none() && config.bare != Some(false),
            common_dir: Some(common_dir),
            git_dir: Some(git_dir),
            worktree_root,
            control_dir,
            start,
            shared: config.shared,
            head,
        })
    }

    fn without_git(start: PathBuf, env: &GitEnv, limits: &Limits) -> Self {
        let owners = Owners::new(env.sudo_uid.as_deref());
        let mut next = Some(start.as_path());
        let mut root = start.as_path();
        while let Some(folder) = next {
            let jit = folder.join(".jit");
            if let Ok(meta) = jit.symlink_metadata() {
                if !owners.own(&jit) {
                    break;
                }
                if meta.is_dir() && is_place(&jit) {
                    root = folder;
                    break;
                }
            }
            next = folder
                .parent()
                .filter(|parent| limits.allow(parent) && owners.own(parent));
        }
        let control_dir = env.jit_dir.as_ref();
        let control_dir = control_dir.map(|path| physical_or_plain(&start.join(path)));
        let place = Self::folder(root);
        Self {
            control_dir: control_dir.unwrap_or(place.control_dir),
            start,
            ..place
        }
    }

    /// The same place if it has git. Without git: the folder the search began in, not one above it.
    #[must_use]
    pub fn in_start_folder(self) -> Self {
        if self.has_git() {
            return self;
        }
        let is_named = self.local_jit.as_ref() != Some(&self.control_dir);
        let here = Self::folder(&self.start);
        Self {
            control_dir: match is_named {
                true => self.control_dir,
                false => here.control_dir,
            },
            ..here
        }
    }

    /// The folder above the start that this place was found in, without git; `None` if it is the start itself.
    pub fn found_above(&self) -> Option<&Path> {
        let root = self.worktree_root.as_deref().filter(|_| !self.has_git())?;
        (root != self.start).then_some(root)
    }

    /// A folder without git, as it is named: nothing is read, and it need not exist.
    pub fn folder(root: &Path) -> Self {
        let local = root.join(".jit");
        Self {
            common_dir: None,
            git_dir: None,
            worktree_root: Some(root.to_owned()),
            control_dir: local.clone(),
            local_jit: Some(local),
            start: root.to_owned(),
            shared: Shared::Umask,
            bare: false,
            head: Vec::new(),
        }
    }

    /// The control folder, and the usual one if JIT_DIR names another. What shows that a caller is an agent counts in each:
    /// an agent can choose JIT_DIR.
    pub fn control_dirs(&self) -> impl Iterator<Item = PathBuf> {
        let usual = self.common_dir.as_ref().map(|common| common.join("jit"));
        let usual = usual
            .or_else(|| self.local_jit.clone())
            .filter(|usual| *usual != self.control_dir);
        std::iter::once(self.control_dir.clone()).chain(usual)
    }

    /// Whether this is a linked worktree (made by `git worktree add`), not the main one.
    pub fn is_worktree(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// Whether this is a repository without a work tree of its own.
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    pub fn has_git(&self) -> bool {
        self.git_dir.is_some()
    }

    /// The branch that is checked out, born or not; `None` when HEAD is detached or there is no git.
    pub fn branch(&self) -> Result<Option<String>, DiscoverError> {
        let Some(git_dir) = &self.git_dir else {
            return Ok(None);
        };
        match parse_head(&self.head) {
            Some(HeadFile::Ref(name)) => short_branch(&name),
            Some(HeadFile::Detached(_)) | None => Ok(None),
            Some(HeadFile::Elsewhere) => Ok(Git::in_git_dir(git_dir).symbolic_head()?.and_then(strip_heads)),
        }
    }
}

fn strip_heads(name: String) -> Option<String> {
    name.strip_prefix("refs/heads/").map(str::to_owned)
}

pub(super) fn short_branch(full: &[u8]) -> Result<Option<String>, DiscoverError> {
    match full.strip_prefix(b"refs/heads/") {
        None => Ok(None),
        Some(name) => match std::str::from_utf8(name) {
            Ok(name) => Ok(Some(name.to_owned())),
            Err(_) => Err(DiscoverError::BranchName(OsStr::from_bytes(name).to_owned())),
        },
    }
}

/// How far up the search may go.
struct Limits {
    ceilings: Vec<PathBuf>,
    /// The file system to stay on; looked up when the search first leaves its start.
    device: OnceCell<Option<u64>>,
    start: PathBuf,
}

impl Limits {
    fn new(start: &Path, env: &GitEnv) -> Self {
        let mut ceilings = Vec::new();
        let mut resolve = true;
        if let Some(list) = &env.git_ceiling_directories {
            for entry in list.as_bytes().split(|b| *b == b':') {
                let path = Path::new(OsStr::from_bytes(entry));
                if entry.is_empty() {
                    // By git's rule: paths after an empty entry are literal, for slow network folders.
                    resolve = false;
                } else if path.is_absolute() {
                    let path = if resolve {
                        physical_or_plain(path)
                    } else {
                        path.to_owned()
                    };
                    ceilings.push(path);
                }
            }
        }
        let device = OnceCell::new();
        if env.crosses_filesystems() {
            let _ = device.set(None);
        }
        Self {
            ceilings,
            device,
            start: start.to_owned(),
        }
    }

    /// Whether the search may go on to this ancestor of the start.
    fn allow(&self, parent: &Path) -> bool {
        if self.ceilings.iter().any(|ceiling| ceiling == parent) {
            return false;
        }
        let device = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.dev());
        match self.device.get_or_init(|| device(&self.start)) {
            None => true,
            here => device(parent) == *here,
        }
    }
}

/// Whether this `.jit` folder outside of git was set up: it has settings or a log. Any other is left over from something
/// else, and captures no folder below it.
pub fn is_place(jit: &Path) -> bool {
    ["config.toml", "events"]
        .iter()
        .any(|name| jit.join(name).symlink_metadata().is_ok())
}

fn physical_folder(path: PathBuf, from: &'static str) -> Result<PathBuf, DiscoverError> {
    physical(&path).map_err(|source| DiscoverError::WorkTree { path, from, source })
}

pub(super) fn read_config(file: &Path, config: &mut RepoConfig) -> Result<(), DiscoverError> {
    match read(file) {
        Ok(text) => config.read(&text).map_err(|bad| DiscoverError::Config {
            file: file.to_owned(),
            bad,
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(DiscoverError::Io {
            path: file.to_owned(),
            source,
        }),
    }
}
