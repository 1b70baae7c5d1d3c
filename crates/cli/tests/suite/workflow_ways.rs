//! Workflows of scripted agents: in order, with failures, limits, a second coordinator, an end by hand (G4 to G13).

use std::fs;

use crate::running::{JIT, Yard};

/// An agent that does not end by itself.
const SLEEPS: &str = "sleep 600 & wait";

#[test]
fn g13_a_plan_is_worked_off_in_order_and_lands() {
    let yard = Yard::new("[ \"$JIT_UNIT\" != b ] || [ -f a.txt ] || exit 7");
    let ran = yard.run("", &[("b", &["a"], ""), ("a", &[], ""), ("c", &[], "")]);
    let ran = ran.ok();
    for unit in ["a", "b", "c"] {
        assert!(yard.on_main(&format!("{unit}.txt")), "{unit}\n{}", ran.stdout);
    }
    let status = yard.status();
    assert_eq!(status["status"], "completed", "{status}");
    assert_eq!(status["cost_usd"], 0.75, "{status}");
    assert_eq!(status["tokens"]["input"], 300, "{status}");
    let starts = yard.starts();
    assert_eq!(starts.len(), 3, "{starts:?}");
    assert!(starts.values().all(|n| *n == 1), "{starts:?}");
    let text = yard.orchestration();
    assert!(
        text.contains("workflow_id: flow") && text.contains("target_branch: main"),
        "{text}"
    );
    assert!(
        !yard.world.root().join("repo-worktrees/a").exists(),
        "its worktree is removed"
    );
    yard.world.validates();
}

#[test]
fn g13_ready_issues_are_claimed_worked_on_and_done() {
    let yard = Yard::new("");
    for title in ["Parse dates", "Print dates"] {
        let _ = yard
            .world
            .jit(["issue", "create", title, "--state", "ready"])
            .ok();
    }
    let agent = yard.agent().display().to_string();
    let _ = yard
        .world
        .jit(["run", "--ready", "--max", "2", "--command", &agent])
        .ok();
    let issues = yard.world.jit(["issue", "list", "--json"]).ok().json();
    for issue in issues["issues"].as_array().expect("issues") {
        assert_eq!(issue["state"], "done", "{issue}");
        assert!(issue["lease"].is_null(), "{issue}");
    }
    let told = fs::read_to_string(yard.world.home().join("told")).expect("what an agent was told");
    assert!(told.contains("dates"), "{told}");
}

#[test]
fn g10_what_fails_is_tried_again_a_bounded_number_of_times_and_its_issue_given_back() {
    let yard = Yard::with_script("echo no >&2; exit 1");
    let _ = yard
        .world
        .jit(["issue", "create", "Fails", "--id", "F-1", "--state", "ready"])
        .ok();
    let units: &[(&str, &[&str], &str)] = &[
        ("a", &[], "issue: F-1\nrun:\n  max_retries: 2"),
        ("b", &["a"], ""),
    ];
    let ran = yard.run("", units).exits(6);
    let unit = yard.unit("a");
    assert_eq!(unit["state"], "FAILED", "{unit}");
    assert_eq!(unit["error"]["exit_code"], 1, "{unit}");
    assert!(
        unit["error"]["message"].as_str().expect("text").contains("no"),
        "{unit}"
    );
    assert_eq!(yard.starts().len(), 3, "{:?}", yard.starts());
    let issue = yard.world.jit(["issue", "show", "F-1", "--json"]).ok().json();
    assert!(issue["lease"].is_null(), "{issue}");
    let status = yard.status();
    assert_eq!(status["status"], "failed", "{status}");
    assert!(
        !yard.world.root().join("repo-worktrees/b").exists(),
        "{}",
        ran.stdout
    );
}

#[test]
fn g8_a_usage_error_is_not_tried_again() {
    let yard = Yard::with_script(
        r#"echo '{"kind":"result","verdict":{"is_error":true,"reason":"api_error","api_status":400}}'; exit 1"#,
    );
    let _ = yard.run("", &[("a", &[], "")]).exits(6);
    assert_eq!(yard.unit("a")["error"]["reason"], "usage");
    assert_eq!(yard.starts().len(), 1);
}

#[test]
fn g8_an_authentication_error_says_so_and_is_not_tried_again() {
    let yard = Yard::with_script(
        r#"echo '{"kind":"result","verdict":{"is_error":true,"reason":"authentication_failed","text":"no key"}}'; exit 1"#,
    );
    let _ = yard.run("", &[("a", &[], "")]).exits(6);
    let error = yard.unit("a")["error"].clone();
    assert_eq!(error["reason"], "authentication", "{error}");
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.contains("not logged in") && message.contains("no key"),
        "{message}"
    );
    assert_eq!(yard.starts().len(), 1);
}

#[test]
fn g7_an_agent_that_says_it_is_done_must_have_left_its_files_and_its_commits() {
    let said = r#"echo '{"kind":"result","verdict":{"is_error":false,"reason":"completed"}}'"#;
    let yard = Yard::with_script(&format!(
        "case $JIT_UNIT in\n files) echo x > x; git add x; git commit -qm x;;\n dirty) echo y > y;;\nesac\n{said}"
    ));
    let artifacts = "artifacts: [{path: report.md, type: report}]\nrun: {max_retries: 0}";
    let none = "run: {max_retries: 0}";
    let _ = yard
        .run(
            "",
            &[
                ("files", &[], artifacts),
                ("dirty", &[], none),
                ("nothing", &[], none),
            ],
        )
        .exits(6);
    assert_eq!(yard.unit("files")["error"]["reason"], "artifacts_missing");
    assert_eq!(yard.unit("dirty")["error"]["reason"], "uncommitted");
    assert_eq!(yard.unit("nothing")["error"]["reason"], "no_commits");
    let left = yard.world.root().join("repo-worktrees/dirty/y");
    assert!(left.exists(), "what is not committed stays");
}

#[test]
fn g13_a_units_own_checks_keep_it_from_landing() {
    let yard = Yard::new("");
    let _ = yard
        .run(
            "",
            &[("a", &[], "validate: [\"test -f b.txt\"]\nrun: {max_retries: 0}")],
        )
        .exits(6);
    assert_eq!(yard.unit("a")["error"]["reason"], "validation");
    assert!(!yard.on_main("a.txt"));
}

#[test]
fn g9_a_unit_that_is_over_its_budget_is_ended() {
    let spends = r#"echo '{"kind":"usage","tokens":{"input":1,"output":1},"cost_usd":6.5,"turns":1}'"#;
    let yard = Yard::with_script(&format!("{spends}\n{SLEEPS}"));
    let _ = yard.run("", &[("a", &[], "run: {budget_usd: 5}")]).exits(6);
    let unit = yard.unit("a");
    assert_eq!(unit["error"]["reason"], "budget", "{unit}");
    assert_eq!(unit["cost_usd"], 6.5, "{unit}");
    assert_eq!(yard.starts().len(), 1, "money is not spent again");
    assert_eq!(yard.survivors(), Vec::<String>::new());
}

#[test]
fn g9_at_the_budget_of_the_workflow_nothing_new_is_started() {
    let yard = Yard::new("");
    let units: &[(&str, &[&str], &str)] = &[("a", &[], ""), ("b", &["a"], ""), ("c", &["b"], "")];
    let ran = yard.run("budget_usd: 0.4", units).exits(6);
    assert_eq!(yard.starts().len(), 2, "{}", ran.stdout);
    assert!(yard.on_main("b.txt") && !yard.on_main("c.txt"));
    assert!(ran.stderr.contains("budget"), "{}", ran.stderr);
}

#[test]
fn g8_an_agent_that_takes_too_long_is_ended_with_all_it_started() {
    let yard =
        Yard::with_script("trap '' TERM\nsetsid sh -c \"trap '' TERM; sleep 600\" &\nsleep 600 & wait; wait");
    let _ = yard
        .run("", &[("a", &[], "run: {timeout: 1s, max_retries: 0}")])
        .exits(6);
    assert_eq!(yard.unit("a")["error"]["reason"], "timeout");
    assert_eq!(yard.survivors(), Vec::<String>::new());
}

/// FM-10: two units that change the same line.
#[test]
fn h5_a_conflict_goes_back_to_the_agent_that_made_it_and_lands_when_it_is_settled() {
    let yard = Yard::with_script(
        "if git rev-parse -q --verify MERGE_HEAD > /dev/null; then printf 'a and b\\n' > shared.txt\n\
         else while [ ! -f \"$HOME/both\" ]; do touch \"$HOME/$JIT_UNIT\"; [ -f \"$HOME/a\" ] && [ -f \"$HOME/b\" ] && \
         touch \"$HOME/both\"; sleep 0.02; done; echo \"$JIT_UNIT\" > shared.txt; fi\n\
         git add -A . && git commit -qm \"work of $JIT_UNIT\" >&2 || exit 9",
    );
    let ran = yard.run("", &[("a", &[], ""), ("b", &[], "")]).ok();
    let landed = yard.world.git(&yard.world.repo(), ["show", "main:shared.txt"]);
    assert_eq!(landed.trim(), "a and b", "{}", ran.stdout);
    assert_eq!(yard.starts().len(), 3, "{:?} {}", yard.starts(), ran.stdout);
    let told = fs::read_to_string(yard.world.home().join("told")).expect("what it was told last");
    assert!(told.contains("conflict"), "{told}");
}

/// What stands in the way of one unit is not told of another, and nobody waits for ever.
#[test]
fn h3_a_checkout_with_local_changes_is_left_alone_and_told_and_another_run_goes_on() {
    let yard = Yard::with_script(
        "echo \"$JIT_UNIT\" > \"$([ $JIT_UNIT = a ] && echo shared || echo other).txt\"\n\
         git add -A . && git commit -qm \"work of $JIT_UNIT\" >&2 || exit 9",
    );
    let main = yard.world.repo();
    fs::write(main.join("shared.txt"), "as it was\n").expect("a file");
    let _ = yard.world.git(&main, ["add", "shared.txt"]);
    let _ = yard.world.git(&main, ["commit", "-qm", "shared"]);
    fs::write(main.join("shared.txt"), "somebody is at it\n").expect("a file");
    let ran = yard.run("", &[("a", &[], ""), ("b", &[], "")]).exits(6);
    assert!(ran.stdout.contains("waits for a person"), "{}", ran.stdout);
    assert!(yard.on_main("other.txt"), "{}", ran.stdout);
    let of_b = ran
        .stdout
        .lines()
        .filter(|line| line.contains("  b  ") && line.contains("cannot land"));
    assert_eq!(of_b.count(), 0, "{}", ran.stdout);
    let text = fs::read_to_string(main.join("shared.txt")).expect("a file");
    assert_eq!(text, "somebody is at it\n");
    let _ = yard.world.git(&main, ["checkout", "-q", "--", "shared.txt"]);
    let _ = yard.world.jit(["workflow", "resume", "flow"]).ok();
    assert_eq!(yard.world.git(&main, ["show", "main:shared.txt"]).trim(), "a");
}

/// FM-01 and a name that is taken: told, not tried for ever.
#[test]
fn g2_a_unit_whose_branch_exists_already_is_told_and_fails() {
    let yard = Yard::new("");
    let _ = yard.world.git(&yard.world.repo(), ["branch", "jit/a"]);
    let ran = yard.run("", &[("a", &[], ""), ("b", &[], "")]).exits(6);
    assert!(
        ran.stdout.contains("there is a branch jit/a already"),
        "{}",
        ran.stdout
    );
    assert!(yard.on_main("b.txt") && yard.starts().len() == 1);
}

/// FM-02: what makes a worktree ready fails once, or always.
#[test]
fn g3_a_worktree_that_cannot_be_made_ready_fails_its_unit_and_no_other() {
    let yard = Yard::new("");
    let once = "test -f \"$HOME/tried-$JIT_UNIT\" || { touch \"$HOME/tried-$JIT_UNIT\"; exit 1; }; test $JIT_UNIT != a";
    let list = format!("[{once:?}]");
    let _ = yard
        .world
        .jit(["config", "set", "--user", "worktree.provision", &list])
        .ok();
    let ran = yard
        .run("", &[("a", &[], "run: {max_retries: 1}"), ("b", &[], "")])
        .exits(6);
    assert!(yard.on_main("b.txt"), "{}", ran.stdout);
    let unit = yard.unit("a");
    assert_eq!(unit["error"]["reason"], "provisioning", "{unit}");
}

#[test]
fn g12_agents_go_on_without_a_coordinator_and_another_one_goes_on_with_the_rest() {
    let go = "while [ ! -f \"$HOME/go\" ]; do sleep 0.05; done";
    let yard = Yard::new(go);
    let plan = yard.plan("", &[("a", &[], ""), ("b", &["a"], "")]);
    let mut command = yard.world.jit_command(&yard.world.repo());
    command.arg("run").arg(&plan).stdout(std::process::Stdio::null());
    let mut first = command.spawn().expect("a coordinator");
    while yard.starts().is_empty() {
        std::thread::yield_now();
    }
    // While one leads it nobody else does.
    let _ = yard.world.jit(["workflow", "resume", "flow"]).exits(4);
    first.kill().expect("killed");
    let _ = first.wait();
    assert!(!yard.survivors().is_empty(), "the agent goes on");
    fs::write(yard.world.home().join("go"), "").expect("a sign");
    let _ = yard.world.jit(["workflow", "resume", "flow"]).ok();
    assert!(yard.on_main("a.txt") && yard.on_main("b.txt"));
    assert!(yard.starts().values().all(|n| *n == 1), "{:?}", yard.starts());
    assert_eq!(yard.starts().len(), 2);
}

#[test]
fn g11_a_workflow_that_is_cancelled_stops_its_agents_and_keeps_their_work() {
    let yard = Yard::with_script(&format!("echo begun > begun.txt\n{SLEEPS}"));
    let plan = yard.plan("", &[("a", &[], ""), ("b", &["a"], "")]);
    let mut command = yard.world.jit_command(&yard.world.repo());
    command.arg("run").arg(&plan).stdout(std::process::Stdio::null());
    let mut coordinator = command.spawn().expect("a coordinator");
    while !yard.world.root().join("repo-worktrees/a/begun.txt").exists() {
        std::thread::yield_now();
    }
    let _ = yard.world.jit(["workflow", "cancel", "flow"]).ok();
    let code = coordinator.wait().expect("its end").code();
    assert_eq!(code, Some(6));
    let status = yard.status();
    assert_eq!(status["status"], "cancelled", "{status}");
    assert_eq!(yard.survivors(), Vec::<String>::new());
    assert!(yard.world.root().join("repo-worktrees/a/begun.txt").exists());
    assert_eq!(yard.starts().len(), 1);
}

#[test]
fn g4_an_agent_is_started_by_hand_followed_stopped_and_gone_on_with() {
    let yard = Yard::new("[ -f go ] || { echo waiting; sleep 600; }");
    let agent = yard.agent().display().to_string();
    let _ = yard.world.jit(["worktree", "create", "u"]).ok();
    let started = yard
        .world
        .jit([
            "worktree",
            "dispatch",
            "u",
            "--prompt",
            "work",
            "--command",
            &agent,
        ])
        .ok();
    assert!(started.stdout.contains("DISPATCHED"), "{}", started.stdout);
    let _ = yard
        .world
        .jit([
            "worktree",
            "dispatch",
            "u",
            "--prompt",
            "work",
            "--command",
            &agent,
        ])
        .exits(2);
    loop {
        let unit = yard.unit("u");
        if unit["progress"]["last_action"] == "waiting" {
            assert_eq!(unit["state"], "RUNNING", "{unit}");
            break;
        }
        std::thread::yield_now();
    }
    let stopped = yard.world.jit(["worktree", "stop", "u", "--json"]).ok().json();
    assert_eq!(stopped["error"]["reason"], "stopped", "{stopped}");
    assert_eq!(yard.survivors(), Vec::<String>::new());
    fs::write(yard.world.root().join("repo-worktrees/u/go"), "").expect("a file");
    let done = yard
        .world
        .jit([
            "worktree",
            "dispatch",
            "u",
            "--prompt",
            "go on",
            "--wait",
            "--command",
            &agent,
        ])
        .ok();
    assert!(done.stdout.contains("COMPLETED"), "{}", done.stdout);
    let logs = yard.world.jit(["worktree", "logs", "u", "--json"]).ok();
    assert!(logs.stdout.contains("\"kind\":\"result\""), "{}", logs.stdout);
    let diff = yard.world.jit(["worktree", "diff", "u"]).ok();
    assert!(diff.stdout.contains("+u"), "{}", diff.stdout);
    let _ = yard.world.jit(["finish", "u"]).ok();
    assert!(yard.on_main("u.txt"));
}

#[test]
fn g4_the_agent_holds_the_claim_while_it_works() {
    let yard = Yard::new(&format!(
        "{JIT} claim list --json > \"$HOME/claims\"; {JIT} whoami --json > \"$HOME/me\""
    ));
    let agent = yard.agent().display().to_string();
    let _ = yard
        .world
        .jit(["issue", "create", "One", "--id", "ONE-1", "--state", "ready"])
        .ok();
    let _ = yard.world.jit(["start", "ONE-1", "--command", &agent]).ok();
    let me = fs::read_to_string(yard.world.home().join("me")).expect("who it was");
    let claims = fs::read_to_string(yard.world.home().join("claims")).expect("its claims");
    assert!(me.contains("agent:command-one-1"), "{me}");
    assert!(claims.contains("agent:command-one-1"), "{claims}");
    let held = yard.world.jit(["claim", "list", "--json"]).ok().stdout;
    assert!(!held.contains("agent:command-one-1"), "it came back: {held}");
}

/// What any program means by a code is its own affair.
#[test]
fn g8_any_code_of_a_command_is_a_failure_like_others() {
    let yard = Yard::new("[ ${JIT_ATTEMPT##*/} -gt 1 ] || exit 2");
    let ran = yard.run("", &[("a", &[], "")]).ok();
    assert!(ran.stdout.contains("it ended with code 2"), "{}", ran.stdout);
    assert_eq!(yard.starts().len(), 2);
    assert!(yard.on_main("a.txt"));
}

#[test]
fn g13_what_a_plan_names_and_is_not_there_is_told_before_anything_is_begun() {
    let yard = Yard::new("");
    for (top, more, words) in [
        (
            "target: nowhere",
            "",
            "plan.yaml:3:9: target: there is no branch \"nowhere\"",
        ),
        ("", "issue: GONE-1", "plan.yaml:10:12: units[0].issue: "),
        (
            "",
            "run: {command: [/not/there/at-all]}",
            "plan.yaml:11:20: units[0].run.command: there is no program \"/not/there/at-all\"",
        ),
        (
            "",
            "run: {agent: claude, command: [no-such-program]}",
            "there is no program \"no-such-program\"",
        ),
        (
            "budget_usd: 0",
            "",
            "plan.yaml:3:13: budget_usd: with no dollar no agent can be started",
        ),
        (
            "",
            "run: {budget_tokens: 0}",
            "with no token no agent can be started",
        ),
        ("", "phase: -1", "plan.yaml:11:12: units[0].phase: "),
    ] {
        let ran = yard.run(top, &[("a", &[], more)]).exits(2);
        assert!(ran.stderr.contains(words), "{words}\n{}", ran.stderr);
    }
    let none = yard
        .world
        .jit(["workflow", "list", "--all", "--json"])
        .ok()
        .json();
    assert_eq!(none["workflows"].as_array().map(Vec::len), Some(0), "{none}");
    assert!(!yard.world.root().join("repo-worktrees").exists());
}

#[test]
fn g11_a_coordinator_that_was_killed_is_not_shown_as_leading_and_what_ended_meanwhile_is_shown() {
    let yard = Yard::new("while [ ! -f \"$HOME/go\" ]; do sleep 0.05; done");
    let plan = yard.plan("", &[("a", &[], "")]);
    let mut first = yard.coordinator("first", &["run", &plan.display().to_string()]);
    while !yard.told("first").contains("RUNNING") {
        std::thread::yield_now();
    }
    assert!(yard.status()["led_by"].is_string(), "{}", yard.status());
    assert!(yard.unit("a")["pid"].is_u64(), "{}", yard.unit("a"));
    first.kill().expect("killed");
    let _ = first.wait();
    let status = yard.status();
    assert!(status["led_by"].is_null(), "{status}");
    fs::write(yard.world.home().join("go"), "").expect("a sign");
    loop {
        let unit = yard.unit("a");
        assert_eq!(unit["state"], "RUNNING", "nobody leads it: {unit}");
        if unit["unsettled"] == "its agent has ended by itself" {
            break;
        }
        std::thread::yield_now();
    }
    let shown = yard.world.jit(["worktree", "status", "a"]).ok().stdout;
    assert!(shown.contains("jit workflow resume flow"), "{shown}");
    let _ = yard.world.jit(["workflow", "resume", "flow"]).ok();
    let unit = yard.unit("a");
    assert!(unit["pid"].is_null() && unit["unsettled"].is_null(), "{unit}");
    assert!(yard.on_main("a.txt"));
}

/// The first sign of life comes after some seconds.
#[test]
fn g4_a_claim_is_kept_though_its_agent_breaks_the_settings_of_its_worktree() {
    let yard = Yard::new(
        "mkdir -p .jit; cp .jit/config.toml \"$HOME/as-it-was\"; echo '= broken [' > .jit/config.toml\n\
         while [ ! -f \"$HOME/go\" ]; do sleep 0.1; done; cp \"$HOME/as-it-was\" .jit/config.toml",
    );
    let agent = yard.agent().display().to_string();
    let _ = yard.world.jit(["worktree", "create", "u"]).ok();
    let _ = yard
        .world
        .jit(["worktree", "dispatch", "u", "--prompt", "x", "--command", &agent])
        .ok();
    jit_testkit::world::tools::wait_until(
        "it says that it lives",
        std::time::Duration::from_secs(90),
        || {
            let sessions = yard.world.jit(["session", "list", "--json"]).stdout;
            sessions.contains("agent:command-u")
        },
    );
    fs::write(yard.world.home().join("go"), "").expect("a sign");
    let _ = yard.world.jit(["worktree", "logs", "u", "--follow"]);
    assert_eq!(yard.unit("u")["state"], "COMPLETED", "{}", yard.unit("u"));
}
