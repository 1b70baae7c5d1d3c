//! G14: what one agent has done reaches another by the coordinator alone, once.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jit_testkit::rng::{DEFAULT_SEED, Rng, SEED_VAR, SeedOnPanic, seed_in_env};
use jit_testkit::world::tools::{long, say};
use serde_json::Value;

use crate::running::{Yard, until};

fn program(path: &Path, text: &str) {
    fs::write(path, text).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// Ten units in three phases: who hands to whom.
const UNITS: &[(&str, u32, &[&str])] = &[
    ("p0", 0, &[]),
    ("p1", 0, &[]),
    ("p2", 0, &[]),
    ("p3", 0, &[]),
    ("q0", 1, &["p0", "p1"]),
    ("q1", 1, &["p2", "p3"]),
    ("q2", 1, &["p0", "p3"]),
    ("r0", 2, &["q0", "q1", "p0"]),
    ("r1", 2, &["q1", "q2"]),
    ("r2", 2, &["q0", "q1", "q2"]),
];

/// What agents of both kinds do: they note what they were told and found, look whether the phases before have landed, and
/// commit. `q1`, `q2`, `r1` and `r2` end with an error the first time.
const WORK: &str = r#"
n=${JIT_ATTEMPT##*/}
echo "$JIT_UNIT $JIT_ATTEMPT $$" >> "$HOMES/starts"
[ -z "$JIT_HANDOFF_DIR" ] || (cd "$JIT_HANDOFF_DIR" && sha256sum */handoff.md) > "$HOMES/found-$JIT_UNIT-$n"
case $JIT_UNIT in
    q*) for f in p0 p1 p2 p3; do [ -f $f.txt ] || exit 7; done;;
    r*) for f in p0 p1 p2 p3 q0 q1 q2; do [ -f $f.txt ] || exit 7; done;;
esac
case $JIT_UNIT in q1|q2|r1|r2) [ $n -gt 1 ] || exit 1;; esac
echo "result of $JIT_UNIT" > "$JIT_UNIT.txt"
git add "$JIT_UNIT.txt" >&2 && git commit -qm "work of $JIT_UNIT" >&2 || exit 9
"#;

fn scripts(yard: &Yard) -> (PathBuf, PathBuf) {
    let homes = yard.world.home().display().to_string();
    let work = WORK.replace("$HOMES", &homes);
    let command = yard.world.home().join("plain-agent");
    program(
        &command,
        &format!(
            "#!/bin/sh\ncat > {homes}/told-$JIT_UNIT-${{JIT_ATTEMPT##*/}}\necho '{{\"kind\":\"started\"}}'\n{work}\n\
             echo '{{\"kind\":\"result\",\"verdict\":{{\"is_error\":false,\"reason\":\"completed\",\"text\":\"words of '$JIT_UNIT'\"}}}}'\n"
        ),
    );
    let claude = yard.world.home().join("claude-fake");
    program(
        &claude,
        &format!(
            r#"#!/bin/sh
IFS= read -r init
case "$*" in *--resume=*)
    IFS= read -r usage
    echo '{{"type":"control_response","response":{{"subtype":"error","request_id":"usage-0","error":"not known"}}}}';;
esac
IFS= read -r told
printf '%s\n' "$told" > {homes}/told-$JIT_UNIT-${{JIT_ATTEMPT##*/}}
echo "$*" > {homes}/args-$JIT_UNIT-${{JIT_ATTEMPT##*/}}
session=$(echo "$*" | sed -n 's/.*--\(session-id\|resume\)=\([0-9a-f-]*\).*/\2/p')
echo '{{"type":"system","subtype":"init","session_id":"'$session'","model":"m"}}'
echo '{{"type":"assistant","session_id":"'$session'","message":{{"id":"m-1","content":[{{"type":"text","text":"I begin"}}]}}}}'
{work}
echo '{{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"words of '$JIT_UNIT'","num_turns":1,"total_cost_usd":0.1,"session_id":"'$session'"}}'
cat > /dev/null
"#
        ),
    );
    (command, claude)
}

fn plan_of_ten(yard: &Yard) -> PathBuf {
    let (command, claude) = scripts(yard);
    let mut text = "workflow_id: flow\nstagger: 0s\nmax_concurrent: 4\nunits:\n".to_owned();
    for (n, (id, phase, from)) in UNITS.iter().enumerate() {
        let run = match n % 2 == 0 {
            true => format!("{{agent: command, command: [{command:?}], max_retries: 3}}"),
            false => format!("{{agent: claude, command: [{claude:?}], max_retries: 3}}"),
        };
        text.push_str(&format!(
            "  - {{id: {id}, phase: {phase}, prompt: do {id}, handoff_from: [{}], writes: [{id}.txt],\n     artifacts: [{{path: {id}.txt, type: result}}], run: {run}}}\n",
            from.join(", ")
        ));
    }
    let path = yard.world.home().join("plan.yaml");
    fs::write(&path, text).expect("a plan");
    path
}

/// Runs the plan through, with so many coordinators killed on the way.
fn run_with_kills(yard: &Yard, plan: &Path, kills: u32, rng: &mut Rng) -> u32 {
    let (mut killed, mut first) = (0, true);
    while killed < kills {
        let mut command = yard.world.jit_command(&yard.world.repo());
        match first {
            true => command.arg("run").arg(plan),
            false => command.args(["workflow", "resume", "flow"]),
        };
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut coordinator = command.spawn().expect("a coordinator");
        std::thread::sleep(Duration::from_millis(rng.range(0, 300)));
        // One that ended by itself was not killed: the workflow is over, or what comes last tells why not.
        if coordinator.try_wait().expect("its state").is_some() {
            break;
        }
        let _ = coordinator.kill();
        let _ = coordinator.wait();
        killed += 1;
        first &= yard.world.jit(["workflow", "status", "flow", "--json"]).code != 0;
    }
    let last = match first {
        true => yard.world.jit(["run".as_ref(), plan.as_os_str()]),
        false => yard.world.jit(["workflow", "resume", "flow"]),
    };
    assert!(
        last.code == 0 || yard.status()["status"] == "completed",
        "{} {}",
        last.stdout,
        last.stderr
    );
    killed
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn heavy_g14_handoffs_of_three_phases_arrive_once_whoever_is_killed() {
    let seed = seed_in_env(SEED_VAR).unwrap_or(DEFAULT_SEED);
    let _shown = SeedOnPanic(seed);
    let mut rng = Rng::new(seed);
    // A workflow ends sooner or later: many kills take several.
    let wanted = if long() { 100 } else { 8 };
    let mut killed = 0;
    while killed < wanted {
        killed += work_off_ten(wanted - killed, &mut rng);
    }
    say(&format!("{killed} coordinators killed"));
}

/// One workflow, with at most so many of its coordinators killed; says how many were.
fn work_off_ten(kills: u32, rng: &mut Rng) -> u32 {
    let yard = Yard::new("");
    let plan = plan_of_ten(&yard);
    let killed = run_with_kills(&yard, &plan, kills, rng);
    let home = yard.world.home();
    let starts = yard.starts();
    assert!(starts.values().all(|n| *n == 1), "{starts:?}");
    for (n, (id, phase, from)) in UNITS.iter().enumerate() {
        assert!(yard.on_main(&format!("{id}.txt")), "{id}");
        let unit = yard.unit(id);
        let handed: BTreeMap<String, Value> = unit["handoffs"]
            .as_array()
            .expect("handoffs")
            .iter()
            .map(|one| (one["from"].as_str().expect("a name").to_owned(), one.clone()))
            .collect();
        assert_eq!(
            unit["handoffs"].as_array().map(Vec::len),
            Some(from.len()),
            "{unit}"
        );
        let tries = unit["attempt"].as_u64().expect("a number");
        assert_eq!(
            tries,
            if ["q1", "q2", "r1", "r2"].contains(id) {
                2
            } else {
                1
            },
            "{unit}"
        );
        for giver in *from {
            let one = &handed[*giver];
            assert_eq!(one["attempt"], 1, "{unit}");
            let kept = format!("workflows/flow/cross-pollination/barrier-{phase}/{giver}-to-{id}/handoff.md");
            assert_eq!(one["path"], kept.as_str(), "{unit}");
            let text = read(&yard.world.control().join(&kept));
            for part in [
                &format!("words of {giver}"),
                &format!("result of {giver}"),
                "landed as ",
            ] {
                assert!(text.contains(part), "{part}\n{text}");
            }
            for attempt in 1..=tries {
                let told = read(&home.join(format!("told-{id}-{attempt}")));
                // A session that is gone on with knows it already. Only Claude Code's can be.
                let resumed = attempt > 1 && n % 2 == 1;
                let times = told.matches(&format!("# Handoff: {giver} to {id}")).count();
                assert_eq!(times, usize::from(!resumed), "{id}, attempt {attempt}\n{told}");
                let found = read(&home.join(format!("found-{id}-{attempt}")));
                let line = format!(
                    "{}  {giver}-to-{id}/handoff.md",
                    one["digest"].as_str().expect("a digest")
                );
                assert_eq!(
                    found.contains(&line),
                    !resumed,
                    "{id}, attempt {attempt}\n{found}"
                );
            }
        }
    }
    assert!(
        read(&home.join("args-q1-2")).contains("--resume="),
        "q1 goes on with its session"
    );
    let text = yard.orchestration();
    assert!(
        text.contains("from: q2") && text.contains("barrier-2/q2-to-r2/handoff.md"),
        "{text}"
    );
    assert_eq!(yard.survivors(), Vec::<String>::new());
    yard.world.validates();
    killed
}

#[test]
fn g14_a_handoff_that_could_not_be_there_is_refused_with_its_line() {
    let yard = Yard::new("");
    for (more, what) in [
        ("handoff_from: [b]", "need not have landed"),
        ("handoff_from: [nobody]", "no unit of this plan"),
        ("handoff_from: [a]", "to itself"),
        ("handoff: file", "handoff_from is missing"),
        ("handoff_from: [c]\nhandoff: pigeon", "pigeon"),
    ] {
        let refused = yard
            .run("", &[("c", &[], ""), ("b", &["c"], ""), ("a", &["c"], more)])
            .exits(2);
        assert!(refused.stderr.contains(what), "{more}\n{}", refused.stderr);
        assert!(refused.stderr.contains("plan.yaml:"), "{}", refused.stderr);
    }
    // What is needed by what is needed has landed too.
    let _ = yard
        .run(
            "",
            &[
                ("c", &[], ""),
                ("b", &["c"], ""),
                ("a", &["b"], "handoff_from: [c]\nhandoff: prompt"),
            ],
        )
        .ok();
    let told = read(&yard.world.home().join("told"));
    assert!(
        told.contains("# Handoff: c to a") && !told.contains("handoff.md"),
        "{told}"
    );
}

fn lease(yard: &Yard, issue: &str) -> Value {
    let shown = yard.world.jit(["issue", "show", issue, "--json"]).ok().json();
    shown["lease"].clone()
}

#[test]
fn g14_another_kind_of_agent_goes_on_with_the_work_and_the_claim() {
    let yard = Yard::new("");
    let _ = yard
        .world
        .jit(["issue", "create", "Dates", "--id", "D-1", "--state", "ready"])
        .ok();
    let (_, claude) = scripts(&yard);
    let slow = yard.world.home().join("slow");
    program(
        &slow,
        "#!/bin/sh\ncat > /dev/null\necho '{\"kind\":\"started\"}'\necho half > half.txt\necho '{\"kind\":\"text\",\"text\":\"I am half way\"}'\nsleep 600 & wait\n",
    );
    let slow = slow.display().to_string();
    let claude = claude.display().to_string();
    let _ = yard
        .world
        .jit(["start", "D-1", "--detach", "--command", &slow])
        .ok();
    until("the agent", || {
        yard.world.root().join("repo-worktrees/d-1/half.txt").exists()
            && yard.unit("d-1")["state"] == "RUNNING"
    });
    assert_eq!(lease(&yard, "D-1")["agent_id"], "agent:command-d-1");
    // Only shown, nothing happens.
    let shown = yard
        .world
        .jit(["handoff", "D-1", "--to", "claude", "--print"])
        .ok();
    assert!(
        shown.stdout.contains("# Handoff: d-1 to claude") && shown.stdout.contains("half.txt"),
        "{}",
        shown.stdout
    );
    assert_eq!(yard.unit("d-1")["attempt"], 1);
    // Nobody is stopped for what cannot be.
    let _ = yard.world.jit(["handoff", "d-1", "--to", "poet"]).exits(2);
    assert_eq!(yard.unit("d-1")["state"], "RUNNING");
    let events = || {
        yard.world.jit(["events", "--json"]).ok().json()["events"]
            .as_array()
            .map_or(0, Vec::len)
    };
    let before = events();
    let _ = yard
        .world
        .jit(["handoff", "d-1", "--to", "claude", "--agent", "command"])
        .exits(2);
    let handed = yard
        .world
        .jit([
            "handoff",
            "d-1",
            "--to",
            "claude",
            "--note",
            "mind the leap years",
            "--json",
            "--command",
            &claude,
        ])
        .ok()
        .json();
    assert_eq!(handed["receiver"]["attempt"], 2, "{handed}");
    assert_eq!(handed["receiver"]["retry_count"], 0, "{handed}");
    assert_eq!(handed["from"], "agent:command-d-1", "{handed}");
    assert!(events() > before);
    until("its end", || {
        let state = yard.unit("d-1")["state"].clone();
        state != "RUNNING" && state != "DISPATCHED"
    });
    let unit = yard.unit("d-1");
    assert_eq!(unit["agent"], "claude", "{unit}");
    // What the first one left uncommitted is still there, so it is not done.
    assert_eq!(unit["error"]["reason"], "uncommitted", "{unit}");
    assert_eq!(
        read(&yard.world.root().join("repo-worktrees/d-1/half.txt")),
        "half\n"
    );
    let told = read(&yard.world.home().join("told-d-1-2"));
    for part in [
        "mind the leap years",
        "I am half way",
        "half.txt",
        "# Handoff: d-1 to claude",
    ] {
        assert_eq!(told.matches(part).count().min(1), 1, "{part}\n{told}");
    }
    assert_eq!(told.matches("# Handoff: ").count(), 1, "{told}");
    assert_eq!(unit["handoffs"][0]["digest"], handed["digest"], "{unit}");
    assert_eq!(unit["handoffs"][0]["attempt"], 2, "{unit}");
    yard.world.validates();
}

#[test]
fn g14_a_unit_is_told_by_hand_about_another_once() {
    let yard = Yard::new("");
    let agent = yard.agent().display().to_string();
    for unit in ["a", "b"] {
        let _ = yard.world.jit(["worktree", "create", unit]).ok();
    }
    let dispatch = |unit: &str| {
        let args = [
            "worktree",
            "dispatch",
            unit,
            "--prompt",
            "x",
            "--wait",
            "--command",
            &agent,
        ];
        yard.world.jit(args)
    };
    let _ = dispatch("a").ok();
    let _ = yard.world.jit(["handoff", "a", "--to-unit", "a"]).exits(2);
    let _ = yard.world.jit(["handoff", "nobody", "--to-unit", "b"]).exits(3);
    let _ = yard.world.jit(["handoff", "a"]).exits(2);
    // A COMPLETED unit has nothing another agent could go on with.
    let _ = yard
        .world
        .jit(["handoff", "a", "--to", "command", "--command", &agent]);
    assert_eq!(yard.unit("a")["state"], "COMPLETED");
    let given = yard
        .world
        .jit(["handoff", "a", "--to-unit", "b", "--json"])
        .ok()
        .json();
    assert_eq!(given["receiver"]["id"], "b", "{given}");
    let again = yard
        .world
        .jit(["handoff", "a", "--to-unit", "b", "--json"])
        .ok()
        .json();
    assert_eq!(
        again["digest"], given["digest"],
        "the same facts are the same handoff"
    );
    let _ = dispatch("b").ok();
    let told = read(&yard.world.home().join("told"));
    assert_eq!(told.matches("# Handoff: a to b").count(), 1, "{told}");
    assert_eq!(yard.unit("b")["handoffs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn g14_a_coordinator_goes_on_with_whoever_was_handed_its_unit() {
    let yard = Yard::new("");
    let slow = yard.world.home().join("slow");
    program(
        &slow,
        "#!/bin/sh\ncat > /dev/null\necho '{\"kind\":\"started\"}'\ntouch half.txt\nsleep 600 & wait\n",
    );
    let run = format!(
        "run: {{command: [{:?}], max_retries: 0}}",
        slow.display().to_string()
    );
    let plan = yard.plan("", &[("a", &[], &run), ("b", &["a"], "handoff_from: [a]")]);
    let mut command = yard.world.jit_command(&yard.world.repo());
    command
        .arg("run")
        .arg(&plan)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut coordinator = command.spawn().expect("a coordinator");
    let tree = yard.world.root().join("repo-worktrees/a");
    until("the agent", || {
        tree.join("half.txt").exists() && yard.unit("a")["state"] == "RUNNING"
    });
    let agent = yard.agent().display().to_string();
    let _ = yard
        .world
        .jit(["handoff", "a", "--to", "command", "--command", &agent])
        .ok();
    assert!(
        coordinator.wait().expect("its end").success(),
        "{}",
        yard.status()
    );
    // The task came with it, and what was begun.
    assert!(yard.on_main("a.txt") && yard.on_main("half.txt") && yard.on_main("b.txt"));
    let unit = yard.unit("a");
    assert_eq!(
        (&unit["attempt"], &unit["retry_count"]),
        (&2.into(), &0.into()),
        "{unit}"
    );
    yard.world.validates();
}

#[test]
fn g14_who_is_handed_what_nobody_began_has_the_task_and_the_scope_of_the_plan() {
    let yard = Yard::new("");
    let sleeper = yard.world.home().join("sleeper");
    program(
        &sleeper,
        "#!/bin/sh\ncat > /dev/null\necho '{\"kind\":\"started\"}'\nsleep 600 & wait\n",
    );
    let sleeper = sleeper.display().to_string();
    let run = |id: &str| {
        let run = format!("run: {{command: [{sleeper:?}], budget_usd: 0.5, max_retries: 0}}");
        format!("writes: [\"for-{id}/**\"]\n{run}")
    };
    let plan = yard.plan(
        "max_concurrent: 2",
        &[("a", &[], &run("a")), ("b", &[], &run("b"))],
    );
    let text = read(&plan).replace("stagger: 0s", "stagger: 10m");
    fs::write(&plan, text).expect("a plan");
    let mut coordinator = yard.coordinator("flow", &["run", &plan.display().to_string()]);
    // One of them runs, whose worktree was made first; the turn of the other has not come.
    let mut waiting = "";
    until("one that waits", || {
        let is = |id: &str, state: &str| {
            let seen = yard.world.jit(["worktree", "status", id, "--json"]);
            seen.code == 0 && seen.json()["state"] == state
        };
        waiting = match () {
            () if is("a", "READY") && is("b", "RUNNING") => "a",
            () if is("a", "RUNNING") && is("b", "READY") => "b",
            () => return false,
        };
        true
    });
    let agent = yard.agent().display().to_string();
    let _ = yard
        .world
        .jit(["handoff", waiting, "--to", "command", "--command", &agent])
        .ok();
    until("its end", || {
        yard.unit(waiting)["error"]["reason"] == "outside_scope"
    });
    let job = format!(".git/jit/units/{waiting}/attempt-1/job.json");
    let job: Value = serde_json::from_str(&read(&yard.world.repo().join(job))).expect("a job");
    assert_eq!(
        job["writes"],
        serde_json::json!([
            format!("for-{waiting}/**"),
            format!("orchestration/flow/{waiting}/phase-0/command-{waiting}/"),
        ]),
        "{job}"
    );
    assert_eq!(job["budget"], 0.5, "{job}");
    assert!(!yard.on_main(&format!("{waiting}.txt")));
    let _ = yard.world.jit(["workflow", "cancel", "flow"]).ok();
    let _ = coordinator.wait().expect("its end");
    yard.world.validates();
}
