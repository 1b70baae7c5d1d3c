//! Units and workflows that are gone on with: started again by hand, opened again after they failed, told by others before
//! they begin, sent back with a conflict (G10, G12, G14), and what an agent that has ended leaves locked (F2).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::running::{Yard, file, touch, until};

fn program(yard: &Yard, name: &str, text: &str) -> String {
    let path = yard.world.home().join(name);
    fs::write(&path, text).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    path.display().to_string()
}

fn read(yard: &Yard, name: &str) -> String {
    fs::read_to_string(file(yard, name)).unwrap_or_default()
}

fn job(yard: &Yard, unit: &str, attempt: u32) -> Value {
    let path = format!("units/{unit}/attempt-{attempt}/job.json");
    let text = fs::read(yard.world.control().join(path)).expect("a job");
    serde_json::from_slice(&text).expect("JSON")
}

/// Fails until there is a file `go`.
const UNTIL_GO: &str = r#"echo "$*" > "$HOME/args-$JIT_UNIT-${JIT_ATTEMPT##*/}"
[ -f "$HOME/go" ] || exit 3"#;

#[test]
fn g10_a_unit_that_is_dispatched_again_is_run_as_before_but_for_what_is_said() {
    let yard = Yard::new(UNTIL_GO);
    let agent = yard.agent().display().to_string();
    for unit in ["u", "v"] {
        let _ = yard.world.jit(["worktree", "create", unit]).ok();
        let ran = yard.world.jit([
            "worktree",
            "dispatch",
            unit,
            "--prompt",
            "do it 4711",
            "--timeout",
            "7m",
            "--max-turns",
            "9",
            "--budget",
            "3",
            "--writes",
            "*.txt",
            "--wait",
            "--command",
            &agent,
            "--one",
            "two",
        ]);
        let ran = ran.exits(6);
        assert!(!ran.stderr.contains("as before"), "{}", ran.stderr);
    }
    touch(&yard, "go");
    let again = yard
        .world
        .jit(["worktree", "dispatch", "u", "--json"])
        .ok()
        .json();
    assert_eq!(
        again["as_before"],
        json!([
            "agent",
            "budget_usd",
            "command",
            "max_turns",
            "timeout",
            "prompt",
            "writes"
        ]),
        "{again}"
    );
    until("its end", || yard.unit("u")["state"] == "COMPLETED");
    assert!(read(&yard, "told").contains("do it 4711"));
    assert_eq!(read(&yard, "args-u-2").trim(), "--one two");
    let second = job(&yard, "u", 2);
    assert_eq!(second["timeout_secs"], 420, "{second}");
    assert_eq!(second["max_turns"], 9, "{second}");
    assert_eq!(second["writes"], json!(["*.txt"]), "{second}");
    // A budget is for all attempts together, and does not grow.
    assert_eq!(second["budget"], json!(3.0), "{second}");
    // What is said counts, and by hand after a retry it is no different.
    let _ = yard.world.jit(["worktree", "retry", "v"]).ok();
    let ran = yard
        .world
        .jit([
            "worktree",
            "dispatch",
            "v",
            "--timeout",
            "5m",
            "--prompt",
            "do less",
            "--wait",
        ])
        .ok();
    assert!(
        ran.stderr
            .contains("as before: agent, budget_usd, command, max_turns, writes"),
        "{}",
        ran.stderr
    );
    assert_eq!(job(&yard, "v", 2)["timeout_secs"], 300);
    let told = read(&yard, "told");
    assert!(told.contains("do less") && !told.contains("4711"), "{told}");
}

#[test]
fn g10_another_agent_takes_over_no_program_and_a_plan_speaks_for_its_units() {
    let yard = Yard::new(UNTIL_GO);
    let _ = yard
        .run(
            "",
            &[(
                "a",
                &[],
                "run: {max_retries: 0, timeout: 9m}\nvalidate: ['test -f a.txt']",
            )],
        )
        .exits(6);
    let claude = yard.claude("commit; say_result false '\"terminal_reason\":\"completed\"'");
    let claude = claude.display().to_string();
    let other = yard.world.jit([
        "worktree",
        "dispatch",
        "a",
        "--agent",
        "claude",
        "--json",
        "--command",
        &claude,
    ]);
    let other = other.ok().json();
    let taken: Vec<&str> = other["as_before"]
        .as_array()
        .expect("names")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        !taken.contains(&"command") && !taken.contains(&"agent"),
        "{other}"
    );
    assert!(
        taken.contains(&"prompt") && taken.contains(&"validate"),
        "{other}"
    );
    assert_eq!(job(&yard, "a", 2)["timeout_secs"], 540);
    assert_eq!(job(&yard, "a", 2)["task"], "do a");
    until("its end", || yard.unit("a")["state"] == "COMPLETED");
}

#[test]
fn g12_a_failed_workflow_goes_on_after_a_retry_and_ends_again() {
    let yard = Yard::new("case $JIT_UNIT in b) [ -f \"$HOME/go\" ] || exit 3;; esac");
    let more = "run: {max_retries: 0}";
    let ran = yard
        .run(
            "max_concurrent: 2",
            &[("a", &[], more), ("b", &[], more), ("c", &["b"], more)],
        )
        .exits(6);
    assert!(ran.stdout.contains("jit worktree retry b"), "{}", ran.stdout);
    assert_eq!(yard.status()["status"], "failed");
    let refused = yard.world.jit(["workflow", "resume", "flow", "--json"]).exits(2);
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "bad_transition", "{error}");
    assert!(
        error["help"].to_string().contains("jit worktree retry b"),
        "{error}"
    );
    assert_eq!(yard.status()["status"], "failed", "nothing was begun");
    touch(&yard, "go");
    let _ = yard.world.jit(["worktree", "retry", "b"]).ok();
    let ran = yard.world.jit(["workflow", "resume", "flow"]).ok();
    for unit in ["a", "b", "c"] {
        assert!(yard.on_main(&format!("{unit}.txt")), "{unit}\n{}", ran.stdout);
        assert_eq!(yard.commits(&format!("{unit}.txt")), 1, "{unit}");
    }
    assert!(ran.stdout.contains("IDLE (landed)"), "{}", ran.stdout);
    let status = yard.status();
    assert_eq!(status["status"], "completed", "{status}");
    assert_eq!(yard.events("workflow.reopened").len(), 1);
    assert_eq!(yard.events("workflow.ended").len(), 2);
    // What was completed has nothing left.
    let refused = yard.world.jit(["workflow", "resume", "flow"]).exits(2);
    assert!(refused.stderr.contains("was completed"), "{}", refused.stderr);
    assert!(
        yard.orchestration().contains("completed"),
        "{}",
        yard.orchestration()
    );
    yard.world.validates();
}

#[test]
fn g12_a_cancelled_workflow_goes_on_with_what_has_not_begun() {
    let yard = Yard::new("echo x > \"$HOME/begun\"; while [ ! -f \"$HOME/go\" ]; do sleep 0.02; done");
    let plan = yard.plan("max_concurrent: 1", &[("a", &[], ""), ("b", &[], "")]);
    let plan = plan.display().to_string();
    let mut coordinator = yard.coordinator("one", &["run", &plan]);
    until("an agent", || file(&yard, "begun").exists());
    let _ = yard.world.jit(["workflow", "cancel", "flow"]).ok();
    let _ = coordinator.wait();
    assert_eq!(yard.status()["status"], "cancelled");
    touch(&yard, "go");
    let _ = yard.world.jit(["worktree", "retry", "a"]).ok();
    let ran = yard.world.jit(["workflow", "resume", "flow"]).ok();
    assert!(yard.on_main("a.txt") && yard.on_main("b.txt"), "{}", ran.stdout);
    let _ = yard.world.jit(["worktree", "create", "other"]).ok();
    let _ = yard
        .world
        .jit(["worktree", "abandon", "other", "--reason", "not wanted"])
        .ok();
    let all = yard.world.jit(["worktree", "status", "--all"]).ok().stdout;
    assert!(
        all.contains("IDLE (landed)") && all.contains("IDLE (abandoned)"),
        "{all}"
    );
}

#[test]
fn g14_what_is_handed_to_a_unit_before_it_begins_reaches_its_first_agent_once() {
    let yard = Yard::new(
        r#"echo "$JIT_ATTEMPT" > last.txt
case $JIT_UNIT in x) while [ ! -f "$HOME/go" ]; do sleep 0.02; done;; esac"#,
    );
    let _ = yard.world.jit(["worktree", "create", "giver"]).ok();
    let refused = yard
        .world
        .jit(["handoff", "giver", "--to-unit", "y", "--json"])
        .exits(3);
    let help = refused.json()["error"]["help"].to_string();
    assert!(help.contains("jit worktree create y"), "{help}");
    let plan = yard.plan("", &[("x", &[], ""), ("y", &["x"], "")]);
    let plan = plan.display().to_string();
    let mut coordinator = yard.coordinator("one", &["run", &plan]);
    until("a workflow", || {
        yard.world.jit(["workflow", "status", "flow"]).code == 0
    });
    let give = |note: &str| {
        yard.world
            .jit(["handoff", "giver", "--to-unit", "y", "--note", note])
            .ok()
    };
    let given = give("mind the gap");
    assert!(given.stdout.contains("y has not begun"), "{}", given.stdout);
    // The same again is one thing.
    let _ = give("mind the gap");
    touch(&yard, "go");
    assert_eq!(
        coordinator.wait().expect("its end").code(),
        Some(0),
        "{}",
        yard.told("one")
    );
    let told = read(&yard, "told");
    assert_eq!(told.matches("mind the gap").count(), 1, "{told}");
    let unit = yard.unit("y");
    assert_eq!(unit["handoffs"].as_array().map(Vec::len), Some(1), "{unit}");
    assert_eq!(unit["handoffs"][0]["from"], "giver", "{unit}");
    // A unit that has ended gets nothing any more; one that is made now gets nothing that was for another.
    let over = yard.world.jit(["handoff", "giver", "--to-unit", "y"]).exits(3);
    assert!(over.stderr.contains("is over"), "{}", over.stderr);
    let _ = yard.world.jit(["worktree", "create", "y"]).ok();
    let agent = yard.agent().display().to_string();
    let _ = yard
        .world
        .jit([
            "worktree",
            "dispatch",
            "y",
            "--prompt",
            "z",
            "--wait",
            "--command",
            &agent,
        ])
        .ok();
    assert!(!read(&yard, "told").contains("mind the gap"));
}

/// Claude Code, with what it was told in a file. `$1` of `answer` is what it says first.
const CLAUDE: &str = r#"#!/bin/sh
n=${JIT_ATTEMPT##*/}
IFS= read -r init
case "$*" in *--resume=*)
    IFS= read -r usage
    echo '{"type":"control_response","response":{"subtype":"error","request_id":"usage-0","error":"not known"}}';;
esac
IFS= read -r told
printf '%s\n' "$told" > "$HOME/told-$JIT_UNIT-$n"
id=$(echo "$*" | sed -n 's/.*--\(session-id\|resume\)=\([0-9a-f-]*\).*/\2/p')
echo '{"type":"system","subtype":"init","session_id":"'$id'","model":"m"}'
answer() { echo '{"type":"assistant","session_id":"'$id'","message":{"id":"m-'$n'","content":[{"type":"text","text":"I begin"}]}}'; }
finish() { echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"done","num_turns":1,"total_cost_usd":0.1,"session_id":"'$id'"}'; cat > /dev/null; exit 0; }
commit() { git add -A . && git commit -qm "work of $JIT_UNIT" >&2 || exit 9; }
"#;

#[test]
fn g10_a_session_that_goes_on_is_told_what_is_new_and_the_task_only_if_it_may_not_know_it() {
    let yard = Yard::new("");
    let claude = program(
        &yard,
        "claude",
        &format!(
            "{CLAUDE}\n[ \"$JIT_UNIT\" = mute ] || answer\n[ $n -gt 1 ] || exit 1\necho x > $JIT_UNIT.txt; commit; finish\n"
        ),
    );
    let run = format!("run: {{agent: claude, command: [{claude:?}], max_retries: 1}}");
    let _ = yard.run("", &[("talks", &[], &run), ("mute", &[], &run)]).ok();
    let first = read(&yard, "told-talks-1");
    assert!(
        first.contains("do talks") && first.contains("Where you are"),
        "{first}"
    );
    let second = read(&yard, "told-talks-2");
    assert!(
        !second.contains("do talks") && !second.contains("Where you are"),
        "{second}"
    );
    assert!(second.contains("This session goes on"), "{second}");
    assert!(second.contains("exit: it ended with code 1"), "{second}");
    let mute = read(&yard, "told-mute-2");
    assert!(
        mute.contains("do mute") && mute.contains("Where you are"),
        "{mute}"
    );
    // By hand: new words are said.
    let _ = yard.world.jit(["worktree", "create", "hand"]).ok();
    let dispatch = |more: &[&str]| {
        let base = ["worktree", "dispatch", "hand", "--wait"];
        yard.world.jit(base.iter().chain(more))
    };
    let _ = dispatch(&["--prompt", "build it", "--agent", "claude", "--command", &claude]).exits(6);
    let _ = dispatch(&["--resume", "--prompt", "and paint it"]).ok();
    let told = read(&yard, "told-hand-2");
    assert!(
        told.contains("and paint it") && !told.contains("build it"),
        "{told}"
    );
    assert!(told.contains("This session goes on"), "{told}");
}

#[test]
fn g10_a_conflict_that_is_sent_back_names_its_files_and_what_to_do() {
    let yard = Yard::new("");
    // Both begin before either lands; b ends when a has landed.
    let script = format!(
        r#"{CLAUDE}
answer
if [ -f "$(git rev-parse --git-path MERGE_HEAD)" ]; then
    echo both > "same file.txt"; commit; finish
fi
touch "$HOME/begun-$JIT_UNIT"
while [ ! -f "$HOME/begun-a" ] || [ ! -f "$HOME/begun-b" ]; do sleep 0.02; done
[ $JIT_UNIT = a ] || while [ "$(git rev-parse main)" = "$(git rev-parse HEAD)" ]; do sleep 0.02; done
echo "$JIT_UNIT" > "same file.txt"; commit; finish
"#
    );
    let claude = program(&yard, "claude", &script);
    let run = format!("run: {{agent: claude, command: [{claude:?}]}}");
    let ran = yard
        .run("max_concurrent: 2", &[("a", &[], &run), ("b", &[], &run)])
        .ok();
    let told = read(&yard, "told-b-2");
    for part in [
        "same file.txt",
        "is under way in this worktree",
        "end the merge with `git commit`",
    ] {
        assert!(told.contains(part), "{part}\n{told}\n{}", ran.stdout);
    }
    assert!(!told.contains("Do not merge") && !told.contains("do b"), "{told}");
    let shown = yard.world.git(&yard.world.repo(), ["show", "main:same file.txt"]);
    assert_eq!(shown.trim(), "both");
}

#[test]
fn f2_what_an_agent_has_locked_is_free_when_it_has_ended_however_it_did() {
    let jit = env!("CARGO_BIN_EXE_jit");
    let yard = Yard::new(&format!(
        r#"'{jit}' lock acquire --scope global "$JIT_UNIT-file" >&2 || exit 8
'{jit}' lock list --json > "$HOME/held-$JIT_UNIT"
case $JIT_UNIT in
    fails) exit 3;;
    lost) kill -9 $PPID; sleep 60;;
esac"#
    ));
    let agent = yard.agent().display().to_string();
    let held = || yard.world.jit(["lock", "list", "--json"]).ok().json()["locks"].clone();
    let _ = yard
        .world
        .jit_as_in("agent:bob", &yard.world.repo(), ["lock", "acquire", "bobs"])
        .ok();
    let before = held();
    for (unit, reason) in [
        ("works", Value::Null),
        ("fails", json!("exit")),
        ("lost", json!("shim_lost")),
    ] {
        let _ = yard.world.jit(["worktree", "create", unit]).ok();
        let _ = yard.world.jit([
            "worktree",
            "dispatch",
            unit,
            "--prompt",
            "x",
            "--wait",
            "--command",
            &agent,
        ]);
        assert!(read(&yard, &format!("held-{unit}")).contains(&format!("{unit}-file")));
        until("its end", || {
            matches!(yard.unit(unit)["state"].as_str(), Some("COMPLETED" | "FAILED"))
        });
        assert_eq!(yard.unit(unit)["error"]["reason"], reason, "{unit}");
        assert_eq!(held(), before, "{unit}: what it had, and nothing of bob's");
    }
}

#[test]
fn g8_an_agent_that_says_how_it_ended_and_ends_without_a_word_has_not_done_its_work() {
    let yard = Yard::new("");
    let claude = yard.claude("commit; exit 0").display().to_string();
    let _ = yard.world.jit(["worktree", "create", "u"]).ok();
    let _ = yard
        .world
        .jit([
            "worktree",
            "dispatch",
            "u",
            "--prompt",
            "x",
            "--wait",
            "--agent",
            "claude",
            "--command",
            &claude,
        ])
        .exits(6);
    let unit = yard.unit("u");
    assert_eq!(unit["state"], "FAILED", "{unit}");
    assert_eq!(unit["error"]["reason"], "no_result", "{unit}");
    // Of a plain command, silence is no sign of anything.
    let quiet = program(
        &yard,
        "quiet",
        "#!/bin/sh\necho x > x.txt; git add -A . && git commit -qm x >&2\n",
    );
    let _ = yard.world.jit(["worktree", "create", "v"]).ok();
    let _ = yard
        .world
        .jit([
            "worktree",
            "dispatch",
            "v",
            "--prompt",
            "x",
            "--wait",
            "--command",
            &quiet,
        ])
        .ok();
    assert_eq!(yard.unit("v")["state"], "COMPLETED");
}

#[test]
fn i3_options_of_jit_behind_a_program_are_not_given_to_it_unless_that_is_said() {
    let yard = Yard::new("echo \"$*\" > \"$HOME/args\"");
    let agent = yard.agent().display().to_string();
    let _ = yard.world.jit(["worktree", "create", "u"]).ok();
    let dispatch = |words: &[&str]| {
        let base = [
            "worktree",
            "dispatch",
            "u",
            "--prompt",
            "x",
            "--wait",
            "--command",
            &agent,
        ];
        yard.world.jit(base.iter().chain(words))
    };
    for words in [
        &["--budget", "2"][..],
        &["one", "--timeout=5m"],
        &["--wait"],
        &["--writes", "src"],
        &["--json"],
    ] {
        let refused = dispatch(words).exits(2);
        assert!(
            refused.stderr.contains("come before --command"),
            "{}",
            refused.stderr
        );
        assert_eq!(yard.unit("u")["attempt"], 0, "{words:?}");
    }
    let _ = dispatch(&["--", "--budget", "2", "--own"]).ok();
    assert_eq!(read(&yard, "args").trim(), "--budget 2 --own");
}

#[test]
fn i2_what_restrains_agents_is_not_for_them_to_set() {
    let yard = Yard::new("");
    for (key, value) in [
        ("dispatch.budget_usd", "1000"),
        ("dispatch.permission_mode", "bypassPermissions"),
        ("dispatch.command", "[\"sh\"]"),
        ("notify.command", "[\"true\"]"),
        ("notify.webhook", "https://example.invalid/"),
        ("worktree.enforce_leases", "off"),
        ("merge.max_conflict_rounds", "9"),
    ] {
        let before = yard.world.jit(["config", "show", "--json"]).ok().json();
        for user in [&[][..], &["--user"]] {
            let words = ["config", "set", key, value, "--json"];
            let refused = yard.world.jit_as_in(
                "agent:clever",
                &yard.world.repo(),
                words.iter().chain(user).copied(),
            );
            let refused = refused.exits(5);
            assert_eq!(refused.json()["error"]["code"], "not_allowed", "{key}");
        }
        assert_eq!(
            yard.world.jit(["config", "show", "--json"]).ok().json(),
            before,
            "{key}"
        );
    }
    // A person may, and so may an agent what restrains nobody.
    let _ = yard
        .world
        .jit_as_in(
            "human:ann",
            &yard.world.repo(),
            ["config", "set", "dispatch.max_turns", "7"],
        )
        .ok();
    let _ = yard
        .world
        .jit_as_in(
            "agent:clever",
            &yard.world.repo(),
            ["config", "set", "coordination.default_ttl_secs", "20m"],
        )
        .ok();
}
