//! What README.md tells people to type works, in the order in which it tells it.

use std::path::Path;

use jit_testkit::world::{Ran, World};

const JIT: &str = env!("CARGO_BIN_EXE_jit");
const README: &str = include_str!("../../../../README.md");

/// A line for a shell, with `jit` on its PATH.
fn shell(world: &World, line: &str) -> Ran {
    let bin = Path::new(JIT).parent().expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path)));
    let mut command = world.command("sh", &world.repo());
    command.env("PATH", path.expect("a path")).args(["-c", line]);
    world.run(command)
}

fn section(title: &str) -> &'static str {
    let (_, rest) = README.split_once(&format!("## {title}\n")).expect(title);
    rest.split("\n## ").next().unwrap_or_default()
}

#[test]
fn i1_the_quick_start_works_as_printed() {
    let world = World::new(JIT);
    let mut done = Vec::new();
    for line in section("Quick start")
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
    {
        if let Some(refused) = line.strip_prefix("$ ") {
            // The sample of a refusal needs a holder.
            let _ = shell(&world, "jit claim acquire SORT-1").ok();
            let error = shell(&world, refused).exits(4).json()["error"].clone();
            assert_eq!(error["code"], "held");
            for name in ["message", "help", "retryable", "details"] {
                assert!(!error[name].is_null(), "{name}");
            }
        } else if line.starts_with("jit ") {
            let _ = shell(&world, line).ok();
            done.push(line);
        }
    }
    assert!(done.len() >= 6, "{done:?}");
}

#[test]
fn i1_every_command_that_the_readme_names_exists() {
    let world = World::new(JIT);
    let mut named = 0;
    for command in README.split('`').filter(|text| text.starts_with("jit ")) {
        let words: Vec<&str> = command
            .split(' ')
            .skip(1)
            .take_while(|w| w.starts_with(char::is_alphabetic))
            .collect();
        let verb = words
            .iter()
            .take_while(|w| w.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
            .take(2);
        let ran = world.jit(verb.chain(&["--help"])).ok();
        for flag in command.split(' ').filter(|word| word.starts_with("--")) {
            assert!(ran.stdout.contains(flag), "{command}: {flag}");
        }
        named += 1;
    }
    assert!(named >= 8, "{named}");
}

#[test]
fn i1_links_in_the_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/exit-codes-and-json.md",
    ] {
        let file = root.join(name);
        let text = std::fs::read_to_string(&file).expect(name);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.contains("://") {
                let there = file.parent().expect("a folder").join(link);
                assert!(there.exists(), "{name}: {link}");
            }
        }
    }
}
