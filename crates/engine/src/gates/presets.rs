//! Predefined gates for common stacks.
//!
//! A preset's commands use only the tools that come with that stack.

use std::path::Path;

use jit_core::model::refusal::Code;
use jit_store::Outcome;

use crate::api::gates::{Draft, Gate, GateName};
use crate::refusals::refuse;

/// Name, command, seconds, description.
type Row = (&'static str, &'static str, u64, &'static str);

/// All presets: name, the files that identify a tree, gates.
const PRESETS: &[(&str, &[&str], &[Row])] = &[
    (
        "cargo",
        &["Cargo.toml"],
        &[
            ("fmt", "cargo fmt --all -- --check", 120, "the code is formatted"),
            (
                "clippy",
                "cargo clippy --workspace --all-targets -- -D warnings",
                1200,
                "no lint complains",
            ),
            ("test", "cargo test --workspace", 1800, "all tests pass"),
        ],
    ),
    (
        "npm",
        &["package.json"],
        &[
            ("lint", "npm run --silent lint", 300, "no lint complains"),
            ("test", "npm test --silent", 900, "all tests pass"),
            ("build", "npm run --silent build", 900, "it builds"),
        ],
    ),
    (
        "pytest",
        &["pyproject.toml", "pytest.ini", "setup.cfg"],
        &[("test", "python3 -m pytest -q", 900, "all tests pass")],
    ),
    (
        "go",
        &["go.mod"],
        &[
            ("vet", "go vet ./...", 600, "vet finds nothing"),
            ("test", "go test ./...", 1800, "all tests pass"),
        ],
    ),
];

/// Returns the names of the presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _, _)| *name)
}

/// Returns the gates of a preset.
pub fn preset(name: &str) -> Option<Vec<(GateName, Gate)>> {
    let (_, _, rows) = PRESETS.iter().find(|(known, _, _)| *known == name)?;
    rows.iter().map(gate).collect()
}

fn gate((name, command, secs, description): &Row) -> Option<(GateName, Gate)> {
    let draft = Draft {
        timeout_secs: *secs,
        description: Some((*description).to_owned()),
        ..Draft::automatic(*command)
    };
    // A test finds a row that is not a valid gate.
    Some((name.parse().ok()?, draft.try_into().ok()?))
}

/// Returns the gates of a preset with the caller's timeout and types of issues.
pub fn with(
    preset: &str,
    timeout_secs: Option<u64>,
    required_for: &[String],
) -> Outcome<Vec<(GateName, Gate)>> {
    let gates = self::preset(preset).ok_or_else(|| {
        let known: Vec<&str> = names().collect();
        let known = known.join(", ");
        refuse(
            Code::Invalid,
            format!("there is no preset {preset:?}; there are: {known}"),
        )
    })?;
    let with_options = |(name, gate): (GateName, Gate)| {
        let draft = Draft {
            command: gate.command().map(str::to_owned),
            manual: gate.is_manual(),
            timeout_secs: timeout_secs.unwrap_or(gate.timeout().as_secs()),
            description: gate.description().map(str::to_owned),
            required_for: required_for.to_vec(),
        };
        Ok((name, draft.try_into().map_err(|e| refuse(Code::Invalid, e))?))
    };
    gates.into_iter().map(with_options).collect()
}

/// Returns the presets that fit the files at the top of a tree.
pub fn detect(root: &Path) -> Vec<&'static str> {
    let there = |file: &&str| root.join(file).is_file();
    PRESETS
        .iter()
        .filter(|(_, files, _)| files.iter().any(there))
        .map(|(name, _, _)| *name)
        .collect()
}
