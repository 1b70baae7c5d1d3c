//! No dependency cycle among the top-level modules of a crate.
//!
//! Module `a` depends on module `b` when a file of `a` names a path of `b`. An item that the root file re-exports counts
//! as an item of the module it comes from. `crate::Result` does not count, and neither do tests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::paths::{From, Named, absolute, named};
use super::sources::Sources;
use super::tree::{Module, Tests, modules, roots};

/// From which module to which, and where.
type Edges = BTreeMap<(String, String), Vec<String>>;

pub fn findings(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for name in sources.crates() {
        for root in roots(sources, name) {
            let edges = edges(&modules(sources, &root, Tests::LeftOut));
            for group in tangled(&edges) {
                found.push(report(&root, &edges, &group));
            }
        }
    }
    found
}

fn edges(all: &[Module<'_>]) -> Edges {
    let root = Root::of(all);
    let mut edges = Edges::new();
    for module in all {
        let Some(from) = module.path.first() else { continue };
        let paths = named(&module.tokens);
        let sees_root = paths.iter().any(|path| {
            path.from == From::Glob && absolute(&module.path, &path.segments) == Some(Vec::new())
        });
        for path in &paths {
            let to = match absolute(&module.path, &path.segments) {
                Some(whole) => whole.first().and_then(|name| root.module_of(name)),
                // After `use crate::*` the modules of the root have no prefix.
                None if sees_root => path
                    .segments
                    .first()
                    .and_then(|head| root.modules.get(head))
                    .cloned(),
                None => None,
            };
            if let Some(to) = to.filter(|to| to != from) {
                let place = format!("{}:{}", module.file, path.line);
                let places = edges.entry((from.clone(), to)).or_default();
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
        }
    }
    edges
}

/// Resolves names in the root of a crate.
struct Root<'m, 'a> {
    all: &'m [Module<'a>],
    modules: BTreeSet<String>,
    /// Names that the root imports, and the modules that have them.
    imported: BTreeMap<String, String>,
    /// Modules of which it imports everything.
    globs: Vec<String>,
}

impl<'m, 'a> Root<'m, 'a> {
    fn of(all: &'m [Module<'a>]) -> Self {
        let modules: BTreeSet<String> = all
            .iter()
            .filter_map(|module| module.path.first().cloned())
            .collect();
        let (mut imported, mut globs) = (BTreeMap::new(), Vec::new());
        let own = all.iter().filter(|module| module.path.is_empty());
        for Named { segments, from, .. } in own.flat_map(|module| named(&module.tokens)) {
            let whole = absolute(&[], &segments).unwrap_or(segments);
            let Some(first) = whole.first().filter(|first| modules.contains(*first)) else {
                continue;
            };
            match from {
                From::Use(name) => drop(imported.insert(name, first.clone())),
                From::Glob => globs.push(first.clone()),
                From::Code => {}
            }
        }
        Self {
            all,
            modules,
            imported,
            globs,
        }
    }

    /// The top-level module that defines a name of the root.
    fn module_of(&self, name: &str) -> Option<String> {
        if name == "Result" {
            return None;
        }
        if let Some(module) = self.modules.get(name) {
            return Some(module.clone());
        }
        if let Some(module) = self.imported.get(name) {
            return Some(module.clone());
        }
        let defines = |module: &&Module<'_>| {
            let first = module.path.first();
            let exported = first.is_some_and(|first| self.globs.contains(first));
            module.tokens.windows(3).any(|three| match three {
                // A macro that is exported is at the root.
                [macro_rules, _, defined] if macro_rules.is("macro_rules") => defined.is(name),
                [keyword, defined, _] if exported => is_definition(keyword.text) && defined.is(name),
                _ => false,
            })
        };
        self.all.iter().find(defines)?.path.first().cloned()
    }
}

fn is_definition(keyword: &str) -> bool {
    [
        "struct", "enum", "union", "trait", "type", "fn", "const", "static",
    ]
    .contains(&keyword)
}

fn reached<'e>(edges: &'e Edges, from: &str) -> BTreeMap<&'e str, &'e str> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut waiting = VecDeque::from([from.to_owned()]);
    while let Some(at) = waiting.pop_front() {
        for (source, target) in edges.keys().filter(|(source, _)| *source == at) {
            if !before.contains_key(target.as_str()) {
                before.insert(target, source);
                waiting.push_back(target.clone());
            }
        }
    }
    before
}

/// Groups of modules that all reach each other.
fn tangled(edges: &Edges) -> Vec<BTreeSet<String>> {
    let names: BTreeSet<&String> = edges.keys().flat_map(|(from, to)| [from, to]).collect();
    let reach: BTreeMap<&String, BTreeSet<&str>> = names
        .iter()
        .map(|name| (*name, reached(edges, name).into_keys().collect()))
        .collect();
    let mut groups: Vec<BTreeSet<String>> = Vec::new();
    for name in names.iter().filter(|name| reach[*name].contains(name.as_str())) {
        let both =
            |other: &&&String| reach[*name].contains(other.as_str()) && reach[*other].contains(name.as_str());
        let group: BTreeSet<String> = names.iter().filter(both).map(|other| (*other).clone()).collect();
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// The fewest steps from a module of the group back to itself.
fn shortest(edges: &Edges, group: &BTreeSet<String>) -> Vec<String> {
    let ways = group.iter().map(|start| {
        let before = reached(edges, start);
        let mut way = vec![start.clone()];
        let mut at = start.as_str();
        while let Some(previous) = before.get(at) {
            way.push((*previous).to_owned());
            at = previous;
            if at == start {
                break;
            }
        }
        way.reverse();
        way
    });
    ways.min_by_key(Vec::len).unwrap_or_default()
}

fn report(root: &str, edges: &Edges, group: &BTreeSet<String>) -> String {
    let names: Vec<&str> = group.iter().map(String::as_str).collect();
    let mut text = format!(
        "{root}: {} modules depend on each other: {}\n  the shortest cycle: {}\n  all edges of the cycle:\n",
        group.len(),
        names.join(", "),
        shortest(edges, group).join(" -> ")
    );
    for ((from, to), places) in edges {
        if group.contains(from) && group.contains(to) {
            let more = match places.len() {
                1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            text.push_str(&format!("    {from} -> {to}: {}{more}\n", places[0]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::sources::Sources;
    use super::findings;

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("crates/a/Cargo.toml", "[package]\nname = \"jit-a\"")];
        all.extend_from_slice(files);
        findings(&Sources::made_up(&all))
    }

    #[test]
    fn one_way_is_fine() {
        let found = check(&[
            (
                "crates/a/src/lib.rs",
                "mod x; mod y; pub use x::X; pub type Result = x::X;",
            ),
            (
                "crates/a/src/x.rs",
                "use crate::Result; pub struct X; mod deep { use super::X; }",
            ),
            (
                "crates/a/src/y.rs",
                "use crate::x::X; use std::fs; // crate::z\nfn f() { \"crate::z is no path\"; }",
            ),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn two_modules_that_use_each_other_are_reported_with_their_lines() {
        let found = check(&[
            ("crates/a/src/lib.rs", "mod x; mod y; mod z;"),
            (
                "crates/a/src/x.rs",
                "\nuse crate::y::Y;\nfn f() { crate::y::g() }",
            ),
            ("crates/a/src/y/mod.rs", "mod inner;"),
            ("crates/a/src/y/inner.rs", "\n\nfn f(x: super::super::x::X) {}"),
            ("crates/a/src/z.rs", "use crate::{x, y};"),
        ]);
        let expected = "crates/a/src/lib.rs: 2 modules depend on each other: x, y
  the shortest cycle: x -> y -> x
  all edges of the cycle:
    x -> y: crates/a/src/x.rs:2 and 1 more
    y -> x: crates/a/src/y/inner.rs:3
";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn three_modules_in_a_ring_and_brace_groups_are_seen() {
        let found = check(&[
            ("crates/a/src/lib.rs", "mod x; mod y; mod z;"),
            ("crates/a/src/x.rs", "use crate::{Result, y::Y};"),
            ("crates/a/src/y.rs", "use super::{z::{Z, W}};"),
            ("crates/a/src/z.rs", "#[serde(with = \"crate::x\")] struct Z;"),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("x -> y -> z -> x"), "{}", found[0]);
    }

    #[test]
    fn names_of_the_root_are_followed_to_their_module() {
        for lib in [
            "mod x; mod y; pub use crate::x::X as Renamed;",
            "mod x; mod y; pub use x::*;",
        ] {
            let found = check(&[
                ("crates/a/src/lib.rs", lib),
                ("crates/a/src/x.rs", "use crate::y::Y; pub struct Renamed;"),
                ("crates/a/src/y.rs", "use crate::Renamed;"),
            ]);
            assert_eq!(found.len(), 1, "{lib}");
        }
        let found = check(&[
            ("crates/a/src/lib.rs", "mod x; mod y;"),
            (
                "crates/a/src/x.rs",
                "use crate::y::Y; #[macro_export] macro_rules! say { () => {} }",
            ),
            ("crates/a/src/y.rs", "fn f() { crate::say!() }"),
        ]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn after_everything_of_the_root_is_imported_names_need_no_prefix() {
        let found = check(&[
            ("crates/a/src/lib.rs", "mod x; mod y;"),
            ("crates/a/src/x.rs", "use super::*; fn f() { y::g() }"),
            ("crates/a/src/y.rs", "use crate::x::f;"),
        ]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let found = check(&[
            ("crates/a/src/lib.rs", "mod x; mod y;"),
            ("crates/a/src/x.rs", "use crate::y::Y;"),
            (
                "crates/a/src/y.rs",
                "#[cfg(test)] mod tests; #[cfg(test)] mod more { use crate::x::X; }",
            ),
            ("crates/a/src/y/tests.rs", "use crate::x::X;"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn two_programs_of_one_crate_are_looked_at_apart() {
        let found = check(&[
            ("crates/a/src/lib.rs", "mod x; mod y;"),
            ("crates/a/src/x.rs", "use crate::y::Y;"),
            ("crates/a/src/y.rs", ""),
            ("crates/a/src/bin/other/main.rs", "mod x; mod y;"),
            ("crates/a/src/bin/other/x.rs", ""),
            ("crates/a/src/bin/other/y.rs", "use crate::x::X;"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
