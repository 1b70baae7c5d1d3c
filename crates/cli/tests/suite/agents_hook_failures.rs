//! The real Claude Code goes on when a hook before a tool fails (L5): offline, with a scripted model.
//!
//! jit relies on this: an agent goes on without the answer of its hook, so jit has to answer in time, whatever the input.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use jit_testkit::agent_cli::{Agent, Bench};
use jit_testkit::scripted_model::ModelTurn;
use jit_testkit::world::World;
use serde_json::json;

/// A hook that fails in the way that the name of the file says.
const HOOK: &str = r#"#!/bin/sh
case $(cat) in
*hangs.txt*) exec tail -f /dev/null ;;
*crashes.txt*) kill -KILL $$ ;;
*fails.txt*) echo broken >&2; exit 1 ;;
*garbles.txt*) echo '{"hookSpecificOutput":' ;;
*silent.txt*) exit 0 ;;
*refuses.txt*) echo no >&2; exit 2 ;;
esac
"#;

#[test]
fn l5_claude_goes_on_when_its_hook_hangs_crashes_or_says_nothing() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = World::with_jit(env!("CARGO_BIN_EXE_jit"));
    let hook = world.home().join("hook");
    fs::write(&hook, HOOK).expect("a script");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("permissions");
    let handler = json!({ "type": "command", "command": hook.display().to_string(), "timeout": 1 });
    let settings = json!({ "hooks": { "PreToolUse": [{ "matcher": "Write", "hooks": [handler] }] } });
    fs::create_dir_all(world.home().join(".claude")).expect("a folder");
    fs::write(world.home().join(".claude/settings.json"), settings.to_string()).expect("settings");
    let names = ["hangs", "crashes", "fails", "garbles", "silent", "refuses"];
    let file = |name: &str| world.repo().join(format!("{name}.txt"));
    let mut script: Vec<ModelTurn> = names
        .iter()
        .map(|name| ModelTurn::tool("Write", json!({ "file_path": file(name), "content": "x" })))
        .collect();
    script.push(ModelTurn::text("finished"));
    let model = bench.model(script);
    let done = bench.run(&world, &world.repo(), &model, "do it");
    assert_eq!(done.ran.code, 0, "{:?}", done.ran);
    let written: Vec<&str> = names.into_iter().filter(|name| file(name).exists()).collect();
    // Only a refusal stops it.
    assert_eq!(
        written,
        ["hangs", "crashes", "fails", "garbles", "silent"],
        "{:?}",
        model.told()
    );
}
