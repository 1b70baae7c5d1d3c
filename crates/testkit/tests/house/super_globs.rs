//! No `use super::*` outside test modules: a reader should see where a name comes from.

use super::paths::{From, named};
use super::sources::Sources;
use super::tree::{Tests, modules, roots};

pub fn findings(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for name in sources.crates() {
        for root in roots(sources, name) {
            for module in modules(sources, &root, Tests::LeftOut) {
                let upward = |segment: &String| segment == "super" || segment == "self";
                for path in named(&module.tokens) {
                    if path.from == From::Glob && path.segments.iter().all(upward) {
                        let whole = path.segments.join("::");
                        found.push(format!("{}:{}: use {whole}::*", module.file, path.line));
                    }
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::sources::Sources;
    use super::findings;

    #[test]
    fn everything_of_a_parent_is_imported_in_tests_only() {
        let sources = Sources::made_up(&[
            ("crates/a/Cargo.toml", ""),
            (
                "crates/a/src/lib.rs",
                "mod x; mod y {\n use super::*; }\n#[cfg(test)] mod tests { use super::*; }\nuse x::*;",
            ),
            (
                "crates/a/src/x.rs",
                "pub(crate) use super::{y, super::*};\nuse super::y::*;",
            ),
        ]);
        assert_eq!(
            findings(&sources),
            [
                "crates/a/src/lib.rs:2: use super::*",
                "crates/a/src/x.rs:1: use super::super::*"
            ]
        );
    }
}
