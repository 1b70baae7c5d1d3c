//! Variables that a command line gives values to, and the words that they stand in.
//!
//! What must hold: a word counts as known only if everything in it is. A variable that got several values has each of
//! them. What comes from outside (the environment, what is read, arguments) is not known, but for `PWD` and `HOME`.

use std::collections::BTreeMap;
use std::path::Path;

use jit_agents::hooks::shell::{Simple, Word};

use super::assignment;

/// More values than this are as good as any.
const MOST: usize = 16;

#[derive(Debug, Clone, Default)]
pub(super) struct Variables {
    /// `None`: it may be anything.
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

    /// `export A=b c`
    pub(super) fn declare(&mut self, args: &[Word]) {
        for word in args {
            if let Some((name, value)) = assignment(&word.text) {
                self.assign(name, word.known.then(|| value.to_owned()));
            }
        }
    }

    /// `read a b`
    pub(super) fn forget(&mut self, args: &[Word]) {
        for word in args {
            self.values.insert(word.text.clone(), None);
        }
    }

    /// `for name in values`
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

    /// These variables with one value each for what stands in the command.
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

    /// What a word comes to: one word, or several, or none, as a shell splits it.
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
        // `A=$B` is not split.
        if splits && assignment(&word.text).is_none() {
            return text.split_whitespace().map(Word::plain).collect();
        }
        vec![Word::plain(text)]
    }
}
