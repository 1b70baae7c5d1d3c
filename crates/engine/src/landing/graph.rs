//! The commits that units add to a target, read once for all of them.
//!
//! Landing many units asks the same questions for each: is this commit an ancestor of that one, where did the two part.
//! Git answers each with a process of its own. Most answers follow from one list: the commits that the target lacks,
//! with their parents.
//!
//! What must hold:
//!
//! - The parents of a commit never change, so an answer from here stays right, wherever branches move.
//! - No answer is guessed: what does not follow from the list is `None`, and git is asked.

use std::collections::{BTreeSet, HashMap, HashSet};

/// Commits and their parents.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// The commit of the target when this was read.
    target: String,
    /// The commits that the target lacks, with their parents.
    parents: HashMap<String, Vec<String>>,
    /// Commits that the target has.
    inside: HashSet<String>,
    /// Tips that have a commit in common with the target.
    related: HashSet<String>,
    /// Commits without a squash between them and each related tip, on the first-parent line.
    unsquashed: HashSet<String>,
    /// The listed commits that one of them leads to: the last answer of [`Graph::reach`].
    reached: Option<(String, HashSet<String>)>,
}

impl Graph {
    /// Reads the output of `git rev-list --parents <tips> ^<target>`.
    pub(super) fn parse(target: &str, tips: &[String], listed: &str) -> Self {
        let mut graph = Self {
            target: target.to_owned(),
            ..Self::default()
        };
        for line in listed.lines() {
            let mut words = line.split(' ').map(str::to_owned);
            if let Some(commit) = words.next() {
                graph.parents.insert(commit, words.collect());
            }
        }
        let ends = graph.parents.values().flatten().chain(tips);
        let inside = ends.filter(|commit| !graph.parents.contains_key(*commit));
        graph.inside = inside.cloned().collect();
        let related = tips.iter().filter(|tip| !graph.ends(tip, None).is_empty());
        graph.related = related.cloned().collect();
        graph
    }

    /// The commits of the target at which the listed histories end.
    pub(super) fn borders(&self) -> BTreeSet<&str> {
        let tips = self.related.iter();
        tips.flat_map(|tip| self.ends(tip, None)).collect()
    }

    /// Adds a commit that was just made.
    pub(super) fn grow(&mut self, commit: &str, parents: &[String]) {
        if parents.iter().all(|parent| self.knows(parent)) {
            self.parents.insert(commit.to_owned(), parents.to_vec());
        }
    }

    pub(super) fn knows(&self, commit: &str) -> bool {
        commit == self.target || self.parents.contains_key(commit) || self.inside.contains(commit)
    }

    /// Notes that no squash lies between this commit and the related tips.
    pub(super) fn note_unsquashed(&mut self, commit: &str) {
        self.unsquashed.insert(commit.to_owned());
    }

    /// Whether no squash lies between a commit and each related tip.
    pub(super) fn is_unsquashed(&self, commit: &str) -> bool {
        self.unsquashed.contains(commit)
    }

    /// Whether no squash of the target can matter for this tip.
    pub(super) fn is_plain(&self, target: &str, tip: &str) -> bool {
        self.is_unsquashed(target) && self.related.contains(tip)
    }

    /// Whether the older commit is an ancestor of the newer one, or the same. `None`: not known here.
    pub(super) fn is_ancestor(&mut self, older: &str, newer: &str) -> Option<bool> {
        if older == newer {
            return self.knows(older).then_some(true);
        }
        let is_listed = self.parents.contains_key(older);
        if newer == self.target || self.inside.contains(newer) {
            // The target has no listed commit, and its own ancestors have none either.
            return match is_listed {
                true => Some(false),
                false => (newer == self.target && self.inside.contains(older)).then_some(true),
            };
        }
        if !self.parents.contains_key(newer) {
            return None;
        }
        if is_listed {
            return Some(self.reach(newer).contains(older));
        }
        let leads_there = self.ends(newer, None).contains(older);
        match leads_there {
            true => Some(true),
            // A way to the target does not leave the list before it ends there.
            false => (older == self.target).then_some(false),
        }
    }

    /// The only best common ancestor of a target and a tip. `Some(None)`: they have none. `None`: not known here.
    pub(super) fn base(&mut self, target: &str, tip: &str) -> Option<Option<String>> {
        // Then it has everything that the first target had.
        let has_all = target == self.target
            || self.parents.contains_key(target) && self.ends(target, None).contains(self.target.as_str());
        if !has_all || !self.knows(tip) {
            return None;
        }
        if self.inside.contains(tip) || tip == self.target {
            return Some(Some(tip.to_owned()));
        }
        let reach = self.reach(target).clone();
        let mut ends = self.ends(tip, Some(&reach)).into_iter();
        match (ends.next(), ends.next()) {
            (None, _) => Some(None),
            (Some(only), None) => Some(Some(only.to_owned())),
            (Some(_), Some(_)) => None,
        }
    }

    /// Where the way back from a commit leaves the list, or meets one of `these`.
    fn ends<'a>(&'a self, from: &'a str, these: Option<&HashSet<String>>) -> BTreeSet<&'a str> {
        let (mut ends, mut seen, mut next) = (BTreeSet::new(), HashSet::new(), vec![from]);
        while let Some(commit) = next.pop() {
            if !seen.insert(commit) {
                continue;
            }
            match self.parents.get(commit) {
                Some(above) if these.is_none_or(|these| !these.contains(commit)) => {
                    next.extend(above.iter().map(String::as_str));
                }
                _ => {
                    ends.insert(commit);
                }
            }
        }
        ends
    }

    /// The listed commits among a commit and its ancestors.
    fn reach(&mut self, from: &str) -> &HashSet<String> {
        let known = self.reached.take().filter(|(last, _)| last == from);
        let found = known.unwrap_or_else(|| {
            let (mut seen, mut next) = (HashSet::new(), vec![from]);
            while let Some(commit) = next.pop() {
                if let Some(above) = self.parents.get(commit)
                    && seen.insert(commit.to_owned())
                {
                    next.extend(above.iter().map(String::as_str));
                }
            }
            (from.to_owned(), seen)
        });
        &self.reached.insert(found).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `target` has `base`; `a` and `b` left it there, `c` went on from `a`, and `odd` has a history of its own.
    fn graph() -> Graph {
        let tips = ["a", "b", "c", "odd", "old"].map(str::to_owned);
        Graph::parse("target", &tips, "a base\nb base\nc a\nodd\n")
    }

    #[test]
    fn h1_ancestors_follow_from_the_list_or_are_not_known() {
        let mut graph = graph();
        for (older, newer, answer) in [
            ("a", "c", Some(true)),
            ("a", "a", Some(true)),
            ("a", "b", Some(false)),
            ("c", "a", Some(false)),
            ("a", "target", Some(false)),
            ("base", "a", Some(true)),
            ("base", "target", Some(true)),
            ("old", "target", Some(true)),
            ("target", "a", Some(false)),
            ("old", "a", None),
            ("other", "a", None),
            ("a", "other", None),
        ] {
            assert_eq!(graph.is_ancestor(older, newer), answer, "{older} {newer}");
        }
    }

    #[test]
    fn h1_a_commit_that_was_just_made_is_known() {
        let mut graph = graph();
        graph.grow("m", &["target".to_owned(), "a".to_owned()]);
        assert_eq!(graph.is_ancestor("a", "m"), Some(true));
        assert_eq!(graph.is_ancestor("b", "m"), Some(false));
        assert_eq!(graph.is_ancestor("target", "m"), Some(true));
        assert_eq!(graph.base("m", "c"), Some(Some("a".to_owned())));
        assert_eq!(graph.base("m", "b"), Some(Some("base".to_owned())));
        assert_eq!(graph.base("m", "odd"), Some(None));
        graph.grow("n", &["nobody".to_owned()]);
        assert!(!graph.knows("n"), "its parent is not known");
    }

    #[test]
    fn h1_the_base_is_only_told_where_there_is_one() {
        let tips = ["m".to_owned()];
        let mut graph = Graph::parse("target", &tips, "m x y\n");
        assert_eq!(graph.base("target", "m"), None, "two ends: git decides");
        assert_eq!(graph.base("nobody", "m"), None);
        assert_eq!(graph.borders(), BTreeSet::from(["x", "y"]));
    }
}
