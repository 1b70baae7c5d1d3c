use serde_json::json;

use super::check::check;
use super::*;

fn now() -> Wall {
    "2026-01-26T10:33:00Z".parse().expect("a time")
}

/// The constraints of the format without its prose: type, pattern, enum, format and minimum of each field, and the required ones.
fn format_of(name: &str) -> Value {
    let time = json!({ "type": "string", "format": "date-time" });
    let text = json!({ "type": "string" });
    let maybe = json!({ "type": ["string", "null"] });
    let task = json!({ "type": "string", "pattern": "^T-\\d{3}$" });
    let group = json!({ "type": ["string", "null"], "pattern": "^PR-\\d{3}$" });
    let scopes = ["worktree", "global"];
    let metadata = |count: &str| json!({ "type": "object", "properties": { "last_updated": time, count: { "type": "integer", "minimum": 0 } } });
    let (entries, metadata, record) = match name {
        "agent_sessions" => (
            "sessions",
            metadata("active_count"),
            json!({
                "type": "object",
                "properties": {
                    "session_id": { "type": "string", "pattern": "^sess-[a-zA-Z0-9]{8}$" },
                    "agent_id": text,
                    "agent_type": { "type": "string", "enum": [
                        "developer", "bug-hunter", "security-auditor", "code-quality", "test-coverage", "contracts-reviewer",
                        "accessibility-auditor"
                    ] },
                    "task_id": task,
                    "pr_group": group,
                    "worktree_path": maybe,
                    "branch": maybe,
                    "lock_scope": { "type": "string", "enum": scopes, "default": "global" },
                    "started_at": time,
                    "last_heartbeat": time,
                    "status": { "type": "string", "enum": ["active", "completed", "failed", "stale"] },
                },
                "required": ["session_id", "agent_id", "agent_type", "started_at", "status"],
            }),
        ),
        _ => (
            "locks",
            metadata("active_locks"),
            json!({
                "type": "object",
                "properties": {
                    "lock_key": text,
                    "file_path": text,
                    "lock_scope": { "type": "string", "enum": scopes },
                    "worktree_path": maybe,
                    "pr_group": group,
                    "branch": maybe,
                    "agent_id": text,
                    "agent_type": text,
                    "task_id": task,
                    "acquired_at": time,
                    "expires_at": time,
                    "lock_type": { "type": "string", "enum": ["exclusive", "shared"] },
                },
                "required": ["lock_key", "file_path", "lock_scope", "agent_id", "acquired_at", "expires_at", "lock_type"],
            }),
        ),
    };
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            entries: { "type": "object", "additionalProperties": record },
            "metadata": metadata,
        },
    })
}

/// Every keyword that is asked for is there with that value; lists of words in any order.
fn contains(ours: &Value, asked: &Value, at: &str) {
    match (ours, asked) {
        (Value::Object(ours), Value::Object(asked)) => {
            for (key, asked) in asked {
                let ours = ours.get(key).unwrap_or_else(|| panic!("{at}/{key} is missing"));
                contains(ours, asked, &format!("{at}/{key}"));
            }
        }
        (Value::Array(ours), Value::Array(asked)) => {
            assert_eq!(ours.len(), asked.len(), "{at}: {ours:?}");
            assert!(asked.iter().all(|one| ours.contains(one)), "{at}: {ours:?}");
        }
        _ => assert_eq!(ours, asked, "{at}"),
    }
}

#[test]
fn f8_the_schemas_ask_for_what_the_format_asks_for() {
    for name in SCHEMAS {
        let ours = schema(name, &[]).expect("a schema");
        contains(&ours, &format_of(name), name);
        // Fields that the format does not require are not required here.
        assert_eq!(ours.get("required"), None, "{ours:#}");
    }
}

#[test]
fn f8_types_of_agents_from_the_settings_are_words_of_the_schema() {
    let ours = schema("agent_sessions", &["poet".to_owned(), "developer".to_owned()]).expect("a schema");
    let words = &ours["properties"]["sessions"]["additionalProperties"]["properties"]["agent_type"]["enum"];
    assert_eq!(words.as_array().map(Vec::len), Some(8));
    assert_eq!(words[7], "poet");
}

fn sessions() -> Value {
    json!({
        "sessions": { "sess-a1b2c3d4": {
            "session_id": "sess-a1b2c3d4", "agent_id": "developer-001", "agent_type": "developer", "task_id": "T-015",
            "pr_group": "PR-001", "worktree_path": "../worktrees/pr-001-auth", "branch": "feature/pr-001-auth",
            "lock_scope": "worktree", "started_at": "2026-01-26T10:30:00Z", "last_heartbeat": "2026-01-26T10:32:15Z",
            "status": "active", "mood": "good"
        } },
        "metadata": { "last_updated": "2026-01-26T10:32:30Z", "active_count": 1 }
    })
}

fn locks() -> Value {
    json!({ "locks": {
        "../worktrees/pr-001-auth:src/login.ts": {
            "lock_key": "../worktrees/pr-001-auth:src/login.ts", "file_path": "src/login.ts", "lock_scope": "worktree",
            "worktree_path": "../worktrees/pr-001-auth", "pr_group": "PR-001", "branch": "feature/pr-001-auth",
            "agent_id": "developer-001", "agent_type": "developer", "task_id": "T-015",
            "acquired_at": "2026-01-26T10:30:00Z", "expires_at": "2026-01-26T10:45:00Z", "lock_type": "exclusive"
        },
        "traceability/task_registry.json": {
            "lock_key": "traceability/task_registry.json", "file_path": "traceability/task_registry.json",
            "lock_scope": "global", "worktree_path": null, "pr_group": null, "branch": null,
            "agent_id": "developer-001", "agent_type": "developer", "task_id": "T-015",
            "acquired_at": "2026-01-26T10:32:00Z", "expires_at": "2026-01-26T10:34:00Z", "lock_type": "exclusive"
        }
    } })
}

fn flaws(name: &str, value: &Value) -> Vec<check::RegistryFlaw> {
    check(name, value.to_string().as_bytes(), &[], now()).expect("a schema")
}

#[test]
fn f8_entries_as_the_format_shows_them_have_no_flaws_and_are_read_and_written() {
    assert_eq!(flaws("agent_sessions", &sessions()), []);
    assert_eq!(flaws("agent_lock", &locks()), []);
    let read: Sessions = serde_json::from_value(sessions()).expect("sessions");
    let mut written = serde_json::to_value(&read).expect("JSON");
    let entry = &mut written["sessions"]["sess-a1b2c3d4"];
    assert_eq!(entry["mood"], "good", "unknown fields are kept");
    assert_eq!(entry["branch"], "feature/pr-001-auth");
    assert_eq!(flaws("agent_sessions", &written), []);
    let read: Locks = serde_json::from_value(locks()).expect("locks");
    let written = serde_json::to_value(&read).expect("JSON");
    assert_eq!(
        written["locks"]["traceability/task_registry.json"]["branch"],
        Value::Null
    );
    assert_eq!(flaws("agent_lock", &written), []);
}

#[test]
fn f1_a_record_without_a_task_or_a_worktree_is_valid_as_written() {
    let mut value = sessions();
    let entry = &mut value["sessions"]["sess-a1b2c3d4"];
    for name in ["task_id", "pr_group", "worktree_path", "branch"] {
        entry[name] = Value::Null;
    }
    let read: Sessions = serde_json::from_value(value).expect("null is taken for absent");
    let written = serde_json::to_value(&read).expect("JSON");
    let entry = written["sessions"]["sess-a1b2c3d4"]
        .as_object()
        .expect("a record");
    assert!(entry["worktree_path"].is_null() && entry["branch"].is_null() && entry["pr_group"].is_null());
    assert!(!entry.contains_key("task_id"));
    assert_eq!(flaws("agent_sessions", &written), []);
}

#[test]
fn f8_each_common_error_is_reported_with_its_fix() {
    const KEY: &str = "../worktrees/pr-001-auth:src/login.ts";
    let cases: [(&str, Value, &str, &str); 6] = [
        ("lock_key", json!(null), "missing lock_key", "jit migrate"),
        ("pr_group", json!("PR-1"), "invalid pr_group format", "PR-XXX"),
        (
            "worktree_path",
            json!(null),
            "mismatched lock_scope and worktree_path",
            "must have worktree_path",
        ),
        (
            "expires_at",
            json!("2026-01-26T10:31:00Z"),
            "expired lock not cleaned",
            "jit lock cleanup",
        ),
        (
            "lock_type",
            json!("maybe"),
            "none of the words",
            "exclusive, shared",
        ),
        ("agent_id", json!(7), "must be string", "type string"),
    ];
    for (field, value, problem, fix) in cases {
        let mut file = locks();
        let entry = file["locks"][KEY].as_object_mut().expect("an entry");
        if field == "lock_key" {
            entry.remove(field);
        } else {
            entry.insert(field.to_owned(), value);
        }
        let found = flaws("agent_lock", &file);
        assert_eq!(found.len(), 1, "{field}: {found:?}");
        assert!(found[0].problem.contains(problem), "{found:?}");
        assert!(found[0].fix.contains(fix), "{found:?}");
        assert!(found[0].path.starts_with("/locks/..~1worktrees"), "{found:?}");
    }
}

#[test]
fn f8_broken_json_unknown_versions_and_keys_that_are_there_twice_are_found_with_their_line() {
    let one = |text: &str| {
        let found = check("agent_lock", text.as_bytes(), &[], now()).expect("a schema");
        assert_eq!(found.len(), 1, "{found:?}");
        (found[0].line, found[0].problem.clone())
    };
    let (line, why) = one("{\n  \"locks\": {,}\n}");
    assert!(line == 2 && why.contains("column 13"), "{line} {why}");
    let (line, why) = one("{\n  \"locks\": {},\n  \"locks\": {}\n}");
    assert!(line == 3 && why.contains("twice"), "{line} {why}");
    let (line, why) = one("{\n\n\"version\": \"9.0.0\", \"locks\": {\"a\\\"}\": 1}}"
        .replace(", \"locks\": {\"a\\\"}\": 1}", "")
        .as_str());
    assert!(line == 3 && why.contains("not known"), "{line} {why}");
    assert!(
        one("{\"metadata\": {\"version\": \"2.0.0\"}}")
            .1
            .contains("older")
    );
    assert!(one("[]").1.contains("must be object"));
    assert_eq!(check("other", b"{}", &[], now()), None);
}

#[test]
fn f8_a_file_of_version_2_becomes_one_of_version_3() {
    let old = json!({
        "sessions": {
            "sess-abc123": { "session_id": "sess-abc123", "agent_id": "developer-001", "task_id": "T-015",
                "started_at": "2026-01-26T10:30:00Z", "mood": "good" },
            "sess-00000001": { "session_id": "sess-00000001", "agent_id": "security-auditor-7",
                "started_at": "2026-01-25T10:30:00Z" },
            "sess-00000002": { "session_id": "sess-00000002", "agent_id": "nobody-knows", "started_at": "2026-01-26T10:30:00Z" },
            "sess-a1b2c3d4": sessions()["sessions"]["sess-a1b2c3d4"],
        }
    });
    let done = migrate::migrate(old.to_string().as_bytes(), &[], now()).expect("a file");
    assert_eq!(
        done.migrated,
        ["/sessions/sess-00000001", "/sessions/sess-abc123"]
    );
    assert_eq!(done.untouched, 1);
    assert_eq!(done.notes.len(), 1, "the id of the old form: {:?}", done.notes);
    assert_eq!(done.problems.len(), 1, "{:?}", done.problems);
    let text = done.text.expect("a new text");
    let new: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        new["sessions"]["sess-abc123"],
        json!({
            "session_id": "sess-abc123", "agent_id": "developer-001", "agent_type": "developer", "task_id": "T-015",
            "pr_group": null, "worktree_path": null, "branch": null, "lock_scope": "global",
            "started_at": "2026-01-26T10:30:00Z", "last_heartbeat": "2026-01-26T10:30:00Z", "status": "active", "mood": "good"
        })
    );
    let auditor = &new["sessions"]["sess-00000001"];
    assert_eq!(
        (&auditor["agent_type"], &auditor["status"]),
        (&json!("security-auditor"), &json!("stale"))
    );
    for kept in ["sess-a1b2c3d4", "sess-00000002"] {
        assert_eq!(new["sessions"][kept], old["sessions"][kept]);
    }
    assert_eq!(new["metadata"]["active_count"], 2);
    let again = migrate::migrate(text.as_bytes(), &[], now()).expect("a file");
    assert_eq!((again.text, again.untouched), (None, 3));
    let known = migrate::migrate(text.as_bytes(), &["nobody".to_owned()], now()).expect("a file");
    assert_eq!(known.migrated, ["/sessions/sess-00000002"]);
}

#[test]
fn f8_locks_of_version_2_become_global_ones() {
    let old = json!({ "locks": {
        "src/a.ts": { "file_path": "src/a.ts", "agent_id": "developer-001", "task_id": "T-015",
            "acquired_at": "2026-01-26T10:32:00Z", "expires_at": "2026-01-26T10:47:00Z" },
        "src/b.ts": { "agent_id": "me", "acquired_at": "2026-01-26T10:32:00Z" },
        "src/c.ts": { "agent_id": "me" },
    } });
    let done = migrate::migrate(old.to_string().as_bytes(), &[], now()).expect("a file");
    assert_eq!(
        done.problems,
        [("/locks/src~1c.ts".to_owned(), "it has no acquired_at".to_owned())]
    );
    let mut new: Value = serde_json::from_str(&done.text.expect("a new text")).expect("JSON");
    assert_eq!(new["locks"]["src/b.ts"]["expires_at"], "2026-01-26T10:34:00.000Z");
    assert_eq!(new["locks"]["src/c.ts"], old["locks"]["src/c.ts"]);
    new["locks"].as_object_mut().expect("locks").remove("src/c.ts");
    assert_eq!(flaws("agent_lock", &new), []);
}

#[test]
fn f8_what_cannot_be_migrated_without_loss_is_refused() {
    for (text, word) in [
        ("{", "not JSON"),
        ("[]", "object"),
        ("{}", "neither"),
        (r#"{"sessions":[]}"#, "not an object"),
        (r#"{"sessions":{"a":{},"a":{}}}"#, "twice"),
        (r#"{"version":"4.0.0","sessions":{}}"#, "not known"),
    ] {
        let why = migrate::migrate(text.as_bytes(), &[], now()).expect_err(text);
        assert!(why.contains(word), "{text}: {why}");
    }
}
