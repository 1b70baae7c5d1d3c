//! Tests of reading, checking and storing plans.

use super::*;

fn config() -> Settings {
    Settings {
        agent: Some("claude".to_owned()),
        ..Settings::default()
    }
}

fn yaml(text: &str) -> Result<Plan, Vec<PlanError>> {
    read_text(text, false, &config(), AGENTS)
}

fn places(found: Result<Plan, Vec<PlanError>>) -> Vec<(u64, u64, String)> {
    let flaws = found.expect_err("flaws");
    flaws.into_iter().map(|f| (f.line, f.column, f.path)).collect()
}

#[test]
fn g13_a_plan_is_read_with_what_it_leaves_out() {
    let plan = yaml("units:\n  - id: 007\n    prompt: |\n      yes: no\n    run: { timeout: 600 }\n")
        .expect("a plan");
    assert_eq!(plan.max_concurrent, 3);
    assert_eq!(plan.units[0].id, "007");
    assert_eq!(plan.units[0].prompt.as_deref(), Some("yes: no\n"));
    assert_eq!(plan.units[0].run.timeout.as_deref(), Some("600"));
}

#[test]
fn g13_what_is_no_plan_is_told_with_line_and_column() {
    let mut told = Vec::new();
    let mut expected = Vec::new();
    for (text, line, column, words) in [
        ("units:\n  - id: a\n    prompt: x\n    promt: y\n", 4, 5, "promt"),
        ("units:\n  - id: a\n    id: b\n", 3, 5, "id"),
        ("units:\n  - id: [a]\n", 2, 9, "string"),
        ("max_concurrent: many\nunits: []\n", 1, 17, ""),
        ("base: &b {}\nunits:\n  - <<: *b\n", 1, 1, "base"),
        ("units:\n  - prompt: x\n", 2, 5, "id"),
    ] {
        let flaws = yaml(text).expect_err(text);
        assert_eq!(flaws.len(), 1, "{text}");
        assert!(flaws[0].problem.contains(words), "{flaws:?}");
        assert!(!flaws[0].problem.contains(" at line "), "{flaws:?}");
        told.push((text, flaws[0].line, flaws[0].column));
        expected.push((text, line, column));
    }
    assert_eq!(told, expected);
}

#[test]
fn g13_what_is_no_yaml_is_told_where_it_stops_being_yaml() {
    for text in [
        "units:\n  - id: \"a\n",
        "units:\n  - id: a\n   prompt: x\n",
        "units:\n  - id: a\n\tprompt: x\n",
        "units:\n  - { id: a\n",
    ] {
        let flaws = yaml(text).expect_err(text);
        assert_eq!(flaws.len(), 1, "{text}");
        let last = text.lines().count() as u64 + 1;
        assert!((2..=last).contains(&flaws[0].line), "{text}{flaws:?}");
        assert!(
            !flaws[0].problem.is_empty() && !flaws[0].problem.contains(" at line "),
            "{flaws:?}"
        );
    }
}

#[test]
fn g13_what_makes_no_sense_is_told_with_line_and_column() {
    let text = "\
max_concurrent: 0
budget_usd: .nan
units:
  - id: a
    depends_on: [b, zzz]
    prompt: x
  - id: b
    depends_on:
      - a
    run:
      timeout: soon
";
    let expected = [
        (1, 17, "max_concurrent"),
        (2, 13, "budget_usd"),
        (5, 21, "units[0].depends_on[1]"),
        (7, 5, "units[1]"),
        (9, 9, "units[1].depends_on[0]"),
        (11, 16, "units[1].run.timeout"),
    ];
    let expected = expected.map(|(line, column, path)| (line, column, path.to_owned()));
    assert_eq!(places(yaml(text)), expected);
}

#[test]
fn g13_json_is_read_as_strictly() {
    let json = |text: &str| read_text(text, true, &config(), AGENTS);
    let smile = json(r#"{"units": [{"id": "a", "prompt": "\ud83d\ude00"}]}"#).expect("a plan");
    assert_eq!(smile.units[0].prompt.as_deref(), Some("😀"));
    assert_eq!(
        places(json("{\"units\": [\n  {\"id\": \"a/b\", \"prompt\": \"x\"}]}")),
        [(2, 10, "units[0].id".to_owned())]
    );
    for (text, line) in [
        ("{\"units\": [\n{\"id\": 5}]}", 2),
        ("{\"units\": [],\n\"units\": []}", 2),
        ("{\"units\": []}\n{}", 2),
        ("", 1),
    ] {
        let flaws = json(text).expect_err(text);
        assert_eq!((flaws.len(), flaws[0].line), (1, line), "{flaws:?}");
        assert!(!flaws[0].problem.contains(" at line "), "{flaws:?}");
    }
}

#[test]
fn g13_bombs_depth_tags_and_second_documents_are_refused() {
    let mut bomb = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (name, before) in ["b", "c", "d", "e", "f", "g", "h", "i"]
        .iter()
        .zip(["a", "b", "c", "d", "e", "f", "g", "h"])
    {
        let nine = vec![format!("*{before}"); 9].join(", ");
        bomb.push_str(&format!("{name}: &{name} [{nine}]\n"));
    }
    // Inside a known field, so that it is not refused for its name.
    let bomb = format!(
        "units:\n  - id: a\n    depends_on:\n      - {}",
        bomb.replace('\n', "\n        ")
    );
    let deep = format!("units: {}{}\n", "[".repeat(10_000), "]".repeat(10_000));
    for text in [
        bomb.as_str(),
        deep.as_str(),
        "units: []\n---\nunits: []\n",
        "units:\n  - !!python/object:os.system { id: a }\n",
        "",
        "~",
        "just words",
        "\0",
    ] {
        assert_eq!(yaml(text).expect_err("refused").len(), 1, "{:.60}", text);
        // Places can be searched in any text.
        place::Places::of(text).find("units[0].id");
    }
    let shared = "units:\n  - id: a\n    prompt: &p do it\n  - id: b\n    prompt: *p\n";
    assert_eq!(
        yaml(shared).expect("a plan").units[1].prompt.as_deref(),
        Some("do it")
    );
}

#[test]
fn g13_prompt_files_become_part_of_the_plan_and_stay_inside() {
    let root = tempfile::tempdir().expect("folder");
    let home = root.path().join("plans");
    std::fs::create_dir_all(home.join("prompts")).expect("folder");
    std::fs::write(root.path().join("secret"), "s").expect("write");
    std::fs::write(home.join("prompts/a.md"), "do a\n").expect("write");
    std::fs::write(home.join("prompts/empty.md"), "\n").expect("write");
    std::fs::write(home.join("prompts/odd.md"), b"\xff").expect("write");
    std::os::unix::fs::symlink("../../secret", home.join("prompts/out.md")).expect("link");
    let path = home.join("plan.yaml");
    let load_with = |name: &str| {
        std::fs::write(&path, format!("units:\n  - id: a\n    prompt_file: {name}\n")).expect("write");
        load(&path, &config(), AGENTS)
    };
    let plan = load_with("prompts/a.md").expect("a plan");
    assert_eq!(plan.units[0].prompt.as_deref(), Some("do a\n"));
    assert_eq!(plan.units[0].prompt_file, None);
    for name in [
        "prompts/out.md",
        "prompts/none.md",
        "prompts/empty.md",
        "prompts/odd.md",
        "prompts",
        "../secret",
    ] {
        let refusal = load_with(name).expect_err(name);
        assert_eq!(refusal.code, Code::Invalid, "{name}");
        assert!(
            refusal.message.contains("plan.yaml:3:18: units[0].prompt_file"),
            "{}",
            refusal.message
        );
    }
    std::fs::write(&path, b"units:\n\xff").expect("write");
    let refusal = load(&path, &config(), AGENTS).expect_err("not UTF-8");
    assert!(refusal.message.contains("plan.yaml:2"), "{}", refusal.message);
    let refusal = load(&home.join("none.yaml"), &config(), AGENTS).expect_err("no file");
    assert_eq!(refusal.code, Code::NotFound);
    std::fs::write(&path, vec![b' '; (MOST + 1) as usize]).expect("write");
    let refusal = load(&path, &config(), AGENTS).expect_err("too large");
    assert_eq!(refusal.code, Code::Invalid);
}

#[test]
fn g12_a_kept_plan_is_the_same_or_it_is_refused() {
    let control = tempfile::tempdir().expect("folder");
    let id: WorkflowId = "w".parse().expect("a name");
    let plan = yaml("units:\n  - id: a\n    prompt: x\n").expect("a plan");
    let plan = plan.resolved("w", "main", &config());
    let digest = keep(control.path(), &id, &plan).expect("kept");
    assert_eq!(kept(control.path(), &id, &digest).expect("read"), plan);
    // Storing the same plan again is no error; storing another one is.
    assert_eq!(keep(control.path(), &id, &plan).expect("kept"), digest);
    let other = plan.resolved("w", "other", &config());
    assert_eq!(
        keep(control.path(), &id, &other).expect_err("refused").code,
        Code::Exists
    );
    let file = folder(control.path(), &id).join("plan.json");
    let text = std::fs::read_to_string(&file).expect("read");
    std::fs::write(&file, text.replace("main", "evil")).expect("write");
    assert_eq!(
        kept(control.path(), &id, &digest).expect_err("changed").code,
        Code::Damaged
    );
    std::fs::remove_file(&file).expect("remove");
    assert_eq!(
        kept(control.path(), &id, &digest).expect_err("gone").code,
        Code::Damaged
    );
}

#[test]
fn g13_ready_issues_make_a_plan_that_can_be_run() {
    let issues: Vec<IssueId> = ["WI-1", "a.lock", "a-lock", "ad601a15"]
        .iter()
        .map(|id| id.parse().expect("an issue"))
        .collect();
    let plan = from_ready(&issues, 2, config());
    let names: Vec<&str> = plan.units.iter().map(|unit| unit.id.as_str()).collect();
    assert_eq!(names, ["WI-1", "a-lock", "a-lock-2", "ad601a15"]);
    assert_eq!(plan.check(&Settings::default(), AGENTS), []);
    assert_eq!(plan.units[1].issue.as_deref(), Some("a.lock"));
}

#[test]
fn g13_the_example_in_the_documentation_is_a_plan() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plans.md");
    let page = std::fs::read_to_string(page).expect("docs/plans.md");
    let example = page
        .split("```yaml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let plan = yaml(example.expect("an example")).expect("a plan");
    let names: Vec<&str> = plan.units.iter().map(|unit| unit.id.as_str()).collect();
    assert_eq!(names, ["parser", "printer", "summary"]);
    assert_eq!(plan.needs(2).len(), 2);
    // Every field has a description.
    let schema = jit_core::model::plan::schema();
    let unit = &schema["properties"]["units"]["items"];
    for fields in [&schema, unit, &unit["properties"]["run"]] {
        for name in fields["properties"].as_object().expect("fields").keys() {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}
