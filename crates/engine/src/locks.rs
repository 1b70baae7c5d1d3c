//! What a path names, and where a lock on it counts (F3).
//!
//! Rules:
//! - a path is taken from where the caller stands; what is a link on the way to it is followed, so that one file has one
//!   name; what does not exist yet is fine;
//! - something that exists under exactly that name is meant literally, whatever characters are in it; else wildcards are
//!   wildcards. A folder means all below it;
//! - inside this worktree names are relative to its root; a path in another worktree of the repository has the name it
//!   has there, and a lock on it is global; everything else is outside, from the root of the file system, and global.

use std::io;
use std::path::{Component, Path, PathBuf};

use jit_core::pattern::{BadPattern, Pattern};
use jit_core::scope::Scope;

use crate::config::Config;
use crate::git::{Place, worktrees};

/// A path by its one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub pattern: Pattern,
    /// From the root of the file system.
    pub outside: bool,
    pub scope: Scope,
}

/// Knows the places that paths may be in.
#[derive(Debug)]
pub struct Paths<'a> {
    place: &'a Place,
    config: &'a Config,
}

impl<'a> Paths<'a> {
    pub fn new(place: &'a Place, config: &'a Config) -> io::Result<Self> {
        Ok(Self { place, config })
    }

    pub fn name(&self, path: &Path, literal: bool) -> Result<Named, BadPattern> {
        let text = path.to_string_lossy();
        let absolute = normal(&self.place.start.join(path));
        let exists = absolute.symlink_metadata();
        let folder = text.ends_with('/') || exists.as_ref().is_ok_and(|meta| meta.is_dir());
        let glob = !literal && exists.is_err() && text.contains(['*', '?', '[', '{']);
        let real = physical(&absolute, glob);
        if let Some(root) = self.place.worktree_root.as_deref()
            && let Ok(inside) = real.strip_prefix(root)
        {
            let pattern = pattern(inside, glob, folder)?;
            let scope = self.scope(&pattern);
            return Ok(Named {
                pattern,
                outside: false,
                scope,
            });
        }
        let elsewhere = self.place.common_dir.as_deref().and_then(|common| {
            let all = worktrees::list(common).ok()?;
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
            pattern: pattern(inside, glob, folder)?,
            outside,
            scope: Scope::Global,
        })
    }

    fn scope(&self, pattern: &Pattern) -> Scope {
        let _ = (pattern, self.config);
        Scope::Worktree
    }
}

fn pattern(path: &Path, glob: bool, folder: bool) -> Result<Pattern, BadPattern> {
    let mut text = path.to_string_lossy().into_owned();
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

/// Without `.` and `..`, by the text alone.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// The same path with every link on the way to it followed, as far as it exists. The last part is not followed: a link
/// is a file of its own.
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

/// `path` as seen from `base`, both absolute: `../worktrees/a`. `.` when they are the same.
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
