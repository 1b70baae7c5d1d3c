//! Text output for people: cleaning, emphasis, tables, and the text of common replies.
//!
//! What must hold: text from outside (issues, agents, files) is made harmless for a terminal before it is printed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::ops::ControlFlow;

use jit_core::model::ids::is_unprintable;
use serde_json::Value;

/// Tells whether a text is printable ASCII. Nearly every text is, and needs no cleaning.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Returns a text in which every character that a terminal would act on is shown as an escape. Line breaks and tabs stay.
/// For text from issues, agents or files.
pub fn clean(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            // Joiners combine letters and emoji. They do not move the cursor.
            '\u{200c}' | '\u{200d}' => out.push(c),
            c if is_unprintable(c) => {
                out.extend(c.escape_unicode());
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns equivalent JSON in which every character that a terminal would act on is an escape. Characters beyond ASCII
/// occur only inside JSON strings, so escaping them keeps the meaning.
pub fn clean_json(text: String) -> String {
    // Control characters below U+007F stand between the strings, or are escapes already.
    let is_raw = |c: char| c >= '\u{7f}' && is_unprintable(c);
    if !text.contains(is_raw) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if !is_raw(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// Cleans a text and puts it on one line.
pub fn clean_line(text: &str) -> String {
    one_line(text).into_owned()
}

/// Cleans a path and puts it on one line. Line breaks and tabs become escapes, so that they differ from blanks.
pub fn clean_path(text: &str) -> String {
    clean(text).replace('\n', "\\n").replace('\t', "\\t")
}

pub fn one_line(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return text.into();
    }
    clean(text).replace(['\n', '\t'], " ").into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// Emphasis. With `Color::Auto` it is on if standard output is a terminal and `NO_COLOR` is unset or empty.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    on: bool,
}

impl Style {
    pub fn new(color: Color) -> Self {
        let on = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && io::stdout().is_terminal()
            }
        };
        Self { on }
    }

    /// Returns a style without emphasis.
    pub fn plain() -> Self {
        Self { on: false }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }
}

/// Prints an item of a stream. `Break` means that nobody reads standard output any more.
pub fn pass_on(text: &str) -> ControlFlow<()> {
    match print(text) {
        Ok(true) => ControlFlow::Continue(()),
        Ok(false) | Err(_) => ControlFlow::Break(()),
    }
}

/// Writes to standard output. Returns `Ok(false)` if the reader has closed it.
pub fn print(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(e),
    }
}

/// Writes a line to standard error, for people. Ignores a failure, because no other channel is left.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Returns the number of characters that a terminal shows. The escape sequences of emphasis count as zero.
fn shown_width(text: &str) -> usize {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().map_or(0, |part| part.chars().count());
    let rest = parts.map(|part| {
        part.split_once('m')
            .map_or(part, |(_, shown)| shown)
            .chars()
            .count()
    });
    first + rest.sum::<usize>()
}

/// Returns the width of a text on a terminal.
pub fn width(text: &str) -> usize {
    match is_plain(text) {
        true => text.len(),
        false => shown_width(text),
    }
}

/// Formats rows as columns of equal width, two spaces apart.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; columns];
    for row in rows {
        for (n, cell) in row.iter().enumerate() {
            widths[n] = widths[n].max(width(cell));
        }
    }
    let mut out = String::new();
    for row in rows {
        let begin = out.len();
        for (n, cell) in row.iter().enumerate() {
            push_cell(&mut out, cell, widths[n] - width(cell));
        }
        out.truncate(begin + out[begin..].trim_end().len());
        out.push('\n');
    }
    out
}

pub fn push_cell(out: &mut String, text: &str, more: usize) {
    const SPACES: &str = "                                ";
    out.push_str(text);
    let mut room = more + 2;
    while room > 0 {
        let some = room.min(SPACES.len());
        out.push_str(&SPACES[..some]);
        room -= some;
    }
}

/// Names of JSON fields that hold a list of objects. A list of words that belongs to one object is not among them.
const PLURALS: &[&str] = &[
    "active",
    "checks",
    "commands",
    "commits",
    "edges",
    "events",
    "evicted",
    "gates",
    "hooks",
    "imported",
    "issues",
    "kept",
    "nodes",
    "presets",
    "problems",
    "records",
    "released",
    "settings",
    "skipped",
    "units",
    "worktrees",
];

/// Keeps only the named fields: those of the object itself, or those of each object in its lists. A field of the document
/// that is named stays whole. A list stays if a field of its objects is named.
pub fn keep_fields(value: Value, fields: &[String]) -> Value {
    let is_named = |name: &String| fields.contains(name);
    let pick = |value: Value| match value {
        Value::Object(map) => Value::Object(map.into_iter().filter(|(name, _)| is_named(name)).collect()),
        other => other,
    };
    match value {
        // An object with an id is one thing, whatever lists it has. For example, the gates of an issue are words.
        Value::Object(map) if !map.contains_key("id") && map.iter().any(is_list) => {
            let lists = map.iter().filter(|pair| is_list(*pair));
            let mut rows = lists.filter_map(|(_, list)| list.as_array()).flatten();
            let of_rows = fields.iter().any(|field| !map.contains_key(field))
                || rows.any(|row| fields.iter().any(|field| row.get(field).is_some()));
            let keep = |(name, value): (String, Value)| match value {
                value if is_named(&name) => Some((name, value)),
                Value::Array(items) if of_rows && is_plural(&name) => {
                    Some((name, Value::Array(items.into_iter().map(pick).collect())))
                }
                _ => None,
            };
            Value::Object(map.into_iter().filter_map(keep).collect())
        }
        other => pick(other),
    }
}

/// Returns a warning about names that match no field. If all lists are empty, the fields of their objects are unknown, so
/// there is no warning.
pub fn unknown_fields(value: &Value, fields: &[String]) -> Option<String> {
    let Value::Object(map) = value else { return None };
    let mut known: BTreeSet<&str> = BTreeSet::new();
    // An object with an id is one thing, and its lists are ordinary fields.
    let is_thing = map.contains_key("id");
    let lists: Vec<&Vec<Value>> = map
        .iter()
        .filter(|(name, _)| !is_thing && is_plural(name))
        .filter_map(|(_, value)| value.as_array())
        .collect();
    if !lists.is_empty() && lists.iter().all(|list| list.is_empty()) {
        return None;
    }
    known.extend(
        map.iter()
            .filter(|pair| is_thing || !is_list(*pair))
            .map(|(name, _)| name.as_str()),
    );
    for item in lists.into_iter().flatten() {
        known.extend(
            item.as_object()
                .into_iter()
                .flat_map(|item| item.keys().map(String::as_str)),
        );
    }
    let unknown: Vec<&str> = fields
        .iter()
        .map(String::as_str)
        .filter(|name| !known.contains(name) && !map.contains_key(*name))
        .collect();
    if unknown.is_empty() {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    Some(format!(
        "--fields: there is no {}; known: {}",
        unknown.join(", "),
        known.join(", ")
    ))
}

fn is_plural(name: &str) -> bool {
    PLURALS.contains(&name)
}

/// Tells whether a field is a list of objects, as in `{"issues":[…]}`. An empty list counts too.
fn is_list((name, value): (&String, &Value)) -> bool {
    value.is_array() && is_plural(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn i1_escape_sequences_are_shown_not_obeyed() {
        assert_eq!(
            clean("a\u{1b}[31mb\u{9b}c\u{202e}d\n"),
            "a\\u{1b}[31mb\\u{9b}c\\u{202e}d\n"
        );
        assert_eq!(clean_line("a\nb"), "a b");
    }

    #[test]
    fn i1_columns_stand_below_each_other_with_emphasis_and_without() {
        let rows = |style: Style| {
            let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
            table(&[
                row("UNIT", "STATE"),
                vec![style.bold("täg"), style.bad("FAILED")],
                row("x", "y"),
            ])
        };
        let plain = rows(Style::plain());
        assert_eq!(plain, "UNIT  STATE\ntäg   FAILED\nx     y\n");
        let styled = rows(Style::new(Color::Always));
        let bare = styled.replace("\u{1b}[1m", "").replace("\u{1b}[31m", "");
        assert_eq!(bare.replace("\u{1b}[0m", ""), plain);
    }

    #[test]
    fn i1_fields_are_kept_of_things_and_of_lists() {
        let fields = ["id".to_owned()];
        assert_eq!(
            keep_fields(json!({"id": 1, "labels": ["x"], "t": 2}), &fields),
            json!({"id": 1})
        );
        assert_eq!(
            keep_fields(json!({"issues": [{"id": 1, "t": 2}], "sequence": 3}), &fields),
            json!({"issues": [{"id": 1}]})
        );
        assert_eq!(
            keep_fields(json!({"issues": []}), &fields),
            json!({"issues": []}),
            "a list without things is still a list"
        );
        assert_eq!(
            keep_fields(json!({"id": 1, "labels": [], "checks": 3}), &fields),
            json!({"id": 1})
        );
        assert_eq!(
            keep_fields(json!({"id": 1, "gates": ["x"], "title": "t"}), &fields),
            json!({"id": 1})
        );
        let document = json!({"nodes": [{"id": 1}], "edges": [{"from": 1}], "cycles": [[1]], "ok": true});
        let keep = |fields: &[&str]| {
            let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
            keep_fields(document.clone(), &fields)
        };
        assert_eq!(keep(&["ok"]), json!({"ok": true}), "no list was asked for");
        assert_eq!(keep(&["nodes"]), json!({"nodes": [{"id": 1}]}), "whole");
        assert_eq!(
            keep(&["id", "cycles"]),
            json!({"nodes": [{"id": 1}], "edges": [{}], "cycles": [[1]]})
        );
    }
}
