//! `changelog.log` with lines of programs that know no `jit` (D4), and long answers of `jit events` (D3).

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use jit_testkit::world::World;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn path(world: &World) -> PathBuf {
    world.repo().join(".git/jit/changelog.log")
}

/// A worker's entry, as seed programs write it.
fn entry(second: u32, details: &str) -> Value {
    json!({
        "timestamp": format!("2026-01-24T10:00:{second:02}Z"), "worker": "agent-abc123", "worker_type": "agent",
        "action": "completed_task", "activity_id": "WI-001-A1", "task_id": "WI-001-A1-T1", "details": details,
    })
}

fn append(world: &World, text: &str) {
    let mut file = fs::File::options()
        .append(true)
        .create(true)
        .open(path(world))
        .expect("open");
    file.write_all(text.as_bytes()).expect("append");
}

fn work(world: &World, title: &str) {
    let _ = world.jit(["issue", "create", title, "--type", "work_item"]).ok();
}

fn lines(world: &World) -> Vec<Value> {
    let text = fs::read_to_string(path(world)).expect("a changelog");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn details(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["details"].as_str().unwrap_or("?"))
        .collect()
}

#[test]
fn d4_lines_of_other_programs_are_kept_and_shown() {
    let world = World::with_jit(JIT);
    append(&world, &format!("{}\n", entry(1, "before")));
    work(&world, "one");
    append(
        &world,
        &format!(
            "{}\n{}\n",
            entry(2, "between"),
            json!({"action": "own_word", "n": [1]})
        ),
    );
    work(&world, "two");
    // Without a newline, as `printf` leaves it.
    append(&world, &entry(3, "after").to_string());
    work(&world, "three");
    let expected = ["before", "one", "between", "?", "two", "after", "three"];
    assert_eq!(details(&lines(&world)), expected);
    let shown = world.jit(["changelog", "--json"]).ok().json();
    let shown = shown["entries"].as_array().expect("entries").clone();
    // By their times, which are earlier; one without a time is only in the file.
    assert_eq!(
        details(&shown),
        ["before", "between", "after", "one", "two", "three"]
    );
    assert_eq!(
        (&shown[0]["worker"], &shown[0]["task_id"], &shown[0]["sequence"]),
        (&json!("agent:agent-abc123"), &json!("WI-001-A1-T1"), &Value::Null)
    );
    assert!(shown[3]["sequence"].is_u64());
    let recent = world
        .jit(["changelog", "--since", "2026-06-01T00:00:00Z"])
        .ok()
        .stdout;
    assert!(
        recent.contains("three") && !recent.contains("between"),
        "{recent}"
    );
}

#[test]
fn d4_a_line_of_another_program_with_a_sequence_is_kept() {
    let world = World::with_jit(JIT);
    work(&world, "one");
    let mut line = entry(2, "numbered");
    line["sequence"] = json!(1);
    append(&world, &format!("{line}\n"));
    work(&world, "two");
    work(&world, "three");
    assert_eq!(details(&lines(&world)), ["one", "numbered", "two", "three"]);
}

#[test]
fn d4_many_lines_of_other_programs_are_no_end_of_the_file() {
    let world = World::with_jit(JIT);
    work(&world, "one");
    let many: String = (0..4000)
        .map(|n| format!("{}\n", entry(n % 60, "more")))
        .collect();
    append(&world, &many);
    work(&world, "two");
    let all = lines(&world);
    assert_eq!(
        (all.len(), details(&all)[0], details(&all)[4001]),
        (4002, "one", "two")
    );
}

#[test]
fn d4_writing_the_file_anew_keeps_the_lines_of_others_where_they_were() {
    let world = World::with_jit(JIT);
    work(&world, "one");
    append(&world, &format!("{}\n", entry(1, "theirs")));
    work(&world, "two");
    // The last line was cut, the first one changed, and something else is in between.
    let text = fs::read_to_string(path(&world)).expect("read");
    let cut = text
        .trim_end()
        .strip_suffix('}')
        .expect("an object")
        .replacen("one", "won", 1);
    fs::write(path(&world), format!("not json\n{cut}")).expect("write");
    work(&world, "three");
    assert_eq!(details(&lines(&world)), ["one", "theirs", "two", "three"]);
    let damaged = fs::read_to_string(world.repo().join(".git/jit/changelog.damaged")).expect("kept");
    assert!(damaged.starts_with("not json\n{"), "{damaged}");
    // A link in its place is not written through.
    let secret = world.root().join("secret");
    fs::write(&secret, "keep me").expect("write");
    fs::remove_file(path(&world)).expect("removed");
    std::os::unix::fs::symlink(&secret, path(&world)).expect("link");
    let ran = world.jit(["issue", "create", "four", "--type", "work_item"]).ok();
    assert!(
        ran.stderr.contains("changelog could not be written"),
        "{}",
        ran.stderr
    );
    assert_eq!(fs::read_to_string(&secret).expect("read"), "keep me");
}

#[test]
fn d3_a_long_answer_is_one_document_though_it_is_printed_page_by_page() {
    let world = World::with_jit(JIT);
    let issues: String = (0..300)
        .map(|n| {
            format!(
                "{}\n",
                json!({"id": format!("X-{n:03}"), "title": format!("Title {n}\u{9b}"), "state": "ready"})
            )
        })
        .collect();
    let file = world.root().join("issues.jsonl");
    fs::write(&file, issues).expect("a file");
    let from = ["issue", "import", "--from", "jsonl"].map(std::ffi::OsStr::new);
    let _ = world.jit(from.into_iter().chain([file.as_os_str()])).ok();
    let ran = world.jit(["events", "--json"]).ok();
    assert!(
        ran.stdout.len() > 100_000 && ran.stdout.lines().count() == 1,
        "{}",
        ran.stdout.len()
    );
    assert!(!ran.stdout.contains('\u{9b}'), "made harmless for a terminal");
    let sequences = |document: &Value| -> Vec<u64> {
        let events = document["events"].as_array().expect("events").iter();
        events
            .map(|event| event["sequence"].as_u64().expect("a sequence"))
            .collect()
    };
    let all = sequences(&ran.json());
    assert!(
        all.len() > 300 && all.iter().zip(1..).all(|(a, b)| *a == b),
        "{all:?}"
    );
    let some = world.jit(["events", "--json", "--fields", "sequence"]).ok();
    assert_eq!(sequences(&some.json()), all);
    let text = world.jit(["events"]).ok().stdout;
    assert_eq!(text.lines().count(), all.len());
    assert_eq!(
        world.jit(["events", "--json", "--type", "none"]).ok().stdout,
        "{\"events\":[]}\n"
    );
}
