//! Merging of issues by git (C7), what worktrees and clones see of each other (E7), and files that are not sound (D).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use jit_testkit::world::World;
use serde_json::{Value, json};

use crate::merging::{Tree, world};

#[test]
fn c7_different_changes_merge_without_a_conflict_and_lose_nothing() {
    for how in ["merge", "rebase", "cherry-pick"] {
        let world = world();
        let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
        a.jit([
            "issue",
            "update",
            "WI-001",
            "--title",
            "Parse all dates",
            "--add-label",
            "one",
        ]);
        a.jit(["dep", "add", "WI-001", "WI-002"]);
        a.jit(["issue", "comment", "WI-001", "from a"]);
        a.edit("description.md", |text| text.replace("first\n", "FIRST\n"));
        a.commit();
        b.jit([
            "issue",
            "update",
            "WI-001",
            "--priority",
            "high",
            "--add-label",
            "two",
        ]);
        b.jit(["issue", "update", "WI-001", "--remove-label", "old"]);
        b.jit(["dep", "add", "WI-001", "WI-003"]);
        b.jit(["issue", "comment", "WI-001", "from b"]);
        b.edit("description.md", |text| text.replace("last\n", "LAST\n"));
        b.commit();
        let (code, said) = b.take(how, &a);
        assert_eq!(code, 0, "{how}: {said}");
        let c = Tree::clone_of_tree(&world, &b, "c");
        for tree in [&b, &c] {
            let issue = tree.show("WI-001");
            assert_eq!(issue["title"], "Parse all dates", "{how}");
            assert_eq!(issue["priority"], "high");
            assert_eq!(issue["labels"], json!(["one", "two"]));
            assert_eq!(issue["depends_on"], json!(["WI-002", "WI-003"]));
            let text = issue["description"].as_str().unwrap_or_default();
            assert_eq!(text, "FIRST\n\nmiddle\n\nmore\n\nlast\n".replace("last", "LAST"));
            let comments = issue["comments"].as_array().expect("comments");
            let texts: Vec<_> = comments.iter().filter_map(|c| c["text"].as_str()).collect();
            assert_eq!(texts, ["from a", "from b"]);
            assert_eq!(tree.status(), "", "looking changes nothing");
        }
    }
}

#[test]
fn c7_a_true_conflict_is_shown_and_the_choice_counts_everywhere() {
    for how in ["merge", "rebase", "cherry-pick"] {
        for chosen in ["A title", "Z title", "another"] {
            // Worktrees share what they know, clones do not: it must not matter.
            for shared in [true, false] {
                let world = world();
                let make = |name| match shared {
                    true => Tree::worktree_of(&world, name),
                    false => Tree::clone_of(&world, name),
                };
                let (a, b) = (make("a"), make("b"));
                b.jit(["issue", "update", "WI-001", "--title", "Z title"]);
                b.commit();
                a.jit(["issue", "update", "WI-001", "--title", "A title"]);
                a.commit();
                let (code, said) = b.take(how, &a);
                assert_ne!(code, 0, "{how}: {said}");
                assert!(said.contains("CONFLICT"), "{said}");
                let text = b.read("issue.json");
                let marks = |mark: &str| text.lines().filter(|line| line.starts_with(mark)).count();
                assert_eq!((marks("<<<<<<< "), marks(">>>>>>> ")), (1, 1), "{text}");
                let between: Vec<_> = text
                    .lines()
                    .skip_while(|l| !l.starts_with("<<<<<<<"))
                    .take(5)
                    .collect();
                assert!(
                    between[1].contains("\"title\"") && between[3].contains("\"title\""),
                    "{text}"
                );
                // Until it is decided, everything else works, and it is said.
                let list = b.run(["issue", "list"]);
                assert_eq!(list.code, 0, "{}", list.stderr);
                assert!(list.stderr.contains("unresolved conflict"), "{}", list.stderr);
                assert!(
                    b.run(["issue", "list"]).stderr.contains("unresolved conflict"),
                    "said again"
                );
                let problems = b.run(["validate", "--json"]).exits(6).json()["problems"].clone();
                let line = text
                    .lines()
                    .position(|l| l.starts_with("<<<<<<<"))
                    .expect("a line")
                    + 1;
                assert_eq!(problems[0]["line"], line, "{problems}");
                b.resolve(chosen);
                b.go_on(how);
                assert_eq!(b.show("WI-001")["title"], chosen, "{how}, shared: {shared}");
                let listed = b.run(["issue", "list", "--json"]).ok().json();
                assert_eq!(listed["issues"][0]["title"], chosen);
                let c = Tree::clone_of_tree(&world, &b, "c");
                assert_eq!(c.show("WI-001")["title"], chosen);
                if how == "cherry-pick" {
                    // Two histories with the same commit: git asks again when they meet.
                    continue;
                }
                // And in the other one, once it has it.
                let (code, said) = a.take("merge", &b);
                assert_eq!(code, 0, "{said}");
                assert_eq!(a.show("WI-001")["title"], chosen, "{how}, shared: {shared}");
                assert_eq!(b.status() + &a.status() + &c.status(), "");
            }
        }
    }
}

#[test]
fn e7_what_one_worktree_does_the_others_see_at_once() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    a.jit([
        "issue",
        "create",
        "new here",
        "--id",
        "WI-009",
        "--description",
        "long",
    ]);
    assert_eq!(b.show("WI-009")["description"], "long\n");
    a.jit(["issue", "update", "WI-009", "--title", "newer"]);
    assert_eq!(b.show("WI-009")["title"], "newer");
    b.jit(["claim", "acquire", "WI-009"]);
    world.git(
        &world.repo(),
        ["worktree", "remove", "--force", &a.path.to_string_lossy()],
    );
    let kept = b.show("WI-009");
    assert_eq!(
        (&kept["title"], &kept["description"]),
        (&json!("newer"), &json!("long\n"))
    );
    assert_eq!(b.status(), "");
}

#[test]
fn e7_edits_by_hand_are_seen_at_the_next_command() {
    let world = world();
    let a = Tree::worktree_of(&world, "a");
    a.edit("issue.json", |text| text.replace("Parse dates", "By hand"));
    let listed = a.run(["issue", "list", "--json"]).ok().json();
    assert_eq!(listed["issues"][0]["title"], "By hand");
    assert_eq!(
        world.jit(["issue", "show", "WI-001", "--json"]).ok().json()["title"],
        "By hand"
    );
    a.edit("labels.or-set.jsonl", |text| {
        text + "{\"op\":\"add\",\"value\":\"mine\"}"
    });
    assert_eq!(a.show("WI-001")["labels"], json!(["mine", "old"]));
    a.edit("description.md", |text| text + "without an end");
    let text = a.show("WI-001")["description"].clone();
    assert!(
        text.as_str()
            .is_some_and(|text| text.ends_with("last\nwithout an end")),
        "{text}"
    );
    // The edit first, then the update: both are there.
    a.edit("issue.json", |text| text.replace("By hand", "By hand again"));
    a.jit(["issue", "update", "WI-001", "--priority", "low"]);
    let issue = a.show("WI-001");
    assert_eq!(
        (&issue["title"], &issue["priority"]),
        (&json!("By hand again"), &json!("low"))
    );
    assert!(a.read("issue.json").contains("By hand again"));
    // Committed before anybody looked.
    a.edit("issue.json", |text| text.replace("By hand again", "Committed"));
    a.commit();
    assert_eq!(a.show("WI-001")["title"], "Committed");
    assert_eq!(a.status(), "");
    // Two worktrees, one field: the one that is noticed later.
    let b = Tree::worktree_of(&world, "b");
    a.edit("issue.json", |text| text.replace("Committed", "of a"));
    b.edit("issue.json", |text| text.replace("Parse dates", "of b"));
    assert_eq!(a.show("WI-001")["title"], "of a");
    assert_eq!(b.show("WI-001")["title"], "of b");
    assert_eq!(a.show("WI-001")["title"], "of b", "an edit counts once");
    // Two worktrees, one description: both edits.
    a.edit("description.md", |text| text.replace("first", "First"));
    b.edit("description.md", |text| text.replace("middle", "Middle"));
    let _ = a.show("WI-001");
    let text = b.show("WI-001")["description"].clone();
    assert_eq!(text, "First\n\nMiddle\n\nmore\n\nlast\nwithout an end");
    // Brought in, it may be written over.
    b.jit(["issue", "comment", "WI-001", "after that"]);
    assert!(b.read("comments.jsonl").contains("after that"));
    assert_eq!(
        b.read("description.md"),
        "First\n\nMiddle\n\nmore\n\nlast\nwithout an end"
    );
}

/// Adds to a file in place: neither its folder nor `issue.json` shows it.
fn append(tree: &Tree<'_>, name: &str, text: &str) {
    use std::io::Write as _;
    let file = fs::OpenOptions::new().append(true).open(tree.file(name));
    file.expect("open").write_all(text.as_bytes()).expect("write");
}

#[test]
fn e7_a_description_that_was_edited_in_place_is_read_where_descriptions_are() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    for tree in [&a, &b] {
        tree.jit(["issue", "list"]);
    }
    append(&a, "description.md", "added in an editor\n");
    let found = a.run(["issue", "search", "editor", "--json"]).ok().json();
    assert_eq!(found["issues"][0]["id"], "WI-001", "{found}");
    append(&a, "description.md", "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n");
    let problems = a.run(["validate", "--json"]).exits(6).json();
    assert!(problems.to_string().contains("description.md"), "{problems}");
    append(&b, "description.md", "exported too\n");
    assert!(b.run(["issue", "export"]).ok().stdout.contains("exported too"));
}

#[test]
fn e7_an_edit_in_place_is_seen_by_every_list_once_it_is_committed() {
    let world = world();
    for first in [&["issue", "list"][..], &["issue", "show", "WI-001"]] {
        let name = format!("clone-{}", first.len());
        let a = Tree::clone_of(&world, &name);
        a.jit(["issue", "list"]);
        append(&a, "description.md", "added in an editor\n");
        append(
            &a,
            "labels.or-set.jsonl",
            "{\"op\":\"add\",\"value\":\"by-hand\"}\n",
        );
        a.commit();
        a.jit(first);
        let replica = a.path.join(".git/jit/issues/WI-001");
        let text = fs::read_to_string(replica.join("description.md")).expect("read");
        assert!(text.contains("added in an editor"), "{first:?}: {text}");
        let listed = a.run(["issue", "list", "--json"]).ok().json();
        assert!(
            listed["issues"][0]["labels"].to_string().contains("by-hand"),
            "{listed}"
        );
    }
    // And the first time it is asked for by name, whatever git did meanwhile.
    let a = Tree::clone_of(&world, "named");
    fs::write(a.path.join("other"), "x").expect("write");
    a.commit();
    append(&a, "description.md", "once\n");
    let text = a.show("WI-001")["description"].to_string();
    assert!(text.contains("once"), "{text}");
}

#[test]
fn c7_an_edit_that_is_later_than_a_deletion_is_not_lost() {
    let world = world();
    let (a, b, c) = (
        Tree::clone_of(&world, "a"),
        Tree::clone_of(&world, "b"),
        Tree::clone_of(&world, "c"),
    );
    for id in ["WI-001", "WI-002"] {
        a.jit(["issue", "delete", id]);
    }
    a.commit();
    b.jit(["issue", "update", "WI-001", "--title", "still needed"]);
    b.jit(["issue", "comment", "WI-003", "of no matter"]);
    b.commit();
    let (code, said) = b.take("merge", &a);
    assert_eq!(code, 0, "{said}");
    let ids = |tree: &Tree<'_>| -> Vec<String> {
        let listed = tree.run(["issue", "list", "--json"]).ok().json();
        let all = listed["issues"].as_array().expect("a list").clone();
        all.iter()
            .filter_map(|issue| issue["id"].as_str().map(ToOwned::to_owned))
            .collect()
    };
    // Whoever edited it has it, with everything that went from the tree with the deletion.
    assert_eq!(ids(&b), ["WI-001", "WI-003"]);
    b.commit();
    let d = Tree::clone_of_tree(&world, &b, "d");
    let (code, said) = a.take("merge", &b);
    assert_eq!(code, 0, "{said}");
    // One that has neither, and takes them in another order.
    for other in [&a, &b] {
        let (code, said) = c.take("merge", other);
        assert_eq!(code, 0, "{said}");
    }
    for tree in [&a, &b, &c, &d] {
        assert_eq!(ids(tree), ["WI-001", "WI-003"], "{}", tree.name);
        let issue = tree.show("WI-001");
        assert_eq!(issue["title"], "still needed");
        assert_eq!(issue["labels"], json!(["old"]), "{}", tree.name);
        let text = issue["description"].as_str().unwrap_or_default();
        assert!(text.starts_with("first"), "{}: {text}", tree.name);
        assert_eq!(tree.status(), "", "{}", tree.name);
    }
    assert_eq!(a.run(["validate"]).code, 0);
}

#[test]
fn e7_old_commits_take_nothing_back() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    a.edit("issue.json", |text| {
        text.replace("Parse dates", "edited long ago")
    });
    a.commit_at("2001-01-01T00:00:00Z");
    a.jit([
        "issue",
        "update",
        "WI-001",
        "--title",
        "newest",
        "--description",
        "newest",
    ]);
    a.jit(["issue", "delete", "WI-002"]);
    a.jit(["issue", "comment", "WI-001", "said"]);
    a.commit();
    let fresh = Tree::clone_of_tree(&world, &a, "fresh");
    let _ = fresh.show("WI-001");
    for tree in [&a, &fresh] {
        for back in ["HEAD~1", "HEAD~2", "@{-1}", "HEAD"] {
            world.git(&tree.path, ["checkout", "-q", back]);
            let issue = tree.show("WI-001");
            assert_eq!(
                (&issue["title"], &issue["description"]),
                (&json!("newest"), &json!("newest\n")),
                "{back}"
            );
            let listed = tree.run(["issue", "list", "--json"]).ok().json();
            assert!(!listed.to_string().contains("WI-002"), "deleted: {listed}");
            let _ = tree.run(["issue", "show", "WI-002"]).exits(3);
            assert_eq!(tree.status(), "", "{back}");
        }
    }
}

#[test]
fn e7_a_revert_counts_is_told_and_every_clone_says_the_same() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    let words = ["--title", "Wrong", "--priority", "high", "--description", "wrong"];
    a.jit(["issue", "update", "WI-001"].iter().chain(&words));
    a.commit();
    let b = Tree::clone_of_tree(&world, &a, "b");
    assert_eq!(b.show("WI-001")["title"], "Wrong");
    let (code, said) = a.git(["revert", "--no-edit", "HEAD"]);
    assert_eq!(code, 0, "{said}");
    let ran = a.run(["issue", "list", "--json"]).ok();
    assert!(ran.stderr.contains("priority, title of WI-001"), "{}", ran.stderr);
    let (code, said) = b.git(["pull", "-q"]);
    assert_eq!(code, 0, "{said}");
    let fresh = Tree::clone_of_tree(&world, &a, "fresh");
    for tree in [&a, &b, &fresh] {
        let shown = tree.show("WI-001");
        assert_eq!(
            [&shown["title"], &shown["priority"], &shown["description"]],
            ["Parse dates", "normal", "first\n\nmiddle\n\nmore\n\nlast\n"],
            "{}",
            tree.name
        );
        assert_eq!(tree.status(), "");
    }
    // An older commit that is checked out is no revert, nor is one in which it has not been reverted yet.
    for (commit, tree) in [("HEAD~1", &a), ("HEAD~2", &b)] {
        let (code, said) = tree.git(["checkout", "-q", commit]);
        assert_eq!(code, 0, "{said}");
        let ran = tree.run(["issue", "list"]).ok();
        assert!(!ran.stderr.contains("took"), "{}", ran.stderr);
        assert_eq!(tree.show("WI-001")["title"], "Parse dates");
        assert!(tree.show("WI-001")["description"].to_string().contains("middle"));
    }
    // What was deleted comes back in the same way.
    a.git(["checkout", "-q", "-"]);
    a.jit(["issue", "delete", "WI-001"]);
    a.commit();
    let (code, said) = a.git(["revert", "--no-edit", "HEAD"]);
    assert_eq!(code, 0, "{said}");
    let shown = a.show("WI-001");
    assert_eq!(
        (&shown["title"], &shown["labels"]),
        (&json!("Parse dates"), &json!(["old"]))
    );
}

#[test]
fn e7_a_pull_is_joined_and_git_stays_clean() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    for n in 0..3 {
        let title = format!("title {n}");
        a.jit([
            "issue",
            "update",
            "WI-001",
            "--title",
            &title,
            "--add-label",
            &format!("l{n}"),
        ]);
        a.jit(["issue", "create", "more", "--id", &format!("WI-10{n}")]);
        a.commit();
        let (code, said) = b.take("merge", &a);
        assert_eq!(code, 0, "{said}");
        // Seen by name and in lists, and what came with it can be taken.
        let listed = b.run(["issue", "list", "--json"]).ok().json();
        assert!(listed.to_string().contains(&title), "{listed}");
        b.jit(["claim", "acquire", &format!("WI-10{n}")]);
        b.jit(["claim", "release", &format!("WI-10{n}")]);
        assert_eq!(b.show("WI-001")["title"], title);
        assert_eq!(b.status(), "");
    }
}

#[test]
fn e7_other_line_endings_missing_folders_and_links_are_no_edits() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    // As git leaves files for another system.
    for file in ["issue.json", "labels.or-set.jsonl", "description.md"] {
        a.edit(file, |text| text.replace('\n', "\r\n"));
    }
    let issue = a.show("WI-001");
    assert_eq!(issue["title"], "Parse dates");
    assert_eq!(issue["description"], "first\n\nmiddle\n\nmore\n\nlast\n");
    assert_eq!(issue["labels"], json!(["old"]));
    let events = || world.jit_in(&a.path, ["events", "--json"]).ok().json()["events"].clone();
    let before = events();
    let _ = a.show("WI-001");
    let _ = a.run(["issue", "list"]).ok();
    assert_eq!(events(), before, "looked at once");
    let _ = a.run(["validate"]).ok();
    // A folder that is not there says nothing.
    fs::remove_dir_all(a.path.join(".jit/issues/WI-002")).expect("remove");
    assert_eq!(a.show("WI-002")["title"], "two");
    // One under another name is no other issue.
    fs::rename(
        a.path.join(".jit/issues/WI-003"),
        a.path.join(".jit/issues/WI-030"),
    )
    .expect("rename");
    assert_eq!(a.show("WI-003")["title"], "three");
    let _ = a.run(["issue", "show", "WI-030"]).exits(3);
    let problems = a.run(["validate", "--json"]).exits(6).json()["problems"].to_string();
    assert!(problems.contains("it says it is WI-003"), "{problems}");
    // A link in the place of the folder is neither followed nor written through.
    let outside = world.root().join("outside");
    fs::rename(a.path.join(".jit/issues"), &outside).expect("rename");
    symlink(&outside, a.path.join(".jit/issues")).expect("link");
    let before = fs::read(outside.join("WI-001/issue.json")).expect("read");
    let ran = a
        .run(["issue", "update", "WI-001", "--title", "kept all the same"])
        .ok();
    assert!(ran.stderr.contains("could not be written"), "{}", ran.stderr);
    assert_eq!(fs::read(outside.join("WI-001/issue.json")).expect("read"), before);
    assert_eq!(a.show("WI-001")["title"], "kept all the same");
    let problems = a.run(["validate", "--json"]).exits(6).json()["problems"].to_string();
    assert!(problems.contains("not a folder"), "{problems}");
}

#[test]
fn e7_a_crash_between_log_and_tree_is_no_edit() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    let old: Vec<_> = ["issue.json", "labels.or-set.jsonl"]
        .map(|name| (name, a.read(name)))
        .into();
    a.jit([
        "issue",
        "update",
        "WI-001",
        "--title",
        "second",
        "--description",
        "second text",
        "--add-label",
        "x",
    ]);
    // As if killed after the description and before the rest.
    for (name, text) in old {
        a.edit(name, |_| text.clone());
    }
    assert_eq!(a.show("WI-001")["title"], "second");
    b.jit([
        "issue",
        "update",
        "WI-001",
        "--title",
        "third",
        "--description",
        "third text",
    ]);
    for _ in 0..2 {
        let issue = a.show("WI-001");
        assert_eq!(
            (&issue["title"], &issue["description"]),
            (&json!("third"), &json!("third text\n"))
        );
        assert_eq!(issue["labels"], json!(["old", "x"]));
    }
    // The next change brings the tree up to date.
    a.jit(["issue", "update", "WI-001", "--priority", "low"]);
    assert!(a.read("issue.json").contains("third"));
    assert_eq!(a.read("description.md"), "third text\n");
}

#[test]
fn e7_a_file_without_stamps_is_read_and_edited() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    let folder = a.path.join(".jit/issues/WI-050");
    fs::create_dir(&folder).expect("folder");
    let write = |title: &str| {
        let text = json!({"id": "WI-050", "title": title, "created_at": "2026-01-01T00:00:00Z"});
        fs::write(folder.join("issue.json"), text.to_string()).expect("write");
    };
    for title in ["one", "two", "three"] {
        write(title);
        assert_eq!(a.show("WI-050")["title"], title);
    }
    a.jit(["issue", "update", "WI-050", "--title", "four"]);
    assert_eq!(a.show("WI-050")["title"], "four");
    assert!(
        fs::read_to_string(folder.join("issue.json"))
            .expect("read")
            .contains("stamps")
    );
}

#[test]
fn d7_unsound_files_are_told_with_file_and_line_and_are_in_nobodys_way() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    let issues = a.path.join(".jit/issues");
    let good = a.read("issue.json");
    let put = |id: &str, file: &str, content: &[u8]| {
        fs::create_dir_all(issues.join(id)).expect("folder");
        if file != "issue.json" {
            fs::write(issues.join(id).join("issue.json"), good.replace("WI-001", id)).expect("write");
        }
        fs::write(issues.join(id).join(file), content).expect("write");
    };
    put("BAD-01", "issue.json", b"{\n\"id\": \"BAD-01\",\n \xff");
    put("BAD-02", "issue.json", &good.as_bytes()[..good.len() / 2]);
    put("BAD-03", "issue.json", "[".repeat(100_000).as_bytes());
    put("BAD-04", "issue.json", good.replace("WI-001", "../x").as_bytes());
    put(
        "BAD-05",
        "issue.json",
        good.replacen('{', "{\"title\": \"twice\",", 1)
            .replace("WI-001", "BAD-05")
            .as_bytes(),
    );
    put(
        "BAD-06",
        "labels.or-set.jsonl",
        b"{\"op\":\"add\",\"value\":\"fine\"}\n\xff\xfe\n",
    );
    put("BAD-07", "comments.jsonl", b"{}\n");
    put("BAD-08", "description.md", b"one\ntwo \xff\n");
    put(
        "BAD-09",
        "description.md",
        b"a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> x\n",
    );
    put("BAD-10", "description.md", b"");
    fs::File::create(issues.join("BAD-10/description.md"))
        .and_then(|file| file.set_len(100 << 20))
        .expect("a large file");
    put("BAD-11", "issue.json", b"");
    fs::remove_file(issues.join("BAD-11/issue.json")).expect("remove");
    let fifo = world.run({
        let mut command = world.command("mkfifo", &a.path);
        command.arg(issues.join("BAD-11/issue.json"));
        command
    });
    let _ = fifo.ok();
    put("BAD-12", "description.md", b"");
    fs::remove_file(issues.join("BAD-12/description.md")).expect("remove");
    symlink("/etc/passwd", issues.join("BAD-12/description.md")).expect("link");
    put("BAD-13", "issue.json", b"");
    fs::remove_file(issues.join("BAD-13/issue.json")).expect("remove");
    symlink("/dev/zero", issues.join("BAD-13/issue.json")).expect("link");
    // Of two values of one name a reader would see only one.
    put(
        "BAD-14",
        "issue.json",
        good.replacen('{', "{\"severity\": {\"a\": 1,\n\"a\": 2},", 1)
            .replace("WI-001", "BAD-14")
            .as_bytes(),
    );
    put(
        "case-1",
        "issue.json",
        good.replace("WI-001", "case-1").as_bytes(),
    );
    put(
        "CASE-1",
        "issue.json",
        good.replace("WI-001", "CASE-1").as_bytes(),
    );
    put(
        "CIRC-1",
        "deps.or-set.jsonl",
        b"{\"op\":\"add\",\"value\":\"CIRC-2\"}\n",
    );
    put(
        "CIRC-2",
        "deps.or-set.jsonl",
        b"{\"op\":\"add\",\"value\":\"CIRC-1\"}\n{\"op\":\"add\",\"value\":\"NOBODY-1\"}\n",
    );
    put(
        "PART-1",
        "issue.json",
        good.replace("WI-001", "PART-1")
            .replace("\"parent\": null", "\"parent\": \"PART-2\"")
            .as_bytes(),
    );
    put(
        "PART-2",
        "issue.json",
        good.replace("WI-001", "PART-2")
            .replace("\"parent\": null", "\"parent\": \"PART-1\"")
            .as_bytes(),
    );
    put(
        "PART-3",
        "issue.json",
        good.replace("WI-001", "PART-3")
            .replace("\"parent\": null", "\"parent\": \"GONE-1\"")
            .as_bytes(),
    );
    fs::write(issues.join("a file"), "x").expect("write");
    fs::create_dir(issues.join(".. x")).expect("folder");
    // Everything else keeps working.
    for words in [
        &["issue", "list"][..],
        &["ready"],
        &["blocked"],
        &["progress"],
        &["issue", "show", "WI-001"],
        &["issue", "search", "dates"],
        &["issue", "show", "PART-1"],
        &["issue", "show", "CIRC-1"],
        &["claim", "next"],
        &["claim", "acquire", "WI-003"],
        &["issue", "update", "CIRC-1", "--priority", "low"],
    ] {
        let ran = a.run(words);
        assert_eq!(ran.code, 0, "{words:?}: {} {}", ran.stdout, ran.stderr);
    }
    let report = a.run(["validate", "--json"]).exits(6).json();
    let problems = report["problems"].as_array().expect("a list");
    let told = |part: &str, line: Option<u64>| {
        let found = problems.iter().any(|p| {
            let file = p["file"].as_str().unwrap_or_default();
            (file.contains(part) || p["message"].as_str().is_some_and(|m| m.contains(part)))
                && line.is_none_or(|line| p["line"] == line)
        });
        assert!(found, "{part} {line:?}: {report:#}");
    };
    told("BAD-01/issue.json", Some(3));
    told("BAD-02/issue.json", None);
    told("BAD-03/issue.json", Some(1));
    told("BAD-04/issue.json", None);
    told("BAD-05/issue.json", None);
    told("BAD-06/labels.or-set.jsonl", Some(2));
    told("BAD-07/comments.jsonl", Some(1));
    told("BAD-08/description.md", Some(2));
    told("BAD-09/description.md", Some(2));
    told("BAD-10/description.md", None);
    told("BAD-11/issue.json", None);
    told("BAD-12/description.md", None);
    told("BAD-13/issue.json", None);
    told("BAD-14/issue.json", Some(2));
    told("only in case", None);
    told("CIRC-1/deps.or-set.jsonl", Some(1));
    told("CIRC-2 waits for NOBODY-1", Some(2));
    told("PART-3 is part of GONE-1", None);
    told("a file", None);
    told(".. x", None);
    assert!(
        a.run(["validate"])
            .exits(6)
            .stdout
            .contains("BAD-01/issue.json:3: ")
    );
    // What could not be read is not written over.
    let ran = a.run(["issue", "update", "BAD-06", "--priority", "low"]).ok();
    assert!(ran.stderr.contains("could not be written"), "{}", ran.stderr);
    assert!(
        fs::read(issues.join("BAD-06/labels.or-set.jsonl"))
            .expect("read")
            .contains(&0xff)
    );
    let _ = a.run(["doctor"]);
}

#[test]
fn d7_every_problem_of_an_issue_is_told_with_its_line() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    let problems = || {
        let report = a.run(["validate", "--json"]).exits(6).json();
        let all = report["problems"].as_array().expect("a list").clone();
        let place = |p: &Value| {
            let file = p["file"].as_str().unwrap_or_default();
            let name = file.rsplit('/').next().unwrap_or_default();
            format!("{name}:{}", p["line"])
        };
        all.iter().map(place).collect::<Vec<_>>()
    };
    // An edit that hits the stamp too.
    let good = a.read("issue.json");
    let edited = |line: &str| match line.trim_start().starts_with("\"title\"") {
        true => "\"title\": \"by editor\",".to_owned(),
        false => line.to_owned(),
    };
    a.edit("issue.json", |text| {
        let lines: Vec<String> = text.lines().map(edited).collect();
        lines.join("\n")
    });
    let line = good
        .lines()
        .position(|line| line.starts_with("    \"title\""))
        .expect("a stamp")
        + 1;
    let warned = a.run(["issue", "list"]).ok().stderr;
    assert!(
        warned.contains("the rest counts") && !warned.contains("left alone"),
        "{warned}"
    );
    assert_eq!(a.show("WI-001")["title"], "by editor");
    assert_eq!(problems(), [format!("issue.json:{line}")]);
    // A conflict in two files.
    let marks = "<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n";
    a.edit("issue.json", |_| format!("{{\n{marks}}}\n"));
    a.edit("description.md", |text| format!("{text}{marks}"));
    a.edit("labels.or-set.jsonl", |text| format!("{text}x\n"));
    assert_eq!(
        problems(),
        ["issue.json:2", "labels.or-set.jsonl:2", "description.md:8"]
    );
    // Nothing that is a file.
    a.edit("issue.json", |_| good.clone());
    for name in ["description.md", "comments.jsonl"] {
        let _ = fs::remove_file(a.file(name));
        let mut command = world.command("mkfifo", &a.path);
        command.arg(a.file(name));
        let _ = world.run(command).ok();
    }
    fs::remove_file(a.file("labels.or-set.jsonl")).expect("remove");
    fs::create_dir(a.file("labels.or-set.jsonl")).expect("folder");
    symlink("nowhere", a.file("deps.or-set.jsonl")).expect("link");
    assert_eq!(problems().len(), 4, "{:?}", problems());
}

#[test]
fn d7_a_replica_that_is_behind_is_written_anew_and_that_is_said() {
    let world = world();
    let replica = world.control().join("issues/WI-001");
    fs::write(replica.join("issue.json"), "torn").expect("write");
    fs::remove_file(replica.join("labels.or-set.jsonl")).expect("remove");
    let report = world.jit(["validate", "--json"]).ok().json();
    assert_eq!(report["mended"], json!(["WI-001"]));
    let report = world.jit(["validate", "--json"]).ok().json();
    assert_eq!(report["mended"], json!([]));
    let remove_text = || {
        fs::remove_dir_all(replica.join("texts")).expect("remove");
        fs::remove_file(replica.join("description.md")).expect("remove");
    };
    // A description that a tree still has is taken from there.
    remove_text();
    let _ = world.jit(["validate", "--json"]).ok();
    assert!(replica.join("description.md").is_file());
    remove_text();
    fs::remove_file(world.repo().join(".jit/issues/WI-001/description.md")).expect("remove");
    let problems = world.jit(["validate", "--json"]).exits(6).json()["problems"].clone();
    assert!(
        problems
            .to_string()
            .contains("the description of WI-001 is missing"),
        "{problems}"
    );
}

#[test]
fn a1_doctor_tells_of_a_clone_without_the_driver_and_of_missing_attributes() {
    let world = world();
    let checks = |tree: &std::path::Path, name: &str| -> Vec<Value> {
        let mut command = crate::merging::with_jit_on_path(&world, world.jit_command(tree));
        command.args(["doctor", "--json"]);
        let found = world.run(command).json()["checks"].clone();
        let all = found.as_array().expect("a list").clone();
        all.into_iter().filter(|check| check["name"] == name).collect()
    };
    assert_eq!(checks(&world.repo(), "merge driver")[0]["status"], "ok");
    assert!(checks(&world.repo(), "path").is_empty());
    let a = Tree::clone_without_init(&world, "a");
    let driver = checks(&a.path, "merge driver");
    assert_eq!(
        (&driver[0]["status"], &driver[0]["help"]),
        (&json!("fail"), &json!("jit init"))
    );
    let _ = a.run(["init"]).ok();
    assert_eq!(checks(&a.path, "merge driver")[0]["status"], "ok");
    assert!(checks(&a.path, "attributes").is_empty());
    fs::write(a.path.join(".jit/.gitattributes"), "# mine\n").expect("write");
    let attributes = checks(&a.path, "attributes");
    assert!(
        attributes[0]["help"]
            .as_str()
            .is_some_and(|help| help.contains("jit init")),
        "{attributes:?}"
    );
    world.git(&a.path, ["rm", "-q", "-f", ".jit/.gitattributes"]);
    assert_eq!(
        checks(&a.path, "attributes")[0]["help"],
        "jit init, then commit .jit/.gitattributes"
    );
    let _ = a.run(["init"]).ok();
    assert!(checks(&a.path, "attributes").is_empty());
}

#[test]
fn g_no_text_of_an_issue_reaches_a_terminal_as_a_command() {
    let world = World::with_jit(crate::merging::JIT);
    let nasty = "x\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r\u{8}\u{202e}y";
    let title = format!("t {nasty}");
    let _ = world
        .jit([
            "issue",
            "create",
            &title,
            "--id",
            "WI-001",
            "--description",
            &format!("d {nasty}\nline"),
        ])
        .ok();
    let _ = world
        .jit(["issue", "create", "--id", "WI-002", "--", "--leading dashes"])
        .ok();
    let _ = world
        .jit([
            "issue",
            "update",
            "WI-002",
            "--title=--still-leading",
            "--description=--dash",
        ])
        .ok();
    let shown = world.jit(["issue", "show", "WI-002", "--json"]).ok().json();
    assert_eq!(
        (&shown["title"], &shown["description"]),
        (&json!("--still-leading"), &json!("--dash\n"))
    );
    let _ = world.jit(["issue", "comment", "WI-001", nasty]).ok();
    let _ = world.jit(["issue", "create", "Whole", "--id", "WI-003"]).ok();
    let _ = world
        .jit(["issue", "update", "WI-001", "--parent", "WI-003"])
        .ok();
    let _ = world.jit(["dep", "add", "WI-001", "WI-002"]).ok();
    let _ = world.jit(["block", "WI-002", "--reason", nasty]);
    for words in [
        &["issue", "list"][..],
        &["issue", "show", "WI-001"],
        &["issue", "show", "WI-002"],
        &["ready"],
        &["blocked"],
        &["progress"],
        &["events"],
        &["issue", "search", "owned"],
        &["claim", "next"],
        &["claim", "acquire", "WI-001"],
        &["claim", "list"],
        &["claim", "status"],
        &["claim", "history"],
        &["issue", "update", "WI-001", "--add-label", nasty],
        &["issue", "show", nasty],
        &["issue", "update", "WI-001", "--state", nasty],
        &["dep", "add", "WI-002", "WI-001"],
        &["validate"],
    ] {
        let ran = world.jit(words);
        for (name, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            let bad = text
                .chars()
                .find(|c| *c != '\n' && *c != '\t' && (c.is_control() || *c == '\u{202e}'));
            assert_eq!(bad, None, "{words:?} {name}: {text:?}");
        }
        // And as JSON it is what was said.
        if words == ["issue", "show", "WI-001"] {
            let shown = world.jit(["issue", "show", "WI-001", "--json"]).ok().json();
            assert_eq!(
                (&shown["title"], &shown["description"]),
                (&json!(title), &json!(format!("d {nasty}\nline\n")))
            );
        }
    }
    let events = world.jit(["events", "--json"]).ok();
    assert!(!events.stdout.contains('\u{1b}'), "JSON escapes it");
}

/// git with everything it commits made at that time.
fn git_at(tree: &Tree<'_>, time: &str, words: &[&str]) {
    let mut command = crate::merging::with_jit_on_path(tree.world, tree.world.command("git", &tree.path));
    command
        .env("GIT_EDITOR", "true")
        .env("GIT_COMMITTER_DATE", time)
        .args(words);
    let _ = tree.world.run(command).ok();
}

/// C7: commits of one second, so that their times do not tell what came later.
#[test]
fn c7_a_merged_description_outlives_what_it_was_made_of() {
    for round in 0..6 {
        let world = world();
        let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
        let time = "2099-01-01T00:00:00Z";
        let text = a
            .read("description.md")
            .replace("first", &format!("FIRST {round}"));
        a.jit(["issue", "update", "WI-001", "--description", &text]);
        a.commit();
        b.edit("description.md", |text| {
            text.replace("last", &format!("LAST {round}"))
        });
        b.commit_at(time);
        b.jit(["ready"]);
        git_at(
            &a,
            time,
            &[
                "pull",
                "-q",
                "--no-rebase",
                "--no-edit",
                &b.path.to_string_lossy(),
                "main",
            ],
        );
        a.jit(["issue", "update", "WI-001", "--priority", "high"]);
        a.commit_at(time);
        let (code, said) = b.git(["pull", "-q", &a.path.to_string_lossy(), "main"]);
        assert_eq!(code, 0, "{said}");
        for tree in [&a, &b] {
            let shown = tree.show("WI-001")["description"].clone();
            assert_eq!(shown, tree.read("description.md"), "{round} in {}", tree.name);
            for part in [format!("FIRST {round}"), format!("LAST {round}")] {
                assert!(shown.to_string().contains(&part), "{shown}");
            }
        }
    }
}

/// C7: whoever writes a commit anew gives an old text a new time; what was made out of it is newer all the same.
#[test]
fn c7_a_text_of_an_amended_commit_gives_way_to_what_was_made_of_it() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    a.edit("description.md", |text| text.replace("first", "FIRST"));
    a.commit();
    let b = Tree::clone_of_tree(&world, &a, "b");
    let text = b.read("description.md").replace("last", "next to last");
    b.jit(["issue", "update", "WI-001", "--description", &text]);
    b.edit("description.md", |text| text.replace("next to last", "LAST"));
    b.commit();
    git_at(
        &a,
        "2099-01-01T00:00:00Z",
        &["commit", "-q", "--amend", "-m", "again"],
    );
    a.jit(["ready"]);
    let (code, said) = a.take("merge", &b);
    assert_eq!(code, 0, "{said}");
    let shown = a.show("WI-001")["description"].clone();
    assert_eq!(shown, "FIRST\n\nmiddle\n\nmore\n\nLAST\n");
    a.jit(["issue", "update", "WI-001", "--priority", "high"]);
    assert_eq!(a.read("description.md"), "FIRST\n\nmiddle\n\nmore\n\nLAST\n");
}

#[test]
fn c7_a_comment_that_was_edited_is_not_written_over_and_both_are_kept() {
    let world = world();
    let a = Tree::worktree_of(&world, "a");
    a.jit(["issue", "comment", "WI-001", "said this"]);
    a.edit("comments.jsonl", |text| text.replace("said this", "wrote that"));
    let ran = a.run(["issue", "show", "WI-001", "--json"]).ok();
    assert!(ran.stderr.contains("both are kept"), "{}", ran.stderr);
    let texts = |shown: &Value| -> Vec<String> {
        let comments = shown["comments"].as_array().expect("comments");
        let mut all: Vec<String> = comments.iter().map(|one| one["text"].to_string()).collect();
        all.sort();
        all
    };
    assert_eq!(texts(&ran.json()), [r#""said this""#, r#""wrote that""#]);
    // Nobody is told twice, and the next change writes both.
    let ran = a.run(["issue", "show", "WI-001", "--json"]).ok();
    assert!(!ran.stderr.contains("both"), "{}", ran.stderr);
    a.jit(["issue", "update", "WI-001", "--priority", "low"]);
    let file = a.read("comments.jsonl");
    assert!(
        file.contains("said this") && file.contains("wrote that"),
        "{file}"
    );
    assert_eq!(texts(&a.show("WI-001")).len(), 2);
}

#[test]
fn c7_two_descriptions_that_cannot_be_merged_are_told_and_both_are_there() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    a.edit("description.md", |text| text.replace("first", "of a"));
    b.edit("description.md", |text| text.replace("first", "of b"));
    let _ = a.show("WI-001");
    let ran = b.run(["issue", "show", "WI-001", "--json"]).ok();
    let text = ran.json()["description"].to_string();
    assert!(text.contains("of b") && !text.contains("of a"), "{text}");
    let (_, path) = ran
        .stderr
        .split_once("the other text is in ")
        .expect("where it is");
    let other = fs::read_to_string(path.lines().next().expect("a path")).expect("the text");
    assert!(other.contains("of a"), "{other}");
    let ran = b.run(["issue", "show", "WI-001", "--json"]).ok();
    assert!(!ran.stderr.contains("the other text"), "{}", ran.stderr);
}

#[test]
fn c7_gates_that_two_clones_add_are_all_there() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    a.jit(["issue", "update", "WI-001", "--add-gate", "lint"]);
    a.commit();
    b.jit(["issue", "update", "WI-001", "--add-gate", "test"]);
    b.commit();
    let (code, said) = b.take("merge", &a);
    assert_eq!(code, 0, "{said}");
    assert_eq!(b.show("WI-001")["gates"], json!(["lint", "test"]));
    assert_eq!(b.status(), "");
}

#[test]
fn c7_what_was_set_back_later_is_not_undone_by_a_merge() {
    let world = world();
    for (n, merges_other) in [true, false].into_iter().enumerate() {
        let a = Tree::worktree_of(&world, &format!("a{n}"));
        let b = Tree::worktree_of(&world, &format!("b{n}"));
        a.jit(["issue", "update", "WI-002", "--state", "done"]);
        a.jit(["issue", "update", "WI-002", "--priority", "high"]);
        a.commit();
        b.jit(["issue", "update", "WI-002", "--state", "ready"]);
        b.jit(["issue", "update", "WI-002", "--priority", "normal"]);
        b.commit();
        let (to, from) = match merges_other {
            true => (&b, &a),
            false => (&a, &b),
        };
        let (code, said) = to.take("merge", from);
        assert_eq!(code, 0, "{said}");
        let clone = Tree::clone_of_tree(&world, to, &format!("c{n}"));
        for tree in [&a, &b, &clone] {
            let shown = tree.show("WI-002");
            assert_eq!(
                (&shown["state"], &shown["priority"]),
                (&json!("ready"), &json!("normal"))
            );
        }
    }
}

#[test]
fn c7_where_two_changed_one_place_of_a_description_the_rest_of_it_stays() {
    let world = world();
    let trees = ["a", "b", "c"].map(|name| Tree::worktree_of(&world, name));
    let [a, b, c] = &trees;
    let put = |tree: &Tree<'_>, from: &str, to: &str| {
        tree.edit("description.md", |text| text.replace(from, to));
        tree.run(["issue", "show", "WI-001", "--json"]).ok()
    };
    let _ = put(a, "first", "first by a");
    let _ = put(b, "last", "last by b");
    let ran = put(c, "first", "first by c");
    assert!(ran.stderr.contains("in the same place"), "{}", ran.stderr);
    let whole = json!("first by c\n\nmiddle\n\nmore\n\nlast by b\n");
    for tree in &trees {
        assert_eq!(tree.show("WI-001")["description"], whole, "{}", tree.name);
    }
}

/// An issue with everything, deleted on one branch and restored on another.
fn restored_beside_a_deletion(world: &World) -> Tree<'_> {
    let a = Tree::clone_of(world, "a");
    a.jit(["dep", "add", "WI-001", "WI-002"]);
    a.jit(["issue", "comment", "WI-001", "said"]);
    a.commit();
    for words in [&["checkout", "-q", "-b", "gone"][..], &["checkout", "-q", "main"]] {
        assert_eq!(a.git(words).0, 0);
        if words.len() == 4 {
            a.jit(["issue", "delete", "WI-001"]);
            a.commit();
        }
    }
    a.jit(["issue", "restore", "WI-001"]);
    a.commit();
    let (code, said) = a.git(["merge", "--no-edit", "gone"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(a.read("description.md"), "", "as git merges it");
    a
}

fn has_all(tree: &Tree<'_>) {
    let shown = tree.show("WI-001");
    assert!(
        shown["description"]
            .as_str()
            .is_some_and(|text| text.starts_with("first"))
    );
    assert_eq!(
        (
            &shown["labels"],
            &shown["depends_on"],
            &shown["comments"][0]["text"]
        ),
        (&json!(["old"]), &json!(["WI-002"]), &json!("said")),
        "{}",
        tree.name
    );
}

#[test]
fn c7_files_that_a_merge_deletes_of_a_restored_issue_are_put_back_and_told() {
    let world = world();
    let a = restored_beside_a_deletion(&world);
    let ran = a.run(["issue", "list"]).ok();
    assert!(ran.stderr.contains("files of WI-001"), "{}", ran.stderr);
    for name in ["description.md", "labels.or-set.jsonl", "comments.jsonl"] {
        assert_ne!(a.read(name), "", "{name}");
    }
    a.commit();
    has_all(&a);
    has_all(&Tree::clone_of_tree(&world, &a, "b"));
    assert_eq!(a.run(["issue", "list"]).ok().stderr, "", "told once");
    assert_eq!(a.status(), "");
    // A first comment that is made elsewhere is not missing here.
    a.jit(["issue", "comment", "WI-001", "more"]);
    let _ = a.run(["issue", "list"]).ok();
}

#[test]
fn d7_validate_puts_files_back_that_are_missing_and_names_a_description_that_is_lost() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    for name in ["description.md", "labels.or-set.jsonl"] {
        fs::remove_file(a.file(name)).expect("removed");
    }
    a.commit();
    let _ = a.run(["issue", "list"]).ok();
    let fresh = Tree::clone_of_tree(&world, &a, "b");
    let problems = fresh.run(["validate", "--json"]).exits(6).json()["problems"].clone();
    assert!(
        problems[0]["message"]
            .as_str()
            .is_some_and(|text| text.contains("description.md is missing")),
        "{problems}"
    );
    let _ = a.run(["validate"]).ok();
    assert_ne!(a.read("description.md"), "");
    assert_ne!(a.read("labels.or-set.jsonl"), "");
}

#[test]
fn e7_a_restore_brings_back_what_git_has_of_an_issue_that_was_deleted_elsewhere() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    a.jit(["dep", "add", "WI-001", "WI-002"]);
    a.jit(["issue", "comment", "WI-001", "said"]);
    a.commit();
    a.jit(["issue", "delete", "WI-001"]);
    a.commit();
    let b = Tree::clone_of_tree(&world, &a, "b");
    b.jit(["issue", "restore", "WI-001"]);
    has_all(&b);
    b.commit();
    assert_eq!(a.take("merge", &b).0, 0);
    has_all(&a);
}

#[test]
fn e7_a_restore_says_that_a_description_is_not_back() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    for (id, text) in [("NEW-1", "never committed"), ("NEW-2", "")] {
        a.jit(["issue", "create", "New", "--id", id, "--description", text]);
        let file = format!(".jit/issues/{id}/issue.json");
        world.git(&a.path, ["add", &file]);
        world.git(&a.path, ["commit", "-qm", "without its description"]);
        a.jit(["issue", "delete", id]);
    }
    a.commit();
    let b = Tree::clone_of_tree(&world, &a, "b");
    let ran = b.run(["issue", "restore", "NEW-1"]).ok();
    assert!(ran.stderr.contains("NEW-1 had a description"), "{}", ran.stderr);
    // Not where there was none, nor where it is back.
    for (tree, id) in [(&b, "NEW-2"), (&a, "NEW-1")] {
        let ran = tree.run(["issue", "restore", id]).ok();
        assert!(!ran.stderr.contains("description"), "{}", ran.stderr);
    }
}

/// Two branches with a conflict about the title that was settled on both, and one more change each.
fn criss_cross(world: &World) -> (Tree<'_>, Tree<'_>) {
    let (a, b) = (Tree::clone_of(world, "a"), Tree::clone_of(world, "b"));
    a.jit(["issue", "update", "WI-001", "--title", "A title"]);
    a.commit();
    b.jit(["issue", "update", "WI-001", "--title", "B title"]);
    b.commit();
    let first = |tree: &Tree<'_>| {
        tree.world
            .git(&tree.path, ["rev-parse", "HEAD"])
            .trim()
            .to_owned()
    };
    let (of_a, of_b) = (first(&a), first(&b));
    for (tree, from, other) in [(&a, &b, &of_b), (&b, &a, &of_a)] {
        let path = from.path.to_string_lossy().into_owned();
        assert_eq!(tree.git(["fetch", "-q", &path, other]).0, 0);
        let (code, said) = tree.git(["merge", "--no-edit", "FETCH_HEAD"]);
        assert_ne!(code, 0, "{said}");
        tree.resolve("settled");
        tree.go_on("merge");
    }
    a.jit(["issue", "update", "WI-001", "--priority", "high"]);
    a.commit();
    b.jit(["issue", "update", "WI-001", "--state", "in_progress"]);
    b.commit();
    (a, b)
}

#[test]
fn c7_a_criss_cross_merge_after_a_conflict_loses_nothing() {
    let world = world();
    let (a, b) = criss_cross(&world);
    let (code, said) = a.take("merge", &b);
    assert!(!said.contains("is not an issue"), "{said}");
    assert_eq!(code, 0, "{said}");
    let shown = a.show("WI-001");
    assert_eq!(
        (&shown["title"], &shown["priority"], &shown["state"]),
        (&json!("settled"), &json!("high"), &json!("in_progress"))
    );
}

#[test]
fn c7_a_resolution_that_git_remembers_is_used_again() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    world.git(&b.path, ["config", "rerere.enabled", "true"]);
    a.jit(["issue", "update", "WI-001", "--title", "A title"]);
    a.commit();
    b.jit(["issue", "update", "WI-001", "--title", "B title"]);
    b.commit();
    let (code, said) = b.take("merge", &a);
    assert_ne!(code, 0, "{said}");
    b.resolve("settled");
    b.go_on("merge");
    world.git(&b.path, ["reset", "-q", "--hard", "HEAD^"]);
    let (_, said) = b.take("merge", &a);
    assert!(said.contains("using previous resolution"), "{said}");
    assert!(!said.contains("is not an issue"), "{said}");
    assert!(b.read("issue.json").contains("settled"), "{said}");
}

#[test]
fn c7_what_the_driver_cannot_merge_has_markers_and_validate_names_what_is_unmerged() {
    for large in [true, false] {
        let world = world();
        let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
        for (tree, title) in [(&a, "A title"), (&b, "B title")] {
            tree.jit(["issue", "update", "WI-001", "--title", title]);
            if large {
                tree.edit("issue.json", |text| {
                    text.replacen("{", "{\n  \"big\": 18446744073709551616,", 1)
                });
            }
            tree.commit();
        }
        if !large {
            // As where git does not find the program.
            world.git(&b.path, ["config", "merge.jit-issue.driver", "false"]);
        }
        let (code, said) = b.take("merge", &a);
        assert_ne!(code, 0, "{said}");
        assert_eq!(b.read("issue.json").contains("<<<<<<<"), large, "{said}");
        let problems = b.run(["validate", "--json"]).exits(6).json()["problems"].clone();
        let named = problems.as_array().expect("problems").iter().any(|problem| {
            problem["file"]
                .as_str()
                .is_some_and(|file| file.ends_with("WI-001/issue.json"))
        });
        assert!(named, "{problems}");
    }
}

#[test]
fn c2_hooks_let_a_merge_through_that_has_the_lines_of_both_sides() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    b.jit(["hooks", "install"]);
    for (tree, other) in [(&a, "WI-002"), (&b, "WI-003")] {
        tree.jit(["issue", "update", "WI-001", "--add-label", &tree.name]);
        tree.jit(["dep", "add", "WI-001", other]);
        tree.jit(["issue", "comment", "WI-001", "said"]);
        // Gates of both, which the merge driver puts together.
        tree.jit(["gate", "define", &format!("of-{}", tree.name), "--manual"]);
    }
    // What only one side changed.
    a.jit(["issue", "update", "WI-002", "--title", "A title"]);
    a.commit();
    b.commit();
    let (code, said) = b.take("merge", &a);
    assert_eq!(code, 0, "{said}");
    let issue = b.show("WI-001");
    assert_eq!(issue["labels"], json!(["a", "b", "old"]));
    assert_eq!(issue["depends_on"], json!(["WI-002", "WI-003"]));
    assert_eq!(issue["comments"].as_array().map(Vec::len), Some(2));
    assert_eq!(b.show("WI-002")["title"], "A title");
}

#[test]
fn c2_hooks_let_no_merge_through_that_leaves_lines_of_a_side_out_nor_advise_to() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    b.jit(["hooks", "install"]);
    for tree in [&a, &b] {
        tree.jit(["issue", "update", "WI-001", "--add-label", &tree.name]);
        tree.jit([
            "issue",
            "update",
            "WI-001",
            "--add-label",
            &format!("{}-too", tree.name),
        ]);
        tree.commit();
    }
    let _ = b.git(["fetch", "-q", &a.path.to_string_lossy(), "HEAD"]);
    let (code, said) = b.git(["merge", "-q", "--no-commit", "FETCH_HEAD"]);
    assert_eq!(code, 0, "{said}");
    let both = b.read("labels.or-set.jsonl");
    b.edit("labels.or-set.jsonl", |text| {
        let lines = text.lines().filter(|line| !line.contains("a-too"));
        lines.map(|line| format!("{line}\n")).collect()
    });
    let (code, said) = b.git(["commit", "-qam", "merge"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("jit claim acquire WI-001"), "{said}");
    assert!(!said.contains("git restore"), "{said}");
    b.edit("labels.or-set.jsonl", |_| both.clone());
    let (code, said) = b.git(["commit", "-qam", "merge"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn c7_a_git_that_does_not_find_jit_keeps_both_sides_with_markers() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    for tree in [&a, &b] {
        let title = format!("{} title", tree.name);
        tree.jit(["issue", "update", "WI-001", "--title", &title]);
        tree.commit();
    }
    let from = a.path.to_string_lossy();
    world.git(&b.path, ["fetch", "-q", &from, "HEAD"]);
    // The folder in which `jit init` found the program has none any more.
    let name = "merge.jit-issue.driver";
    let driver = world.git(&b.path, ["config", name]);
    let (_, rest) = driver
        .trim()
        .split_once("; ")
        .expect("a folder, then the command");
    world.git(&b.path, ["config", name, &format!("PATH=$PATH:/nowhere; {rest}")]);
    let mut command = world.command("git", &b.path);
    command.args(["merge", "--no-edit", "FETCH_HEAD"]);
    let ran = world.run(command).exits(1);
    let text = b.read("issue.json");
    for wanted in ["<<<<<<< ours", "a title", "=======", "b title", ">>>>>>> theirs"] {
        assert!(text.contains(wanted), "{text}\n{}", ran.stderr);
    }
    assert!(ran.stderr.contains("jit is not on PATH"), "{}", ran.stderr);
}

#[test]
fn d4_circles_are_found_with_an_edge_that_exists_and_the_command_that_ends_them() {
    let world = world();
    let tree = Tree::worktree_of(&world, "a");
    let waits = |id: &str, on: &str| {
        let path = tree.path.join(format!(".jit/issues/{id}/deps.or-set.jsonl"));
        let line = format!("{{\"op\":\"add\",\"value\":\"{on}\"}}\n");
        fs::write(path, line).expect("write");
    };
    for (id, on) in [("WI-001", "WI-003"), ("WI-003", "WI-002"), ("WI-002", "WI-001")] {
        waits(id, on);
    }
    let mend = |message: &str| {
        let found = tree.run(["validate", "--json"]).exits(6).json();
        let problem = &found["problems"][0];
        assert!(problem["message"].to_string().contains(message), "{found}");
        assert_eq!(problem["line"], 1, "{found}");
        let file = problem["file"].as_str().expect("a file");
        let help = problem["help"].as_str().expect("a command");
        let words: Vec<&str> = help.split(' ').skip(1).collect();
        assert!(
            file.ends_with(&format!("{}/deps.or-set.jsonl", words[2])),
            "{found}"
        );
        assert!(
            fs::read_to_string(file).expect("read").contains(words[3]),
            "{found}"
        );
        tree.jit(words);
        let _ = tree.run(["validate"]).ok();
    };
    mend("these wait for each other: WI-001, WI-002, WI-003");
    // A part that waits for what it is part of.
    let world = self::world();
    let tree = Tree::worktree_of(&world, "b");
    tree.jit(["issue", "update", "WI-001", "--parent", "WI-002"]);
    let path = tree.path.join(".jit/issues/WI-001/deps.or-set.jsonl");
    fs::write(path, "{\"op\":\"add\",\"value\":\"WI-002\"}\n").expect("write");
    let found = tree.run(["validate", "--json"]).exits(6).json();
    let problem = &found["problems"][0];
    assert!(
        problem["message"].to_string().contains("after its parts"),
        "{found}"
    );
    assert_eq!(
        (&problem["line"], &problem["help"]),
        (&json!(1), &json!("jit dep rm WI-001 WI-002"))
    );
}

#[test]
fn d4_an_edit_that_waits_for_the_holder_is_noted_with_its_file() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    a.jit(["claim", "acquire", "WI-001"]);
    b.edit("issue.json", |text| text.replace("Parse dates", "Mine"));
    let warned = b.run(["issue", "list"]).ok().stderr;
    assert!(warned.contains("it counts when that has ended"), "{warned}");
    let notes = b.run(["validate", "--json"]).ok().json()["notes"].to_string();
    assert!(notes.contains("WI-001/issue.json"), "{notes}");
    assert!(notes.contains("human:a holds WI-001"), "{notes}");
}

#[test]
fn e7_what_git_removed_is_noted_with_both_ways_to_go_on() {
    let world = world();
    let repo = world.repo();
    world.git(&repo, ["rm", "-rq", ".jit/issues/WI-002"]);
    world.git(&repo, ["commit", "-qm", "gone"]);
    let notes = world.jit(["validate", "--json"]).ok().json()["notes"].to_string();
    assert!(notes.contains("jit validate --write-missing"), "{notes}");
    assert!(notes.contains("jit issue delete WI-002"), "{notes}");
    let doctor = world.jit(["doctor", "--json"]).json();
    let told = doctor["checks"].to_string();
    assert!(told.contains("jit issue delete WI-002"), "{told}");
    let _ = world.jit(["issue", "delete", "WI-002"]).ok();
    let notes = world.jit(["validate", "--json"]).ok().json()["notes"].to_string();
    assert!(!notes.contains("write-missing"), "{notes}");
}

/// A moment later than all that git has noted so far, which counts in seconds.
fn a_second_later() {
    std::thread::sleep(std::time::Duration::from_millis(1100));
}

fn title_by_hand(tree: &Tree<'_>, title: &str) {
    tree.edit("issue.json", |text| {
        text.replace("\"title\": \"Parse dates\"", &format!("\"title\": \"{title}\""))
    });
}

#[test]
fn e7_what_was_looked_at_before_it_was_committed_counts_once_it_is() {
    let world = world();
    for look in [&["issue", "list"][..], &["issue", "show", "WI-001"]] {
        let a = Tree::clone_of(&world, &format!("a-{}", look.len()));
        let words = ["--title", "Wrong", "--description", "wrong"];
        a.jit(["issue", "update", "WI-001"].iter().chain(&words));
        a.commit();
        a_second_later();
        world.git(&a.path, ["checkout", "-q", "HEAD~1", "--", ".jit"]);
        // Old enough to be told from what comes next.
        a_second_later();
        for _ in 0..2 {
            assert_eq!(
                a.run(["issue", "list", "--json"]).ok().json()["issues"][0]["title"],
                "Wrong"
            );
        }
        // The index is as it was, as when a hook looked.
        world.git(&a.path, ["write-tree"]);
        a.jit(["issue", "list"]);
        world.git(&a.path, ["commit", "-q", "-m", "back"]);
        a.jit(look);
        let listed = a.run(["issue", "list", "--json"]).ok().json();
        assert_eq!(listed["issues"][0]["title"], "Parse dates", "{look:?}");
        let shown = a.show("WI-001");
        assert_eq!(
            shown["description"], "first\n\nmiddle\n\nmore\n\nlast\n",
            "{look:?}"
        );
        a.jit(["issue", "update", "WI-001", "--priority", "high"]);
        assert!(a.read("issue.json").contains("\"title\": \"Parse dates\""));
    }
}

#[test]
fn c7_an_edit_of_another_branch_is_not_lost_to_what_a_revert_brought_back() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    let words = ["--title", "Wrong", "--description", "first\n\nwrong\n"];
    a.jit(["issue", "update", "WI-001"].iter().chain(&words));
    a.commit();
    title_by_hand(&b, "By hand");
    b.edit("description.md", |text| text + "and more\n");
    b.commit();
    a_second_later();
    let (code, said) = a.git(["revert", "--no-edit", "HEAD"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(a.show("WI-001")["title"], "Parse dates");
    a_second_later();
    let (code, said) = a.take("merge", &b);
    assert_eq!(code, 0, "{said}");
    let ran = a.run(["issue", "list"]).ok();
    assert!(!ran.stderr.contains("back to what it was"), "{}", ran.stderr);
    let (code, said) = b.take("merge", &a);
    assert_eq!(code, 0, "{said}");
    for tree in [&a, &b] {
        let shown = tree.show("WI-001");
        assert_eq!(shown["title"], "By hand", "{}", tree.name);
        assert_eq!(
            shown["description"], "first\n\nmiddle\n\nmore\n\nlast\nand more\n",
            "{}",
            tree.name
        );
        assert_eq!(tree.status(), "");
    }
}

#[test]
fn c7_an_edit_has_the_time_of_its_own_file_whatever_else_is_edited() {
    for is_committed in [false, true] {
        let world = world();
        let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
        title_by_hand(&a, "By hand, early");
        a.commit();
        a_second_later();
        b.jit(["issue", "update", "WI-001", "--title", "Later"]);
        a_second_later();
        append(&a, "description.md", "more\n");
        if is_committed {
            a.commit();
        }
        let shown = a.show("WI-001");
        assert_eq!(shown["title"], "Later", "{is_committed}");
        assert!(
            shown["description"].to_string().contains("last\\nmore"),
            "{shown}"
        );
    }
}

#[test]
fn c7_a_deletion_that_stands_in_a_merge_stays() {
    let world = world();
    // An edit that was made before it, and is dated by the merge.
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    title_by_hand(&b, "By hand, early");
    b.commit();
    a_second_later();
    a.jit(["issue", "delete", "WI-001"]);
    a.commit();
    a_second_later();
    let (code, said) = a.take("merge", &b);
    assert_eq!(code, 0, "{said}");
    let fresh = Tree::clone_of_tree(&world, &a, "fresh");
    for tree in [&a, &fresh] {
        let listed = tree.run(["issue", "list", "--json"]).ok().json();
        assert!(!listed.to_string().contains("WI-001"), "{}: {listed}", tree.name);
        assert_eq!(tree.status(), "");
    }
    // A title that was taken back before it.
    let (a, b) = (Tree::clone_of(&world, "a2"), Tree::clone_of(&world, "b2"));
    b.jit(["issue", "update", "WI-001", "--title", "of b"]);
    b.commit();
    a_second_later();
    a.jit(["issue", "update", "WI-001", "--title", "of a"]);
    a.commit();
    a_second_later();
    let (code, _) = b.take("merge", &a);
    assert_ne!(code, 0);
    world.git(&b.path, ["checkout", "-q", "--ours", ".jit"]);
    b.commit();
    b.jit(["issue", "list"]);
    a_second_later();
    b.jit(["issue", "delete", "WI-001"]);
    b.commit();
    a_second_later();
    let (code, said) = a.take("merge", &b);
    assert_eq!(code, 0, "{said}");
    let listed = a.run(["issue", "list", "--json"]).ok().json();
    assert!(!listed.to_string().contains("WI-001"), "{listed}");
}

#[test]
fn c7_a_choice_between_two_descriptions_counts_also_where_both_were_merged_before() {
    let world = world();
    let (a, b) = (Tree::worktree_of(&world, "a"), Tree::worktree_of(&world, "b"));
    let text = "first of b\n\nmiddle\n\nmore\n\nlast of b\n";
    b.jit(["issue", "update", "WI-001", "--description", text]);
    b.commit();
    a_second_later();
    a.edit("description.md", |text| text.replace("first\n", "first of a\n"));
    a.commit();
    let merged = a.show("WI-001")["description"].to_string();
    assert!(
        merged.contains("first of a") && merged.contains("last of b"),
        "{merged}"
    );
    a_second_later();
    let (code, _) = a.take("merge", &b);
    assert_ne!(code, 0);
    world.git(
        &a.path,
        ["checkout", "-q", "--theirs", ".jit/issues/WI-001/description.md"],
    );
    a.commit();
    assert_eq!(a.show("WI-001")["description"], text);
    a.jit(["issue", "update", "WI-001", "--priority", "high"]);
    assert_eq!(a.read("description.md"), text);
}

#[test]
fn c7_an_edit_that_a_merge_brings_is_as_old_as_its_commit_also_before_the_merge_ends() {
    let world = world();
    let (a, b, c) = (
        Tree::worktree_of(&world, "a"),
        Tree::clone_of(&world, "b"),
        Tree::worktree_of(&world, "c"),
    );
    title_by_hand(&b, "By hand, early");
    fs::write(b.path.join("README"), "of b").expect("write");
    b.commit();
    a_second_later();
    c.jit(["issue", "update", "WI-001", "--title", "Later"]);
    fs::write(a.path.join("README"), "of a").expect("write");
    a.commit();
    a_second_later();
    let (code, said) = a.take("merge", &b);
    assert!(code != 0 && said.contains("README"), "{said}");
    // While git writes, nobody knows what is an edit.
    let lock =
        PathBuf::from(world.git(&a.path, ["rev-parse", "--absolute-git-dir"]).trim()).join("index.lock");
    for is_busy in [true, false] {
        if is_busy {
            fs::write(&lock, "").expect("write");
        } else {
            fs::remove_file(&lock).expect("remove");
        }
        let listed = a.run(["issue", "list", "--json"]).ok().json();
        assert_eq!(listed["issues"][0]["title"], "Later", "{is_busy}");
    }
    world.git(&a.path, ["merge", "--abort"]);
    assert_eq!(a.show("WI-001")["title"], "Later");
}
