//! Faces know the engine only through its API.
//!
//! A face turns its own language into a request, and the reply back. Whatever else it takes from the engine is a second way
//! to do the same, which the other faces do not have.

use super::paths::named;
use super::sources::Sources;
use super::tree::{Tests, modules, roots};

/// The crates of faces, by folder.
const FACES: [&str; 4] = ["cli", "mcp", "web", "tui"];
const ENGINE: &str = "jit_engine";
/// The doors of the engine.
const DOORS: [&str; 4] = ["api", "handle", "stream", "coordinator"];

pub fn findings(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    let faces = sources.crates().filter(|name| FACES.contains(name));
    for root in faces.flat_map(|name| roots(sources, name)) {
        for module in modules(sources, &root, Tests::LeftOut) {
            for path in named(&module.tokens) {
                let [head, room, ..] = path.segments.as_slice() else {
                    continue;
                };
                if head == ENGINE && !DOORS.contains(&room.as_str()) {
                    let whole = path.segments.join("::");
                    found.push(format!("{}:{}: {whole}", module.file, path.line));
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
    fn rooms_of_the_engine_are_closed_to_faces() {
        let sources = Sources::made_up(&[
            ("crates/cli/Cargo.toml", ""),
            (
                "crates/cli/src/main.rs",
                "use jit_engine::api::Request;\nuse jit_engine::{handle, landing};\nfn f() { jit_engine::claims::acquire(); }\n\
                 #[cfg(test)] mod tests { use jit_engine::claims; }",
            ),
            ("crates/engine/Cargo.toml", ""),
            ("crates/engine/src/lib.rs", "use jit_engine::claims;"),
        ]);
        assert_eq!(
            findings(&sources),
            [
                "crates/cli/src/main.rs:2: jit_engine::landing",
                "crates/cli/src/main.rs:3: jit_engine::claims::acquire"
            ]
        );
    }
}
