//! Dependencies of an issue, and theirs, as a tree.
//!
//! Depth and size are bounded, so recursion is too, and so is what a reader of the JSON has to nest.

use std::collections::HashSet;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Graph, shown};
use crate::model::issue::IssueState;

/// JSON parsers give up at about 128 levels, and each branch takes two of them.
const MAX_DEPTH: usize = 50;

/// How much of the tree to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Levels below the root, at most 50.
    pub depth: usize,
    /// Branches altogether.
    pub size: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            depth: MAX_DEPTH,
            size: 1000,
        }
    }
}

/// Why a branch has nothing below it although it may depend on something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TreeMark {
    /// It is shown with all it waits for further up.
    Above,
    /// It waits for itself, by way of the branches between.
    Cycle,
    /// No issue has this id.
    Unknown,
    /// The bounds are reached.
    Cut,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Branch {
    pub id: String,
    pub title: Option<String>,
    pub state: Option<IssueState>,
    pub note: Option<String>,
    pub mark: Option<TreeMark>,
    pub depends_on: Vec<Branch>,
}

/// The tree below `root` as data.
pub fn branches(graph: &Graph, root: &str, bounds: Bounds) -> Branch {
    let Some(at) = graph.find(root) else {
        return Branch {
            id: root.to_owned(),
            title: None,
            state: None,
            note: None,
            mark: Some(TreeMark::Unknown),
            depends_on: Vec::new(),
        };
    };
    let mut grower = Grower {
        graph,
        depth: bounds.depth.min(MAX_DEPTH),
        left: bounds.size.max(1),
        shown: HashSet::new(),
        path: Vec::new(),
    };
    grower.branch(at)
}

struct Grower<'a> {
    graph: &'a Graph,
    depth: usize,
    left: usize,
    shown: HashSet<usize>,
    path: Vec<usize>,
}

impl Grower<'_> {
    fn branch(&mut self, at: usize) -> Branch {
        self.left = self.left.saturating_sub(1);
        let below = &self.graph.waits_for[at];
        let mark = if self.graph.vertices[at].state.is_none() {
            Some(TreeMark::Unknown)
        } else if self.path.contains(&at) {
            Some(TreeMark::Cycle)
        } else if self.shown.contains(&at) {
            Some(TreeMark::Above)
        } else if !below.is_empty() && self.path.len() >= self.depth {
            Some(TreeMark::Cut)
        } else {
            None
        };
        let mut branch = self.leaf(at, mark);
        if mark.is_some() {
            return branch;
        }
        self.shown.insert(at);
        self.path.push(at);
        for &to in below {
            if self.left == 0 {
                branch.mark = Some(TreeMark::Cut);
                break;
            }
            let grown = self.branch(to);
            branch.depends_on.push(grown);
        }
        self.path.pop();
        branch
    }

    fn leaf(&self, at: usize, mark: Option<TreeMark>) -> Branch {
        let vertex = &self.graph.vertices[at];
        Branch {
            id: vertex.id.clone(),
            title: vertex.state.map(|_| vertex.title.clone()),
            state: vertex.state,
            note: vertex.note.clone(),
            mark,
            depends_on: Vec::new(),
        }
    }
}

/// The tree below `root` as lines for a terminal.
pub fn tree(graph: &Graph, root: &str, bounds: Bounds) -> String {
    lines(&branches(graph, root, bounds))
}

/// A tree as lines for a terminal.
pub fn lines(root: &Branch) -> String {
    let mut out = String::new();
    describe(&mut out, root);
    draw(&mut out, root, &mut String::new());
    out
}

fn draw(out: &mut String, branch: &Branch, before: &mut String) {
    let cut = branch.mark == Some(TreeMark::Cut);
    let count = branch.depends_on.len();
    for (number, below) in branch.depends_on.iter().enumerate() {
        let last = number + 1 == count && !cut;
        out.push_str(before);
        out.push_str(if last { "└─ " } else { "├─ " });
        describe(out, below);
        let length = before.len();
        before.push_str(if last { "   " } else { "│  " });
        draw(out, below, before);
        before.truncate(length);
    }
    if cut {
        let _ = writeln!(out, "{before}└─ … (more is not shown)");
    }
}

fn describe(out: &mut String, branch: &Branch) {
    let _ = write!(
        out,
        "{} {}",
        shown::mark(branch.state),
        shown::line(&branch.id, crate::model::ids::MAX_ISSUE_ID)
    );
    let again = match branch.mark {
        Some(TreeMark::Above) => Some(" (above)"),
        Some(TreeMark::Unknown) => Some(" (unknown)"),
        Some(TreeMark::Cycle) => Some(" (cycle)"),
        Some(TreeMark::Cut) | None => None,
    };
    if let Some(again) = again {
        out.push_str(again);
        out.push('\n');
        return;
    }
    let title = shown::line(branch.title.as_deref().unwrap_or_default(), 72);
    let state = branch.state.map_or("unknown", IssueState::as_str);
    let note = shown::line(branch.note.as_deref().unwrap_or_default(), 60);
    let comma = if note.is_empty() { "" } else { ", " };
    let _ = writeln!(out, "  {title}  ({state}{comma}{note})");
}
