//! The inherent `impl` blocks of one type are in at most [`MOST`] files.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{From, absolute, named};
use super::sources::Sources;
use super::syntax::{Kind, Token};
use super::tree::{Module, Tests, modules, roots};

const MOST: usize = 6;

/// A type is known by the module that defines it and its name.
type Type = (Vec<String>, String);

pub fn findings(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for name in sources.crates() {
        for root in roots(sources, name) {
            for ((path, name), places) in blocks(&modules(sources, &root, Tests::LeftOut)) {
                let files: BTreeSet<&str> = places
                    .iter()
                    .filter_map(|place| Some(place.rsplit_once(':')?.0))
                    .collect();
                if files.len() > MOST {
                    let whole = path.iter().chain([&name]).cloned().collect::<Vec<_>>().join("::");
                    let count = files.len();
                    let places = places.join("\n    ");
                    found.push(format!(
                        "{root}: `{whole}` has impl blocks in {count} files, more than {MOST}:\n    {places}"
                    ));
                }
            }
        }
    }
    found
}

/// Where each type has inherent `impl` blocks.
fn blocks(all: &[Module<'_>]) -> BTreeMap<Type, Vec<String>> {
    let mut defined: BTreeMap<&str, Vec<&[String]>> = BTreeMap::new();
    for module in all {
        for pair in module.tokens.windows(2) {
            if ["struct", "enum", "union"].contains(&pair[0].text) && pair[1].kind == Kind::Word {
                defined.entry(pair[1].text).or_default().push(&module.path);
            }
        }
    }
    let mut found: BTreeMap<Type, Vec<String>> = BTreeMap::new();
    for module in all {
        for (at, token) in module.tokens.iter().enumerate() {
            if !token.is("impl") || !begins_an_item(&module.tokens[..at]) {
                continue;
            }
            let Some(segments) = implemented(&module.tokens[at + 1..]) else {
                continue;
            };
            let name = segments[segments.len() - 1].clone();
            let candidates = defined.get(name.as_str()).map_or(&[][..], Vec::as_slice);
            let of = definition(module, &segments, candidates);
            let place = format!("{}:{}", module.file, token.line);
            found.entry((of, name)).or_default().push(place);
        }
    }
    found
}

/// Whether `impl` after these tokens is an item, and not a type such as `-> impl Iterator`.
fn begins_an_item(before: &[Token<'_>]) -> bool {
    before.last().is_none_or(|last| {
        matches!(last.text, "}" | "{" | ";" | "]" | "unsafe" | "default") && last.kind != Kind::Text
    })
}

/// The path of the type in `impl<…> path<…> … {`; nothing if a trait is implemented.
fn implemented(tokens: &[Token<'_>]) -> Option<Vec<String>> {
    let mut at = 0;
    if tokens.first()?.is("<") {
        at = after_angle(tokens, 0);
    }
    let mut segments = Vec::new();
    while let Some(token) = tokens.get(at) {
        if token.kind == Kind::Word && token.text != "for" && token.text != "where" {
            segments.push(token.text.to_owned());
            at += 1;
        } else if token.is("::") {
            at += 1;
        } else {
            break;
        }
    }
    if tokens.get(at)?.is("<") {
        at = after_angle(tokens, at);
    }
    let next = tokens.get(at)?;
    (!segments.is_empty() && (next.is("{") || next.is("where"))).then_some(segments)
}

fn after_angle(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (n, token) in tokens.iter().enumerate().skip(open) {
        depth += i32::from(token.is("<")) - i32::from(token.is(">"));
        if depth == 0 {
            return n + 1;
        }
    }
    tokens.len()
}

/// The module that defines the type: this one, the one it is imported from, or else the nearest that has such a name.
fn definition(module: &Module<'_>, segments: &[String], candidates: &[&[String]]) -> Vec<String> {
    if segments.len() == 1 && candidates.contains(&module.path.as_slice()) {
        return module.path.clone();
    }
    let imported = named(&module.tokens)
        .into_iter()
        .find_map(|path| match path.from {
            From::Use(name) if name == segments[0] => absolute(&module.path, &path.segments),
            _ => None,
        });
    let mut near = imported
        .or_else(|| absolute(&module.path, segments))
        .unwrap_or_else(|| module.path.clone());
    if near.last() == segments.last() {
        near.pop();
    }
    let shared = |path: &[String]| path.iter().zip(&near).take_while(|(a, b)| a == b).count();
    let best = candidates
        .iter()
        .max_by_key(|path| (shared(path), std::cmp::Reverse(path.len())));
    best.map_or(near.clone(), |path| path.to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::sources::Sources;
    use super::{MOST, blocks, findings, modules};
    use crate::tree::Tests;

    fn counted(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let sources = Sources::made_up(files);
        let all = modules(&sources, "crates/a/src/lib.rs", Tests::LeftOut);
        let show = |((path, name), places): ((Vec<String>, String), Vec<String>)| {
            (format!("{}::{name}", path.join("::")), places.len())
        };
        blocks(&all).into_iter().map(show).collect()
    }

    #[test]
    fn only_inherent_blocks_count() {
        let source = "struct S<T>(T); impl<T: Fn() -> u8> S<T> where T: Copy {} impl Clone for S<u8> {} impl<T> Tr<T> for S<T> {} \
                      #[x] impl S<u8> { fn f(a: impl Fn()) -> impl Iterator { } } impl crate::S<u16> {}";
        assert_eq!(
            counted(&[("crates/a/src/lib.rs", source)]),
            [("::S".to_owned(), 3)]
        );
    }

    #[test]
    fn types_of_one_name_are_kept_apart() {
        let found = counted(&[
            ("crates/a/src/lib.rs", "mod x; mod y; mod z;"),
            ("crates/a/src/x.rs", "mod deep; struct S; impl S {}"),
            ("crates/a/src/x/deep.rs", "use super::S; impl S {}"),
            ("crates/a/src/y.rs", "struct S; impl S {}"),
            (
                "crates/a/src/z.rs",
                "use crate::y::S; impl S {} mod w { impl crate::x::S {} }",
            ),
        ]);
        assert_eq!(found, [("x::S".to_owned(), 3), ("y::S".to_owned(), 2)]);
    }

    #[test]
    fn a_type_in_too_many_files_is_reported() {
        let mut files = vec![
            ("crates/a/Cargo.toml".to_owned(), String::new()),
            ("crates/a/src/lib.rs".to_owned(), "pub struct App;".to_owned()),
        ];
        let add = |files: &mut Vec<(String, String)>, n: usize| {
            files[1].1.push_str(&format!("mod m{n};"));
            let text = "use crate::App;\nimpl App {}\nimpl App {}".to_owned();
            files.push((format!("crates/a/src/m{n}.rs"), text));
        };
        let check = |files: &[(String, String)]| {
            let all: Vec<(&str, &str)> = files
                .iter()
                .map(|(path, text)| (path.as_str(), text.as_str()))
                .collect();
            findings(&Sources::made_up(&all))
        };
        for n in 0..MOST {
            add(&mut files, n);
        }
        assert_eq!(check(&files), [""; 0]);
        add(&mut files, MOST);
        let found = check(&files);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/a/src/lib.rs: `App` has impl blocks in 7 files"),
            "{}",
            found[0]
        );
        assert!(found[0].contains("crates/a/src/m6.rs:3"), "{}", found[0]);
    }
}
