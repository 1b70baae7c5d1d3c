//! Patterns of paths: a file, a directory with all below it, or a glob.
//!
//! What must hold (F2, F4; each has a test):
//! - [`Pattern::overlaps`] is exact: true if and only if there is a path that both match. It walks the product of the
//!   two automata, so its cost is bounded by the product of their sizes, whatever they say;
//! - a text that parses is small: [`MAX_LITERAL`], [`MAX_GLOB`], [`MAX_STARS`], [`MAX_ALTERNATIVES`], [`MAX_DEPTH`];
//! - parsing what [`Pattern::as_str`] gives is the same pattern, and there is a path that it matches.
//!
//! Format, relative to the root of the worktree, parts separated by `/`:
//! - `src/a.ts` is that path; `src/` is that path and every path below it; `.` and `**` are every path;
//! - `*` is any characters but `/`; `?` one of them; `[a-z]` one of these; `[!a]` or `[^a]` one of all others;
//! - `**` is any characters. `**/` at the beginning of a part is also nothing: `a/**/b` matches `a/b`;
//! - `{a,b}` is one of the alternatives, which may have wildcards and `/` in them, but not at their ends;
//! - `\` makes the next character an ordinary one.
//!
//! Parts `.` and repeated `/` are left out. A leading `/`, a part `..` and NUL are refused. Dots at the beginning of a
//! name are ordinary characters: `*` matches `.env`.
//!
//! Limitations: a path is compared character by character, composed and decomposed accents are different. Names such as
//! `[id].ts` are globs to [`Pattern::parse`]; who has a path and not a pattern uses [`Pattern::literal`]. The text
//! of a [`Pattern::folded`] pattern may be longer than what parses.

mod automaton;
mod chars;
mod syntax;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use automaton::Automaton;
use syntax::Node;

/// Longest path, in bytes: what Linux takes.
pub const MAX_LITERAL: usize = 4096;
/// Longest glob, in bytes.
pub const MAX_GLOB: usize = 512;
/// Most `*` and `**` in a glob.
pub const MAX_STARS: usize = 32;
/// Most alternatives in all braces of a glob.
pub const MAX_ALTERNATIVES: usize = 64;
/// How deep braces may be nested.
pub const MAX_DEPTH: usize = 8;

/// Why a text is not a pattern. The sentence is meant for whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path pattern {shown} is not valid: {why}")]
pub struct BadPattern {
    shown: String,
    why: String,
}

impl BadPattern {
    fn new(text: &str, why: impl Into<String>) -> Self {
        // Quoted and shortened: the text came from outside and may be anything.
        let mut shown: String = text.chars().take(60).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        Self {
            shown: format!("{shown:?}"),
            why: why.into(),
        }
    }

    /// Nothing was named.
    pub fn empty() -> Self {
        Self::new("", "it is empty; for everything say '.'")
    }

    /// A name that is not text: two of them could look the same. `shown` is what can be shown of it.
    pub fn not_text(shown: &str) -> Self {
        Self::new(
            shown,
            "it is not UTF-8, so a lock could not tell it from others; lock its folder",
        )
    }

    /// The reason alone, without the text.
    pub fn why(&self) -> &str {
        &self.why
    }
}

/// A set of paths in a worktree, as somebody wrote it.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// The canonical text: two patterns are equal when theirs is.
    text: String,
    /// For a path without wildcards the path itself.
    prefix: String,
    dir: bool,
    /// Of a glob.
    glob: Option<Glob>,
}

#[derive(Debug, Clone)]
struct Glob {
    nodes: Vec<Node>,
    automaton: Automaton,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        let (nodes, dir) = syntax::parse(text).map_err(|why| BadPattern::new(text, why))?;
        Self::build(nodes, dir).map_err(|why| BadPattern::new(text, why))
    }

    /// A path whose `*`, `[`, `{` and `\` are ordinary characters. With a `/` at its end it is a directory.
    pub fn literal(path: &str) -> Result<Self, BadPattern> {
        let (nodes, dir) = syntax::literal(path).map_err(|why| BadPattern::new(path, why))?;
        Self::build(nodes, dir).map_err(|why| BadPattern::new(path, why))
    }

    /// Every path.
    pub fn everything() -> Self {
        let nodes = vec![Node::Any];
        let automaton = Automaton::new(&nodes, false);
        Self {
            text: "**".to_owned(),
            prefix: String::new(),
            dir: true,
            glob: Some(Glob { nodes, automaton }),
        }
    }

    fn build(nodes: Vec<Node>, dir: bool) -> Result<Self, String> {
        if nodes.is_empty() || nodes == [Node::Any] || nodes == [Node::AnyParts, Node::Any] {
            return Ok(Self::everything());
        }
        let text = syntax::print(&nodes, dir);
        if let Some(prefix) = syntax::plain(&nodes) {
            return Ok(Self {
                text,
                prefix,
                dir,
                glob: None,
            });
        }
        if text.len() > MAX_GLOB {
            return Err(format!(
                "a pattern with wildcards is at most {MAX_GLOB} bytes long"
            ));
        }
        let automaton = Automaton::new(&nodes, dir);
        let prefix = automaton
            .prefix()
            .ok_or("no path can match it: paths have no empty parts, no '.' and no '..'")?;
        Ok(Self {
            text,
            prefix,
            dir,
            glob: Some(Glob { nodes, automaton }),
        })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern has wildcards.
    pub fn is_glob(&self) -> bool {
        self.glob.is_some()
    }

    /// Whether all below what it matches is matched too because it ends with `/`, or because it is everything.
    pub fn is_dir(&self) -> bool {
        self.dir
    }

    /// The longest text that every matching path begins with.
    pub fn literal_prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether `path` is one of the set. It has the form that [`Self::literal`] leaves; no pattern matches another text.
    pub fn matches(&self, path: &str) -> bool {
        if !path.starts_with(&self.prefix) || !automaton::is_path(path) {
            return false;
        }
        match &self.glob {
            Some(glob) => glob.automaton.matches(path),
            None => {
                let rest = &path[self.prefix.len()..];
                rest.is_empty() || (self.dir && rest.starts_with('/'))
            }
        }
    }

    /// Whether there is a path that both match.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.overlaps_counted(other).0
    }

    /// The same, and how many pairs of states were looked at.
    fn overlaps_counted(&self, other: &Self) -> (bool, usize) {
        let (a, b) = (&self.prefix, &other.prefix);
        if !a.starts_with(b.as_str()) && !b.starts_with(a.as_str()) {
            return (false, 0);
        }
        match (&self.glob, &other.glob) {
            // A plain path is in the set or it is not. What is below a directory takes the automaton.
            (_, None) if !other.dir => (self.matches(b), 0),
            (None, _) if !self.dir => (other.matches(a), 0),
            (None, None) => {
                // Two directories share a path when one is, or is in, the other.
                let within = |inner: &str, outer: &str| {
                    inner
                        .strip_prefix(outer)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                (within(a, b) || within(b, a), 0)
            }
            (Some(x), Some(y)) => x.automaton.meets(&y.automaton),
            (Some(x), None) => x.automaton.meets(&Automaton::of_dir(b)),
            (None, Some(y)) => Automaton::of_dir(a).meets(&y.automaton),
        }
    }

    /// The pattern for file systems that do not tell case apart: it matches [`fold`] of every path that this one matches.
    #[must_use]
    pub fn folded(&self) -> Self {
        match &self.glob {
            None => Self {
                text: fold(&self.text),
                prefix: fold(&self.prefix),
                dir: self.dir,
                glob: None,
            },
            Some(glob) => {
                let nodes = syntax::folded(&glob.nodes);
                // Everything has no `/` at its end, and its automaton none of a directory.
                let dir = self.dir && self.text != "**";
                let automaton = Automaton::new(&nodes, dir);
                Self {
                    text: syntax::print(&nodes, dir),
                    prefix: automaton.prefix().unwrap_or_default(),
                    dir: self.dir,
                    glob: Some(Glob { nodes, automaton }),
                }
            }
        }
    }
}

/// `path` without its case: two names that a file system without case takes for one become the same text.
pub fn fold(path: &str) -> String {
    path.chars().map(chars::fold).collect()
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Pattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests;
