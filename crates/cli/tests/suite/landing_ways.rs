//! How a unit comes to its target, and what keeps it from there (H1 to H6, H8).

use std::fs;

use jit_core::decide::command::Command;
use jit_core::model::unit::{Facts, UnitInput};
use serde_json::{Value, json};

use crate::landing::{WHO, Yard};

fn verdicts(report: &Value) -> Vec<(String, String)> {
    let units = report["units"].as_array().expect("units");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    units
        .iter()
        .map(|one| (text(&one["unit"]), text(&one["verdict"])))
        .collect()
}

#[test]
fn h3_a_unit_goes_forward_where_that_is_possible() {
    let yard = Yard::new();
    let path = yard.done("u1", "new", "new\n");
    let tip = yard.rev(&path, "HEAD");
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["target"], "main");
    assert_eq!(report["units"][0]["verdict"], "landed");
    assert_eq!(report["units"][0]["how"], "fast-forward");
    assert_eq!(report["units"][0]["merge_commit"], tip.as_str());
    assert_eq!(yard.main(), tip);
    let unit = yard.phase("u1");
    assert_eq!(
        (&unit["state"], &unit["agent"]),
        (&json!("MERGED"), &json!("manual"))
    );
    assert_eq!(
        yard.merge(&["u1"]).ok().json()["units"][0]["verdict"],
        "already_landed"
    );
    assert_eq!(yard.landings("u1"), 1);
    yard.is_tidy();
}

#[test]
fn h3_a_target_that_moved_is_merged_and_the_commit_says_whose_it_is() {
    let yard = Yard::new();
    let path = yard.done("u1", "new", "new\n");
    let before = yard.push_to_main("theirs", "theirs\n");
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["units"][0]["how"], "merge");
    assert_eq!(yard.on_main("new").as_deref(), Some("new\n"));
    assert_eq!(yard.on_main("theirs").as_deref(), Some("theirs\n"));
    let parents = yard.world.git(&yard.repo(), ["log", "-1", "--format=%P", "main"]);
    assert_eq!(parents.trim(), format!("{before} {}", yard.rev(&path, "HEAD")));
    let message = yard
        .world
        .git(&yard.repo(), ["log", "-1", "--format=%(trailers)", "main"]);
    assert!(message.contains("JIT-Unit: u1\n"), "{message}");
    assert!(message.contains(&format!("JIT-Agent: {WHO}\n")), "{message}");
}

#[test]
fn h3_a_unit_can_be_squashed_and_is_known_again() {
    let yard = Yard::new();
    yard.configure("[merge]\nstrategy = \"squash\"");
    let path = yard.done("u1", "a", "a\n");
    yard.write(&path, "b", "b\n");
    yard.commit(&path, "second");
    let before = yard.main();
    assert_eq!(yard.merge(&["u1"]).ok().json()["units"][0]["how"], "squash");
    let parents = yard.world.git(&yard.repo(), ["log", "-1", "--format=%P", "main"]);
    assert_eq!(parents.trim(), before);
    assert_eq!(yard.on_main("b").as_deref(), Some("b\n"));
    assert_eq!(
        yard.merge(&["u1"]).ok().json()["units"][0]["verdict"],
        "already_landed"
    );
}

#[test]
fn h3_only_forward_refuses_what_would_have_to_be_merged() {
    let yard = Yard::new();
    yard.configure("[merge]\nstrategy = \"ff\"");
    yard.done("u1", "a", "a\n");
    let now = yard.push_to_main("b", "b\n");
    let refused = yard.merge(&["u1"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "not_allowed");
    assert_eq!(yard.main(), now);
}

#[test]
fn h5_a_conflict_is_told_with_both_sides_and_goes_on_after_a_person_settled_it() {
    let yard = Yard::new();
    let path = yard.done("u1", "file", "mine\n");
    let before = yard.push_to_main("file", "theirs\n");
    let ran = yard.merge(&["u1"]).exits(6);
    let unit = &ran.json()["units"][0];
    assert_eq!(unit["verdict"], "conflict");
    let conflict = &unit["conflicts"][0];
    assert_eq!(
        (&conflict["path"], &conflict["kind"]),
        (&json!("file"), &json!("content"))
    );
    assert_eq!(conflict["hunks"][0]["ours"], "theirs\n");
    assert_eq!(conflict["hunks"][0]["theirs"], "mine\n");
    assert!(
        conflict["ours_commits"][0]
            .as_str()
            .expect("one")
            .contains("by a person")
    );
    assert!(
        conflict["theirs_commits"][0]
            .as_str()
            .expect("one")
            .contains("u1: file")
    );
    assert_eq!(yard.main(), before);
    let phase = yard.phase("u1");
    assert_eq!(
        (&phase["state"], &phase["error"]["reason"]),
        (&json!("FAILED"), &json!("merge_conflict"))
    );
    assert_eq!(
        phase["merge_conflicts"],
        json!([{"path": "file", "kind": "content"}])
    );

    let mut merge = yard.world.command("git", &path);
    merge.args(["merge", "-q", "main"]);
    assert_eq!(yard.world.run(merge).code, 1);
    let unfinished = yard.merge(&["u1", "--continue"]).exits(5).json();
    assert_eq!(unfinished["error"]["code"], "uncommitted");
    yard.write(&path, "file", "both\n");
    yard.commit(&path, "settled");
    assert_eq!(
        yard.merge(&["u1", "--continue"]).ok().json()["units"][0]["verdict"],
        "landed"
    );
    assert_eq!(yard.on_main("file").as_deref(), Some("both\n"));
    let again = yard.merge(&["u1", "--continue"]).ok().json();
    assert_eq!(again["units"][0]["verdict"], "already_landed");
}

#[test]
fn h1_h5_a_path_with_line_ends_is_told_as_it_is() {
    let (name, shown) = ("two\nlines\tand one", "two\\nlines\\tand one");
    let yard = Yard::new();
    yard.done("a", name, "a\n");
    let b = yard.unit("b");
    yard.write(&b, name, "b\n");
    // Before anything is committed, and as an event.
    let text = yard.jit(["conflicts"]).ok().stdout;
    assert!(text.contains(&format!("add/add  {shown}\n")), "{text}");
    let picture = yard.jit(["conflicts", "--json"]).ok().json();
    assert_eq!(picture["conflicts"][0]["paths"][0]["path"], name, "{picture}");
    let _ = crate::landing_remote::Watcher::start(&yard).until(true);
    let text = yard.jit(["events", "--type", "conflict.found"]).ok().stdout;
    assert!(text.contains(&format!("a and b: {shown}\n")), "{text}");
    let events = yard.jit(["events", "--type", "conflict.found", "--json"]);
    let events = events.ok().json();
    let about = &events["events"][0]["payload"];
    assert_eq!(about["paths"][0]["path"], name, "{events}");
    yard.commit(&b, "b");
    let report = yard.merge(&["a", "b", "--dry-run"]).json();
    assert_eq!(report["overlap"][0]["some"][0], name, "{report}");
    // As a conflict of one that is to land, and afterwards.
    let _ = yard.merge(&["a"]).ok();
    let text = yard.jit(["worktree", "merge", "b"]).exits(6).stdout;
    assert!(text.contains(&format!("add/add  {shown}\n")), "{text}");
    let text = yard.jit(["worktree", "status", "b"]).ok().stdout;
    assert!(text.contains(&format!("{shown} (add/add)\n")), "{text}");
    let report = yard.merge(&["b"]).exits(6).json();
    let conflict = &report["units"][0]["conflicts"][0];
    assert_eq!(conflict["path"], name, "{report}");
    for side in ["ours_commits", "theirs_commits", "hunks"] {
        assert_eq!(
            conflict[side].as_array().map(Vec::len),
            Some(1),
            "{side}: {report}"
        );
    }
}

#[test]
fn h5_a_conflict_can_be_sent_back_a_bounded_number_of_times() {
    let yard = Yard::new();
    yard.configure("[merge]\nmax_conflict_rounds = 1");
    let path = yard.done("u1", "file", "mine\n");
    yard.push_to_main("file", "theirs\n");
    let ran = yard.merge(&["u1", "--send-back"]).exits(6).json();
    assert_eq!(ran["units"][0]["verdict"], "conflict");
    assert_eq!(
        ran["units"][0]["help"][0], "jit worktree merge u1 --continue",
        "it is there already"
    );
    let text = fs::read_to_string(path.join("file")).expect("a file");
    assert!(
        text.contains("<<<<<<<") && text.contains("mine") && text.contains("theirs"),
        "{text}"
    );
    assert_eq!(yard.phase("u1")["conflict_rounds"], 1);
    yard.write(&path, "file", "mine and theirs\n");
    yard.commit(&path, "settled");
    yard.push_to_main("file", "third\n");
    let refused = yard.merge(&["u1", "--send-back"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "not_allowed");
    // By hand it goes on, as is told.
    let help = refused["error"]["help"].clone();
    let merge = help[0].as_str().expect("help").to_owned();
    assert!(merge.contains(" merge main "), "{merge}");
    let mut command = yard.world.command("sh", &yard.repo());
    command.args(["-c", &merge]);
    let _ = yard.world.run(command).exits(1);
    yard.write(&path, "file", "all three\n");
    yard.commit(&path, "settled again");
    assert_eq!(help[1], "jit finish u1");
    let _ = yard.jit(["finish", "u1"]).ok();
    assert_eq!(yard.on_main("file").as_deref(), Some("all three\n"));
}

#[test]
fn h4_rules_settle_paths_and_come_from_the_target() {
    let yard = Yard::new();
    yard.configure("[merge]\nresolve = [\"notes.md = union\", \"gen/** = ours\", \"out = theirs\", \"lock = command: cat \\\"$JIT_OURS\\\" \\\"$JIT_THEIRS\\\" > \\\"$JIT_RESULT\\\"\"]");
    let path = yard.unit("u1");
    for (name, text) in [
        ("notes.md", "u\n"),
        ("gen/x", "u\n"),
        ("out", "u\n"),
        ("lock", "u\n"),
    ] {
        yard.write(&path, name, text);
    }
    // It may say what it likes about itself.
    let own = path.join(".jit/config.toml");
    let before = fs::read_to_string(&own).expect("a file");
    fs::write(&own, before.replace("\"out = theirs\"", "\"out = escalate\"")).expect("a file");
    yard.commit(&path, "u1");
    for (name, text) in [
        ("notes.md", "m\n"),
        ("gen/x", "m\n"),
        ("out", "m\n"),
        ("lock", "m\n"),
    ] {
        yard.push_to_main(name, text);
    }
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(
        report["units"][0]["settled"].as_array().map(Vec::len),
        Some(4),
        "{report}"
    );
    assert_eq!(yard.on_main("notes.md").as_deref(), Some("m\nu\n"));
    assert_eq!(yard.on_main("gen/x").as_deref(), Some("m\n"));
    assert_eq!(yard.on_main("out").as_deref(), Some("u\n"));
    assert_eq!(yard.on_main("lock").as_deref(), Some("m\nu\n"));
    yard.is_tidy();
}

#[test]
fn h4_the_later_status_of_a_tracker_stays() {
    let yard = Yard::new();
    yard.push_to_main(
        "WORKTRACKER.md",
        "# Work\n| A | open | 2026-02-01 |\n| B | open | 2026-02-01 |\n",
    );
    let path = yard.unit("u1");
    yard.write(
        &path,
        "WORKTRACKER.md",
        "# Work\n| A | done | 2026-02-03 |\n| B | open | 2026-02-01 |\n",
    );
    yard.commit(&path, "u1");
    yard.push_to_main(
        "WORKTRACKER.md",
        "# Work\n| A | blocked | 2026-02-02 |\n| B | done | 2026-02-02 |\n",
    );
    let _ = yard.merge(&["u1"]).ok();
    let expected = "# Work\n| A | done | 2026-02-03 |\n| B | done | 2026-02-02 |\n";
    assert_eq!(yard.on_main("WORKTRACKER.md").as_deref(), Some(expected));
}

#[test]
fn h2_clean_ones_go_first_and_a_dry_run_changes_nothing() {
    let yard = Yard::new();
    yard.done("big", "file", "big\n");
    yard.done("small", "new", "small\n");
    yard.done("apart", "other", "apart\n");
    yard.push_to_main("file", "theirs\n");
    let before = (yard.main(), yard.world.events().len());
    let report = yard.merge(&["--all", "--dry-run"]).exits(6).json();
    assert_eq!(
        report["order"].as_array().and_then(|all| all.last()),
        Some(&json!("big"))
    );
    assert_eq!((yard.main(), yard.world.events().len()), before);
    let report = yard.merge(&["--all"]).exits(6).json();
    let all = verdicts(&report);
    assert_eq!(
        all.last(),
        Some(&("big".to_owned(), "conflict".to_owned())),
        "{all:?}"
    );
    assert_eq!(all.iter().filter(|(_, verdict)| verdict == "landed").count(), 2);
}

#[test]
fn h2_the_overlap_is_told_and_checked_again_after_each() {
    let yard = Yard::new();
    yard.done("one", "file", "one\n");
    let path = yard.done("two", "file", "two\n");
    yard.write(&path, "more", "more\n");
    yard.commit(&path, "more");
    let report = yard.merge(&["one", "two"]).exits(6).json();
    assert_eq!(report["order"], json!(["one", "two"]), "fewer changes first");
    assert_eq!(report["overlap"][0]["some"], json!(["file"]));
    assert_eq!(verdicts(&report)[0].1, "landed");
    assert_eq!(verdicts(&report)[1].1, "conflict");
}

#[test]
fn h3_what_is_not_committed_is_refused_with_what_to_do() {
    let yard = Yard::new();
    let path = yard.done("u1", "a", "a\n");
    yard.write(&path, "b", "b\n");
    for args in [
        &["worktree", "merge", "u1", "--json"][..],
        &["finish", "u1", "--json"],
    ] {
        let refused = yard.jit(args).exits(5).json();
        assert_eq!(refused["error"]["code"], "uncommitted");
        assert!(
            refused["error"]["help"][0]
                .as_str()
                .expect("help")
                .contains("commit")
        );
    }
    assert_eq!(yard.phase("u1")["state"], "READY");
    let empty = yard.unit("empty");
    assert_eq!(
        yard.merge(&["empty"]).exits(6).json()["units"][0]["verdict"],
        "nothing"
    );
    // Following the target is not work.
    let _ = yard.push_to_main("x", "x\n");
    yard.world.git(&empty, ["merge", "-q", "main"]);
    assert_eq!(
        yard.merge(&["empty"]).exits(6).json()["units"][0]["verdict"],
        "nothing"
    );
}

#[test]
fn h3_a_landing_marks_the_issue_as_done_and_gives_the_claim_back() {
    let yard = Yard::new();
    let _ = yard
        .jit(["issue", "create", "Do it\u{1b}[31m", "--id", "WI-001"])
        .ok();
    let path = yard.unit_for("u1", Some("WI-001"));
    yard.write(&path, "new", "new\n");
    yard.commit(&path, "work");
    yard.push_to_main("x", "x\n");
    let ran = yard.world.jit_as_in(WHO, &path, ["finish", "--json"]).ok().json();
    assert_eq!(ran["units"][0]["issue_done"], true, "{ran}");
    let issue = yard.jit(["issue", "show", "WI-001", "--json"]).ok().json();
    assert_eq!((&issue["state"], &issue["lease"]), (&json!("done"), &Value::Null));
    let message = yard.world.git(&yard.repo(), ["log", "-1", "--format=%B", "main"]);
    assert!(
        message.contains("Issue: WI-001") && message.contains("JIT-Lease: "),
        "{message}"
    );
    assert!(!message.contains('\u{1b}'), "{message:?}");
}

#[test]
fn h3_a_unit_whose_issue_somebody_else_holds_is_theirs_to_land() {
    let yard = Yard::new();
    let _ = yard.jit(["issue", "create", "Do it", "--id", "WI-001"]).ok();
    let path = yard.unit_for("u1", Some("WI-001"));
    yard.write(&path, "new", "new\n");
    yard.commit(&path, "work");
    let before = yard.main();
    let refused = yard
        .world
        .jit_as("agent:other", ["worktree", "merge", "u1", "--json"])
        .exits(5)
        .json();
    assert_eq!(refused["error"]["code"], "not_holder");
    assert_eq!(yard.main(), before);
}

#[test]
fn h2_what_an_issue_depends_on_goes_first_or_it_waits() {
    let yard = Yard::new();
    let _ = yard.jit(["issue", "create", "First", "--id", "WI-001"]).ok();
    let _ = yard.jit(["issue", "create", "Second", "--id", "WI-002"]).ok();
    for (unit, issue) in [("second", "WI-002"), ("first", "WI-001")] {
        let path = yard.unit_for(unit, Some(issue));
        yard.write(&path, unit, "x\n");
        yard.commit(&path, unit);
    }
    let second = yard.world.root().join("second");
    let _ = yard
        .world
        .jit_as_in(WHO, &second, ["dep", "add", "WI-002", "WI-001"])
        .ok();
    let waiting = yard.merge(&["second"]).exits(6).json();
    assert_eq!(waiting["units"][0]["verdict"], "waiting", "{waiting}");
    let report = yard.merge(&["second", "first"]).ok().json();
    assert_eq!(report["order"], json!(["first", "second"]));
}

#[test]
fn h6_green_alone_and_red_together_never_reaches_the_target() {
    let yard = Yard::new();
    // Passes while at most one of the two is there.
    yard.configure("[merge]\nvalidate = [\"test ! -e a -o ! -e b\"]");
    yard.done("u1", "a", "a\n");
    yard.done("u2", "b", "b\n");
    yard.done("u3", "c", "c\n");
    let report = yard.merge(&["u1", "u2", "u3"]).exits(6).json();
    let mut all = verdicts(&report);
    all.sort();
    let landed = all.iter().filter(|(_, verdict)| verdict == "landed").count();
    assert_eq!(landed, 2, "{all:?}");
    assert!(
        all.iter().any(|(_, verdict)| verdict == "validation_failed"),
        "{all:?}"
    );
    assert!(yard.on_main("a").is_none() || yard.on_main("b").is_none());
    assert!(yard.on_main("c").is_some());
    let failed = all
        .iter()
        .find(|(_, verdict)| verdict == "validation_failed")
        .expect("one");
    let phase = yard.phase(&failed.0);
    assert_eq!(
        (&phase["state"], &phase["error"]["reason"]),
        (&json!("FAILED"), &json!("validation"))
    );
    // Every commit that the target ever pointed to passes.
    for commit in yard
        .world
        .git(&yard.repo(), ["reflog", "show", "--format=%H", "main"])
        .lines()
    {
        let tree = yard.world.git(&yard.repo(), ["ls-tree", "--name-only", commit]);
        let has = |name: &str| tree.lines().any(|line| line == name);
        assert!(!(has("a") && has("b")), "{commit}");
    }
    yard.is_tidy();
}

#[test]
fn h6_commands_that_were_not_approved_do_not_run() {
    let yard = Yard::new();
    yard.configure("[merge]\nvalidate = [\"false\"]");
    let _ = yard.jit(["trust", "--revoke"]).ok();
    yard.done("u1", "a", "a\n");
    let before = yard.main();
    let refused = yard.merge(&["u1"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "not_trusted");
    assert_eq!(
        (yard.main(), yard.phase("u1")["state"].clone()),
        (before, json!("READY"))
    );
}

#[test]
fn h6_gates_are_those_of_the_target_and_run_on_what_is_merged() {
    let yard = Yard::checked_out();
    let _ = yard
        .jit(["gate", "define", "both", "--command", "test -e theirs -a -e mine"])
        .ok();
    let _ = yard
        .jit(["issue", "create", "Do it", "--id", "WI-001", "--gate", "both"])
        .ok();
    yard.commit(&yard.repo(), "gate");
    yard.world.git(&yard.repo(), ["switch", "-q", "--detach"]);
    let path = yard.unit_for("u1", Some("WI-001"));
    yard.write(&path, "mine", "mine\n");
    // It makes the gate easier for itself.
    let registry = path.join(".jit/gates/registry.json");
    let text = fs::read_to_string(&registry).expect("a registry");
    fs::write(&registry, text.replace("test -e theirs -a -e mine", "true")).expect("a registry");
    yard.commit(&path, "work");
    let ran = yard.merge(&["u1"]).exits(6).json();
    assert_eq!(ran["units"][0]["verdict"], "validation_failed", "{ran}");
    yard.push_to_main("theirs", "theirs\n");
    yard.transact(&Command::AdvanceUnit {
        unit: "u1".parse().expect("a name"),
        input: UnitInput::RetryDispatch,
        facts: Box::new(Facts::default()),
    });
    let ran = yard.merge(&["u1"]).ok().json();
    assert_eq!(ran["units"][0]["validation"][0]["passed"], true);
    assert_eq!(ran["units"][0]["issue_done"], true, "{ran}");
}

#[test]
fn h6_fewer_tests_than_before_are_reported_or_refused() {
    let yard = Yard::new();
    yard.configure("[merge]\nfewer_tests = \"refuse\"\nvalidate = [\"echo \\\"test result: ok. $(cat count) passed; 0 failed\\\"\"]");
    yard.done("u1", "count", "12");
    let ran = yard.merge(&["u1"]).ok().json();
    assert_eq!(ran["units"][0]["validation"][0]["tests"], 12);
    yard.done("u2", "count", "9");
    let ran = yard.merge(&["u2"]).exits(6).json();
    let check = &ran["units"][0]["validation"][0];
    assert_eq!((&check["tests"], &check["tests_before"]), (&json!(9), &json!(12)));
    assert_eq!(yard.on_main("count").as_deref(), Some("12"));
}

#[test]
fn h8_worktrees_in_each_others_way_are_seen_before_anything_is_committed() {
    let yard = Yard::new();
    let one = yard.unit("one");
    let two = yard.unit("two");
    let _three = yard.done("three", "apart", "apart\n");
    yard.write(&one, "file", "one\n");
    yard.write(&two, "file", "two\n");
    yard.write(&one, "untracked", "one\n");
    yard.write(&two, "untracked", "two\n");
    let objects = || yard.world.git(&yard.repo(), ["count-objects", "-v"]);
    let index = |dir: &std::path::Path| {
        let path = yard.world.git(dir, ["rev-parse", "--git-path", "index"]);
        fs::read(dir.join(path.trim())).expect("an index")
    };
    let before = (objects(), index(&one), yard.picture(&one), yard.picture(&two));
    let picture = yard.jit(["conflicts", "--json"]).ok().json();
    assert_eq!(
        (objects(), index(&one), yard.picture(&one), yard.picture(&two)),
        before
    );
    let pairs = picture["conflicts"].as_array().expect("a list");
    assert_eq!(pairs.len(), 1, "{picture}");
    assert_eq!((&pairs[0]["a"], &pairs[0]["b"]), (&json!("one"), &json!("two")));
    let paths: Vec<&str> = pairs[0]["paths"]
        .as_array()
        .expect("paths")
        .iter()
        .filter_map(|p| p["path"].as_str())
        .collect();
    assert_eq!(paths, ["file", "untracked"]);
    yard.push_to_main("file", "main\n");
    let picture = yard.jit(["conflicts", "--json"]).ok().json();
    let with_main = picture["conflicts"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|pair| pair["b"] == "main")
        .count();
    assert_eq!(with_main, 2, "{picture}");
    yard.is_tidy();
}

#[test]
fn h3_issue_files_merge_by_their_fields_though_jit_is_not_on_the_path() {
    let yard = Yard::checked_out();
    let repo = yard.repo();
    let _ = yard.jit(["issue", "create", "Do it", "--id", "WI-001"]).ok();
    yard.commit(&repo, "an issue");
    let path = yard.unit("u1");
    let _ = yard
        .world
        .jit_as_in(WHO, &path, ["issue", "update", "WI-001", "--title", "Do it well"])
        .ok();
    yard.commit(&path, "a title");
    let _ = yard.jit(["issue", "update", "WI-001", "--priority", "high"]).ok();
    yard.commit(&repo, "a priority");
    let mut plain = yard.world.command("git", &path);
    plain.args([
        "-c",
        "merge.jit-issue.driver=false",
        "merge-tree",
        "--write-tree",
        "main",
        "u1",
    ]);
    assert_eq!(yard.world.run(plain).code, 1, "without the driver they conflict");
    let _ = yard.merge(&["u1"]).ok();
    let text = yard.on_main(".jit/issues/WI-001/issue.json").expect("a file");
    let issue: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&issue["title"], &issue["priority"]),
        (&json!("Do it well"), &json!("high"))
    );
}

#[test]
fn h5_what_is_left_of_the_marks_does_not_land_and_what_was_there_before_does() {
    let yard = Yard::new();
    let marks = "<<<<<<< how marks look\n=======\n>>>>>>> to this\n";
    yard.push_to_main("about.md", marks);
    let path = yard.done("u1", "file", "mine\n");
    yard.write(&path, "about.md", &format!("Marks:\n{marks}"));
    yard.commit(&path, "text");
    yard.push_to_main("file", "theirs\n");
    let _ = yard.merge(&["u1", "--send-back"]).exits(6);
    for left in [
        "mine\n=======\ntheirs\n>>>>>>> main\n",
        "||||||| base\nmine\n",
        "<<<<<<< HEAD\nmine\n",
    ] {
        yard.write(&path, "file", left);
        yard.commit(&path, "half");
        let refused = yard.merge(&["u1", "--continue"]).exits(6).json();
        assert!(refused.to_string().contains("marks of its conflict"), "{refused}");
    }
    // Also where nobody saw a conflict.
    yard.write(&path, "file", "both\n=======\n");
    yard.write(&path, "other", "x\n>>>>>>> main\n");
    yard.commit(&path, "elsewhere");
    let refused = yard.merge(&["u1", "--continue"]).exits(6).json();
    assert!(refused.to_string().contains("other still has marks"), "{refused}");
    // Unless it is said that these are none.
    yard.write(&path, ".gitattributes", "other conflict-marker-size=32\n");
    yard.commit(&path, "said");
    let _ = yard.merge(&["u1", "--continue"]).ok();
    assert_eq!(yard.on_main("file").as_deref(), Some("both\n=======\n"));
}

#[test]
fn h5_a_conflict_that_was_committed_with_its_marks_does_not_land() {
    let yard = Yard::new();
    let path = yard.done("u1", "file", "mine\n");
    yard.push_to_main("file", "theirs\n");
    let _ = yard.merge(&["u1", "--send-back"]).exits(6);
    yard.commit(&path, "oops");
    let refused = yard.merge(&["u1", "--continue"]).exits(6).json();
    assert!(refused.to_string().contains("marks of its conflict"), "{refused}");
    assert_eq!(yard.on_main("file").as_deref(), Some("theirs\n"));
    yard.write(&path, "file", "both\n");
    yard.commit(&path, "settled");
    let _ = yard.merge(&["u1", "--continue"]).ok();
    assert_eq!(yard.on_main("file").as_deref(), Some("both\n"));
}

/// I6: what landed when, tested how, from which unit, lease and agent.
#[test]
fn i6_the_log_says_what_was_passed_and_under_which_lease() {
    let yard = Yard::new();
    yard.configure("[merge]\nvalidate = [\"echo 3 passed, 0 failed\"]");
    let _ = yard.jit(["issue", "create", "Do it", "--id", "WI-001"]).ok();
    let path = yard.unit_for("u1", Some("WI-001"));
    let held = yard.jit(["claim", "list", "--json"]).ok().json();
    yard.write(&path, "new", "new\n");
    yard.commit(&path, "work");
    let _ = yard.merge(&["u1"]).ok();
    let one = yard.jit(["log", "--json"]).ok().json()["landed"][0].clone();
    assert_eq!(one["unit"], "u1");
    assert_eq!(one["lease_id"], held["active"][0]["lease_id"]);
    assert!(one["lease_id"].is_string(), "{one}");
    let tested = one["tested"].as_array().expect("a list");
    assert_eq!(tested.len(), 1, "{one}");
    let text = yard.jit(["log"]).ok().stdout;
    let name = tested[0]["name"].as_str().expect("a name");
    assert!(text.contains(&format!("passed {name}")), "{text}");
}
