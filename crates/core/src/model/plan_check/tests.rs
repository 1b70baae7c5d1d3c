use serde_json::{Value, json};

use super::*;

use crate::model::plan::schema;

const AGENTS: &[&str] = &["claude", "command"];

fn config() -> Settings {
    Settings {
        agent: Some("claude".to_owned()),
        ..Settings::default()
    }
}

fn plan(value: Value) -> Plan {
    serde_json::from_value(value).expect("a plan")
}

fn problems(value: Value) -> Vec<(String, String)> {
    let found = plan(value).check(&config(), AGENTS);
    found.into_iter().map(|p| (p.path, p.message)).collect()
}

fn paths(value: Value) -> Vec<String> {
    problems(value).into_iter().map(|(path, _)| path).collect()
}

#[test]
fn g13_a_good_plan_has_no_problem() {
    let good = json!({
        "workflow_id": "nightly", "target": "feature/x", "max_concurrent": 2, "stagger": "2s", "budget_usd": 10,
        "run": { "timeout": "1h", "max_retries": 3 },
        "units": [
            { "id": "a", "issue": "WI-1" },
            { "id": "b", "prompt": "do it", "depends_on": ["a"], "artifacts": [{ "path": "out/**/*.md", "type": "report" }] },
            { "id": "c", "prompt_file": "prompts/c.md", "phase": 2,
              "run": { "agent": "command", "command": ["sh", "-c", "true"] }, "validate": ["make check"] },
        ]
    });
    assert_eq!(problems(good), []);
}

#[test]
fn g13_each_problem_is_told_with_its_place() {
    let unit = |extra: Value| {
        let mut unit = json!({ "id": "a", "prompt": "x" });
        for (key, value) in extra.as_object().expect("an object") {
            unit[key] = value.clone();
        }
        json!({ "units": [unit] })
    };
    for (value, path) in [
        (json!({ "units": [] }), "units"),
        (
            json!({ "schema_version": 2, "units": [{ "id": "a", "prompt": "x" }] }),
            "schema_version",
        ),
        (
            json!({ "workflow_id": "../x", "units": [{ "id": "a", "prompt": "x" }] }),
            "workflow_id",
        ),
        (
            json!({ "target": "a..b", "units": [{ "id": "a", "prompt": "x" }] }),
            "target",
        ),
        (
            json!({ "max_concurrent": 0, "units": [{ "id": "a", "prompt": "x" }] }),
            "max_concurrent",
        ),
        (
            json!({ "stagger": "soon", "units": [{ "id": "a", "prompt": "x" }] }),
            "stagger",
        ),
        (
            json!({ "budget_usd": -1, "units": [{ "id": "a", "prompt": "x" }] }),
            "budget_usd",
        ),
        (
            json!({ "run": { "agent": "poet" }, "units": [{ "id": "a", "prompt": "x", "run": { "agent": "claude" } }] }),
            "run.agent",
        ),
        (unit(json!({ "id": "a/b" })), "units[0].id"),
        (unit(json!({ "issue": "a b" })), "units[0].issue"),
        (unit(json!({ "prompt": null })), "units[0]"),
        (unit(json!({ "prompt": " " })), "units[0].prompt"),
        (unit(json!({ "prompt_file": "p.md" })), "units[0].prompt_file"),
        (
            unit(json!({ "prompt": null, "prompt_file": "../p.md" })),
            "units[0].prompt_file",
        ),
        (
            unit(json!({ "prompt": null, "prompt_file": "/etc/passwd" })),
            "units[0].prompt_file",
        ),
        (
            unit(json!({ "artifacts": [{ "path": "x" }, { "path": "a/../../b" }] })),
            "units[0].artifacts[1].path",
        ),
        (
            unit(json!({ "artifacts": [{ "path": "{a,..}/b" }] })),
            "units[0].artifacts[0].path",
        ),
        (
            unit(json!({ "artifacts": [{ "path": ".git/config" }] })),
            "units[0].artifacts[0].path",
        ),
        (
            unit(json!({ "artifacts": [{ "path": "x", "type": "" }] })),
            "units[0].artifacts[0].type",
        ),
        (unit(json!({ "validate": ["true", ""] })), "units[0].validate[1]"),
        (unit(json!({ "depends_on": ["b"] })), "units[0].depends_on[0]"),
        (
            unit(json!({ "run": { "agent": "command" } })),
            "units[0].run.command",
        ),
        (
            unit(json!({ "run": { "agent": "command", "command": [] } })),
            "units[0].run.command",
        ),
        (
            unit(json!({ "run": { "agent": "command", "command": [""] } })),
            "units[0].run.command[0]",
        ),
        (
            unit(json!({ "run": { "command": ["claude", "--flag"] } })),
            "units[0].run.command",
        ),
        (
            unit(json!({ "run": { "model": "--dangerous" } })),
            "units[0].run.model",
        ),
        (
            unit(json!({ "run": { "allowed_tools": ["Bash", "-x"] } })),
            "units[0].run.allowed_tools[1]",
        ),
        (
            unit(json!({ "run": { "max_turns": 0 } })),
            "units[0].run.max_turns",
        ),
        (unit(json!({ "run": { "timeout": "0" } })), "units[0].run.timeout"),
        (unit(json!({ "run": { "idle": "1.5h" } })), "units[0].run.idle"),
        (
            unit(json!({ "run": { "max_retries": 4 } })),
            "units[0].run.max_retries",
        ),
        (
            unit(json!({ "run": { "budget_usd": 1e300 } })),
            "units[0].run.budget_usd",
        ),
    ] {
        assert_eq!(paths(value.clone()), [path], "{value:#}");
    }
}

#[test]
fn g13_amounts_that_are_no_numbers_are_refused() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.01] {
        let mut plan = plan(json!({ "units": [{ "id": "a", "prompt": "x" }] }));
        plan.units[0].run.budget_usd = Some(odd);
        let found = plan.check(&config(), AGENTS);
        assert_eq!(found.len(), 1, "{odd}");
        assert_eq!(found[0].path, "units[0].run.budget_usd");
    }
}

#[test]
fn g13_names_and_issues_are_there_once_whatever_their_case() {
    let twice = json!({ "units": [
        { "id": "a", "issue": "WI-1" }, { "id": "A", "issue": "wi-1" }, { "id": "b", "prompt": "x", "depends_on": ["a", "a"] },
    ] });
    let expected = ["units[1].id", "units[1].issue", "units[2].depends_on[1]"];
    assert_eq!(paths(twice), expected);
}

#[test]
fn g13_a_circle_is_shown_all_the_way_round() {
    let circle = json!({ "units": [
        { "id": "z", "prompt": "x", "depends_on": ["a"] },
        { "id": "a", "prompt": "x", "depends_on": ["b"] },
        { "id": "b", "prompt": "x", "depends_on": ["c"] },
        { "id": "c", "prompt": "x", "depends_on": ["a"] },
        { "id": "d", "prompt": "x", "depends_on": ["d"] },
    ] });
    let found = problems(circle);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0].0, "units[3].depends_on[0]");
    assert!(found[0].1.contains("a -> b -> c -> a"), "{found:?}");
    assert_eq!(found[1].0, "units[4].depends_on[0]");
    assert!(found[1].1.contains("d -> d"), "{found:?}");
}

#[test]
fn g13_a_long_chain_and_many_diamonds_are_checked_at_once() {
    let units: Vec<Value> = (0..MAX_UNITS)
        .map(|n| {
            let before: Vec<String> = (n.saturating_sub(8)..n).map(|m| format!("u{m}")).collect();
            json!({ "id": format!("u{n}"), "prompt": "x", "depends_on": before })
        })
        .collect();
    assert_eq!(problems(json!({ "units": units })), []);
}

#[test]
fn g13_a_phase_is_a_barrier() {
    let phases = plan(json!({ "units": [
        { "id": "late", "prompt": "x", "phase": 2 }, { "id": "a", "prompt": "x" }, { "id": "b", "prompt": "x", "phase": 1 },
    ] }));
    assert_eq!(phases.needs(0), BTreeSet::from([Some(1), Some(2)]));
    assert_eq!(phases.needs(1), BTreeSet::new());
    assert_eq!(phases.needs(2), BTreeSet::from([Some(1)]));
    let backwards = json!({ "units": [
        { "id": "a", "prompt": "x", "depends_on": ["b"] }, { "id": "b", "prompt": "x", "phase": 1 },
    ] });
    assert_eq!(paths(backwards), ["units[0].depends_on[0]"]);
}

#[test]
fn g13_the_unit_is_over_the_plan_is_over_the_configuration() {
    let plan = plan(json!({
        "run": { "agent": "command", "command": ["plan"], "timeout": "2h", "max_retries": 1 },
        "units": [
            { "id": "a", "prompt": "x", "run": { "timeout": "3h" } },
            { "id": "b", "prompt": "x", "run": { "agent": "claude" } },
        ]
    }));
    let config = Settings {
        agent: Some("claude".to_owned()),
        model: Some("opus".to_owned()),
        idle: Some("5m".to_owned()),
        timeout: Some("1h".to_owned()),
        ..Settings::default()
    };
    let resolved = plan.resolved("w", "main", &config);
    let a = &resolved.units[0].run;
    assert_eq!(a.timeout.as_deref(), Some("3h"));
    assert_eq!(a.command.as_deref(), Some(&["plan".to_owned()][..]));
    assert_eq!(a.idle.as_deref(), Some("5m"));
    assert_eq!(a.max_retries, Some(1));
    // Settings for one agent do not apply to another.
    assert_eq!(a.model, None);
    assert_eq!(resolved.units[1].run.command, None);
    assert_eq!(resolved.units[1].run.timeout.as_deref(), Some("2h"));
    assert_eq!(resolved.workflow_id.as_deref(), Some("w"));
    assert_eq!(resolved.target.as_deref(), Some("main"));
    // Once resolved, the configuration does not matter any more.
    assert_eq!(resolved.resolved("w", "main", &Settings::default()), resolved);
}

#[test]
fn g13_the_schema_is_that_of_the_types() {
    let schema = schema();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    assert_eq!(schema["title"], "jit plan");
    assert_eq!(schema["required"], json!(["units"]));
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["max_concurrent"]["minimum"], 1);
    let unit = &schema["properties"]["units"]["items"];
    assert_eq!(unit["required"], json!(["id"]));
    for field in [
        "depends_on",
        "artifacts",
        "validate",
        "run",
        "prompt_file",
        "phase",
    ] {
        assert!(unit["properties"][field].is_object(), "{field}");
    }
    assert_eq!(
        unit["properties"]["run"]["properties"]["max_retries"]["maximum"],
        MAX_RETRIES
    );
}

#[test]
fn g15_a_scope_stays_inside_and_has_room_for_what_is_to_be_made() {
    let unit = |extra: Value| {
        let mut unit = json!({ "id": "a", "prompt": "x" });
        for (key, value) in extra.as_object().expect("an object") {
            unit[key] = value.clone();
        }
        json!({ "units": [unit] })
    };
    for good in [
        json!({ "writes": ["src/**", "docs/"] }),
        json!({ "writes": ["src/**"], "artifacts": [{ "path": "src/a.rs" }, { "path": "**/*.rs" }] }),
    ] {
        assert_eq!(problems(unit(good)), []);
    }
    for (bad, path) in [
        (json!({ "writes": ["../x"] }), "units[0].writes[0]"),
        (json!({ "writes": ["src/", "/etc"] }), "units[0].writes[1]"),
        (json!({ "writes": ["a/.git/x"] }), "units[0].writes[0]"),
        (json!({ "writes": [""] }), "units[0].writes[0]"),
        (
            json!({ "writes": ["src/"], "artifacts": [{ "path": "b.rs" }] }),
            "units[0].artifacts[0].path",
        ),
    ] {
        assert_eq!(paths(unit(bad.clone())), [path], "{bad}");
    }
}

#[test]
fn g14_only_what_has_landed_by_then_is_handed_over() {
    let plan = |from: &[&str]| {
        json!({ "units": [
            { "id": "a", "prompt": "x" },
            { "id": "b", "prompt": "x", "depends_on": ["a"] },
            { "id": "c", "prompt": "x", "depends_on": ["b"], "handoff_from": from },
            { "id": "d", "prompt": "x" },
            { "id": "e", "prompt": "x", "phase": 1, "handoff_from": ["d"], "handoff": "file" },
        ]})
    };
    assert_eq!(problems(plan(&["a", "b"])), []);
    for bad in ["d", "e", "c", "nobody"] {
        assert_eq!(paths(plan(&[bad])), ["units[2].handoff_from[0]"], "{bad}");
    }
    assert_eq!(paths(plan(&["a", "a"])), ["units[2].handoff_from[1]"]);
    let alone = json!({ "units": [{ "id": "a", "prompt": "x", "handoff": "prompt" }] });
    assert_eq!(paths(alone), ["units[0].handoff"]);
}
