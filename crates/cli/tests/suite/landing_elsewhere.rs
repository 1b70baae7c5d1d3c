//! A unit that somebody sends to another branch than its own (`--into`): it goes there, stays known as being there, and what is
//! refused or put back on the way is not told as landed (H3, H5, G12).

use std::fs;
use std::path::{Path, PathBuf};

use jit_core::decide::command::Command;
use jit_core::model::unit::{Facts, UnitInput};
use serde_json::{Value, json};

use crate::landing::{WHO, Yard};

/// A branch that goes on from `main`, with a commit of its own. Nobody has it checked out.
fn branch(yard: &Yard, name: &str, file: &str, text: &str) -> PathBuf {
    let dir = yard.world.root().join(format!("tree-{name}"));
    let path = dir.to_string_lossy().into_owned();
    let words = ["worktree", "add", "-q", "-b", name, path.as_str(), "main"];
    yard.world.git(&yard.repo(), words);
    yard.write(&dir, file, text);
    yard.commit(&dir, &format!("{name}: {file}"));
    yard.world.git(&dir, ["switch", "-q", "--detach"]);
    dir
}

fn on(yard: &Yard, branch: &str, file: &str) -> String {
    let object = format!("refs/heads/{branch}:{file}");
    yard.world.git(&yard.repo(), ["cat-file", "blob", &object])
}

/// Runs a command as it was printed.
fn obey(yard: &Yard, command: &Value) -> jit_testkit::world::Ran {
    let words: Vec<&str> = command.as_str().expect("a command").split(' ').collect();
    assert_eq!(words[0], "jit", "{command}");
    yard.jit(&words[1..])
}

#[test]
fn h5_a_conflict_on_another_branch_is_settled_for_that_branch() {
    for printed in [true, false] {
        let yard = Yard::new();
        let path = yard.done("u1", "file", "mine\n");
        branch(&yard, "release", "file", "theirs\n");
        let before = yard.main();
        let report = yard.merge(&["u1", "--into", "release"]).exits(6).json();
        let help = &report["units"][0]["help"];
        assert_eq!(
            help[1], "jit worktree merge u1 --continue --into release",
            "{report}"
        );
        assert_eq!(
            help[2], "jit worktree merge u1 --send-back --into release",
            "{report}"
        );
        let mut merge = yard.world.command("git", &path);
        merge.args(["merge", "-q", "release"]);
        assert_eq!(yard.world.run(merge).code, 1);
        yard.write(&path, "file", "both\n");
        yard.commit(&path, "settled");
        // Without the branch it is still the one that it was sent to.
        let plain = json!("jit worktree merge u1 --continue");
        let _ = obey(&yard, if printed { &help[1] } else { &plain }).ok();
        assert_eq!(on(&yard, "release", "file"), "both\n");
        assert_eq!(yard.main(), before);
    }
}

#[test]
fn h5_a_unit_that_was_sent_elsewhere_holds_nobody_up_and_its_way_is_told() {
    let yard = Yard::new();
    yard.done("u1", "file", "mine\n");
    branch(&yard, "release", "file", "theirs\n");
    let _ = yard.merge(&["u1", "--into", "release"]).exits(6);
    yard.done("u2", "other", "changed\n");
    let report = yard.merge(&["--all"]).ok().json();
    assert_eq!(report["target"], "main", "{report}");
    assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
    let ran = yard.merge(&["u1", "--dry-run"]);
    let way = "u1 goes to release, where it was sent; to main: jit worktree merge u1 --into main";
    assert!(ran.stderr.contains(way), "{}", ran.stderr);
    let report = yard.merge(&["u1", "--into", "main"]).ok().json();
    assert_eq!(report["target"], "main", "{report}");
    assert_eq!(on(&yard, "main", "file"), "mine\n");
}

#[test]
fn h6_what_failed_on_another_branch_is_tried_there_again() {
    let yard = Yard::new();
    yard.configure("[merge]\nvalidate = [\"test -e mended\"]");
    let path = yard.done("u1", "new", "new\n");
    branch(&yard, "release", "theirs", "theirs\n");
    let before = yard.main();
    let report = yard.merge(&["u1", "--into", "release"]).exits(6).json();
    yard.write(&path, "mended", "mended\n");
    yard.commit(&path, "mended");
    let _ = obey(&yard, &report["units"][0]["help"][0]).ok();
    let _ = yard.jit(["finish", "u1"]).ok();
    assert_eq!(on(&yard, "release", "mended"), "mended\n");
    assert_eq!(yard.main(), before);
}

#[test]
fn g12_what_landed_on_another_branch_is_finished_there_and_told_as_there() {
    let yard = Yard::new();
    let path = yard.done("u1", "new", "new\n");
    branch(&yard, "release", "theirs", "theirs\n");
    let before = yard.main();
    let _ = yard.merge(&["u1", "--into", "release"]).ok();
    let landed = yard.rev(&yard.repo(), "release");
    let log = yard.jit(["log", "--json"]).ok().json();
    assert!(log.to_string().contains("\"target\":\"release\""), "{log}");
    // What others do is not held up by it.
    yard.done("u2", "other", "changed\n");
    let report = yard.merge(&["--all", "--dry-run"]).ok().json();
    assert_eq!(report["target"], "main", "{report}");
    assert_eq!(report["units"][0]["unit"], "u2", "{report}");
    // Nor is it landed once more, or kept as something that nobody has.
    for _ in 0..2 {
        let ran = yard.jit(["finish", "u1", "--json"]).ok();
        let report = ran.json();
        // What is removed in the same breath cannot go anywhere else any more.
        let told = "u1 went to release, where it was sent, and not to main";
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
        assert!(!ran.stderr.contains("--into"), "{}", ran.stderr);
        assert_eq!(report["target"], "release", "{report}");
        assert_eq!(report["units"][0]["verdict"], "already_landed", "{report}");
        assert_eq!(yard.phase("u1")["state"], "IDLE");
    }
    assert!(!path.exists());
    assert_eq!(yard.main(), before);
    assert_eq!(yard.rev(&yard.repo(), "release"), landed);
    assert_eq!(yard.landings("u1"), 1);
    let refused = yard.merge(&["u1", "--into", "main"]).exits(3).json();
    let message = refused["error"]["message"].as_str().expect("text");
    assert!(message.contains("landed on release"), "{refused}");
}

#[test]
fn g12_what_stays_after_it_landed_elsewhere_goes_to_its_target_by_what_is_told() {
    let yard = Yard::new();
    let path = yard.done("u1", "new", "new\n");
    branch(&yard, "release", "theirs", "theirs\n");
    let _ = yard.merge(&["u1", "--into", "release"]).ok();
    // Whoever is in its worktree keeps it.
    let ran = yard.world.jit_as_in(WHO, &path, ["finish"]).ok();
    assert!(path.exists());
    let way = "to main: jit worktree merge u1 --into main";
    assert!(ran.stderr.contains(way), "{}", ran.stderr);
    let _ = yard.merge(&["u1", "--into", "main"]).ok();
    assert_eq!(yard.on_main("new").as_deref(), Some("new\n"));
}

#[test]
fn h3_another_branch_that_has_landings_is_told_as_not_pushed() {
    let yard = Yard::new();
    branch(&yard, "release", "theirs", "theirs\n");
    let bare = yard.world.root().join("shared.git");
    let bare = bare.to_string_lossy().into_owned();
    yard.world
        .git(yard.world.root(), ["init", "-q", "--bare", bare.as_str()]);
    yard.world.git(&yard.repo(), ["remote", "add", "origin", &bare]);
    yard.world
        .git(&yard.repo(), ["push", "-q", "-u", "origin", "main", "release"]);
    yard.done("u1", "new", "new\n");
    let _ = yard.merge(&["u1", "--into", "release"]).ok();
    let status = yard.jit(["status", "--json"]).ok().json();
    assert_eq!(status["unpushed"][0]["branch"], "release", "{status}");
    assert_eq!(status["unpushed"][0]["command"], "git push origin release");
}

/// A check that puts a file in the way of the landing, once.
fn in_the_way(yard: &Yard) -> PathBuf {
    let (once, file) = (yard.world.root().join("once"), yard.repo().join("new"));
    yard.configure(&format!(
        "[merge]\nvalidate = [\"test -e '{0}' || {{ touch '{0}'; echo mine > '{1}'; }}\"]",
        once.display(),
        file.display()
    ));
    yard.world.git(&yard.repo(), ["reset", "-q", "--hard", "main"]);
    file
}

#[test]
fn h3_what_is_refused_at_the_last_step_waits_and_may_go_elsewhere() {
    let yard = Yard::checked_out();
    let file = in_the_way(&yard);
    yard.done("u1", "new", "new\n");
    yard.world.git(&yard.repo(), ["branch", "stable", "main"]);
    let before = yard.main();
    let refused = yard.merge(&["u1"]).exits(5).json();
    assert_eq!(refused["error"]["code"], "target_dirty", "{refused}");
    assert_eq!(yard.phase("u1")["state"], "COMPLETED");
    let report = yard.merge(&["u1", "--into", "stable"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
    assert_eq!(yard.main(), before);
    assert_eq!(fs::read_to_string(file).expect("a file"), "mine\n");
}

#[test]
fn h5_a_settled_conflict_that_is_refused_at_the_last_step_goes_on_with_the_same_command() {
    let yard = Yard::checked_out();
    let file = in_the_way(&yard);
    let path = yard.done("u1", "file", "mine\n");
    yard.write(&yard.repo(), "file", "theirs\n");
    yard.commit(&yard.repo(), "theirs");
    let _ = yard.merge(&["u1"]).exits(6);
    let mut merge = yard.world.command("git", &path);
    merge.args(["merge", "-q", "main"]);
    assert_eq!(yard.world.run(merge).code, 1);
    yard.write(&path, "file", "both\n");
    yard.write(&path, "new", "new\n");
    yard.commit(&path, "settled");
    let _ = yard.merge(&["u1", "--continue"]).exits(5);
    fs::remove_file(file).expect("removed");
    let _ = yard.merge(&["u1", "--continue"]).ok();
    assert_eq!(yard.on_main("file").as_deref(), Some("both\n"));
}

fn killed_at(yard: &Yard, step: &str) {
    let mut killed = yard.world.jit_command(&yard.repo());
    killed.env("JIT_AGENT_ID", WHO).env("JIT_TEST_DIE_AT", step);
    killed.args(["worktree", "merge", "u1"]);
    let _ = yard.world.run(killed).exits(137);
}

/// A unit with an issue and a commit.
fn with_issue(yard: &Yard) -> PathBuf {
    let _ = yard.jit(["issue", "create", "Work", "--id", "WI-1"]).ok();
    let path = yard.unit_for("u1", Some("WI-1"));
    yard.write(&path, "new", "new\n");
    yard.commit(&path, "work");
    path
}

fn issue_state(yard: &Yard) -> Value {
    let shown = yard.jit(["issue", "show", "WI-1", "--json"]).ok().json();
    shown["state"].clone()
}

#[test]
fn g12_a_branch_that_was_put_back_to_the_target_has_not_landed() {
    for begun in [true, false] {
        let yard = Yard::new();
        let path = with_issue(&yard);
        if begun {
            killed_at(&yard, "begun");
        }
        yard.push_to_main("theirs", "theirs\n");
        yard.world.git(&path, ["reset", "-q", "--hard", "main"]);
        let report = yard.merge(&["u1"]).exits(6).json();
        assert_eq!(report["units"][0]["verdict"], "nothing", "{report}");
        assert_ne!(issue_state(&yard), "done");
        assert_eq!(yard.landings("u1"), 0);
    }
}

#[test]
fn g12_a_killed_landing_is_known_where_git_keeps_no_reflogs() {
    let yard = Yard::new();
    let path = yard.done("u1", "new", "new\n");
    yard.world
        .git(&yard.repo(), ["config", "core.logAllRefUpdates", "false"]);
    let logs: &Path = &yard.repo().join(".git/logs");
    fs::remove_dir_all(logs).expect("removed");
    killed_at(&yard, "moved");
    assert_eq!(yard.main(), yard.rev(&path, "HEAD"));
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "already_landed", "{report}");
    assert_eq!(yard.landings("u1"), 1);
}

#[test]
fn g12_work_that_others_merged_has_landed_though_the_branch_went_on_to_the_target() {
    let yard = Yard::new();
    let path = yard.done("u1", "new", "new\n");
    let tip = yard.rev(&path, "HEAD");
    yard.world
        .git(&yard.repo(), ["update-ref", "refs/heads/main", &tip]);
    yard.push_to_main("theirs", "theirs\n");
    yard.world.git(&path, ["merge", "-q", "--ff-only", "main"]);
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "already_landed", "{report}");
}

#[test]
fn g12_a_branch_whose_commits_were_thrown_away_has_not_landed_whatever_it_follows_then() {
    let git = |yard: &Yard, path: &Path, words: &[&str]| yard.world.git(path, words.iter());
    type Put = fn(&Yard, &Path, &dyn Fn(&Yard, &Path, &[&str]) -> String);
    let ways: [(&str, Put); 5] = [
        ("auto", |yard, path, git| {
            git(yard, path, &["reset", "-q", "--hard", "HEAD~1"]);
            git(yard, path, &["rebase", "-q", "main"]);
        }),
        ("auto", |yard, path, git| {
            // To a commit that is neither its base nor the target.
            git(yard, path, &["reset", "-q", "--hard", "main~1"]);
            git(yard, path, &["pull", "-q", "--rebase", ".", "main"]);
        }),
        ("auto", |yard, path, git| {
            git(yard, path, &["reset", "-q", "--hard", "main~1"]);
            git(yard, path, &["cherry-pick", "--ff", "main"]);
        }),
        ("merge", |yard, path, git| {
            // To what another unit landed.
            git(yard, path, &["reset", "-q", "--hard", "u2"]);
        }),
        ("squash", |yard, path, git| {
            git(yard, path, &["reset", "-q", "--hard", "u2"]);
        }),
    ];
    for (n, (strategy, put)) in ways.into_iter().enumerate() {
        let yard = Yard::new();
        yard.configure(&format!("[merge]\nstrategy = \"{strategy}\""));
        let path = with_issue(&yard);
        yard.done("u2", "two", "two\n");
        let _ = yard.merge(&["u2"]).ok();
        if strategy == "auto" {
            for name in ["a", "b"] {
                yard.push_to_main(name, "theirs\n");
            }
        }
        put(&yard, &path, &git);
        let report = yard.merge(&["u1"]).exits(6).json();
        assert_eq!(report["units"][0]["verdict"], "nothing", "{n}: {report}");
        assert_ne!(issue_state(&yard), "done", "{n}");
        assert_eq!(yard.landings("u1"), 0, "{n}");
    }
}

#[test]
fn g12_work_that_others_brought_has_landed_though_a_rebase_dropped_or_remade_it() {
    for way in ["dropped", "remade"] {
        let yard = Yard::new();
        let path = with_issue(&yard);
        if way == "dropped" {
            // Somebody takes the patch, not the commit.
            yard.push_to_main("new", "new\n");
            yard.push_to_main("theirs", "theirs\n");
            yard.world.git(&path, ["rebase", "-q", "main"]);
            assert_eq!(yard.rev(&path, "HEAD"), yard.main());
        } else {
            yard.push_to_main("theirs", "theirs\n");
            yard.world.git(&path, ["rebase", "-q", "main"]);
            let tip = yard.rev(&path, "HEAD");
            yard.world
                .git(&yard.repo(), ["update-ref", "refs/heads/main", &tip]);
            yard.push_to_main("more", "theirs\n");
            yard.world.git(&path, ["rebase", "-q", "main"]);
        }
        let report = yard.merge(&["u1"]).ok().json();
        assert_eq!(report["units"][0]["verdict"], "already_landed", "{way}: {report}");
        assert_eq!(issue_state(&yard), "done", "{way}");
    }
}

/// H3: what names a commit is no branch to land on. A unit that was sent there by an older program is not stuck.
#[test]
fn h3_only_a_branch_is_landed_on() {
    let yard = Yard::new();
    yard.done("u1", "mine", "mine\n");
    branch(&yard, "release", "theirs", "theirs\n");
    let before = yard.world.events().len();
    for name in [
        "release^",
        "release@{0}",
        "main~0",
        "main^{commit}",
        "main..release",
    ] {
        let refused = yard.merge(&["u1", "--into", name]).exits(3).json();
        assert_eq!(refused["error"]["code"], "not_found", "{refused}");
        let _ = yard.merge(&["u1", "--dry-run", "--into", name]).exits(3);
        let _ = yard.jit(["conflicts", "--into", name]).exits(3);
    }
    assert_eq!(yard.world.events().len(), before, "nothing was written");
    for input in [
        UnitInput::DispatchInstance,
        UnitInput::InstanceRunning,
        UnitInput::InstanceCompleted,
        UnitInput::BeginMerge,
    ] {
        yard.transact(&Command::AdvanceUnit {
            unit: "u1".parse().expect("a name"),
            input,
            facts: Box::new(Facts {
                landing_on: Some("release^".to_owned()),
                tip: Some(yard.rev(&yard.repo(), "u1")),
                ..Facts::default()
            }),
        });
    }
    let refused = yard.jit(["finish", "u1", "--json"]).exits(3).json();
    let _ = obey(&yard, &refused["error"]["help"][0]).ok();
    assert_eq!(on(&yard, "main", "mine"), "mine\n");
    let _ = yard.jit(["finish", "u1"]).ok();
}

/// H3: another name of a branch is that branch, so whoever lands on either has the same turn.
#[test]
fn h3_another_name_of_a_branch_is_that_branch() {
    let yard = Yard::new();
    yard.done("u1", "mine", "mine\n");
    yard.world.git(
        &yard.repo(),
        ["symbolic-ref", "refs/heads/alias", "refs/heads/main"],
    );
    let report = yard.merge(&["u1", "--into", "alias"]).ok().json();
    assert_eq!(report["target"], "main", "{report}");
    assert_eq!(yard.phase("u1")["landing_on"], Value::Null);
    yard.done("u2", "more", "more\n");
    let report = yard.merge(&["--all", "--into", "alias"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
    assert_eq!(yard.phase("u2")["landing_on"], Value::Null);
}

/// H3, G12: the branch that a unit landed on is gone, and what it had is on the unit's own target, or on what that is called now.
#[test]
fn h3_a_unit_whose_branch_went_into_its_target_is_finished() {
    for way in ["finish", "merge", "renamed"] {
        let yard = Yard::new();
        let path = yard.done("u1", "mine", "mine\n");
        let dir = branch(&yard, "release", "theirs", "theirs\n");
        let repo = yard.repo();
        if way == "renamed" {
            let _ = yard.merge(&["u1"]).ok();
            yard.world.git(&repo, ["branch", "-m", "main", "trunk"]);
            yard.world.git(&repo, ["config", "init.defaultBranch", "trunk"]);
            let _ = yard.jit(["config", "set", "merge.target", "trunk"]).ok();
        } else {
            let _ = yard.merge(&["u1", "--into", "release"]).ok();
            yard.world.git(&dir, ["switch", "-q", "--detach", "main"]);
            yard.world.git(&dir, ["merge", "-q", "release"]);
            let merged = yard.rev(&dir, "HEAD");
            yard.world.git(&dir, ["update-ref", "refs/heads/main", &merged]);
            yard.world.git(&repo, ["branch", "-q", "-D", "release"]);
        }
        if way == "merge" {
            let _ = yard.merge(&["u1", "--into", "main"]).ok();
            assert_eq!(yard.phase("u1")["landing_on"], Value::Null);
        }
        let _ = yard.jit(["finish", "u1"]).ok();
        assert!(!path.exists(), "{way}");
    }
}

/// I6: a unit in conflict needs somebody, with an issue or without.
#[test]
fn i6_status_names_a_unit_in_conflict() {
    let yard = Yard::new();
    yard.done("u1", "file", "mine\n");
    let _ = yard.jit(["issue", "create", "A", "--id", "WI-1"]).ok();
    let path = yard.unit_for("u2", Some("WI-1"));
    yard.write(&path, "file", "yours\n");
    yard.commit(&path, "yours");
    yard.push_to_main("file", "theirs\n");
    let _ = yard.merge(&["u1"]).exits(6);
    let _ = yard.merge(&["u2"]).exits(6);
    let status = yard.jit(["status", "--json"]).ok().json();
    let needs = status["needs_attention"].to_string();
    for word in [
        "\"u1\"",
        "jit worktree merge u1",
        "\"WI-1\"",
        "jit worktree merge u2",
    ] {
        assert!(needs.contains(word), "{word}: {status}");
    }
}

/// Two units with work, the issue of one of which depends on that of the other, and another branch.
fn dependent() -> Yard {
    let yard = Yard::new();
    let _ = yard.jit(["issue", "create", "A", "--id", "WI-1"]).ok();
    let _ = yard
        .jit(["issue", "create", "B", "--id", "WI-2", "--depends-on", "WI-1"])
        .ok();
    for (unit, issue) in [("u1", "WI-1"), ("u2", "WI-2")] {
        let path = yard.unit_for(unit, Some(issue));
        yard.write(&path, unit, unit);
        yard.commit(&path, unit);
    }
    branch(&yard, "release", "theirs", "theirs\n");
    yard
}

/// H2: what an issue depends on is where it goes, or it waits, and that is told.
#[test]
fn h2_a_dependency_that_landed_elsewhere_is_waited_for() {
    let yard = dependent();
    let _ = yard.merge(&["u1", "--into", "release"]).ok();
    let report = yard.merge(&["--all"]).exits(6).json();
    let told = &report["units"][0];
    assert_eq!(
        (&told["unit"], &told["verdict"]),
        (&json!("u2"), &json!("waiting")),
        "{report}"
    );
    assert!(
        told["message"].to_string().contains("landed on release"),
        "{report}"
    );
    assert_eq!(yard.on_main("u2"), None);
    let _ = obey(&yard, &told["help"][0]).ok();
    let _ = yard.merge(&["--all"]).ok();
    assert_eq!(yard.on_main("u2").as_deref(), Some("u2"));
}

/// H2: what landed here before it was brought elsewhere too, or was merged here by hand, is here.
#[test]
fn h2_a_dependency_that_is_on_both_branches_is_not_waited_for() {
    for by_hand in [false, true] {
        let yard = dependent();
        if !by_hand {
            let _ = yard.merge(&["u1"]).ok();
        }
        let branch = yard.jit(["worktree", "status", "u1", "--json"]).ok().json();
        let branch = branch["branch"].as_str().expect("a branch").to_owned();
        let _ = yard.merge(&["u1", "--into", "release"]).ok();
        if by_hand {
            yard.world.git(&yard.repo(), ["switch", "-q", "main"]);
            yard.world
                .git(&yard.repo(), ["merge", "-q", "--no-ff", "--no-edit", &branch]);
        }
        let _ = yard.merge(&["u2"]).ok();
        assert_eq!(yard.on_main("u2").as_deref(), Some("u2"));
    }
}

/// H3: of two who land a unit at once, the later one hears what the other does.
#[test]
fn h3_who_is_overtaken_hears_by_what() {
    use std::os::unix::fs::PermissionsExt as _;
    for (dies_at, says) in [
        ("begun", "is landing u1 on release"),
        ("-", "has landed u1 on release"),
    ] {
        let yard = Yard::new();
        yard.done("u1", "mine", "mine\n");
        branch(&yard, "release", "theirs", "theirs\n");
        let bin = yard.world.root().join("bin");
        fs::create_dir_all(&bin).expect("a folder");
        // When this one has looked at the unit, another begins with it.
        let script = format!(
            "#!/bin/sh\nPATH=${{PATH#*:}}\ncase \"$*\" in *merge-tree*)\nif ! [ -e '{once}' ]; then\n: > '{once}'\n\
             (unset GIT_DIR; cd '{repo}'; JIT_TEST_DIE_AT={dies_at} '{jit}' --agent-id {WHO} worktree merge u1 \
             --into release) > /dev/null 2>&1\nfi;;\nesac\nexec git \"$@\"\n",
            once = yard.world.root().join("once").display(),
            repo = yard.repo().display(),
            jit = env!("CARGO_BIN_EXE_jit"),
        );
        fs::write(bin.join("git"), script).expect("a file");
        fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).expect("a mode");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("PATH"));
        let mut command = yard.world.jit_command(&yard.repo());
        command
            .env("PATH", path)
            .args(["--agent-id", WHO, "worktree", "merge", "u1", "--json"]);
        let refused = yard.world.run(command).exits(4).json();
        assert_eq!(refused["error"]["code"], "busy", "{refused}");
        assert!(
            refused["error"]["message"].to_string().contains(says),
            "{refused}"
        );
        if dies_at == "begun" {
            let _ = obey(&yard, &refused["error"]["help"][0]).ok();
        }
        assert_eq!(on(&yard, "release", "mine"), "mine\n");
    }
}

/// H2: a folder in the place of a file that has a say about landings is told as that.
#[test]
fn h2_a_folder_in_the_place_of_the_settings_is_told() {
    let yard = Yard::new();
    let path = yard.unit("u1");
    let _ = fs::remove_file(path.join(".jit/config.toml"));
    yard.write(&path, ".jit/config.toml/x", "x\n");
    yard.world.git(&path, ["add", "-f", ".jit/config.toml/x"]);
    yard.commit(&path, "a folder");
    let refused = yard.merge(&["u1"]).exits(2).json();
    assert_eq!(refused["error"]["code"], "config", "{refused}");
    let message = refused["error"]["message"].to_string();
    assert!(message.contains(".jit/config.toml is not a file"), "{refused}");
}
