//! Files that a new worktree gets from the main checkout because git does not bring them: `.env`, dependency folders
//! (G3).
//!
//! What must hold:
//!
//! - Only files that git does not track are brought, and no existing file is overwritten.
//! - Names come from the settings as patterns, and from `.worktreeinclude` in the main checkout. That file has the
//!   syntax of `.gitignore` and applies to ignored files only.
//! - A symbolic link is brought as a link. Anything other than a file, a folder or a link is skipped.
//! - Nothing is brought into `.git` or `.jit`, and nothing through a symbolic link that the new worktree has (L1).

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jit_core::model::gitignore::Ignore;
use jit_core::model::glob::Pattern;
use jit_git::run::{Git, GitError};
use jit_os::file;

use crate::config::file_rules::How;

/// The file in the main checkout that names further files.
const INCLUDE: &str = ".worktreeinclude";
/// The largest such file.
const MAX_INCLUDE: u64 = 1 << 20;

/// Reads the patterns of `.worktreeinclude`. The file comes with the repository: no link is followed.
fn included(root: &Path) -> io::Result<Option<Ignore>> {
    let contents = file::read_real(&root.join(INCLUDE), MAX_INCLUDE)?;
    Ok(contents.map(|contents| Ignore::new().excludes_file(&contents)))
}

/// Whether a name from git may be brought: what belongs to git or to jit may not.
fn may_be_brought(name: &str) -> bool {
    name != ".jit"
        && !name.starts_with(".jit/")
        && name.split('/').all(|part| !part.eq_ignore_ascii_case(".git"))
}

/// Creates the folders above a file of the new worktree. A symbolic link among them may have come with the branch, and
/// is refused.
fn make_parents(root: &Path, name: &str) -> io::Result<()> {
    let mut folder = root.to_owned();
    let parts: Vec<&str> = name.split('/').collect();
    for part in parts.iter().take(parts.len().saturating_sub(1)) {
        folder.push(part);
        file::ensure_real_dir(&folder)?;
    }
    Ok(())
}

/// Lists untracked and ignored files of a checkout. A folder without tracked files is one name that ends in `/`. With
/// `only`, searches only these names.
fn untracked(root: &Path, only: Option<&[&str]>) -> Result<Vec<String>, GitError> {
    let mut all = BTreeSet::new();
    for ignored in [true, false] {
        let mut git = Git::at(root).arg("--literal-pathspecs").args([
            "ls-files",
            "-z",
            "--others",
            "--exclude-standard",
            "--directory",
        ]);
        if ignored {
            git = git.arg("--ignored");
        }
        let names = git.arg("--").args(only.unwrap_or_default()).run()?;
        all.extend(
            names
                .split(|b| *b == 0)
                .filter(|name| !name.is_empty())
                // A configured name is text, so other names cannot match.
                .filter_map(|name| std::str::from_utf8(name).ok())
                .map(str::to_owned),
        );
    }
    Ok(all.into_iter().collect())
}

/// Brings the files that match the rules, and returns their names.
pub fn bring(from: &Path, to: &Path, rules: &[(Pattern, How)]) -> Result<Vec<String>, String> {
    let include = included(from).map_err(|e| format!("{INCLUDE}: {e}"))?;
    let plain = |pattern: &Pattern| !pattern.is_glob() && !pattern.as_str().contains('\\');
    let there = |pattern: &Pattern| from.join(pattern.as_str()).symlink_metadata().is_ok();
    // Large checkouts have few of these files: a plain name that does not exist is not searched for.
    let rules: Vec<&(Pattern, How)> = rules
        .iter()
        .filter(|(pattern, _)| !plain(pattern) || there(pattern))
        .collect();
    if rules.is_empty() && include.is_none() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = rules.iter().map(|(pattern, _)| pattern.as_str()).collect();
    let only = include.is_none() && rules.iter().all(|(pattern, _)| plain(pattern));
    let only = only.then_some(names.as_slice());
    let mut brought = Vec::new();
    for name in untracked(from, only).map_err(|e| e.to_string())? {
        let plain = name.trim_end_matches('/');
        let matches =
            |pattern: &Pattern| pattern.matches(plain) || (name.ends_with('/') && pattern.matches(&name));
        let how = rules
            .iter()
            .find(|(pattern, _)| matches(pattern))
            .map(|(_, how)| *how);
        let included = || {
            let include = include.as_ref()?;
            include.ignores(plain, name.ends_with('/')).then_some(How::Copy)
        };
        let Some(how) = how.or_else(included) else {
            continue;
        };
        if !may_be_brought(plain) {
            continue;
        }
        let (source, goal) = (from.join(plain), to.join(plain));
        make_parents(to, plain).map_err(|e| format!("{plain}: {e}"))?;
        if goal.symlink_metadata().is_ok() {
            continue;
        }
        bring_one(&source, &goal, how).map_err(|e| format!("{plain}: {e}"))?;
        brought.push(plain.to_owned());
    }
    Ok(brought)
}

/// Returns patterns for those names that the checkout ignores. The patterns match the names literally.
pub fn ignored(root: &Path, names: &[&str]) -> Result<Vec<String>, GitError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let ask: String = names.iter().map(|name| format!("{name}\0")).collect();
    let git = Git::at(root).args(["check-ignore", "-z", "--stdin"]);
    let (_, out, _) = git.stdin(ask).try_run()?;
    let mut patterns = Vec::new();
    for name in String::from_utf8_lossy(&out)
        .split('\0')
        .filter(|name| !name.is_empty())
    {
        // A line of an exclude file cannot contain a newline.
        if name.contains('\n') {
            continue;
        }
        let mut pattern = String::from("/");
        for c in name.chars() {
            if matches!(c, '*' | '?' | '[' | '\\' | ' ') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        patterns.push(pattern);
    }
    Ok(patterns)
}

/// The files that a worktree may have from the main checkout.
#[derive(Debug)]
pub struct Brought {
    main: PathBuf,
    rules: Vec<(Pattern, How)>,
    include: Option<Ignore>,
}

impl Brought {
    pub fn new(main: &Path, rules: Vec<(Pattern, How)>) -> Self {
        Self {
            main: main.to_owned(),
            rules,
            include: included(main).ok().flatten(),
        }
    }

    /// Whether this name, or a folder above it, is brought and exists in the main checkout.
    pub fn has(&self, name: &str) -> bool {
        let plain = name.trim_end_matches('/');
        let is_named = |path: &str| {
            let folder = path != plain || name.ends_with('/');
            self.rules
                .iter()
                .any(|(pattern, _)| pattern.matches(path) || (folder && pattern.matches(&format!("{path}/"))))
                || self.include.as_ref().is_some_and(|all| all.ignores(path, folder))
        };
        let above = plain.match_indices('/').filter_map(|(at, _)| plain.get(..at));
        above.chain([plain]).any(is_named) && self.main.join(plain).symlink_metadata().is_ok()
    }

    /// The same for an untracked name from git, where a folder may stand for all its files.
    pub fn covers(&self, root: &Path, name: &[u8]) -> Result<bool, GitError> {
        let Ok(name) = std::str::from_utf8(name) else {
            return Ok(false);
        };
        if !name.ends_with('/') {
            return Ok(self.has(name));
        }
        let inside = Git::at(root)
            .args(["--literal-pathspecs", "ls-files", "-z", "--others"])
            .args(["--exclude-standard", "--", name])
            .run()?;
        let mut inside = inside.split(|b| *b == 0).filter(|one| !one.is_empty());
        Ok(inside.all(|one| std::str::from_utf8(one).is_ok_and(|one| self.has(one))))
    }
}

fn bring_one(source: &Path, goal: &Path, how: How) -> io::Result<()> {
    if how == How::SymLink {
        return std::os::unix::fs::symlink(source, goal);
    }
    // A stack on the heap, so that deep folders cannot overflow the call stack.
    let mut waiting: Vec<(PathBuf, PathBuf)> = vec![(source.to_owned(), goal.to_owned())];
    while let Some((source, goal)) = waiting.pop() {
        let meta = source.symlink_metadata()?;
        if meta.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&source)?, &goal)?;
        } else if meta.is_dir() {
            // A nested repository is not brought.
            if source.join(".git").symlink_metadata().is_ok() {
                continue;
            }
            std::fs::create_dir_all(&goal)?;
            for entry in std::fs::read_dir(&source)? {
                let entry = entry?;
                waiting.push((entry.path(), goal.join(entry.file_name())));
            }
        } else if meta.is_file() {
            match how {
                How::HardLink => std::fs::hard_link(&source, &goal)?,
                _ => std::fs::copy(&source, &goal).map(drop)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file_rules::rule;

    #[test]
    fn g3_rules_say_what_and_how() {
        let (pattern, how) = rule("node_modules = symlink").expect("a rule");
        assert_eq!((pattern.as_str(), how), ("node_modules", How::SymLink));
        assert_eq!(rule(".env").expect("a rule").1, How::Copy);
        assert!(rule(".env = teleport").is_err());
    }
}
