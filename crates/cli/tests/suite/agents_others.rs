//! The real Codex and Gemini CLI under our hooks, as far as theirs allow (F9).

use std::fs;

use jit_testkit::agent_cli::{Agent, Bench};
use jit_testkit::scripted_model::ModelTurn;
use jit_testkit::world::World;
use serde_json::json;

fn hooked(agent: &str) -> World {
    let world = World::with_jit(env!("CARGO_BIN_EXE_jit"));
    if agent == "gemini" {
        // Its login is in the same file.
        let folder = world.home().join(".gemini");
        fs::create_dir_all(&folder).expect("a folder");
        let auth = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
        fs::write(folder.join("settings.json"), auth.to_string()).expect("settings");
    }
    let done = world.jit(["hooks", "install", "--agent", agent, "--user", "--yes"]);
    let _ = done.ok();
    world
}

#[test]
fn f9_codex_is_stopped_and_the_model_is_told_why() {
    let Some(bench) = Bench::of(Agent::Codex) else {
        return;
    };
    let world = hooked("codex");
    let tree = world.worktree("agent");
    let _ = world
        .jit_as_in("agent:bob", &tree, ["lock", "acquire", "locked.txt"])
        .ok();
    let run = |command: &str| ModelTurn::tool("exec_command", json!({ "cmd": command }));
    let model = bench.model(vec![
        run("echo mine > locked.txt"),
        run(&format!("echo x > {}/stray.txt", world.repo().display())),
        run("git stash"),
        // Its shells are login shells, with a PATH of their own.
        run(&format!(
            "echo fine > free.txt; {} whoami",
            world.program().display()
        )),
        ModelTurn::text("finished"),
    ]);
    let done = bench.run(&world, &tree, &model, "do it");
    assert_eq!(done.ran.code, 0, "{:?}", done.ran);
    let told = model.told();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].contains("locked by agent:bob"), "{}", told[0]);
    assert!(told[1].contains("the main checkout"), "{}", told[1]);
    assert!(told[2].contains("all worktrees share"), "{}", told[2]);
    assert!(told[3].contains("agent:codex-"), "{}", told[3]);
    assert!(!tree.join("locked.txt").exists() && !world.repo().join("stray.txt").exists());
    assert_eq!(
        fs::read_to_string(tree.join("free.txt")).expect("a file"),
        "fine\n"
    );
    assert!(model.read().contains("you are agent:codex-"));
}

#[test]
fn f9_gemini_is_stopped_and_the_model_is_told_why() {
    let Some(bench) = Bench::of(Agent::Gemini) else {
        return;
    };
    let world = hooked("gemini");
    let tree = world.worktree("agent");
    let _ = world
        .jit_as_in("agent:bob", &tree, ["lock", "acquire", "locked.txt"])
        .ok();
    let file = |path: &str| ModelTurn::tool("write_file", json!({ "file_path": path, "content": "x" }));
    let run = |command: &str| {
        ModelTurn::tool(
            "run_shell_command",
            json!({ "command": command, "description": "a step" }),
        )
    };
    let model = bench.model(vec![
        file("locked.txt"),
        run("git stash"),
        file("free.txt"),
        ModelTurn::text("finished"),
    ]);
    let done = bench.run(&world, &tree, &model, "do it");
    assert_eq!(done.ran.code, 0, "{:?}", done.ran);
    let told = model.told();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("locked by agent:bob"), "{}", told[0]);
    assert!(told[1].contains("all worktrees share"), "{}", told[1]);
    assert!(!tree.join("locked.txt").exists());
    assert_eq!(fs::read_to_string(tree.join("free.txt")).expect("a file"), "x");
    assert!(model.read().contains("you are agent:gemini-"));
}
