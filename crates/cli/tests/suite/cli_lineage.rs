//! E7, C7: what git brings is weighed by what it was made of. Neither of two changes is lost, and what somebody took back is so.

use jit_testkit::world::World;
use serde_json::json;

use crate::merging::{Tree, world};

/// Another worktree of the repository that a clone has.
fn beside<'a>(world: &'a World, of: &Tree<'_>, name: &str) -> Tree<'a> {
    let path = world.root().join(name);
    let words = ["worktree", "add", "-q", "-b", name, path.to_str().expect("text")];
    world.git(&of.path, words);
    Tree {
        world,
        path,
        name: name.to_owned(),
    }
}

/// Replaces a part of the description, by a command.
#[track_caller]
fn write(tree: &Tree<'_>, from: &str, to: &str) {
    let text = tree.read("description.md").replace(from, to);
    tree.jit(["issue", "update", "WI-001", "--description", &text]);
}

fn description(tree: &Tree<'_>) -> String {
    tree.show("WI-001")["description"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[track_caller]
fn pull(tree: &Tree<'_>, from: &Tree<'_>) {
    let (code, said) = tree.git([
        "pull",
        "-q",
        "--no-rebase",
        "--no-edit",
        from.path.to_str().expect("text"),
        "HEAD",
    ]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn c7_a_description_that_was_pulled_and_one_of_another_worktree_are_both_kept() {
    for pulled_is_later in [false, true] {
        let world = world();
        let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
        let w = beside(&world, &b, "w");
        if pulled_is_later {
            write(&w, "first", "FIRST");
        }
        write(&a, "last", "LAST");
        a.commit();
        if !pulled_is_later {
            write(&w, "first", "FIRST");
        }
        pull(&b, &a);
        let both = "FIRST\n\nmiddle\n\nmore\n\nLAST\n";
        let listed = b.run(["issue", "list"]).ok();
        assert!(!listed.stderr.contains("same place"), "{}", listed.stderr);
        for tree in [&b, &w] {
            assert_eq!(description(tree), both);
        }
        // Whatever is written next writes it all.
        b.jit(["issue", "comment", "WI-001", "noted"]);
        w.jit(["issue", "update", "WI-001", "--priority", "high"]);
        for tree in [&b, &w] {
            assert_eq!(tree.read("description.md"), both);
            tree.commit();
        }
        pull(&a, &b);
        assert_eq!(description(&a), both);
        pull(&b, &w);
        assert_eq!(description(&b), both);
    }
}

#[test]
fn c7_a_description_that_git_merged_out_of_ours_is_taken_without_a_word() {
    for is_edited_beside in [false, true] {
        let world = world();
        let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
        let w = beside(&world, &b, "w");
        write(&b, "first", "FIRST");
        b.commit();
        write(&a, "last", "LAST");
        a.commit();
        pull(&a, &b);
        let mut all = "FIRST\n\nmiddle\n\nmore\n\nLAST\n".to_owned();
        assert_eq!(description(&a), all);
        if is_edited_beside {
            write(&w, "first\n\nmiddle", "FIRST\n\nMIDDLE");
            all = all.replace("middle", "MIDDLE");
        }
        pull(&b, &a);
        let listed = b.run(["issue", "list"]).ok();
        assert!(!listed.stderr.contains("same place"), "{}", listed.stderr);
        w.jit(["issue", "update", "WI-001", "--priority", "high"]);
        for tree in [&b, &w] {
            assert_eq!(description(tree), all);
        }
        assert_eq!(w.read("description.md"), all);
    }
}

#[test]
fn c7_the_same_part_of_a_description_changed_twice_is_told_and_kept() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    let w = beside(&world, &b, "w");
    write(&a, "last", "LAST");
    a.commit();
    write(&w, "last", "the end");
    pull(&b, &a);
    let listed = b.run(["issue", "list"]).ok();
    assert!(listed.stderr.contains("in the same place"), "{}", listed.stderr);
    assert!(description(&b).contains("the end"), "the later one");
    let kept = listed
        .stderr
        .split(" is in ")
        .nth(1)
        .and_then(|rest| rest.lines().next())
        .expect("a path");
    assert!(std::fs::read_to_string(kept).expect("a file").contains("LAST"));
}

#[test]
fn e7_a_conflict_that_was_settled_for_one_side_is_settled_so_in_every_clone() {
    for side in ["--ours", "--theirs"] {
        let world = world();
        let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
        a.jit(["issue", "update", "WI-001", "--title", "one"]);
        a.commit();
        b.jit(["issue", "update", "WI-001", "--title", "two"]);
        b.commit();
        let (code, said) = b.git([
            "pull",
            "-q",
            "--no-rebase",
            "--no-edit",
            a.path.to_str().expect("text"),
            "HEAD",
        ]);
        assert_eq!(code, 1, "{said}");
        let (code, said) = b.git(["checkout", side, "--", ".jit"]);
        assert_eq!(code, 0, "{said}");
        b.commit();
        pull(&a, &b);
        let wanted = if side == "--ours" { "two" } else { "one" };
        for tree in [&b, &a] {
            assert_eq!(tree.show("WI-001")["title"], wanted, "{side} {}", tree.name);
            assert_eq!(tree.status(), "");
            tree.jit(["issue", "update", "WI-001", "--priority", "high"]);
            assert_eq!(tree.show("WI-001")["title"], wanted, "{side} {}", tree.name);
        }
    }
}

#[test]
fn e7_a_committed_edit_that_is_edited_back_is_back() {
    for (file, from, to, field, wanted) in [
        (
            "issue.json",
            "Parse dates",
            "Parse times",
            "title",
            json!("Parse dates"),
        ),
        (
            "description.md",
            "middle",
            "MIDDLE",
            "description",
            json!("first\n\nmiddle\n\nmore\n\nlast\n"),
        ),
    ] {
        let world = world();
        let a = Tree::clone_of(&world, "a");
        a.edit(file, |text| text.replace(from, to));
        a.commit();
        assert!(a.show("WI-001")[field].as_str().expect("text").contains(to));
        a.edit(file, |text| text.replace(to, from));
        a.commit();
        assert_eq!(a.show("WI-001")[field], wanted, "{file}");
        a.jit(["issue", "update", "WI-001", "--priority", "high"]);
        assert_eq!(a.show("WI-001")[field], wanted, "{file}");
        assert!(a.read(file).contains(from));
    }
}

#[test]
fn e7_a_commit_that_is_picked_takes_nothing_back() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    world.git(&a.path, ["checkout", "-q", "-b", "side"]);
    a.jit(["issue", "update", "WI-001", "--state", "done"]);
    a.commit();
    a.jit(["issue", "update", "WI-001", "--title", "new"]);
    a.commit();
    world.git(&a.path, ["checkout", "-q", "-"]);
    for words in [
        &["cherry-pick", "side"][..],
        &["merge", "-q", "--no-edit", "side"],
    ] {
        let (code, said) = a.git(words);
        assert_eq!(code, 0, "{said}");
        let issue = a.show("WI-001");
        assert_eq!(
            (&issue["title"], &issue["state"]),
            (&json!("new"), &json!("done"))
        );
    }
}

/// A branch that carries a state of another one, which that has changed since, and has a label of its own.
fn carried(world: &World) -> (Tree<'_>, Tree<'_>) {
    let a = Tree::clone_of(world, "a");
    let w = beside(world, &a, "w");
    a.jit([
        "issue",
        "update",
        "WI-001",
        "--state",
        "in_progress",
        "--title",
        "one",
    ]);
    a.commit();
    w.jit(["issue", "update", "WI-001", "--add-label", "mine"]);
    w.commit();
    assert!(w.read("issue.json").contains("in_progress"), "written as it is");
    a.jit(["issue", "update", "WI-001", "--state", "done", "--title", "two"]);
    a.commit();
    (a, w)
}

#[test]
fn c7_what_a_branch_only_carries_is_no_conflict() {
    for how in ["merge", "merge back", "rebase"] {
        let world = world();
        let (a, w) = carried(&world);
        let main = world.git(&a.path, ["branch", "--show-current"]).trim().to_owned();
        let (code, said) = match how {
            "merge" => a.git(["merge", "--no-edit", "w"]),
            "rebase" => w.git(["rebase", "-q", &main]),
            _ => w.git(["merge", "--no-edit", &main]),
        };
        assert_eq!(code, 0, "{how}: {said}");
        let tree = if how == "merge" { &a } else { &w };
        let issue = tree.show("WI-001");
        assert_eq!(
            (&issue["state"], &issue["title"], &issue["labels"]),
            (&json!("done"), &json!("two"), &json!(["mine", "old"])),
            "{how}"
        );
        assert!(tree.read("issue.json").contains("\"two\""), "{how}");
        assert_eq!(tree.status(), "", "{how}");
    }
}

#[test]
fn c7_what_both_branches_changed_stays_a_conflict() {
    for by_hand in [false, true] {
        let world = world();
        let (a, w) = carried(&world);
        if by_hand {
            w.edit("issue.json", |text| text.replace("\"one\"", "\"three\""));
        } else {
            w.jit(["issue", "update", "WI-001", "--title", "three"]);
        }
        w.commit();
        let (code, said) = a.git(["merge", "--no-edit", "w"]);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("title"), "{said}");
        assert!(
            a.read("issue.json").contains("<<<<<<<"),
            "{}",
            a.read("issue.json")
        );
    }
}

#[test]
fn e7_an_old_commit_that_was_never_looked_at_takes_no_description_back() {
    let world = world();
    let (a, b) = (Tree::clone_of(&world, "a"), Tree::clone_of(&world, "b"));
    write(&a, "more", "more\n\nSECRET");
    a.commit();
    write(&a, "more\n\nSECRET", "more\n\nnothing");
    a.commit();
    pull(&b, &a);
    let wanted = description(&a);
    assert_eq!(description(&b), wanted);
    for commit in ["HEAD~1", "-"] {
        let (code, said) = b.git(["checkout", "-q", commit]);
        assert_eq!(code, 0, "{said}");
        assert_eq!(description(&b), wanted, "{commit}");
    }
    // Back to what it was before, by commands: the text is one that was there before.
    write(&a, "more\n\nnothing", "more");
    a.commit();
    let fresh = Tree::clone_of_tree(&world, &a, "fresh");
    let wanted = description(&fresh);
    for commit in ["HEAD~1", "HEAD~1", "-"] {
        let (code, said) = fresh.git(["checkout", "-q", commit]);
        assert_eq!(code, 0, "{said}");
        assert_eq!(description(&fresh), wanted, "{commit}");
    }
}

#[test]
fn e7_a_revert_of_a_revert_counts_too() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    a.jit([
        "issue",
        "update",
        "WI-001",
        "--title",
        "two",
        "--description",
        "two",
    ]);
    a.commit();
    for (title, text) in [
        ("Parse dates", "middle"),
        ("two", "two"),
        ("Parse dates", "middle"),
    ] {
        let (code, said) = a.git(["revert", "--no-edit", "HEAD"]);
        assert_eq!(code, 0, "{said}");
        let issue = a.show("WI-001");
        assert_eq!(issue["title"], title);
        assert!(issue["description"].to_string().contains(text), "{issue}");
        assert_eq!(a.status(), "");
    }
}

#[test]
fn e7_worktrees_that_look_in_turn_agree_about_an_edit_that_was_taken_back() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    for title in ["one", "two"] {
        let before = a.show("WI-001")["title"].as_str().expect("text").to_owned();
        a.edit("issue.json", |text| text.replace(&before, title));
        a.commit();
        assert_eq!(a.show("WI-001")["title"], title);
    }
    let w = beside(&world, &a, "w");
    let (code, said) = w.git(["revert", "--no-edit", "HEAD"]);
    assert_eq!(code, 0, "{said}");
    for _ in 0..3 {
        for tree in [&w, &a] {
            assert_eq!(tree.show("WI-001")["title"], "one", "{}", tree.name);
        }
    }
}

#[test]
fn c7_what_one_side_took_back_and_the_other_changed_is_a_conflict() {
    for how in ["merge", "rebase"] {
        let world = world();
        let a = Tree::clone_of(&world, "a");
        a.jit(["issue", "update", "WI-001", "--title", "two"]);
        a.commit();
        let b = Tree::clone_of_tree(&world, &a, "b");
        let (code, said) = a.git(["revert", "--no-edit", "HEAD"]);
        assert_eq!(code, 0, "{said}");
        b.jit(["issue", "update", "WI-001", "--title", "three"]);
        b.commit();
        let (code, said) = match how {
            "merge" => b.take("merge", &a),
            _ => a.take("rebase", &b),
        };
        assert_ne!(code, 0, "{how}: {said}");
    }
}

#[test]
fn c7_what_is_carried_and_was_never_committed_is_no_conflict() {
    // What is changed by whoever changes it twice, and what the other does meanwhile.
    let fields = [
        ["--state", "in_progress", "done"],
        ["--priority", "critical", "high"],
    ];
    for [flag, first, second] in fields {
        for amends in [false, true] {
            let world = world();
            let a = Tree::clone_of(&world, "a");
            let (b, c) = (beside(&world, &a, "b"), beside(&world, &a, "c"));
            c.jit(["issue", "update", "WI-001", flag, first]);
            if amends {
                c.commit();
            }
            b.jit(["issue", "update", "WI-001", "--add-label", "x"]);
            b.commit();
            c.jit(["issue", "update", "WI-001", flag, second]);
            match amends {
                true => assert_eq!(c.git(["commit", "-q", "--amend", "-am", "again"]).0, 0),
                false => c.commit(),
            }
            for (name, from) in [("b", &b), ("c", &c)] {
                let (code, said) = a.git(["merge", "-q", "--no-edit", name]);
                assert_eq!(code, 0, "{flag} {}: {said}", from.name);
            }
            let issue = a.show("WI-001");
            assert_eq!(issue[&flag[2..]], second);
            assert_eq!(issue["labels"], json!(["old", "x"]));
            assert_eq!(a.status(), "");
        }
    }
}

#[test]
fn c7_what_one_worktree_made_on_two_branches_is_a_conflict() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    assert_eq!(a.git(["checkout", "-q", "-b", "x"]).0, 0);
    a.jit(["issue", "update", "WI-001", "--title", "of x"]);
    a.commit();
    assert_eq!(a.git(["checkout", "-q", "-"]).0, 0);
    a.jit(["issue", "update", "WI-001", "--title", "of the other"]);
    a.commit();
    let (code, said) = a.git(["merge", "--no-edit", "x"]);
    assert_ne!(code, 0, "{said}");
    assert!(said.contains("title"), "{said}");
}

/// Commits of one second say nothing about which of them took something back.
#[test]
fn e7_a_branch_that_only_has_what_was_reverted_does_not_bring_it_back() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    let at = |tree: &Tree<'_>, words: &[&str]| {
        let mut command = world.command("git", &tree.path);
        command
            .args(words)
            .env("GIT_COMMITTER_DATE", "@2000000000 +0000")
            .env("GIT_AUTHOR_DATE", "@2000000000 +0000");
        let _ = world.run(command).ok();
    };
    a.jit(["issue", "update", "WI-001", "--title", "first"]);
    at(&a, &["commit", "-qam", "first"]);
    a.jit(["issue", "update", "WI-001", "--title", "second"]);
    at(&a, &["commit", "-qam", "second"]);
    let w = beside(&world, &a, "w");
    at(&a, &["revert", "--no-edit", "HEAD"]);
    assert_eq!(a.show("WI-001")["title"], "first");
    for n in 0..3 {
        at(&w, &["commit", "-q", "--allow-empty", "-m", "else"]);
        for tree in [&w, &a] {
            let title = tree.show("WI-001")["title"].clone();
            assert_eq!(title, "first", "{n} {}", tree.name);
        }
    }
    // Whoever takes the revert back does so for all.
    at(&a, &["revert", "--no-edit", "HEAD"]);
    for tree in [&a, &w, &a] {
        assert_eq!(tree.show("WI-001")["title"], "second", "{}", tree.name);
    }
}

#[test]
fn c7_a_description_that_is_edited_twice_in_one_tree_was_not_changed_elsewhere() {
    let world = world();
    let a = Tree::clone_of(&world, "a");
    for text in ["one\n", "two\n", "three\n"] {
        a.edit("description.md", |_| text.to_owned());
        let shown = a.run(["issue", "show", "WI-001", "--json"]).ok();
        assert_eq!(shown.json()["description"], text);
        assert!(!shown.stderr.contains("elsewhere"), "{}", shown.stderr);
    }
}
