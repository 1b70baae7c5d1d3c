//! Fields of `issue.json` that this program does not know (C7, E1): nobody loses them.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::merging::{Tree, world};

fn fields(tree: &Tree<'_>) -> Value {
    serde_json::from_str(&tree.read("issue.json")).expect("JSON")
}

fn set(tree: &Tree<'_>, name: &str, value: &Value) {
    tree.edit("issue.json", |text| {
        let mut file: Value = serde_json::from_str(&text).expect("JSON");
        match value {
            Value::Null => drop(file.as_object_mut().expect("an object").remove(name)),
            value => file[name] = value.clone(),
        }
        serde_json::to_string_pretty(&file).expect("text")
    });
}

#[test]
fn e1_fields_that_jit_does_not_know_survive_its_writes_in_every_tree() {
    let world = world();
    let a = Tree::worktree_of(&world, "a");
    let b = Tree::worktree_of(&world, "b");
    let severity = json!({"level": 3, "why": ["a", null, 1.5]});
    set(&a, "severity", &severity);
    set(&a, "nothing", &json!("x"));
    a.jit(["issue", "update", "WI-001", "--title", "Changed"]);
    // Another tree never had it: the next write there has.
    b.jit(["issue", "update", "WI-001", "--priority", "high"]);
    for tree in [&a, &b] {
        assert_eq!(fields(tree)["severity"], severity);
        assert_eq!(fields(tree)["nothing"], "x");
    }
    assert_eq!(fields(&b)["title"], "Changed");
    // An older copy of the tree takes nothing back, and what is taken out stays out.
    set(&b, "nothing", &Value::Null);
    set(&b, "severity", &json!(4));
    b.jit(["issue", "update", "WI-001", "--title", "Again"]);
    a.jit(["issue", "update", "WI-001", "--priority", "low"]);
    for tree in [&a, &b] {
        assert_eq!(fields(tree)["severity"], 4);
        assert_eq!(fields(tree).get("nothing"), None);
    }
    a.jit(["issue", "delete", "WI-001"]);
    a.jit(["issue", "restore", "WI-001"]);
    assert_eq!(fields(&a)["severity"], 4);
    // The replica is made again from the log.
    fs::remove_file(world.repo().join(".git/jit/issues/WI-001/issue.json")).expect("gone");
    a.jit(["validate"]);
    let replica = world.repo().join(".git/jit/issues/WI-001/issue.json");
    let replica: Value = serde_json::from_slice(&fs::read(replica).expect("there")).expect("JSON");
    assert_eq!(replica["severity"], 4);
}

#[test]
fn c7_fields_that_jit_does_not_know_are_merged_one_by_one() {
    for how in ["merge", "rebase", "cherry-pick"] {
        let world = world();
        let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
        set(&a, "one", &json!(1));
        a.jit(["issue", "update", "WI-001", "--title", "From a"]);
        a.commit();
        set(&b, "two", &json!({"deep": [2]}));
        b.jit(["issue", "update", "WI-001", "--priority", "high"]);
        b.commit();
        let (code, said) = b.take(how, &a);
        assert_eq!(code, 0, "{how}: {said}");
        b.jit(["issue", "update", "WI-001", "--add-label", "later"]);
        b.jit(["issue", "update", "WI-001", "--title", "Later"]);
        let c = Tree::clone_of_tree(&world, &b, "c");
        c.jit(["issue", "update", "WI-001", "--state", "in_progress"]);
        for tree in [&b, &c] {
            assert_eq!(fields(tree)["one"], 1, "{how}");
            assert_eq!(fields(tree)["two"], json!({"deep": [2]}), "{how}");
        }
        // What both set to something else is a conflict, as with any field.
        let (d, e) = (
            Tree::clone_of_tree(&world, &b, "d"),
            Tree::clone_of_tree(&world, &b, "e"),
        );
        set(&d, "one", &json!("d"));
        d.commit();
        set(&e, "one", &json!("e"));
        e.commit();
        let (code, said) = e.take(how, &d);
        assert_ne!(code, 0, "{how}: {said}");
        let text = e.read("issue.json");
        assert!(
            text.contains("<<<<<<<") && text.contains("\"one\": \"d\""),
            "{text}"
        );
    }
}

#[test]
fn d7_more_unknown_fields_than_anybody_needs_are_told_and_left_alone() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    let good = a.read("issue.json");
    let put = |more: &str| a.edit("issue.json", |_| good.replacen('{', &format!("{{\n{more},"), 1));
    let many: Vec<String> = (0..1001).map(|n| format!("\"f{n}\": {n}")).collect();
    let long = format!("\"long\": \"{}\"", "x".repeat(640 << 10));
    // In the log it would lie deeper than anybody reads.
    let deep = format!("\"deep\": {}{}", "[".repeat(100), "]".repeat(100));
    for (more, said) in [
        (many.join(",\n"), "1001 fields"),
        (long, "does not know"),
        (deep, "nested too deep"),
        (
            "\"big\": 123456789012345678901234567890".to_owned(),
            "to the digit",
        ),
        ("\"a\\u0007b\": 1".to_owned(), "control"),
        ("\"gate:x\": 1".to_owned(), "gate:x"),
        ("\"text\": 1".to_owned(), "cannot be the name"),
    ] {
        put(&more);
        let before = a.read("issue.json");
        let ran = a.run(["issue", "update", "WI-001", "--priority", "low"]).ok();
        assert!(ran.stderr.contains("issue.json"), "{}", ran.stderr);
        assert_eq!(a.read("issue.json"), before, "left alone");
        let told = a.run(["validate"]).exits(6);
        let told = told.stdout + &told.stderr;
        assert!(
            told.contains(said) && told.contains("issue.json:2"),
            "{said}: {told}"
        );
    }
    a.edit("issue.json", |_| good.clone());
    a.jit(["validate"]);
}

#[test]
fn e1_what_branches_had_together_can_be_read_and_no_tree_adds_more_than_is_kept() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    for (tree, prefix) in [(&a, "a"), (&b, "b")] {
        for n in 0..60 {
            set(tree, &format!("{prefix}{n}"), &json!(n));
        }
        tree.jit(["issue", "update", "WI-001", "--add-label", prefix]);
        tree.commit();
    }
    // 120 in all, by git alone.
    let (code, said) = a.take("merge", &b);
    assert_eq!(code, 0, "{said}");
    let c = Tree::clone_of_tree(&world, &a, "c");
    assert_eq!(c.show("WI-001")["title"], "Parse dates");
    c.jit(["issue", "update", "WI-001", "--priority", "low"]);
    assert_eq!(fields(&c)["a59"], 59);
    assert_eq!(fields(&c)["b59"], 59);
    // By hand that would be too many: what is in the file stays there.
    set(&c, "more", &json!(1));
    let before = c.read("issue.json");
    let ran = c.run(["issue", "update", "WI-001", "--priority", "high"]).ok();
    assert!(ran.stderr.contains("does not know"), "{}", ran.stderr);
    assert_eq!(c.read("issue.json"), before);
}

#[test]
fn e1_numbers_are_kept_to_the_last_digit() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    let numbers = json!([
        7.141294836112025e17,
        0.1,
        1.0e-7,
        94.67338316420857,
        u64::MAX,
        i64::MIN
    ]);
    set(&a, "numbers", &numbers);
    for priority in ["low", "high", "normal"] {
        a.jit(["issue", "update", "WI-001", "--priority", priority]);
        assert_eq!(fields(&a)["numbers"], numbers);
    }
    a.commit();
    let b = Tree::clone_of_tree(&world, &a, "b");
    b.jit(["issue", "update", "WI-001", "--title", "b"]);
    assert_eq!(fields(&b)["numbers"], numbers);
}

#[test]
fn c7_lists_in_fields_that_jit_does_not_know_are_no_sets() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    set(&a, "steps", &json!(["write", "test", "ship"]));
    a.jit(["issue", "update", "WI-001", "--add-label", "steps"]);
    a.commit();
    let b = Tree::clone_of_tree(&world, &a, "b");
    set(&a, "steps", &json!(["write", "test", "bench", "ship"]));
    a.commit();
    set(&b, "steps", &json!(["write", "test", "ship", "test"]));
    b.commit();
    let (code, said) = b.take("merge", &a);
    assert_ne!(code, 0, "{said}");
    assert!(b.read("issue.json").contains("<<<<<<<"));
}

#[test]
fn e1_what_stands_in_other_files_is_told_when_it_is_written_into_this_one() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    set(&a, "labels", &json!(["urgent"]));
    let ran = a.run(["issue", "show", "WI-001", "--json"]).ok();
    assert!(
        ran.stderr.contains("labels") && ran.stderr.contains("--add-label"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.json()["labels"], json!(["old"]));
}

#[test]
fn b15_an_edit_of_what_somebody_else_holds_waits_until_that_has_ended() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    a.jit(["claim", "acquire", "WI-001"]);
    set(&b, "title", &json!("Stolen"));
    written_before(&b, "issue.json");
    let ran = b.run(["issue", "show", "WI-001", "--json"]).ok();
    assert_eq!(ran.json()["title"], "Parse dates");
    assert!(ran.stderr.contains("human:a holds WI-001"), "{}", ran.stderr);
    assert_eq!(fields(&b)["title"], "Stolen", "it is not written over");
    // Whoever holds it may, in their own tree.
    set(&a, "title", &json!("Mine"));
    assert_eq!(a.show("WI-001")["title"], "Mine");
    a.jit(["claim", "release", "WI-001"]);
    // What the holder did came later: it stays, and the tree says so.
    let ran = b.run(["issue", "show", "WI-001", "--json"]).ok();
    assert_eq!(ran.json()["title"], "Mine");
    assert!(ran.stderr.contains("\"Stolen\""), "{}", ran.stderr);
    assert_eq!(fields(&b)["title"], "Mine");
    // An edit that nothing came after counts when it is let go of.
    a.jit(["claim", "acquire", "WI-001"]);
    set(&b, "title", &json!("Waiting"));
    set(&b, "severity", &json!(1));
    assert_eq!(b.show("WI-001")["title"], "Mine");
    a.jit(["claim", "release", "WI-001"]);
    let ran = b.run(["issue", "show", "WI-001", "--json"]).ok();
    assert_eq!(
        (ran.json()["title"].as_str(), &*ran.stderr),
        (Some("Waiting"), "")
    );
}

/// As if the last edit of a file had been made a while ago.
fn written_before(tree: &Tree<'_>, name: &str) {
    let file = fs::OpenOptions::new().write(true).open(tree.file(name));
    let then = SystemTime::now() - Duration::from_secs(1);
    file.expect("open").set_modified(then).expect("a time");
}

#[test]
fn b15_lines_of_sets_and_files_without_stamps_wait_as_any_edit() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    a.jit(["claim", "acquire", "WI-001"]);
    let waits = |name: &str| {
        let ran = b.run(["issue", "show", "WI-001", "--json"]).ok();
        let told = ran.stderr.contains("human:a holds WI-001") && ran.stderr.contains(name);
        assert!(told, "{name}: {}", ran.stderr);
        let issue = ran.json();
        assert_eq!(issue["labels"], json!(["old"]));
        assert_eq!(issue["depends_on"], json!([]));
        assert_eq!(issue["priority"], "normal");
        assert_eq!(issue["title"], "Parse dates");
    };
    let line = |value: &str| format!("{{\"op\":\"add\",\"value\":\"{value}\"}}\n");
    for (name, value) in [("labels.or-set.jsonl", "mine"), ("deps.or-set.jsonl", "WI-002")] {
        let before = b.read(name);
        b.edit(name, |text| text + &line(value));
        waits(name);
        match before.is_empty() {
            true => fs::remove_file(b.file(name)).expect("gone"),
            false => b.edit(name, |_| before.clone()),
        }
    }
    let good = b.read("issue.json");
    set(&b, "stamps", &Value::Null);
    set(&b, "revision", &json!(99));
    set(&b, "priority", &json!("high"));
    waits("issue.json");
    set(&b, "deleted", &json!(true));
    waits("issue.json");
    // One that says the same, comments and descriptions are no edits of what is held.
    b.edit("issue.json", |_| good.clone());
    set(&b, "stamps", &Value::Null);
    b.edit("description.md", |text| text + "more\n");
    let ran = b.run(["issue", "show", "WI-001", "--json"]).ok();
    assert_eq!(ran.stderr, "");
    assert!(ran.json()["description"].to_string().contains("more"));
    // Nor is what git brings.
    b.edit("labels.or-set.jsonl", |text| text + &line("committed"));
    b.commit();
    assert_eq!(b.show("WI-001")["labels"], json!(["committed", "old"]));
}

#[test]
fn b15_descriptions_and_comments_do_not_wait_with_what_was_edited_beside_them() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    a.jit(["claim", "acquire", "WI-001"]);
    let line = |value: &str| format!("{{\"op\":\"add\",\"value\":\"{value}\"}}\n");
    let seen = |part: &str| {
        let ran = b.run(["issue", "show", "WI-001", "--json"]).ok();
        assert!(
            ran.stderr.contains("human:a holds WI-001"),
            "{part}: {}",
            ran.stderr
        );
        let issue = a.show("WI-001");
        let text = issue["description"].as_str().unwrap_or_default();
        assert!(text.contains(part) && text.contains("middle"), "{part}: {text}");
        assert_eq!(issue["labels"], json!(["old"]));
        assert_eq!(issue["depends_on"], json!([]));
        assert_eq!(issue["title"], "Parse dates");
    };
    b.edit("labels.or-set.jsonl", |text| text + &line("mine"));
    b.edit("description.md", |text| text + "beside a label\n");
    seen("beside a label");
    b.edit("deps.or-set.jsonl", |text| text + &line("WI-002"));
    b.edit("description.md", |text| text + "beside a dependency\n");
    seen("beside a dependency");
    set(&b, "title", &json!("Stolen"));
    b.edit("description.md", |text| text + "beside a title\n");
    let comment =
        "{\"id\":\"c-1\",\"at\":\"2026-01-01T00:00:00.000Z\",\"agent_id\":\"human:b\",\"text\":\"and so\"}\n";
    b.edit("comments.jsonl", |text| text + comment);
    seen("beside a title");
    assert_eq!(a.show("WI-001")["comments"][0]["text"], "and so");
    // What the holder writes meanwhile is not taken back by what is in the other tree.
    a.jit(["issue", "update", "WI-001", "--description", "middle, anew\n"]);
    seen("anew");
    let good = b.read("issue.json");
    set(&b, "stamps", &Value::Null);
    set(&b, "revision", &json!(99));
    seen("anew");
    b.edit("issue.json", |_| good.clone());
    // All that waited counts when it is let go of.
    a.jit(["claim", "release", "WI-001"]);
    let issue = b.show("WI-001");
    assert_eq!(issue["labels"], json!(["mine", "old"]));
    assert_eq!(issue["depends_on"], json!(["WI-002"]));
    assert_eq!(issue["title"], "Stolen");
    assert_eq!(issue["description"], "middle, anew\n");
    assert_eq!(a.show("WI-001"), issue);
}

#[test]
fn b15_an_edit_that_waited_takes_nothing_back_that_the_holder_did_later() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    let waits = |name: &str, value: &Value| {
        a.jit(["claim", "acquire", "WI-001"]);
        set(&b, name, value);
        written_before(&b, "issue.json");
        let ran = b.run(["issue", "show", "WI-001"]).ok();
        assert!(ran.stderr.contains("human:a holds WI-001"), "{}", ran.stderr);
    };
    let after = || {
        let ran = b.run(["issue", "show", "WI-001", "--json"]).ok();
        let again = b.run(["issue", "show", "WI-001"]).ok();
        assert_eq!(again.stderr, "", "said once");
        (ran.json(), ran.stderr)
    };
    waits("priority", &json!("high"));
    a.jit(["issue", "update", "WI-001", "--priority", "low"]);
    a.jit(["claim", "release", "WI-001"]);
    let (issue, said) = after();
    assert_eq!(issue["priority"], "low");
    assert!(said.contains("\"low\" counts, not \"high\""), "{said}");
    // The file was written anew, and what it said is not lost.
    let (_, kept) = said
        .split_once("as it was edited here is in ")
        .expect("where it is");
    let kept = kept.lines().next().expect("a path");
    let kept = std::fs::read_to_string(kept).expect("the file as it was");
    assert!(kept.contains("\"high\""), "{kept}");
    assert_eq!(fields(&b)["priority"], "low");
    // A deletion by hand is about the issue as it was.
    waits("deleted", &json!(true));
    a.jit(["issue", "update", "WI-001", "--title", "Needed"]);
    a.jit(["claim", "release", "WI-001"]);
    let (issue, said) = after();
    assert_eq!(issue["title"], "Needed");
    assert!(said.contains("after it was deleted here by hand"), "{said}");
    // Without stamps nothing tells what it knew of, but when it was written.
    a.jit(["claim", "acquire", "WI-001"]);
    set(&b, "stamps", &Value::Null);
    set(&b, "revision", &json!(99));
    set(&b, "title", &json!("Stolen"));
    written_before(&b, "issue.json");
    assert_eq!(b.show("WI-001")["title"], "Needed");
    a.jit(["issue", "update", "WI-001", "--title", "Mine"]);
    a.jit(["claim", "release", "WI-001"]);
    let (issue, said) = after();
    assert_eq!(issue["title"], "Mine");
    assert!(said.contains("\"Mine\" counts, not \"Stolen\""), "{said}");
    // And a deletion stays one.
    waits("priority", &json!("critical"));
    a.jit(["issue", "delete", "WI-001"]);
    let said = b.run(["issue", "list"]).ok().stderr;
    assert!(said.contains("jit issue restore WI-001"), "{said}");
    assert_eq!(b.run(["issue", "list"]).ok().stderr, "", "said once");
    for tree in [&a, &b] {
        let _ = tree.run(["issue", "show", "WI-001"]).exits(3);
    }
}

#[test]
fn e7_an_edit_that_did_not_count_is_told_again_when_it_is_saved_again() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    let said = || b.run(["issue", "list"]).ok().stderr;
    set(&b, "title", &json!("Stolen"));
    written_before(&b, "issue.json");
    let edited = b.read("issue.json");
    a.jit(["issue", "update", "WI-001", "--title", "Mine"]);
    assert!(said().contains("\"Mine\" counts, not \"Stolen\""));
    assert_eq!(fields(&b)["title"], "Mine");
    for _ in 0..2 {
        // The editor still has it.
        b.edit("issue.json", |_| edited.clone());
        let told = said();
        assert!(
            told.contains("not taken again: \"Mine\" counts, not \"Stolen\""),
            "{told}"
        );
        assert_eq!(said(), "", "told once each time");
        assert_eq!(fields(&b)["title"], "Mine");
        assert_eq!(b.show("WI-001")["title"], "Mine");
    }
    // What counted, and was changed elsewhere since, is an old copy and no edit.
    set(&b, "title", &json!("Yours"));
    written_before(&b, "issue.json");
    assert_eq!(b.show("WI-001")["title"], "Yours");
    a.jit(["issue", "update", "WI-001", "--title", "Mine again"]);
    assert_eq!(said(), "");
    let ran = b.run(["issue", "show", "WI-001", "--json"]).ok();
    assert_eq!(
        (ran.json()["title"].as_str(), &*ran.stderr),
        (Some("Mine again"), "")
    );
    // Nor does git make one of it.
    b.commit();
    b.world.git(&b.path, ["checkout", "-q", "HEAD~1"]);
    b.world.git(&b.path, ["checkout", "-q", "b"]);
    assert_eq!(b.run(["issue", "show", "WI-001"]).ok().stderr, "");
}

#[test]
fn c7_an_edit_that_lost_to_a_deletion_is_lost_in_every_clone() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    let d = Tree::clone_of(&world, "d");
    set(&b, "title", &json!("Stolen"));
    b.edit("description.md", |text| text + "and a word\n");
    for name in ["issue.json", "description.md"] {
        written_before(&b, name);
    }
    let edited = b.read("issue.json");
    a.jit(["issue", "delete", "WI-001"]);
    let said = b.run(["issue", "list"]).ok().stderr;
    assert!(said.contains("jit issue restore WI-001"), "{said}");
    a.commit();
    b.commit();
    for other in [&a, &b] {
        let (code, said) = d.take("merge", other);
        assert_eq!(code, 0, "{said}");
    }
    let e = Tree::clone_of_tree(&world, &b, "e");
    for tree in [&a, &b, &d, &e] {
        let ran = tree.run(["issue", "show", "WI-001"]);
        assert_eq!(ran.code, 3, "{}: {}", tree.name, ran.stdout);
    }
    // An editor that still has it does not bring it back.
    b.edit("issue.json", |_| edited.clone());
    let said = b.run(["issue", "list"]).ok().stderr;
    assert!(said.contains("does not bring it back"), "{said}");
    assert_eq!(b.run(["issue", "list"]).ok().stderr, "");
    // What was edited is not lost.
    b.jit(["issue", "restore", "WI-001"]);
    let issue = b.show("WI-001");
    assert_eq!(issue["title"], "Stolen");
    assert!(issue["description"].to_string().contains("and a word"));
}

#[test]
fn d7_an_issue_that_is_too_much_for_the_log_is_left_alone() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    let good = a.read("labels.or-set.jsonl");
    // Each letter is six in the log.
    let tag = "\\u0001".repeat(490);
    let lines = |many: usize, tag: &str| -> String {
        let line = |n| format!("{{\"op\":\"add\",\"value\":\"x\",\"tag\":\"{tag}{n}\"}}\n");
        good.clone() + &(1..many).map(line).collect::<String>()
    };
    let refuse = |what: &str| {
        let ran = a.run(["issue", "show", "WI-001"]).ok();
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
        let log = a.path.join(".git/jit/events/control.jsonl");
        let long = fs::read(log).expect("a log").len();
        assert!(long < 8 << 20, "{long}");
    };
    a.edit("labels.or-set.jsonl", |_| lines(5000, &tag));
    refuse("at most 4194304 are kept");
    // As many as there may be; and as many others.
    a.edit("labels.or-set.jsonl", |_| lines(10_000, "a"));
    assert_eq!(a.run(["issue", "show", "WI-001"]).ok().stderr, "");
    a.edit("labels.or-set.jsonl", |_| lines(10_000, "b"));
    refuse("at most 10000 are kept");
    a.edit("labels.or-set.jsonl", |_| lines(10_000, "a"));
    let ran = a.run(["issue", "update", "WI-001", "--add-label", "y"]).exits(2);
    assert!(ran.stderr.contains("10000 times"), "{}", ran.stderr);
    a.jit(["validate"]);
}

#[test]
fn e1_unknown_fields_that_are_replaced_do_not_count_twice() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    let good = a.read("issue.json");
    let with = |prefix: &str| {
        let all: Vec<String> = (0..99).map(|n| format!("\"{prefix}{n}\": {n}")).collect();
        good.replacen('{', &format!("{{\n{},", all.join(",\n")), 1)
    };
    a.edit("issue.json", |_| with("a"));
    a.jit(["issue", "update", "WI-001", "--priority", "low"]);
    a.edit("issue.json", |text| {
        let (fields, stamps) = text.split_once("\"stamps\"").expect("stamps");
        let others = (0..99).fold(fields.to_owned(), |fields, n| {
            fields.replace(&format!("\"a{n}\":"), &format!("\"b{n}\":"))
        });
        format!("{others}\"stamps\"{stamps}")
    });
    let ran = a.run(["issue", "update", "WI-001", "--priority", "high"]).ok();
    assert_eq!(ran.stderr, "");
    assert_eq!((&fields(&a)["b98"], fields(&a).get("a98")), (&json!(98), None));
}

#[test]
fn e1_what_jit_counts_it_can_read_again() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    set(&a, "revision", &json!(1_u64 << 53));
    for priority in ["low", "high"] {
        let ran = a.run(["issue", "update", "WI-001", "--priority", priority]).ok();
        assert_eq!(ran.stderr, "");
    }
    a.edit("issue.json", |text| text.replace("Parse dates", "By hand"));
    let ran = a.run(["issue", "show", "WI-001", "--json"]).ok();
    assert_eq!(
        (ran.json()["title"].as_str(), &*ran.stderr),
        (Some("By hand"), "")
    );
    a.jit(["issue", "delete", "WI-001"]);
    a.jit(["issue", "restore", "WI-001"]);
    assert_eq!(fields(&a)["revision"], json!(1_u64 << 53));
    a.jit(["validate"]);
}
