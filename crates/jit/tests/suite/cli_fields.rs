//! Fields of `issue.json` that this program does not know (C7, E1): nobody loses them.

use std::fs;

use crate::merging::{Tree, world};
use serde_json::{Value, json};

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
    let many: Vec<String> = (0..101).map(|n| format!("\"f{n}\": {n}")).collect();
    let long = format!("\"long\": \"{}\"", "x".repeat(64 << 10));
    for (more, said) in [
        (many.join(",\n"), "101 fields"),
        (long, "does not know"),
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
