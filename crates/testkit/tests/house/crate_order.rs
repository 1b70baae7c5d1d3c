//! Crates depend one way.
//!
//! A crate may depend on crates of the groups before its own. Crates of one group do not know each other, with one
//! exception: `os` implements what `core` describes, such as clocks. Dev-dependencies keep the order too, except the one on
//! `jit-testkit`, which nothing may ship.

use super::sources::Sources;

const ORDER: [&[&str]; 6] = [
    &["jit-core", "jit-os"],
    &["jit-git", "jit-store"],
    &["jit-remote", "jit-agents"],
    &["jit-engine"],
    &["jit-mcp", "jit-web", "jit-tui"],
    &["jit-cli"],
];
const WITHIN_A_GROUP: [(&str, &str); 1] = [("jit-os", "jit-core")];
const TESTKIT: &str = "jit-testkit";

fn rank(package: &str) -> Option<usize> {
    ORDER.iter().position(|group| group.contains(&package))
}

pub fn findings(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for name in sources.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = sources.manifest(name);
        let package = manifest.get("package").and_then(|package| package.get("name"));
        let package = package.and_then(toml::Value::as_str).unwrap_or_default();
        if package == TESTKIT {
            continue;
        }
        let Some(own) = rank(package) else {
            found.push(format!(
                "{path}: package `{package}` has no place in the order of crates"
            ));
            continue;
        };
        let mut dependencies = Vec::new();
        collect(&manifest, &mut dependencies);
        for (section, dependency) in dependencies {
            let below = rank(&dependency).is_some_and(|rank| rank < own)
                || WITHIN_A_GROUP.contains(&(package, dependency.as_str()))
                || dependency == TESTKIT && section == "dev-dependencies";
            if !below {
                let line = line(sources.text(&path).unwrap_or_default(), &section, &dependency);
                found.push(format!(
                    "{path}:{line}: {package} -> {dependency} in [{section}]: {}",
                    if dependency == TESTKIT {
                        "only a dev-dependency may be on the test kit"
                    } else {
                        "this points upward or sideways"
                    }
                ));
            }
        }
    }
    found
}

/// Dependencies on crates of this workspace with their sections, those for some systems only included.
fn collect(table: &toml::Table, found: &mut Vec<(String, String)>) {
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(toml::Value::Table(dependencies)) = table.get(section) else {
            continue;
        };
        for (key, value) in dependencies {
            // It may go by another name here.
            let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
            if package.starts_with("jit-") {
                found.push((section.to_owned(), package.to_owned()));
            }
        }
    }
    if let Some(toml::Value::Table(targets)) = table.get("target") {
        for target in targets.values().filter_map(toml::Value::as_table) {
            collect(target, found);
        }
    }
}

/// The line on which a manifest names a dependency in a section, or 1.
fn line(text: &str, section: &str, dependency: &str) -> usize {
    let mut inside = false;
    for (n, line) in text.lines().enumerate() {
        if let Some(header) = line.trim().strip_prefix('[') {
            inside = header.contains(section);
            // `[dev-dependencies]` is no `[dependencies]`.
            inside &= section != "dependencies" || !header.contains("-dependencies");
        }
        if inside && line.contains(dependency) {
            return n + 1;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::super::sources::Sources;
    use super::findings;

    fn check(manifests: &[(&str, &str)]) -> Vec<String> {
        findings(&Sources::made_up(manifests))
    }

    const CORE: (&str, &str) = ("crates/core/Cargo.toml", "[package]\nname = \"jit-core\"");

    #[test]
    fn downward_is_fine_and_so_are_tests() {
        let store = "[package]\nname = \"jit-store\"\n[dependencies]\njit-core.workspace = true\nserde = \"1\"\n\
                     [dev-dependencies]\njit-testkit.workspace = true";
        let os = "[package]\nname = \"jit-os\"\n[dependencies]\njit-core.workspace = true";
        let kit = "[package]\nname = \"jit-testkit\"\n[dependencies]\njit-store.workspace = true";
        let found = check(&[
            CORE,
            ("crates/kit/Cargo.toml", kit),
            ("crates/os/Cargo.toml", os),
            ("crates/store/Cargo.toml", store),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn upward_and_sideways_are_reported() {
        let core = "[package]\nname = \"jit-core\"\n\n[dependencies]\nserde = \"1\"\njit-os.workspace = true";
        let git = "[package]\nname = \"jit-git\"\n[target.'cfg(unix)'.dependencies]\n\
                   s = { package = \"jit-store\", path = \"../store\" }\n[dev-dependencies.jit-engine]\nworkspace = true";
        let found = check(&[("crates/core/Cargo.toml", core), ("crates/git/Cargo.toml", git)]);
        assert_eq!(
            found,
            [
                "crates/core/Cargo.toml:6: jit-core -> jit-os in [dependencies]: this points upward or sideways",
                "crates/git/Cargo.toml:5: jit-git -> jit-engine in [dev-dependencies]: this points upward or sideways",
                "crates/git/Cargo.toml:4: jit-git -> jit-store in [dependencies]: this points upward or sideways",
            ]
        );
    }

    #[test]
    fn the_test_kit_is_not_shipped() {
        let engine = "[package]\nname = \"jit-engine\"\n[dependencies]\njit-testkit.workspace = true";
        let found = check(&[CORE, ("crates/engine/Cargo.toml", engine)]);
        let expected = "crates/engine/Cargo.toml:4: jit-engine -> jit-testkit in [dependencies]: only a dev-dependency \
                        may be on the test kit";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        let found = check(&[("crates/new/Cargo.toml", "[package]\nname = \"jit-new\"")]);
        assert_eq!(
            found,
            ["crates/new/Cargo.toml: package `jit-new` has no place in the order of crates"]
        );
    }
}
