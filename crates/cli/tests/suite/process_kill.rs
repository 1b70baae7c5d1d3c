//! Processes that end in the middle, and system calls that fail: whatever happens at whatever call, the next command
//! works, nothing that was acknowledged is lost, and a repeated request is carried out once.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{fs, thread};

use jit_testkit::world::tools::{Folder, Snapshot, TracedCall, long, say, without};
use jit_testkit::world::{Ran, World};
use serde_json::Value;

const JIT: &str = env!("CARGO_BIN_EXE_jit");
const REQUEST: &str = "the-one-request";

/// A command to be disturbed.
struct Case {
    name: &'static str,
    agent: &'static str,
    words: &'static [&'static str],
    /// Run before, each as the agent named first.
    before: &'static [&'static [&'static str]],
    /// Done to the files before.
    damage: fn(&World),
    /// Who holds WORK-1 when all is done.
    holder: Option<&'static str>,
}

fn no_damage(_: &World) {}

/// What a writer leaves that was cut off in the middle of a line.
fn torn_end(world: &World) {
    let log = world.control().join("events/control.jsonl");
    let mut bytes = fs::read(&log).expect("a log");
    bytes.extend_from_slice(b"{\"schema_version\":1,\"sequence\":9");
    fs::write(&log, bytes).expect("a log");
}

/// Everything that is derived from the log is gone.
fn no_state(world: &World) {
    fs::remove_dir_all(world.control().join("state")).expect("a state");
    fs::create_dir(world.control().join("state")).expect("a state");
    fs::remove_file(world.control().join("claims.index.json")).expect("an index");
    fs::remove_file(world.control().join("claims.jsonl")).expect("records");
}

/// The names of the files that the journal was folded into.
fn runs(world: &World) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(world.control().join("state")).expect("a state");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut runs: Vec<_> = names
        .filter(|name| name.to_string_lossy().starts_with("run-"))
        .collect();
    runs.sort();
    runs
}

/// The journal has grown so far that the next command folds it.
fn heavy_journal(world: &World) {
    for n in 0..2000 {
        if n > 40 {
            let (snapshot, before) = (world.snapshot(), runs(world));
            let _ = world.jit_as("agent:one", ["claim", "acquire", "WORK-1"]).ok();
            let folds = runs(world) != before;
            world.restore(&snapshot);
            if folds {
                return;
            }
        }
        let verb = if n % 2 == 0 { "acquire" } else { "release" };
        let _ = world.jit_as("agent:pad", ["claim", verb, "PAD-1"]).ok();
    }
    panic!("the journal is never folded");
}

/// What strace is told to make every sync of the log fail.
const NO_SYNC: &[&str] = &[
    "strace",
    "-f",
    "-qq",
    "-o/dev/null",
    "-etrace=fdatasync",
    "-einject=fdatasync:error=EIO",
];

/// A sync of the log has failed: the next command begins a new segment.
fn suspect_segment(world: &World) {
    let words = ["claim", "acquire", "PAD-1", "--json"];
    let _ = world
        .run(world.jit_by_way_of(NO_SYNC, "agent:pad", words))
        .exits(7);
}

const HOLD: &[&str] = &["agent:one", "claim", "acquire", "WORK-1", "--ttl", "1h"];

const CASES: &[Case] = &[
    Case {
        name: "acquire",
        agent: "agent:one",
        words: &["claim", "acquire", "WORK-1", "--ttl", "1h"],
        before: &[],
        damage: no_damage,
        holder: Some("agent:one"),
    },
    Case {
        name: "renew",
        agent: "agent:one",
        words: &["claim", "renew", "WORK-1", "--ttl", "2h"],
        before: &[HOLD],
        damage: no_damage,
        holder: Some("agent:one"),
    },
    Case {
        name: "release",
        agent: "agent:one",
        words: &["claim", "release", "WORK-1"],
        before: &[HOLD],
        damage: no_damage,
        holder: None,
    },
    Case {
        name: "transfer",
        agent: "agent:one",
        words: &["claim", "transfer", "WORK-1", "--to", "agent:two"],
        before: &[HOLD],
        damage: no_damage,
        holder: Some("agent:two"),
    },
    Case {
        name: "force-evict",
        agent: "human:boss",
        words: &["claim", "force-evict", "WORK-1", "--reason", "it is stuck"],
        before: &[HOLD],
        damage: no_damage,
        holder: None,
    },
    Case {
        name: "create",
        agent: "agent:one",
        words: &[
            "issue",
            "create",
            "New",
            "--id",
            "NEW-1",
            "--label",
            "a",
            "--description",
            "Long text",
        ],
        before: &[HOLD],
        damage: no_damage,
        holder: Some("agent:one"),
    },
    Case {
        name: "acquire, mending a torn end",
        agent: "agent:one",
        words: &["claim", "acquire", "WORK-1", "--ttl", "1h"],
        before: &[],
        damage: torn_end,
        holder: Some("agent:one"),
    },
    Case {
        name: "acquire, folding the journal",
        agent: "agent:one",
        words: &["claim", "acquire", "WORK-1", "--ttl", "1h"],
        before: &[],
        damage: heavy_journal,
        holder: Some("agent:one"),
    },
    Case {
        name: "acquire, leaving a suspect segment",
        agent: "agent:one",
        words: &["claim", "acquire", "WORK-1", "--ttl", "1h"],
        before: &[],
        damage: suspect_segment,
        holder: Some("agent:one"),
    },
    Case {
        name: "acquire, making all state anew",
        agent: "agent:one",
        words: &["claim", "acquire", "WORK-1", "--ttl", "1h"],
        before: &[],
        damage: no_state,
        holder: Some("agent:one"),
    },
];

impl Case {
    fn words(&self) -> Vec<&'static str> {
        let mut words = self.words.to_vec();
        words.extend(["--json", "--request-id", REQUEST]);
        words
    }

    /// A world in which the command can be run, and the way back to it.
    fn prepare(&self) -> (World, Snapshot) {
        let world = World::with_jit(JIT);
        let setup: &[&[&str]] = &[
            &["human:setup", "issue", "create", "Work", "--id", "WORK-1"],
            &["human:setup", "issue", "create", "Other", "--id", "OTHER-1"],
            &["human:setup", "issue", "create", "Pad", "--id", "PAD-1"],
            &["agent:old", "claim", "acquire", "WORK-1"],
            &["agent:old", "claim", "release", "WORK-1"],
        ];
        for words in setup.iter().chain(self.before) {
            let _ = world.jit_as(words[0], &words[1..]).ok();
        }
        (self.damage)(&world);
        let snapshot = world.snapshot();
        (world, snapshot)
    }

    /// The system calls that matter: from the moment when the control plane is opened.
    fn calls(&self, world: &World, snapshot: &Snapshot) -> (Vec<TracedCall>, usize) {
        // Restored first, as for every run that follows: copied files are looked at more closely than known ones.
        world.restore(snapshot);
        let (ran, calls) = world.trace(self.agent, self.words());
        let _ = ran.ok();
        let from = calls
            .iter()
            .position(|call| call.line.contains(".git/jit\""))
            .expect("the control plane is opened");
        (calls, from)
    }

    /// The whole check after a disturbed run.
    fn check(&self, world: &World, ran: &Ran, retry_first: bool, what: &str) {
        let tell = |ran: &Ran| {
            format!(
                "{what}: exit {}\nstdout: {}\nstderr: {}",
                ran.code, ran.stdout, ran.stderr
            )
        };
        let expect_ok = |agent: &str, words: &[&str]| {
            let ran = world.jit_as(agent, words);
            assert_eq!(ran.code, 0, "{words:?} after {}", tell(&ran));
            ran
        };
        let other = || {
            let _ = expect_ok("agent:other", &["claim", "acquire", "OTHER-1", "--ttl", "1h"]);
            let ran = world.jit(["validate", "--json"]);
            assert_eq!(ran.code, 0, "validate after {}", tell(&ran));
        };
        let effects = world.effects_of(REQUEST);
        // Reading comes first: it neither fails nor writes.
        let list = expect_ok("agent:reader", &["claim", "list", "--json"]).json();
        // An acknowledgement is an exit code of 0, or an answer on standard output that is none of failure.
        let answered = serde_json::from_str::<Value>(&ran.stdout).is_ok_and(|v| v.get("error").is_none());
        match ran.code {
            0 => assert_eq!(effects, 1, "acknowledged and lost: {}", tell(ran)),
            1 => assert_eq!(effects, 0, "refused and done: {}", tell(ran)),
            _ if answered => assert_eq!(effects, 1, "answered and lost: {}", tell(ran)),
            _ => assert!(effects <= 1, "doubled: {}", tell(ran)),
        }
        let retried = if retry_first {
            let retried = expect_ok(self.agent, &self.words());
            other();
            retried
        } else {
            other();
            expect_ok(self.agent, &self.words())
        };
        if answered {
            let (mut first, mut second) = (ran.json(), retried.json());
            if first["description"].is_null() {
                // The text could not be read back for the answer; whether it is kept is looked at below.
                (first["description"], second["description"]) = (Value::Null, Value::Null);
            }
            assert_eq!(first, second, "the same answer: {what}");
        }
        assert_eq!(world.effects_of(REQUEST), 1, "exactly one effect: {what}");
        for (n, event) in world.events().iter().enumerate() {
            assert_eq!(event["sequence"], n as u64 + 1, "gapless: {what}");
        }
        let after = expect_ok("agent:reader", &["claim", "list", "--json"]).json();
        let holder = |list: &Value| {
            let leases = list["active"].as_array().cloned().unwrap_or_default();
            let on_work = leases.into_iter().filter(|lease| lease["issue_id"] == "WORK-1");
            let holders: Vec<String> = on_work
                .filter_map(|lease| lease["agent_id"].as_str().map(str::to_owned))
                .collect();
            assert!(holders.len() <= 1, "{what}: {list}");
            holders.first().cloned()
        };
        assert_eq!(holder(&after).as_deref(), self.holder, "{what}");
        if effects == 1 {
            assert_eq!(holder(&list).as_deref(), self.holder, "seen at once: {what}");
        }
        if self.name == "create" {
            let issue = expect_ok("agent:reader", &["issue", "show", "NEW-1", "--json"]).json();
            assert_eq!(issue["description"], "Long text\n", "{what}");
        }
    }
}

/// One disturbance: what strace is told, in words for people and for it.
struct Injection {
    call: TracedCall,
    how: String,
}

/// Runs every injection of a case, a few at a time, each from the same start. Returns how many exits of which code.
fn run_all(case: &Case, injections: &[Injection]) -> BTreeMap<i32, usize> {
    let cores = thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let codes: Mutex<BTreeMap<i32, usize>> = Mutex::default();
    let failures: Mutex<String> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..cores.clamp(2, 8) {
            scope.spawn(|| {
                let (world, snapshot) = case.prepare();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(injection) = injections.get(n) else {
                        return;
                    };
                    let Injection { call, how } = injection;
                    world.restore(&snapshot);
                    let way = [
                        "strace".to_owned(),
                        "-f".to_owned(),
                        "-qq".to_owned(),
                        "-o/dev/null".to_owned(),
                        format!("-etrace={}", call.name),
                        format!("-einject={}:{how}:when={}", call.name, call.nth),
                    ];
                    let ran = world.run(world.jit_by_way_of(&way, case.agent, case.words()));
                    *codes.lock().expect("no panic").entry(ran.code).or_default() += 1;
                    let what = format!(
                        "{}, {how} at {} {}: {}",
                        case.name, call.name, call.nth, call.line
                    );
                    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        if how.starts_with("signal") {
                            assert_eq!(ran.code, 137, "it was killed: {what}: {}", ran.stderr);
                        } else {
                            assert!(
                                matches!(ran.code, 0 | 1 | 7),
                                "{what}: exit {}: {} {}",
                                ran.code,
                                ran.stdout,
                                ran.stderr
                            );
                            if ran.code != 0 && !ran.stdout.is_empty() {
                                let error = &ran.json()["error"];
                                let message = error["message"].as_str().unwrap_or_default();
                                assert!(message.len() > 10, "{what}: {error}");
                                assert_eq!(error["code"] == "unknown", ran.code == 7, "{what}: {error}");
                            }
                        }
                        case.check(&world, &ran, n.is_multiple_of(2), &what);
                    }));
                    if checked.is_err() {
                        let mut failures = failures.lock().expect("no panic");
                        let _ = writeln!(failures, "{what}");
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(
        failures.is_empty(),
        "{} of {} injections went wrong:\n{failures}",
        failures.lines().count(),
        injections.len()
    );
    codes.into_inner().expect("no panic")
}

/// Whether the disk, or what others see of it, may differ after this call.
fn changes_something(call: &TracedCall) -> bool {
    const CHANGING: &[&str] = &[
        "write",
        "pwrite64",
        "writev",
        "flock",
        "ftruncate",
        "fallocate",
        "fchmod",
        "chmod",
        "fchmodat",
        "mkdir",
        "mkdirat",
        "rename",
        "renameat",
        "renameat2",
        "link",
        "linkat",
        "symlink",
        "unlink",
        "unlinkat",
        "rmdir",
        "fsync",
        "fdatasync",
    ];
    CHANGING.contains(&&*call.name) || call.line.contains("O_CREAT") || call.line.contains("O_TRUNC")
}

/// Where to kill: before every call; by default only where that makes a difference, which is after every call that
/// changes something, and at some places besides.
fn kills(calls: Vec<TracedCall>, from: usize) -> Vec<Injection> {
    let last = calls.len() - 1;
    let mut after_change = false;
    let mut injections = Vec::new();
    for (n, call) in calls.into_iter().enumerate() {
        let due = after_change || n == from || n == last || n.is_multiple_of(16);
        after_change = changes_something(&call);
        if call.name != "execve" && (long() || due) {
            injections.push(Injection {
                call,
                how: "signal=KILL".into(),
            });
        }
    }
    injections
}

fn kill_everywhere(case: &Case) {
    kill_where(case, &|_| true);
}

fn kill_where(case: &Case, wanted: &dyn Fn(&TracedCall) -> bool) {
    if without("strace") {
        return;
    }
    let began = Instant::now();
    let (world, snapshot) = case.prepare();
    let (calls, from) = case.calls(&world, &snapshot);
    let total = calls.len();
    let mut injections = kills(calls, from);
    injections.retain(|injection| wanted(&injection.call));
    let codes = run_all(case, &injections);
    say(&format!(
        "{}: {total} system calls, {} kills, exits {codes:?}, {:?}",
        case.name,
        injections.len(),
        began.elapsed()
    ));
}

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).expect("a case")
}

#[test]
fn heavy_d1_killed_at_every_system_call_of_acquire() {
    kill_everywhere(case("acquire"));
}

#[test]
fn heavy_d1_killed_at_every_system_call_of_renew() {
    kill_everywhere(case("renew"));
}

#[test]
fn heavy_d1_killed_at_every_system_call_of_release() {
    kill_everywhere(case("release"));
}

#[test]
fn heavy_d1_killed_at_every_system_call_of_transfer() {
    kill_everywhere(case("transfer"));
}

#[test]
fn heavy_d1_killed_at_every_system_call_of_force_evict() {
    kill_everywhere(case("force-evict"));
}

#[test]
fn heavy_d1_killed_at_every_system_call_of_issue_create() {
    kill_everywhere(case("create"));
}

#[test]
fn heavy_d1_killed_while_mending_a_torn_end() {
    kill_everywhere(case("acquire, mending a torn end"));
}

#[test]
fn heavy_d1_killed_while_folding_the_journal() {
    kill_everywhere(case("acquire, folding the journal"));
}

#[test]
fn heavy_d1_every_system_call_of_folding_the_journal_fails_once() {
    fail_everywhere(case("acquire, folding the journal"));
}

/// The moment between the old segment's last name and the new one's.
fn between_segments(call: &TracedCall) -> bool {
    call.name == "renameat" && call.line.contains("events/next.jsonl")
}

#[test]
fn heavy_d1_killed_while_leaving_a_suspect_segment() {
    let case = case("acquire, leaving a suspect segment");
    kill_where(case, &|call| !between_segments(call));
}

#[test]
fn heavy_d1_every_system_call_of_leaving_a_suspect_segment_fails_once() {
    let case = case("acquire, leaving a suspect segment");
    fail_where(case, &|call| !between_segments(call));
}

#[test]
fn d1_killed_or_failing_between_two_segments() {
    let case = case("acquire, leaving a suspect segment");
    kill_where(case, &between_segments);
    fail_where(case, &between_segments);
}

#[test]
fn heavy_d1_killed_while_making_all_state_anew() {
    kill_everywhere(case("acquire, making all state anew"));
}

/// The write of the log's very first lines.
fn first_lines(call: &TracedCall) -> bool {
    call.name == "pwrite64" && call.line.contains("log.segment")
}

#[test]
fn heavy_d1_killed_at_every_system_call_of_init() {
    kill_init(&|call| !first_lines(call));
}

#[test]
fn heavy_d1_init_killed_before_the_first_lines_of_the_log() {
    kill_init(&first_lines);
}

fn kill_init(wanted: &dyn Fn(&TracedCall) -> bool) {
    if without("strace") {
        return;
    }
    let world = World::new(JIT);
    let git = world.repo().join(".git");
    let fresh = Folder::read(&git).expect("a repository");
    let (ran, mut calls) = world.trace("human:setup", ["init"]);
    let _ = ran.ok();
    // At the end git is started to register the merge driver; what git does when it is killed is up to git.
    let starts = ["clone", "clone3", "vfork", "fork"];
    let git_starts = calls.iter().position(|call| starts.contains(&&*call.name));
    calls.truncate(git_starts.unwrap_or(calls.len()));
    let total = calls.len();
    let from = calls
        .iter()
        .position(|call| call.line.contains("/jit\"") && call.name == "mkdir")
        .expect("the control plane is made");
    let mut injections = kills(calls, from);
    injections.retain(|injection| wanted(&injection.call));
    if !long() && injections.len() > 30 {
        // Each takes three runs of git.
        let mut n = 0;
        injections.retain(|_| {
            n += 1;
            n % 3 == 1
        });
    }
    let mut failures = String::new();
    for Injection { call, how } in &injections {
        fresh.restore(&git).expect("a repository");
        let _ = fs::remove_dir_all(world.repo().join(".jit"));
        let way = [
            "strace".to_owned(),
            "-f".to_owned(),
            "-qq".to_owned(),
            "-o/dev/null".to_owned(),
            format!("-etrace={}", call.name),
            format!("-einject={}:{how}:when={}", call.name, call.nth),
        ];
        let _ = world
            .run(world.jit_by_way_of(&way, "human:setup", ["init"]))
            .exits(137);
        let what = format!("{} {}: {}", call.name, call.nth, call.line);
        let steps: &[&[&str]] = &[
            &["init"],
            &["issue", "create", "Work", "--id", "WORK-1"],
            &["claim", "acquire", "WORK-1"],
            &["validate"],
            &["doctor"],
        ];
        let failed = steps.iter().find_map(|words| {
            let ran = world.jit_as("human:setup", *words);
            (ran.code != 0).then(|| format!("{words:?} exits {}: {} {}", ran.code, ran.stdout, ran.stderr))
        });
        if let Some(failed) = failed {
            let _ = writeln!(failures, "{what}\n    {failed}");
            continue;
        }
        let events = world.events();
        let kinds: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
        let expected = ["log.segment", "boot", "issue.created", "claim.acquired"];
        assert_eq!(kinds, expected, "{what}");
    }
    say(&format!(
        "init: {total} system calls before git is started, {} kills",
        injections.len()
    ));
    assert!(failures.is_empty(), "{failures}");
}

/// The calls that change something, and the errors a file system has for them.
const ERRORS: &[(&str, &[&str])] = &[
    ("open", &["EACCES", "EIO"]),
    ("openat", &["ENOSPC", "EACCES", "EROFS", "EIO"]),
    ("pwrite64", &["ENOSPC", "EIO"]),
    ("write", &["ENOSPC", "EIO"]),
    ("pread64", &["EIO"]),
    ("renameat", &["ENOSPC", "EROFS", "EIO"]),
    ("rename", &["ENOSPC", "EROFS", "EIO"]),
    ("ftruncate", &["EIO"]),
    ("fdatasync", &["EIO", "ENOSPC"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("mkdir", &["ENOSPC", "EROFS"]),
    ("mkdirat", &["ENOSPC", "EROFS"]),
    ("flock", &["ENOLCK"]),
    ("newfstatat", &["EIO"]),
    ("fstat", &["EIO"]),
];

fn fail_everywhere(case: &Case) {
    fail_where(case, &|_| true);
}

fn fail_where(case: &Case, wanted: &dyn Fn(&TracedCall) -> bool) {
    if without("strace") {
        return;
    }
    let began = Instant::now();
    let (world, snapshot) = case.prepare();
    let (calls, from) = case.calls(&world, &snapshot);
    let mut injections = Vec::new();
    for call in calls.into_iter().skip(from) {
        // An answer that cannot be printed is another matter, and letting go of a lock does not fail.
        let beside = ["write(1,", "write(2,"]
            .iter()
            .any(|start| call.line.starts_with(start));
        if beside || call.line.contains("LOCK_UN") || !wanted(&call) {
            continue;
        }
        let Some((_, errors)) = ERRORS.iter().find(|(name, _)| *name == call.name) else {
            continue;
        };
        // By default one error a call, a different one each time.
        let take = if long() { errors.len() } else { 1 };
        for n in 0..take {
            let error = errors[(call.nth + n) % errors.len()];
            injections.push(Injection {
                call: call.clone(),
                how: format!("error={error}"),
            });
        }
        if call.name == "pwrite64" {
            // Said to be written, though nothing was: half of a write that the disk cut short.
            injections.push(Injection {
                call: call.clone(),
                how: "retval=0".into(),
            });
        }
    }
    let codes = run_all(case, &injections);
    say(&format!(
        "{}: {} failing calls, exits {codes:?}, {:?}",
        case.name,
        injections.len(),
        began.elapsed()
    ));
}

#[test]
fn heavy_d1_every_system_call_of_acquire_fails_once() {
    fail_everywhere(case("acquire"));
}

#[test]
fn heavy_d1_every_system_call_of_release_fails_once() {
    fail_everywhere(case("release"));
}

#[test]
fn heavy_d1_every_system_call_of_transfer_fails_once() {
    fail_everywhere(case("transfer"));
}

#[test]
fn heavy_d1_every_system_call_of_issue_create_fails_once() {
    fail_everywhere(case("create"));
}

#[test]
fn heavy_d1_every_system_call_of_mending_a_torn_end_fails_once() {
    fail_everywhere(case("acquire, mending a torn end"));
}

#[test]
fn d1_a_failed_sync_is_unknown_and_the_printed_command_settles_it() {
    if without("strace") {
        return;
    }
    for name in ["acquire", "renew", "release", "transfer", "force-evict"] {
        let case = case(name);
        let (world, _) = case.prepare();
        let before = world.events().len();
        let mut words = case.words.to_vec();
        words.push("--json");
        let ran = world
            .run(world.jit_by_way_of(NO_SYNC, case.agent, &words))
            .exits(7);
        let error = ran.json()["error"].clone();
        assert_eq!(error["code"], "unknown", "{error}");
        assert_eq!(error["retryable"], true, "{error}");
        let help = error["help"][0].as_str().expect("a command").to_owned();
        let typed = case.words[..2].join(" ");
        assert!(help.starts_with("jit ") && help.contains(&typed), "{help}");
        let request = error["details"]["request_id"].as_str().expect("an id").to_owned();
        assert!(help.contains(&format!("--request-id {request}")), "{help}");
        // In text the same command is shown.
        let folder = world.root().join("bin");
        fs::create_dir(&folder).expect("a folder");
        std::os::unix::fs::symlink(JIT, folder.join("jit")).expect("a link");
        let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        )))
        .expect("a path");
        for _ in 0..2 {
            let mut command = world.command("sh", &world.repo());
            command
                .env("PATH", &path)
                .env("JIT_AGENT_ID", case.agent)
                .args(["-c", &help]);
            let again = world.run(command).ok();
            assert!(again.json().get("error").is_none());
            assert_eq!(world.effects_of(&request), 1, "{name}");
        }
        let _ = world.jit_as("agent:other", ["claim", "acquire", "OTHER-1"]).ok();
        world.validates();
        let new = world.events().len() - before;
        assert!(new <= 4, "{name}: {new} new events");
    }
}

#[test]
fn d1_nobody_says_yes_on_top_of_a_failed_sync() {
    if without("strace") {
        return;
    }
    // The sync fails for one process; whoever comes next starts a new segment with everything that is not surely on
    // disk, and if that cannot be synced either, it does not say yes.
    let case = case("acquire");
    let (world, _) = case.prepare();
    let way = [
        "strace",
        "-f",
        "-qq",
        "-o/dev/null",
        "-etrace=fdatasync,fsync",
        "-einject=fdatasync,fsync:error=EIO",
    ];
    let ran = world.run(world.jit_by_way_of(&way, case.agent, case.words()));
    let _ = ran.exits(7);
    for _ in 0..3 {
        let words = ["claim", "acquire", "OTHER-1", "--json"];
        let ran = world.run(world.jit_by_way_of(&way, "agent:other", words));
        assert!(
            matches!(ran.code, 1 | 7),
            "{}: {} {}",
            ran.code,
            ran.stdout,
            ran.stderr
        );
        // Held or not, an answer to the first one's repetition rests on the unsynced line, too.
        let ran = world.run(world.jit_by_way_of(&way, case.agent, case.words()));
        assert!(
            matches!(ran.code, 1 | 7),
            "{}: {} {}",
            ran.code,
            ran.stdout,
            ran.stderr
        );
    }
    let _ = world.jit_as(case.agent, case.words()).ok();
    let _ = world.jit_as("agent:other", ["claim", "acquire", "OTHER-1"]).ok();
    assert_eq!(world.effects_of(REQUEST), 1);
    world.validates();
}

#[test]
fn b2_acquire_and_release_sync_once_and_start_nothing() {
    if without("strace") {
        return;
    }
    let (world, _) = case("acquire").prepare();
    for round in 0..3 {
        for verb in ["acquire", "release"] {
            let (ran, calls) = world.trace("agent:one", ["claim", verb, "WORK-1", "--json"]);
            let _ = ran.ok();
            let count = |names: &[&str]| calls.iter().filter(|call| names.contains(&&*call.name)).count();
            let syncs = ["fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"];
            assert_eq!(count(&syncs), 1, "exactly one sync in {verb}, round {round}");
            assert_eq!(count(&["execve", "execveat"]), 1, "only jit itself in {verb}");
            assert_eq!(
                count(&["clone", "clone3", "fork", "vfork"]),
                0,
                "nothing is started by {verb}"
            );
            say(&format!("{verb}: {} system calls", calls.len()));
            assert!(calls.len() <= 200, "{verb} makes {} system calls", calls.len());
        }
    }
}
