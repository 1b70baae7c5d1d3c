//! In which order finished units go to their target (H2).
//!
//! The policy, strongest first:
//!
//! 1. what a unit depends on goes before it, whatever else is true;
//! 2. a unit that merges without a conflict goes before one that does not, then fewer conflicts before more: what goes
//!    first cannot be broken by what comes later;
//! 3. a unit that has waited longer than [`PATIENCE_MS`] goes before those that have not, so that nothing starves behind
//!    a stream of small ones;
//! 4. a unit that shares no changed path with another one of those left goes before those that do; of those that do,
//!    the one that changes fewer paths: it leaves the least to be merged again;
//! 5. the older one.
//!
//! Units that depend on each other in a circle are a mistake elsewhere: they are ordered as if they did not.
//! Each landing changes what is left, so the order is asked for again after each.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// A day.
pub const PATIENCE_MS: i64 = 86_400_000;

/// The facts about a unit that decide its place in the order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderCandidate {
    pub id: String,
    /// Ids of others that go first; those that are not among the candidates do not matter here.
    pub after: BTreeSet<String>,
    /// Paths that do not merge with the target as it is.
    pub conflicts: usize,
    /// Paths it changes, old names of renamed ones included.
    pub paths: BTreeSet<String>,
    /// When it was made, in milliseconds.
    pub since_ms: i64,
}

/// Two candidates and how many paths both change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Overlap {
    pub a: String,
    pub b: String,
    /// So many paths.
    pub paths: usize,
    /// A few of them.
    pub some: Vec<String>,
}

/// How many shared paths are named.
const SOME: usize = 5;

/// The pairs that change the same paths, each once, in the order of the candidates.
pub fn overlaps(candidates: &[OrderCandidate]) -> Vec<Overlap> {
    let mut found = Vec::new();
    for (n, a) in candidates.iter().enumerate() {
        for b in candidates.iter().skip(n + 1) {
            let shared: Vec<&String> = a.paths.intersection(&b.paths).collect();
            if !shared.is_empty() {
                found.push(Overlap {
                    a: a.id.clone(),
                    b: b.id.clone(),
                    paths: shared.len(),
                    some: shared.into_iter().take(SOME).cloned().collect(),
                });
            }
        }
    }
    found
}

/// The ids in the order in which they go.
pub fn order(candidates: &[OrderCandidate], now_ms: i64) -> Vec<String> {
    let mut shares: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (n, a) in candidates.iter().enumerate() {
        for b in candidates.iter().skip(n + 1) {
            if !a.paths.is_disjoint(&b.paths) {
                shares.entry(&a.id).or_default().insert(&b.id);
                shares.entry(&b.id).or_default().insert(&a.id);
            }
        }
    }
    let mut left: Vec<&OrderCandidate> = candidates.iter().collect();
    let mut out = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let names: BTreeSet<&str> = left.iter().map(|one| one.id.as_str()).collect();
        let waits = |one: &OrderCandidate| {
            one.after
                .iter()
                .any(|other| *other != one.id && names.contains(other.as_str()))
        };
        let key = |one: &OrderCandidate| {
            let shared = shares
                .get(one.id.as_str())
                .is_some_and(|with| with.iter().any(|other| names.contains(other)));
            let patient = now_ms.saturating_sub(one.since_ms) <= PATIENCE_MS;
            let changes = if shared { one.paths.len() } else { 0 };
            (
                one.conflicts,
                patient,
                shared,
                changes,
                one.since_ms,
                one.id.clone(),
            )
        };
        let best = |free: bool| {
            let among = left.iter().enumerate().filter(|(_, one)| !free || !waits(one));
            among.min_by_key(|(_, one)| key(one)).map(|(n, _)| n)
        };
        // In a circle nobody is free: then the best of all.
        let Some(next) = best(true).or_else(|| best(false)) else {
            break;
        };
        out.push(left.remove(next).id.clone());
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(id: &str, conflicts: usize, paths: &[&str], since_ms: i64) -> OrderCandidate {
        OrderCandidate {
            id: id.to_owned(),
            conflicts,
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            since_ms,
            ..OrderCandidate::default()
        }
    }

    #[test]
    fn h2_clean_first_then_fewest_conflicts() {
        let all = [one("a", 2, &[], 1), one("b", 0, &[], 3), one("c", 1, &[], 2)];
        assert_eq!(order(&all, 10), ["b", "c", "a"]);
    }

    #[test]
    fn h2_of_those_that_overlap_the_one_with_fewer_changes_goes_first() {
        let all = [
            one("big", 0, &["x", "y", "z"], 1),
            one("small", 0, &["x"], 2),
            one("apart", 0, &["p", "q", "r", "s"], 3),
        ];
        assert_eq!(order(&all, 10), ["apart", "small", "big"]);
        assert_eq!(
            overlaps(&all),
            [Overlap {
                a: "big".into(),
                b: "small".into(),
                paths: 1,
                some: vec!["x".into()]
            }]
        );
    }

    #[test]
    fn h2_what_others_depend_on_goes_first_even_with_conflicts() {
        let mut all = [one("a", 0, &[], 1), one("b", 3, &[], 2)];
        all[0].after.insert("b".into());
        assert_eq!(order(&all, 10), ["b", "a"]);
        all[1].after.insert("a".into());
        assert_eq!(order(&all, 10), ["a", "b"], "a circle stops nobody");
    }

    #[test]
    fn h2_nothing_starves_behind_smaller_ones() {
        let all = [
            one("old", 0, &["x", "y", "z"], 0),
            one("new", 0, &["x"], PATIENCE_MS),
        ];
        assert_eq!(order(&all, PATIENCE_MS), ["new", "old"]);
        assert_eq!(order(&all, PATIENCE_MS + 1), ["old", "new"]);
    }

    fn candidates() -> impl Strategy<Value = Vec<OrderCandidate>> {
        let paths = proptest::collection::btree_set("[a-f]", 0..4);
        let after = proptest::collection::vec(0usize..8, 0..3);
        proptest::collection::vec((0usize..4, paths, after, 0i64..3 * PATIENCE_MS), 0..8).prop_map(|all| {
            let made = all.into_iter().enumerate();
            made.map(|(n, (conflicts, paths, after, since_ms))| OrderCandidate {
                id: format!("u{n}"),
                // Only on earlier ones: no circles.
                after: after
                    .into_iter()
                    .filter(|m| *m < n)
                    .map(|m| format!("u{m}"))
                    .collect(),
                conflicts,
                paths,
                since_ms,
            })
            .collect()
        })
    }

    proptest! {
        #[test]
        fn h2_the_order_has_each_once_and_respects_dependencies(all in candidates(), now in 0i64..4 * PATIENCE_MS) {
            let order = order(&all, now);
            let mut names: Vec<&String> = order.iter().collect();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), all.len());
            let place = |id: &str| order.iter().position(|one| one == id).expect("each is there");
            for one in &all {
                for other in &one.after {
                    prop_assert!(place(other) < place(&one.id));
                }
            }
        }

        #[test]
        fn h2_without_dependencies_conflicts_never_go_down(mut all in candidates(), now in 0i64..4 * PATIENCE_MS) {
            all.iter_mut().for_each(|one| one.after.clear());
            let find = |id: &String| all.iter().find(|one| one.id == *id).expect("known").conflicts;
            let conflicts: Vec<usize> = order(&all, now).iter().map(find).collect();
            prop_assert!(conflicts.is_sorted());
        }

        #[test]
        fn h2_the_order_does_not_depend_on_how_they_are_listed(all in candidates(), now in 0i64..4 * PATIENCE_MS) {
            let mut other = all.clone();
            other.reverse();
            prop_assert_eq!(order(&all, now), order(&other, now));
        }
    }
}
