//! `jit graph` and `jit dep tree` (E4), `jit progress --yaml`.

use jit_testkit::world::World;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// C waits for B, B for A; D waits for A, which is done; E is alone.
fn world() -> World {
    let world = World::with_jit(JIT);
    for (id, first) in [
        ("WI-A", None),
        ("WI-B", Some("WI-A")),
        ("WI-C", Some("WI-B")),
        ("WI-D", Some("WI-A")),
        ("WI-E", None),
    ] {
        let mut args = vec!["issue", "create", "a <title> & \"more\"", "--id", id];
        args.extend(first.iter().flat_map(|first| ["--depends-on", first]));
        let _ = world.jit(args).ok();
    }
    world
}

fn ids(graph: &Value) -> Vec<&str> {
    graph["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .filter_map(|node| node["id"].as_str())
        .collect()
}

#[test]
fn e4_the_tree_below_an_issue_as_text_and_as_one_object() {
    let world = world();
    let _ = world
        .jit(["claim", "acquire", "WI-A", "--agent-id", "agent:one"])
        .ok();
    let _ = world.jit(["block", "WI-B", "--reason", "no key"]).ok();
    insta::assert_snapshot!(world.jit(["dep", "tree", "wi-c"]).ok().stdout, @r#"
    ○ WI-C  a <title> & "more"  (ready)
    └─ ○ WI-B  a <title> & "more"  (ready, blocked: no key)
       └─ ▶ WI-A  a <title> & "more"  (in_progress, agent:one)
    "#);
    let tree = world.jit(["dep", "tree", "WI-C", "--json"]).ok().json();
    assert_eq!(tree["id"], "WI-C");
    assert_eq!(tree["mark"], Value::Null);
    let below = &tree["depends_on"][0]["depends_on"][0];
    assert_eq!(
        (&below["id"], &below["note"]),
        (&json!("WI-A"), &json!("agent:one"))
    );
    assert_eq!(below["depends_on"], json!([]));
    let _ = world.jit(["dep", "tree", "NOPE-1"]).exits(3);
}

#[test]
fn e4_the_graph_shows_open_issues_and_all_on_demand() {
    let world = world();
    let _ = world.jit(["issue", "update", "WI-A", "--state", "done"]).ok();
    let open = world.jit(["graph", "--json"]).ok().json();
    assert_eq!(
        ids(&open),
        ["WI-B", "WI-C", "WI-D", "WI-E"],
        "what is done is not in the way, nor unknown"
    );
    assert_eq!(open["edges"], json!([{ "issue": "WI-C", "depends_on": "WI-B" }]));
    assert_eq!(open["cycles"], json!([]));
    let all = world.jit(["graph", "--all", "--json"]).ok().json();
    assert_eq!(ids(&all), ["WI-A", "WI-B", "WI-C", "WI-D", "WI-E"]);
    assert_eq!(all["edges"].as_array().map(Vec::len), Some(3));
    let text = world.jit(["graph"]).ok().stdout;
    assert!(text.contains("Step 2: after step 1"), "{text}");
    assert!(text.contains("waits for WI-B"), "{text}");
}

#[test]
fn e4_of_one_issue_only_what_comes_before_and_after_it() {
    let world = world();
    let part = world.jit(["graph", "WI-B", "--json"]).ok().json();
    assert_eq!(ids(&part), ["WI-A", "WI-B", "WI-C"]);
    let _ = world.jit(["graph", "NOPE-1"]).exits(3);
}

#[test]
fn e4_a_deleted_issue_is_no_unknown_one_and_an_unknown_one_is_shown() {
    let world = world();
    let _ = world.jit(["issue", "delete", "WI-E"]).ok();
    let deps = world.repo().join(".jit/issues/WI-D/deps.or-set.jsonl");
    let line = std::fs::read_to_string(&deps)
        .expect("deps")
        .replace("WI-A", "GONE-1");
    let _ = world.jit(["issue", "delete", "WI-C"]).ok();
    let _ = world.jit(["dep", "add", "WI-B", "WI-D"]).ok();
    std::fs::write(&deps, line.replace("\"tag\":\"", "\"tag\":\"x")).expect("write");
    let _ = world.jit(["issue", "show", "WI-D"]).ok();
    let graph = world.jit(["graph", "--json"]).ok().json();
    assert_eq!(ids(&graph), ["WI-A", "WI-B", "WI-D", "GONE-1"]);
    assert_eq!(graph["nodes"][3]["state"], Value::Null);
    let tree = world.jit(["dep", "tree", "WI-D"]).ok().stdout;
    assert!(tree.contains("GONE-1 (unknown)"), "{tree}");
}

#[test]
fn e4_pictures_go_to_standard_output_or_into_a_file() {
    let world = world();
    let dot = world.jit(["graph", "--format", "dot"]).ok().stdout;
    assert!(
        dot.starts_with("digraph") && dot.contains("\"WI-A\" -> \"WI-B\""),
        "{dot}"
    );
    let mermaid = world.jit(["graph", "--format", "mermaid"]).ok().stdout;
    assert!(mermaid.starts_with("flowchart"), "{mermaid}");
    let one = world.jit(["graph", "--format", "svg", "--json"]).ok().json();
    let svg = one["text"].as_str().expect("text");
    assert!(svg.starts_with("<svg") && svg.contains("&lt;title&gt;"), "{svg}");
    let wrote = world
        .jit(["graph", "--format", "svg", "--output", "graph.svg", "--json"])
        .ok()
        .json();
    assert_eq!(wrote, json!({ "format": "svg", "file": "graph.svg" }));
    let file = world.repo().join("graph.svg");
    assert_eq!(std::fs::read_to_string(&file).expect("svg"), svg);
    let _ = world.jit(["graph", "--format", "png"]).exits(2);
    // In a clone a link may lead anywhere.
    let goal = world.home().join("precious");
    std::fs::write(&goal, "mine").expect("write");
    std::fs::remove_file(&file).expect("remove");
    std::os::unix::fs::symlink(&goal, &file).expect("link");
    let _ = world.jit(["graph", "--output", "graph.svg"]).exits(2);
    assert_eq!(std::fs::read_to_string(&goal).expect("read"), "mine");
}

/// Titles that a careless writer of YAML gets wrong.
const HOSTILE: &[&str] = &[
    "no",
    "1.0",
    "- a: b",
    "a # b",
    "\"'\\",
    "{a: [1]}",
    "*x &y !z",
    "null",
    "~",
    "%TAG",
    "  spaces  in  ",
    "é 🦀 \u{2028}\u{feff}",
    "key: |",
    "0x1F",
    "2026-01-01",
    "@at `tick`",
    "\\x41",
    "trailing:",
];

#[test]
fn i1_progress_as_yaml_is_the_same_as_json_whatever_the_titles() {
    let world = World::with_jit(JIT);
    for (n, title) in HOSTILE.iter().enumerate() {
        let _ = world
            .jit(["issue", "create", "--id", &format!("Y-{n}"), "--", title])
            .ok();
    }
    let json = world.jit(["progress", "--json"]).ok().json();
    let yaml = world.jit(["progress", "--yaml"]).ok().stdout;
    for issue in json["issues"].as_array().expect("issues") {
        let title = issue["title"].as_str().expect("title");
        let line = yaml
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("title: "));
        // All but the escapes of invisible characters are those of JSON.
        let found = line
            .filter_map(|text| serde_json::from_str::<String>(text).ok())
            .any(|text| text == title);
        assert!(found, "{title:?} in\n{yaml}");
    }
    let file = world.root().join("progress.yaml");
    std::fs::write(&file, &yaml).expect("write");
    let mut python = world.command("python3", world.root());
    python
        .args([
            "-c",
            "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1], encoding='utf-8'))))",
        ])
        .arg(&file);
    // Where there is no such reader, what was compared above has to do.
    if let Ok(output) = python.output()
        && output.status.success()
    {
        let read: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(read, json);
    }
    let _ = world.jit(["progress", "--yaml", "--json"]).exits(2);
}
