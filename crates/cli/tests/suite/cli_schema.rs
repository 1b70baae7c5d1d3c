//! `jit schema`, `jit validate --schema`, `jit migrate` (F8): the files of other programs, and no repository needed.

use std::fs;

use jit_testkit::world::World;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

const OLD: &str = r#"{
  "sessions": {
    "sess-abc123": {
      "session_id": "sess-abc123",
      "agent_id": "developer-001",
      "task_id": "T-015",
      "started_at": "2026-01-26T10:30:00Z"
    }
  }
}
"#;

#[test]
fn f8_schema_prints_a_schema_and_knows_which_there_are() {
    let world = World::new(JIT);
    assert_eq!(
        world.jit(["schema"]).ok().stdout,
        "agent_sessions\nagent_lock\nplan\n"
    );
    assert_eq!(
        world.jit(["schema", "--json"]).ok().json()["schemas"][1],
        "agent_lock"
    );
    let schema = world.jit(["schema", "agent_lock"]).ok().json();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    assert_eq!(schema, world.jit(["schema", "agent_lock", "--json"]).ok().json());
    let refused = world.jit(["schema", "other", "--json"]).exits(3).json();
    assert_eq!(refused["error"]["code"], "not_found");
    assert_eq!(
        refused["error"]["details"]["candidates"],
        json!(["agent_sessions", "agent_lock", "plan"])
    );
}

#[test]
fn g13_a_plan_is_checked_with_line_and_column_and_its_schema_is_printed() {
    let world = World::new(JIT);
    let file = world.repo().join("plan.yaml");
    let args = ["validate", "--schema", "plan", "--file", "plan.yaml"];
    fs::write(&file, "units:\n  - id: a\n    prompt: x\n    depends_on: [a]\n").expect("a file");
    let report = world.jit(args.iter().chain(&["--json"])).exits(6).json();
    let error = &report["errors"][0];
    assert_eq!(error["path"], "units[0].depends_on[0]");
    assert_eq!((&error["line"], &error["column"]), (&json!(4), &json!(18)));
    let told = world.jit(args).exits(6).stdout;
    assert!(
        told.contains("plan.yaml:4:18: units[0].depends_on[0]") && told.contains("a -> a"),
        "{told}"
    );
    fs::write(&file, "units:\n  - id: a\n    prompt: x\n").expect("a file");
    let _ = world.jit(args).ok();
    let schema = world.jit(["schema", "plan"]).ok().json();
    assert_eq!(schema["title"], "jit plan");
    let unit = &schema["properties"]["units"]["items"]["properties"];
    for field in ["writes", "handoff_from"] {
        assert_eq!(unit[field]["items"]["type"], "string", "{unit}");
    }
    assert!(unit["handoff"].to_string().contains("\"prompt\""), "{unit}");
}

#[test]
fn f8_validate_by_schema_reports_line_and_fix_and_exits_6() {
    let world = World::new(JIT);
    let file = world.repo().join("sessions.json");
    fs::write(&file, OLD).expect("a file");
    let args = [
        "validate",
        "--schema",
        "agent_sessions",
        "--file",
        "sessions.json",
    ];
    let report = world.jit(args.iter().chain(&["--json"])).exits(6).json();
    let errors = report["errors"].as_array().expect("errors");
    let of = |word: &str| {
        let fits = |e: &&Value| e["problem"].as_str().is_some_and(|text| text.contains(word));
        errors
            .iter()
            .find(fits)
            .unwrap_or_else(|| panic!("{word}: {errors:#?}"))
    };
    assert_eq!(of("missing agent_type")["line"], 3);
    assert_eq!(
        of("missing status")["fix"],
        "it is an entry of version 2.0.0: jit migrate sessions.json"
    );
    assert_eq!(of("invalid session_id")["line"], 4);
    let text = world.jit(args).exits(6).stdout;
    assert!(
        text.contains("sessions.json:3 /sessions/sess-abc123: missing agent_type"),
        "{text}"
    );

    fs::write(&file, r#"{"sessions":{}}"#).expect("a file");
    assert_eq!(
        world.jit(args.iter().chain(&["--json"])).ok().json(),
        json!({ "errors": [] })
    );
    let _ = world
        .jit(["validate", "--schema", "other", "--file", "sessions.json"])
        .exits(3);
    let _ = world
        .jit(["validate", "--schema", "agent_lock", "--file", "none"])
        .exits(3);
    let _ = world.jit(["validate", "--schema", "agent_lock"]).exits(2);
}

#[test]
fn f8_validate_shows_hostile_text_without_acting_on_it() {
    let world = World::new(JIT);
    let text = "{\"sessions\":{\"\\u001b[2J\\n\":{\"agent_id\":\"\\u001b]0;x\\u0007\"}}}";
    fs::write(world.repo().join("f"), text).expect("a file");
    let shown = world
        .jit(["validate", "--schema", "agent_sessions", "--file", "f"])
        .exits(6)
        .stdout;
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
    let shown = world.jit(["migrate", "f"]).exits(6).stdout;
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn f8_migrate_keeps_a_backup_and_does_nothing_the_second_time() {
    let world = World::new(JIT);
    let file = world.repo().join("sessions.json");
    let backup = world.repo().join("sessions.json.v2.bak");
    fs::write(&file, OLD).expect("a file");

    let dry = world
        .jit(["migrate", "sessions.json", "--dry-run", "--json"])
        .ok()
        .json();
    assert_eq!((&dry["changed"], &dry["backup"]), (&json!(true), &Value::Null));
    assert_eq!(fs::read_to_string(&file).expect("a file"), OLD);
    assert!(!backup.exists());

    let done = world.jit(["migrate", "sessions.json", "--json"]).ok().json();
    assert_eq!(done["migrated"], json!(["/sessions/sess-abc123"]));
    assert_eq!(done["notes"][0]["path"], "/sessions/sess-abc123");
    assert_eq!(fs::read_to_string(&backup).expect("a backup"), OLD);
    let new: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");
    let session = &new["sessions"]["sess-abc123"];
    assert_eq!(
        (&session["agent_type"], &session["status"]),
        (&json!("developer"), &json!("stale"))
    );

    let before = fs::read(&file).expect("a file");
    let again = world.jit(["migrate", "sessions.json", "--json"]).ok().json();
    assert_eq!(
        (&again["changed"], &again["untouched"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(fs::read(&file).expect("a file"), before);

    // Another file in its place: the first backup stays.
    fs::write(&file, OLD.replace("T-015", "T-016")).expect("a file");
    let third = world.jit(["migrate", "sessions.json", "--json"]).ok().json();
    assert_eq!(third["backup"], "sessions.json.v2.bak.1");
    assert_eq!(fs::read_to_string(&backup).expect("a backup"), OLD);
}

#[test]
fn f8_migrate_names_what_it_had_to_leave_and_touches_nothing_it_cannot_read() {
    let world = World::new(JIT);
    fs::write(
        world.repo().join("s.json"),
        r#"{"sessions":{"sess-00000001":{"agent_id":"who"},"sess-00000002":{"agent_id":"developer-1","started_at":"2026-01-26T10:30:00Z"}}}"#,
    )
    .expect("a file");
    let report = world.jit(["migrate", "s.json", "--json"]).exits(6).json();
    assert_eq!(report["problems"][0]["path"], "/sessions/sess-00000001");
    assert_eq!(report["migrated"], json!(["/sessions/sess-00000002"]));
    fs::write(world.repo().join("bad.json"), r#"{"sessions":{"a":{},"a":{}}}"#).expect("a file");
    let refused = world.jit(["migrate", "bad.json", "--json"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "invalid");
    assert!(!world.repo().join("bad.json.v2.bak").exists());
    let _ = world.jit(["migrate", "none.json"]).exits(3);
}
