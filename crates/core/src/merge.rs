//! Merging two versions of an issue's fields, given the version both came from.
//!
//! Field by field: what only one side changed is taken; what both changed alike is taken once; times and revisions go
//! forward; lists are merged as sets. What both changed differently is a conflict, shown as such and never guessed.

use serde_json::{Map, Value};

/// A field that both sides changed in different ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub field: String,
    pub ours: Value,
    pub theirs: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// Where there is a conflict, ours.
    pub fields: Map<String, Value>,
    pub conflicts: Vec<Conflict>,
}

pub fn merge(
    base: Option<&Map<String, Value>>,
    ours: &Map<String, Value>,
    theirs: &Map<String, Value>,
) -> Merged {
    let mut merged = Merged {
        fields: Map::new(),
        conflicts: Vec::new(),
    };
    let names: std::collections::BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    for name in names {
        let (b, o, t) = (
            base.and_then(|base| base.get(name)),
            ours.get(name),
            theirs.get(name),
        );
        let value = if o == t || t == b {
            o.cloned()
        } else if o == b {
            t.cloned()
        } else {
            both_changed(name, b, o, t).unwrap_or_else(|| {
                merged.conflicts.push(Conflict {
                    field: name.clone(),
                    ours: o.cloned().unwrap_or_default(),
                    theirs: t.cloned().unwrap_or_default(),
                });
                o.cloned()
            })
        };
        if let Some(value) = value {
            merged.fields.insert(name.clone(), value);
        }
    }
    merged
}

/// `None` when a person has to decide.
fn both_changed(
    name: &str,
    b: Option<&Value>,
    o: Option<&Value>,
    t: Option<&Value>,
) -> Option<Option<Value>> {
    let (o, t) = (o?, t?);
    match name {
        // Both are RFC 3339 in UTC with the same number of digits, so text order is time order.
        "updated_at" => Some(Some(o.as_str()?.max(t.as_str()?).into())),
        "created_at" => Some(Some(o.as_str()?.min(t.as_str()?).into())),
        "revision" => Some(Some((o.as_u64()?.max(t.as_u64()?) + 1).into())),
        _ => {
            let (o, t) = (o.as_array()?, t.as_array()?);
            let empty = Vec::new();
            let b = b.and_then(Value::as_array).unwrap_or(&empty);
            let kept = |v: &Value| !b.contains(v) || (o.contains(v) && t.contains(v));
            let mut all: Vec<Value> = o.iter().chain(t).filter(|v| kept(v)).cloned().collect();
            all.sort_by_key(ToString::to_string);
            all.dedup();
            Some(Some(all.into()))
        }
    }
}

/// Fields in the order they are written; any others follow by name.
const ORDER: &[&str] = &[
    "schema_version",
    "id",
    "title",
    "type",
    "state",
    "priority",
    "parent",
    "gates",
    "created_at",
    "created_by",
    "updated_at",
    "revision",
];

/// The file's text, with git's conflict markers around each field that needs a decision.
pub fn render(merged: &Merged) -> String {
    let mut names: Vec<&String> = merged.fields.keys().collect();
    names.sort_by_key(|name| {
        (
            ORDER.iter().position(|o| o == name).unwrap_or(ORDER.len()),
            (*name).clone(),
        )
    });
    let mut out = String::from("{\n");
    let last = names.len().saturating_sub(1);
    for (n, name) in names.into_iter().enumerate() {
        let comma = if n == last { "" } else { "," };
        let line = |value: &Value| {
            let text = serde_json::to_string_pretty(value)
                .unwrap_or_default()
                .replace('\n', "\n  ");
            format!("  {}: {text}{comma}\n", Value::from(name.as_str()))
        };
        match merged.conflicts.iter().find(|conflict| conflict.field == *name) {
            None => out.push_str(&line(&merged.fields[name])),
            Some(conflict) => out.push_str(&format!(
                "<<<<<<< ours\n{}=======\n{}>>>>>>> theirs\n",
                line(&conflict.ours),
                line(&conflict.theirs)
            )),
        }
    }
    out.push_str("}\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn c7_different_fields_merge_and_the_same_field_conflicts() {
        let base = map(json!({"title": "a", "state": "ready", "revision": 1, "gates": ["x", "y"]}));
        let ours = map(json!({"title": "b", "state": "ready", "revision": 2, "gates": ["x", "y", "z"]}));
        let theirs = map(json!({"title": "a", "state": "done", "revision": 2, "gates": ["y"]}));
        let merged = merge(Some(&base), &ours, &theirs);
        assert_eq!(merged.conflicts, vec![]);
        let expected = json!({"title": "b", "state": "done", "revision": 2, "gates": ["y", "z"]});
        assert_eq!(Value::Object(merged.fields.clone()), expected);
        assert_eq!(merge(Some(&base), &theirs, &ours).fields, merged.fields);
        let rival = map(json!({"title": "c", "state": "ready", "revision": 2, "gates": ["x", "y"]}));
        let torn = merge(Some(&base), &ours, &rival);
        assert_eq!(torn.conflicts.len(), 1);
        assert!(
            render(&torn)
                .contains("<<<<<<< ours\n  \"title\": \"b\",\n=======\n  \"title\": \"c\",\n>>>>>>> theirs")
        );
        let clean: Value = serde_json::from_str(&render(&merged)).expect("valid JSON");
        assert_eq!(clean, Value::Object(merged.fields));
    }
}
