//! `jit issue import` and `jit issue export` (E2).

use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

use crate::merging::Tree;

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn import(world: &World, from: &str, content: &str) -> Ran {
    let file = world.root().join("import.txt");
    std::fs::write(&file, content).expect("write");
    let mut command = world.jit_command(&world.repo());
    command
        .args(["issue", "import", "--json", "--from", from])
        .arg(&file);
    world.run(command)
}

fn show(world: &World, id: &str) -> Value {
    world.jit(["issue", "show", id, "--json"]).ok().json()
}

const BEADS: &str = r#"{"id":"app-1","title":"Epic","status":"open","issue_type":"epic","priority":1}
{"id":"app-1.1","title":"Store sessions","description":"In the database.","status":"open","labels":["db","x"],"dependencies":[{"depends_on_id":"app-1","type":"parent-child"},{"depends_on_id":"APP-2","type":"blocks"}],"comments":[{"author":"lee","text":"How long?","created_at":"2025-12-02T08:00:00Z"}],"created_at":"2025-12-01T10:00:00Z"}
{"id":"app-2","title":"Choose a database","status":"closed"}
{"id":"no good id!","title":"Odd","status":"open","dependencies":[{"depends_on_id":"app-1.1","type":"blocks"}]}
not json
"#;

#[test]
fn e2_an_import_keeps_ids_relations_texts_and_comments() {
    let world = World::with_jit(JIT);
    let done = import(&world, "beads", BEADS).ok().json();
    let ids: Vec<&str> = done["imported"]
        .as_array()
        .expect("ids")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(ids[..3], ["app-1", "app-1.1", "app-2"]);
    assert_eq!(ids.len(), 4);
    assert_eq!(done["problems"][0]["line"], 5);
    let issue = show(&world, "app-1.1");
    assert_eq!(issue["parent"], "app-1");
    assert_eq!(issue["depends_on"], json!(["app-2"]));
    assert_eq!(issue["labels"], json!(["db", "x"]));
    assert_eq!(issue["description"], "In the database.\n");
    assert_eq!(issue["comments"][0]["agent_id"], "human:lee");
    assert_eq!(issue["created_at"], "2025-12-01T10:00:00.000Z");
    assert_eq!(
        show(&world, ids[3])["depends_on"],
        json!(["app-1.1"]),
        "a made-up id refers to a kept one"
    );
    let file = world.repo().join(".jit/issues/app-1.1/description.md");
    assert_eq!(
        std::fs::read_to_string(file).expect("projection"),
        "In the database.\n"
    );
    let _ = world.jit(["validate"]).ok();
    // It can be worked on like any other.
    let ready = world.jit(["ready", "--json"]).ok().json();
    assert!(
        ready["issues"]
            .as_array()
            .expect("ready")
            .iter()
            .any(|issue| issue["id"] == "app-1.1"),
        "{ready}"
    );
}

#[test]
fn e2_importing_again_duplicates_nothing_and_changes_nothing() {
    let world = World::with_jit(JIT);
    let first = import(&world, "beads", BEADS).ok().json();
    let _ = world
        .jit(["issue", "update", "app-2", "--title", "Mine now"])
        .ok();
    let _ = world.jit(["issue", "delete", "app-1"]).ok();
    let before = world.jit(["issue", "list", "--json"]).ok().json();
    let again = import(&world, "beads", BEADS).ok().json();
    assert_eq!(again["imported"], json!([]));
    assert_eq!(
        again["skipped"].as_array().map(Vec::len),
        first["imported"].as_array().map(Vec::len)
    );
    assert_eq!(
        again["skipped"][0],
        json!({ "key": "app-1", "why": "app-1 was deleted here" })
    );
    assert_eq!(world.jit(["issue", "list", "--json"]).ok().json(), before);
}

#[test]
fn e2_a_dry_run_says_what_would_be_and_does_nothing() {
    let world = World::with_jit(JIT);
    let file = world.root().join("b.jsonl");
    std::fs::write(&file, BEADS).expect("write");
    let file = file.to_str().expect("UTF-8");
    let dry = world
        .jit(["issue", "import", "--from", "beads", "--dry-run", "--json", file])
        .ok()
        .json();
    assert_eq!(dry["imported"].as_array().map(Vec::len), Some(4));
    assert_eq!(dry["dry_run"], true);
    assert_eq!(
        world.jit(["issue", "list", "--json"]).ok().json(),
        json!({ "issues": [] })
    );
    assert_eq!(
        import(&world, "beads", BEADS).ok().json()["imported"],
        dry["imported"]
    );
}

#[test]
fn e2_cycles_are_broken_and_named() {
    let world = World::with_jit(JIT);
    let lines = r#"{"id":"A-1","title":"a","depends_on":["C-1"]}
{"id":"B-1","title":"b","depends_on":["A-1"]}
{"id":"C-1","title":"c","depends_on":["B-1","D-1","NOPE-1"]}
{"id":"D-1","title":"d"}
{"id":"E-1","title":"e","parent":"F-1"}
{"id":"F-1","title":"f","parent":"E-1"}
"#;
    let ran = import(&world, "jsonl", lines).ok();
    let ids = json!(["A-1", "B-1", "C-1", "D-1", "E-1", "F-1"]);
    assert_eq!(ran.json()["imported"], ids);
    assert!(
        ran.stderr
            .contains("C-1: that it waits for B-1 would close a cycle (C-1 → B-1 → A-1 → C-1)"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("NOPE-1, which is neither in the file nor here"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("E-1 would be part of itself"),
        "{}",
        ran.stderr
    );
    assert_eq!(show(&world, "C-1")["depends_on"], json!(["D-1"]));
    assert_eq!(show(&world, "A-1")["depends_on"], json!(["C-1"]));
    assert_eq!(
        (&show(&world, "E-1")["parent"], &show(&world, "F-1")["parent"]),
        (&Value::Null, &json!("E-1"))
    );
    assert_eq!(world.jit(["graph", "--json"]).ok().json()["cycles"], json!([]));
    // One that is closed by what was here before, too: X-1 waited for Y-1 before that came.
    let first = r#"{"id":"X-1","title":"x"}"#;
    let _ = import(&world, "jsonl", first).ok();
    let deps = world.repo().join(".jit/issues/X-1/deps.or-set.jsonl");
    let line = json!({ "op": "add", "value": "Y-1", "tag": "t", "agent_id": "human:x", "at": "2026-01-01T00:00:00Z" });
    std::fs::write(deps, format!("{line}\n")).expect("write");
    assert_eq!(show(&world, "X-1")["depends_on"], json!(["Y-1"]));
    let ran = import(
        &world,
        "jsonl",
        r#"{"id":"Y-1","title":"y","depends_on":["X-1","D-1"]}"#,
    )
    .ok();
    assert!(ran.stderr.contains("would close a cycle"), "{}", ran.stderr);
    assert_eq!(show(&world, "Y-1")["depends_on"], json!(["D-1"]));
}

#[test]
fn e2_what_an_import_cannot_keep_is_said() {
    let world = World::with_jit(JIT);
    let beads = r#"{"id":"bb-1","title":"B","status":"blocked","issue_type":"task"}
{"id":"bb-2","title":"C","status":"in_progress"}
{"id":"bb-2","title":"C again","status":"open","updated_at":"2020-01-01T00:00:00Z"}
"#;
    let ran = import(&world, "beads", beads).ok();
    assert_eq!(ran.json()["problems"][0]["line"], 3, "{}", ran.stdout);
    assert_eq!(
        show(&world, "bb-1")["blocked"],
        "blocked in the tracker it was imported from"
    );
    let blocked = world.jit(["blocked", "--json"]).ok().json();
    assert!(blocked.to_string().contains("bb-1"), "{blocked}");
    let lines = r#"{"id":"J-1","title":"t","depends_on":["J-1"]}
{"id":"J-2","title":"t","parent":"J-2"}
{"id":"J-3","title":"t","labels":["a\u001b[31m"]}
{"id":"J-4","title":"t","status":"doing","blocked":true}
{"id":"J-5","title":"t\u001b[2J"}
"#;
    let warned = import(&world, "jsonl", lines).ok().stderr;
    for (id, what) in [
        ("J-1", "waits for itself"),
        ("J-2", "part of itself"),
        ("J-3", "plain text"),
        ("J-4", "taken as ready"),
        ("J-5", "plain text"),
    ] {
        let told = |line: &str| line.contains(id) && line.contains(what);
        assert!(warned.lines().any(told), "{id} {what}: {warned}");
    }
    assert_ne!(show(&world, "J-4")["blocked"], Value::Null);
}

#[test]
fn e2_nothing_but_problems_is_exit_6_and_nothing_at_all_is_fine() {
    let world = World::with_jit(JIT);
    let ran = import(&world, "jsonl", "{\"id\":\"A-1\"}\nnonsense\n").exits(6);
    assert_eq!(ran.json()["problems"].as_array().map(Vec::len), Some(2));
    assert_eq!(import(&world, "jsonl", "").ok().json()["imported"], json!([]));
    let _ = world
        .jit(["issue", "import", "--from", "jsonl", "nowhere.jsonl"])
        .exits(3);
    let _ = world.jit(["issue", "import", "--from", "jira", "x"]).exits(2);
}

#[test]
fn e2_github_from_standard_input_and_backlog_from_a_folder() {
    let world = World::with_jit(JIT);
    let mut command = world.jit_command(&world.repo());
    command
        .args(["issue", "import", "--from", "github", "-", "-q"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("jit");
    let issues = r#"[{"number":12,"title":"Crash","body":"x","state":"OPEN","labels":[{"name":"bug"}]}]"#;
    std::io::Write::write_all(&mut child.stdin.take().expect("stdin"), issues.as_bytes()).expect("write");
    let out = child.wait_with_output().expect("jit");
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "gh-12\n",
        "quiet: only the ids"
    );
    assert_eq!(show(&world, "gh-12")["type"], "bug");
    let tasks = world.root().join("backlog/tasks");
    std::fs::create_dir_all(&tasks).expect("folder");
    std::fs::write(
        tasks.join("task-1 - One.md"),
        "---\nid: task-1\ntitle: One\nstatus: To Do\n---\nDo it.\n",
    )
    .expect("write");
    std::fs::write(
        tasks.join("task-2 - Two.md"),
        "---\nid: task-2\ntitle: Two\ndependencies: [task-1]\n---\n",
    )
    .expect("write");
    std::os::unix::fs::symlink("/etc/passwd", tasks.join("task-3 - Three.md")).expect("link");
    let folder = world.root().join("backlog");
    let done = world
        .jit([
            "issue",
            "import",
            "--json",
            "--from",
            "backlog",
            folder.to_str().expect("UTF-8"),
        ])
        .ok()
        .json();
    assert_eq!(done["imported"], json!(["task-1", "task-2"]));
    assert_eq!(done["problems"], json!([]), "links are not followed");
    assert_eq!(show(&world, "task-2")["depends_on"], json!(["task-1"]));
}

/// Everything about an issue that does not depend on where it is.
fn essence(world: &World) -> Vec<Value> {
    let list = world.jit(["issue", "list", "--sort", "id", "--json"]).ok().json();
    let ids = list["issues"]
        .as_array()
        .expect("issues")
        .iter()
        .filter_map(|issue| issue["id"].as_str());
    ids.map(|id| {
        let mut issue = show(world, id);
        for place in ["revision", "lives_in", "resume_from"] {
            issue.as_object_mut().expect("an object").remove(place);
        }
        issue
    })
    .collect()
}

#[test]
fn e2_what_is_exported_comes_back_the_same() {
    let world = World::with_jit(JIT);
    let jit = |args: &[&str]| world.jit(args).ok();
    let _ = jit(&[
        "issue",
        "create",
        "Épic \"one\"",
        "--id",
        "WI-1",
        "--type",
        "epic",
        "--actor",
        "human",
    ]);
    let _ = jit(&[
        "issue",
        "create",
        "Two",
        "--id",
        "WI-2",
        "--parent",
        "WI-1",
        "--label",
        "a b",
        "--label",
        "z",
        "--gate",
        "tests",
        "--priority",
        "high",
        "--description",
        " first\n\n\tlast \n\n",
    ]);
    let _ = jit(&[
        "issue",
        "create",
        "Three",
        "--id",
        "WI-3",
        "--depends-on",
        "WI-2",
        "--state",
        "backlog",
    ]);
    let _ = jit(&["issue", "create", "Four", "--id", "WI-4"]);
    let _ = jit(&["issue", "comment", "WI-2", "one\ntwo"]);
    let _ = jit(&["issue", "comment", "WI-2", "three", "--agent-id", "agent:x y"]);
    let _ = jit(&["block", "WI-3", "--reason", "no key"]);
    let _ = jit(&["issue", "update", "WI-4", "--state", "done"]);
    let lines = jit(&["issue", "export"]).stdout;
    assert_eq!(lines.lines().count(), 4);
    let other = World::with_jit(JIT);
    let done = import(&other, "jsonl", &lines).ok();
    assert_eq!(done.stderr, "");
    assert_eq!(done.json()["imported"], json!(["WI-1", "WI-2", "WI-3", "WI-4"]));
    assert_eq!(essence(&other), essence(&world));
    assert_eq!(other.jit(["issue", "export"]).ok().stdout, lines);
    let wrote = world
        .jit(["issue", "export", "--output", "all.jsonl", "--json"])
        .ok()
        .json();
    assert_eq!(wrote, json!({ "issues": 4, "file": "all.jsonl" }));
    assert_eq!(
        std::fs::read_to_string(world.repo().join("all.jsonl")).expect("read"),
        lines
    );
    let _ = world.jit(["issue", "export", "--json"]).exits(2);
}

#[test]
fn l5_an_export_overwrites_nothing_unless_told() {
    let world = World::with_jit(JIT);
    let file = world.repo().join("all.jsonl");
    std::fs::write(&file, "mine\n").expect("a file");
    std::os::unix::fs::symlink("/nowhere/at/all", world.repo().join("hanging")).expect("a link");
    let export = |more: &[&str]| world.jit(["issue", "export"].iter().chain(more));
    let ran = export(&["--output", "all.jsonl"]).exits(2);
    assert!(ran.stderr.contains("all.jsonl exists already"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("jit issue export --force --output all.jsonl"),
        "{}",
        ran.stderr
    );
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "mine\n");
    let _ = export(&["--output", "hanging"]).exits(2);
    let _ = export(&["--output", ".jit"]).exits(2);
    let _ = export(&["--output", "/dev/null"]).ok();
    let _ = export(&["--force"]).exits(2);
    let _ = export(&["--output", "all.jsonl", "--force"]).ok();
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "");
}

#[test]
fn e2_many_issues_come_in_by_few_appends() {
    let world = World::with_jit(JIT);
    let line = |n: usize| match n {
        0 => r#"{"id":"M-0","title":"t","description":"d 0"}"#.to_owned(),
        n => format!(
            r#"{{"id":"M-{n}","title":"t","description":"d {n}","depends_on":["M-{}"]}}"#,
            (n + 1) % 2500
        ),
    };
    let lines: Vec<String> = (0..2500).map(line).collect();
    let done = import(&world, "jsonl", &lines.join("\n")).ok().json();
    assert_eq!(done["imported"].as_array().map(Vec::len), Some(2500));
    assert_eq!(
        show(&world, "M-2498")["depends_on"],
        json!(["M-2499"]),
        "across appends"
    );
    let _ = world.jit(["validate"]).ok();
}

#[test]
fn e2_odd_titles_come_back_as_they_were() {
    let (world, other) = (World::with_jit(JIT), World::with_jit(JIT));
    let title = "two\nlines\tand \u{1b}[31m\u{200b}more";
    let _ = world.jit(["issue", "create", title, "--id", "T-1"]).ok();
    let lines = world.jit(["issue", "export"]).ok().stdout;
    let done = import(&other, "jsonl", &lines).ok();
    assert_eq!(show(&other, "T-1")["title"], title, "{}", done.stderr);
    assert!(!done.stderr.contains("plain text"), "{}", done.stderr);
}

#[test]
fn e2_an_import_under_a_request_id_gives_its_first_answer_again() {
    let world = World::with_jit(JIT);
    let file = world.root().join("many.jsonl");
    let line = |n: usize| format!("{{\"id\":\"R-{n}\",\"title\":\"t\"}}\n");
    let file = |many: usize| {
        std::fs::write(&file, (0..many).map(line).collect::<String>()).expect("write");
        file.to_str().expect("UTF-8").to_owned()
    };
    let ask = |file: &str, id: &str| {
        let words = [
            "issue",
            "import",
            "--from",
            "jsonl",
            "--json",
            file,
            "--request-id",
            id,
        ];
        world.jit(words).ok().json()
    };
    let _ = world.jit(["issue", "create", "before", "--id", "R-3"]).ok();
    let first = ask(&file(450), "one");
    assert_eq!(first["imported"].as_array().map(Vec::len), Some(449));
    assert_eq!(first["skipped"].as_array().map(Vec::len), Some(1));
    let events = world.events();
    assert_eq!(ask(&file(450), "one"), first, "three appends");
    assert_eq!(world.events(), events, "nothing is written");
    let other = ask(&file(450), "two");
    assert_eq!(other["imported"], json!([]));
    // As if it had been cut off: what was missing is made, and the answer is that of the whole.
    let more = ask(&file(451), "one");
    assert_eq!(more["imported"].as_array().map(Vec::len), Some(450));
    assert_eq!(ask(&file(451), "one"), more);
}

#[test]
fn e2_two_clones_that_import_the_same_file_merge_without_a_conflict() {
    let world = crate::merging::world();
    let [a, b] = ["a", "b"].map(|name| Tree::clone_of(&world, name));
    let file = world.root().join("both.jsonl");
    let lines = r#"{"id":"B-1","title":"t","labels":["a"],"depends_on":["B-2"],"comments":[{"author":"x","text":"hi"}],"description":"d"}
{"id":"B-2","title":"u"}
"#;
    std::fs::write(&file, lines).expect("write");
    let file = file.to_str().expect("UTF-8");
    for (tree, who) in [(&b, "human:zoe"), (&a, "human:ann")] {
        tree.jit(["issue", "import", "--from", "jsonl", file, "--agent-id", who]);
        tree.commit();
    }
    let (code, said) = a.take("merge", &b);
    assert_eq!(code, 0, "{said}");
    a.commit();
    let (code, said) = b.take("merge", &a);
    assert_eq!(code, 0, "{said}");
    let issues = [a.show("B-1"), b.show("B-1")];
    for issue in &issues {
        assert_eq!(issue["created_by"], "human:zoe", "who was first: {issue}");
        assert_eq!(issue["comments"].as_array().map(Vec::len), Some(1), "{issue}");
        assert_eq!(issue["labels"], json!(["a"]));
    }
    assert_eq!(issues[0]["comments"], issues[1]["comments"]);
    assert_eq!((a.status(), b.status()), (String::new(), String::new()));
}

#[test]
fn e2_an_import_brings_no_deadlock_and_keeps_the_hierarchy() {
    let world = World::with_jit(JIT);
    let lines = r#"{"id":"P-1","title":"whole","type":"activity"}
{"id":"C-1","title":"part","type":"task","parent":"P-1","depends_on":["P-1","D-1"]}
{"id":"D-1","title":"other","type":"task"}
{"id":"A-1","title":"too big","type":"activity","parent":"D-1"}
{"id":"P-2","title":"over","type":"activity","state":"done"}
{"id":"C-2","title":"open","type":"task","parent":"P-2"}
{"id":"C-3","title":"closed","type":"task","state":"done","parent":"P-1","depends_on":["P-2"]}
"#;
    let ran = import(&world, "jsonl", lines).ok();
    for told in [
        "C-1: that it waits for P-1 would close a cycle (C-1 → P-1 → C-1): left out",
        "A-1: a activity cannot be part of D-1, which is a task: it is part of nothing",
        "C-2: it is open, and part of P-2, which is done",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    assert_eq!(show(&world, "C-1")["depends_on"], json!(["D-1"]));
    assert_eq!(show(&world, "C-1")["parent"], "P-1");
    assert_eq!(show(&world, "A-1")["parent"], Value::Null);
    let _ = world.jit(["validate"]).ok();
    // And with what is here: X-1 is an open part of P-1, and may not wait for it by way of another.
    let more = r#"{"id":"X-1","title":"x","type":"task","parent":"P-1","depends_on":["Y-1"]}
{"id":"Y-1","title":"y","type":"task","depends_on":["P-1"]}
"#;
    let ran = import(&world, "jsonl", more).ok();
    assert!(ran.stderr.contains("would close a cycle"), "{}", ran.stderr);
    let _ = world.jit(["validate"]).ok();
}

#[test]
fn e6_an_agent_imports_nothing_as_done_that_has_gates_to_pass() {
    let world = World::with_jit(JIT);
    let file = world.root().join("done.jsonl");
    let import = |who: &str, id: &str| {
        let line = format!("{{\"id\":\"{id}\",\"title\":\"t\",\"state\":\"done\",\"gates\":[\"g\"]}}\n");
        std::fs::write(&file, line).expect("write");
        let file = file.to_str().expect("UTF-8");
        let ran = world
            .jit_as(who, ["issue", "import", "--from", "jsonl", file])
            .ok();
        (ran.stderr, show(&world, id)["state"].clone())
    };
    let (said, state) = import("agent:a", "G-1");
    assert_eq!(state, "gated");
    assert!(
        said.contains("G-1: it was done, and has not passed g here"),
        "{said}"
    );
    assert_eq!(import("human:h", "G-2").1, "done");
}

#[test]
fn e2_of_a_backlog_only_tasks_are_taken_and_archived_ones_are_not_ready() {
    let world = World::with_jit(JIT);
    let root = world.root().join("backlog");
    for (folder, id) in [
        ("tasks", "task-1"),
        ("completed", "task-2"),
        ("archive/tasks", "task-3"),
        ("archive/milestones", "m-1"),
        ("docs", "doc-1"),
        ("decisions", "decision-1"),
    ] {
        let folder = root.join(folder);
        std::fs::create_dir_all(&folder).expect("folder");
        let text = format!("---\nid: {id}\ntitle: About {id}\n---\n");
        std::fs::write(folder.join(format!("{id} - About.md")), text).expect("write");
    }
    let import = |path: &std::path::Path, dry: &[&str]| {
        let path = path.to_str().expect("UTF-8");
        let words = ["issue", "import", "--json", "--from", "backlog", path];
        world.jit(words.iter().chain(dry)).ok()
    };
    for path in ["archive/tasks", "archive/tasks/task-3 - About.md", "archive"] {
        let ran = import(&root.join(path), &["--dry-run"]);
        let told = "task-3: it is archived, and taken as rejected";
        assert!(ran.stderr.contains(told), "{path}: {}", ran.stderr);
    }
    let done = import(&root, &[]).json();
    assert_eq!(done["imported"], json!(["task-3", "task-2", "task-1"]));
    let left_out: Vec<&Value> = done["problems"]
        .as_array()
        .expect("problems")
        .iter()
        .map(|problem| &problem["file"])
        .collect();
    assert_eq!(left_out, ["archive/milestones", "decisions", "docs"]);
    assert_eq!(show(&world, "task-3")["state"], "rejected");
}

#[test]
fn e2_what_show_prints_can_be_imported_and_odd_labels_and_many_comments_come_back() {
    let (world, other) = (World::with_jit(JIT), World::with_jit(JIT));
    let label = "zero\u{200b}width \u{202e}turned";
    let _ = world
        .jit(["issue", "create", "t", "--id", "S-1", "--label", label])
        .ok();
    let comments = world.repo().join(".jit/issues/S-1/comments.jsonl");
    let line = |n: usize| {
        let at = format!("2026-01-01T00:00:{:02}.{:03}Z", n / 100, n % 100);
        json!({ "id": format!("c{n}"), "at": at, "agent_id": "human:x", "text": format!("no {n}") })
            .to_string()
            + "\n"
    };
    std::fs::write(comments, (0..1200).map(line).collect::<String>()).expect("write");
    let lines = world.jit(["issue", "export"]).ok().stdout;
    let done = import(&other, "jsonl", &lines).ok();
    assert_eq!(done.stderr, "");
    assert_eq!(other.jit(["issue", "export"]).ok().stdout, lines);
    let issue = show(&other, "S-1");
    assert_eq!(issue["comments"].as_array().map(Vec::len), Some(1200));
    assert_eq!(issue["labels"], json!([label]));
    let third = World::with_jit(JIT);
    let ran = import(&third, "jsonl", &issue.to_string()).ok();
    assert_eq!(ran.stderr, "", "what show prints");
    assert_eq!(show(&third, "S-1")["comments"], issue["comments"]);
}

#[test]
fn e2_a_deferred_issue_is_not_ready() {
    let world = World::with_jit(JIT);
    let lines = r#"{"id":"bd-1","title":"later","status":"open","defer_until":"2999-01-01T00:00:00Z"}
{"id":"bd-2","title":"now","status":"open","defer_until":"2020-01-01T00:00:00Z"}
"#;
    let ran = import(&world, "beads", lines).ok();
    assert!(
        ran.stderr.contains("bd-1: it is deferred until 2999"),
        "{}",
        ran.stderr
    );
    assert_eq!(show(&world, "bd-1")["state"], "backlog");
    assert_eq!(show(&world, "bd-2")["state"], "ready");
}

#[test]
fn e2_all_warnings_are_in_the_answer() {
    let world = World::with_jit(JIT);
    let line = |n: usize| format!("{{\"id\":\"W-{n}\",\"title\":\"t\",\"weight\":{n}}}\n");
    let ran = import(&world, "jsonl", &(0..150).map(line).collect::<String>()).ok();
    let warnings = ran.json()["warnings"].clone();
    assert_eq!(warnings.as_array().map(Vec::len), Some(150));
    assert_eq!(
        warnings[149],
        "W-149: left out, as nothing here is called so: weight"
    );
    assert!(ran.stderr.contains("and 50 more like these"), "{}", ran.stderr);
}
