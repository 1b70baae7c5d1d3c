//! Writes YAML that every reader understands in the same way.
//!
//! Every text is a double-quoted scalar. Characters that YAML does not print, or that a terminal acts on, are escaped.
//!
//! What must hold: titles such as `no`, `1.0`, `- a: b` or `"` stay unchanged, in readers of YAML 1.1 and of 1.2.

use std::fmt::Write as _;

use serde_json::Value;

pub fn yaml(value: &Value) -> String {
    let mut out = String::new();
    node(&mut out, value, 0);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Writes `value`. The cursor is at column `indent` when it begins.
fn node(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (number, (name, value)) in map.iter().enumerate() {
                begin(out, number, indent);
                field(out, name);
                out.push(':');
                below(out, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (number, item) in items.iter().enumerate() {
                begin(out, number, indent);
                out.push_str("- ");
                node(out, item, indent + 2);
            }
        }
        scalar => {
            match scalar {
                Value::String(string) => text(out, string),
                // JSON and YAML write `{}`, `[]`, numbers, true, false and null in the same way.
                other => out.push_str(&other.to_string()),
            }
            out.push('\n');
        }
    }
}

fn begin(out: &mut String, number: usize, indent: usize) {
    if number > 0 {
        out.extend(std::iter::repeat_n(' ', indent));
    }
}

fn below(out: &mut String, value: &Value, indent: usize) {
    let nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if nested {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent + 2));
        node(out, value, indent + 2);
    } else {
        out.push(' ');
        node(out, value, 0);
    }
}

/// Words that a reader of YAML 1.1 does not read as text. As field names they are quoted.
const TAKEN: &[&str] = &["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

fn field(out: &mut String, name: &str) {
    let plain = |c: char| c.is_ascii_lowercase() || c == '_';
    match !name.is_empty() && name.chars().all(plain) && !TAKEN.contains(&name) {
        true => out.push_str(name),
        false => text(out, name),
    }
}

fn text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if u32::from(c) <= 0xff && c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if jit_core::model::ids::is_unprintable(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn i1_yaml_nests_and_quotes() {
        let value = json!({
            "issues": [{ "id": "A", "parts": [], "total_of": { "done": 1, "x": null } }, { "id": "no" }],
            "title": "a \"b\"\\\n\u{1b}\u{2028}\u{85}: -",
            "rows": [[1, true], {}],
        });
        assert_eq!(
            yaml(&value),
            "issues:\n  - id: \"A\"\n    parts: []\n    total_of:\n      done: 1\n      x: null\n  \
             - id: \"no\"\nrows:\n  - - 1\n    - true\n  - {}\n\
             title: \"a \\\"b\\\"\\\\\\n\\x1b\\u2028\\x85: -\"\n"
        );
        assert_eq!(yaml(&json!([])), "[]\n");
    }
}
