//! What a landing tells: of rules that failed (H4), of work that went on (G1), of what stands in the way (H3), of what others
//! have not got (H3), and what is left of a squash (H7).

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::landing::{WHO, Yard};

#[test]
fn h4_a_rule_whose_command_failed_is_told_with_its_output() {
    for (command, reason, code) in [
        (
            "echo before; echo it is broken >&2; exit 3",
            "exit code 3",
            json!(3),
        ),
        ("true", "it wrote nothing to $JIT_RESULT", json!(0)),
        (
            "true > $JIT_RESULT",
            "it wrote nothing to $JIT_RESULT, and no side is empty",
            json!(0),
        ),
    ] {
        let yard = Yard::new();
        yard.configure(&format!("[merge]\nresolve = [\"file = command: {command}\"]"));
        yard.done("u1", "file", "mine\n");
        yard.push_to_main("file", "theirs\n");
        let report = yard.merge(&["u1"]).exits(6).json();
        let conflict = &report["units"][0]["conflicts"][0];
        let rule = &conflict["failed_rule"];
        assert_eq!(rule["reason"], reason, "{report}");
        assert_eq!(rule["exit_code"], code, "{report}");
        assert_eq!(rule["command"], command, "{report}");
        if code == json!(3) {
            assert!(
                rule["output"].as_str().expect("text").contains("it is broken"),
                "{rule}"
            );
        }
        let message = report["units"][0]["message"].as_str().expect("text");
        assert!(message.contains(reason), "{message}");
        let said = yard
            .jit(["worktree", "merge", "u1", "--continue"])
            .exits(6)
            .stdout;
        assert!(
            said.contains("the rule's command failed") && said.contains(reason),
            "{said}"
        );
    }
    // One side is empty: so may the result be.
    let yard = Yard::new();
    yard.configure("[merge]\nresolve = [\"file = command: true > $JIT_RESULT\"]");
    yard.done("u1", "file", "");
    yard.push_to_main("file", "theirs\n");
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(yard.on_main("file").as_deref(), Some(""));
    // It has as long as a check has.
    let yard = Yard::new();
    yard.configure("[merge]\nvalidate_timeout_secs = 1\nresolve = [\"file = command: sleep 60\"]");
    yard.done("u1", "file", "mine\n");
    yard.push_to_main("file", "theirs\n");
    let report = yard.merge(&["u1"]).exits(6).json();
    let rule = &report["units"][0]["conflicts"][0]["failed_rule"];
    assert_eq!(rule["reason"], "it did not end in time and was ended", "{report}");
    // Where nothing failed there is nothing to tell.
    let yard = Yard::new();
    yard.done("u1", "file", "mine\n");
    yard.push_to_main("file", "theirs\n");
    let report = yard.merge(&["u1"]).exits(6).json();
    assert_eq!(
        report["units"][0]["conflicts"][0]["failed_rule"],
        json!(null),
        "{report}"
    );
}

#[test]
fn g1_a_commit_that_is_made_while_it_is_validated_is_told_as_one() {
    let yard = Yard::new();
    let path = yard.world.root().join("u1");
    let check = format!(
        "if [ ! -e {0}/more ]; then echo more > {0}/more; git -C {0} add more; \
         git -C {0} -c user.name=p -c user.email=p@example.com commit -q -m more; fi",
        path.display()
    );
    yard.configure(&format!("[merge]\nvalidate = ['''{check}''']"));
    yard.done("u1", "new", "new\n");
    let report = yard.merge(&["u1"]).exits(6).json();
    let unit = &report["units"][0];
    let message = unit["message"].as_str().expect("text");
    assert!(message.contains("1 more commit was made on u1"), "{message}");
    assert!(!message.contains("not on its branch"), "{message}");
    assert_eq!(yard.phase("u1")["error"]["reason"], "dirty");
    assert_eq!(
        unit["help"][0], "jit worktree retry u1 && jit finish u1",
        "{report}"
    );
    let _ = yard.jit(["worktree", "retry", "u1"]).ok();
    let _ = yard.jit(["finish", "u1"]).ok();
    assert_eq!(yard.on_main("more").as_deref(), Some("more\n"));
}

#[test]
fn h7_what_jit_squashed_leaves_nothing_to_rescue() {
    let yard = Yard::new();
    yard.configure("[merge]\nstrategy = \"squash\"");
    let path = yard.done("u1", "a", "a\n");
    yard.write(&path, "b", "b\n");
    yard.commit(&path, "second");
    yard.push_to_main("theirs", "theirs\n");
    let _ = yard.jit(["finish", "u1"]).ok();
    assert!(!path.exists());
    let rescues = || yard.jit(["rescue", "list", "--json"]).ok().json()["rescues"].clone();
    assert_eq!(rescues(), json!([]));
    // A commit that was amended is nowhere on the target.
    let path = yard.done("u2", "c", "first try\n");
    let first = yard.rev(&path, "HEAD");
    yard.write(&path, "c", "c\n");
    yard.world
        .git(&path, ["commit", "-q", "-a", "--amend", "-m", "c"]);
    let _ = yard.jit(["finish", "u2"]).ok();
    let kept = rescues();
    assert_eq!(kept.as_array().map(Vec::len), Some(1), "{kept}");
    assert!(kept.to_string().contains(&first), "{kept}");
}

#[test]
fn h7_what_squashed_commits_said_is_in_the_landings_message_or_kept() {
    let yard = Yard::new();
    yard.configure("[merge]\nstrategy = \"squash\"");
    let path = yard.done("u1", "a", "a\n");
    yard.write(&path, "b", "b\n");
    let said = "Why it is so\n\nBecause of the\n  dates.\n\n---\n\nJIT-Unit: other\nJIT-Squashed: 0123";
    let tip = yard.commit(&path, said);
    yard.push_to_main("theirs", "theirs\n");
    let _ = yard.jit(["finish", "u1"]).ok();
    let message = yard.world.git(&yard.repo(), ["log", "-1", "--format=%B", "main"]);
    for line in ["    Why it is so", "      dates.", "    JIT-Squashed: 0123"] {
        assert!(message.lines().any(|one| one == line), "{line}: {message}");
    }
    let trailers = ["log", "-1", "--format=%(trailers:only=true)", "main"];
    let trailers = yard.world.git(&yard.repo(), trailers);
    let file = yard.world.root().join("message");
    std::fs::write(&file, &message).expect("write");
    let file = file.to_str().expect("UTF-8");
    let parsed = yard
        .world
        .git(&yard.repo(), ["interpret-trailers", "--parse", file]);
    assert_eq!(parsed.trim(), trailers.trim());
    assert!(parsed.starts_with("JIT-Unit: u1\n"), "{parsed}");
    assert!(parsed.contains(&format!("JIT-Squashed: {tip}\n")), "{parsed}");
    assert_eq!(parsed.matches("JIT-Squashed").count(), 1, "{parsed}");
    let rescues = || yard.jit(["rescue", "list", "--json"]).ok().json()["rescues"].clone();
    assert_eq!(rescues(), json!([]));
    // What is too long to be said there is kept with its commit.
    let path = yard.done("u2", "c", "c\n");
    yard.write(&path, "d", "d\n");
    let file = yard.world.root().join("long");
    std::fs::write(&file, "all the words\n".repeat(20_000)).expect("write");
    let file = file.to_str().expect("UTF-8");
    yard.world.git(&path, ["add", "-A"]);
    yard.world.git(&path, ["commit", "-q", "-F", file]);
    let tip = yard.rev(&path, "HEAD");
    let _ = yard.jit(["finish", "u2"]).ok();
    assert!(rescues().to_string().contains(&tip), "{}", rescues());
}

#[test]
fn h7_content_of_a_squashed_unit_that_the_target_has_nowhere_is_kept() {
    let rescues = |yard: &Yard| yard.jit(["rescue", "list", "--json"]).ok().json();
    // A rule took the target's side.
    let yard = Yard::new();
    yard.configure("[merge]\nstrategy = \"squash\"\nresolve = [\"file = ours\"]");
    let path = yard.done("u1", "file", "mine\n");
    yard.write(&path, "new", "new\n");
    let tip = yard.commit(&path, "new");
    yard.push_to_main("file", "theirs\n");
    let _ = yard.jit(["finish", "u1"]).ok();
    assert_eq!(yard.on_main("new").as_deref(), Some("new\n"));
    assert_eq!(yard.on_main("file").as_deref(), Some("theirs\n"));
    let kept = rescues(&yard);
    assert!(kept.to_string().contains(&tip), "{kept}");
    // A commit was taken back before it landed.
    let yard = Yard::new();
    yard.configure("[merge]\nstrategy = \"squash\"");
    let path = yard.done("u1", "tried", "an idea\n");
    yard.world.git(&path, ["revert", "--no-edit", "HEAD"]);
    yard.write(&path, "new", "new\n");
    let tip = yard.commit(&path, "new");
    let _ = yard.jit(["finish", "u1"]).ok();
    assert_eq!(yard.on_main("tried"), None);
    yard.world
        .git(&yard.repo(), ["reflog", "expire", "--expire=now", "--all"]);
    yard.world.git(&yard.repo(), ["gc", "-q", "--prune=now"]);
    let kept = rescues(&yard);
    assert!(kept.to_string().contains(&tip), "{kept}");
    let idea = format!("{tip}~2:tried");
    assert_eq!(
        yard.world.git(&yard.repo(), ["cat-file", "blob", &idea]),
        "an idea\n"
    );
}

#[test]
fn h7_a_squash_that_the_target_has_not_got_is_kept() {
    let yard = Yard::new();
    yard.configure("[merge]\nstrategy = \"squash\"");
    let before = yard.main();
    let path = yard.done("u1", "a", "a\n");
    let tip = yard.rev(&path, "HEAD");
    let _ = yard.merge(&["u1"]).ok();
    yard.world
        .git(&yard.repo(), ["update-ref", "refs/heads/main", &before]);
    let _ = yard.jit(["worktree", "cleanup", "u1"]).exits(5);
    let _ = yard.jit(["worktree", "cleanup", "u1", "--force"]).ok();
    let rescues = yard.jit(["rescue", "list", "--json"]).ok().json();
    assert!(rescues.to_string().contains(&tip), "{rescues}");
}

fn with_remote(yard: &Yard, branch: &str) -> std::path::PathBuf {
    let bare = yard.world.root().join("shared.git");
    let at = bare.to_string_lossy().into_owned();
    yard.world.git(
        yard.world.root(),
        ["init", "-q", "--bare", "-b", branch, at.as_str()],
    );
    yard.world.git(&yard.repo(), ["remote", "add", "up", &at]);
    let spec = format!("main:refs/heads/{branch}");
    yard.world.git(&yard.repo(), ["push", "-q", "-u", "up", &spec]);
    bare
}

#[test]
fn h3_the_target_is_pushed_to_what_it_follows_where_git_pushes_so() {
    let yard = Yard::new();
    yard.configure("[merge]\npush = \"target\"");
    let bare = with_remote(&yard, "trunk");
    yard.world
        .git(&yard.repo(), ["config", "push.default", "upstream"]);
    yard.done("u1", "new", "new\n");
    let ran = yard.jit(["finish", "u1"]).ok();
    assert_eq!(yard.rev(&bare, "refs/heads/trunk"), yard.main(), "{}", ran.stderr);
    let heads = yard
        .world
        .git(&bare, ["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(heads.trim(), "refs/heads/trunk");
    // What others pushed there comes from there.
    let clone = yard.world.root().join("clone");
    let (from, to) = (bare.to_string_lossy(), clone.to_string_lossy());
    yard.world
        .git(yard.world.root(), ["clone", "-q", from.as_ref(), to.as_ref()]);
    yard.write(&clone, "theirs", "theirs\n");
    yard.commit(&clone, "theirs");
    yard.world.git(&clone, ["push", "-q", "origin", "trunk"]);
    yard.done("u2", "more", "more\n");
    let _ = yard.jit(["finish", "u2"]).ok();
    assert_eq!(yard.rev(&bare, "refs/heads/trunk"), yard.main());
    assert_eq!(yard.on_main("theirs").as_deref(), Some("theirs\n"));
}

/// As after `git switch -c develop origin/main`.
#[test]
fn h3_a_target_is_not_pushed_to_a_branch_of_another_name_that_it_began_at() {
    for way in [None, Some("simple"), Some("current"), Some("matching")] {
        let yard = Yard::new();
        yard.configure("[merge]\npush = \"target\"");
        let bare = with_remote(&yard, "trunk");
        if let Some(way) = way {
            yard.world.git(&yard.repo(), ["config", "push.default", way]);
        }
        let before = yard.rev(&bare, "refs/heads/trunk");
        yard.done("u1", "new", "new\n");
        let ran = yard.jit(["finish", "u1"]).ok();
        assert_eq!(yard.rev(&bare, "refs/heads/trunk"), before, "{way:?}");
        assert_eq!(
            yard.rev(&bare, "refs/heads/main"),
            yard.main(),
            "{way:?} {}",
            ran.stderr
        );
    }
}

#[test]
fn h3_what_git_was_told_about_pushes_counts() {
    let told = |name: &str, value: &str| {
        let yard = Yard::new();
        yard.configure("[merge]\npush = \"target\"");
        let bare = with_remote(&yard, "main");
        yard.world.git(&yard.repo(), ["config", name, value]);
        yard.done("u1", "new", "new\n");
        let before = yard.rev(&bare, "refs/heads/main");
        let report = yard.jit(["finish", "u1", "--json"]).ok().json();
        (yard, bare, before, report)
    };
    // An address that has no name.
    let other = Yard::new();
    let there = other.world.root().join("other.git");
    let at = there.to_string_lossy().into_owned();
    other
        .world
        .git(other.world.root(), ["init", "-q", "--bare", at.as_str()]);
    let (yard, bare, before, report) = told("branch.main.pushRemote", &at);
    assert_eq!(other.rev(&there, "refs/heads/main"), yard.main(), "{report}");
    assert_eq!(yard.rev(&bare, "refs/heads/main"), before);
    // Another branch over there.
    let (yard, bare, before, report) = told("remote.up.push", "refs/heads/*:refs/heads/me/*");
    assert_eq!(yard.rev(&bare, "refs/heads/me/main"), yard.main(), "{report}");
    assert_eq!(yard.rev(&bare, "refs/heads/main"), before);
    // What is pushed for review is no branch: that is for a person.
    let (yard, bare, before, report) = told("remote.up.push", "refs/heads/main:refs/for/main");
    assert_eq!(yard.rev(&bare, "refs/heads/main"), before);
    assert_eq!(report["next"][0], "git push up main:refs/for/main", "{report}");
    let status = yard.jit(["status", "--json"]).ok().json();
    assert_eq!(
        status["unpushed"][0]["command"], "git push up main:refs/for/main",
        "{status}"
    );
}

#[test]
fn h3_what_git_was_told_to_leave_out_is_not_pushed() {
    for (push, spec) in [
        ("target", "^refs/heads/main"),
        ("target", "^refs/heads/ma*"),
        ("never", "^refs/heads/main"),
        // Only the whole name counts, as for git.
        ("target", "^main"),
        ("target", "^refs/heads/mai"),
    ] {
        let yard = Yard::new();
        yard.configure(&format!("[merge]\npush = \"{push}\""));
        let bare = with_remote(&yard, "main");
        for value in ["refs/heads/*:refs/heads/*", spec] {
            yard.world
                .git(&yard.repo(), ["config", "--add", "remote.up.push", value]);
        }
        yard.done("u1", "new", "new\n");
        let before = yard.rev(&bare, "refs/heads/main");
        let ran = yard.jit(["finish", "u1", "--json"]).ok();
        let report = ran.json();
        let status = yard.jit(["status", "--json"]).ok().json();
        let is_meant = spec.ends_with("main") && spec.len() > 5 || spec.ends_with('*');
        if !is_meant {
            assert_eq!(
                yard.rev(&bare, "refs/heads/main"),
                yard.main(),
                "{spec}: {report}"
            );
            continue;
        }
        assert_eq!(yard.rev(&bare, "refs/heads/main"), before, "{spec}: {report}");
        assert_eq!(status["unpushed"], serde_json::json!([]), "{spec}: {status}");
        let told = format!("git was told to leave it out ({spec} in remote.up.push)");
        assert_eq!(ran.stderr.contains(&told), push == "target", "{}", ran.stderr);
        let next = report["next"].as_array().expect("a list");
        assert_eq!(next.is_empty(), push == "never", "{spec}: {report}");
    }
}

#[test]
fn h3_status_names_where_it_is_pushed_and_what_comes_first() {
    let yard = Yard::new();
    let bare = with_remote(&yard, "main");
    yard.done("u1", "new", "new\n");
    let _ = yard.jit(["finish", "u1"]).ok();
    let status = || yard.jit(["status", "--json"]).ok().json()["unpushed"].clone();
    let unpushed = status();
    assert_eq!(unpushed[0]["command"], "git push up main", "{unpushed}");
    // Others pushed meanwhile: that comes first.
    let clone = yard.world.root().join("clone");
    let (from, to) = (bare.to_string_lossy(), clone.to_string_lossy());
    yard.world
        .git(yard.world.root(), ["clone", "-q", from.as_ref(), to.as_ref()]);
    yard.write(&clone, "theirs", "theirs\n");
    yard.commit(&clone, "theirs");
    yard.world.git(&clone, ["push", "-q", "origin", "main"]);
    yard.world.git(&yard.repo(), ["fetch", "-q", "up"]);
    let unpushed = status();
    assert_eq!(unpushed[0]["behind"], 1, "{unpushed}");
    assert_eq!(
        unpushed[0]["command"],
        "git switch main && git pull --no-rebase up main # see that it passes, then: git push up main",
        "{unpushed}"
    );
    // It goes to another remote than it comes from.
    let fork = yard.world.root().join("fork.git");
    let at = fork.to_string_lossy().into_owned();
    yard.world.git(
        yard.world.root(),
        ["init", "-q", "--bare", "-b", "main", at.as_str()],
    );
    yard.world.git(&yard.repo(), ["remote", "add", "fork", &at]);
    yard.world
        .git(&yard.repo(), ["config", "branch.main.pushRemote", "fork"]);
    yard.world.git(&yard.repo(), ["push", "-q", "fork", "main"]);
    assert_eq!(status(), json!([]), "where it is pushed has all of it");
    yard.done("u2", "more", "more\n");
    let _ = yard.jit(["finish", "u2"]).ok();
    fs::remove_dir(yard.world.control().join("scratch")).expect("it is empty");
    let unpushed = status();
    assert_eq!(unpushed[0]["upstream"], "fork/main", "{unpushed}");
    assert_eq!(unpushed[0]["commits"], 1, "{unpushed}");
    assert_eq!(unpushed[0]["command"], "git push fork main", "{unpushed}");
    assert!(
        !yard.world.control().join("scratch").exists(),
        "who looks makes nothing"
    );
}

#[test]
fn h3_status_tells_of_landings_that_others_have_not_got() {
    let yard = Yard::new();
    let status = || yard.jit(["status", "--json"]).ok().json()["unpushed"].clone();
    let bare = with_remote(&yard, "trunk");
    yard.world
        .git(&yard.repo(), ["config", "push.default", "upstream"]);
    assert_eq!(status(), json!([]), "nothing landed yet");
    yard.done("u1", "new", "new\n");
    let report = yard.jit(["finish", "u1", "--json"]).ok().json();
    let command = "git push up main:refs/heads/trunk";
    assert_eq!(report["next"][0], command, "{report}");
    // Without asking anybody.
    let aside = yard.world.root().join("aside.git");
    fs::rename(&bare, &aside).expect("renames");
    let unpushed = status();
    assert_eq!(unpushed[0]["branch"], "main", "{unpushed}");
    assert_eq!(unpushed[0]["upstream"], "up/trunk", "{unpushed}");
    assert_eq!(unpushed[0]["commits"], 1, "{unpushed}");
    assert_eq!(unpushed[0]["command"], command, "{unpushed}");
    let said = yard.jit(["status"]).ok().stdout;
    assert!(
        said.contains(&format!("main is 1 commit ahead of up/trunk: {command}")),
        "{said}"
    );
    fs::rename(&aside, &bare).expect("renames");
    let mut push = yard.world.command("sh", &yard.repo());
    push.args(["-c", command]);
    let _ = yard.world.run(push).ok();
    assert_eq!(status(), json!([]));
    yard.world.git(&yard.repo(), ["pack-refs", "--all"]);
    assert_eq!(status(), json!([]), "packed");
}

fn refused_help(yard: &Yard) -> Vec<String> {
    let refused = yard.merge(&["u1"]).exits(5).json();
    let help = refused["error"]["help"].as_array().expect("help");
    help.iter()
        .filter_map(|line| line.as_str().map(str::to_owned))
        .collect()
}

/// Runs what a refusal says.
fn obey(yard: &Yard, line: &str) {
    let mut command = yard.world.command("sh", yard.world.root());
    command.args(["-c", line]);
    let _ = yard.world.run(command).ok();
}

#[test]
fn h3_a_target_that_is_rebased_or_bisected_names_what_ends_it() {
    let yard = Yard::checked_out();
    yard.done("u1", "new", "new\n");
    let there = yard.world.root().join("there with space");
    let path = there.to_string_lossy().into_owned();
    yard.world.git(&yard.repo(), ["switch", "-q", "--detach"]);
    yard.world
        .git(&yard.repo(), ["worktree", "add", "-q", &path, "main"]);
    yard.world
        .git(&there, ["bisect", "start", "-q", "HEAD", "HEAD~1"]);
    yard.world.git(&there, ["checkout", "-q", "--detach"]);
    let help = refused_help(&yard);
    assert_eq!(help[0], format!("git -C '{path}' bisect reset"), "{help:?}");
    obey(&yard, &help[0]);
    let mut rebase = yard.world.command("git", &there);
    rebase.args(["rebase", "-q", "--exec", "false", "HEAD~1"]);
    assert_ne!(yard.world.run(rebase).code, 0);
    let help = refused_help(&yard);
    assert_eq!(help[1], format!("git -C '{path}' rebase --abort"), "{help:?}");
    obey(&yard, &help[1]);
    let _ = yard.merge(&["u1"]).ok();
}

#[test]
fn h3_a_landing_that_was_cut_off_elsewhere_is_taken_up_there() {
    let yard = Yard::new();
    yard.world.git(&yard.repo(), ["branch", "stable", "main"]);
    yard.done("u1", "new", "new\n");
    let mut command = yard.world.jit_command(&yard.repo());
    command.env("JIT_AGENT_ID", WHO).env("JIT_TEST_DIE_AT", "moved");
    command.args(["worktree", "merge", "u1", "--into", "stable"]);
    assert_eq!(yard.world.run(command).code, 137);
    let wanted = "jit worktree merge u1 --into stable";
    let pruned = yard.jit(["worktree", "prune", "--json"]).ok().json();
    assert!(pruned.to_string().contains(wanted), "{pruned}");
    let refused = yard.jit(["worktree", "retry", "u1"]).exits(2);
    assert!(refused.stderr.contains(wanted), "{}", refused.stderr);
    let _ = yard.merge(&["u1", "--into", "stable"]).ok();
    assert_eq!(yard.landings("u1"), 1);
}

#[test]
fn h3_a_landing_goes_on_to_the_branch_that_it_was_begun_for() {
    for again in [&["worktree", "merge", "u1"][..], &["finish", "u1"]] {
        let yard = Yard::new();
        yard.world.git(&yard.repo(), ["branch", "stable", "main"]);
        yard.done("u1", "new", "new\n");
        let before = yard.main();
        let mut command = yard.world.jit_command(&yard.repo());
        command.env("JIT_AGENT_ID", WHO).env("JIT_TEST_DIE_AT", "begun");
        command.args(["worktree", "merge", "u1", "--into", "stable"]);
        assert_eq!(yard.world.run(command).code, 137);
        let wanted = "jit worktree merge u1 --into stable";
        let pruned = yard.jit(["worktree", "prune", "--json"]).ok().json();
        assert!(pruned.to_string().contains(wanted), "{pruned}");
        let status = yard.jit(["worktree", "status", "u1"]).ok().stdout;
        assert!(status.contains("to land on stable"), "{status}");
        let refused = yard.merge(&["u1", "--into", "main"]).exits(2).json();
        assert_eq!(refused["error"]["help"][0], wanted, "{refused}");
        let _ = yard.jit(again).ok();
        assert_eq!(yard.world.git(&yard.repo(), ["show", "stable:new"]), "new\n");
        assert_eq!(yard.main(), before);
    }
}

#[test]
fn h3_help_about_a_path_with_a_line_end_can_be_run() {
    let yard = Yard::checked_out();
    yard.done("u1", "new", "new\n");
    yard.world.git(&yard.repo(), ["switch", "-q", "--detach"]);
    let there = yard.world.root().join("two\nlines 100% it's \\ there");
    let path = there.to_string_lossy().into_owned();
    yard.world
        .git(&yard.repo(), ["worktree", "add", "-q", &path, "main"]);
    yard.world
        .git(&there, ["bisect", "start", "-q", "HEAD", "HEAD~1"]);
    yard.world.git(&there, ["checkout", "-q", "--detach"]);
    let help = refused_help(&yard);
    assert!(!help[0].contains('\n'), "{help:?}");
    obey(&yard, &help[0]);
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(
        fs::read_to_string(there.join("new")).expect("it is there"),
        "new\n"
    );
}

#[test]
fn h3_a_lock_that_a_killed_git_left_is_named_by_the_landing_with_what_helps() {
    let yard = Yard::new();
    yard.done("u1", "new", "new\n");
    let before = yard.main();
    let common = yard.repo().join(".git");
    let rm = |lock: &Path| format!("if no git runs there any more: rm {}", lock.display());
    // Nobody has the target checked out: its ref is locked.
    let lock = common.join("refs/heads/main.lock");
    let _ = fs::File::create(&lock).expect("a file");
    let refused = yard.merge(&["u1"]).exits(5).json();
    let message = refused["error"]["message"].as_str().expect("text");
    assert!(message.contains(&lock.display().to_string()), "{refused}");
    assert_eq!(refused["error"]["help"][0], rm(&lock), "{refused}");
    assert_eq!(yard.main(), before);
    fs::remove_file(&lock).expect("removed");
    // The branch cannot be deleted.
    let lock = common.join("packed-refs.lock");
    let _ = fs::File::create(&lock).expect("a file");
    let report = yard.jit(["finish", "u1", "--json"]).ok().json();
    assert_eq!(report["next"][0], rm(&lock), "{report}");
    let refused = yard.jit(["worktree", "cleanup", "u1", "--json"]);
    let refused = refused.json();
    assert_eq!(
        refused["error"]["help"],
        serde_json::json!([rm(&lock), "jit worktree cleanup u1"]),
        "{refused}"
    );
    fs::remove_file(&lock).expect("removed");
    let _ = yard.jit(["worktree", "cleanup", "u1"]).ok();
}

fn locks_told(yard: &Yard) -> Vec<(String, String)> {
    let checks = yard.jit(["doctor", "--json"]).json();
    let all = checks["checks"].as_array().expect("checks").iter();
    all.filter(|one| one["name"] == "git locks")
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
            (text("status"), format!("{} {}", text("message"), text("help")))
        })
        .collect()
}

#[test]
fn h3_doctor_names_the_locks_that_a_killed_git_left() {
    let yard = Yard::new();
    let _path = yard.unit("u1");
    assert_eq!(locks_told(&yard)[0].0, "ok");
    let common = yard.repo().join(".git");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let locks = [
        "packed-refs.lock",
        "config.lock",
        "refs/heads/main.lock",
        "worktrees/u1/index.lock",
        "worktrees/u1/HEAD.lock",
    ];
    let make = |name: &str| {
        let file = fs::File::create(common.join(name)).expect("a file");
        file.set_modified(old).expect("a time");
        file
    };
    for name in locks {
        let _ = make(name);
    }
    let told = locks_told(&yard);
    assert_eq!(told.len(), locks.len(), "{told:?}");
    for name in locks {
        let one = told.iter().find(|(_, text)| text.contains(name)).expect(name);
        assert_eq!(one.0, "warn", "{one:?}");
        assert!(
            one.1.contains("for 1h") && one.1.contains("no process has it open"),
            "{one:?}"
        );
        assert!(
            one.1.contains(&format!("rm {}", common.join(name).display())),
            "{one:?}"
        );
        assert!(Path::new(&common.join(name)).exists(), "it is never removed");
        fs::remove_file(common.join(name)).expect("removes");
    }
    // One that was left a moment ago is left too.
    let _ = fs::File::create(common.join("index.lock")).expect("a file");
    let told = locks_told(&yard);
    assert_eq!(told[0].0, "warn", "{told:?}");
    assert!(
        told[0].1.contains("it is left over") && told[0].1.contains("rm "),
        "{told:?}"
    );
    fs::remove_file(common.join("index.lock")).expect("removes");
    // Somebody is at work: it is not in the way for long.
    let _held = make("packed-refs.lock");
    let told = locks_told(&yard);
    assert_eq!(told[0].0, "ok", "{told:?}");
    assert!(told[0].1.contains(&std::process::id().to_string()), "{told:?}");
}
