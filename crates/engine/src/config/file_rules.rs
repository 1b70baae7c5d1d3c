//! TODO header

use jit_core::model::glob::Pattern;

/// How a file or folder gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Bytes of its own; shared until changed where the file system can do that.
    Copy,
    /// The same file under a second name: a change in one is a change in both.
    HardLink,
    /// A link to the main checkout's.
    SymLink,
}

impl How {
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("copy", Self::Copy),
        ("hardlink", Self::HardLink),
        ("symlink", Self::SymLink),
    ];
}

/// `node_modules = symlink`; `copy` when nothing is said.
pub fn rule(text: &str) -> Result<(Pattern, How), String> {
    let (pattern, how) = text.rsplit_once('=').unwrap_or((text, "copy"));
    let how = how.trim();
    let found = How::WORDS.iter().find(|(word, _)| *word == how);
    let (_, how) = found.ok_or_else(|| format!("{how:?} is not copy, hardlink or symlink"))?;
    Ok((Pattern::parse(pattern.trim()).map_err(|e| e.to_string())?, *how))
}
