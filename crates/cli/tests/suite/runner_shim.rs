//! The shim with real processes: agents that crash, hang, dawdle, print without end and do not want to die (G4, G6, G8, G9).
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jit_agents::event::{AgentEvent, EventLine};
use jit_agents::job::{AttemptEnd, Exit, Job, Stop};
use jit_agents::runner::attempt::{self, Attempt, Running};
use jit_os::process;
use jit_testkit::rng::{Rng, seed_from_env};
use jit_testkit::world::tools::{inside_own_mounts, long, say, wait_until, without};
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");
const PATIENCE: Duration = Duration::from_secs(60);

/// An attempt in a folder of its own.
struct Try {
    root: PathBuf,
    folder: PathBuf,
    /// In the command line of everything its agent starts: a time to sleep that nobody else sleeps.
    token: String,
    _gone_at_the_end: Option<tempfile::TempDir>,
}

impl Try {
    /// Of this script, in which TOKEN stands for the token, with these fields of the job changed.
    fn new(script: &str, changed: Value) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().to_owned();
        let mut own = Self::within(&path, script, changed);
        own._gone_at_the_end = Some(root);
        own
    }

    fn within(root: &Path, script: &str, changed: Value) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let token = format!(
            "1000.{}{:04}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let mut job = json!({
            "unit": "unit-a", "attempt": 1, "agent": "command", "worker": "agent:worker",
            "dir": root, "command": ["sh", "-c", script.replace("TOKEN", &token)],
            "vars": [["JIT_GIVEN", "yes"]], "session": null,
            "timeout_secs": 600, "idle_secs": 600, "linger_secs": 600, "grace_secs": 1,
        });
        for (name, value) in changed.as_object().into_iter().flatten() {
            job[name] = value.clone();
        }
        let job: Job = serde_json::from_value(job).expect("a job");
        let folder = root.join("units/unit-a/attempt-1");
        attempt::prepare(&folder, &job, "Do it.").expect("prepared");
        Self {
            root: root.to_owned(),
            folder,
            token,
            _gone_at_the_end: None,
        }
    }

    fn shim(&self) -> Command {
        let mut command = Command::new(JIT);
        command
            .arg("shim")
            .arg(&self.folder)
            .arg("--json")
            .env("GIT_DIR", "/nowhere")
            .env("GIT_AUTHOR_NAME", "kept")
            .env_remove("GIT_SSL_CAINFO")
            .env("JIT_REQUEST_ID", "not-yours")
            .env("JIT_CONFIG_X", "kept")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Runs the shim to its end.
    #[track_caller]
    fn run(&self) -> Exit {
        let output = self
            .shim()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .expect("jit");
        assert!(output.status.success(), "{output:?}");
        let exit = self.exit();
        let printed: Exit = serde_json::from_slice(&output.stdout).expect("an exit");
        assert_eq!(exit, printed);
        assert_eq!(self.survivors(), Vec::<String>::new());
        exit
    }

    #[track_caller]
    fn exit(&self) -> Exit {
        match attempt::look(&self.folder).expect("a look") {
            Attempt::Ended(exit) => exit,
            other => panic!("not ended: {other:?}"),
        }
    }

    /// Starts the shim as the coordinator does, and waits until the agent has said something.
    #[track_caller]
    fn spawned(&self) -> Running {
        attempt::spawn_with(Path::new(JIT), &self.folder, &[]).expect("a shim");
        let mut found = None;
        wait_until("the agent speaks", PATIENCE, || {
            match attempt::look(&self.folder).expect("a look") {
                Attempt::Running(running) if running.last.is_some() => found = Some(running),
                Attempt::Ended(exit) => panic!("ended: {exit:?}"),
                _ => {}
            }
            found.is_some()
        });
        found.expect("running")
    }

    #[track_caller]
    fn wait_for_end(&self) -> Exit {
        wait_until("it has ended", PATIENCE, || {
            matches!(attempt::look(&self.folder), Ok(Attempt::Ended(_)))
        });
        self.exit()
    }

    /// Everything that was said.
    fn said(&self) -> Vec<AgentEvent> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let (lines, next) = attempt::follow(&self.folder, from).expect("events");
            all.extend(lines.into_iter().map(|line: EventLine| line.said));
            if next == from {
                return all;
            }
            from = next;
        }
    }

    fn notes(&self) -> Vec<String> {
        let said = self.said();
        let notes = said.into_iter().filter_map(|said| match said {
            AgentEvent::Note { text } => Some(text),
            _ => None,
        });
        notes.collect()
    }

    /// Processes of its agent that run.
    fn survivors(&self) -> Vec<String> {
        let listed = process::list().expect("the process table");
        listed
            .iter()
            .filter_map(|one| {
                let words = fs::read(format!("/proc/{}/cmdline", one.process.pid)).ok()?;
                let words = String::from_utf8_lossy(&words).replace('\0', " ");
                words
                    .contains(&self.token)
                    .then(|| format!("{} {words}", one.process.pid))
            })
            .collect()
    }

    /// How often the agent was started, by scripts that note it.
    fn runs(&self) -> usize {
        fs::read_to_string(self.root.join("runs")).map_or(0, |text| text.lines().count())
    }

    /// After a shim was killed: it is noticed, and nothing is left of it.
    #[track_caller]
    fn bury(&self, what: &str) -> Exit {
        wait_until("the lock is free", PATIENCE, || {
            !matches!(
                attempt::look(&self.folder).expect("a look"),
                Attempt::Starting | Attempt::Running(_)
            )
        });
        let exit = attempt::bury(&self.folder).expect(what);
        assert_eq!(self.survivors(), Vec::<String>::new(), "{what}");
        assert_eq!(self.exit(), exit, "{what}");
        let runs = self.runs();
        assert!(runs <= 1, "{what}: started {runs} times");
        // A shim that comes late finds it ended.
        let late = self.shim().status().expect("jit");
        assert!(late.success(), "{what}");
        assert_eq!(self.runs(), runs, "{what}: started by a late shim");
        assert_eq!(self.exit(), exit, "{what}");
        exit
    }
}

/// A result as scripted agents say it.
fn result() -> String {
    json!({"kind": "result", "verdict": {"is_error": false, "reason": "completed"}}).to_string()
}

fn usage(dollars: f64, tokens: u64, turns: u64) -> String {
    json!({"kind": "usage", "tokens": {"input": tokens, "output": 0}, "cost_usd": dollars, "turns": turns})
        .to_string()
}

#[test]
fn g8_an_agent_that_ignores_term_is_ended_with_all_it_started() {
    let script = r#"
        trap '' TERM
        setsid sh -c 'trap "" TERM; sleep TOKEN; sleep TOKEN' &
        env -i setsid sleep TOKEN >/dev/null 2>&1 </dev/null &
        (setsid sh -c '(sleep TOKEN >/dev/null 2>&1 &) ; (env -i sleep TOKEN &) ; exit 0' &)
        setsid sh -c 'kill -STOP $$; sleep TOKEN' &
        echo ready
        while :; do sleep TOKEN; done"#;
    let its = Try::new(script, json!({"timeout_secs": 2}));
    let exit = its.run();
    assert_eq!(
        (exit.end, exit.signal),
        (AttemptEnd::TimedOut, Some(9)),
        "{exit:?}"
    );
    assert!(its.notes().iter().any(|note| note.contains("time is up")));
    assert!(its.said().contains(&AgentEvent::Text { text: "ready".into() }));
}

#[test]
fn g8_what_is_left_in_the_background_is_ended_and_counted() {
    let script = "(setsid sleep TOKEN &); (env -i setsid sleep TOKEN >/dev/null 2>&1 &); echo said; exit 3";
    let exit = Try::new(script, json!({})).run();
    assert_eq!((exit.end, exit.exit_code), (AttemptEnd::Exited, Some(3)));
    assert_eq!(exit.ended_orphans, 2, "{exit:?}");
}

#[test]
fn g8_a_polite_agent_has_time_to_end() {
    let script = "trap 'echo bye; exit 9' TERM; echo up; sleep TOKEN & wait";
    let its = Try::new(script, json!({"timeout_secs": 1, "grace_secs": 60}));
    let exit = its.run();
    assert_eq!(
        (exit.end, exit.exit_code),
        (AttemptEnd::TimedOut, Some(9)),
        "{exit:?}"
    );
    assert!(its.said().contains(&AgentEvent::Text { text: "bye".into() }));
}

#[test]
fn g8_an_agent_that_cannot_be_started_ends_with_the_reason() {
    let here = tempfile::tempdir().expect("a folder");
    let plain = here.path().join("plain");
    fs::write(&plain, "#!/bin/sh\n").expect("a file");
    for (changed, words) in [
        (json!({"command": ["/nowhere/agent"]}), "/nowhere/agent"),
        (json!({"command": [plain]}), "denied"),
        (json!({"command": []}), "needs a program"),
        (json!({"dir": "/nowhere/at/all"}), "not a folder"),
        (json!({"agent": "nobody-knows"}), "nobody-knows"),
    ] {
        let exit = Try::new("exit 0", changed).run();
        assert_eq!(exit.end, AttemptEnd::NotStarted, "{words}");
        assert!(exit.stderr_tail.contains(words), "{words}: {exit:?}");
    }
    let its = Try::new("exit 0", json!({}));
    fs::write(its.folder.join("job.json"), "{\"unit\":").expect("damaged");
    assert_eq!(its.run().end, AttemptEnd::NotStarted);
    let exit = Try::new("nothing-of-that-name", json!({})).run();
    assert_eq!((exit.end, exit.exit_code), (AttemptEnd::Exited, Some(127)));
    assert!(exit.stderr_tail.contains("nothing-of-that-name"), "{exit:?}");
}

#[test]
fn g6_an_agent_that_does_not_end_after_its_result_is_ended_and_its_result_counts() {
    let script = format!("echo '{}'; sleep TOKEN", result());
    let exit = Try::new(&script, json!({"linger_secs": 1})).run();
    assert_eq!(exit.end, AttemptEnd::Lingered, "{exit:?}");
    assert_eq!(exit.verdict.expect("a verdict").reason, "completed");
}

#[test]
fn g6_hung_is_silent_and_idle_and_busy_is_not() {
    let exit = Try::new("echo up; setsid sleep TOKEN", json!({"idle_secs": 1})).run();
    assert_eq!(exit.end, AttemptEnd::Hung, "{exit:?}");
    // Works for three times as long without a word, in a process of its own.
    let spin = "end=$(($(date +%s) + 4)); while [ $(date +%s) -lt $end ]; do :; done";
    let exit = Try::new(&format!("setsid sh -c '{spin}'"), json!({"idle_secs": 1})).run();
    assert_eq!(
        (exit.end, exit.exit_code),
        (AttemptEnd::Exited, Some(0)),
        "{exit:?}"
    );
}

#[test]
fn g9_money_tokens_and_turns_are_enforced_by_the_shim() {
    for (line, changed, end) in [
        (usage(2.0, 10, 1), json!({"budget": 1.5}), AttemptEnd::OverBudget),
        (
            usage(0.1, 200, 1),
            json!({"budget_tokens": 199}),
            AttemptEnd::OverBudget,
        ),
        (usage(0.1, 10, 4), json!({"max_turns": 3}), AttemptEnd::OverTurns),
    ] {
        let exit = Try::new(&format!("echo '{line}'; sleep TOKEN"), changed).run();
        assert_eq!(exit.end, end, "{line}");
        assert!(exit.turns > 0 && exit.tokens.input > 0 && exit.cost_usd.is_some());
    }
    // Both at once: it is not ended between the two.
    let script = format!("printf '%s\\n' '{}' '{}'; exit 0", usage(2.0, 10, 1), result());
    let exit = Try::new(&script, json!({"budget": 1.5})).run();
    assert_eq!(exit.end, AttemptEnd::Exited, "it had ended: {exit:?}");
}

#[test]
fn g10_a_stop_ends_an_agent_and_one_before_the_start_prevents_it() {
    let why = Stop {
        by: "human:boss".into(),
        reason: "enough".into(),
    };
    let its = Try::new("echo up; setsid sleep TOKEN", json!({}));
    let running = its.spawned();
    assert!(
        running
            .agent
            .is_some_and(|agent| agent.is_alive().expect("a look"))
    );
    assert_eq!(running.text.as_deref(), Some("up"));
    assert!(attempt::stop(&its.folder, &why).expect("asked"));
    let exit = its.wait_for_end();
    assert_eq!(exit.end, AttemptEnd::Stopped);
    assert_eq!(its.survivors(), Vec::<String>::new());
    assert!(its.notes().contains(&"stopped by human:boss: enough".to_owned()));
    assert!(!attempt::stop(&its.folder, &why).expect("too late"));
    let its = Try::new("echo x >> runs", json!({}));
    assert!(attempt::stop(&its.folder, &why).expect("asked"));
    assert_eq!((its.run().end, its.runs()), (AttemptEnd::Stopped, 0));
}

#[test]
fn g8_a_hundred_megabytes_of_output_take_little_memory_and_little_disk() {
    let line = "x".repeat(999);
    let script = format!(
        "yes {line} | head -c 100000000; echo; echo '{}'; yes e{line} | head -c 20000000 >&2; \
         grep VmHWM /proc/$PPID/status >&2",
        result()
    );
    let its = Try::new(&script, json!({}));
    let exit = its.run();
    assert_eq!((exit.end, exit.exit_code), (AttemptEnd::Exited, Some(0)));
    assert_eq!(exit.verdict.expect("a verdict").reason, "completed");
    let peak: u64 = exit
        .stderr_tail
        .split_whitespace()
        .rev()
        .find_map(|word| word.parse().ok())
        .expect("VmHWM");
    let disk: u64 = fs::read_dir(&its.folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").metadata().expect("metadata").len())
        .sum();
    say(&format!(
        "100 MB of output: {peak} kB of memory, {disk} bytes on disk"
    ));
    assert!(peak < 20_000, "{peak} kB");
    assert!(disk < 40 << 20, "{disk}");
    let log = fs::read(its.folder.join("stdout.log")).expect("a log");
    assert!(log.starts_with(line.as_bytes()) && log.ends_with(format!("{}\n", result()).as_bytes()));
}

#[test]
fn g7_garbage_is_kept_and_never_fatal() {
    let script = format!(
        r#"printf '{{"kind":"usage"\n\0\0\n\377\376\n{{"kind":"never_heard_of"}}\n[]\n\n\r\n'
           head -c 5000000 /dev/zero | tr '\0' z; echo
           printf '{}\nhalf a li'; sleep 0.1; printf 'ne'"#,
        result()
    );
    let its = Try::new(&script, json!({}));
    let exit = its.run();
    assert_eq!((exit.end, exit.exit_code), (AttemptEnd::Exited, Some(0)));
    assert!(exit.verdict.is_some());
    let said = its.said();
    let has_long = said.iter().any(
        |said| matches!(said, AgentEvent::Unknown { line } if line.contains("5000000 bytes") && line.len() < 5000),
    );
    assert!(has_long, "{said:?}");
    assert_eq!(
        said.last(),
        Some(&AgentEvent::Text {
            text: "half a line".into()
        })
    );
}

#[test]
fn g8_agents_get_of_git_variables_the_users_own_and_no_descriptors_of_ours() {
    let script = "env | grep -E '^(GIT|JIT)_' | sort; ls /proc/$$/fd | tr '\\n' ' '";
    let its = Try::new(script, json!({}));
    its.run();
    let log = fs::read_to_string(its.folder.join("stdout.log")).expect("a log");
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| !line.starts_with("JIT_MARK=") && !line.starts_with("JIT_PROMPT_FILE="))
        .collect();
    let expected = [
        "GIT_AUTHOR_NAME=kept",
        "JIT_ATTEMPT=unit-a/1",
        "JIT_CONFIG_X=kept",
        "JIT_GIVEN=yes",
        "JIT_UNIT=unit-a",
        "0 1 2 ",
    ];
    assert_eq!(lines, expected, "{log}");
}

#[test]
fn g12_of_many_shims_one_starts_the_agent() {
    let its = Try::new("echo x >> runs; echo up; sleep 1", json!({}));
    let mut shims: Vec<Child> = (0..8).map(|_| its.shim().spawn().expect("jit")).collect();
    let codes: Vec<_> = shims
        .iter_mut()
        .map(|shim| shim.wait().expect("jit").code())
        .collect();
    // Those that came while it ran found it taken.
    assert!(
        codes.contains(&Some(0)) && codes.iter().all(|code| matches!(code, Some(0 | 4))),
        "{codes:?}"
    );
    assert_eq!((its.runs(), its.exit().end), (1, AttemptEnd::Exited));
}

/// Leaves a daemon behind that only its mark tells of.
const RESTLESS: &str = "echo x >> runs; (setsid sh -c 'sleep TOKEN & sleep TOKEN' &); echo up; sleep TOKEN";

#[test]
fn g12_a_shim_killed_at_any_moment_is_buried_with_all_it_started() {
    let seed = seed_from_env("JIT_TEST_SEED");
    say(&format!("JIT_TEST_SEED={seed}"));
    let mut rng = Rng::new(seed);
    for round in 0..if long() { 200 } else { 12 } {
        let its = Try::new(RESTLESS, json!({"grace_secs": round % 2}));
        let mut shim = its.shim().spawn().expect("jit");
        std::thread::sleep(Duration::from_micros(rng.range(0, 60_000)));
        shim.kill().expect("ours");
        shim.wait().expect("ours");
        let exit = its.bury(&format!("round {round}"));
        assert_eq!(exit.end, AttemptEnd::ShimLost, "round {round}");
    }
}

#[test]
fn g12_two_may_bury_at_once_and_nobody_buries_the_living() {
    let its = Try::new(RESTLESS, json!({}));
    let running = its.spawned();
    let refused = attempt::bury(&its.folder).expect_err("it lives");
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
    assert!(process::signal(running.shim, rustix::process::Signal::KILL).expect("ours"));
    let exits: Vec<Exit> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    wait_until("it is lost", PATIENCE, || {
                        !matches!(attempt::look(&its.folder), Ok(Attempt::Running(_)))
                    });
                    attempt::bury(&its.folder).expect("buried")
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().expect("a thread")).collect()
    });
    assert!(exits.windows(2).all(|pair| pair[0] == pair[1]), "{exits:?}");
    assert!(exits[0].ended_orphans >= 3, "{exits:?}");
    let exit = its.bury("again");
    assert_eq!(exit.end, AttemptEnd::ShimLost);
}

#[test]
fn g12_an_attempt_that_is_given_up_before_it_began_never_begins() {
    let its = Try::new("echo x >> runs", json!({}));
    assert_eq!(attempt::look(&its.folder).expect("a look"), Attempt::NotStarted);
    its.bury("not begun");
    assert_eq!(its.runs(), 0);
}

#[test]
fn heavy_g12_a_shim_killed_at_every_call_that_matters_is_buried() {
    if without("strace") {
        return;
    }
    let script = "echo x >> runs; (setsid sleep TOKEN &); echo up; sleep 0.2";
    let trace = |its: &Try, words: &[String]| {
        let mut command = Command::new("strace");
        command
            .arg("-qq")
            .args(words)
            .arg(JIT)
            .arg("shim")
            .arg(&its.folder);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().expect("strace")
    };
    let first = Try::new(script, json!({}));
    let out = first.root.join("trace");
    let status = trace(&first, &["-s300".into(), "-o".into(), out.display().to_string()]);
    assert!(status.success(), "{status:?}");
    let text = fs::read_to_string(&out).expect("a trace");
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    let mut points = Vec::new();
    let place = first.folder.display().to_string();
    for line in text.lines() {
        let Some((name, _)) = line.split_once('(') else {
            continue;
        };
        let nth = counts.entry(name).or_default();
        *nth += 1;
        let telling = [
            "write", "pwrite64", "fsync", "flock", "clone", "clone3", "wait4", "prctl",
        ];
        if line.contains(&place) || telling.contains(&name) || name.starts_with("pidfd") {
            points.push((name.to_owned(), *nth));
        }
    }
    assert!(points.len() > 20, "{text}");
    let step = if long() { 1 } else { 4 };
    let skip = if long() {
        0
    } else {
        std::process::id() as usize % step
    };
    let mut lost = 0;
    for (name, nth) in points.iter().skip(skip).step_by(step) {
        let its = Try::new(script, json!({}));
        let inject = format!("-einject={name}:signal=KILL:when={nth}");
        trace(&its, &[format!("-etrace={name}"), inject, "-o/dev/null".into()]);
        let exit = its.bury(&format!("{name} {nth}"));
        lost += usize::from(exit.end == AttemptEnd::ShimLost);
        assert!(
            matches!(exit.end, AttemptEnd::ShimLost | AttemptEnd::Exited),
            "{exit:?}"
        );
    }
    say(&format!("{} points, {lost} shims lost", points.len()));
    assert!(lost > 0);
}

#[test]
fn heavy_g8_cycles_of_start_and_end_leave_nothing() {
    let descriptors = || fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let before = descriptors();
    for round in 0..if long() { 500 } else { 20 } {
        let its = Try::new(RESTLESS, json!({"grace_secs": 0}));
        let running = its.spawned();
        let open = fs::read_dir(format!("/proc/{}/fd", running.shim.pid))
            .expect("its descriptors")
            .count();
        assert!(open <= 12, "round {round}: the shim has {open} descriptors");
        if round % 2 == 0 {
            let why = Stop {
                by: "test".into(),
                reason: "cycle".into(),
            };
            assert!(attempt::stop(&its.folder, &why).expect("asked"));
            assert_eq!(its.wait_for_end().end, AttemptEnd::Stopped);
        } else {
            assert!(process::signal(running.shim, rustix::process::Signal::KILL).expect("ours"));
            assert_eq!(its.bury("cycle").end, AttemptEnd::ShimLost);
        }
        assert_eq!(its.survivors(), Vec::<String>::new(), "round {round}");
    }
    assert_eq!(descriptors(), before, "descriptors leaked");
    let children = fs::read_to_string(format!("/proc/self/task/{}/children", std::process::id()));
    assert_eq!(
        children.expect("children").trim(),
        "",
        "zombies, or shims of ours"
    );
}

#[test]
fn g8_a_full_disk_loses_output_and_nothing_else() {
    if !inside_own_mounts(module_path!(), "g8_a_full_disk_loses_output_and_nothing_else") {
        return;
    }
    let filling = "cat /dev/zero > filler 2>/dev/null; ";
    for before in ["", filling] {
        let disk = tempfile::tempdir().expect("a folder");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "none"])
            .arg(disk.path())
            .status();
        assert!(status.expect("mount").success());
        let script = format!(
            "{before}yes TOKEN-and-more | head -c 4000000; echo; echo '{}'; echo '{}'; echo last words >&2; exit 6",
            usage(0.5, 7, 2),
            result()
        );
        let its = Try::within(disk.path(), &script, json!({}));
        let exit = its.run();
        assert_eq!(
            (exit.end, exit.exit_code),
            (AttemptEnd::Exited, Some(6)),
            "{exit:?}"
        );
        assert!(exit.verdict.is_some(), "{exit:?}");
        assert_eq!((exit.tokens.input, exit.turns), (7, 2));
        assert!(exit.stderr_tail.starts_with("last words"), "{exit:?}");
        assert!(exit.stderr_tail.contains("did not take"), "{exit:?}");
    }
}
