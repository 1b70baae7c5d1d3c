//! What a workflow shows of its units while they run, and the folders of their artifacts (G5, G11, G14).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::running::{JIT, Yard, file, touch, until};

const WAITS: &str = "while [ ! -f \"$HOME/go\" ]; do sleep 0.05; done";

#[test]
fn g11_a_session_that_its_agent_chose_is_shown_while_it_runs() {
    let yard = Yard::new(WAITS);
    let plan = yard.plan("", &[("a", &[], "")]);
    let mut coordinator = yard.coordinator("first", &["run", &plan.display().to_string()]);
    let path = yard.world.control().join("workflows/flow/ORCHESTRATION.yaml");
    until("its session", || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        text.contains("state: RUNNING") && text.contains("session_id: a-session")
    });
    let text = yard.orchestration();
    assert!(text.contains("project_id: repo"), "{text}");
    touch(&yard, "go");
    let _ = coordinator.wait();
    assert!(yard.orchestration().contains("session_id: a-session"));
}

#[test]
fn g14_each_unit_has_a_folder_for_its_artifacts() {
    let yard = Yard::new("mkdir -p \"$JIT_ARTIFACT_DIR\" && echo found > \"$JIT_ARTIFACT_DIR/findings.md\"");
    let scope = "writes: [\"*.txt\"]";
    let ran = yard.run(
        "project_id: PROJ-006",
        &[("a", &[], scope), ("b", &[], ""), ("c", &["a"], "phase: 2")],
    );
    let _ = ran.ok();
    let folder = |unit: &str, phase| {
        format!("projects/PROJ-006/orchestration/flow/{unit}/phase-{phase}/command-{unit}/findings.md")
    };
    let main = yard.world.repo();
    let landed = yard
        .world
        .git(&main, ["ls-tree", "-r", "--name-only", "main", "projects"]);
    let expected = [folder("a", 0), folder("b", 0), folder("c", 2)];
    assert_eq!(landed.lines().collect::<Vec<_>>(), expected);
    let text = yard.orchestration();
    assert!(text.contains("project_id: PROJ-006"), "{text}");
    assert!(
        text.contains(&expected[0]) && text.contains("type: artifact"),
        "{text}"
    );
    let told = fs::read_to_string(file(&yard, "told")).expect("a prompt");
    assert!(told.contains("projects/PROJ-006/orchestration/flow/"), "{told}");
    // A name that would lead elsewhere is refused.
    let refused = yard.run("project_id: ../up", &[("a", &[], "")]).exits(2);
    assert!(refused.stderr.contains("project_id"), "{}", refused.stderr);
}

/// A program that takes `claude`'s options of one-shot mode only.
fn old_claude(yard: &Yard) -> String {
    let script = r#"#!/bin/sh
echo "$@" >> "$HOME/calls"
case "$*" in
  *--permission-prompt-tool*) echo "error: unknown option '--permission-prompt-tool=stdio'" >&2; exit 1;;
esac
cat > /dev/null
id=$(for word in "$@"; do echo "$word"; done | sed -n 's/^--session-id=//p')
echo "$JIT_UNIT" > "$JIT_UNIT.txt"; git add -A . && git commit -qm "work" >&2
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"'"$id"'","num_turns":1,"total_cost_usd":0.25,"result":"done"}'
"#;
    let path = yard.world.home().join("claude");
    fs::write(&path, script).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    path.display().to_string()
}

#[test]
fn g5_one_shot_can_be_chosen_and_is_the_fallback() {
    let yard = Yard::new("");
    let program = old_claude(&yard);
    let calls = || fs::read_to_string(file(&yard, "calls")).unwrap_or_default();
    let dispatch = |unit: &str, more: &[&str]| {
        let _ = yard.world.jit(["worktree", "create", unit]).ok();
        let mut args = vec![
            "worktree", "dispatch", unit, "--prompt", "x", "--agent", "claude", "--wait",
        ];
        args.extend(more);
        args.extend(["--command", program.as_str()]);
        yard.world.jit(args)
    };
    // Chosen.
    let _ = dispatch("chosen", &["--one-shot"]).ok();
    assert!(calls().starts_with("-p --output-format=json"), "{}", calls());
    assert_eq!(yard.unit("chosen")["state"], "COMPLETED");
    // Not chosen, by hand: it fails, says why, and the next attempt is one-shot.
    let _ = dispatch("by-hand", &[]).exits(6);
    let error = yard.unit("by-hand")["error"].clone();
    assert_eq!(error["reason"], "no_conversation", "{error}");
    assert!(error["message"].to_string().contains("unknown option"), "{error}");
    let _ = yard.world.jit(["worktree", "dispatch", "by-hand", "--wait"]).ok();
    assert_eq!(yard.unit("by-hand")["state"], "COMPLETED", "{}", calls());
    // In a workflow by itself, even where nothing else is tried again.
    let run = format!("run: {{ agent: claude, command: [{program:?}], max_retries: 0 }}");
    let plan = format!("workflow_id: flow\nstagger: 0s\n{run}\nunits:\n  - id: alone\n    prompt: x\n");
    let path = yard.world.home().join("plan.yaml");
    fs::write(&path, plan).expect("a plan");
    let _ = yard.world.jit(["run".as_ref(), path.as_os_str()]).ok();
    assert!(yard.on_main("alone.txt"), "{}", calls());
    // Other agents have no such mode.
    let _ = yard.world.jit(["worktree", "create", "other"]).ok();
    let refused = yard
        .world
        .jit([
            "worktree",
            "dispatch",
            "other",
            "--prompt",
            "x",
            "--one-shot",
            "--agent",
            "command",
            "--command",
            JIT,
        ])
        .exits(2);
    assert!(refused.stderr.contains("no one-shot mode"), "{}", refused.stderr);
}
