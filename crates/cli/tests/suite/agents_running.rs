//! The real Claude Code, started, watched and landed by jit (G5, G7, G9, G10): offline, with a model that says what a
//! script says.

use std::path::{Path, PathBuf};
use std::process::Command;

use jit_testkit::agent_cli::{Agent, Bench};
use jit_testkit::scripted_model::{ModelApi, ModelTurn};
use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

struct Yard {
    bench: Bench,
    world: World,
}

impl Yard {
    fn new() -> Option<Self> {
        let bench = Bench::of(Agent::Claude)?;
        let world = World::with_jit(env!("CARGO_BIN_EXE_jit"));
        let _ = world.jit(["worktree", "create", "u"]).ok();
        Some(Self { bench, world })
    }

    fn tree(&self) -> PathBuf {
        self.world.root().join("repo-worktrees/u")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.jit_command(&self.world.repo());
        command.args(args);
        command
    }

    /// Starts the agent and waits for its end.
    fn dispatch(&self, model: &ModelApi, more: &[&str]) -> Ran {
        let wrapper = self.bench.wrapper(&self.world).display().to_string();
        let mut args = vec![
            "worktree",
            "dispatch",
            "u",
            "--wait",
            "--prompt",
            "do the work 4711",
        ];
        args.extend(more);
        args.extend(["--agent", "claude", "--command", &wrapper]);
        self.bench.run_beside(&self.world, self.command(&args), model)
    }

    fn unit(&self) -> Value {
        self.world.jit(["worktree", "status", "u", "--json"]).ok().json()
    }
}

fn write(path: &Path, content: &str) -> ModelTurn {
    ModelTurn::tool("Write", json!({ "file_path": path, "content": content }))
}

fn commit(file: &str) -> ModelTurn {
    ModelTurn::bash(&format!("git add {file} && git commit -q -m 'by the agent'"))
}

#[test]
fn g5_claude_does_a_task_and_it_lands() {
    let Some(yard) = Yard::new() else { return };
    let model = yard.bench.model(vec![
        write(&yard.tree().join("hello.txt"), "hello\n"),
        commit("hello.txt"),
        ModelTurn::text("finished"),
    ]);
    let ran = yard.dispatch(&model, &[]);
    let unit = yard.unit();
    assert_eq!(
        unit["state"], "COMPLETED",
        "{unit}\n{}\n{}",
        ran.stdout, ran.stderr
    );
    assert!(unit["cost_usd"].as_f64().expect("a cost") > 0.0, "{unit}");
    assert!(unit["turns"].as_u64().expect("turns") >= 3, "{unit}");
    assert!(model.read().contains("do the work 4711"));
    let _ = yard.world.jit(["finish", "u"]).ok();
    let shown = yard.world.git(&yard.world.repo(), ["show", "main:hello.txt"]);
    assert_eq!(shown.trim(), "hello");
    let by = yard.world.git(
        &yard.world.repo(),
        ["log", "-1", "--format=%B", "main", "--", "hello.txt"],
    );
    assert!(by.contains("by the agent"), "{by}");
}

#[test]
fn g10_claude_is_gone_on_with_after_a_kill() {
    let Some(yard) = Yard::new() else { return };
    // The first time it is ended while a tool runs; the second time it goes on in the same conversation.
    let model = yard.bench.model(vec![
        write(&yard.tree().join("a.txt"), "a\n"),
        ModelTurn::bash("jit worktree stop u --reason 'the test' --json"),
        // What was cut off may count as a turn of the model.
        commit("a.txt"),
        commit("a.txt"),
        ModelTurn::text("finished"),
    ]);
    let first = yard
        .dispatch(&model, &["--allow", "Bash(jit worktree stop *)"])
        .exits(6);
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "stopped", "{unit} {}", first.stdout);
    let session = unit["session_id"].clone();
    assert!(session.is_string(), "{unit}");
    let second = yard.dispatch(&model, &["--resume"]).ok();
    let unit = yard.unit();
    assert_eq!(unit["state"], "COMPLETED", "{unit} {}", second.stdout);
    assert_eq!(unit["session_id"], session, "it is the same session");
    assert_eq!(unit["attempt"], 2, "{unit}");
}

#[test]
fn g9_claude_is_stopped_by_its_budget() {
    let Some(yard) = Yard::new() else { return };
    let steps = (0..40)
        .map(|n| ModelTurn::bash(&format!("git status --short {n}")))
        .collect();
    let model = yard.bench.model(steps);
    let ran = yard.dispatch(&model, &["--budget", "0.002"]).exits(6);
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "budget", "{unit} {}", ran.stdout);
    assert!(unit["turns"].as_u64().expect("turns") < 40, "{unit}");
}

#[test]
fn g5_claude_is_denied_a_locked_file_and_that_it_ended_well_is_not_believed() {
    let Some(yard) = Yard::new() else { return };
    let _ = yard
        .world
        .jit_as_in("agent:bob", &yard.tree(), ["lock", "acquire", "locked.txt"])
        .ok();
    let model = yard.bench.model(vec![
        write(&yard.tree().join("locked.txt"), "mine\n"),
        ModelTurn::text("I could not write it"),
    ]);
    let ran = yard.dispatch(&model, &[]).exits(6);
    assert!(
        model.told()[0].contains("locked by agent:bob"),
        "{:?}",
        model.told()
    );
    assert!(!yard.tree().join("locked.txt").exists());
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "no_commits", "{unit} {}", ran.stdout);
}
