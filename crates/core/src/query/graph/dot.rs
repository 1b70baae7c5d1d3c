//! The graph for Graphviz.
//!
//! Every name and label is a quoted string: `\` and `"` are escaped, and `&`, which Graphviz reads as the beginning of
//! an entity.

use std::fmt::Write;

use super::{Graph, cycle, shown};

pub fn dot(graph: &Graph) -> String {
    let mut out = String::from(
        "digraph jit {\n  rankdir=LR;\n  bgcolor=\"white\";\n  \
         node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontcolor=\"#1b1f24\"];\n  \
         edge [color=\"#6b7480\"];\n",
    );
    for (at, vertex) in graph.vertices.iter().enumerate() {
        let (fill, border) = shown::colours(vertex.state);
        let mut label = format!("{} [{}]", quoted(&shown::id(vertex)), shown::state(vertex));
        for more in [Some(&vertex.title), vertex.note.as_ref()].into_iter().flatten() {
            let more = shown::line(more, 60);
            if !more.is_empty() {
                label = format!("{label}\\n{}", quoted(&more));
            }
        }
        let dashed = if vertex.state.is_none() {
            ", style=\"rounded,dashed\""
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "  {} [label=\"{label}\", fillcolor=\"{fill}\", color=\"{border}\"{dashed}];",
            name(graph, at)
        );
    }
    let group = cycle::cyclic_groups(graph);
    for (first, after) in graph.arrows() {
        let cyclic = group[first].is_some() && group[first] == group[after];
        let style = if cyclic {
            " [color=\"#c92a2a\", style=dashed]"
        } else {
            ""
        };
        let _ = writeln!(out, "  {} -> {}{style};", name(graph, first), name(graph, after));
    }
    for (at, vertex) in graph.vertices.iter().enumerate() {
        if let Some(parent) = vertex.parent.as_deref().and_then(|id| graph.find(id)) {
            let _ = writeln!(
                out,
                "  {} -> {} [style=dotted, arrowhead=none, constraint=false];",
                name(graph, at),
                name(graph, parent)
            );
        }
    }
    out.push_str("}\n");
    out
}

fn name(graph: &Graph, at: usize) -> String {
    match shown::safe_id(&graph.vertices[at]) {
        Some(id) => format!("\"{id}\""),
        // No id can begin with a question mark, so this cannot be taken for another.
        None => format!("\"?{at}\""),
    }
}

fn quoted(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
}
