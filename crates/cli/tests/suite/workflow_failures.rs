//! What goes wrong with workflows, each provoked with real processes (G2 to G13).
//!
//! | row | what happens | test |
//! |---|---|---|
//! | FM-01 | the branch of a unit exists | `workflow_ways::g2_a_unit_whose_branch_exists_already_is_told_and_fails` |
//! | FM-02 | provisioning fails once, and twice | `workflow_ways::g3_a_worktree_that_cannot_be_made_ready_fails_its_unit_and_no_other`, `cli_units::g3_a_step_that_fails_twice_fails_the_unit_and_can_be_tried_again` |
//! | FM-03 | an agent crashes at its start, or cannot be started | `g10_fm03_an_agent_that_crashes_at_its_start_is_tried_again_and_its_words_are_kept`, `g8_fm03_an_agent_that_cannot_be_started_is_not_tried_again` |
//! | FM-04 | time is up; it ignores TERM and has grandchildren elsewhere | `workflow_ways::g8_an_agent_that_takes_too_long_is_ended_with_all_it_started`, `runner_shim::g8_an_agent_that_ignores_term_is_ended_with_all_it_started` |
//! | FM-05 | a budget is exceeded: of a unit, a workflow, a day | `workflow_ways::g9_a_unit_that_is_over_its_budget_is_ended`, `workflow_ways::g9_at_the_budget_of_the_workflow_nothing_new_is_started`, `g9_fm05_above_the_budget_of_the_workflow_what_runs_is_stopped`, `g9_fm05_agents_of_every_workflow_count_towards_the_day`, `g9_fm05_above_the_day_what_runs_is_stopped_whoever_spent_it` |
//! | FM-06 | artifacts are missing | `g7_fm06_missing_artifacts_are_asked_for_once_more`, `workflow_ways::g7_an_agent_that_says_it_is_done_must_have_left_its_files_and_its_commits` |
//! | FM-07 | a conflict in the sources that nobody settles | `h5_fm07_a_conflict_that_nobody_settles_waits_for_a_person_and_both_sides_stay` |
//! | FM-08 | a conflict in the rules | `h4_fm08_a_conflict_in_the_rules_is_a_persons` |
//! | FM-09 | the coordinator crashes | `workflow_chaos::heavy_g12_a_workflow_of_twelve_units_survives_its_coordinators` |
//! | FM-10 | two units change the same file | `workflow_ways::h5_a_conflict_goes_back_to_the_agent_that_made_it_and_lands_when_it_is_settled` |
//! | FM-11 | a worktree is left behind | `g16_fm11_what_a_failed_unit_leaves_is_shown_and_removed_on_demand` |
//! | FM-12 | a session is lost | `g10_fm12_a_session_that_is_lost_is_not_gone_on_with` |
//! | FM-13 | the model is asked too much | `g10_fm13_a_model_that_is_asked_too_much_is_left_alone_for_a_while`, `agents_driven::g10_what_passes_is_told_from_what_does_not` |
//! | FM-14 | the disk is full | `g16_fm14_without_room_no_worktree_is_made_and_nothing_is_left`, `runner_shim::g8_a_full_disk_loses_output_and_nothing_else` |
//! | pre-mortem 1 | time is too short for one task | `g8_pm1_each_unit_has_the_time_its_plan_gives_it` |
//! | pre-mortem 2 | money goes without anybody seeing it | `g9_pm2_what_is_spent_is_seen_and_told_before_it_is_all` |
//! | pre-mortem 3 | shared files conflict in every run | FM-10, `landing_ways::h8_worktrees_in_each_others_way_are_seen_before_anything_is_committed` |
//! | pre-mortem 4 | a coordinator lost track after a crash | FM-09, `workflow_ways::g12_agents_go_on_without_a_coordinator_and_another_one_goes_on_with_the_rest` |
//! | pre-mortem 5 | sessions are not gone on with by the next coordinator | `g10_pm5_the_next_coordinator_goes_on_with_the_session_of_the_one_before` |
//! | pre-mortem 6 | too many at once | `g13_pm6_no_more_agents_run_than_the_plan_says` |
//! | pre-mortem 7 | worktrees pile up | FM-11, `cli_units::g16_what_does_not_fit_together_is_shown_and_settled_on_demand` |
//! | besides | hangs after its result; garbage and half lines; 100 MB of output | `runner_shim::g6_an_agent_that_does_not_end_after_its_result_is_ended_and_its_result_counts`, `runner_shim::g7_garbage_is_kept_and_never_fatal`, `runner_shim::g8_a_hundred_megabytes_of_output_take_little_memory_and_little_disk` |

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use jit_testkit::world::tools::wait_until;

use crate::running::Yard;

const PATIENCE: Duration = Duration::from_secs(60);
/// An agent that does not end by itself.
const SLEEPS: &str = "sleep 600 & wait";

fn set(yard: &Yard, key: &str, value: &str) {
    let _ = yard.world.jit(["config", "set", "--user", key, value]).ok();
}

fn spends(dollars: &str) -> String {
    format!(r#"echo '{{"kind":"usage","tokens":{{"input":1,"output":1}},"cost_usd":{dollars},"turns":1}}'"#)
}

/// A second plan beside that of the yard: one unit, of a workflow of its own.
fn other_plan(yard: &Yard, unit: &str) -> String {
    let text = fs::read_to_string(yard.plan("", &[(unit, &[], "")])).expect("a plan");
    let path = yard.world.home().join("other.yaml");
    fs::write(&path, text.replace("workflow_id: flow", "workflow_id: other")).expect("a plan");
    path.display().to_string()
}

#[test]
fn g10_a_worktree_that_can_never_be_made_is_tried_once_and_told() {
    let yard = Yard::new("");
    // A second try would come minutes later.
    set(&yard, "dispatch.backoff_secs", "3600");
    fs::write(yard.world.root().join("repo-worktrees"), "not a folder").expect("a file");
    let ran = yard.run("", &[("a", &[], ""), ("b", &["a"], "")]).exits(6);
    let told = "failed, without a worktree: no worktree can be made in";
    assert!(ran.stdout.contains(told), "{}", ran.stdout);
    let events = yard.world.events();
    let tries = events
        .iter()
        .filter(|event| event["type"] == "unit.rolled_back")
        .count();
    assert_eq!(tries, 1);
    let shown = yard
        .world
        .jit(["workflow", "status", "flow", "--json"])
        .ok()
        .json();
    let error = &shown["instances"][0]["error"];
    assert_eq!(error["reason"], "provisioning", "{shown}");
}

fn end(mut coordinator: Child) {
    let _ = coordinator.kill();
    let _ = coordinator.wait();
}

#[test]
fn g10_fm03_an_agent_that_crashes_at_its_start_is_tried_again_and_its_words_are_kept() {
    let yard = Yard::new("[ ${JIT_ATTEMPT##*/} -gt 1 ] || { echo 'no such model' >&2; kill -SEGV $$; }");
    let ran = yard.run("", &[("a", &[], "")]).ok();
    assert!(yard.on_main("a.txt"), "{}", ran.stdout);
    let told = &ran.stdout;
    assert!(
        told.contains("killed") && told.contains("no such model"),
        "{told}"
    );
    assert_eq!(yard.starts().len(), 2);
}

#[test]
fn g8_fm03_an_agent_that_cannot_be_started_is_not_tried_again() {
    let yard = Yard::new("");
    // As seen from a worktree that is not there yet.
    let _ = yard
        .run("", &[("a", &[], "run: {command: [./not/there]}")])
        .exits(6);
    let unit = yard.unit("a");
    assert_eq!(unit["error"]["reason"], "not_started", "{unit}");
    assert_eq!(unit["attempt"], 1, "{unit}");
}

#[test]
fn g9_fm05_above_the_budget_of_the_workflow_what_runs_is_stopped() {
    let spend = spends("1.5");
    // Nothing is spent before both are at work.
    let yard = Yard::with_script(&format!(
        "echo begun > begun.txt; touch \"$HOME/$JIT_UNIT\"\n\
         while ! [ -f \"$HOME/a\" ] || ! [ -f \"$HOME/b\" ]; do sleep 0.02; done\n\
         [ $JIT_UNIT = a ] || {spend}\n{SLEEPS}"
    ));
    let ran = yard
        .run("budget_usd: 1", &[("a", &[], ""), ("b", &[], "")])
        .exits(6);
    for unit in ["a", "b"] {
        let shown = yard.unit(unit);
        assert_eq!(shown["error"]["reason"], "budget", "{shown}\n{}", ran.stdout);
        let kept = yard.world.root().join(format!("repo-worktrees/{unit}/begun.txt"));
        assert!(kept.exists(), "its work is kept");
    }
    assert_eq!(yard.survivors(), Vec::<String>::new());
}

#[test]
fn g9_fm05_agents_of_every_workflow_count_towards_the_day() {
    let spend = spends("2.6");
    let yard = Yard::with_script(&format!("{spend}\n{SLEEPS}"));
    set(&yard, "dispatch.day_budget_usd", "2.50");
    let other = other_plan(&yard, "x");
    let first = yard.coordinator("other", &["run", &other]);
    wait_until("the other's agent spends", PATIENCE, || {
        yard.world
            .jit(["worktree", "status", "x", "--json"])
            .stdout
            .contains("\"cost_usd\":2.6")
    });
    let own = yard.plan("", &[("a", &[], "")]);
    let second = yard.coordinator("own", &["run", &own.display().to_string()]);
    wait_until("it waits for tomorrow", PATIENCE, || {
        yard.told("own").contains("tomorrow")
    });
    let starts = yard.starts();
    assert!(starts.contains_key("x/1") && starts.len() == 1, "{starts:?}");
    wait_until("what runs goes on", PATIENCE, || {
        yard.unit("x")["state"] == "RUNNING"
    });
    let _ = yard.world.jit(["worktree", "stop", "x"]);
    end(first);
    end(second);
    assert_eq!(yard.survivors(), Vec::<String>::new());
}

#[test]
fn g9_fm05_above_the_day_what_runs_is_stopped_whoever_spent_it() {
    let spend = spends("3");
    let yard = Yard::with_script(&format!("[ $JIT_UNIT = a ] || {spend}\n{SLEEPS}"));
    set(&yard, "dispatch.day_budget_usd", "2.50");
    let other = other_plan(&yard, "x");
    let own = yard.plan("", &[("a", &[], "")]);
    let first = yard.coordinator("own", &["run", &own.display().to_string()]);
    wait_until("the own agent is at work", PATIENCE, || yard.starts().len() == 1);
    let second = yard.coordinator("other", &["run", &other]);
    wait_until("it is stopped", PATIENCE, || yard.told("own").contains("FAILED"));
    let unit = yard.unit("a");
    assert_eq!(unit["error"]["reason"], "day_budget", "{unit}");
    wait_until("the other too", PATIENCE, || {
        yard.told("other").contains("FAILED")
    });
    end(first);
    end(second);
    assert_eq!(yard.survivors(), Vec::<String>::new());
}

#[test]
fn g7_fm06_missing_artifacts_are_asked_for_once_more() {
    let yard = Yard::new("[ ${JIT_ATTEMPT##*/} = 1 ] || echo report > report-$JIT_UNIT.md");
    let ran = yard
        .run(
            "",
            &[
                ("a", &[], "artifacts: [{path: report-a.md}]"),
                ("b", &[], "artifacts: [{path: never.md}]"),
            ],
        )
        .exits(6);
    assert!(yard.on_main("report-a.md"), "{}", ran.stdout);
    assert_eq!(yard.unit("b")["error"]["reason"], "artifacts_missing");
    let starts = yard.starts();
    assert!(
        starts.contains_key("b/2") && !starts.contains_key("b/3"),
        "{starts:?}"
    );
}

/// Two units that both change `file`, each in its own words, and never settle anything.
fn quarrel(file: &str) -> Yard {
    Yard::with_script(&format!(
        "touch \"$HOME/$JIT_UNIT\"; while ! [ -f \"$HOME/a\" ] || ! [ -f \"$HOME/b\" ]; do sleep 0.02; done\n\
         mkdir -p \"$(dirname {file})\"; echo \"$JIT_UNIT\" > {file}\n\
         git add -A . && git commit -qm \"work of $JIT_UNIT\" >&2"
    ))
}

#[track_caller]
fn waits_for_a_person(yard: &Yard, file: &str) {
    let ran = yard.run("", &[("a", &[], ""), ("b", &[], "")]).exits(6);
    assert!(ran.stdout.contains("waits for a person"), "{}", ran.stdout);
    let main = yard.world.repo();
    let landed = yard.world.git(&main, ["show", &format!("main:{file}")]);
    let other = if landed.trim() == "a" { "b" } else { "a" };
    let unit = yard.unit(other);
    assert_eq!(unit["state"], "FAILED", "{unit}");
    assert_eq!(unit["merge_status"], "conflict", "{unit}");
    let kept = yard.world.git(&main, ["show", &format!("jit/{other}:{file}")]);
    assert_eq!(kept.trim(), other, "its side stays");
}

#[test]
fn h5_fm07_a_conflict_that_nobody_settles_waits_for_a_person_and_both_sides_stay() {
    let yard = quarrel("shared.txt");
    set(&yard, "merge.max_conflict_rounds", "0");
    waits_for_a_person(&yard, "shared.txt");
}

#[test]
fn h4_fm08_a_conflict_in_the_rules_is_a_persons() {
    let yard = quarrel(".context/rules/style.md");
    set(&yard, "merge.max_conflict_rounds", "0");
    set(&yard, "merge.resolve", "[\"docs/** = union\"]");
    waits_for_a_person(&yard, ".context/rules/style.md");
}

#[test]
fn g16_fm11_what_a_failed_unit_leaves_is_shown_and_removed_on_demand() {
    let yard = Yard::with_script("echo precious > precious.txt; exit 1");
    let _ = yard.run("", &[("a", &[], "run: {max_retries: 0}")]).exits(6);
    let tree = yard.world.root().join("repo-worktrees/a");
    assert!(tree.join("precious.txt").exists());
    let shown = yard.world.jit(["worktree", "status"]).ok().stdout;
    assert!(shown.contains("FAILED"), "{shown}");
    let _ = yard
        .world
        .jit(["worktree", "abandon", "a", "--reason", "not needed"])
        .ok();
    assert!(!tree.exists());
    let trees = yard.world.git(&yard.world.repo(), ["worktree", "list"]);
    assert_eq!(trees.lines().count(), 1, "{trees}");
    let kept = yard.world.jit(["rescue", "list", "--json"]).ok().stdout;
    assert!(kept.contains("\"a\""), "its work is kept: {kept}");
}

/// The session that an attempt was called with, and the word it was called with.
fn session(yard: &Yard, attempt: &str) -> (String, String) {
    let text = fs::read_to_string(yard.world.home().join(format!("args-{attempt}"))).expect("its arguments");
    let found = text.lines().find_map(|line| {
        let (word, id) = line.split_once('=')?;
        ["--session-id", "--resume"]
            .contains(&word)
            .then(|| (word.to_owned(), id.to_owned()))
    });
    found.expect("a session")
}

fn as_claude(program: &Path) -> String {
    format!(
        "run: {{agent: claude, command: [{:?}]}}",
        program.display().to_string()
    )
}

#[test]
fn g10_fm12_a_session_that_is_lost_is_not_gone_on_with() {
    let yard = Yard::new("");
    let program = yard.claude(
        "case $n in\n\
         1) say_result true '\"terminal_reason\":\"api_error\",\"api_error_status\":500,\"result\":\"API Error: 500\"'; exit 1;;\n\
         2) say_result true '\"errors\":[\"No conversation found with session ID: '\"$id\"'\"]'; exit 1;;\n\
         *) commit; say_result false '\"terminal_reason\":\"completed\",\"result\":\"done\"';;\nesac",
    );
    let ran = yard.run("", &[("a", &[], &as_claude(&program))]).ok();
    assert!(yard.on_main("a.txt"), "{}", ran.stdout);
    assert!(ran.stdout.contains("session_lost"), "{}", ran.stdout);
    let (first, second, third) = (
        session(&yard, "a-1"),
        session(&yard, "a-2"),
        session(&yard, "a-3"),
    );
    assert_eq!(second, ("--resume".to_owned(), first.1.clone()));
    assert_eq!(third.0, "--session-id");
    assert_ne!(third.1, first.1, "a fresh one");
}

#[test]
fn g10_fm13_a_model_that_is_asked_too_much_is_left_alone_for_a_while() {
    let yard = Yard::new("");
    set(&yard, "dispatch.backoff_secs", "1");
    set(&yard, "dispatch.park_secs", "1");
    let program = yard.claude(
        "if [ $JIT_UNIT = a ] && [ $n = 1 ]; then\n\
           echo '{\"type\":\"system\",\"subtype\":\"api_retry\",\"attempt\":1,\"max_retries\":10,\"retry_delay_ms\":5,\"error_status\":429,\"error\":\"rate_limit\"}'\n\
           say_result true '\"terminal_reason\":\"api_error\",\"api_error_status\":429,\"result\":\"API Error: 429\"'; exit 1\n\
         fi\ndate +%s%N > \"$HOME/began-$JIT_UNIT\"; commit; say_result false '\"terminal_reason\":\"completed\",\"result\":\"done\"'",
    );
    let claude = as_claude(&program);
    let ran = yard.run("max_concurrent: 1", &[("a", &[], &claude), ("b", &[], &claude)]);
    let ran = ran.ok();
    assert!(ran.stdout.contains("rate_limit"), "{}", ran.stdout);
    let quiet = ran.stdout.find("the account claude was refused").expect("told");
    let late = ran.stdout.split_at(quiet).1;
    assert!(late.contains("DISPATCHED"), "nobody began before: {}", ran.stdout);
    let early = ran.stdout.split_at(quiet).0;
    assert_eq!(early.matches("DISPATCHED").count(), 1, "{}", ran.stdout);
    assert!(yard.on_main("a.txt") && yard.on_main("b.txt"));
    let starts = yard.starts();
    assert_eq!(starts.len(), 3, "{starts:?}");
}

#[test]
fn g16_fm14_without_room_no_worktree_is_made_and_nothing_is_left() {
    let yard = Yard::new("");
    set(&yard, "worktree.min_free_mb", "999999999");
    let ran = yard.run("", &[("a", &[], "")]).exits(6);
    assert!(ran.stdout.contains("room"), "{}", ran.stdout);
    assert!(!yard.world.root().join("repo-worktrees/a").exists());
    assert_eq!(yard.starts().len(), 0);
    let branches = yard.world.git(&yard.world.repo(), ["branch", "--list", "jit/*"]);
    assert_eq!(branches.trim(), "");
}

#[test]
fn g8_pm1_each_unit_has_the_time_its_plan_gives_it() {
    let yard = Yard::new("[ $JIT_UNIT = b ] && sleep 2 || sleep 600");
    let units: &[(&str, &[&str], &str)] = &[
        ("a", &[], "run: {timeout: 1s, max_retries: 0}"),
        ("b", &[], "run: {timeout: 10m}"),
    ];
    let ran = yard.run("", units).exits(6);
    assert_eq!(yard.unit("a")["error"]["reason"], "timeout", "{}", ran.stdout);
    assert!(yard.on_main("b.txt"), "{}", ran.stdout);
    let took = yard.unit("b")["duration_ms"].as_u64().expect("how long it took");
    assert!(took >= 2000, "{took}");
}

#[test]
fn g9_pm2_what_is_spent_is_seen_and_told_before_it_is_all() {
    let yard = Yard::new("");
    let ran = yard
        .run("budget_usd: 0.6", &[("a", &[], ""), ("b", &["a"], "")])
        .ok();
    assert!(
        ran.stderr.contains("83 % of the budget of this workflow is used"),
        "{}",
        ran.stderr
    );
    let text = yard.orchestration();
    assert_eq!(text.matches("cost_usd: 0.25").count(), 2, "{text}");
    assert!(text.contains("cost_usd: 0.5"), "{text}");
    assert_eq!(yard.status()["cost_usd"], 0.5);
}

#[test]
fn g10_pm5_the_next_coordinator_goes_on_with_the_session_of_the_one_before() {
    let yard = Yard::new("");
    let program = yard.claude(
        "if [ $n = 1 ]; then while ! [ -f \"$HOME/go\" ]; do sleep 0.05; done\n\
           say_result true '\"terminal_reason\":\"api_error\",\"api_error_status\":500,\"result\":\"API Error: 500\"'; exit 1; fi\n\
         commit; say_result false '\"terminal_reason\":\"completed\",\"result\":\"done\"'",
    );
    let plan = yard.plan("", &[("a", &[], &as_claude(&program))]);
    let first = yard.coordinator("first", &["run", &plan.display().to_string()]);
    wait_until("it is at work", PATIENCE, || {
        yard.told("first").contains("RUNNING")
    });
    end(first);
    let (word, id) = session(&yard, "a-1");
    assert_eq!(word, "--session-id");
    assert!(yard.orchestration().contains(&id), "written down at dispatch");
    fs::write(yard.world.home().join("go"), "").expect("a sign");
    let _ = yard.world.jit(["workflow", "resume", "flow"]).ok();
    assert_eq!(session(&yard, "a-2"), ("--resume".to_owned(), id));
    assert!(yard.on_main("a.txt"));
}

#[test]
fn g13_pm6_no_more_agents_run_than_the_plan_says() {
    let yard = Yard::new(
        "mkdir -p \"$HOME/at-work/$JIT_UNIT\"; ls \"$HOME/at-work\" | wc -l >> \"$HOME/counted\"; sleep 0.2; \
         rmdir \"$HOME/at-work/$JIT_UNIT\"",
    );
    let names = ["a", "b", "c", "d", "e", "f"];
    let units: Vec<(&str, &[&str], &str)> = names.iter().map(|name| (*name, &[][..], "")).collect();
    let _ = yard.run("max_concurrent: 2", &units).ok();
    let counted = fs::read_to_string(yard.world.home().join("counted")).expect("counted");
    let most = counted
        .lines()
        .filter_map(|line| line.trim().parse::<u32>().ok())
        .max();
    assert!(most.is_some_and(|most| (1..=2).contains(&most)), "{counted}");
    assert_eq!(yard.starts().len(), 6);
}
