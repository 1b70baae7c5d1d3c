//! What others get to see of a landing: pushes and pull requests (H3, I6), early warnings (H8), and work that goes on while
//! it is being merged (G1).

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use jit_core::decide::command::Command;
use jit_core::model::unit::{Facts, UnitInput};
use jit_testkit::world::Ran;
use serde_json::{Value, json};

use crate::landing::{WHO, Yard};

/// A bare repository that the yard's is a clone of, as far as `main` goes.
fn with_remote(yard: &Yard) -> PathBuf {
    let bare = yard.world.root().join("shared.git");
    let path = bare.to_string_lossy().into_owned();
    yard.world.git(
        yard.world.root(),
        ["init", "-q", "--bare", "-b", "main", path.as_str()],
    );
    // As people write it: counted from the checkout.
    yard.world
        .git(&yard.repo(), ["remote", "add", "origin", "../shared.git"]);
    yard.world.git(&yard.repo(), ["push", "-q", "origin", "main"]);
    bare
}

/// Somebody else pushes a file.
fn somebody_pushes(yard: &Yard, bare: &Path, name: &str, text: &str) -> String {
    let dir = yard
        .world
        .root()
        .join(format!("clone-{}", name.replace('/', "-")));
    let (from, to) = (bare.to_string_lossy(), dir.to_string_lossy());
    yard.world
        .git(yard.world.root(), ["clone", "-q", from.as_ref(), to.as_ref()]);
    yard.write(&dir, name, text);
    let commit = yard.commit(&dir, &format!("by somebody: {name}"));
    yard.world.git(&dir, ["push", "-q", "origin", "main"]);
    commit
}

/// A `gh` that writes down its arguments, one a line, and answers with `script`.
fn fake_gh(yard: &Yard, script: &str) -> PathBuf {
    let bin = yard.world.root().join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let log = yard.world.root().join("gh.log");
    let text = format!(
        "#!/bin/sh\nfor a in \"$@\"; do printf '%s\\n' \"$a\" >> '{}'; done\n{script}\n",
        log.display()
    );
    fs::write(bin.join("gh"), text).expect("a script");
    fs::set_permissions(bin.join("gh"), fs::Permissions::from_mode(0o755)).expect("a mode");
    log
}

/// `jit` with the fake `gh` before everything else.
fn finish(yard: &Yard, args: &[&str]) -> Ran {
    let mut command = yard.world.jit_command(&yard.repo());
    let path = std::env::var("PATH").unwrap_or_default();
    let bin = yard.world.root().join("bin");
    command
        .env("JIT_AGENT_ID", WHO)
        .env("PATH", format!("{}:{path}", bin.display()))
        .arg("finish")
        .args(args)
        .arg("--json");
    yard.world.run(command)
}

#[test]
fn i6_finish_pr_pushes_and_asks_and_lands_nothing() {
    let yard = Yard::new();
    let bare = with_remote(&yard);
    let title = "Quote \"it\" $(touch pwned) `id`; --web";
    let _ = yard.jit(["issue", "create", "--id", "WI-001", "--", title]).ok();
    let path = yard.unit_for("u1", Some("WI-001"));
    yard.write(&path, "new", "new\n");
    let tip = yard.commit(&path, "new");
    let before = yard.main();
    let log = fake_gh(&yard, "echo https://github.com/o/r/pull/7");
    let report = finish(&yard, &["u1", "--pr"]).ok().json();
    assert_eq!(report["units"][0]["verdict"], "proposed", "{report}");
    assert_eq!(
        report["units"][0]["pull_request"],
        "https://github.com/o/r/pull/7"
    );
    assert_eq!(yard.rev(&bare, "refs/heads/u1"), tip);
    assert_eq!(yard.main(), before, "nothing lands here");
    assert_eq!(yard.phase("u1")["state"], "COMPLETED");
    let args = fs::read_to_string(&log).expect("gh was called");
    let args: Vec<&str> = args.lines().collect();
    assert_eq!(args[..4], ["pr", "create", "--head=u1", "--base=main"]);
    assert_eq!(args[4], format!("--title=WI-001: {title}"), "one argument");
    assert!(!yard.repo().join("pwned").exists());
    // It is left to the others, until the target has it.
    let again = finish(&yard, &["u1"]).exits(6).json();
    assert_eq!(again["units"][0]["verdict"], "waiting", "{again}");
    let all = yard.merge(&["--all"]).exits(6).json();
    assert_eq!(all["units"][0]["verdict"], "waiting", "{all}");
    assert_eq!(yard.main(), before);
    // Squashed by a host that knows nothing of jit.
    yard.push_to_main("new", "new\n");
    yard.push_to_main("more", "more\n");
    let done = finish(&yard, &["u1"]).ok().json();
    assert_eq!(done["units"][0]["verdict"], "already_landed", "{done}");
    assert_eq!(done["units"][0]["issue_done"], true);
    assert!(!path.exists(), "and it is removed");
}

#[test]
fn i6_finish_pr_without_gh_says_where_to_go_and_without_a_remote_refuses() {
    let yard = Yard::new();
    yard.done("u1", "new", "new\n");
    fake_gh(&yard, "echo 'no such host: secret' >&2; exit 1");
    let refusal = finish(&yard, &["u1", "--pr"]).exits(3).json();
    assert_eq!(refusal["error"]["code"], "not_found", "{refusal}");
    assert_eq!(yard.phase("u1")["state"], "READY", "nothing has begun");
    let bare = with_remote(&yard);
    let report = finish(&yard, &["u1", "--pr"]).ok().json();
    let help = report["units"][0]["help"][0].as_str().unwrap_or_default();
    assert!(
        help.starts_with("gh pr create --head=u1 --base=main --title="),
        "{report}"
    );
    assert_eq!(yard.phase("u1")["state"], "COMPLETED");
    // A well-known host: pushes go to the folder, the page is the host's.
    let shared = bare.to_string_lossy().into_owned();
    let key = format!("url.{shared}.insteadOf");
    let address = "https://me:secret@github.com/o/r.git";
    yard.world.git(&yard.repo(), ["config", key.as_str(), address]);
    yard.world
        .git(&yard.repo(), ["remote", "set-url", "origin", address]);
    let said = finish(&yard, &["u1", "--pr"]).ok();
    assert!(!said.stdout.contains("secret@"), "{}", said.stdout);
}

#[test]
fn h3_what_landed_is_pushed() {
    let yard = Yard::new();
    yard.configure("[merge]\npush = \"target\"");
    let bare = with_remote(&yard);
    yard.done("u1", "new", "new\n");
    let report = yard.merge(&["u1"]).ok().json();
    assert_eq!(report["next"], json!([]), "{report}");
    assert_eq!(yard.rev(&bare, "refs/heads/main"), yard.main());
    yard.is_tidy();
}

fn hook_file(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, format!("#!/bin/sh\n{script}\n")).expect("a hook");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

/// Whoever pushes has a hook for that: large files go along with it, and what it refuses is not pushed.
#[test]
fn h3_a_push_asks_the_hook_of_whoever_pushes() {
    let yard = Yard::new();
    yard.configure("[merge]\npush = \"target\"");
    let bare = with_remote(&yard);
    let before = yard.rev(&bare, "refs/heads/main");
    hook_file(
        &yard.repo().join(".git/hooks/pre-push"),
        "echo not today >&2; exit 1",
    );
    yard.done("u1", "new", "new\n");
    let merged = yard.merge(&["u1"]).ok();
    assert!(merged.stderr.contains("not today"), "{}", merged.stderr);
    assert_eq!(merged.json()["next"], json!(["git push origin main"]));
    assert_eq!(yard.rev(&bare, "refs/heads/main"), before);
    let branches = yard.world.git(&bare, ["branch", "--format=%(refname)"]);
    assert_eq!(branches, "refs/heads/main\n", "nor instead of it");
}

#[test]
fn h3_where_the_target_is_protected_the_branch_is_pushed_to_be_reviewed() {
    let yard = Yard::new();
    yard.configure("[merge]\npush = \"target\"");
    let bare = with_remote(&yard);
    let before = yard.rev(&bare, "refs/heads/main");
    hook_file(
        &bare.join("hooks/update"),
        "[ \"$1\" != refs/heads/main ] || { echo protected >&2; exit 1; }",
    );
    let path = yard.done("u1", "new", "new\n");
    let tip = yard.rev(&path, "HEAD");
    let branch = yard
        .world
        .git(&path, ["branch", "--show-current"])
        .trim()
        .to_owned();
    let merged = yard.merge(&["u1"]).ok();
    assert!(merged.stderr.contains("protected"), "{}", merged.stderr);
    let next = format!("gh pr create --head={branch} --base=main");
    assert_eq!(merged.json()["next"], json!([next]));
    assert_eq!(yard.rev(&bare, "refs/heads/main"), before);
    assert_eq!(yard.rev(&bare, &format!("refs/heads/{branch}")), tip);
}

#[test]
fn h3_a_remote_that_moved_is_merged_tried_and_pushed_and_nobody_loses_anything() {
    let yard = Yard::new();
    yard.configure("[merge]\npush = \"target\"\nvalidate = [\"test ! -e bad\"]");
    let bare = with_remote(&yard);
    yard.done("u1", "new", "new\n");
    let theirs = somebody_pushes(&yard, &bare, "theirs", "theirs\n");
    let ran = yard.merge(&["u1"]).ok();
    assert_eq!(ran.json()["next"], json!([]), "{}", ran.stdout);
    assert_eq!(yard.rev(&bare, "refs/heads/main"), yard.main());
    assert_eq!(yard.on_main("new").as_deref(), Some("new\n"));
    assert_eq!(yard.on_main("theirs").as_deref(), Some("theirs\n"));
    yard.world.git(
        &yard.repo(),
        ["merge-base", "--is-ancestor", theirs.as_str(), "main"],
    );
    // What does not merge, or does not pass with theirs, stays here and is told.
    for (unit, file, pushed) in [("u2", "same", "same"), ("u3", "fine", "bad")] {
        yard.done(unit, file, "ours\n");
        let theirs = somebody_pushes(&yard, &bare, pushed, "theirs\n");
        let ran = yard.merge(&[unit]).ok();
        let report = ran.json();
        assert_eq!(report["units"][0]["verdict"], "landed", "{report}");
        let pull = report["next"][0].as_str().expect("what is first to be done");
        assert!(
            pull.starts_with("git switch main && git pull --no-rebase origin main"),
            "{pull}"
        );
        assert_eq!(report["next"][1], "git push origin main");
        assert_eq!(
            yard.rev(&bare, "refs/heads/main"),
            theirs,
            "theirs stays as it is"
        );
        assert_eq!(yard.on_main(file).as_deref(), Some("ours\n"));
        // Put right by hand, so that the next one begins from the same.
        yard.world
            .git(&yard.repo(), ["update-ref", "refs/heads/main", theirs.as_str()]);
    }
    yard.is_tidy();
}

/// A unit whose landing began and was cut off.
fn begun(yard: &Yard, unit: &str) {
    for input in [
        UnitInput::DispatchInstance,
        UnitInput::InstanceRunning,
        UnitInput::InstanceCompleted,
        UnitInput::BeginMerge,
    ] {
        yard.transact(&Command::AdvanceUnit {
            unit: unit.parse().expect("a name"),
            input,
            facts: Box::new(Facts {
                agent: Some("manual".to_owned()),
                ..Facts::default()
            }),
        });
    }
}

#[test]
fn g1_a_unit_that_is_dirty_after_its_landing_began_goes_back_to_a_person() {
    let yard = Yard::new();
    let path = yard.done("u1", "new", "new\n");
    begun(&yard, "u1");
    yard.write(&path, "late", "late\n");
    let refusal = yard.merge(&["u1"]).exits(5).json();
    assert_eq!(refusal["error"]["code"], "uncommitted", "{refusal}");
    let unit = yard.phase("u1");
    assert_eq!(
        (&unit["state"], &unit["error"]["reason"]),
        (&json!("FAILED"), &json!("dirty"))
    );
    yard.commit(&path, "late");
    let _ = yard.jit(["worktree", "retry", "u1"]).ok();
    assert_eq!(yard.merge(&["u1"]).ok().json()["units"][0]["verdict"], "landed");
    assert_eq!(yard.on_main("late").as_deref(), Some("late\n"));
}

#[test]
fn g1_work_that_appears_while_the_checks_run_is_not_left_behind() {
    let yard = Yard::new();
    let path = yard.world.root().join("u1");
    let late = path.join("late");
    yard.configure(&format!(
        "[merge]\nvalidate = [\"echo late > {}\"]",
        late.display()
    ));
    yard.done("u1", "one", "1\n");
    yard.done("u2", "two", "2\n");
    let report = yard.merge(&["u1", "u2"]).exits(6).json();
    let verdict = |unit: &str| {
        let units = report["units"].as_array().expect("units");
        let one = units.iter().find(|one| one["unit"] == unit);
        one.map_or(Value::Null, |one| one["verdict"].clone())
    };
    assert_eq!(
        (verdict("u1"), verdict("u2")),
        (json!("refused"), json!("landed")),
        "{report}"
    );
    assert_eq!(yard.phase("u1")["error"]["reason"], "dirty");
    assert_eq!(yard.on_main("one"), None);
    assert_eq!(yard.on_main("two").as_deref(), Some("2\n"));
}

#[test]
fn h1_branches_are_compared_as_they_are_committed() {
    let yard = Yard::new();
    let a = yard.done("a", "file", "a\n");
    yard.done("b", "file", "b\n");
    yard.done("c", "elsewhere", "c\n");
    yard.write(&a, "elsewhere", "not committed\n");
    let picture = yard.jit(["conflicts", "a", "b", "c", "--json"]).ok().json();
    let pairs = picture["conflicts"].as_array().expect("a list");
    assert_eq!(pairs.len(), 1, "{picture}");
    assert_eq!((&pairs[0]["a"], &pairs[0]["b"]), (&json!("a"), &json!("b")));
    let _ = yard.jit(["conflicts", "a", "none"]).exits(3);
    yard.is_tidy();
}

/// `jit conflicts --watch --json`, ended with its owner.
pub struct Watcher {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Watcher {
    pub fn start(yard: &Yard) -> Self {
        let mut process = yard
            .world
            .jit_command(&yard.repo())
            .env("JIT_AGENT_ID", WHO)
            .args(["conflicts", "--watch", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("its output"));
        Self { process, lines }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// The picture that has, or has not, a conflict.
    pub fn until(&mut self, conflict: bool) -> Value {
        loop {
            let picture = self.next();
            if picture["conflicts"] != json!([]) || !conflict {
                return picture;
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the hook of an agent's session says.
fn hook(yard: &Yard, dir: &Path, event: &str, session: &str) -> String {
    let mut child = yard
        .world
        .jit_command(dir)
        .env("CLAUDE_PROJECT_DIR", dir)
        .args(["hooks", "agent", "claude", event])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let document = json!({ "session_id": session, "cwd": dir, "hook_event_name": event,
        "tool_name": "Bash", "tool_input": { "command": "ls" }, "prompt": "go on" });
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(document.to_string().as_bytes())
        .expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let text = &said["hookSpecificOutput"]["additionalContext"];
    text.as_str().unwrap_or_default().to_owned()
}

#[test]
fn h8_each_session_is_told_once_while_somebody_watches() {
    let yard = Yard::new();
    let (a, b, c) = (yard.unit("a"), yard.unit("b"), yard.unit("c"));
    yard.write(&a, "deep/down/new", "a\n");
    let mut watcher = Watcher::start(&yard);
    let first = watcher.next();
    assert_eq!(first["conflicts"], json!([]), "{first}");
    assert_eq!(hook(&yard, &a, "PostToolUse", "one"), "");
    // A save in a folder that is new, not committed.
    yard.write(&b, "deep/down/new", "b\n");
    let picture = watcher.until(true);
    assert_eq!(
        picture["conflicts"][0]["paths"][0]["path"], "deep/down/new",
        "{picture}"
    );
    let told = hook(&yard, &a, "PostToolUse", "one");
    assert!(told.contains("with b: \"deep/down/new\" (add/add)"), "{told:?}");
    assert_eq!(hook(&yard, &a, "PostToolUse", "one"), "", "once");
    assert_eq!(hook(&yard, &a, "UserPromptSubmit", "one"), "");
    let other = hook(&yard, &b, "UserPromptSubmit", "two");
    assert!(other.contains("with a"), "{other:?}");
    assert!(hook(&yard, &b, "SessionStart", "three").contains("would conflict"));
    assert_eq!(
        hook(&yard, &c, "PostToolUse", "four"),
        "",
        "it is in nobody's way"
    );
    // The same content: the conflict is over, and that is told to who knew of it.
    yard.write(&b, "deep/down/new", "a\n");
    let over = watcher.until(false);
    assert_eq!(over["conflicts"], json!([]), "{over}");
    assert!(hook(&yard, &a, "PostToolUse", "one").contains("nobody's way"));
    assert_eq!(hook(&yard, &a, "PostToolUse", "late"), "");
}

fn conflict_events(yard: &Yard) -> Vec<Value> {
    let listed = yard.jit(["events", "--type", "conflict", "--json"]).ok().json();
    listed["events"].as_array().expect("a list").clone()
}

#[test]
fn h8_each_change_is_in_the_log_once_however_many_watch() {
    let yard = Yard::new();
    let (a, b) = (yard.unit("a"), yard.unit("b"));
    let mut watchers = [Watcher::start(&yard), Watcher::start(&yard)];
    for watcher in &mut watchers {
        assert_eq!(watcher.next()["conflicts"], json!([]));
    }
    assert_eq!(conflict_events(&yard), Vec::<Value>::new(), "no news");
    for n in 0..12 {
        yard.write(&a, &format!("new/{n:02}"), "a\n");
    }
    // All of them at once: that it is about more of them would be told only a minute later.
    let aside = yard.world.root().join("aside");
    for n in 0..12 {
        yard.write(&aside, &format!("{n:02}"), "b\n");
    }
    fs::rename(&aside, b.join("new")).expect("renames");
    for watcher in &mut watchers {
        while watcher.until(true)["conflicts"][0]["paths"]
            .as_array()
            .map(Vec::len)
            != Some(12)
        {}
    }
    let events = conflict_events(&yard);
    let mut told: Vec<String> = events.iter().map(|one| one["payload"].to_string()).collect();
    let last = events.last().expect("an event");
    assert_eq!(last["type"], "conflict.found", "{last}");
    let about = &last["payload"];
    assert_eq!(
        (&about["a"]["unit"], &about["b"]["unit"]),
        (&json!("a"), &json!("b"))
    );
    assert_eq!(about["a"]["worktree_path"], json!(a), "{about}");
    assert_eq!(about["paths"].as_array().map(Vec::len), Some(8), "{about}");
    assert_eq!(about["more_paths"], 4, "{about}");
    assert_eq!(
        about["paths"][0],
        json!({ "path": "new/00", "kind": "add/add" }),
        "{about}"
    );
    told.dedup();
    assert_eq!(told.len(), events.len(), "the same is told once");
    let said = yard.jit(["events", "--type", "conflict.found"]).ok().stdout;
    assert!(said.contains("a and b: new/00"), "{said}");
    // It is over, for both who watch, and for the log once, some seconds after it was told.
    yard.world.git(&b, ["clean", "-q", "-f", "-d"]);
    for watcher in &mut watchers {
        while watcher.next()["conflicts"] != json!([]) {}
    }
    let over = || -> Vec<Value> {
        let all = conflict_events(&yard).into_iter();
        all.filter(|one| one["type"] == "conflict.gone").collect()
    };
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while over().is_empty() {
        assert!(std::time::Instant::now() < end, "nobody told the log");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(watchers);
    assert_eq!(over().len(), 1, "{:?}", over());
    assert_eq!(events.len(), 1, "{events:?}");
    // What came while nobody watched is found by the next one, and so is what went.
    yard.write(&a, "file", "a\n");
    yard.write(&b, "file", "b\n");
    let count = conflict_events(&yard).len();
    let _ = Watcher::start(&yard).until(true);
    assert_eq!(conflict_events(&yard).len(), count + 1);
    let _ = Watcher::start(&yard).until(true);
    assert_eq!(conflict_events(&yard).len(), count + 1, "nothing is new");
    yard.world.validates();
}

#[test]
fn g12_a_branch_that_is_another_units_by_now_is_not_pushed_for_one_that_is_over() {
    let yard = Yard::new();
    yard.configure("[merge]\npush = \"branch\"");
    let bare = with_remote(&yard);
    let made = |name: &str, file: &str| {
        let words = ["worktree", "create", name, "--branch", "topic", "--json"];
        let made = yard.jit(words).ok().json();
        let path = PathBuf::from(made["worktree_path"].as_str().expect("a path"));
        yard.write(&path, file, "text\n");
        yard.commit(&path, file);
    };
    made("one", "done");
    let _ = yard.jit(["finish", "one"]).ok();
    let before = yard.rev(&bare, "refs/heads/topic");
    made("two", "for nobody yet");
    let _ = yard.jit(["finish", "one"]).ok();
    assert_eq!(yard.rev(&bare, "refs/heads/topic"), before);
}

#[test]
fn h3_settings_that_cannot_be_read_are_not_taken_in_from_others() {
    let yard = Yard::new();
    yard.configure("[merge]\npush = \"target\"");
    let bare = with_remote(&yard);
    somebody_pushes(&yard, &bare, ".jit/config.toml", "not = [toml\n");
    let theirs = yard.rev(&bare, "refs/heads/main");
    yard.done("u1", "new", "new\n");
    let ran = yard.jit(["finish", "u1"]).ok();
    assert!(ran.stderr.contains("nothing could land"), "{}", ran.stderr);
    assert_eq!(yard.rev(&bare, "refs/heads/main"), theirs);
    assert!(
        !yard
            .on_main(".jit/config.toml")
            .expect("settings")
            .contains("not =")
    );
    // Here it goes on.
    yard.done("u2", "more", "more\n");
    let _ = yard.jit(["finish", "u2"]).ok();
    assert_eq!(yard.on_main("more").as_deref(), Some("more\n"));
}
