//! The shape of the code, checked: these tests read the sources and manifests of this repository as text.
//!
//! | test | rule |
//! |---|---|
//! | `modules_do_not_depend_in_cycles` | modules of the same parent form no dependency cycle, on every level; `cycles::TANGLED` lists the parents where they still do |
//! | `crates_depend_one_way` | a crate depends only on crates below it; `jit-testkit` is a dev-dependency only |
//! | `faces_use_the_api_only` | the command line and the other faces name nothing of the engine but its doors |
//! | `modules_import_by_name` | no `use super::*` outside test modules |
//! | `impl_blocks_of_a_type_stay_together` | the inherent `impl` blocks of one type are in at most six files |
//! | `every_file_is_listed_as_a_module` | each source and test file is compiled: some `mod` names it |
//! | `cited_requirements_are_explained` | each requirement id in a test name has a row in `docs/requirements.md` |
//!
//! Each rule is a pure function, sources in, findings out, with its own tests on small made-up crates.
//!
//! Limitations: this is no compiler. Modules that a macro declares are not seen, and neither are paths that a macro puts
//! together. An `impl` of an imported type is matched with its definition by name and nearness.

mod crate_order;
mod cycles;
mod faces;
mod impls;
mod listed;
mod paths;
mod requirements;
mod sources;
mod super_globs;
mod syntax;
mod tree;

use sources::Sources;

/// Fails with all findings and the advice.
#[track_caller]
fn assert_none(findings: &[String], advice: &str) {
    assert!(
        findings.is_empty(),
        "{} found:\n\n{}\n\nWhat to do: {advice}\n",
        findings.len(),
        findings.join("\n")
    );
}

#[test]
fn modules_do_not_depend_in_cycles() {
    assert_none(
        &cycles::findings(&Sources::of_the_repository()),
        "cut the edge with the fewest places. Move the type that both modules need down into a module that uses neither, \
         or move the function that looks upward to its caller.",
    );
}

#[test]
fn crates_depend_one_way() {
    assert_none(
        &crate_order::findings(&Sources::of_the_repository()),
        "move the shared type down into the lower crate. If the order itself is wrong, change it in \
         crates/testkit/tests/house/crate_order.rs and say why in ARCHITECTURE.md.",
    );
}

#[test]
fn faces_use_the_api_only() {
    assert_none(
        &faces::findings(&Sources::of_the_repository()),
        "send a request. If there is none, add a variant to the noun in crates/engine/src/api and carry it out in the \
         room of that noun.",
    );
}

#[test]
fn modules_import_by_name() {
    assert_none(
        &super_globs::findings(&Sources::of_the_repository()),
        "name what the module uses: `use super::{A, b}`.",
    );
}

#[test]
fn impl_blocks_of_a_type_stay_together() {
    assert_none(
        &impls::findings(&Sources::of_the_repository()),
        "the type does too much. Split it, or turn methods into functions of the module that needs them.",
    );
}

#[test]
fn every_file_is_listed_as_a_module() {
    assert_none(
        &listed::findings(&Sources::of_the_repository()),
        "add `mod name;` to the parent module (for a test suite: to its main.rs), or delete the file.",
    );
}

#[test]
fn cited_requirements_are_explained() {
    assert_none(
        &requirements::findings(&Sources::of_the_repository()),
        "add a row for the id to docs/requirements.md. If the name only looks like an id, change the name.",
    );
}
