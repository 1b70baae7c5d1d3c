//! Tests of the content and the writing of ORCHESTRATION.yaml.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::*;

/// Texts that a simple YAML writer gets wrong.
const ODD: &[&str] = &[
    "yes",
    "no",
    "on",
    "Off",
    "y",
    "N",
    "null",
    "~",
    "",
    "true",
    "1e3",
    "0x1f",
    "012",
    "1_000",
    "1:30",
    ".nan",
    "-",
    "?",
    ": x",
    "a: b",
    "a #b",
    "# c",
    " leading",
    "trailing ",
    "two\nlines",
    "ends\n",
    "\n\nmany\n\n",
    "tab\there",
    "\ttab",
    "it's",
    "\"quoted\"",
    "back\\slash",
    "- item",
    "[a, b]",
    "{a: b}",
    "&anchor",
    "*alias",
    "!tag",
    "|",
    ">",
    "%dir",
    "@at",
    "`tick`",
    "Zoë",
    "日本語",
    "😀",
    "\u{85}next",
    "\u{2028}line",
    "\u{feff}mark",
    "\u{7}bell",
    "\u{1b}[31mred",
    "nul\0nul",
    "2026-01-03",
    "2026-01-03T12:00:00Z",
    "<<",
    "=",
    "---",
    "...",
    "a\r\nb",
    "\u{a0}space",
    "C:\\dir",
    "'",
    "''",
    "\"",
];

fn unit(id: &str, state: &str) -> Unit {
    serde_json::from_value(json!({
        "id": id, "agent": "claude", "state": state, "worktree_path": format!("/w/{id}"), "branch": format!("jit/{id}"),
        "target": "main", "base": "0", "issue_id": "WI-1", "project_id": null, "worktree_id": null,
        "created_at": "2026-01-03T12:00:00Z", "created_by": "agent:lead", "provisioning_time_ms": 812, "pid": 4242,
        "session_id": "550e8400-e29b-41d4-a716-446655440001", "dispatch_time": "2026-01-03T12:00:01Z",
        "start_time": "2026-01-03T12:00:02Z", "completion_time": null, "cost_usd": 2.35, "duration_ms": 928_000,
        "retry_count": 1, "artifacts": [{ "path": "out/a.md", "type": "research" }], "error": null,
        "merge_status": "pending", "merge_attempt_time": null, "merge_commit": null, "merge_conflicts": [],
        "conflict_rounds": 0, "slot": 0, "abandoned": null, "workflow": "w", "attempt": 2, "worker": "agent:w-1",
        "tokens": { "input": 10, "output": 5 }, "turns": 3, "updated_at": "2026-01-03T12:00:02Z"
    }))
    .expect("a unit")
}

fn workflow(units: &[&str]) -> Workflow {
    serde_json::from_value(json!({
        "id": "w", "target": "main", "plan": "0", "units": units, "status": "running",
        "created_by": "agent:lead", "created_at": "2026-01-03T12:00:00Z", "ended_at": null
    }))
    .expect("a workflow")
}

/// Parses with PyYAML; `None` if it is not installed.
fn by_python(text: &str) -> Option<Value> {
    let known = Command::new("python3")
        .args(["-c", "import yaml"])
        .stderr(Stdio::null())
        .status();
    if !known.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut child = Command::new("python3")
        .args([
            "-c",
            "import json,sys,yaml; json.dump(yaml.safe_load(sys.stdin.buffer.read()), sys.stdout)",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    child
        .stdin
        .take()
        .expect("stdin")
        .write_all(text.as_bytes())
        .expect("write");
    let out = child.wait_with_output().expect("output");
    assert!(out.status.success(), "PyYAML cannot read:\n{text}");
    Some(serde_json::from_slice(&out.stdout).expect("JSON"))
}

#[test]
fn g11_the_file_has_every_field_of_the_format() {
    let mut landed = unit("b", "MERGED");
    landed.merge_commit = Some("abc".to_owned());
    let units = [unit("a", "RUNNING"), landed, unit("c", "IDLE")];
    let text = View::of(&workflow(&["a", "b", "c", "d"]), &units)
        .yaml()
        .expect("yaml");
    let value: Value = serde_saphyr::from_str(&text).expect("it parses");
    let all = &value["orchestration"];
    assert_eq!(all["workflow_id"], "w");
    assert_eq!(all["target_branch"], "main");
    let ids = |list: &Value| -> Vec<Value> {
        list.as_array()
            .expect("a list")
            .iter()
            .map(|one| one["id"].clone())
            .collect()
    };
    assert_eq!(ids(&all["instances"]), ["a", "b"]);
    assert_eq!(ids(&all["finished"]), ["c"]);
    assert_eq!(all["pending"], json!(["d"]));
    let first = all["instances"][0].as_object().expect("an instance");
    for field in [
        "id",
        "agent",
        "state",
        "worktree_path",
        "branch",
        "project_id",
        "pid",
        "session_id",
        "dispatch_time",
        "start_time",
        "completion_time",
        "cost_usd",
        "duration_ms",
        "retry_count",
        "artifacts",
        "error",
        "merge_status",
        "provisioning_time_ms",
        "merge_attempt_time",
        "merge_commit",
        "merge_conflicts",
    ] {
        assert!(first.contains_key(field), "{field}");
    }
    assert_eq!(first["cost_usd"], 2.35);
    assert_eq!(first["dispatch_time"], "2026-01-03T12:00:01.000Z");
    assert_eq!(
        first["artifacts"],
        json!([{ "path": "out/a.md", "type": "research" }])
    );
    assert_eq!(all["instances"][1]["merge_commit"], "abc");
    let sessions = value["session_registry"].as_array().expect("sessions");
    let resumable: Vec<(&Value, &Value)> = sessions.iter().map(|s| (&s["state"], &s["resumable"])).collect();
    // A running session and one without a worktree cannot be resumed.
    let expected = [("running", false), ("merged", true), ("idle", false)].map(|(s, r)| (json!(s), json!(r)));
    assert_eq!(
        resumable,
        expected.iter().map(|(s, r)| (s, r)).collect::<Vec<_>>()
    );
    assert_eq!(sessions[0]["instance_id"], "a");
    assert_eq!(sessions[0]["agent_id"], "agent:w-1");
    assert_eq!(sessions[0]["worktree_path"], "/w/a");
}

#[test]
fn g11_odd_texts_survive_both_kinds_of_readers() {
    let names: Vec<String> = (0..ODD.len()).map(|n| format!("u{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let units: Vec<Unit> = names
        .iter()
        .zip(ODD)
        .map(|(name, odd)| {
            let mut unit = unit(name, "FAILED");
            unit.worktree_path = (*odd).to_owned();
            unit.session_id = Some((*odd).to_owned());
            // As the first thing on its line too.
            unit.artifacts = vec![Artifact {
                path: (*odd).to_owned(),
                kind: (*odd).to_owned(),
            }];
            unit.error = Some(Failure {
                reason: (*odd).to_owned(),
                message: format!(
                    "{odd}{odd} and a long tail of words that a writer might want to fold: {odd}"
                ),
                exit_code: Some(-1),
                output: None,
            });
            unit
        })
        .collect();
    let view = View::of(&workflow(&names), &units);
    let text = view.yaml().expect("yaml");
    let back: View = serde_saphyr::from_str(&text).expect("it parses");
    assert_eq!(back, view);
    if let Some(value) = by_python(&text) {
        let expected = serde_json::to_value(&view).expect("JSON");
        for (n, odd) in ODD.iter().enumerate() {
            assert_eq!(
                value["orchestration"]["instances"][n], expected["orchestration"]["instances"][n],
                "{odd:?}"
            );
        }
        assert_eq!(value, expected);
    }
}

#[test]
fn g11_amounts_of_every_size_are_numbers_to_every_reader() {
    let amounts = [
        0,
        1,
        10,
        999,
        1_000_000,
        2_350_000,
        123_456_789_012,
        1_000_000_000_000_000,
    ];
    let names: Vec<String> = amounts.iter().map(|micros| format!("u{micros}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let units: Vec<Unit> = names
        .iter()
        .zip(amounts)
        .map(|(name, micros)| Unit {
            cost_usd: Some(Usd(micros)),
            ..unit(name, "RUNNING")
        })
        .collect();
    let view = View::of(&workflow(&names), &units);
    let text = view.yaml().expect("yaml");
    let back: View = serde_saphyr::from_str(&text).expect("it parses");
    assert_eq!(back, view, "{text}");
    if let Some(value) = by_python(&text) {
        for (n, micros) in amounts.iter().enumerate() {
            let read = &value["orchestration"]["instances"][n]["cost_usd"];
            assert_eq!(read.as_f64(), Some(*micros as f64 / 1e6), "{read}");
        }
    }
}

#[test]
fn g11_the_file_is_replaced_only_when_something_changed() {
    let control = tempfile::tempdir().expect("folder");
    let id: WorkflowId = "w".parse().expect("a name");
    let goal = path(control.path(), &id);
    let mut units = [unit("a", "RUNNING")];
    let flow = workflow(&["a"]);
    assert!(write(control.path(), &flow, &units).expect("written"));
    let first = std::fs::File::open(&goal).expect("open");
    assert!(!write(control.path(), &flow, &units).expect("the same"));
    units[0].turns += 1;
    assert!(write(control.path(), &flow, &units).expect("written"));
    // A reader that opened the old file still reads all of it.
    let old = io::read_to_string(&first).expect("read");
    assert!(serde_saphyr::from_str::<View>(&old).is_ok());
    let new = std::fs::read_to_string(&goal).expect("read");
    assert_ne!(old, new);
    let folder = std::fs::read_dir(goal.parent().expect("folder")).expect("list");
    assert_eq!(folder.count(), 1, "nothing is left over");
}

#[test]
fn g11_a_unit_of_another_workflow_is_not_shown() {
    let mut foreign = unit("a", "RUNNING");
    foreign.workflow = None;
    let view = View::of(&workflow(&["a"]), &[foreign]);
    assert!(view.orchestration.instances.is_empty());
    assert_eq!(view.orchestration.pending.len(), 1);
}
