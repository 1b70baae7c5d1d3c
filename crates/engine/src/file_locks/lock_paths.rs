//! Resolves a path to the pattern of a file lock, and to the scope of that lock (F3).
//!
//! What must hold:
//!
//! - A path is relative to the caller's folder. Symbolic links on the way are followed, so that one file has one
//!   name. The path need not exist.
//! - A path that exists under exactly that name is literal, whatever characters it contains. Otherwise wildcards are
//!   wildcards. A folder means everything below it.
//! - Inside this worktree, names are relative to its root.
//! - A path in another worktree of the repository has its name there, and its lock is global.
//! - Any other path is outside: its name starts at the root of the file system, and its lock is global.

use std::path::{Path, PathBuf};

use jit_core::model::gitignore::Ignore;
use jit_core::model::glob::{BadPattern, Pattern};
use jit_core::model::scope::{self, LockScope, ScopeRules};
use jit_git::Place;
use jit_git::config::RepoConfig;
use jit_git::files::plain;

use crate::config::Config;

/// The largest `.gitignore` that is read.
const MAX_IGNORE: u64 = 16 << 20;

/// A resolved path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub pattern: Pattern,
    /// The pattern starts at the root of the file system.
    pub outside: bool,
    pub scope: LockScope,
}

/// The folders and rules for resolving paths.
#[derive(Debug)]
pub struct Paths<'a> {
    place: &'a Place,
    rules: ScopeRules,
    git: RepoConfig,
}

impl<'a> Paths<'a> {
    pub fn new(place: &'a Place, config: &Config) -> Self {
        let git = git_settings(place);
        let rules = config.lock_rules();
        Self {
            place,
            rules: if git.ignore_case { rules.folded() } else { rules },
            git,
        }
    }

    pub fn name(&self, path: &Path, literal: bool) -> Result<Named, BadPattern> {
        if path.as_os_str().is_empty() {
            // Most likely an empty variable in a script, not a request to lock everything.
            return Err(BadPattern::empty());
        }
        let text = path
            .to_str()
            .ok_or_else(|| BadPattern::not_text(&path.to_string_lossy()))?;
        let absolute = plain(&self.place.start.join(path));
        let exists = absolute.symlink_metadata();
        let folder = text.ends_with('/') || exists.as_ref().is_ok_and(|meta| meta.is_dir());
        let glob = !literal && exists.is_err() && text.contains(['*', '?', '[', '{']);
        // A symbolic link is replaced by its destination.
        let real = match exists.as_ref().is_ok_and(std::fs::Metadata::is_symlink) {
            true => absolute
                .canonicalize()
                .unwrap_or_else(|_| physical(&absolute, glob)),
            false => physical(&absolute, glob),
        };
        if let Some(root) = self.place.worktree_root.as_deref()
            && let Ok(inside) = real.strip_prefix(root)
        {
            let pattern = self.folded(pattern(inside, glob, folder)?);
            let ignored = self.ignores(root, pattern.literal_prefix(), folder);
            let scope = self.rules.scope_of(scope::ScopePlace::Inside {
                pattern: &pattern,
                ignored,
            });
            return Ok(Named {
                pattern,
                outside: false,
                scope,
            });
        }
        let elsewhere = self.place.common_dir.as_deref().and_then(|common| {
            let all = crate::worktree_identity::list(common).ok()?;
            let roots = all.into_iter().filter_map(|entry| entry.root);
            roots
                .filter(|root| real.starts_with(root))
                .max_by_key(|root| root.as_os_str().len())
        });
        let (inside, outside) = match &elsewhere {
            Some(root) => (real.strip_prefix(root).unwrap_or(&real), false),
            None => (real.strip_prefix("/").unwrap_or(&real), true),
        };
        Ok(Named {
            pattern: self.folded(pattern(inside, glob, folder)?),
            outside,
            scope: LockScope::Global,
        })
    }

    fn folded(&self, pattern: Pattern) -> Pattern {
        if self.git.ignore_case {
            pattern.folded()
        } else {
            pattern
        }
    }

    /// Whether git would ignore a path below `root`. A tracked path that matches an ignore rule counts as ignored
    /// too: its lock becomes wider, never narrower.
    fn ignores(&self, root: &Path, path: &str, is_dir: bool) -> bool {
        let read = |path: &Path| jit_git::files::read(path).unwrap_or_default();
        let mut ignore = Ignore::new().any_case(self.git.ignore_case);
        if let Some(file) = self.excludes_file() {
            ignore = ignore.excludes_file(&read(&file));
        }
        if let Some(common) = &self.place.common_dir {
            ignore = ignore.info_exclude(&read(&common.join("info/exclude")));
        }
        let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
        for folder in std::iter::once("").chain(folders) {
            let file = root.join(folder).join(".gitignore");
            // Git follows no link here either.
            if let Ok(Some(contents)) = jit_os::file::read_real(&file, MAX_IGNORE) {
                ignore = ignore.gitignore(folder, &contents);
            }
        }
        !path.is_empty() && ignore.ignores(path.trim_end_matches('/'), is_dir)
    }

    fn excludes_file(&self) -> Option<PathBuf> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        match &self.git.excludes_file {
            Some(path) => match Path::new(path).strip_prefix("~") {
                Ok(below) => Some(home?.join(below)),
                Err(_) => Some(PathBuf::from(path)),
            },
            None => Some(user_git_folder()?.join("ignore")),
        }
    }
}

fn user_git_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match set("XDG_CONFIG_HOME") {
        Some(folder) => Some(PathBuf::from(folder).join("git")),
        None => Some(PathBuf::from(set("HOME")?).join(".config/git")),
    }
}

/// Reads git's settings of the user, then of the repository. Unreadable files are skipped: git itself will complain.
fn git_settings(place: &Place) -> RepoConfig {
    let mut settings = RepoConfig::default();
    let user: Vec<PathBuf> = match std::env::var_os("GIT_CONFIG_GLOBAL") {
        Some(path) => vec![PathBuf::from(path)],
        None => {
            let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".gitconfig"));
            user_git_folder()
                .map(|folder| folder.join("config"))
                .into_iter()
                .chain(home)
                .collect()
        }
    };
    let own = place.common_dir.iter().map(|common| common.join("config"));
    for path in user.into_iter().chain(own) {
        if let Ok(text) = std::fs::read(path) {
            let _ = settings.read(&text);
        }
    }
    settings
}

fn pattern(path: &Path, glob: bool, folder: bool) -> Result<Pattern, BadPattern> {
    // A link may lead to a name that is not text.
    let text = path.to_str().map(str::to_owned);
    let mut text = text.ok_or_else(|| BadPattern::not_text(&path.to_string_lossy()))?;
    if text.is_empty() {
        return Ok(Pattern::everything());
    }
    if folder && !text.ends_with('/') {
        text.push('/');
    }
    if glob {
        Pattern::parse(&text)
    } else {
        Pattern::literal(&text)
    }
}

/// Returns the path with all symbolic links followed, as far as it exists.
fn physical(path: &Path, glob: bool) -> PathBuf {
    let is_glob = |part: &std::ffi::OsStr| glob && part.to_string_lossy().contains(['*', '?', '[', '{']);
    let mut known = path;
    let mut rest = Vec::new();
    loop {
        let (Some(parent), Some(name)) = (known.parent(), known.file_name()) else {
            return path.to_owned();
        };
        rest.push(name);
        known = parent;
        if known.iter().any(is_glob) {
            continue;
        }
        if let Ok(real) = known.canonicalize() {
            let mut out = real;
            out.extend(rest.iter().rev());
            return out;
        }
    }
}

/// Returns `path` relative to `base`, both absolute: `../worktrees/a`. Returns `.` if they are the same.
pub fn relative(path: &Path, base: &Path) -> PathBuf {
    let common = path
        .components()
        .zip(base.components())
        .take_while(|(a, b)| a == b)
        .count();
    let mut out = PathBuf::new();
    for _ in base.components().skip(common) {
        out.push("..");
    }
    out.extend(path.components().skip(common));
    if out.as_os_str().is_empty() {
        out.push(".");
    }
    out
}
