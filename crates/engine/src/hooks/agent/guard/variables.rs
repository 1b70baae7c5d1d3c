//! Variables that a command line assigns, and the words that use them.
//!
//! What must hold:
//! - A word counts as known only if every part of it is known.
//! - A variable that was assigned several values has each of them.
//! - Values from outside (the environment, `read`, arguments) are unknown, except `PWD` and `HOME`.

use std::collections::BTreeMap;
use std::path::Path;

use jit_agents::hooks::shell::{Simple, Word};

use super::assignment;

/// A variable with more values than this counts as unknown.
const MOST: usize = 16;

#[derive(Debug, Clone, Default)]
pub(super) struct Variables {
    /// `None`: the value is unknown.
    values: BTreeMap<String, Option<Vec<String>>>,
}

impl Variables {
    pub(super) fn assign(&mut self, name: &str, value: Option<String>) {
        let slot = self
            .values
            .entry(name.to_owned())
            .or_insert_with(|| Some(Vec::new()));
        match (slot.as_mut(), value) {
            (Some(values), Some(value)) if values.len() < MOST => {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            _ => *slot = None,
        }
    }

    /// Records assignments such as `export A=b c`.
    pub(super) fn declare(&mut self, args: &[Word]) {
        for word in args {
            if let Some((name, value)) = assignment(&word.text) {
                self.assign(name, word.known.then(|| value.to_owned()));
            }
        }
    }

    /// Marks the variables of `read a b` as unknown.
    pub(super) fn forget(&mut self, args: &[Word]) {
        for word in args {
            self.values.insert(word.text.clone(), None);
        }
    }

    /// Records the values of `for name in values`.
    pub(super) fn range(&mut self, name: &str, values: &[Word]) {
        if values.is_empty() {
            self.assign(name, None);
        }
        for word in values {
            self.assign(name, word.known.then(|| word.text.clone()));
        }
    }

    pub(super) fn one(&self, name: &str) -> Option<String> {
        self.values.get(name)?.as_ref()?.last().cloned()
    }

    /// Returns these variables once for each combination of values that the command can see.
    pub(super) fn choices(&self, simple: &Simple) -> Vec<Self> {
        let words = simple.words.iter().chain(&simple.writes).chain(&simple.input);
        let mut names: Vec<&str> = words
            .flat_map(|word| &word.variables)
            .map(|variable| variable.name.as_str())
            .filter(|name| matches!(self.values.get(*name), Some(Some(values)) if values.len() > 1))
            .collect();
        names.sort_unstable();
        names.dedup();
        let mut out = vec![self.clone()];
        for name in names {
            let Some(Some(values)) = self.values.get(name) else {
                continue;
            };
            let many = out.len() * values.len() > MOST * MOST;
            let ways: Vec<Option<Vec<String>>> = match many {
                true => vec![None],
                false => values.iter().map(|value| Some(vec![value.clone()])).collect(),
            };
            let set = |one: &Self, way: &Option<Vec<String>>| {
                let mut one = one.clone();
                one.values.insert(name.to_owned(), way.clone());
                one
            };
            out = out
                .iter()
                .flat_map(|one| ways.iter().map(move |way| set(one, way)))
                .collect();
        }
        out
    }

    /// Expands a word as a shell does: into one word, several, or none.
    pub(super) fn value(&self, word: &Word, cwd: Option<&Path>, home: Option<&Path>) -> Vec<Word> {
        if word.known || word.hidden {
            return vec![word.clone()];
        }
        let mut text = String::new();
        let mut at = 0;
        let mut splits = false;
        for variable in &word.variables {
            let shown = |path: &Path| path.to_string_lossy().into_owned();
            let value = match (variable.name.as_str(), self.values.get(&variable.name)) {
                (_, Some(Some(values))) if values.len() == 1 => values.first().cloned(),
                (_, Some(_)) => None,
                ("PWD", None) => cwd.map(shown),
                ("HOME", None) => home.map(shown),
                _ => None,
            };
            let (Some(value), Some(before)) = (value, word.text.get(at..variable.begin)) else {
                return vec![word.clone()];
            };
            let assigned = self.values.contains_key(&variable.name);
            splits |=
                assigned && !variable.quoted && (value.is_empty() || value.contains(char::is_whitespace));
            text.push_str(before);
            text.push_str(&value);
            at = variable.end;
        }
        text.push_str(word.text.get(at..).unwrap_or_default());
        // A shell does not split `A=$B`.
        if splits && assignment(&word.text).is_none() {
            return text.split_whitespace().map(Word::plain).collect();
        }
        vec![Word::plain(text)]
    }
}
