//! Finds the places of a plan's values in its text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::options;

/// A text as a tree of places.
#[derive(Debug)]
pub struct Places(Option<Spanned<Tree>>);

#[derive(Debug)]
enum Tree {
    Leaf,
    List(Vec<Spanned<Tree>>),
    Map(Vec<(String, Spanned<Tree>)>),
}

impl Places {
    /// For places, JSON is parsed as YAML.
    pub fn of(text: &str) -> Self {
        Self(serde_saphyr::from_str_with_options(text, options()).ok())
    }

    /// Returns line and column of a value such as `units[2].id`. For a missing value: those of its parent.
    pub fn find(&self, path: &str) -> (u64, u64) {
        let Some(mut at) = self.0.as_ref() else {
            return (1, 1);
        };
        for part in path.split(['.', '[']).filter(|part| !part.is_empty()) {
            let inner = match &at.value {
                Tree::Leaf => None,
                Tree::Map(entries) => entries
                    .iter()
                    .find(|(key, _)| key == part)
                    .map(|(_, value)| value),
                Tree::List(items) => {
                    let index = part.strip_suffix(']').and_then(|n| n.parse::<usize>().ok());
                    index.and_then(|n| items.get(n))
                }
            };
            match inner {
                Some(inner) => at = inner,
                None => break,
            }
        }
        (at.referenced.line().max(1), at.referenced.column().max(1))
    }
}

impl Places {
    /// Returns the path of the value at a line and column; empty if no value starts there.
    pub fn at(&self, line: u64, column: u64) -> String {
        let mut found = String::new();
        if let Some(top) = &self.0 {
            search(top, String::new(), (line, column), &mut found);
        }
        found
    }
}

/// Finds the innermost value that starts there.
fn search(tree: &Spanned<Tree>, path: String, place: (u64, u64), found: &mut String) {
    if (tree.referenced.line(), tree.referenced.column()) == place {
        found.clone_from(&path);
    }
    match &tree.value {
        Tree::Leaf => {}
        Tree::List(items) => {
            for (n, item) in items.iter().enumerate() {
                search(item, format!("{path}[{n}]"), place, found);
            }
        }
        Tree::Map(entries) => {
            for (key, value) in entries {
                let dot = if path.is_empty() { "" } else { "." };
                search(value, format!("{path}{dot}{key}"), place, found);
            }
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Tree, D::Error> {
        Tree::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(Tree::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut all = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            match all.len() {
                // No part of a plan has this many keys.
                1000.. => drop(entries.next_value::<IgnoredAny>()?),
                _ => all.push((key, entries.next_value()?)),
            }
        }
        Ok(Tree::Map(all))
    }
}
