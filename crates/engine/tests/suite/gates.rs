//! Gates: what is defined, what runs, what is kept (E6).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead as _, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use jit_core::model::refusal::Code;
use jit_core::model::time::Wall;
use jit_engine::api::gates::Ran;
use jit_engine::api::gates::{Draft, MAX_TIMEOUT_SECS};
use jit_engine::api::gates::{Gate, GateName, GateResult, Status};
use jit_engine::gates::results::MAX_OUTPUT;
use jit_engine::gates::run;
use jit_engine::gates::run::gate_vars;
use jit_engine::gates::{Registry, Results, Run, Standing, presets};
use jit_git::snapshot::content_tree;
use jit_git::{GitEnv, Place};
use jit_os::process::{self, ProcessRef};

use jit_testkit::git_world::GitWorld;

const LONG: Duration = Duration::from_secs(120);

/// Keeps the output, and remembers each process whose number comes in a line `pid <number>` while it runs.
#[derive(Default)]
struct Witness {
    bytes: Vec<u8>,
    line: Vec<u8>,
    processes: Vec<ProcessRef>,
}

impl Write for Witness {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend(bytes);
        for byte in bytes {
            self.line.push(*byte);
            if *byte == b'\n' {
                let line = String::from_utf8_lossy(&self.line).into_owned();
                self.line.clear();
                if let Some(pid) = line.trim().strip_prefix("pid ") {
                    let pid = pid.parse().expect("number");
                    let found = ProcessRef::of(pid).expect("look").expect("it runs");
                    self.processes.push(found);
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Witness {
    /// So many were seen running, and none of them runs any more.
    fn all_gone(&self, count: usize) {
        assert_eq!(self.processes.len(), count, "{}", self.text());
        for one in &self.processes {
            assert!(!one.is_alive().expect("look"), "{one:?} survived");
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

fn go(dir: &Path, command: &str) -> (Ran, Witness) {
    go_within(dir, command, LONG)
}

fn go_within(dir: &Path, command: &str, timeout: Duration) -> (Ran, Witness) {
    let mut witness = Witness::default();
    let what = Run {
        command,
        dir,
        timeout,
        grace: Duration::from_millis(300),
        vars: &gate_vars("WI-1", "test"),
    };
    let ran = run(&what, &mut witness);
    (ran, witness)
}

#[test]
fn e6_a_command_passes_or_fails_by_its_exit_code() {
    let world = GitWorld::new();
    let (ran, witness) = go(
        &world.top,
        "echo one; echo two >&2; echo three; printf four; exit 0",
    );
    assert!(ran.passed(), "{ran:?}");
    assert_eq!((ran.exit_code, ran.signal, ran.timed_out), (Some(0), None, false));
    assert_eq!(witness.text(), "one\ntwo\nthree\nfour");
    assert_eq!(ran.tail, b"one\ntwo\nthree\nfour");
    assert!(!ran.truncated && !ran.file_cut && ran.survivors.is_empty());

    let (ran, _) = go(&world.top, "echo no; exit 3");
    assert_eq!((ran.passed(), ran.exit_code), (false, Some(3)));
    assert_eq!(ran.reason().as_deref(), Some("exit code 3"));
    let (ran, _) = go(&world.top, "-not-an-option");
    assert_eq!(ran.exit_code, Some(127));
}

#[test]
fn e6_what_cannot_run_has_failed_with_the_reason() {
    let world = GitWorld::new();
    let (ran, _) = go(&world.top, "no-such-command-anywhere");
    assert_eq!(ran.exit_code, Some(127));
    assert!(ran.reason().expect("failed").contains("not found"));

    fs::write(world.path("data"), "x").expect("write");
    let (ran, _) = go(&world.top, "./data");
    assert_eq!(ran.exit_code, Some(126));
    assert!(ran.reason().expect("failed").contains("cannot be executed"));

    let (ran, _) = go(&world.path("gone"), "true");
    assert_eq!((ran.exit_code, ran.signal), (None, None));
    assert!(ran.reason().expect("failed").contains("could not be started"));

    let (ran, _) = go(&world.top, "kill -9 $$");
    assert_eq!((ran.exit_code, ran.signal), (None, Some(9)));
    assert!(ran.reason().expect("failed").contains("signal 9"));
    let (ran, _) = go(&world.top, "sh -c 'kill -9 $$'; exit $?");
    assert!(ran.reason().expect("failed").contains("signal 9"), "{ran:?}");
    let (ran, _) = go(&world.top, "kill -9 0");
    assert_eq!(ran.signal, Some(9));
}

#[test]
fn e6_it_runs_where_it_is_told_with_nothing_to_read() {
    let world = GitWorld::new();
    let dir = world.path("a folder $HOME 'x'");
    fs::create_dir(&dir).expect("folder");
    let (ran, witness) = go(&dir, "pwd; read x || echo nothing; echo $JIT_ISSUE $JIT_GATE");
    assert!(ran.passed(), "{ran:?}");
    assert_eq!(witness.text(), format!("{}\nnothing\nWI-1 test\n", dir.display()));
}

#[test]
fn e6_large_and_binary_output_is_kept() {
    let world = GitWorld::new();
    let (ran, witness) = go(
        &world.top,
        "i=0; while [ $i -lt 5000 ]; do echo line number $i; i=$((i+1)); done; printf end",
    );
    assert!(ran.passed() && ran.truncated && !ran.file_cut);
    assert_eq!(ran.tail.len(), MAX_OUTPUT);
    assert!(witness.bytes.len() > 4 * MAX_OUTPUT);
    assert!(witness.text().starts_with("line number 0\n"));
    assert!(witness.bytes.ends_with(&ran.tail) && ran.tail.ends_with(b"4999\nend"));

    let (ran, witness) = go(&world.top, r"printf '\377\000\001\303\251'");
    assert_eq!(witness.bytes, b"\xff\0\x01\xc3\xa9");
    assert_eq!(ran.tail_text(), "\u{fffd}\0\u{1}é");
}

#[test]
fn e6_a_cut_character_does_not_show() {
    let ran = Ran {
        tail: b"\xa9 rest".to_vec(),
        truncated: true,
        ..Ran::default()
    };
    assert_eq!(ran.tail_text(), " rest");
}

#[test]
fn e6_a_timeout_ends_the_process_group_and_what_left_it() {
    let world = GitWorld::new();
    let (ran, witness) = go_within(
        &world.top,
        "setsid sh -c 'echo pid $$; exec sleep 1000' &
         setsid sh -c 'trap \"\" TERM; echo pid $$; sleep 1000; sleep 1000' &
         env -i setsid sh -c 'echo pid $$; exec sleep 1000 >/dev/null 2>&1' &
         echo pid $$; sleep 1000",
        Duration::from_secs(3),
    );
    assert!(ran.timed_out && !ran.passed(), "{ran:?}");
    assert!(ran.reason().expect("failed").contains("in time"));
    assert_eq!(ran.survivors, [0; 0]);
    witness.all_gone(4);
}

#[test]
fn e6_whoever_does_not_listen_is_killed_even_when_stopped() {
    let world = GitWorld::new();
    let (ran, witness) = go_within(
        &world.top,
        "trap '' TERM; echo pid $$; kill -STOP $$; while :; do sleep 1000; done",
        Duration::from_secs(2),
    );
    assert!(ran.timed_out, "{ran:?}");
    assert_eq!(ran.signal, Some(9));
    witness.all_gone(1);
}

#[test]
fn e6_one_who_listens_may_clean_up() {
    let world = GitWorld::new();
    let mut witness = Witness::default();
    let what = Run {
        command: "trap 'echo cleaned; exit 7' TERM; echo pid $$; while :; do sleep 1000 & wait $!; done",
        dir: &world.top,
        timeout: Duration::from_secs(2),
        grace: LONG,
        vars: &[],
    };
    let ran = run(&what, &mut witness);
    assert!(ran.timed_out && !ran.passed());
    assert_eq!(ran.exit_code, Some(7));
    assert!(witness.text().ends_with("cleaned\n"));
    witness.all_gone(1);
}

#[test]
fn e6_what_is_left_in_the_background_is_ended_too() {
    let world = GitWorld::new();
    // In the group, output closed.
    let (ran, witness) = go(&world.top, "sleep 1000 >/dev/null 2>&1 & echo pid $!; exit 0");
    assert!(ran.passed(), "{ran:?}");
    witness.all_gone(1);
    // In the group, holding the output.
    let (ran, witness) = go(&world.top, "sleep 1000 & echo pid $!; exit 0");
    assert!(ran.passed(), "{ran:?}");
    witness.all_gone(1);
    // Each of these reports through a pipe, so that the command ends after it has left.
    for (name, left) in [
        (
            "by its mark",
            "setsid sh -c 'echo pid $$; echo >fifo; exec sleep 1000 >/dev/null 2>&1'",
        ),
        (
            "by the output it holds",
            "env -i setsid sh -c 'echo pid $$; echo >fifo; exec sleep 1000'",
        ),
    ] {
        let (ran, witness) = go(
            &world.top,
            &format!("rm -f fifo; mkfifo fifo; {left} & read x <fifo; exit 0"),
        );
        assert!(ran.passed(), "{name}: {ran:?}");
        assert_eq!(ran.survivors, [0; 0], "{name}");
        witness.all_gone(1);
    }
}

#[test]
fn e6_output_from_the_background_is_waited_for_a_moment() {
    let world = GitWorld::new();
    let (ran, witness) = go(&world.top, "(echo late) & exit 0");
    assert!(ran.passed());
    assert_eq!(witness.text(), "late\n");
}

#[test]
fn e6_a_background_that_never_stops_writing_is_not_listened_to_for_ever() {
    let world = GitWorld::new();
    let (ran, witness) = go(
        &world.top,
        "(trap '' TERM; while :; do echo x; done) & echo pid $!; exit 0",
    );
    assert!(ran.passed() && !ran.timed_out, "{ran:?}");
    witness.all_gone(1);
}

#[test]
fn e6_a_timeout_without_end_is_no_trouble() {
    let world = GitWorld::new();
    let (ran, _) = go_within(&world.top, "true", Duration::MAX);
    assert!(ran.passed(), "{ran:?}");
}

/// Does nothing by itself: another test starts it, as a process that can be killed or has an odd environment.
#[test]
fn e6_helper_process() {
    let Some(command) = std::env::var_os("JIT_TEST_GATE_COMMAND") else {
        return;
    };
    let what = Run {
        command: command.to_str().expect("text"),
        dir: Path::new("/"),
        timeout: LONG,
        grace: Duration::from_millis(300),
        vars: &[],
    };
    run(&what, &mut io::stdout());
}

fn helper(command: &str) -> Command {
    let mut helper = Command::new(std::env::current_exe().expect("this program"));
    helper
        .args(["--exact", "gates::e6_helper_process", "--nocapture"])
        .env("JIT_TEST_GATE_COMMAND", command)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    helper
}

#[test]
fn e6_a_gate_ends_when_its_runner_is_killed() {
    let mut runner = helper("trap '' INT HUP; sleep 1000 & echo; echo pid $!; echo pid $$; wait")
        .stdout(Stdio::piped())
        .spawn()
        .expect("start");
    let mut lines = io::BufReader::new(runner.stdout.take().expect("piped")).lines();
    let processes: Vec<ProcessRef> = lines
        .by_ref()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("pid ")?.parse().ok())
        .take(2)
        .map(|pid: u32| ProcessRef::of(pid).expect("look").expect("runs"))
        .collect();
    assert_eq!(processes.len(), 2);
    runner.kill().expect("kill");
    runner.wait().expect("wait");
    for one in processes {
        assert!(process::wait_for_end(one, LONG).expect("look"), "{one:?}");
    }
}

#[test]
fn e6_no_variable_of_a_running_git_reaches_the_command() {
    let output = helper("echo; echo \"[$GIT_DIR$GIT_INDEX_FILE$GIT_X]$OTHER\"")
        .env("GIT_DIR", "/x")
        .env("GIT_INDEX_FILE", "/x/index")
        .env("GIT_X", "x")
        .env("OTHER", "kept")
        .output()
        .expect("run");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line == "[]kept"), "{text}");
}

fn name(text: &str) -> GateName {
    text.parse().expect("name")
}

fn gate(draft: Draft) -> Gate {
    draft.try_into().expect("gate")
}

#[test]
fn e6_names_are_safe_words() {
    for good in ["a", "0", "test", "a.b_c-d", &"x".repeat(64)] {
        assert!(good.parse::<GateName>().is_ok(), "{good}");
    }
    for bad in [
        "",
        ".",
        "..",
        "-x",
        "_x",
        "A",
        "a b",
        "a/b",
        "é",
        "a\n",
        "a\0",
        &"x".repeat(65),
    ] {
        assert!(bad.parse::<GateName>().is_err(), "{bad:?}");
    }
}

#[test]
fn e6_a_registry_is_written_and_read() {
    let world = GitWorld::new();
    let jit = world.path(".jit");
    assert!(Registry::load(&jit).expect("none").is_empty());
    Registry::edit(&jit, |registry| {
        registry.define(name("review"), gate(Draft::manual()));
        let draft = Draft {
            required_for: vec!["task".to_owned(), "bug".to_owned(), "bug".to_owned()],
            ..Draft::automatic("cargo test")
        };
        registry.define(name("test"), gate(draft));
        Ok(())
    })
    .expect("written");
    let text = fs::read_to_string(Registry::path(&jit)).expect("read");
    let expected = r#"{
  "schema_version": 1,
  "gates": {
    "review": {
      "command": null,
      "manual": true,
      "timeout_secs": 600,
      "description": null,
      "required_for": []
    },
    "test": {
      "command": "cargo test",
      "manual": false,
      "timeout_secs": 600,
      "description": null,
      "required_for": [
        "bug",
        "task"
      ]
    }
  }
}
"#;
    assert_eq!(text, expected);
    let registry = Registry::load(&jit).expect("read");
    assert!(registry.find("review").expect("there").is_manual());
    let asked = ["audit".to_owned(), "test".to_owned()];
    let required: Vec<&str> = registry.required("bug", &asked).into_iter().collect();
    assert_eq!(required, ["audit", "test"], "an undefined gate is required too");
    assert_eq!(registry.required("epic", &[]).len(), 0);

    let refusal = Registry::edit(&jit, |registry| registry.remove("nothing")).expect_err("no such gate");
    assert_eq!(refusal.code, Code::NotFound);
    assert!(refusal.message.contains("review, test"), "{}", refusal.message);
    Registry::edit(&jit, |registry| registry.remove("test")).expect("removed");
    assert!(Registry::load(&jit).expect("read").find("test").is_none());
}

#[test]
fn e6_a_bad_registry_is_refused_with_file_line_and_key() {
    let world = GitWorld::new();
    let jit = world.path(".jit");
    fs::create_dir_all(jit.join("gates")).expect("folder");
    let path = Registry::path(&jit);
    let cases: &[(&str, &[&str])] = &[
        ("", &["line 1"]),
        ("{\n\"schema_version\": 1,\n\"gates\": {}", &["line 3"]),
        (
            "{\"schema_version\": 1, \"gates\": {}} x",
            &["line 1", "after the end"],
        ),
        ("{\"schema_version\": 1,\n\"gate\": {}}", &["line 2", "`gate`"]),
        ("{\"schema_version\": 1}", &["`gates`"]),
        (
            "{\"schema_version\": 1, \"gates\": {\n\"test\": {\n\"command\": 3}}}",
            &["line 3", "`gates.test"],
        ),
        (
            "{\"schema_version\": 1, \"gates\": {\"test\": {\n\"comand\": \"x\"}}}",
            &["line 2", "`comand`", "gates.test"],
        ),
        (
            "{\"schema_version\": 1, \"gates\": {\"a/b\": {\"command\": \"x\"}}}",
            &["line 1", "a/b"],
        ),
        (
            "{\"schema_version\": 1, \"gates\": {\"a\": {\"command\": \"x\"}, \"a\": {\"command\": \"y\"}}}",
            &["`a` is there twice"],
        ),
        (
            "{\"schema_version\": 1, \"gates\": {\"a\": {\"command\": \"x\", \"manual\": true}}}",
            &["gates.a", "manual gate has no command"],
        ),
        (
            "{\"schema_version\": 1, \"gates\": {\"a\": {}}}",
            &["gates.a", "needs a command"],
        ),
        (
            "{\"schema_version\": 1, \"gates\": {\"a\": {\"command\": \" \"}}}",
            &["gates.a", "empty"],
        ),
        (
            "{\"schema_version\": 1, \"gates\": {\"a\": {\"command\": \"x\", \"timeout_secs\": 0}}}",
            &["gates.a", "timeout_secs"],
        ),
        (
            "{\"schema_version\": 1, \"gates\": {\"a\": {\"command\": \"x\", \"required_for\": [\"a b\"]}}}",
            &["gates.a", "required_for"],
        ),
    ];
    for (content, words) in cases {
        fs::write(&path, content).expect("write");
        let refusal = Registry::load(&jit).expect_err(content);
        assert_eq!(refusal.code, Code::Config, "{content}");
        assert!(refusal.message.contains("registry.json"), "{}", refusal.message);
        for word in *words {
            assert!(
                refusal.message.contains(word),
                "{content}: {} lacks {word}",
                refusal.message
            );
        }
        let edited = Registry::edit(&jit, |_| Ok(()));
        assert!(
            edited.is_err(),
            "{content}: nothing is put in place of what cannot be read"
        );
        assert_eq!(&fs::read_to_string(&path).expect("read"), content);
    }
    fs::write(&path, "{\"schema_version\": 2, \"gates\": {}, \"new\": 1}").expect("write");
    assert_eq!(Registry::load(&jit).expect_err("newer").code, Code::Newer);
    fs::write(&path, vec![b' '; (1 << 20) + 1]).expect("write");
    let refusal = Registry::load(&jit).expect_err("too large");
    assert!(refusal.message.contains("larger than"), "{}", refusal.message);
    let too_long = Draft {
        timeout_secs: MAX_TIMEOUT_SECS + 1,
        ..Draft::automatic("x")
    };
    assert!(Gate::try_from(too_long).is_err());
}

#[test]
fn e6_no_link_is_followed() {
    let world = GitWorld::new();
    let jit = world.path(".jit");
    let elsewhere = world.path("elsewhere");
    fs::create_dir_all(jit.join("gates")).expect("folder");
    fs::write(&elsewhere, "{\"schema_version\": 1, \"gates\": {}}").expect("write");
    std::os::unix::fs::symlink(&elsewhere, Registry::path(&jit)).expect("link");
    assert!(Registry::load(&jit).is_err());

    let other = world.path("other");
    fs::create_dir_all(&other).expect("folder");
    let target = world.path("target");
    fs::create_dir(&target).expect("folder");
    std::os::unix::fs::symlink(&target, other.join("gates")).expect("link");
    let edited = Registry::edit(&other, |registry| {
        registry.define(name("x"), gate(Draft::manual()));
        Ok(())
    });
    assert!(edited.is_err());
    assert_eq!(fs::read_dir(&target).expect("list").count(), 0);
}

#[test]
fn e6_changes_at_the_same_time_are_all_kept() {
    let world = GitWorld::new();
    let jit = world.path(".jit");
    std::thread::scope(|scope| {
        for n in 0..8 {
            let jit = &jit;
            scope.spawn(move || {
                Registry::edit(jit, |registry| {
                    registry.define(name(&format!("g{n}")), gate(Draft::manual()));
                    Ok(())
                })
                .expect("written");
            });
        }
    });
    assert_eq!(Registry::load(&jit).expect("read").iter().count(), 8);
}

#[test]
fn e6_presets_fit_what_is_there() {
    let world = GitWorld::new();
    assert_eq!(presets::detect(&world.top), [""; 0]);
    for (file, found) in [
        ("Cargo.toml", vec!["cargo"]),
        ("package.json", vec!["cargo", "npm"]),
        ("setup.cfg", vec!["cargo", "npm", "pytest"]),
        ("go.mod", vec!["cargo", "npm", "pytest", "go"]),
    ] {
        fs::write(world.path(file), "").expect("write");
        assert_eq!(presets::detect(&world.top), found);
    }
    let count = |name: &str| presets::preset(name).map(|gates| gates.len());
    assert_eq!(
        presets::names().collect::<Vec<_>>(),
        ["cargo", "npm", "pytest", "go"]
    );
    assert_eq!(
        ["cargo", "npm", "pytest", "go"].map(count),
        [Some(3), Some(3), Some(1), Some(2)]
    );
    assert_eq!(count("cobol"), None);
}

#[test]
fn e6_results_are_kept_with_the_tree_and_the_command() {
    let world = GitWorld::new();
    let jit = world.path(".jit");
    let issue = "WI-1".parse().expect("issue");
    let me = || "agent:a".parse().expect("agent");
    let at = Wall::from_ms(1_700_000_000_000);
    let (ran, _) = go(&world.top, "echo hello");
    let mut result = GateResult::automatic("echo hello", &ran, me(), at, Some("aa".to_owned()));
    result.duration_ms = Some(5);
    Results::record(&jit, &issue, &name("test"), result).expect("kept");
    let judged = GateResult::manual(
        Status::Failed,
        Some("not yet".to_owned()),
        me(),
        at,
        Some("aa".to_owned()),
    );
    let results = Results::record(&jit, &issue, &name("review"), judged).expect("kept");
    assert_eq!(Results::load(&jit, &issue).expect("read"), results);
    let text = fs::read_to_string(Results::path(&jit, &issue)).expect("read");
    let value: serde_json::Value = serde_json::from_str(&text).expect("json");
    let expected = serde_json::json!({
        "status": "passed", "kind": "automatic", "by": "agent:a", "at": "2023-11-14T22:13:20.000Z",
        "duration_ms": 5, "exit_code": 0, "signal": null, "timed_out": false, "reason": null, "note": null,
        "command": "echo hello", "tree": "aa", "output": "hello\n", "output_truncated": false,
        "output_file": null,
    });
    assert_eq!(value["results"]["test"], expected);

    let same = gate(Draft::automatic("echo hello"));
    let other = gate(Draft::automatic("true"));
    let manual = gate(Draft::manual());
    let standing = |name, gate, tree| results.standing(name, gate, tree);
    assert_eq!(standing("test", Some(&same), Some("aa")), Standing::Passed);
    assert_eq!(standing("test", Some(&same), None), Standing::Passed);
    assert_eq!(standing("test", Some(&same), Some("bb")), Standing::OtherTree);
    assert_eq!(standing("test", Some(&other), Some("aa")), Standing::OtherGate);
    assert_eq!(standing("test", Some(&manual), Some("aa")), Standing::OtherGate);
    assert_eq!(standing("test", None, Some("aa")), Standing::Missing);
    assert_eq!(standing("none", Some(&same), Some("aa")), Standing::Missing);
    assert_eq!(standing("review", Some(&manual), Some("aa")), Standing::Failed);

    let (ran, _) = go(&world.top, "no-such-command-anywhere");
    let failed = GateResult::automatic("x", &ran, me(), at, None);
    assert_eq!(failed.status, Status::Failed);
    assert!(failed.reason.expect("why").contains("not found"));

    fs::write(Results::path(&jit, &issue), text.replace("WI-1", "WI-2")).expect("write");
    let refusal = Results::load(&jit, &issue).expect_err("another issue's");
    assert!(refusal.message.contains("WI-1.json"), "{}", refusal.message);
    fs::write(Results::path(&jit, &issue), text.replace("passed", "splendid")).expect("write");
    let refusal = Results::load(&jit, &issue).expect_err("unknown status");
    assert!(
        refusal.message.contains("results.test.status"),
        "{}",
        refusal.message
    );
}

fn tree_of(dir: &Path) -> String {
    let place = Place::discover(dir, &GitEnv::default()).expect("place");
    content_tree(&place).expect("hash").expect("git")
}

/// The files of the git folder that must not change.
fn index_and_objects(git_dir: &Path) -> (Option<Vec<u8>>, usize, usize) {
    let count = |path: &Path| fs::read_dir(path).expect("list").count();
    (
        fs::read(git_dir.join("index")).ok(),
        count(&git_dir.join("objects")),
        count(git_dir),
    )
}

#[test]
fn e6_the_tree_is_what_git_would_commit() {
    let world = GitWorld::new();
    let repo = world.repo("re\"po: x");
    fs::write(repo.join("tracked"), "one").expect("write");
    fs::write(repo.join(".gitignore"), "ignored\n").expect("write");
    fs::create_dir_all(repo.join(".jit")).expect("folder");
    fs::write(repo.join(".jit/config.toml"), "").expect("write");
    world.git(&repo, ["add", "-A"]);
    world.commit(&repo, "two");
    fs::write(repo.join("tracked"), "two").expect("write");
    fs::write(repo.join("staged"), "s").expect("write");
    world.git(&repo, ["add", "staged"]);
    fs::write(repo.join("new file"), "n").expect("write");
    fs::write(repo.join("ignored"), "i").expect("write");

    let before = index_and_objects(&repo.join(".git"));
    let first = tree_of(&repo);
    assert_eq!(first, tree_of(&repo));
    assert_eq!(
        index_and_objects(&repo.join(".git")),
        before,
        "nothing is left behind"
    );
    fs::create_dir_all(repo.join("sub")).expect("folder");
    assert_eq!(first, tree_of(&repo.join("sub")), "wherever one stands");

    fs::write(repo.join("ignored"), "other").expect("write");
    fs::write(repo.join(".jit/config.toml"), "# changed").expect("write");
    fs::write(repo.join(".jit/new"), "new").expect("write");
    assert_eq!(first, tree_of(&repo), "neither ignored files nor .jit count");
    world.git(&repo, ["add", "-A"]);
    assert_eq!(first, tree_of(&repo), "nor what was staged of .jit");
    world.commit(&repo, "three");
    assert_eq!(first, tree_of(&repo), "nor what was committed of .jit");

    fs::write(repo.join("new file"), "N").expect("write");
    let changed = tree_of(&repo);
    assert_ne!(first, changed, "one byte of the same length counts");
    fs::write(repo.join("new file"), "n").expect("write");
    assert_eq!(first, tree_of(&repo));
    fs::write(repo.join("untracked"), "").expect("write");
    assert_ne!(first, tree_of(&repo));
    fs::remove_file(repo.join("untracked")).expect("remove");
    fs::remove_file(repo.join("tracked")).expect("remove");
    assert_ne!(first, tree_of(&repo), "a removed file counts");

    // Compared with git itself, without .jit.
    world.git(&repo, ["rm", "-r", "-q", "-f", "--cached", ".jit"]);
    world.git(&repo, ["add", "-A", "--", ".", ":!.jit"]);
    let theirs = world.git(&repo, ["write-tree"]);
    assert_eq!(tree_of(&repo), String::from_utf8_lossy(&theirs).trim());
}

#[test]
fn e6_a_change_in_the_instant_of_the_last_add_counts() {
    let world = GitWorld::new();
    let repo = world.repo("repo");
    // So that only size and time tell that a file changed, and neither does.
    world.git(&repo, ["config", "core.trustctime", "false"]);
    world.git(&repo, ["config", "core.checkStat", "minimal"]);
    let (file, index) = (repo.join("file"), repo.join(".git/index"));
    let instant = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let set_time = |path: &Path| {
        let opened = fs::File::options().write(true).open(path).expect("open");
        opened.set_modified(instant).expect("time");
    };
    fs::write(&file, "one").expect("write");
    set_time(&file);
    world.git(&repo, ["add", "file"]);
    set_time(&index);
    let first = tree_of(&repo);
    fs::write(&file, "two").expect("write");
    set_time(&file);
    assert_ne!(first, tree_of(&repo));
}

#[test]
fn e6_the_tree_is_known_everywhere() {
    let world = GitWorld::new();
    let unborn = world.path("unborn");
    fs::create_dir(&unborn).expect("folder");
    world.git(&unborn, ["init", "-q"]);
    let empty = tree_of(&unborn);
    fs::write(unborn.join("a"), "a").expect("write");
    let full = tree_of(&unborn);
    assert_ne!(empty, full);

    let repo = world.repo("repo");
    assert_eq!(tree_of(&repo), empty, "no file, same tree");
    let linked = world.worktree(&repo, "linked", "side");
    fs::write(linked.join("a"), "a").expect("write");
    assert_eq!(tree_of(&linked), full, "same content, same tree");
    assert_eq!(tree_of(&repo), empty);
    assert_eq!(
        fs::read_dir(repo.join(".git/worktrees/linked"))
            .expect("list")
            .filter(|entry| entry
                .as_ref()
                .expect("entry")
                .file_name()
                .to_string_lossy()
                .starts_with("jit"))
            .count(),
        0
    );

    let plain = world.path("plain");
    fs::create_dir(&plain).expect("folder");
    // Nothing above the temporary folder is looked at.
    let env = GitEnv {
        git_ceiling_directories: Some(OsString::from(&world.top)),
        ..GitEnv::default()
    };
    let place = Place::discover(&plain, &env).expect("place");
    assert_eq!(content_tree(&place).expect("no git"), None);
    let bare = world.path("bare");
    world.git(
        &world.top,
        [
            OsStr::new("init"),
            "-q".as_ref(),
            "--bare".as_ref(),
            bare.as_ref(),
        ],
    );
    let place = Place::discover(&bare, &GitEnv::default()).expect("place");
    assert_eq!(content_tree(&place).expect("bare"), None);
}
