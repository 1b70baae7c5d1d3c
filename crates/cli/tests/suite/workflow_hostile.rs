//! Agents that want more than their unit, and people who press Ctrl-C, mend by hand and look at what is left (G4, G7, G12).

use std::fs;
use std::process::Stdio;

use crate::running::{JIT, Yard, file, touch, until};

const WAITS: &str = "while [ ! -f \"$HOME/go\" ]; do sleep 0.02; done";

#[test]
fn g4_an_agent_decides_nothing_for_others_whatever_it_says_it_is() {
    let script = r#"
case $JIT_UNIT in
a) WAITS;;
b)
  bare() {
    name=$1; shift
    env -i HOME="$HOME" PATH="$PATH" "JIT" "$@" > "$HOME/out-$name" 2>&1
    echo "exit $?" >> "$HOME/out-$name"
  }
  bare stop worktree stop a
  bare abandon --agent-id human:me worktree abandon a --reason x
  bare handoff --agent-id human:me handoff a --to command --command true
  bare retry worktree retry a
  bare dispatch --agent-id human:me worktree dispatch a
  bare cancel workflow cancel
  bare unpark --agent-id human:me worktree unpark claude
  bare config --agent-id human:me config set --user dispatch.grace_secs 7
  # One that belongs to nobody any more.
  ( ( while [ ! -f "$HOME/left" ]; do sleep 0.02; done; bare orphan worktree stop a; : > "$HOME/orphan" ) & )
  : > "$HOME/left"
  while [ ! -f "$HOME/orphan" ]; do sleep 0.02; done;;
esac
"#;
    let yard = Yard::new(
        &script
            .replace("WAITS", WAITS)
            .replace("JIT\" ", &format!("{JIT}\" ")),
    );
    let agent = yard.agent().display().to_string();
    for unit in ["a", "b"] {
        let _ = yard.world.jit(["worktree", "create", unit]).ok();
        let words = [
            "worktree",
            "dispatch",
            unit,
            "--prompt",
            "do it",
            "--agent",
            "command",
            "--command",
            &agent,
        ];
        let _ = yard.world.jit(words).ok();
    }
    until("the end of b", || yard.unit("b")["state"] == "COMPLETED");
    let others = "decides only about its own units";
    for (name, why) in [
        ("stop", others),
        ("abandon", others),
        ("handoff", others),
        ("retry", others),
        ("dispatch", others),
        ("orphan", others),
        ("cancel", "not for you to say"),
        ("unpark", "up to a person"),
        ("config", "not for agents to change"),
    ] {
        let told = fs::read_to_string(file(&yard, &format!("out-{name}"))).expect(name);
        assert!(told.contains(why) && told.contains("exit 5"), "{name}: {told}");
    }
    let unit = yard.unit("a");
    assert_eq!(
        (&unit["state"], unit["attempt"].as_u64()),
        (&"RUNNING".into(), Some(1)),
        "{unit}"
    );
    // A person may.
    let _ = yard.world.jit(["worktree", "stop", "a"]).ok();
    assert_eq!(yard.unit("a")["error"]["reason"], "stopped");
}

#[test]
fn g12_after_ctrl_c_nothing_begins_and_nobody_leads() {
    let yard = Yard::new(WAITS);
    let plan = yard.plan("max_concurrent: 1", &[("a", &[], ""), ("b", &[], "")]);
    let plan = plan.display().to_string();
    let said = fs::File::create(file(&yard, "said")).expect("a file");
    let mut command = yard.world.jit_command(&yard.world.repo());
    command.args(["run", &plan]).stdout(Stdio::null()).stderr(said);
    let mut coordinator = command.spawn().expect("a coordinator");
    until("an agent", || !yard.starts().is_empty());
    let pid = i32::try_from(coordinator.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("a pid"), rustix::process::Signal::INT).expect("Ctrl-C");
    until("its answer", || {
        fs::read_to_string(file(&yard, "said")).is_ok_and(|said| said.contains("The agents go on"))
    });
    touch(&yard, "go");
    let exit = yard.world.control().join("units/a/attempt-1/exit.json");
    until("the end of a", || exit.exists());
    let code = coordinator.wait().expect("its end").code();
    assert_eq!(code, Some(130));
    assert!(!yard.on_main("a.txt"), "nothing lands");
    assert_eq!(yard.starts().len(), 1, "nobody is started");
    let _ = yard.world.jit(["workflow", "resume", "flow"]).ok();
    assert!(yard.on_main("a.txt") && yard.on_main("b.txt"));
}

#[test]
fn g12_what_cannot_be_removed_holds_nobody_up_and_is_told() {
    let yard = Yard::new("git worktree lock --reason mine . >&2");
    // It would wait for this long.
    let _ = yard
        .world
        .jit(["config", "set", "--user", "dispatch.backoff_secs", "3600"])
        .ok();
    let ran = yard.run("", &[("a", &[], "")]).ok();
    assert!(
        ran.stdout.contains("jit worktree cleanup a --force"),
        "{}",
        ran.stdout
    );
    assert_eq!(yard.status()["status"], "completed");
    assert_eq!(yard.unit("a")["merge_status"], "merged");
}

#[test]
fn g12_what_people_have_to_do_is_told_for_each_unit() {
    let yard = Yard::new("exit 3");
    let more = "run: {max_retries: 0}";
    let ran = yard.run("", &[("a", &[], more), ("b", &[], more)]).exits(6);
    for unit in ["a", "b"] {
        let path = format!("repo-worktrees/{unit}, then: jit worktree retry {unit}");
        let give_up = format!("jit worktree abandon {unit} --reason");
        for part in [path, give_up] {
            assert!(ran.stdout.contains(&part), "{part}\n{}", ran.stdout);
        }
    }
    assert!(ran.stdout.contains("jit workflow resume flow"), "{}", ran.stdout);
}

#[test]
fn g7_an_agent_that_has_just_ended_is_seen_by_retry_and_abandon() {
    let yard = Yard::new("exit 3");
    let agent = yard.agent().display().to_string();
    for unit in ["a", "b"] {
        let _ = yard.world.jit(["worktree", "create", unit]).ok();
        let words = [
            "worktree",
            "dispatch",
            unit,
            "--prompt",
            "x",
            "--agent",
            "command",
            "--command",
            &agent,
        ];
        let _ = yard.world.jit(words).ok();
        let exit = yard
            .world
            .control()
            .join(format!("units/{unit}/attempt-1/exit.json"));
        until("its end", || exit.exists());
    }
    let _ = yard.world.jit(["worktree", "retry", "a"]).ok();
    assert_eq!(yard.unit("a")["state"], "READY");
    let refused = yard.world.jit(["worktree", "retry", "a"]).exits(2);
    assert!(
        refused.stderr.contains("only what has failed is tried again"),
        "{}",
        refused.stderr
    );
    let _ = yard
        .world
        .jit(["worktree", "abandon", "b", "--reason", "no"])
        .ok();
}

#[test]
fn g7_the_table_tells_what_agents_have_used_and_have_left() {
    let usage =
        "echo '{\"kind\":\"usage\",\"tokens\":{\"input\":100,\"output\":50},\"cost_usd\":0.25,\"turns\":2}'";
    let yard = Yard::new(&format!("{usage}\n{WAITS}"));
    let agent = yard.agent().display().to_string();
    let _ = yard.world.jit(["worktree", "create", "a"]).ok();
    let words = [
        "worktree",
        "dispatch",
        "a",
        "--prompt",
        "x",
        "--budget",
        "1",
        "--timeout",
        "30m",
        "--agent",
        "command",
        "--command",
        &agent,
    ];
    let _ = yard.world.jit(words).ok();
    until("its usage", || yard.unit("a")["progress"]["turns"] == 2);
    let table = yard.world.jit(["worktree", "status"]).ok().stdout;
    let row = table.lines().find(|line| line.starts_with('a')).expect("a row");
    for part in [" 2 ", " 150 ", "$0.25", "m, $0.75"] {
        assert!(row.contains(part), "{part}\n{table}");
    }
    touch(&yard, "go");
    // Once the folder is gone it would wait for that sign for ever.
    let exit = yard.world.control().join("units/a/attempt-1/exit.json");
    until("its end", || exit.exists());
    until("the end of all it started", || yard.survivors().is_empty());
}

#[test]
fn g7_what_landed_is_shown_when_its_branch_is_gone() {
    let yard = Yard::new("echo one > one.txt; git add one.txt; git commit -qm one >&2");
    let _ = yard.run("", &[("a", &[], "")]).ok();
    let shown = yard.world.jit(["worktree", "diff", "a"]).ok().stdout;
    assert!(shown.contains("one.txt") && shown.contains("a.txt"), "{shown}");
}
