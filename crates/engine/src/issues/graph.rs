//! Dependencies between issues, as a graph and as a tree.

use crate::api::issues::IssueReply;
use jit_core::log::state;
use jit_core::model::ids::IssuePrefix;
use jit_core::model::issue::Issue;
use jit_core::model::refusal::Code;
use jit_core::query::graph::{self as draw, Bounds, Graph, GraphNode, around, branches, data};
use jit_store::{Outcome, View};

use crate::api::issues::{GraphFormat, GraphPicture, IssueView};
use crate::api::{Answer, Reply};
use crate::context::Context;
use crate::issues::issue_lists::Board;
use crate::refusals::refuse;

pub(crate) fn graph(
    cx: &Context,
    root: Option<&IssuePrefix>,
    closed: bool,
    drawn: Option<GraphFormat>,
) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let root = root
        .map(|text| crate::write_path::resolve(&view, text))
        .transpose()?;
    let is_root = |issue: &Issue| root.as_ref().is_some_and(|root| root.id == issue.id);
    let mut nodes = nodes(&view, |issue| {
        closed || is_root(issue) || !issue.state.is_closed()
    })?;
    if let Some(root) = &root {
        nodes = around(nodes, root.id.as_str());
    }
    let graph = Graph::new(nodes);
    let reply = match drawn {
        None => IssueReply::Graph(data(&graph)),
        Some(format) => {
            let text = match format {
                GraphFormat::Text => draw::text(&graph),
                GraphFormat::Dot => draw::dot(&graph),
                GraphFormat::Mermaid => draw::mermaid(&graph),
                GraphFormat::Svg => draw::svg(&graph),
            };
            IssueReply::Picture(GraphPicture { format, text })
        }
    };
    crate::write_path::read_answer(cx, &view, Reply::Issues(reply))
}

pub(crate) fn dep_tree(cx: &Context, root: &IssuePrefix) -> Outcome<Answer> {
    let view = crate::write_path::view(cx)?;
    let root = crate::write_path::resolve(&view, root)?;
    let graph = Graph::new(nodes(&view, |_| true)?);
    let tree = branches(&graph, root.id.as_str(), Bounds::default());
    crate::write_path::read_answer(cx, &view, Reply::Issues(IssueReply::Tree(tree)))
}

/// Returns the wanted issues, by id. Dependencies on other issues are omitted, but dependencies on unknown issues are
/// kept.
fn nodes(view: &View, wanted: impl Fn(&Issue) -> bool) -> Outcome<Vec<GraphNode>> {
    let board = Board::load(view)?;
    let mut nodes = Vec::with_capacity(board.issues.len());
    for issue in board.issues.iter().filter(|issue| wanted(issue)) {
        let mut depends_on = Vec::new();
        for id in &issue.depends_on {
            let shown = match board.find(id) {
                Some(other) => wanted(other),
                None => !state::was_deleted(&*view.table, &id.key()).map_err(|e| refuse(Code::Io, e))?,
            };
            if shown {
                depends_on.push(id.to_string());
            }
        }
        let shown = IssueView::new(issue.clone(), board.lease(issue), &view.now);
        let blocked = issue.blocked.as_ref().filter(|_| !issue.state.is_closed());
        let note = match &shown.assignee {
            Some(holder) => Some(holder.to_string()),
            None => blocked.map(|reason| format!("blocked: {reason}")),
        };
        nodes.push(GraphNode {
            id: issue.id.to_string(),
            title: issue.title.clone(),
            state: shown.issue.state,
            note,
            parent: issue.parent.as_ref().map(ToString::to_string),
            depends_on,
        });
    }
    nodes.sort_by_key(|node| node.id.to_ascii_lowercase());
    Ok(nodes)
}
