//! The same command once more, after a kill or after all was done (G12), and what a killed landing leaves at work.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use jit_testkit::world::Ran;

use crate::landing::{WHO, Yard};

fn unit_with_issue(yard: &Yard) -> PathBuf {
    let _ = yard.jit(["issue", "create", "Do it", "--id", "WI-001"]).ok();
    let path = yard.unit_for("u1", Some("WI-001"));
    yard.write(&path, "new", "new\n");
    yard.commit(&path, "work");
    path
}

fn killed_at(yard: &Yard, step: &str, args: &[&str]) -> Ran {
    let mut command = yard.world.jit_command(&yard.repo());
    command.env("JIT_AGENT_ID", WHO).env("JIT_TEST_DIE_AT", step);
    command.args(args);
    yard.world.run(command)
}

fn landed_already(ran: Ran, commit: &str) {
    let report = ran.ok().json();
    let unit = &report["units"][0];
    assert_eq!(unit["verdict"], "already_landed", "{report}");
    assert_eq!(unit["merge_commit"], commit, "{report}");
    assert_eq!(unit["issue_done"], true, "{report}");
}

#[test]
fn g12_what_is_done_is_told_as_done_however_the_unit_is_named() {
    let yard = Yard::new();
    let path = unit_with_issue(&yard);
    let report = yard.jit(["finish", "u1", "--json"]).ok().json();
    let commit = report["units"][0]["merge_commit"]
        .as_str()
        .expect("a commit")
        .to_owned();
    assert!(!path.exists(), "it is cleaned up");
    let folder = path.to_string_lossy().into_owned();
    let events = yard.world.events().len();
    for name in ["u1", "WI-001", folder.as_str()] {
        landed_already(yard.jit(["finish", name, "--json"]), &commit);
        landed_already(yard.merge(&[name]), &commit);
        landed_already(yard.merge(&[name, "--dry-run"]), &commit);
        landed_already(yard.merge(&[name, "--continue"]), &commit);
    }
    landed_already(yard.jit(["finish", "u1", "--pr", "--json"]), &commit);
    assert_eq!(yard.world.events().len(), events, "nothing is left to be written");
    let said = yard.jit(["finish", "u1"]).ok().stdout;
    assert!(
        said.contains("already landed on main as") && said.contains("WI-001 is done"),
        "{said}"
    );
    // Beside others it keeps nobody from landing.
    yard.done("u2", "other", "two\n");
    let report = yard.merge(&["u1", "u2"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "already_landed", "{report}");
    assert_eq!(report["units"][1]["verdict"], "landed", "{report}");
    // A name that nobody had is still not found.
    let _ = yard.jit(["finish", "u9"]).exits(3);
}

#[test]
fn g12_what_was_given_up_or_taken_back_is_not_told_as_landed() {
    let yard = Yard::new();
    yard.done("u1", "new", "new\n");
    let _ = yard.jit(["worktree", "abandon", "u1", "--reason", "no"]).ok();
    let refused = yard.jit(["finish", "u1"]).exits(3);
    assert!(refused.stderr.contains("given up (no)"), "{}", refused.stderr);
    let before = yard.main();
    yard.done("u2", "new", "new\n");
    let _ = yard.jit(["finish", "u2"]).ok();
    yard.world
        .git(&yard.repo(), ["update-ref", "refs/heads/main", &before]);
    let refused = yard.jit(["finish", "u2"]).exits(3);
    assert!(
        refused.stderr.contains("which main does not have now"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("--base"), "{}", refused.stderr);
}

#[test]
fn g12_only_what_the_target_has_now_is_told_as_landed() {
    let yard = Yard::new();
    let before = yard.main();
    yard.done("u1", "new", "new\n");
    let _ = yard.jit(["finish", "u1"]).ok();
    let landed = yard.main();
    let main_is = |commit: &str| {
        yard.world
            .git(&yard.repo(), ["update-ref", "refs/heads/main", commit]);
    };
    // Another branch that was named has it not.
    yard.world.git(&yard.repo(), ["branch", "stable", &before]);
    let refused = yard.merge(&["u1", "--into", "stable"]).exits(3);
    assert!(
        refused.stdout.contains("which stable does not have now"),
        "{}",
        refused.stdout
    );
    let report = yard.merge(&["u1", "--into", "main"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "already_landed", "{report}");
    let _ = yard.merge(&["u1", "--into", "nowhere"]).exits(3);
    // The branch of another unit that began there has it, and that is no landing.
    yard.unit("u2");
    main_is(&before);
    let refused = yard.jit(["finish", "u1"]).exits(3);
    assert!(
        refused.stderr.contains("which main does not have now"),
        "{}",
        refused.stderr
    );
    main_is(&landed);
    // A branch of its name is there again, with something else.
    yard.world.git(&yard.repo(), ["switch", "-q", "-c", "u1", "main"]);
    let ran = yard.jit(["finish", "u1", "--json"]).ok().json();
    assert_eq!(ran["units"][0]["verdict"], "already_landed", "{ran}");
    yard.write(&yard.repo(), "by-hand", "by hand\n");
    yard.commit(&yard.repo(), "by hand");
    let refused = yard.jit(["finish", "u1"]).exits(3);
    assert!(
        refused.stderr.contains("u1 has commits that main has not"),
        "{}",
        refused.stderr
    );
}

#[test]
fn g12_a_unit_whose_removal_was_cut_off_is_not_removed_when_the_target_was_moved_back() {
    let yard = Yard::new();
    let before = yard.main();
    let path = unit_with_issue(&yard);
    let report = yard.merge(&["u1"]).ok().json();
    let commit = report["units"][0]["merge_commit"].as_str().expect("a commit");
    let landed = yard.main();
    let killed = killed_at(&yard, "removing", &["worktree", "cleanup", "u1"]);
    assert_eq!(killed.code, 137, "{}", killed.stderr);
    yard.world
        .git(&yard.repo(), ["update-ref", "refs/heads/main", &before]);
    let _ = yard.jit(["issue", "update", "WI-001", "--state", "ready"]).ok();
    let refused = yard.jit(["finish", "u1"]).exits(3);
    assert!(refused.stderr.contains(commit), "{}", refused.stderr);
    assert!(path.exists());
    yard.rev(&yard.repo(), "refs/heads/u1");
    let issue = yard.jit(["issue", "show", "WI-001", "--json"]).ok().json();
    assert_eq!(issue["state"], "ready");
    // Once the target has it again, what is left is done.
    yard.world
        .git(&yard.repo(), ["update-ref", "refs/heads/main", &landed]);
    let report = yard.jit(["finish", "u1", "--json"]).ok().json();
    assert_eq!(report["units"][0]["issue_done"], false, "{report}");
    assert!(!path.exists());
}

#[test]
fn g12_an_issue_that_was_opened_again_stays_open() {
    let yard = Yard::new();
    let _path = unit_with_issue(&yard);
    let _ = yard.jit(["finish", "u1"]).ok();
    let _ = yard.jit(["issue", "update", "WI-001", "--state", "ready"]).ok();
    let report = yard.jit(["finish", "u1", "--json"]).ok().json();
    assert_eq!(report["units"][0]["issue_done"], false, "{report}");
    let issue = yard.jit(["issue", "show", "WI-001", "--json"]).ok().json();
    assert_eq!(issue["state"], "ready");
    // So it does while the unit is still there.
    let yard = Yard::new();
    let _path = unit_with_issue(&yard);
    let _ = yard.merge(&["u1"]).ok();
    let _ = yard.jit(["issue", "update", "WI-001", "--state", "ready"]).ok();
    for name in ["merge", "finish"] {
        let report = match name {
            "merge" => yard.merge(&["u1"]),
            _ => yard.jit(["finish", "u1", "--json"]),
        };
        let report = report.ok().json();
        assert_eq!(report["units"][0]["verdict"], "already_landed", "{report}");
        assert_eq!(report["units"][0]["issue_done"], false, "{report}");
    }
    let issue = yard.jit(["issue", "show", "WI-001", "--json"]).ok().json();
    assert_eq!(issue["state"], "ready");
}

#[test]
fn g12_finish_that_was_killed_anywhere_is_done_by_finish_again() {
    for step in [
        "locked",
        "candidate",
        "begun",
        "moving",
        "moved",
        "recorded",
        "closed",
        "removing",
        "forgotten",
        "removed",
        "unnamed",
    ] {
        let yard = Yard::new();
        let path = unit_with_issue(&yard);
        let killed = killed_at(&yard, step, &["finish", "u1"]);
        assert_eq!(killed.code, 137, "{step}: {}", killed.stderr);
        // The same command line, whatever there is left to be done; then once more, when there is nothing.
        for again in 0..2 {
            let report = yard.jit(["finish", "u1", "--json"]).ok().json();
            assert_eq!(report["units"][0]["issue_done"], true, "{step} {again}: {report}");
            assert_eq!(report["next"], serde_json::json!([]), "{step} {again}: {report}");
            assert!(!path.exists(), "{step} {again}");
            assert_eq!(yard.phase("u1")["state"], "IDLE", "{step} {again}");
            assert_eq!(yard.landings("u1"), 1, "{step} {again}");
        }
        let claims = yard.jit(["claim", "list", "--json"]).ok().json();
        assert_eq!(claims["active"], serde_json::json!([]), "{step}");
        // What is in the trash already may have been changed there since: that is kept its days, and nothing is lost by it.
        let rescues = yard.jit(["rescue", "list", "--json"]).ok().json();
        if !matches!(step, "forgotten" | "removed" | "unnamed") {
            assert_eq!(rescues["rescues"], serde_json::json!([]), "{step}");
        }
        yard.world.validates();
    }
}

#[test]
fn g12_merge_of_a_unit_whose_removal_was_cut_off_says_what_is_left() {
    let yard = Yard::new();
    let path = unit_with_issue(&yard);
    let _ = yard.merge(&["u1"]).ok();
    let killed = killed_at(&yard, "removing", &["worktree", "cleanup", "u1"]);
    assert_eq!(killed.code, 137, "{}", killed.stderr);
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "already_landed", "{report}");
    assert_eq!(
        report["units"][0]["help"][0], "jit worktree cleanup u1",
        "{report}"
    );
    // Inside its worktree, which is still there, nothing is removed under whoever stands in it.
    let ran = yard.world.jit_as_in(WHO, &path, ["finish"]).ok();
    assert!(ran.stdout.contains("already landed"), "{}", ran.stdout);
    assert!(path.exists());
    let _ = yard.jit(["finish", "u1"]).ok();
    assert!(!path.exists());
}

#[test]
fn g12_what_a_killed_landing_did_not_push_is_pushed_by_the_same_command() {
    let yard = Yard::new();
    yard.configure("[merge]\npush = \"target\"");
    let bare = yard.world.root().join("shared.git");
    let at = bare.to_string_lossy().into_owned();
    yard.world.git(
        yard.world.root(),
        ["init", "-q", "--bare", "-b", "main", at.as_str()],
    );
    yard.world.git(&yard.repo(), ["remote", "add", "origin", &at]);
    yard.world.git(&yard.repo(), ["push", "-q", "origin", "main"]);
    let _path = unit_with_issue(&yard);
    let killed = killed_at(&yard, "closed", &["finish", "u1"]);
    assert_eq!(killed.code, 137, "{}", killed.stderr);
    assert_ne!(yard.rev(&bare, "main"), yard.main());
    let _ = yard.jit(["finish", "u1"]).ok();
    assert_eq!(yard.rev(&bare, "main"), yard.main());
    // What is known to be there is not pushed again: nobody is asked.
    fs::remove_dir_all(&bare).expect("removes");
    let ran = yard.jit(["finish", "u1"]).ok();
    assert!(!ran.stderr.contains("pushed"), "{}", ran.stderr);
}

#[test]
fn g12_a_push_for_a_unit_that_is_over_has_the_turn_of_the_target() {
    let yard = Yard::new();
    yard.configure("[merge]\npush = \"target\"");
    let bare = yard.world.root().join("shared.git");
    let at = bare.to_string_lossy().into_owned();
    yard.world.git(
        yard.world.root(),
        ["init", "-q", "--bare", "-b", "main", at.as_str()],
    );
    let _path = unit_with_issue(&yard);
    let _ = yard.jit(["finish", "u1"]).ok();
    // Others have something of their own over there by now.
    let before = yard.main();
    yard.world.git(&yard.repo(), ["remote", "add", "origin", &at]);
    let theirs = yard.push_to_main("theirs", "theirs\n");
    yard.world.git(
        &yard.repo(),
        ["push", "-q", "origin", &format!("{theirs}:refs/heads/main")],
    );
    yard.world
        .git(&yard.repo(), ["update-ref", "refs/heads/main", &before]);
    yard.world
        .git(&yard.repo(), ["update-ref", "-d", "refs/remotes/origin/main"]);
    let locks = fs::read_dir(yard.world.control().join("locks")).expect("locks");
    let locks: Vec<PathBuf> = locks
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().contains("/land-"))
        .collect();
    let [lock] = locks.as_slice() else {
        panic!("one lock: {locks:?}");
    };
    let held = fs::File::open(lock).expect("a lock");
    held.lock().expect("nobody has it");
    let mut command = yard.world.jit_command(&yard.repo());
    command
        .env("JIT_AGENT_ID", WHO)
        .env("JIT_CONFIG_MERGE__WAIT_SECS", "1");
    command.args(["finish", "u1"]);
    let ran = yard.world.run(command).ok();
    assert!(ran.stderr.contains("was not pushed"), "{}", ran.stderr);
    assert_eq!(yard.main(), before, "nobody moves it without the turn");
    drop(held);
    let ran = yard.jit(["finish", "u1"]).ok();
    assert_eq!(yard.rev(&bare, "main"), yard.main(), "{}", ran.stderr);
    assert_eq!(yard.on_main("theirs").as_deref(), Some("theirs\n"));
}

/// `jit` from a shell that stands in a folder, after what was done to that folder meanwhile.
fn from_within(yard: &Yard, folder: &Path, meanwhile: &str, args: &str) -> Ran {
    let jit = crate::landing::JIT;
    let script = format!(
        "cd '{}' && (cd '{}' && {meanwhile}); '{jit}' {args}",
        folder.display(),
        yard.repo().display()
    );
    let mut command = yard.world.command("sh", yard.world.root());
    command.env("JIT_AGENT_ID", WHO).args(["-c", &script]);
    yard.world.run(command)
}

#[test]
fn g12_from_inside_a_worktree_that_is_gone_it_is_told_too() {
    let yard = Yard::new();
    // Its removal was cut off when git had forgotten it, and the folder was still there.
    let path = yard.done("u2", "two", "two\n");
    let _ = yard.merge(&["u2"]).ok();
    assert_eq!(
        killed_at(&yard, "forgotten", &["worktree", "cleanup", "u2"]).code,
        137
    );
    let within = from_within(&yard, &path, "true", "finish").ok();
    assert!(within.stdout.contains("already landed"), "{}", within.stdout);
    let _ = yard.jit(["finish", "u2"]).ok();
    assert!(!path.exists());
    // Without a folder nobody knows what is meant.
    let path = yard.done("u3", "three", "three\n");
    let gone = format!("rm -rf '{}'", path.display());
    let within = from_within(&yard, &path, &gone, "finish").exits(3);
    assert!(within.stderr.contains("is gone"), "{}", within.stderr);
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn started(yard: &Yard, args: &[&str]) -> Child {
    let mut command = yard.world.jit_command(&yard.repo());
    command.env("JIT_AGENT_ID", WHO).args(args);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it starts")
}

/// The folders of trials, with what they are to the file system.
fn trials(yard: &Yard) -> Vec<(PathBuf, u64)> {
    let scratch = yard.world.control().join("scratch");
    let all = fs::read_dir(scratch).into_iter().flatten().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with("land-"))
        .map(|entry| (entry.path(), entry.metadata().expect("it is there").ino()))
        .collect()
}

/// A landing that was killed left something at work in the trial's folder, which goes on until `go` is there.
fn next_waits_for(yard: &Yard, mut killed: Child, is_at_work: &Path, go: &Path) {
    wait_for("somebody at work in the trial", || is_at_work.exists());
    killed.kill().expect("kills");
    killed.wait().expect("it is dead");
    let before = trials(yard);
    assert_eq!(before.len(), 1, "{before:?}");
    let mut next = started(yard, &["worktree", "merge", "u1", "--json"]);
    assert_eq!(next.try_wait().expect("a child"), None, "it waits");
    assert_eq!(trials(yard), before, "nobody has touched the folder");
    fs::write(go, "").expect("a file");
    let output = next.wait_with_output().expect("it ends");
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(0), "{said} {complained}");
    assert!(said.contains("\"landed\""), "{said}");
    yard.is_tidy();
}

#[test]
fn g12_the_next_landing_waits_for_the_git_that_a_killed_one_left() {
    let yard = Yard::new();
    yard.configure("[merge]\nvalidate = [\"true\"]");
    let [armed, at_work, go] = ["armed", "at-work", "go"].map(|name| yard.world.root().join(name));
    let smudge = yard.world.root().join("smudge");
    let script = format!(
        "#!/bin/sh\nif [ -e '{}' ]; then : > '{}'; while [ ! -e '{}' ]; do sleep 0.05; done; fi\nexec cat\n",
        armed.display(),
        at_work.display(),
        go.display()
    );
    fs::write(&smudge, script).expect("a script");
    fs::set_permissions(&smudge, fs::Permissions::from_mode(0o755)).expect("a mode");
    let program = smudge.to_string_lossy().into_owned();
    for (key, value) in [
        ("filter.slow.smudge", program.as_str()),
        ("filter.slow.clean", "cat"),
    ] {
        yard.world.git(&yard.repo(), ["config", "--global", key, value]);
    }
    yard.push_to_main(".gitattributes", "slow filter=slow\n");
    yard.push_to_main("slow", "slow\n");
    yard.done("u1", "new", "new\n");
    fs::write(&armed, "").expect("a file");
    let landing = started(&yard, &["worktree", "merge", "u1"]);
    next_waits_for(&yard, landing, &at_work, &go);
}

#[test]
fn g12_of_two_at_once_that_finish_one_unit_both_say_that_it_has_landed() {
    let yard = Yard::new();
    let [at_work, go] = ["at-work", "go"].map(|name| yard.world.root().join(name));
    let check = format!(
        ": > '{}'; while [ ! -e '{}' ]; do sleep 0.05; done",
        at_work.display(),
        go.display()
    );
    yard.configure(&format!("[merge]\nvalidate = ['''{check}''']"));
    let path = unit_with_issue(&yard);
    let finish = ["finish", "u1", "--json"];
    let first = started(&yard, &finish);
    wait_for("the check of the first", || at_work.exists());
    // They wait for their turn, and see the unit in whatever state the first leaves it.
    let others = [(); 4].map(|()| started(&yard, &finish));
    std::thread::sleep(Duration::from_millis(700));
    fs::write(&go, "").expect("a file");
    for one in [first].into_iter().chain(others) {
        let output = one.wait_with_output().expect("it ends");
        let (said, complained) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert_eq!(output.status.code(), Some(0), "{said} {complained}");
        assert!(said.contains("landed\""), "{said}");
    }
    let _ = yard.jit(finish).ok();
    assert!(!path.exists());
    assert_eq!(yard.landings("u1"), 1);
    yard.world.validates();
}

/// It leaves the group, so no kill reaches it, and it still writes where it was started.
#[test]
fn g12_a_check_that_a_killed_landing_left_is_in_nobodys_way() {
    let yard = Yard::new();
    let [at_work, go] = ["at-work", "go"].map(|name| yard.world.root().join(name));
    let over = yard.world.root().join("over");
    let check = format!(
        "if [ ! -e '{0}' ]; then exec setsid -w sh -c \"trap '' TERM; : > '{0}'; \
         while [ ! -e '{1}' ]; do mkdir -p $PWD; touch $PWD/left; sleep 0.05; done; : > '{2}'\"; \
         else test ! -e left && test ! -s /dev/stdin; fi",
        at_work.display(),
        go.display(),
        over.display()
    );
    yard.configure(&format!("[merge]\nvalidate = ['''{check}''']"));
    yard.done("u1", "new", "new\n");
    let mut landing = started(&yard, &["worktree", "merge", "u1"]);
    wait_for("somebody at work in the trial", || at_work.exists());
    landing.kill().expect("kills");
    landing.wait().expect("it is dead");
    assert_eq!(trials(&yard).len(), 1);
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
    assert!(!over.exists(), "it is still at work");
    fs::write(&go, "").expect("a file");
    wait_for("its end", || over.exists());
    // What it wrote meanwhile is gone with the next landing.
    yard.done("u2", "more", "more\n");
    let report = yard.merge(&["u2"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
    yard.is_tidy();
}

#[test]
fn g12_a_check_has_nothing_to_read_and_no_lock() {
    let yard = Yard::new();
    let said = yard.world.root().join("said");
    let check = format!("readlink /proc/self/fd/0 > '{}'", said.display());
    yard.configure(&format!("[merge]\nvalidate = ['''{check}''']"));
    yard.done("u1", "new", "new\n");
    let _ = yard.merge(&["u1"]).ok();
    assert_eq!(fs::read_to_string(&said).expect("said"), "/dev/null\n");
}

#[test]
fn g12_who_waits_in_vain_is_told_who_has_the_turn() {
    let yard = Yard::new();
    yard.done("u1", "new", "new\n");
    let _ = yard.jit(["finish", "u1"]).ok();
    yard.done("u2", "more", "more\n");
    let locks = fs::read_dir(yard.world.control().join("locks")).expect("locks");
    let mut locks = locks.map(|entry| entry.expect("an entry").path());
    let is_turn = |path: &PathBuf| path.to_string_lossy().contains("/land-");
    let lock = locks.find(is_turn).expect("a lock");
    let held = fs::File::open(&lock).expect("a lock");
    held.lock().expect("nobody has it");
    let mut sleep = yard.world.command("sleep", yard.world.root());
    let mut sleep = sleep.arg("600").stdin(held).spawn().expect("it starts");
    let mut command = yard.world.jit_command(&yard.repo());
    command
        .env("JIT_AGENT_ID", WHO)
        .env("JIT_CONFIG_MERGE__WAIT_SECS", "1");
    command.args(["finish", "u2"]);
    let refused = yard.world.run(command);
    let doctor = yard.jit(["doctor"]);
    sleep.kill().expect("kills");
    sleep.wait().expect("it is dead");
    assert_ne!(refused.code, 0);
    let pid = format!("{} (sleep)", sleep.id());
    assert!(refused.stderr.contains(&pid), "{}", refused.stderr);
    let said = format!("{}{}", doctor.stdout, doctor.stderr);
    assert!(said.contains(&pid), "{said}");
}
