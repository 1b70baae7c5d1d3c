//! The graph as a picture of its own: one SVG file, no scripts, no fonts, nothing fetched.
//!
//! It is XML: every text from outside goes through [`xml`]. Text is cut by an estimate of its width, and clipped to the
//! box should the reader's font be wider.

use std::fmt::Write;

use super::layout::{self, ArrowHead, BOX_WIDTH, COLUMN_GAP, Layout, Wire};
use super::{Graph, Vertex, cycle, shown};
use crate::model::issue::IssueState;

const MARGIN: f64 = 24.0;
const LEGEND: f64 = 44.0;
const PADDING: f64 = 11.0;
const TITLE_SIZE: f64 = 12.5;
const SMALL_SIZE: f64 = 11.0;
const TITLE_LINES: usize = 2;

const STYLE: &str = "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;\
font-size:12.5px;fill:#1b1f24}\
.id{font-weight:600;font-size:12px}\
.small{font-size:11px;fill:#4a525c}\
.box{stroke-width:1.5}\
.unknown{stroke-dasharray:5 4}\
.wire{fill:none;stroke:#7b8591;stroke-width:1.5}\
.head{fill:#7b8591}\
.wire.cycle{stroke:#c92a2a;stroke-dasharray:6 4}\
.head.cycle{fill:#c92a2a}";

pub fn svg(graph: &Graph) -> String {
    let notes = graph.vertices.iter().any(|v| v.note.is_some());
    let box_height = if notes { 82.0 } else { 66.0 };
    let drawn = layout::layout(graph, box_height);
    let legend = legend(graph);
    let width = drawn.width.max(legend.1) + 2.0 * MARGIN;
    let height = drawn.height + LEGEND + 2.0 * MARGIN;
    let mut out = String::with_capacity(4096 + 900 * graph.vertices.len());
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n\
         <title>Issues and what they wait for</title>\n<style>{STYLE}</style>\n\
         <defs><clipPath id=\"inside\"><rect width=\"{:.0}\" height=\"{box_height:.0}\"/></clipPath></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <g transform=\"translate({MARGIN},{MARGIN})\">\n{}</g>\n\
         <g transform=\"translate({MARGIN},{:.0})\">\n",
        BOX_WIDTH - 4.0,
        legend.0,
        MARGIN + LEGEND,
    );
    let group = cycle::cyclic_groups(graph);
    // Cycles are drawn last, over the others.
    for cyclic in [false, true] {
        for wire in &drawn.wires {
            if is_cyclic(wire, &group) == cyclic {
                draw_wire(&mut out, wire, cyclic);
            }
        }
    }
    draw_boxes(&mut out, graph, &drawn, box_height);
    out.push_str("</g>\n</svg>\n");
    out
}

fn is_cyclic(wire: &Wire, group: &[Option<usize>]) -> bool {
    wire.backward
        || wire
            .ends
            .is_some_and(|(a, b)| group[a].is_some() && group[a] == group[b])
}

fn draw_wire(out: &mut String, wire: &Wire, cyclic: bool) {
    let cycle = if cyclic { " cycle" } else { "" };
    out.push_str(&format!("<path class=\"wire{cycle}\" d=\""));
    let mut end: Option<(f64, f64)> = None;
    for &[x1, y1, x2, y2] in &wire.curves {
        match end {
            Some((x, _)) if x < x1 => {
                let _ = write!(out, "H{x1:.0}");
            }
            _ => {
                let _ = write!(out, "M{x1:.0} {y1:.1}");
            }
        }
        let bend = COLUMN_GAP / 2.0;
        let _ = write!(
            out,
            "C{:.0} {y1:.1} {:.0} {y2:.1} {x2:.0} {y2:.1}",
            x1 + bend,
            x2 - bend
        );
        end = Some((x2, y2));
    }
    // The shared part of several arrows runs through its last lane, to where they part.
    if let (ArrowHead::None, Some((x, _))) = (wire.head, end) {
        let _ = write!(out, "H{:.0}", x + BOX_WIDTH);
    }
    out.push_str("\"/>\n");
    let (tip, back) = match wire.head {
        ArrowHead::Right => (wire.curves.last().map(|c| (c[2], c[3])), -8.0),
        ArrowHead::Left => (wire.curves.first().map(|c| (c[0], c[1])), 8.0),
        ArrowHead::None => (None, 0.0),
    };
    if let Some((x, y)) = tip {
        let _ = writeln!(
            out,
            "<path class=\"head{cycle}\" d=\"M{x:.0} {y:.1}l{back} -4.5v9z\"/>"
        );
    }
}

fn draw_boxes(out: &mut String, graph: &Graph, drawn: &Layout, box_height: f64) {
    for (at, vertex) in graph.vertices.iter().enumerate() {
        let (x, y) = drawn.corners[at];
        let (fill, border) = shown::colours(vertex.state);
        let state = shown::state(vertex);
        let unknown = if vertex.state.is_none() { " unknown" } else { "" };
        let _ = write!(
            out,
            "<g transform=\"translate({x:.0},{y:.1})\"><title>{}</title>\
             <rect class=\"box{unknown}\" width=\"{BOX_WIDTH:.0}\" height=\"{box_height:.0}\" rx=\"7\" \
             fill=\"{fill}\" stroke=\"{border}\"/><g clip-path=\"url(#inside)\">",
            xml(&hint(vertex)),
        );
        let inner = BOX_WIDTH - 2.0 * PADDING;
        let state_width = width(state, SMALL_SIZE);
        let id = cut(&shown::id(vertex), 12.0 * 1.08, inner - state_width - 10.0);
        let _ = write!(
            out,
            "<text class=\"id\" x=\"{PADDING}\" y=\"19\">{}</text>\
             <text class=\"small\" x=\"{:.0}\" y=\"19\" text-anchor=\"end\" style=\"fill:{border}\">{state}</text>",
            xml(&id),
            BOX_WIDTH - PADDING,
        );
        for (number, words) in wrapped(&shown::line(&vertex.title, 200), inner)
            .iter()
            .enumerate()
        {
            let _ = write!(
                out,
                "<text x=\"{PADDING}\" y=\"{:.0}\">{}</text>",
                38.0 + 16.0 * number as f64,
                xml(words)
            );
        }
        let note = shown::line(vertex.note.as_deref().unwrap_or_default(), 200);
        if !note.is_empty() {
            let _ = write!(
                out,
                "<text class=\"small\" x=\"{PADDING}\" y=\"{:.0}\">{}</text>",
                box_height - 10.0,
                xml(&cut(&note, SMALL_SIZE, inner))
            );
        }
        out.push_str("</g>");
        if graph.waits_for[at].contains(&at) {
            let _ = write!(
                out,
                "<path class=\"wire cycle\" d=\"M{:.0} 0c0 -16 24 -16 24 0\"/>",
                BOX_WIDTH - 44.0
            );
        }
        out.push_str("</g>\n");
    }
}

/// The text that a browser shows when the pointer rests on a box: nothing is cut there.
fn hint(vertex: &Vertex) -> String {
    let mut hint = format!("{} ({})", shown::id(vertex), shown::state(vertex));
    for (before, more) in [
        (" ", Some(&vertex.title)),
        (" — ", vertex.note.as_ref()),
        (" — part of ", vertex.parent.as_ref()),
    ] {
        let more = shown::line(more.map_or("", String::as_str), crate::model::issue::MAX_TITLE);
        if !more.is_empty() {
            hint.push_str(before);
            hint.push_str(&more);
        }
    }
    hint
}

/// One swatch for each state that occurs, and what arrows mean; with its width.
fn legend(graph: &Graph) -> (String, f64) {
    let mut out = String::new();
    let mut x = 0.0;
    for state in IssueState::ALL.iter().copied().map(Some).chain([None]) {
        if !graph.vertices.iter().any(|v| v.state == state) {
            continue;
        }
        let (fill, border) = shown::colours(state);
        let name = state.map_or("unknown", IssueState::as_str);
        let dashed = if state.is_none() { " unknown" } else { "" };
        let _ = writeln!(
            out,
            "<rect class=\"box{dashed}\" x=\"{x:.0}\" y=\"0\" width=\"20\" height=\"14\" rx=\"4\" fill=\"{fill}\" \
             stroke=\"{border}\"/><text class=\"small\" x=\"{:.0}\" y=\"11\">{name}</text>",
            x + 27.0
        );
        x += 27.0 + width(name, SMALL_SIZE) + 18.0;
    }
    let mut arrow = |class: &str, meaning: &str| {
        let _ = writeln!(
            out,
            "<path class=\"wire{class}\" d=\"M{x:.0} 7h22\"/><path class=\"head{class}\" d=\"M{:.0} 7l-8 -4.5v9z\"/>\
             <text class=\"small\" x=\"{:.0}\" y=\"11\">{meaning}</text>",
            x + 30.0,
            x + 38.0
        );
        x += 38.0 + width(meaning, SMALL_SIZE) + 18.0;
    };
    arrow("", "the right one waits for the left one");
    if !cycle::cycles(graph).is_empty() {
        arrow(" cycle", "a cycle: none of them can begin");
    }
    (out, x)
}

fn wrapped(text: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() && lines.len() + 1 < TITLE_LINES {
        if width(rest, TITLE_SIZE) <= room {
            break;
        }
        let fits = fitting(rest, TITLE_SIZE, room);
        // Between words if there is a gap in the second half of the line, else anywhere.
        let space = rest[..fits].rfind(' ').filter(|&at| at * 2 > fits);
        let split = if rest[fits..].starts_with(' ') {
            fits
        } else {
            space.unwrap_or(fits)
        };
        lines.push(rest[..split].trim_end().to_owned());
        rest = rest[split..].trim_start();
    }
    if !rest.is_empty() {
        lines.push(cut(rest, TITLE_SIZE, room));
    }
    lines
}

fn cut(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let fits = fitting(text, size, room - size);
    format!("{}…", text[..fits].trim_end())
}

/// How many bytes of the text fit, at least one character.
fn fitting(text: &str, size: f64, room: f64) -> usize {
    let mut used = 0.0;
    for (at, c) in text.char_indices() {
        used += em(c) * size;
        if used > room && at > 0 {
            return at;
        }
    }
    text.len()
}

fn width(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

/// The width of a character in a wide sans-serif font, rounded up: a line may be shorter than it could, not longer.
fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '/' | '"' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' | '—' => 1.0,
        'A'..='Z' | '+' | '=' | '<' | '>' | '#' | '~' | '&' => 0.8,
        _ if c.is_ascii() => 0.64,
        '\u{00a1}'..='\u{024f}' => 0.8,
        _ => 1.05,
    }
}

fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            _ => out.push(c),
        }
    }
    out
}
