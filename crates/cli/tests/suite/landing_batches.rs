//! Units that land together, and a target that moves meanwhile (H4, H6): each is judged by itself, by what holds then.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::landing::{WHO, Yard};

fn verdict<'a>(report: &'a Value, unit: &str) -> &'a str {
    let units = report["units"].as_array().expect("units");
    let one = units.iter().find(|one| one["unit"] == unit).expect("told");
    one["verdict"].as_str().expect("a word")
}

/// Main as these commands leave it, committed; nobody has it checked out.
fn with(commands: &[&[&str]]) -> Yard {
    let yard = Yard::checked_out();
    for words in commands {
        let _ = yard.jit(words.iter()).ok();
    }
    yard.commit(&yard.repo(), "issues");
    yard.world.git(&yard.repo(), ["switch", "-q", "--detach"]);
    yard
}

/// A unit of an issue that adds one file.
fn unit(yard: &Yard, name: &str, issue: &str, file: &str) -> PathBuf {
    let path = yard.unit_for(name, Some(issue));
    yard.write(&path, file, "done\n");
    yard.commit(&path, name);
    path
}

fn state_of(yard: &Yard, issue: &str) -> Value {
    yard.jit(["issue", "show", issue, "--json"]).ok().json()["state"].clone()
}

#[test]
fn h6_a_gate_that_names_the_issue_runs_for_each_of_those_that_land_together() {
    let yard = with(&[
        &[
            "gate",
            "define",
            "ticket",
            "--command",
            "test -f ok/$JIT_ISSUE",
            "--required-for",
            "task",
        ],
        &["issue", "create", "A", "--id", "WI-A", "--type", "task"],
        &["issue", "create", "B", "--id", "WI-B", "--type", "task"],
    ]);
    let _ = unit(&yard, "ua", "WI-A", "ok/WI-A");
    let _ = unit(&yard, "ub", "WI-B", "b");
    let report = yard.merge(&["ua", "ub"]).exits(6).json();
    assert_eq!(verdict(&report, "ua"), "landed", "{report}");
    assert_eq!(verdict(&report, "ub"), "validation_failed", "{report}");
    assert_eq!(
        (state_of(&yard, "WI-A"), yard.on_main("b")),
        ("done".into(), None)
    );
    assert_ne!(state_of(&yard, "WI-B"), "done");
}

#[test]
fn h6_any_other_gate_runs_once_and_counts_only_for_those_that_have_it() {
    let yard = with(&[
        &[
            "gate",
            "define",
            "tests",
            "--command",
            "echo ran >> \"$COUNT\" || true",
        ],
        &["gate", "define", "other", "--command", "true"],
        &["issue", "create", "A", "--id", "WI-A", "--gate", "tests"],
        &["issue", "create", "B", "--id", "WI-B", "--gate", "tests"],
        &["issue", "create", "C", "--id", "WI-C", "--gate", "other"],
    ]);
    for (name, issue) in [("ua", "WI-A"), ("ub", "WI-B"), ("uc", "WI-C")] {
        let _ = unit(&yard, name, issue, name);
    }
    let count = yard.world.root().join("count");
    let mut command = yard.world.jit_command(&yard.repo());
    command
        .env("COUNT", &count)
        .args(["--agent-id", WHO, "worktree", "merge", "--json", "ua", "ub", "uc"]);
    let report = yard.world.run(command).ok().json();
    for unit in ["ua", "ub", "uc"] {
        assert_eq!(verdict(&report, unit), "landed", "{report}");
    }
    assert_eq!(fs::read_to_string(&count).expect("it ran"), "ran\n");
    let judged: Vec<(String, String)> = yard
        .world
        .events()
        .iter()
        .filter(|event| {
            event["type"]
                .as_str()
                .is_some_and(|kind| kind.starts_with("gate."))
        })
        .map(|event| &event["payload"])
        .map(|event| (event["issue_id"].to_string(), event["gate"].to_string()))
        .collect();
    assert_eq!(judged.len(), 3, "{judged:?}");
}

#[test]
fn h6_what_one_unit_lacks_refuses_only_that_one() {
    let yard = with(&[
        &["gate", "define", "review", "--manual"],
        &["issue", "create", "A", "--id", "WI-A"],
        &["issue", "create", "B", "--id", "WI-B"],
        &["issue", "create", "C", "--id", "WI-C", "--gate", "review"],
        &["issue", "create", "D", "--id", "WI-D", "--depends-on", "WI-C"],
    ]);
    for name in ["a", "b", "c", "d"] {
        let _ = unit(&yard, name, &format!("WI-{}", name.to_uppercase()), name);
    }
    let report = yard.merge(&["--all"]).json();
    for (unit, said) in [
        ("a", "landed"),
        ("b", "landed"),
        ("c", "refused"),
        ("d", "waiting"),
    ] {
        assert_eq!(verdict(&report, unit), said, "{report}");
    }
    let units = report["units"].as_array().expect("units");
    let told: Vec<&Value> = units
        .iter()
        .filter(|one| one["code"] == "gate_not_passed")
        .collect();
    assert_eq!(told.len(), 1, "{report}");
}

#[test]
fn h3_a_file_in_the_way_of_one_unit_is_in_no_other_units_way() {
    let yard = Yard::checked_out();
    yard.configure("[merge]\nvalidate = [\"true\"]");
    yard.world.git(&yard.repo(), ["reset", "-q", "--hard", "main"]);
    for name in ["a", "b", "c"] {
        let _ = yard.done(name, name, "landed\n");
    }
    yard.write(&yard.repo(), "b", "mine\n");
    let report = yard.merge(&["--all"]).json();
    for (unit, said) in [("a", "landed"), ("b", "refused"), ("c", "landed")] {
        assert_eq!(verdict(&report, unit), said, "{report}");
    }
    assert_eq!(
        fs::read_to_string(yard.repo().join("b")).expect("there"),
        "mine\n"
    );
}

#[test]
fn h6_settings_that_come_to_the_target_meanwhile_hold_for_what_is_tried_again() {
    let yard = Yard::new();
    // The first check brings a stricter one to the target, as somebody who commits there would.
    let bring = "test -e once || { d=$(mktemp -d); git worktree add -q --detach $d main && cd $d && touch once && \
                 printf '\\n[merge]\\nvalidate = [\\\"false\\\"]\\n' > .jit/config.toml && git add -A && git commit -q -m strict && \
                 git update-ref refs/heads/main HEAD; }";
    yard.configure(&format!("[merge]\nvalidate = [\"\"\"{bring}\"\"\"]"));
    yard.configure_trust("[merge]\nvalidate = [\"false\"]\n");
    let _ = yard.done("u1", "a", "a\n");
    let report = yard.merge(&["u1"]).exits(6).json();
    assert_eq!(verdict(&report, "u1"), "validation_failed", "{report}");
    assert_eq!(yard.on_main("a"), None);
}

#[test]
fn h6_a_unit_that_makes_the_settings_unreadable_does_not_land() {
    for (file, name) in [
        (".jit/config.toml", "config.toml"),
        (".jit/gates/registry.json", "registry.json"),
    ] {
        let yard = Yard::new();
        let _ = yard.done("bad", file, "no such thing [");
        let _ = yard.done("good", "good", "good\n");
        let refused = yard.merge(&["bad"]).json();
        assert_eq!(refused["error"]["code"], "config", "{refused}");
        assert!(
            refused["error"]["message"].to_string().contains(name),
            "{refused}"
        );
        assert_ne!(yard.on_main(file).as_deref(), Some("no such thing ["));
        let _ = yard.merge(&["good"]).ok();
    }
}

#[test]
fn h6_a_unit_does_not_take_a_gate_from_its_issue() {
    let yard = with(&[
        &["gate", "define", "strict", "--command", "false"],
        &["issue", "create", "A", "--id", "WI-A", "--gate", "strict"],
    ]);
    let path = unit(&yard, "ua", "WI-A", "a");
    let file = path.join(".jit/issues/WI-A/issue.json");
    let text = fs::read_to_string(&file).expect("there");
    let mut issue: Value = serde_json::from_str(&text).expect("an issue");
    issue["gates"] = serde_json::json!([]);
    fs::write(&file, serde_json::to_string_pretty(&issue).expect("text")).expect("written");
    yard.commit(&path, "easier");
    let _ = yard.world.jit_as_in(WHO, &path, ["issue", "list"]).ok();
    let shown = yard.jit(["issue", "show", "WI-A", "--json"]).ok().json();
    assert_eq!(shown["gates"], serde_json::json!([]), "the log has it");
    let report = yard.merge(&["ua"]).exits(6).json();
    assert_eq!(verdict(&report, "ua"), "validation_failed", "{report}");
    assert_eq!(yard.on_main("a"), None);
}
