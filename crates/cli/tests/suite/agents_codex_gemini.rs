//! The real Codex and Gemini CLI, started, watched, held back, resumed and landed by jit (G4, G7, G9, G10, F9): offline, with
//! a model that says what a script says.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use jit_testkit::agent_cli::{Agent, Bench, bubblewrap};
use jit_testkit::scripted_model::{ModelApi, ModelTurn};
use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

struct Yard {
    bench: Bench,
    world: World,
    agent: &'static str,
}

impl Yard {
    fn of(agent: Agent, name: &'static str) -> Option<Self> {
        Some(Self::with(Bench::of(agent)?, name))
    }

    fn with(bench: Bench, name: &'static str) -> Self {
        let world = World::with_jit(env!("CARGO_BIN_EXE_jit"));
        let _ = world.jit(["worktree", "create", "u"]).ok();
        Self {
            bench,
            world,
            agent: name,
        }
    }

    fn tree(&self) -> PathBuf {
        self.world.root().join("repo-worktrees/u")
    }

    fn command(&self, more: &[&str]) -> Command {
        let wrapper = self.bench.wrapper(&self.world).display().to_string();
        let mut command = self.world.jit_command(&self.world.repo());
        command
            .args(["worktree", "dispatch", "u", "--wait", "--agent", self.agent])
            .arg("--prompt=--do the work 4711 @nothing")
            .args(more)
            .args(["--command", &wrapper]);
        command
    }

    /// Starts the agent and waits for its end.
    fn dispatch(&self, model: &ModelApi, more: &[&str]) -> Ran {
        self.bench.run_beside(&self.world, self.command(more), model)
    }

    fn unit(&self) -> Value {
        self.world.jit(["worktree", "status", "u", "--json"]).ok().json()
    }

    fn logs(&self) -> String {
        self.world.jit(["worktree", "logs", "u"]).ok().stdout
    }

    fn bob_locks(&self, path: &str) {
        let _ = self
            .world
            .jit_as_in("agent:bob", &self.tree(), ["lock", "acquire", path])
            .ok();
    }

    fn land(&self, file: &str) -> String {
        let _ = self.world.jit(["finish", "u"]).ok();
        let shown = format!("main:{file}");
        self.world.git(&self.world.repo(), ["show", shown.as_str()])
    }

    fn set(&self, key: &str, value: &str) {
        let _ = self.world.jit(["config", "set", key, value]).ok();
    }
}

fn shell(command: &str) -> ModelTurn {
    ModelTurn::tool("exec_command", json!({ "cmd": command }))
}

fn gemini_shell(command: &str) -> ModelTurn {
    let input = json!({ "command": command, "description": "a step" });
    ModelTurn::tool("run_shell_command", input)
}

fn gemini_write(path: &str) -> ModelTurn {
    ModelTurn::tool("write_file", json!({ "file_path": path, "content": "hello\n" }))
}

/// Codex makes its sandbox with the bubblewrap of the system if there is one, else with its own.
#[test]
fn g4_codex_does_a_task_in_its_sandbox_and_it_lands() {
    let Some(bench) = Bench::of(Agent::Codex) else {
        return;
    };
    codex_does_a_task(&Yard::with(bench.without_bubblewrap(), "codex"));
}

#[test]
fn g4_codex_does_the_same_with_the_bubblewrap_of_the_system() {
    let (Some(bench), Some(_)) = (Bench::of(Agent::Codex), bubblewrap()) else {
        return;
    };
    codex_does_a_task(&Yard::with(bench, "codex"));
}

fn codex_does_a_task(yard: &Yard) {
    yard.set("dispatch.prices", r#"["codex = 1 / 0.1 / 10"]"#);
    let model = yard.bench.model(vec![
        shell("echo hello > hello.txt"),
        shell("git add hello.txt && git commit -q -m 'by the agent'"),
        // It may write here, in git's folders, and in folders for temporary files; nowhere else.
        shell("test -w /etc && echo open || echo shut"),
        ModelTurn::text("\u{1b}[31mfinished\u{1b}]0;x\u{7}"),
    ]);
    let ran = yard.dispatch(&model, &[]);
    let unit = yard.unit();
    assert_eq!(
        unit["state"], "COMPLETED",
        "{unit}\n{}\n{}",
        ran.stdout, ran.stderr
    );
    assert!(model.read().contains("--do the work 4711 @nothing"));
    // Four answers of 100 and 20 tokens.
    assert_eq!(unit["tokens"], json!({ "input": 400, "output": 80 }), "{unit}");
    assert_eq!(unit["cost_usd"], 0.0012, "{unit}");
    assert_eq!(unit["turns"], 4, "{unit}");
    assert!(unit["session_id"].is_string(), "{unit}");
    assert!(model.told()[2].contains("shut"), "{:?}", model.told());
    let logs = yard.logs();
    assert!(logs.contains("finished") && !logs.contains('\u{1b}'), "{logs:?}");
    assert_eq!(yard.world.git(&yard.tree(), ["status", "--short"]), "");
    assert_eq!(yard.land("hello.txt").trim(), "hello");
}

#[test]
fn g10_codex_is_gone_on_with_after_a_stop() {
    let Some(yard) = Yard::of(Agent::Codex, "codex") else {
        return;
    };
    let jit = yard.world.program().display().to_string();
    let commit = "git add a.txt && git commit -q -m 'by the agent'";
    let model = yard.bench.model(vec![
        shell("echo a > a.txt"),
        shell(&format!(
            "{jit} worktree stop u --reason 'the test' --json; sleep 60"
        )),
        shell(commit),
        // What was cut off may count as a turn of the model.
        shell(commit),
        ModelTurn::text("finished"),
    ]);
    let first = yard.dispatch(&model, &[]).exits(6);
    assert!(
        first.stderr.contains("dispatch.prices has nothing for codex"),
        "a budget that cannot be checked is said: {}",
        first.stderr
    );
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "stopped", "{unit} {}", first.stdout);
    let session = unit["session_id"].clone();
    assert!(session.is_string(), "{unit}");
    let second = yard.dispatch(&model, &["--resume"]);
    let unit = yard.unit();
    assert_eq!(
        unit["state"], "COMPLETED",
        "{unit} {} {}",
        second.stdout, second.stderr
    );
    assert_eq!(
        (&unit["session_id"], &unit["attempt"]),
        (&session, &json!(2)),
        "{unit}"
    );
    assert_eq!(
        unit["cost_usd"],
        Value::Null,
        "without a price nothing is known: {unit}"
    );
    let used = unit["tokens"]["input"].as_u64().expect("tokens");
    assert!(used >= 300, "what the first one used is not lost: {unit}");
}

#[test]
fn f9_codex_is_held_back_by_a_lock_and_no_other_hook_is_approved() {
    let Some(yard) = Yard::of(Agent::Codex, "codex") else {
        return;
    };
    yard.bob_locks("locked.txt");
    // A hook that came with the repository.
    let stray = yard.world.home().join("stray.txt");
    let handler = json!({ "type": "command", "command": format!("touch {}", stray.display()) });
    let hooks = json!({ "hooks": { "PreToolUse": [{ "hooks": [handler] }] } });
    fs::create_dir_all(yard.tree().join(".codex")).expect("a folder");
    fs::write(yard.tree().join(".codex/hooks.json"), hooks.to_string()).expect("a file");
    let model = yard.bench.model(vec![
        shell("echo mine > locked.txt"),
        shell("echo fine > free.txt && git add -A && git commit -q -m 'by the agent'"),
        shell(&format!("{} lock list --json", yard.world.program().display())),
        ModelTurn::text("finished"),
    ]);
    let ran = yard.dispatch(&model, &[]);
    let told = model.told();
    assert!(told[0].contains("locked by agent:bob"), "{told:?}");
    assert!(!yard.tree().join("locked.txt").exists());
    assert!(!stray.exists(), "{}", ran.stderr);
    let unit = yard.unit();
    assert_eq!(unit["state"], "COMPLETED", "{unit}\n{}", ran.stderr);
    // It held what it wrote, as long as it was at work.
    assert!(
        told[2].contains("free.txt") && told[2].contains("agent:codex-u"),
        "{told:?}"
    );
    let locks = yard.world.jit(["lock", "list", "--json"]).ok().stdout;
    assert!(!locks.contains("free.txt"), "{locks}");
}

#[test]
fn g8_codex_without_its_credentials_is_not_tried_again_the_same_way() {
    let Some(yard) = Yard::of(Agent::Codex, "codex") else {
        return;
    };
    let model = yard.bench.refusing_model(401);
    let ran = yard.dispatch(&model, &[]).exits(6);
    let unit = yard.unit();
    assert_eq!(
        unit["error"]["reason"], "authentication",
        "{unit}\n{}",
        ran.stderr
    );
    let message = unit["error"]["message"].as_str().expect("a message");
    assert!(message.contains("401"), "{message}");
}

#[test]
fn g4_gemini_does_a_task_held_back_by_its_hook_and_it_lands() {
    let Some(yard) = Yard::of(Agent::Gemini, "gemini") else {
        return;
    };
    // Its login is in the same file.
    let folder = yard.world.home().join(".gemini");
    fs::create_dir_all(&folder).expect("a folder");
    let auth = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
    fs::write(folder.join("settings.json"), auth.to_string()).expect("settings");
    let hook = yard
        .world
        .jit(["hooks", "install", "--agent", "gemini", "--user", "--yes"]);
    let _ = hook.ok();
    yard.bob_locks("locked.txt");
    yard.set("dispatch.prices", r#"["script = 1 / 0.1 / 10"]"#);
    let model = yard.bench.model(vec![
        gemini_write("locked.txt"),
        gemini_write("hello.txt"),
        // No rule allows Gemini to run this.
        gemini_shell("touch stray.txt"),
        gemini_shell("git add -A && git commit -q -m 'by the agent'"),
        ModelTurn::text("finished"),
    ]);
    let ran = yard.dispatch(&model, &["--model", "gemini-2.5-flash"]);
    let unit = yard.unit();
    assert_eq!(
        unit["state"], "COMPLETED",
        "{unit}\n{}\n{}",
        ran.stdout, ran.stderr
    );
    assert!(
        model.told()[0].contains("locked by agent:bob"),
        "{:?}",
        model.told()
    );
    assert!(!ran.stderr.contains("file locks do not hold"), "{}", ran.stderr);
    assert!(!yard.tree().join("locked.txt").exists());
    assert!(!yard.tree().join("stray.txt").exists(), "{:?}", model.told());
    assert!(model.read().contains("--do the work 4711 \\\\@nothing"));
    assert_eq!(unit["tokens"], json!({ "input": 500, "output": 100 }), "{unit}");
    assert_eq!(unit["cost_usd"], 0.0015, "{unit}");
    assert_eq!(unit["turns"], 5, "{unit}");
    let logs = yard.logs();
    assert!(logs.contains("refused") && logs.contains("agent:bob"), "{logs}");
    assert_eq!(yard.land("hello.txt").trim(), "hello");
}

#[test]
fn g10_gemini_is_gone_on_with_after_a_stop_and_what_it_wrote_past_a_lock_is_named() {
    let Some(yard) = Yard::of(Agent::Gemini, "gemini") else {
        return;
    };
    let model = yard.bench.model(vec![
        gemini_write("a.txt"),
        gemini_shell("jit worktree stop u --reason 'the test' --json; sleep 60"),
        gemini_shell("git add -A && git commit -q -m 'by the agent'"),
        ModelTurn::text("finished"),
        ModelTurn::text("finished"),
    ]);
    let options = ["--model", "gemini-2.5-flash", "--permission-mode", "yolo"];
    let first = yard.dispatch(&model, &options).exits(6);
    assert!(
        first.stderr.contains("file locks do not hold gemini back"),
        "{}",
        first.stderr
    );
    assert!(
        first.stderr.contains("dispatch.prices has nothing"),
        "{}",
        first.stderr
    );
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "stopped", "{unit} {}", first.stdout);
    let session = unit["session_id"].clone();
    let fork = yard.dispatch(&model, &["--fork"]);
    assert!(fork.stderr.contains("cannot fork"), "{}", fork.stderr);
    yard.bob_locks("a.txt");
    let second = yard
        .dispatch(&model, &["--model", "gemini-2.5-flash", "--resume"])
        .exits(6);
    let unit = yard.unit();
    assert_eq!(
        (&unit["session_id"], &unit["attempt"]),
        (&session, &json!(2)),
        "{unit}"
    );
    // It has no hook here: it was not held back, and did not get away with it.
    assert_eq!(
        unit["error"]["reason"], "locked_files",
        "{unit} {}",
        second.stderr
    );
    let message = unit["error"]["message"].as_str().expect("a message");
    assert!(message.contains("a.txt (agent:bob)"), "{message}");
}

#[test]
fn g8_gemini_that_is_not_set_up_says_so() {
    let Some(yard) = Yard::of(Agent::Gemini, "gemini") else {
        return;
    };
    let ran = yard.bench.run_apart(&yard.world, yard.command(&[])).exits(6);
    let unit = yard.unit();
    assert_eq!(unit["error"]["reason"], "authentication", "{unit} {}", ran.stderr);
    let message = unit["error"]["message"].as_str().expect("a message");
    assert!(
        message.contains("gemini is not set up to reach its model"),
        "{message}"
    );
}
