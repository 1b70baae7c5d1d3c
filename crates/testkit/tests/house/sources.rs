//! The files that the rules look at.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Text by path. Paths are relative to the repository, with `/`.
pub struct Sources(BTreeMap<String, String>);

impl Sources {
    /// A made-up repository.
    pub fn made_up(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self(files.iter().map(owned).collect())
    }

    /// This repository: Rust sources, manifests and the list of requirements.
    pub fn of_the_repository() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = BTreeMap::new();
        for folder in ["crates", "bench", "build"] {
            read(&root, folder, &mut files);
        }
        let list = super::requirements::LIST;
        // Without the list the rule about it says so.
        if let Ok(text) = fs::read_to_string(root.join(list)) {
            files.insert(list.to_owned(), text);
        }
        assert!(
            files.contains_key("crates/testkit/Cargo.toml"),
            "the sources are not where they are expected: {}",
            root.display()
        );
        Self(files)
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    pub fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Paths of Rust sources, in order.
    pub fn rust(&self) -> impl Iterator<Item = &str> {
        self.0
            .keys()
            .map(String::as_str)
            .filter(|path| path.ends_with(".rs"))
    }

    /// The folders directly below `crates/` that have a manifest.
    pub fn crates(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|path| {
            let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then_some(name)
        })
    }

    pub fn manifest(&self, name: &str) -> toml::Table {
        let path = format!("crates/{name}/Cargo.toml");
        let text = self.text(&path).unwrap_or_default();
        text.parse().unwrap_or_else(|e| panic!("{path}: {e}"))
    }
}

fn read(root: &Path, folder: &str, into: &mut BTreeMap<String, String>) {
    let entries = fs::read_dir(root.join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}"));
    for entry in entries {
        let entry = entry.unwrap_or_else(|e| panic!("{folder}: {e}"));
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let path = format!("{folder}/{name}");
        if entry.path().is_dir() {
            // Builds may be anywhere; their outputs are not sources.
            if name != "target" {
                read(root, &path, into);
            }
        } else if name.ends_with(".rs") || name == "Cargo.toml" {
            let text = fs::read_to_string(entry.path()).unwrap_or_else(|e| panic!("{path}: {e}"));
            into.insert(path, text);
        }
    }
}
