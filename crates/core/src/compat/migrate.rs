//! From version 2.0.0, which knew no worktrees, to 3.0.0 (F8).
//!
//! What must hold:
//! - an entry that has a `lock_scope` is of version 3.0.0 and stays as it is; others get the fields they lack, and no
//!   field that is there is changed. So doing it twice is doing it once;
//! - nothing is lost: an entry that cannot be brought over stays as it is and is named;
//! - a text in which a key is there twice is refused: writing it again would lose one of the two.
//!
//! Ids of sessions in the old form (`sess-abc123`, six characters) are kept: the agent knows itself by that id, and other
//! files may name it. They are named in the answer, and `jit validate --schema` goes on reporting them until they end.
//!
//! A session is active when its last sign of life is at most [`STALE_AFTER_SECS`] old, otherwise stale. A lock without
//! an end gets the two minutes of a global lock. The type of an agent is the known one that its id begins with.

use serde_json::{Map, Value, json};

use super::check::form;
use super::json::{Located, step};
use super::{AGENT_TYPES, VERSION, lock_key};
use crate::model::time::Wall;

/// Half an hour: the longest that a lock in a worktree can be held without being taken anew.
pub const STALE_AFTER_SECS: u64 = 30 * 60;

/// How long a global lock lasts.
const GLOBAL_LOCK_SECS: u64 = 120;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// The new text; `None` when nothing had to be changed.
    pub text: Option<String>,
    /// JSON pointers of entries that were brought over.
    pub migrated: Vec<String>,
    /// Of entries that were of the new version already.
    pub untouched: usize,
    /// JSON pointer and reason, for entries that stayed as they were.
    pub problems: Vec<(String, String)>,
    /// JSON pointer and remark.
    pub notes: Vec<(String, String)>,
}

/// Brings a file over; an error is a sentence about the whole of it.
pub fn migrate(text: &[u8], agent_types: &[String], now: Wall) -> Result<Migrated, String> {
    let located = Located::read(text).map_err(|e| format!("this is not JSON: {}", e.why))?;
    if let Some((path, line)) = located.twice.first() {
        return Err(format!(
            "line {line}: the key {path} is there twice; remove or rename one first"
        ));
    }
    let mut value = located.value;
    let Some(file) = value.as_object_mut() else {
        return Err("a registry is a JSON object".to_owned());
    };
    if !file.contains_key("sessions") && !file.contains_key("locks") {
        return Err("there are neither sessions nor locks in it".to_owned());
    }
    let mut out = Migrated {
        text: None,
        migrated: Vec::new(),
        untouched: 0,
        problems: Vec::new(),
        notes: Vec::new(),
    };
    let mut changed = versions(file)?;
    type Bring = fn(&str, &mut Map<String, Value>, &[String], Wall) -> Result<(), String>;
    let kinds: [(&str, Bring); 2] = [("sessions", session), ("locks", lock)];
    for (name, bring) in kinds {
        let Some(entries) = file.get_mut(name) else {
            continue;
        };
        let Some(entries) = entries.as_object_mut() else {
            return Err(format!("{name} is not an object"));
        };
        for (key, entry) in entries.iter_mut() {
            let path = step(&format!("/{name}"), key);
            let Some(fields) = entry.as_object_mut() else {
                out.problems.push((path, "it is not an object".to_owned()));
                continue;
            };
            if name == "sessions" && old_id(key) {
                out.notes.push((
                    path.clone(),
                    "its id has the old form and is kept; the session should be ended and begun anew"
                        .to_owned(),
                ));
            }
            if fields.contains_key("lock_scope") {
                out.untouched += 1;
                continue;
            }
            let mut new = fields.clone();
            match bring(key, &mut new, agent_types, now) {
                Ok(()) => {
                    *fields = new;
                    out.migrated.push(path);
                }
                Err(why) => out.problems.push((path, why)),
            }
        }
    }
    changed |= !out.migrated.is_empty();
    if changed {
        count(file, now);
        let mut text = serde_json::to_string_pretty(&value).map_err(|e| e.to_string())?;
        text.push('\n');
        out.text = Some(text);
    }
    Ok(out)
}

/// Raises the versions that the file names itself. Whether there were any to raise.
fn versions(file: &mut Map<String, Value>) -> Result<bool, String> {
    fn raise(object: &mut Map<String, Value>) -> Result<bool, String> {
        let mut changed = false;
        for name in ["version", "schema_version"] {
            match object.get_mut(name) {
                None => {}
                Some(Value::String(text)) if text == VERSION => {}
                Some(Value::String(text)) if text.starts_with("2.") => {
                    VERSION.clone_into(text);
                    changed = true;
                }
                Some(other) => return Err(format!("version {other} is not known; 2.0.0 and {VERSION} are")),
            }
        }
        Ok(changed)
    }
    let mut changed = raise(file)?;
    if let Some(metadata) = file.get_mut("metadata").and_then(Value::as_object_mut) {
        changed |= raise(metadata)?;
    }
    Ok(changed)
}

fn old_id(id: &str) -> bool {
    form(r"^sess-[a-zA-Z0-9]{8}$").is_some_and(|(_, fits)| !fits(id))
}

fn add(fields: &mut Map<String, Value>, name: &str, value: Value) {
    fields.entry(name).or_insert(value);
}

fn session(
    key: &str,
    fields: &mut Map<String, Value>,
    agent_types: &[String],
    now: Wall,
) -> Result<(), String> {
    add(fields, "session_id", json!(key));
    let started = time(fields, "started_at")?.ok_or("it has no started_at")?;
    if !fields.contains_key("agent_type") {
        let kind = type_of(fields, agent_types)?
            .ok_or("the type of its agent cannot be told from its agent_id: add agent_type by hand")?;
        add(fields, "agent_type", json!(kind));
    }
    for name in ["pr_group", "worktree_path", "branch"] {
        add(fields, name, Value::Null);
    }
    add(fields, "lock_scope", json!("global"));
    let beat = time(fields, "last_heartbeat")?.unwrap_or(started);
    let copy = fields.get("started_at").cloned().unwrap_or_default();
    add(fields, "last_heartbeat", copy);
    let status = if beat.plus_secs(STALE_AFTER_SECS) >= now {
        "active"
    } else {
        "stale"
    };
    add(fields, "status", json!(status));
    Ok(())
}

fn lock(key: &str, fields: &mut Map<String, Value>, agent_types: &[String], _: Wall) -> Result<(), String> {
    add(fields, "file_path", json!(key));
    let file = fields
        .get("file_path")
        .and_then(Value::as_str)
        .ok_or("its file_path is not a text")?;
    let key = lock_key(None, file);
    add(fields, "lock_key", json!(key));
    let since = time(fields, "acquired_at")?.ok_or("it has no acquired_at")?;
    if time(fields, "expires_at")?.is_none() {
        let until = since.plus_secs(GLOBAL_LOCK_SECS);
        fields.insert("expires_at".to_owned(), json!(until.to_string()));
    }
    if !fields.contains_key("agent_type")
        && let Some(kind) = type_of(fields, agent_types)?
    {
        add(fields, "agent_type", json!(kind));
    }
    for name in ["worktree_path", "pr_group", "branch"] {
        add(fields, name, Value::Null);
    }
    add(fields, "lock_type", json!("exclusive"));
    add(fields, "lock_scope", json!("global"));
    Ok(())
}

fn time(fields: &Map<String, Value>, name: &str) -> Result<Option<Wall>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => text
            .parse()
            .map(Some)
            .map_err(|_| format!("its {name} is not a time")),
        Some(_) => Err(format!("its {name} is not a time")),
    }
}

/// The longest known type that is the agent's id, or is before a `-` in it.
fn type_of(fields: &Map<String, Value>, agent_types: &[String]) -> Result<Option<String>, String> {
    let id = fields
        .get("agent_id")
        .and_then(Value::as_str)
        .ok_or("it has no agent_id")?;
    let known = AGENT_TYPES
        .iter()
        .copied()
        .chain(agent_types.iter().map(String::as_str));
    let fits = |kind: &&str| {
        id.strip_prefix(*kind)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    Ok(known
        .filter(fits)
        .max_by_key(|kind| kind.len())
        .map(str::to_owned))
}

fn count(file: &mut Map<String, Value>, now: Wall) {
    let active = file.get("sessions").and_then(Value::as_object).map(|all| {
        let active = |one: &&Value| one.get("status").and_then(Value::as_str) == Some("active");
        all.values().filter(active).count()
    });
    let locks = file.get("locks").and_then(Value::as_object).map(Map::len);
    let metadata = file.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    metadata.insert("last_updated".to_owned(), json!(now.to_string()));
    for (name, many) in [("active_count", active), ("active_locks", locks)] {
        if let Some(many) = many {
            metadata.insert(name.to_owned(), json!(many));
        }
    }
}
