//! Every source and test file is part of some program: cargo finds it, or a `mod` names it.
//!
//! Without a `mod`, rustc never compiles a file, and nobody notices that its tests do not run.

use std::collections::BTreeSet;

use super::sources::Sources;
use super::tree::{Tests, modules, roots, test_roots};

pub fn findings(sources: &Sources) -> Vec<String> {
    let mut listed = BTreeSet::new();
    for name in sources.crates() {
        for root in roots(sources, name).into_iter().chain(test_roots(sources, name)) {
            let all = modules(sources, &root, Tests::Included);
            listed.extend(all.into_iter().map(|module| module.file));
        }
    }
    let in_a_crate = |path: &&str| {
        let inner = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
        inner.is_some_and(|(_, inner)| inner.starts_with("src/") || inner.starts_with("tests/"))
    };
    let all = sources.rust().filter(in_a_crate);
    all.filter(|path| !listed.contains(*path))
        .map(|path| format!("{path}: no `mod` names this file"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sources::Sources;
    use super::findings;

    #[test]
    fn files_that_no_module_names_are_reported() {
        let sources = Sources::made_up(&[
            (
                "crates/a/Cargo.toml",
                "[[test]]\nname = \"odd\"\npath = \"tests/odd/start.rs\"",
            ),
            ("crates/a/src/lib.rs", "#[cfg(test)] mod tests;"),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/src/lost.rs", ""),
            ("crates/a/tests/alone.rs", "mod common;"),
            ("crates/a/tests/common/mod.rs", ""),
            ("crates/a/tests/odd/start.rs", ""),
            ("crates/a/tests/suite/main.rs", "mod listed; mod helpers;"),
            ("crates/a/tests/suite/listed.rs", ""),
            ("crates/a/tests/suite/forgotten.rs", ""),
            ("crates/a/tests/suite/helpers/mod.rs", "mod kinds;"),
            ("crates/a/tests/suite/helpers/kinds.rs", ""),
        ]);
        assert_eq!(
            findings(&sources),
            [
                "crates/a/src/lost.rs: no `mod` names this file",
                "crates/a/tests/suite/forgotten.rs: no `mod` names this file",
            ]
        );
    }
}
