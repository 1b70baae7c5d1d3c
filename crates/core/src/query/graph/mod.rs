//! Dependencies between issues as a graph, and the ways to show it.
//!
//! Invariants (tests in `tests/graph.rs`):
//! - whatever the issues are called and however they point at each other, every function ends, uses no recursion that
//!   grows with the data, and every format it writes is well-formed;
//! - ids are compared without regard to case, and shown as their issue spells them;
//! - cycles, and ids that name no issue, are shown as such: git can merge two good graphs into a bad one.
//!
//! An issue *waits for* what it depends on. Arrows in pictures point from what comes first to what waits for it.

mod cycle;
mod dot;
mod layout;
mod mermaid;
mod part;
mod shown;
mod svg;
mod text;
mod tree;

use std::collections::{HashMap, HashSet};

use crate::model::issue::IssueState;

pub use cycle::{cycle_through, cycles};
pub use dot::dot;
pub use mermaid::mermaid;
pub use part::{DataNode, Edge, GraphData, around, data};
pub use svg::svg;
pub use text::text;
pub use tree::{Bounds, Branch, TreeMark, branches, lines, tree};

/// An issue, as much of it as a picture needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphNode {
    pub id: String,
    pub title: String,
    pub state: IssueState,
    /// The holder, or the reason why it waits.
    pub note: Option<String>,
    pub parent: Option<String>,
    pub depends_on: Vec<String>,
}

/// A vertex of the graph: an issue, or an unknown id that an issue depends on.
#[derive(Debug)]
struct Vertex {
    id: String,
    title: String,
    /// `None`: no such issue.
    state: Option<IssueState>,
    note: Option<String>,
    parent: Option<String>,
}

impl Vertex {
    /// Whether others still have to wait for it. An unknown issue may turn up open.
    fn is_open(&self) -> bool {
        !self.state.is_some_and(IssueState::is_closed)
    }
}

/// Issues and what they depend on, by position instead of by name.
#[derive(Debug)]
pub struct Graph {
    vertices: Vec<Vertex>,
    index: HashMap<String, usize>,
    /// The dependencies of each, without repetition.
    waits_for: Vec<Vec<usize>>,
    /// The dependents of each.
    needed_by: Vec<Vec<usize>>,
}

impl Graph {
    /// Of two nodes with one id the first counts.
    pub fn new(nodes: Vec<GraphNode>) -> Self {
        let mut graph = Self {
            vertices: Vec::with_capacity(nodes.len()),
            index: HashMap::with_capacity(nodes.len()),
            waits_for: Vec::new(),
            needed_by: Vec::new(),
        };
        let mut wanted = Vec::with_capacity(nodes.len());
        for node in nodes {
            if graph.index.contains_key(&key(&node.id)) {
                continue;
            }
            wanted.push(node.depends_on);
            graph.add(Vertex {
                id: node.id,
                title: node.title,
                state: Some(node.state),
                note: node.note,
                parent: node.parent,
            });
        }
        for (from, ids) in wanted.into_iter().enumerate() {
            let mut seen = HashSet::new();
            for id in ids {
                let to = graph.known_or_added(id);
                if seen.insert(to) {
                    graph.waits_for[from].push(to);
                    graph.needed_by[to].push(from);
                }
            }
        }
        graph
    }

    /// Issues only, not the ids that nobody knows.
    pub fn issues(&self) -> usize {
        self.vertices.iter().filter(|v| v.state.is_some()).count()
    }

    pub fn dependencies(&self) -> usize {
        self.waits_for.iter().map(Vec::len).sum()
    }

    fn add(&mut self, vertex: Vertex) -> usize {
        let at = self.vertices.len();
        self.index.insert(key(&vertex.id), at);
        self.vertices.push(vertex);
        self.waits_for.push(Vec::new());
        self.needed_by.push(Vec::new());
        at
    }

    fn known_or_added(&mut self, id: String) -> usize {
        if let Some(&at) = self.index.get(&key(&id)) {
            return at;
        }
        self.add(Vertex {
            id,
            title: String::new(),
            state: None,
            note: None,
            parent: None,
        })
    }

    fn find(&self, id: &str) -> Option<usize> {
        self.index.get(&key(id)).copied()
    }

    /// Each dependency once: (what comes first, what waits for it).
    fn arrows(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.waits_for
            .iter()
            .enumerate()
            .flat_map(|(from, to)| to.iter().map(move |&first| (first, from)))
    }
}

fn key(id: &str) -> String {
    id.to_ascii_lowercase()
}
