//! The paths that a module names: `use` trees, taken apart, and paths in the code.

use super::syntax::{Kind, Token, after_close};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub segments: Vec<String>,
    pub line: usize,
    pub from: From,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    Code,
    /// `use a::b`: the name that it gets here.
    Use(String),
    /// `use a::*`; the segments are those before the star.
    Glob,
}

/// All paths of at least two segments, in order.
pub fn named(tokens: &[Token<'_>]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let next_is = |text: &str| tokens.get(at + 1).is_some_and(|next| next.is(text));
        if token.is("macro_rules") && next_is("!") {
            // Relative paths in it mean something else wherever it is called.
            let end = after_close(tokens, at + 3);
            let inside = named(tokens.get(at + 4..end).unwrap_or_default());
            found.extend(
                inside
                    .into_iter()
                    .filter(|path| path.segments.first().is_some_and(|head| head == "crate")),
            );
            at = end;
        } else if token.is("use") && !next_is("<") {
            at = tree(tokens, at + 1, Vec::new(), &mut found);
        } else if token.kind == Kind::Text {
            found.extend(quoted(token));
            at += 1;
        } else if token.kind == Kind::Word && next_is("::") && !(at > 0 && tokens[at - 1].is("::")) {
            let mut segments = vec![token.text.to_owned()];
            at += 1;
            while let [colons, word, ..] = &tokens[at..]
                && colons.is("::")
                && word.kind == Kind::Word
            {
                segments.push(word.text.to_owned());
                at += 2;
            }
            let (line, from) = (token.line, From::Code);
            found.push(Named { segments, line, from });
        } else {
            at += 1;
        }
    }
    found
}

/// A path in a string, as attributes have it: `#[serde(with = "crate::time")]`.
fn quoted(token: &Token<'_>) -> Option<Named> {
    let segments: Vec<String> = token.text.split("::").map(str::to_owned).collect();
    let word = |text: &String| !text.is_empty() && text.chars().all(|c| c == '_' || c.is_alphanumeric());
    let relative = ["crate", "super", "self"].contains(&segments[0].as_str());
    (relative && segments.len() > 1 && segments.iter().all(word)).then_some(Named {
        segments,
        line: token.line,
        from: From::Code,
    })
}

/// Reads one tree of a `use`; the index after it.
fn tree(tokens: &[Token<'_>], mut at: usize, mut prefix: Vec<String>, found: &mut Vec<Named>) -> usize {
    if tokens.get(at).is_some_and(|token| token.is("::")) {
        // From outside: no path of this crate begins like that.
        prefix.push(String::new());
        at += 1;
    }
    while let Some(token) = tokens.get(at) {
        let line = token.line;
        if token.is("{") {
            at += 1;
            while let Some(inside) = tokens.get(at) {
                at = match inside.text {
                    "}" => return at + 1,
                    "," => at + 1,
                    _ => tree(tokens, at, prefix.clone(), found),
                };
            }
        } else if token.is("*") {
            let (segments, from) = (prefix, From::Glob);
            found.push(Named { segments, line, from });
            return at + 1;
        } else if token.kind == Kind::Word {
            prefix.push(token.text.to_owned());
            at += 1;
            match tokens.get(at) {
                Some(next) if next.is("::") => at += 1,
                next => {
                    let renamed = next.is_some_and(|next| next.is("as"));
                    let bound = if renamed {
                        tokens.get(at + 1).map_or("", |name| name.text).to_owned()
                    } else {
                        bound(&prefix)
                    };
                    let (segments, from) = (prefix, From::Use(bound));
                    found.push(Named { segments, line, from });
                    return if renamed { at + 2 } else { at };
                }
            }
        } else {
            // Part of a macro: not a `use` declaration.
            return at + 1;
        }
    }
    at
}

/// The name that a path gets: its last segment, or with `a::{self}` the one before.
fn bound(segments: &[String]) -> String {
    let mut names = segments.iter().rev().filter(|name| *name != "self");
    names.next().cloned().unwrap_or_default()
}

/// The path from the root of the crate, if it is one of this crate for certain.
pub fn absolute(module: &[String], segments: &[String]) -> Option<Vec<String>> {
    let head = segments.first()?;
    let mut path = match head.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.to_vec(),
        _ => return None,
    };
    for segment in segments {
        match segment.as_str() {
            "crate" | "self" => {}
            "super" => {
                path.pop()?;
            }
            name => path.push(name.to_owned()),
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::super::syntax::tokens;
    use super::{From, absolute, named};

    fn all(source: &str) -> Vec<String> {
        let show = |named: super::Named| {
            let path = named.segments.join("::");
            match named.from {
                From::Code => format!("{}: {path}", named.line),
                From::Use(name) => format!("{}: {path} as {name}", named.line),
                From::Glob => format!("{}: {path}::*", named.line),
            }
        };
        named(&tokens(source)).into_iter().map(show).collect()
    }

    #[test]
    fn use_trees_are_taken_apart() {
        let source =
            "use crate::{a::x, b::{self, y as z, *},\n super::c};\nuse {self::d, ::e::f}; use std::fs;";
        let expected = [
            "1: crate::a::x as x",
            "1: crate::b::self as b",
            "1: crate::b::y as z",
            "1: crate::b::*",
            "2: crate::super::c as c",
            "3: self::d as d",
            "3: ::e::f as f",
            "3: std::fs as fs",
        ];
        assert_eq!(all(source), expected);
    }

    #[test]
    fn paths_in_code_and_in_attributes_are_found() {
        let source = "fn f(a: crate::a::T<super::b::U>) -> impl Tr + use<'a> { $crate::m!(x.y, Vec::<u8>::new()) }\n\
                      #[serde(with = \"super::c\")] s: \"no crate::d\"";
        let expected = [
            "1: crate::a::T",
            "1: super::b::U",
            "1: crate::m",
            "1: Vec",
            "2: super::c",
        ];
        assert_eq!(all(source), expected);
    }

    #[test]
    fn relative_paths_in_a_macro_are_those_of_its_callers() {
        let source = "macro_rules! m { () => { mod x { use super::*; } $crate::a::f() } } super::b::g()";
        assert_eq!(all(source), ["1: crate::a::f", "1: super::b::g"]);
    }

    #[test]
    fn relative_paths_are_resolved_from_their_module() {
        let resolved = |module: &str, path: &str| {
            let split = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
            absolute(&split(module), &split(path)).map(|path| path.join("::"))
        };
        assert_eq!(resolved("a::b", "super::super::c::d"), Some("c::d".to_owned()));
        assert_eq!(resolved("a::b", "super::c"), Some("a::c".to_owned()));
        assert_eq!(resolved("a::b", "self::c"), Some("a::b::c".to_owned()));
        assert_eq!(resolved("a::b", "crate::c"), Some("c".to_owned()));
        assert_eq!(resolved("a::b", "c::d"), None);
        assert_eq!(resolved("a", "super::super::c"), None);
    }
}
