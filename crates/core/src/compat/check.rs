//! Finds everything that is wrong with a registry file, and says how to mend it (F8).
//!
//! The schema says most of it. Besides: JSON that cannot be read, keys that are there twice, versions nobody knows, keys
//! that are not those of their records, worktree locks without a worktree, and locks that have run out.
//!
//! Limitations: of JSON Schema, what the schemas here use is checked: type, properties, required, enum, pattern,
//! format date-time, minimum.

use serde_json::Value;

use super::json::{Located, step};
use super::{VERSION, lock_key, schema};
use crate::model::time::Wall;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryFlaw {
    /// JSON pointer of the value; empty for the whole file.
    pub path: String,
    pub line: usize,
    pub problem: String,
    pub fix: String,
}

/// The flaws of a file by the schema of this name; `None` when there is no such schema.
pub fn check(name: &str, text: &[u8], agent_types: &[String], now: Wall) -> Option<Vec<RegistryFlaw>> {
    let schema = schema(name, agent_types)?;
    let located = match Located::read(text) {
        Ok(located) => located,
        Err(e) => {
            return Some(vec![RegistryFlaw {
                path: String::new(),
                line: e.line,
                problem: format!(
                    "this is not JSON: {} (line {}, column {})",
                    e.why, e.line, e.column
                ),
                fix: "mend the text there, or restore the file from a backup".to_owned(),
            }]);
        }
    };
    let mut checker = Checker {
        located: &located,
        flaws: Vec::new(),
    };
    for (path, line) in &located.twice {
        checker.flaws.push(RegistryFlaw {
            path: path.clone(),
            line: *line,
            problem: "the key is there twice, and readers keep only one of the two".to_owned(),
            fix: "remove or rename one of them".to_owned(),
        });
    }
    checker.versions();
    checker.value(&schema, &located.value, "");
    match name {
        "agent_lock" => checker.locks(now),
        _ => checker.sessions(),
    }
    let mut flaws = checker.flaws;
    flaws.sort_by(|a, b| (a.line, &a.path).cmp(&(b.line, &b.path)));
    Some(flaws)
}

struct Checker<'a> {
    located: &'a Located,
    flaws: Vec<RegistryFlaw>,
}

impl Checker<'_> {
    fn flaw(&mut self, path: &str, problem: impl Into<String>, fix: impl Into<String>) {
        self.flaws.push(RegistryFlaw {
            path: path.to_owned(),
            line: self.located.line(path),
            problem: problem.into(),
            fix: fix.into(),
        });
    }

    fn versions(&mut self) {
        for path in [
            "/version",
            "/schema_version",
            "/metadata/version",
            "/metadata/schema_version",
        ] {
            match self.located.value.pointer(path) {
                None => {}
                Some(Value::String(text)) if text == VERSION => {}
                Some(Value::String(text)) if text.starts_with("2.") => self.flaw(
                    path,
                    format!("version {text:?} is older than {VERSION}"),
                    "jit migrate FILE",
                ),
                Some(other) => self.flaw(
                    path,
                    format!("version {} is not known; {VERSION} is", shown(other)),
                    format!("use the program that wrote it, or write version {VERSION}"),
                ),
            }
        }
    }

    fn value(&mut self, schema: &Value, value: &Value, path: &str) {
        if let Some(types) = schema.get("type") {
            let one = [types.clone()];
            let types = types.as_array().map_or(&one[..], Vec::as_slice);
            let names: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
            if !names.iter().any(|name| is_of(name, value)) {
                self.flaw(
                    path,
                    format!(
                        "{} must be {}, not {}",
                        last(path),
                        names.join(" or "),
                        shown(value)
                    ),
                    format!("write {} there", example(path, &names)),
                );
                return;
            }
        }
        if let Some(all) = schema.get("enum").and_then(Value::as_array)
            && !all.contains(value)
        {
            let words: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
            self.flaw(
                path,
                format!("{} is none of the words for {}", shown(value), last(path)),
                format!("use one of {}", words.join(", ")),
            );
        }
        if let Some(text) = value.as_str() {
            if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
                && let Some((name, fits)) = form(pattern)
                && !fits(text)
            {
                let fix = match name {
                    "sess-XXXXXXXX" => "it is an id of the old form: end that session and start a new one (jit session start)".to_owned(),
                    name => format!("use {name} format"),
                };
                self.flaw(
                    path,
                    format!("invalid {} format: {} is not {name}", last(path), shown(value)),
                    fix,
                );
            }
            if schema.get("format").and_then(Value::as_str) == Some("date-time")
                && text.parse::<Wall>().is_err()
            {
                self.flaw(
                    path,
                    format!("{} is not a time: {}", last(path), shown(value)),
                    "write it as 2026-01-26T10:30:00Z",
                );
            }
        }
        if let (Some(least), Some(number)) = (schema.get("minimum").and_then(Value::as_f64), value.as_f64())
            && number < least
        {
            self.flaw(
                path,
                format!("{} is less than {least}", last(path)),
                format!("write {least} or more"),
            );
        }
        let Some(object) = value.as_object() else { return };
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                let fix = match name {
                    "lock_key" => {
                        "it is a lock of an old format: jit migrate FILE, or release it and take it again"
                            .to_owned()
                    }
                    _ if !object.contains_key("lock_scope") => {
                        "it is an entry of version 2.0.0: jit migrate FILE".to_owned()
                    }
                    name => format!("add {name}"),
                };
                self.flaw(path, format!("missing {name}"), fix);
            }
        }
        for (key, inner) in object {
            let known = schema.get("properties").and_then(|all| all.get(key));
            let schema = known.or_else(|| schema.get("additionalProperties"));
            if let Some(schema) = schema {
                self.value(schema, inner, &step(path, key));
            }
        }
    }

    fn sessions(&mut self) {
        let sessions = self.located.value.get("sessions").and_then(Value::as_object);
        for (key, session) in sessions.into_iter().flatten() {
            let path = step("/sessions", key);
            if let Some(id) = session.get("session_id").and_then(Value::as_str)
                && id != key
            {
                self.flaw(
                    &step(&path, "session_id"),
                    format!("session_id {id:?} is not the key of its entry"),
                    "make both the same",
                );
            }
        }
    }

    fn locks(&mut self, now: Wall) {
        let locks = self.located.value.get("locks").and_then(Value::as_object);
        for (key, lock) in locks.into_iter().flatten() {
            let path = step("/locks", key);
            let text = |name: &str| lock.get(name).and_then(Value::as_str);
            let worktree = text("worktree_path").filter(|path| !path.is_empty());
            match (text("lock_scope"), worktree) {
                (Some("worktree"), None) => self.flaw(
                    &step(&path, "lock_scope"),
                    "mismatched lock_scope and worktree_path: the lock is of a worktree, but of which?",
                    "worktree-scoped locks must have worktree_path: add it, or make the lock global",
                ),
                (Some("global"), Some(_)) => self.flaw(
                    &step(&path, "worktree_path"),
                    "mismatched lock_scope and worktree_path: a global lock belongs to no worktree",
                    "write null there, or make lock_scope worktree",
                ),
                (Some(_), _) => {
                    if let (Some(own), Some(file)) = (text("lock_key"), text("file_path")) {
                        let expected = lock_key(worktree, file);
                        if own != expected {
                            self.flaw(
                                &step(&path, "lock_key"),
                                format!("lock_key {own:?} does not name what is locked"),
                                format!("write {expected:?} there"),
                            );
                        }
                    }
                }
                (None, _) => {}
            }
            if let Some(own) = text("lock_key") {
                // Where several share a lock, the keys of the map have the agent behind a `#`.
                let shared = text("agent_id").map(|agent| format!("{own}#{agent}"));
                if key != own && Some(key) != shared.as_ref() {
                    self.flaw(
                        &step(&path, "lock_key"),
                        format!("lock_key {own:?} is not the key of its entry"),
                        "make both the same",
                    );
                }
            }
            if let Some(until) = text("expires_at").and_then(|text| text.parse::<Wall>().ok())
                && until < now
            {
                self.flaw(
                    &step(&path, "expires_at"),
                    format!("expired lock not cleaned: it ran out at {until}"),
                    "jit lock cleanup",
                );
            }
        }
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => true,
    }
}

/// The value as it may be shown: shortened, on one line.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// The name of what a pointer leads to.
fn last(path: &str) -> String {
    match path.rsplit('/').next() {
        None | Some("") => "the file".to_owned(),
        Some(name) => name.replace("~1", "/").replace("~0", "~"),
    }
}

fn example(path: &str, types: &[&str]) -> String {
    match types.first() {
        Some(&"object") => "{}".to_owned(),
        Some(&"integer") => "a number such as 0".to_owned(),
        _ if path.ends_with("_at") => "a time such as \"2026-01-26T10:30:00Z\"".to_owned(),
        _ => format!("a value of type {}", types.join(" or ")),
    }
}

type Fits = fn(&str) -> bool;

/// The form that a pattern of the schemas asks for, as people write it, and the test for it.
pub(super) fn form(pattern: &str) -> Option<(&'static str, Fits)> {
    fn numbered(text: &str, front: &str) -> bool {
        text.strip_prefix(front)
            .is_some_and(|rest| rest.len() == 3 && rest.bytes().all(|b| b.is_ascii_digit()))
    }
    match pattern {
        r"^sess-[a-zA-Z0-9]{8}$" => Some(("sess-XXXXXXXX", |text| {
            text.strip_prefix("sess-")
                .is_some_and(|rest| rest.len() == 8 && rest.bytes().all(|b| b.is_ascii_alphanumeric()))
        })),
        r"^T-\d{3}$" => Some(("T-XXX", |text| numbered(text, "T-"))),
        r"^PR-\d{3}$" => Some(("PR-XXX", |text| numbered(text, "PR-"))),
        _ => None,
    }
}
