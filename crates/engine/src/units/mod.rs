//! Units of work on disk: their place, their creation and their files (G2, G3, G16).
//!
//! What must hold:
//!
//! - A unit's worktree is beside the checkouts, never inside one, and never at a path that already exists.
//! - Creating a worktree either ends with a worktree that is ready, or leaves nothing but the reason of the failure.
//! - Every step is written as "make sure that": after a crash the same steps run again.

pub(crate) mod confined_path;
pub mod disk_space;
pub mod files;
pub mod folders;
pub mod scope;
pub mod service;
pub mod submodules;
pub mod worktree_locate;
pub mod worktree_state;

use std::path::{Path, PathBuf};

use jit_core::model::ids::UnitId;
use jit_git::files::plain;

/// The placeholders of a template, and their values.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    pub unit: &'a UnitId,
    pub repository: &'a str,
    pub issue: Option<&'a str>,
}

/// Fills in the placeholders of a template. An unknown placeholder is an error, because it would end up in a path.
pub fn fill(template: &str, words: Words<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let (word, after) = after
            .split_once('}')
            .ok_or_else(|| format!("{template:?} has a {{ without a }}"))?;
        match word {
            "unit" => out.push_str(words.unit.as_str()),
            "repo" => out.push_str(words.repository),
            "issue" => out.push_str(words.issue.unwrap_or(words.unit.as_str())),
            other => {
                return Err(format!(
                    "{template:?}: there is no {{{other}}}, only {{unit}}, {{repo}} and {{issue}}"
                ));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Joins `path` to `base` and removes `.` and `..`, without access to the disk.
pub fn place(base: &Path, path: &str) -> PathBuf {
    plain(&base.join(path))
}

/// Returns the first port of a unit's block.
pub fn port(from: u64, slot: u32) -> u64 {
    from + u64::from(slot) * PORTS
}

/// Number of ports in a unit's block.
pub const PORTS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g2_templates_are_filled_in_or_refused() {
        let unit: UnitId = "date-1".parse().expect("a unit");
        let words = Words {
            unit: &unit,
            repository: "app",
            issue: Some("DATE-1"),
        };
        assert_eq!(
            fill("../{repo}-worktrees/{unit}", words).as_deref(),
            Ok("../app-worktrees/date-1")
        );
        assert_eq!(fill("{issue}", words).as_deref(), Ok("DATE-1"));
        assert!(fill("{nothing}", words).is_err());
        assert!(fill("{unit", words).is_err());
        assert_eq!(place(Path::new("/a/b"), "../c/./d"), PathBuf::from("/a/c/d"));
    }
}
