//! Rules of `worktree.files`: the untracked files that a new worktree gets from the main checkout, and how it gets
//! them.
//!
//! Format: `<pattern> = copy|hardlink|symlink`; without a word it is `copy`.

use jit_core::model::glob::Pattern;

/// The way a file or folder gets into a new worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Its own bytes; shared until changed if the file system supports that.
    Copy,
    /// The same file under a second name: a change in one is a change in both.
    HardLink,
    /// A symbolic link to the main checkout's file.
    SymLink,
}

impl How {
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("copy", Self::Copy),
        ("hardlink", Self::HardLink),
        ("symlink", Self::SymLink),
    ];
}

/// Parses a rule such as `node_modules = symlink`; the default is `copy`.
pub fn rule(text: &str) -> Result<(Pattern, How), String> {
    let (pattern, how) = text.rsplit_once('=').unwrap_or((text, "copy"));
    let how = how.trim();
    let found = How::WORDS.iter().find(|(word, _)| *word == how);
    let (_, how) = found.ok_or_else(|| format!("{how:?} is not copy, hardlink or symlink"))?;
    Ok((Pattern::parse(pattern.trim()).map_err(|e| e.to_string())?, *how))
}
