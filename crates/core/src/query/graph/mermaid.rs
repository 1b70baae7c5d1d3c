//! The graph for Mermaid, which GitHub and others draw inside Markdown.
//!
//! Names are made up (`n0`, `n1`), since words such as `end` are part of the language. In labels all that could mean
//! something to Mermaid (quotes, `%%{…}%%`, `$$`, Markdown, tags) is written as an entity.

use std::fmt::Write;

use super::{Graph, cycle, shown};
use crate::model::issue::IssueState;

/// The number of edges that Mermaid draws unless its page says otherwise.
const MAX_EDGES: usize = 500;
const MAX_TEXT: usize = 50_000;

pub fn mermaid(graph: &Graph) -> String {
    let mut out = String::from("flowchart LR\n");
    for (at, vertex) in graph.vertices.iter().enumerate() {
        let mut label = escaped(&shown::id(vertex));
        for (before, more) in [(": ", Some(&vertex.title)), (" — ", vertex.note.as_ref())] {
            let more = escaped(&shown::line(more.map_or("", String::as_str), 60));
            if !more.is_empty() {
                label = format!("{label}{before}{more}");
            }
        }
        let _ = writeln!(out, "  n{at}[\"{label}\"]:::{}", shown::state(vertex));
    }
    let group = cycle::cyclic_groups(graph);
    let mut red = Vec::new();
    for (number, (first, after)) in graph.arrows().enumerate() {
        let _ = writeln!(out, "  n{first} --> n{after}");
        if group[first].is_some() && group[first] == group[after] {
            red.push(number.to_string());
        }
    }
    for (at, vertex) in graph.vertices.iter().enumerate() {
        if let Some(parent) = vertex.parent.as_deref().and_then(|id| graph.find(id)) {
            let _ = writeln!(out, "  n{at} -.- n{parent}");
        }
    }
    if !red.is_empty() {
        let _ = writeln!(
            out,
            "  linkStyle {} stroke:#c92a2a,stroke-width:2px",
            red.join(",")
        );
    }
    let states = IssueState::ALL.iter().copied().map(Some).chain([None]);
    for state in states.filter(|state| graph.vertices.iter().any(|v| v.state == *state)) {
        let (fill, border) = shown::colours(state);
        let name = state.map_or("unknown", IssueState::as_str);
        let _ = writeln!(out, "  classDef {name} fill:{fill},stroke:{border},color:#1b1f24");
    }
    if graph.dependencies() > MAX_EDGES || out.len() > MAX_TEXT {
        let warning = format!(
            "%% Larger than Mermaid draws unless maxEdges ({MAX_EDGES}) and maxTextSize ({MAX_TEXT}) are raised.\n"
        );
        out.insert_str(0, &warning);
    }
    out
}

/// A colon too: Mermaid takes what looks like `style x:#fff;` for a style, wherever it stands.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            ' ' | '-' | '.' | ',' | '/' | '(' | ')' | '?' | '+' | '\'' => out.push(c),
            _ if c.is_ascii_punctuation() => {
                let _ = write!(out, "#{};", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}
