//! No dependency cycle among modules of the same parent, on every level of a crate.
//!
//! Module `a` depends on module `b` when a file of `a`, or of a module below it, names a path of `b`. An item that the
//! parent's file re-exports counts as an item of the module it comes from. `crate::Result` does not count, and neither do
//! tests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::paths::{From, Named, absolute, named};
use super::sources::Sources;
use super::tree::{Module, Tests, modules, roots};

/// From which module to which, and where.
type Edges = BTreeMap<(String, String), Vec<String>>;

/// Modules whose parts still depend on each other. None may be added.
const TANGLED: [&str; 10] = [
    "crates/engine/src/lib.rs, api",
    "crates/engine/src/lib.rs, attempts",
    "crates/engine/src/lib.rs, hooks::agent",
    "crates/engine/src/lib.rs, hooks::git",
    "crates/engine/src/lib.rs, init",
    "crates/engine/src/lib.rs, issues::sync",
    "crates/engine/src/lib.rs, landing",
    "crates/engine/src/lib.rs, units",
    "crates/engine/src/lib.rs, worktrees",
    "crates/engine/src/lib.rs, worktrees::rescue",
];

pub fn findings(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for name in sources.crates() {
        for root in roots(sources, name) {
            let modules = modules(sources, &root, Tests::LeftOut);
            let all: Vec<Names<'_, '_>> = modules.iter().map(Names::of).collect();
            let parents: BTreeSet<&[String]> = modules
                .iter()
                .filter_map(|module| module.path.split_last().map(|(_, parent)| parent))
                .collect();
            for parent in parents {
                let edges = edges(&all, parent);
                let place = match parent {
                    [] => root.clone(),
                    _ => format!("{root}, {}", parent.join("::")),
                };
                let groups = tangled(&edges);
                if TANGLED.contains(&place.as_str()) {
                    if groups.is_empty() {
                        found.push(format!("{place}: no longer tangled; leave it out of TANGLED"));
                    }
                    continue;
                }
                found.extend(groups.iter().map(|group| report(&place, &edges, group)));
            }
        }
    }
    found
}

/// A module, and the paths that it names.
struct Names<'m, 'a> {
    module: &'m Module<'a>,
    paths: Vec<Named>,
}

impl<'m, 'a> Names<'m, 'a> {
    fn of(module: &'m Module<'a>) -> Self {
        let paths = named(&module.tokens);
        Self { module, paths }
    }
}

/// The edges among the modules of one parent.
fn edges(all: &[Names<'_, '_>], parent: &[String]) -> Edges {
    let parent = Parent::of(all, parent);
    let mut edges = Edges::new();
    for Names { module, paths } in &parent.below {
        let Some(from) = module.path.get(parent.path.len()) else {
            continue;
        };
        let below = |segments: &[String]| -> Option<Vec<String>> {
            let whole = absolute(&module.path, segments)?;
            whole.strip_prefix(parent.path).map(<[String]>::to_vec)
        };
        let sees_parent = paths
            .iter()
            .any(|path| path.from == From::Glob && below(&path.segments) == Some(Vec::new()));
        for path in paths {
            let to = match below(&path.segments) {
                Some(rest) => rest.first().and_then(|name| parent.module_of(name)),
                // After `use crate::*` the modules of the root have no prefix.
                None if sees_parent => path
                    .segments
                    .first()
                    .and_then(|head| parent.modules.get(head))
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

/// Resolves names in a module that has others below it.
struct Parent<'n, 'm, 'a> {
    path: &'n [String],
    /// The modules below it, at any depth.
    below: Vec<&'n Names<'m, 'a>>,
    modules: BTreeSet<String>,
    /// Names that it imports, and the modules that have them.
    imported: BTreeMap<String, String>,
    /// Modules of which it imports everything.
    globs: Vec<String>,
}

impl<'n, 'm, 'a> Parent<'n, 'm, 'a> {
    fn of(all: &'n [Names<'m, 'a>], parent: &'n [String]) -> Self {
        let rest = |names: &&Names<'_, '_>| names.module.path.strip_prefix(parent).map(<[String]>::len);
        let (below, own): (Vec<_>, Vec<_>) = all
            .iter()
            .filter(|names| rest(names).is_some())
            .partition(|names| rest(names) > Some(0));
        let modules: BTreeSet<String> = below
            .iter()
            .filter_map(|names| names.module.path.get(parent.len()).cloned())
            .collect();
        let (mut imported, mut globs) = (BTreeMap::new(), Vec::new());
        for Named { segments, from, .. } in own.iter().flat_map(|names| &names.paths) {
            let whole = match absolute(parent, segments) {
                Some(whole) => whole.strip_prefix(parent).map(<[String]>::to_vec),
                None => Some(segments.clone()),
            };
            let first = whole.and_then(|whole| whole.first().cloned());
            let Some(first) = first.filter(|first| modules.contains(first)) else {
                continue;
            };
            match from {
                From::Use(name) => drop(imported.insert(name.clone(), first)),
                From::Glob => globs.push(first),
                From::Code => {}
            }
        }
        Self {
            path: parent,
            below,
            modules,
            imported,
            globs,
        }
    }

    /// The module below it that defines this name.
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
        let first = |names: &Names<'_, '_>| names.module.path.get(self.path.len()).cloned();
        let defines = |names: &&&Names<'_, '_>| {
            let exported = first(names).is_some_and(|first| self.globs.contains(&first));
            names.module.tokens.windows(3).any(|three| match three {
                // A macro that is exported is at the root.
                [macro_rules, _, defined] if macro_rules.is("macro_rules") => {
                    self.path.is_empty() && defined.is(name)
                }
                [keyword, defined, _] if exported => is_definition(keyword.text) && defined.is(name),
                _ => false,
            })
        };
        first(self.below.iter().find(defines)?)
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
    fn modules_below_the_top_are_looked_at_too() {
        let found = check(&[
            ("crates/a/src/lib.rs", "mod x;"),
            ("crates/a/src/x/mod.rs", "mod y; mod z; pub use z::Z;"),
            ("crates/a/src/x/y.rs", "use super::Z;"),
            ("crates/a/src/x/z/mod.rs", "mod deep;"),
            ("crates/a/src/x/z/deep.rs", "use crate::x::y::Y;"),
        ]);
        assert_eq!(found.len(), 1);
        let expected = "crates/a/src/lib.rs, x: 2 modules depend on each other: y, z";
        assert!(found[0].starts_with(expected), "{}", found[0]);
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
