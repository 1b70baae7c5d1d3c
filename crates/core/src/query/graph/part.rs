//! A part of the graph, and the graph as data.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{Graph, GraphNode, cycles, key};
use crate::model::issue::IssueState;

/// The issues that `root` waits for and those that wait for it, by way of any number of others, and `root` itself.
pub fn around(nodes: Vec<GraphNode>, root: &str) -> Vec<GraphNode> {
    let mut first: HashMap<String, Vec<String>> = HashMap::new();
    let mut after: HashMap<String, Vec<String>> = HashMap::new();
    for node in &nodes {
        for id in &node.depends_on {
            first.entry(key(&node.id)).or_default().push(key(id));
            after.entry(key(id)).or_default().push(key(&node.id));
        }
    }
    let mut kept = reached(root, &first);
    kept.extend(reached(root, &after));
    let mut nodes = nodes;
    nodes.retain(|node| kept.contains(&key(&node.id)));
    for node in &mut nodes {
        // Edges that lead out of the part are dropped; unknown ids stay, to be shown as such.
        node.depends_on.retain(|id| kept.contains(&key(id)));
    }
    nodes
}

fn reached(root: &str, next: &HashMap<String, Vec<String>>) -> HashSet<String> {
    let mut seen = HashSet::from([key(root)]);
    let mut left = vec![key(root)];
    while let Some(at) = left.pop() {
        for to in next.get(&at).into_iter().flatten() {
            if seen.insert(to.clone()) {
                left.push(to.clone());
            }
        }
    }
    seen
}

/// The graph for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GraphData {
    pub nodes: Vec<DataNode>,
    pub edges: Vec<Edge>,
    /// Issues that wait for themselves, in groups.
    pub cycles: Vec<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DataNode {
    pub id: String,
    pub title: Option<String>,
    /// Null when no issue has this id.
    pub state: Option<IssueState>,
    pub note: Option<String>,
    pub parent: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Edge {
    pub issue: String,
    pub depends_on: String,
}

pub fn data(graph: &Graph) -> GraphData {
    let nodes = graph.vertices.iter().map(|vertex| DataNode {
        id: vertex.id.clone(),
        title: vertex.state.map(|_| vertex.title.clone()),
        state: vertex.state,
        note: vertex.note.clone(),
        parent: vertex.parent.clone(),
    });
    let edges = graph.arrows().map(|(first, waits)| Edge {
        issue: graph.vertices[waits].id.clone(),
        depends_on: graph.vertices[first].id.clone(),
    });
    GraphData {
        nodes: nodes.collect(),
        edges: edges.collect(),
        cycles: cycles(graph),
    }
}
