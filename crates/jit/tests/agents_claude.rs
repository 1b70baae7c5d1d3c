//! The real Claude Code under our hooks: offline, with a model that says what a script says (F9).

use jit_testkit::agent_cli::{Agent, Bench};
use jit_testkit::model_api::Step;
use jit_testkit::world::World;
use serde_json::json;

fn world() -> World {
    World::with_jit(env!("CARGO_BIN_EXE_jit"))
}

fn write(path: &std::path::Path, content: &str) -> Step {
    Step::tool("Write", json!({ "file_path": path, "content": content }))
}

#[test]
fn f9_the_bench_runs_the_real_program_to_a_commit() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = world();
    let file = world.repo().join("hello.txt");
    let model = bench.model(vec![
        write(&file, "hello\n"),
        Step::bash("git add hello.txt && git commit -q -m 'by the agent'"),
        Step::text("finished"),
    ]);
    let done = bench.run(&world, &world.repo(), &model, "do it");
    let result = done.result();
    assert_eq!(done.ran.code, 0, "{result}");
    assert_eq!(result["is_error"], false, "{result}");
    assert_eq!(result["permission_denials"], json!([]), "{result}");
    let shown = world.git(&world.repo(), ["show", "--format=%s", "HEAD", "--", "hello.txt"]);
    assert!(
        shown.contains("by the agent") && shown.contains("+hello"),
        "{shown}"
    );
    assert_eq!(model.told().len(), 2);
}
