//! The whole graph to read: what can be done now, what after that, what is stuck, what is over.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Graph, cycle, shown};
use crate::model::issue::IssueState;

/// More than these are counted, not named.
const MAX_NAMED: usize = 6;

pub fn text(graph: &Graph) -> String {
    let mut out = summary(graph);
    let step = cycle::steps(graph, |v| graph.vertices[v].is_open());
    let group = cycle::cyclic_groups(graph);
    let mut steps: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let (mut stuck, mut unknown, mut closed) = (Vec::new(), Vec::new(), Vec::new());
    for (at, vertex) in graph.vertices.iter().enumerate() {
        match step[at] {
            _ if vertex.state.is_none() => unknown.push(at),
            _ if !vertex.is_open() => closed.push(at),
            Some(number) => steps.entry(number).or_default().push(at),
            None => stuck.push(at),
        }
    }
    for (number, issues) in steps {
        let title = match number {
            0 => "Step 1: nothing open in the way".to_owned(),
            _ => format!("Step {}: after step {number}", number + 1),
        };
        section(&mut out, graph, &group, &title, issues);
    }
    section(&mut out, graph, &group, "Stuck: in a cycle or behind one", stuck);
    section(
        &mut out,
        graph,
        &group,
        "Unknown: depended on, but no such issue",
        unknown,
    );
    section(&mut out, graph, &group, "Closed", closed);
    out
}

fn summary(graph: &Graph) -> String {
    let issues = graph.issues();
    let dependencies = graph.dependencies();
    let mut out = format!(
        "{issues} {}, {dependencies} {}",
        if issues == 1 { "issue" } else { "issues" },
        if dependencies == 1 {
            "dependency"
        } else {
            "dependencies"
        }
    );
    let mut before = ": ";
    for &state in IssueState::ALL {
        let count = graph.vertices.iter().filter(|v| v.state == Some(state)).count();
        if count > 0 {
            let _ = write!(out, "{before}{count} {state}");
            before = ", ";
        }
    }
    out.push('\n');
    out
}

fn open_first(graph: &Graph, at: usize) -> Vec<usize> {
    let first = graph.waits_for[at].iter().copied();
    first.filter(|&v| graph.vertices[v].is_open()).collect()
}

fn open_after(graph: &Graph, at: usize) -> usize {
    let after = graph.needed_by[at].iter();
    after.filter(|&&v| graph.vertices[v].is_open()).count()
}

fn section(out: &mut String, graph: &Graph, group: &[Option<usize>], title: &str, mut issues: Vec<usize>) {
    if issues.is_empty() {
        return;
    }
    // Issues with the most dependents come first.
    issues.sort_by_key(|&at| {
        (
            std::cmp::Reverse(open_after(graph, at)),
            graph.vertices[at].id.to_ascii_lowercase(),
        )
    });
    let _ = writeln!(out, "\n{title} ({})", issues.len());
    let ids: Vec<String> = issues.iter().map(|&at| shown::id(&graph.vertices[at])).collect();
    let width = ids.iter().map(|id| id.chars().count()).max().unwrap_or(0).min(16);
    for (&at, id) in issues.iter().zip(&ids) {
        let vertex = &graph.vertices[at];
        let mut words = vec![format!("{} {id:<width$}", shown::mark(vertex.state))];
        words.push(shown::line(&vertex.title, 60));
        let note = shown::line(vertex.note.as_deref().unwrap_or_default(), 60);
        let comma = if note.is_empty() { "" } else { ", " };
        words.push(format!("({}{comma}{note})", shown::state(vertex)));
        if vertex.is_open() {
            words.push(waits(graph, group, at));
        }
        let after = open_after(graph, at);
        if vertex.is_open() && after > 0 {
            words.push(format!("needed by {after}"));
        }
        words.retain(|word| !word.is_empty());
        let _ = writeln!(out, "  {}", words.join("  "));
    }
}

fn waits(graph: &Graph, group: &[Option<usize>], at: usize) -> String {
    let open = open_first(graph, at);
    if open.is_empty() {
        return String::new();
    }
    let mut names: Vec<String> = open
        .iter()
        .take(MAX_NAMED)
        .map(|&v| {
            let cyclic = group[v].is_some() && group[v] == group[at];
            format!(
                "{}{}",
                shown::id(&graph.vertices[v]),
                if cyclic { " (cycle)" } else { "" }
            )
        })
        .collect();
    if open.len() > MAX_NAMED {
        names.push(format!("{} more", open.len() - MAX_NAMED));
    }
    format!("waits for {}", names.join(", "))
}
