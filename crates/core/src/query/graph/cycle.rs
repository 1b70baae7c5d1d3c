//! Finding cycles: before a dependency is added, and among those that are there.

use std::collections::{HashSet, VecDeque};

use super::Graph;
use crate::model::ids::IssueId;

/// The cycle that `from` depending on `to` would make: `from`, `to`, …, `from`, as short as it can be.
///
/// `depends_on` is asked about each issue at most once, and only about those that `to` waits for.
pub fn cycle_through(
    from: &IssueId,
    to: &IssueId,
    mut depends_on: impl FnMut(&IssueId) -> Vec<IssueId>,
) -> Option<Vec<IssueId>> {
    let goal = from.key();
    if to.key() == goal {
        return Some(vec![from.clone(), from.clone()]);
    }
    // Each issue that was reached, and from where: its place in the queue is its name.
    let mut reached: Vec<(IssueId, Option<usize>)> = vec![(to.clone(), None)];
    let mut seen = HashSet::from([to.key()]);
    let mut next = 0;
    while next < reached.len() {
        for id in depends_on(&reached[next].0) {
            let key = id.key();
            if key == goal {
                return Some(path(from, &reached, next));
            }
            if seen.insert(key) {
                reached.push((id, Some(next)));
            }
        }
        next += 1;
    }
    None
}

fn path(from: &IssueId, reached: &[(IssueId, Option<usize>)], last: usize) -> Vec<IssueId> {
    let mut backwards = vec![from.clone()];
    let mut at = Some(last);
    while let Some(place) = at {
        backwards.push(reached[place].0.clone());
        at = reached[place].1;
    }
    backwards.push(from.clone());
    backwards.reverse();
    backwards
}

/// The issues that wait for themselves, in groups: within one group each waits for every other.
/// Groups and their ids are sorted.
pub fn cycles(graph: &Graph) -> Vec<Vec<String>> {
    let mut groups: Vec<Vec<String>> = components(graph)
        .into_iter()
        .filter(|group| is_cyclic(graph, group))
        .map(|group| {
            let mut ids: Vec<String> = group.iter().map(|&v| graph.vertices[v].id.clone()).collect();
            ids.sort();
            ids
        })
        .collect();
    groups.sort();
    groups
}

/// The group of each vertex that is in a cycle; `None` for the others.
pub(super) fn cyclic_groups(graph: &Graph) -> Vec<Option<usize>> {
    let mut of = vec![None; graph.vertices.len()];
    let groups = components(graph);
    for (number, group) in groups.iter().enumerate() {
        if is_cyclic(graph, group) {
            for &v in group {
                of[v] = Some(number);
            }
        }
    }
    of
}

fn is_cyclic(graph: &Graph, group: &[usize]) -> bool {
    match group {
        [one] => graph.waits_for[*one].contains(one),
        _ => true,
    }
}

/// Strongly connected components, after Tarjan, with a stack of its own.
fn components(graph: &Graph) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let count = graph.vertices.len();
    let mut order = vec![NEW; count];
    let mut low = vec![0; count];
    let mut on_stack = vec![false; count];
    let mut stack = Vec::new();
    let mut found = Vec::new();
    let mut clock = 0;
    for start in 0..count {
        if order[start] != NEW {
            continue;
        }
        let mut calls = vec![(start, 0)];
        while let Some((v, edge)) = calls.pop() {
            if edge == 0 {
                order[v] = clock;
                low[v] = clock;
                clock += 1;
                stack.push(v);
                on_stack[v] = true;
            }
            if let Some(&to) = graph.waits_for[v].get(edge) {
                calls.push((v, edge + 1));
                if order[to] == NEW {
                    calls.push((to, 0));
                } else if on_stack[to] {
                    low[v] = low[v].min(order[to]);
                }
                continue;
            }
            if let Some(&(caller, _)) = calls.last() {
                low[caller] = low[caller].min(low[v]);
            }
            if low[v] == order[v] {
                let mut group = Vec::new();
                while let Some(w) = stack.pop() {
                    on_stack[w] = false;
                    group.push(w);
                    if w == v {
                        break;
                    }
                }
                found.push(group);
            }
        }
    }
    found
}

/// How many steps come before each vertex among those that `counts`, and `None` for what is in or behind a cycle.
pub(super) fn steps(graph: &Graph, counts: impl Fn(usize) -> bool) -> Vec<Option<usize>> {
    let count = graph.vertices.len();
    let mut left: Vec<usize> = graph
        .waits_for
        .iter()
        .map(|to| to.iter().filter(|&&w| counts(w)).count())
        .collect();
    let mut step = vec![None; count];
    let mut free: VecDeque<usize> = (0..count).filter(|&v| counts(v) && left[v] == 0).collect();
    for &v in &free {
        step[v] = Some(0);
    }
    while let Some(v) = free.pop_front() {
        for &after in &graph.needed_by[v] {
            left[after] -= 1;
            if left[after] == 0 && counts(after) {
                // First in, first out: `v` is the last one `after` waited for, so it has the highest step.
                step[after] = step[v].map(|s: usize| s + 1);
                free.push_back(after);
            }
        }
    }
    step
}
