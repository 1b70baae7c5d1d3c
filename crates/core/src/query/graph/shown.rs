//! Text from issues, made fit to stand in one line of a picture.

use super::Vertex;
use crate::model::ids::{IssueId, is_unprintable};
use crate::model::issue::IssueState;

/// One line: white space is one space, nothing a terminal acts on or XML forbids, at most `max` characters.
pub(super) fn line(text: &str, max: usize) -> String {
    let mut out = String::new();
    let mut length = 0;
    let mut space = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            space = length > 0;
            continue;
        }
        if is_unprintable(c) || is_noncharacter(c) {
            continue;
        }
        if length + usize::from(space) >= max {
            while length >= max && max > 0 {
                out.pop();
                length -= 1;
            }
            out.push('…');
            return out;
        }
        if space {
            out.push(' ');
            length += 1;
            space = false;
        }
        out.push(c);
        length += 1;
    }
    out
}

fn is_noncharacter(c: char) -> bool {
    u32::from(c) & 0xfffe == 0xfffe || ('\u{fdd0}'..='\u{fdef}').contains(&c)
}

/// Ids are shown whole; one that is none is cut.
pub(super) fn id(vertex: &Vertex) -> String {
    line(&vertex.id, crate::model::ids::MAX_ISSUE_ID)
}

/// The id, if it is one, so that it can serve as a name in a file.
pub(super) fn safe_id(vertex: &Vertex) -> Option<&str> {
    vertex.id.parse::<IssueId>().is_ok().then_some(vertex.id.as_str())
}

pub(super) fn state(vertex: &Vertex) -> &'static str {
    vertex.state.map_or("unknown", IssueState::as_str)
}

/// One column that says the state at a glance.
pub(super) fn mark(state: Option<IssueState>) -> char {
    match state {
        Some(IssueState::Backlog) => '·',
        Some(IssueState::Ready) => '○',
        Some(IssueState::InProgress) => '▶',
        Some(IssueState::Gated) => '◆',
        Some(IssueState::Done) => '✓',
        Some(IssueState::Rejected) => '✗',
        None => '?',
    }
}

/// (background, border) of a state: light enough for dark text, dark enough to stand on white.
pub(super) fn colours(state: Option<IssueState>) -> (&'static str, &'static str) {
    match state {
        Some(IssueState::Backlog) => ("#f1f3f5", "#5c6670"),
        Some(IssueState::Ready) => ("#e3f2fd", "#1971c2"),
        Some(IssueState::InProgress) => ("#fff3bf", "#a85a00"),
        Some(IssueState::Gated) => ("#f3e5f9", "#8a3bb0"),
        Some(IssueState::Done) => ("#e6f7e9", "#2b8a3e"),
        Some(IssueState::Rejected) => ("#fbe4e4", "#b02a2a"),
        None => ("#ffffff", "#495057"),
    }
}
