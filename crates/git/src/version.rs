//! The oldest git that jit works with, and the version of the git on PATH.
//!
//! Git 2.39 is the first that predicts many merges in one process (`git merge-tree --stdin`). It is the git of Debian 12.

use std::path::Path;

use crate::run::Git;

/// The oldest supported git: major and minor number.
pub const OLDEST: (u32, u32) = (2, 39);

/// The version that `git --version` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitVersion {
    /// The whole line, such as `git version 2.39.5`.
    pub text: String,
    numbers: Option<(u32, u32)>,
}

impl GitVersion {
    /// Reads the line that `git --version` prints.
    pub fn parse(text: &str) -> Self {
        let mut numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|part| part.parse().ok());
        Self {
            text: text.to_owned(),
            numbers: numbers.next().zip(numbers.next()),
        }
    }

    /// The git that is started in `dir`; `None` if there is none.
    pub fn installed(dir: impl AsRef<Path>) -> Option<Self> {
        let text = Git::at(dir).arg("--version").line().ok()?;
        Some(Self::parse(&text))
    }

    pub fn is_supported(&self) -> bool {
        self.numbers.is_some_and(|numbers| numbers >= OLDEST)
    }
}

/// The oldest supported git, for messages: `2.39`.
pub fn oldest() -> String {
    format!("{}.{}", OLDEST.0, OLDEST.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m3_versions_of_all_vendors_are_read() {
        for (text, supported) in [
            ("git version 2.39.5", true),
            ("git version 2.39.5 (Apple Git-154)", true),
            ("git version 2.47.3", true),
            ("git version 3.0.0-rc1", true),
            ("git version 2.45.1.windows.1", true),
            ("git version 2.38.9", false),
            ("git version 1.99", false),
            ("git version", false),
            ("", false),
        ] {
            assert_eq!(GitVersion::parse(text).is_supported(), supported, "{text}");
        }
    }
}
