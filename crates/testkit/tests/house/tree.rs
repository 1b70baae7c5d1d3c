//! The files and modules of a crate, found by following `mod` declarations from its root file.

use std::collections::VecDeque;

use super::sources::Sources;
use super::syntax::{Kind, Token, after_close, tokens};

/// The tokens of one module as one file has them, without the modules written inside of it.
#[derive(Debug)]
pub struct Module<'a> {
    pub file: String,
    /// From the root of the crate, which is the empty path.
    pub path: Vec<String>,
    pub tokens: Vec<Token<'a>>,
}

/// A module in another file.
#[derive(Debug)]
struct Child {
    path: Vec<String>,
    /// From the `path` attribute.
    given: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tests {
    Included,
    /// Items that are compiled for tests only are left out, and so are their files.
    LeftOut,
}

/// All modules below a root file such as `crates/core/src/lib.rs`.
pub fn modules<'a>(sources: &'a Sources, root: &str, tests: Tests) -> Vec<Module<'a>> {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([(root.to_owned(), Vec::new())]);
    let mut seen = vec![root.to_owned()];
    while let Some((file, path)) = waiting.pop_front() {
        let Some(text) = sources.text(&file) else { continue };
        let mut reader = Reader {
            file: &file,
            tests,
            found: Vec::new(),
            children: Vec::new(),
        };
        reader.module(&tokens(text), path.clone());
        let Reader {
            found: more,
            children,
            ..
        } = reader;
        found.extend(more);
        for child in children {
            let place = place(sources, &file, file == root, &path, &child);
            if let Some(place) = place
                && !seen.contains(&place)
            {
                seen.push(place.clone());
                waiting.push_back((place, child.path));
            }
        }
    }
    found
}

/// The root files of what a crate ships: its library and its programs.
pub fn roots(sources: &Sources, name: &str) -> Vec<String> {
    let manifest = sources.manifest(name);
    let mut given = given_paths(&manifest, "bin");
    given.extend(given_paths(&manifest, "lib"));
    roots_among(sources, name, &["src"], "src/bin", given)
}

/// The root files of a crate's test programs.
pub fn test_roots(sources: &Sources, name: &str) -> Vec<String> {
    let given = given_paths(&sources.manifest(name), "test");
    roots_among(sources, name, &[], "tests", given)
}

fn given_paths(manifest: &toml::Table, target: &str) -> Vec<String> {
    let path = |table: &toml::Value| Some(table.get("path")?.as_str()?.to_owned());
    match manifest.get(target) {
        Some(toml::Value::Array(all)) => all.iter().filter_map(path).collect(),
        Some(table) => path(table).into_iter().collect(),
        None => Vec::new(),
    }
}

/// Root files as cargo finds them: `lib.rs` and `main.rs` in some folders, and below another one every file, and every
/// folder that has a `main.rs`; and those that the manifest names.
fn roots_among(sources: &Sources, name: &str, mains: &[&str], each: &str, given: Vec<String>) -> Vec<String> {
    let is_root = |inner: &str| {
        let (folder, file) = inner.rsplit_once('/').unwrap_or(("", inner));
        let below = folder.rsplit_once('/').map_or("", |(above, _)| above);
        mains.contains(&folder) && ["lib.rs", "main.rs"].contains(&file)
            || folder == each
            || below == each && file == "main.rs"
            || given.iter().any(|path| path == inner)
    };
    let prefix = format!("crates/{name}/");
    let all = sources
        .rust()
        .filter(|path| path.strip_prefix(&prefix).is_some_and(is_root));
    all.map(str::to_owned).collect()
}

/// The file of a module that is declared in `file`, whose own module path is `own`.
fn place(sources: &Sources, file: &str, is_root: bool, own: &[String], child: &Child) -> Option<String> {
    let (folder, name) = file.rsplit_once('/')?;
    if let Some(given) = &child.given {
        let mut parts: Vec<&str> = folder.split('/').collect();
        for part in given.split('/') {
            match part {
                "." => {}
                ".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        return Some(parts.join("/"));
    }
    let mut base = folder.to_owned();
    if !is_root && name != "mod.rs" {
        base = format!("{folder}/{}", name.strip_suffix(".rs")?);
    }
    let below = child.path[own.len()..].join("/");
    let candidates = [format!("{base}/{below}.rs"), format!("{base}/{below}/mod.rs")];
    candidates.into_iter().find(|path| sources.has(path))
}

struct Reader<'a, 'f> {
    file: &'f str,
    tests: Tests,
    found: Vec<Module<'a>>,
    children: Vec<Child>,
}

impl<'a> Reader<'a, '_> {
    fn module(&mut self, tokens: &[Token<'a>], path: Vec<String>) {
        let mut own = Vec::new();
        let (mut at, mut given) = (0, None);
        while let Some(token) = tokens.get(at) {
            if let Some(attribute) = attribute(&tokens[at..]) {
                let end = at + attribute.length;
                if self.tests == Tests::LeftOut && attribute.for_tests() {
                    if attribute.inner {
                        return;
                    }
                    at = after_item(tokens, end);
                    continue;
                }
                given = attribute.given_path().or(given);
                own.extend_from_slice(&tokens[at..end]);
                at = end;
                continue;
            }
            let name = tokens.get(at + 1).filter(|next| next.kind == Kind::Word);
            if let (true, Some(name), Some(next)) = (token.is("mod"), name, tokens.get(at + 2)) {
                let mut inside = path.clone();
                inside.push(name.text.to_owned());
                if next.is(";") {
                    self.children.push(Child {
                        path: inside,
                        given: given.take(),
                    });
                    at += 3;
                    continue;
                }
                if next.is("{") {
                    let end = after_close(tokens, at + 2);
                    self.module(&tokens[at + 3..end.max(at + 4) - 1], inside);
                    at = end;
                    given = None;
                    continue;
                }
            }
            // `pub`, as in `pub(crate) mod`, may stand between an attribute and its module.
            if !token.is("pub") {
                given = None;
            }
            own.push(*token);
            at += 1;
        }
        self.found.push(Module {
            file: self.file.to_owned(),
            path,
            tokens: own,
        });
    }
}

pub struct Attribute<'t, 'a> {
    /// `#![…]`: applies to the enclosing module.
    inner: bool,
    /// The tokens between the brackets.
    content: &'t [Token<'a>],
    /// In tokens.
    pub length: usize,
}

/// The attribute that begins here.
pub fn attribute<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<Attribute<'t, 'a>> {
    let inner = tokens.get(1)?.is("!");
    let open = 1 + usize::from(inner);
    if !tokens[0].is("#") || !tokens.get(open)?.is("[") {
        return None;
    }
    let length = after_close(tokens, open);
    Some(Attribute {
        inner,
        content: &tokens[open + 1..length - 1],
        length,
    })
}

impl Attribute<'_, '_> {
    /// `cfg(test)` and `cfg(all(test, …))`.
    fn for_tests(&self) -> bool {
        let is = |at: usize, text: &str| self.content.get(at).is_some_and(|token| token.is(text));
        if !is(0, "cfg") {
            return false;
        }
        if is(2, "test") && is(3, ")") {
            return true;
        }
        let mut depth = 0;
        is(2, "all")
            && self.content.iter().any(|token| {
                depth += usize::from(token.is("("));
                depth -= usize::from(token.is(")"));
                depth == 2 && token.is("test")
            })
    }

    /// `test`, `tokio::test`, `test(…)`.
    pub fn marks_a_test(&self) -> bool {
        let path = self.content.iter().take_while(|token| !token.is("("));
        path.last().is_some_and(|token| token.is("test"))
    }

    fn given_path(&self) -> Option<String> {
        match self.content {
            [name, equals, path] if name.is("path") && equals.is("=") => Some(path.text.to_owned()),
            _ => None,
        }
    }
}

/// The index after the item, statement, field or match arm that begins here.
fn after_item(tokens: &[Token<'_>], from: usize) -> usize {
    let mut at = from;
    // Further attributes belong to it.
    while let Some(attribute) = tokens.get(at..).and_then(attribute) {
        at += attribute.length;
    }
    let head: Vec<&str> = tokens[at..].iter().take(6).map(|token| token.text).collect();
    let plain = head
        .iter()
        .copied()
        .find(|word| !["pub", "(", "crate", "super", ")"].contains(word));
    // These have a semicolon after their braces.
    let ends_with_semicolon = matches!(plain, Some("use" | "static" | "type" | "let"))
        || plain == Some("const") && !head.contains(&"fn");
    while let Some(token) = tokens.get(at) {
        match token.text {
            _ if token.kind != Kind::Mark => at += 1,
            "}" | ")" | "]" => return at,
            ";" | "," => return at + 1,
            "{" if !ends_with_semicolon => return after_close(tokens, at),
            "{" | "(" | "[" => at = after_close(tokens, at),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::sources::Sources;
    use super::{Tests, modules};

    fn words(sources: &Sources, tests: Tests) -> Vec<(String, String)> {
        let all = modules(sources, "crates/a/src/lib.rs", tests);
        let text = |module: &super::Module<'_>| {
            let words: Vec<&str> = module.tokens.iter().map(|token| token.text).collect();
            (module.path.join("::"), words.join(" "))
        };
        let mut found: Vec<(String, String)> = all.iter().map(text).collect();
        found.sort();
        found
    }

    #[test]
    fn modules_are_found_beside_below_and_inside() {
        let sources = Sources::made_up(&[
            (
                "crates/a/src/lib.rs",
                "mod one; pub(crate) mod two; mod four { mod five; }",
            ),
            ("crates/a/src/one.rs", "mod below; b"),
            ("crates/a/src/one/below.rs", "c"),
            ("crates/a/src/two/mod.rs", "mod beside; d"),
            (
                "crates/a/src/two/beside.rs",
                "#[path = \"../two/other.rs\"] pub mod x; e",
            ),
            ("crates/a/src/two/other.rs", "f"),
            ("crates/a/src/four/five.rs", "g"),
            ("crates/a/src/unlisted.rs", "h"),
        ]);
        let paths: Vec<(String, String)> = words(&sources, Tests::Included);
        let expected = [
            ("", "pub ( crate )"),
            ("four", ""),
            ("four::five", "g"),
            ("one", "b"),
            ("one::below", "c"),
            ("two", "d"),
            ("two::beside", "# [ path = ../two/other.rs ] pub e"),
            ("two::beside::x", "f"),
        ];
        assert_eq!(
            paths,
            expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
        );
    }

    #[test]
    fn items_for_tests_are_left_out() {
        let sources = Sources::made_up(&[
            (
                "crates/a/src/lib.rs",
                "#[cfg(test)] mod tests; #[cfg(test)] use x::{y, z}; #[cfg(test)] #[allow(a)] fn f() -> [u8; 2] { g } \
                 #[cfg(all(test, unix))] mod more { h } #[cfg(not(test))] i; #[cfg(any(test, unix))] j; \
                 struct S { #[cfg(test)] k: u8, l: u8 } #[cfg(test)] const C: u8 = { m }; n",
            ),
            ("crates/a/src/tests.rs", "mod deeper;"),
            ("crates/a/src/tests/deeper.rs", ""),
        ]);
        let left =
            "# [ cfg ( not ( test ) ) ] i ; # [ cfg ( any ( test , unix ) ) ] j ; struct S { l : u8 } n";
        assert_eq!(
            words(&sources, Tests::LeftOut),
            [(String::new(), left.to_owned())]
        );
        let all = words(&sources, Tests::Included);
        let paths: Vec<&str> = all.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["", "more", "tests", "tests::deeper"]);
    }
}
