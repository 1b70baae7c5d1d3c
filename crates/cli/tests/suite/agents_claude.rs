//! The real Claude Code under our hooks: offline, with a model that says what a script says (F9).

use std::fs;
use std::path::Path;

use jit_testkit::agent_cli::{Agent, Bench};
use jit_testkit::scripted_model::ModelTurn;
use jit_testkit::world::World;
use serde_json::{Value, json};

fn world() -> World {
    World::with_jit(env!("CARGO_BIN_EXE_jit"))
}

/// With the hook in the user's settings: it holds in every worktree.
fn hooked(agent: &str) -> World {
    let world = world();
    let done = world.jit(["hooks", "install", "--agent", agent, "--user", "--yes"]);
    let _ = done.ok();
    world
}

fn write(path: &Path, content: &str) -> ModelTurn {
    ModelTurn::tool("Write", json!({ "file_path": path, "content": content }))
}

/// The event of the log that a test is about, and who did it.
fn who_locked(world: &World, file: &str) -> Option<String> {
    let locks = world.jit(["lock", "list", "--json"]).ok().json()["locks"].take();
    let locks = locks.as_array().cloned().unwrap_or_default();
    let lock = locks.iter().find(|lock| lock["file_path"] == file)?;
    Some(lock["agent_id"].as_str()?.to_owned())
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
        ModelTurn::bash("git add hello.txt && git commit -q -m 'by the agent'"),
        ModelTurn::text("finished"),
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

#[test]
fn f9_claude_is_stopped_and_the_model_is_told_why() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = hooked("claude");
    let tree = world.worktree("agent");
    let main = world.repo();
    let _ = world
        .jit_as_in("agent:bob", &tree, ["lock", "acquire", "locked.txt"])
        .ok();
    let model = bench.model(vec![
        write(&tree.join("locked.txt"), "mine now\n"),
        ModelTurn::bash("echo mine > locked.txt"),
        write(&main.join("stray.txt"), "in the wrong checkout\n"),
        ModelTurn::bash(&format!("cd {} && echo x > stray.txt", main.display())),
        ModelTurn::bash("echo x > a.txt && git add a.txt && git stash"),
        ModelTurn::bash("git branch -D main"),
        write(&tree.join("free.txt"), "fine\n"),
        ModelTurn::bash("jit whoami --json"),
        ModelTurn::text("finished"),
    ]);
    let done = bench.run(&world, &tree, &model, "do it");
    let result = done.result();
    assert_eq!(done.ran.code, 0, "{result}");
    let told = model.told();
    assert_eq!(told.len(), 8, "{told:?}");
    for (n, reasons) in [
        (
            0,
            &[
                "locked by agent:bob",
                "until 20",
                "jit lock acquire locked.txt --wait",
            ][..],
        ),
        (1, &["locked by agent:bob"]),
        (
            2,
            &["the main checkout", &*tree.join("stray.txt").to_string_lossy()],
        ),
        (3, &["the main checkout"]),
        (4, &["all worktrees share", "git commit"]),
        (5, &["main", "checked out"]),
    ] {
        for reason in reasons {
            assert!(told[n].contains(reason), "{n}: {reason:?} is not in {}", told[n]);
        }
    }
    let denied = result["permission_denials"].as_array().map(Vec::len);
    assert_eq!(denied, Some(6), "{result}");
    // None of it happened, and what was allowed did.
    assert!(!tree.join("locked.txt").exists() && !main.join("stray.txt").exists());
    assert!(!tree.join("a.txt").exists());
    assert_eq!(world.git(&main, ["stash", "list"]), "");
    assert_eq!(
        fs::read_to_string(tree.join("free.txt")).expect("a file"),
        "fine\n"
    );
    // The shell of the agent acts as the agent, without any variable.
    let whoami: Value = serde_json::from_str(&told[7]).expect("JSON");
    let agent = whoami["agent_id"].as_str().expect("an agent");
    assert!(agent.starts_with("agent:claude-"), "{whoami}");
    assert!(
        whoami["source"]
            .as_str()
            .is_some_and(|source| source.starts_with("sess-")),
        "{whoami}"
    );
}

#[test]
fn f9_claude_learns_at_the_start_who_it_is_and_its_session_ends_with_it() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = hooked("claude");
    let _ = world.jit(["issue", "create", "Mend the roof"]).ok();
    let repo = world.repo();
    let model = bench.model(vec![
        write(&repo.join("a.txt"), "x\n"),
        ModelTurn::bash("jit lock list --json"),
        ModelTurn::text("finished"),
    ]);
    let done = bench.run(&world, &repo, &model, "do it");
    assert_eq!(done.ran.code, 0, "{:?}", done.ran);
    let read = model.read();
    assert!(
        read.contains("you are agent:claude-"),
        "the model was not told who it is"
    );
    assert!(
        read.contains("Mend the roof"),
        "the model was not told what is ready"
    );
    let told = model.told();
    let locks: Value = serde_json::from_str(&told[1]).expect("JSON");
    assert_eq!(locks["locks"][0]["file_path"], "a.txt", "{locks}");
    let agent = locks["locks"][0]["agent_id"]
        .as_str()
        .expect("an agent")
        .to_owned();
    assert!(agent.starts_with("agent:claude-"), "{agent}");
    let sessions = world.jit(["session", "list", "--all", "--json"]).ok().json();
    let session = &sessions["sessions"][0];
    assert_eq!(session["agent_id"], json!(agent), "{sessions}");
    assert_eq!(session["program"], "claude", "{sessions}");
    assert_eq!(session["status"], "completed", "{sessions}");
    assert_eq!(who_locked(&world, "a.txt"), None, "its locks ended with it");
}

#[test]
fn f9_in_warn_mode_claude_goes_on_and_the_model_hears_of_it() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = hooked("claude");
    let _ = world
        .jit(["config", "set", "worktree.enforce_leases", "warn"])
        .ok();
    let tree = world.worktree("agent");
    fs::create_dir_all(tree.join(".jit")).expect("a folder");
    fs::copy(
        world.repo().join(".jit/config.toml"),
        tree.join(".jit/config.toml"),
    )
    .expect("a copy");
    let _ = world
        .jit_as_in("agent:bob", &tree, ["lock", "acquire", "locked.txt"])
        .ok();
    let model = bench.model(vec![
        write(&tree.join("locked.txt"), "mine now\n"),
        ModelTurn::bash("git stash list; echo x > locked.txt"),
        ModelTurn::text("finished"),
    ]);
    let done = bench.run(&world, &tree, &model, "do it");
    assert_eq!(done.result()["permission_denials"], json!([]), "{:?}", done.ran);
    assert_eq!(
        fs::read_to_string(tree.join("locked.txt")).expect("a file"),
        "x\n"
    );
    assert!(
        model.read().contains("locked by agent:bob"),
        "the model heard nothing"
    );
}

#[test]
fn f9_claude_is_reminded_once_of_work_that_is_in_no_commit() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = hooked("claude");
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "set up"]);
    let tree = world.worktree("agent");
    let issue = world
        .jit(["issue", "create", "Mend the roof", "--json"])
        .ok()
        .json();
    let id = issue["id"].as_str().expect("an id").to_owned();
    let model = bench.model(vec![
        ModelTurn::bash(&format!("jit claim acquire {id}")),
        write(&tree.join("roof.txt"), "mended\n"),
        ModelTurn::text("finished"),
        ModelTurn::bash("git add roof.txt && git commit -q -m roof"),
        ModelTurn::text("finished, really"),
    ]);
    let done = bench.run(&world, &tree, &model, "do it");
    assert_eq!(done.ran.code, 0, "{:?}", done.ran);
    let read = model.read();
    assert!(
        read.contains("not committed") && read.contains(&format!("jit claim release {id}")),
        "no reminder: {:?}",
        done.ran.stdout
    );
    assert_eq!(world.git(&tree, ["log", "-1", "--format=%s"]).trim(), "roof");
}

#[test]
fn c2_f9_a_commit_without_a_lease_is_stopped_by_git_and_the_model_is_told_why() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = hooked("claude");
    let repo = world.repo();
    let _ = world
        .jit(["issue", "create", "Mend the roof", "--id", "ROOF-1"])
        .ok();
    world.git(&repo, ["add", "-A"]);
    world.git(&repo, ["commit", "-q", "-m", "an issue"]);
    let _ = world.jit(["hooks", "install"]).ok();
    let _ = world.jit_as("agent:bob", ["claim", "acquire", "ROOF-1"]).ok();
    let before = world.git(&repo, ["rev-parse", "HEAD"]);
    let model = bench.model(vec![
        ModelTurn::bash(
            "sed -i 's/Mend the roof/Sell the house/' .jit/issues/ROOF-1/issue.json && git commit -qam mine",
        ),
        ModelTurn::bash("git restore .jit && echo x > fine.txt && git add fine.txt && git commit -qm fine"),
        ModelTurn::text("finished"),
    ]);
    let done = bench.run(&world, &repo, &model, "do it");
    assert_eq!(done.ran.code, 0, "{}", done.result());
    let told = model.told();
    assert!(
        told[0].contains("ROOF-1") && told[0].contains("agent:bob"),
        "{told:?}"
    );
    let subjects = world.git(&repo, ["log", "--format=%s", &format!("{}..HEAD", before.trim())]);
    assert_eq!(subjects, "fine\n", "{told:?}");
}

#[test]
fn i4_claude_takes_part_through_mcp_alone() {
    let Some(bench) = Bench::of(Agent::Claude) else {
        return;
    };
    let world = world();
    let _ = world
        .jit(["issue", "create", "Mend the roof", "--id", "ROOF-1"])
        .ok();
    let jit = world.program().display().to_string();
    let config = json!({ "mcpServers": { "jit": { "command": jit, "args": ["mcp"] } } }).to_string();
    let model = bench.model(vec![
        ModelTurn::tool("mcp__jit__ready", json!({})),
        ModelTurn::tool("mcp__jit__claim", json!({ "issue": "ROOF-1" })),
        ModelTurn::tool("mcp__jit__lock", json!({ "paths": ["roof.txt"] })),
        ModelTurn::text("finished"),
    ]);
    let done = bench.run_with(&world, &world.repo(), &model, "do it", &["--mcp-config", &config]);
    assert_eq!(done.ran.code, 0, "{}", done.result());
    let told = model.told();
    assert!(told[0].contains("ROOF-1"), "{told:?}");
    let holder = world.jit(["claim", "list", "--json"]).ok().json()["active"][0]["agent_id"].clone();
    assert!(
        holder
            .as_str()
            .is_some_and(|id| id.starts_with("agent:mcp-claude")),
        "{holder} {told:?}"
    );
    assert_eq!(
        who_locked(&world, "roof.txt").as_deref(),
        holder.as_str(),
        "{told:?}"
    );
}
