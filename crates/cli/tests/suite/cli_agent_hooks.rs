//! The hook of agents' programs from the command line, without the programs (F9).

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use jit_testkit::world::tools::without;
use jit_testkit::world::{Ran, World};
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

fn hook(world: &World, dir: &Path, program: &str, event: &str, stdin: &[u8]) -> Ran {
    let mut command = world.jit_command(dir);
    command
        .args(["hooks", "agent", program, event])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("jit starts");
    // It may have enough before all of it is sent.
    let _ = child.stdin.take().expect("a pipe").write_all(stdin);
    let output = child.wait_with_output().expect("it ends");
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// What Claude Code would be told before a tool runs.
fn before(world: &World, dir: &Path, tool: &str, input: &Value) -> Ran {
    let document = json!({
        "session_id": "0000-1111-22223333", "cwd": dir, "hook_event_name": "PreToolUse", "tool_name": tool,
        "tool_input": input,
    });
    hook(
        world,
        dir,
        "claude",
        "PreToolUse",
        document.to_string().as_bytes(),
    )
    .ok()
}

fn denial(ran: &Ran) -> Option<String> {
    let value: Value = serde_json::from_str(&ran.stdout).ok()?;
    let said = &value["hookSpecificOutput"];
    (said["permissionDecision"] == "deny")
        .then(|| said["permissionDecisionReason"].as_str().map(str::to_owned))?
}

fn set(world: &World, key: &str, value: &str) {
    let _ = world.jit(["config", "set", key, value]).ok();
}

#[test]
fn l2_no_step_is_allowed_in_a_repository_of_another_user() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let step = || before(&world, &repo, "Bash", &json!({"command": "git stash"}));
    assert!(denial(&step()).is_some());
    let given = std::process::Command::new("chown")
        .args(["-hR", "65534"])
        .arg(&repo)
        .output();
    if !given.is_ok_and(|output| output.status.success()) {
        // Only root can give a repository away.
        return;
    }
    let said = denial(&step()).expect("a denial");
    assert!(said.contains("safe.directory"), "{said}");
}

#[test]
fn f9_an_edit_takes_the_lock_and_a_second_one_writes_nothing() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let input = json!({ "file_path": repo.join("src/a.rs"), "content": "x" });
    assert_eq!(before(&world, &repo, "Write", &input).stdout, "");
    let locks = world.jit(["lock", "list", "--json"]).ok().json();
    assert_eq!(locks["locks"][0]["file_path"], "src/a.rs", "{locks}");
    assert_eq!(locks["locks"][0]["agent_id"], "agent:claude-22223333", "{locks}");
    let events = world.events().len();
    assert_eq!(before(&world, &repo, "Edit", &input).stdout, "");
    assert_eq!(world.events().len(), events);
    // Somebody else's edit of it.
    let document = json!({
        "session_id": "other-44445555", "tool_name": "Edit", "tool_input": input, "cwd": repo,
    });
    let ran = hook(
        &world,
        &repo,
        "claude",
        "PreToolUse",
        document.to_string().as_bytes(),
    )
    .ok();
    let said = denial(&ran).expect("a denial");
    assert!(
        said.contains("src/a.rs is locked by agent:claude-22223333"),
        "{said}"
    );
}

#[test]
fn f9_a_write_of_the_whole_tree_waits_for_the_locks_of_others_and_takes_none() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let run = |text: &str| denial(&before(&world, &repo, "Bash", &json!({ "command": text })));
    let lines = [
        "git reset --hard",
        "git checkout .",
        "echo x > $F",
        "ls | xargs git restore",
    ];
    for text in lines {
        assert_eq!(run(text), None, "{text}");
    }
    let locks = world.jit(["lock", "list", "--json"]).ok().json();
    assert_eq!(locks["locks"], json!([]), "{locks}");
    let _ = world
        .jit(["lock", "acquire", "src/f1.rs", "--agent-id", "agent:bob"])
        .ok();
    for text in lines {
        let said = run(text).expect(text);
        assert!(said.contains("agent:bob has locked src/f1.rs"), "{text}: {said}");
    }
    assert_eq!(run("cat src/f1.rs; git status"), None);
    let said = run("jit --agent-id agent:bob lock release --all").expect("a denial");
    assert!(said.contains("You are agent:claude-22223333"), "{said}");
}

#[test]
fn f9_what_is_not_understood_is_refused_in_strict_mode_and_passes_in_the_others() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let big = json!({ "tool_name": "Write", "tool_input": { "content": "x".repeat(10 << 20) } });
    let unknown = json!({ "tool_name": "mcp__files__write", "tool_input": { "where": "a" } });
    let long =
        json!({ "tool_name": "Write", "tool_input": { "file_path": format!("/{}", "a/".repeat(4000)) } });
    let open = json!({ "tool_name": "Bash", "tool_input": { "command": "echo 'a" } });
    let inputs = [
        Vec::new(),
        b"{".to_vec(),
        b"\xff\xfe\x00".to_vec(),
        b"null".to_vec(),
        b"{\"tool_name\":\"Edit\"}".to_vec(),
        b"{\"tool_name\":\"Edit\",\"tool_input\":{\"file_path\":7}}".to_vec(),
        b"{\"hook_event_name\":\"Stop\",\"tool_name\":\"Read\"}".to_vec(),
        big.to_string().into_bytes(),
        unknown.to_string().into_bytes(),
        long.to_string().into_bytes(),
        open.to_string().into_bytes(),
    ];
    for mode in ["strict", "warn", "off"] {
        set(&world, "worktree.enforce_leases", mode);
        for input in &inputs {
            let shown = String::from_utf8_lossy(&input[..input.len().min(80)]).into_owned();
            let ran = hook(&world, &repo, "claude", "PreToolUse", input).ok();
            assert_eq!(
                denial(&ran).is_some(),
                mode == "strict",
                "{mode}: {shown}: {}",
                ran.stdout
            );
            assert_eq!(
                ran.stdout.is_empty(),
                mode == "off",
                "{mode}: {shown}: {}",
                ran.stdout
            );
        }
    }
}

#[test]
fn f9_ten_megabytes_to_write_are_judged_by_their_path() {
    let world = World::with_jit(JIT);
    let tree = world.worktree("tree");
    let content = "x\n".repeat(5 << 20);
    let input = json!({ "content": content, "file_path": world.repo().join("a.txt") });
    let said = denial(&before(&world, &tree, "Write", &input)).expect("a denial");
    assert!(said.contains("the main checkout"), "{said}");
    let input = json!({ "content": content, "file_path": tree.join("a.txt") });
    assert_eq!(before(&world, &tree, "Write", &input).stdout, "");
}

#[test]
fn l5_files_that_restrain_agents_and_files_that_jit_writes_count_as_writes() {
    let world = World::with_jit(JIT);
    let tree = world.worktree("tree");
    let home = world.home();
    let edit = |path: &Path| {
        denial(&before(
            &world,
            &tree,
            "Write",
            &json!({ "file_path": path, "content": "" }),
        ))
    };
    for path in [
        tree.join(".git"),
        tree.join(".claude/settings.json"),
        tree.join(".gemini/settings.json"),
        home.join(".config/jit/config.toml"),
        home.join(".local/share/jit/trust.jsonl"),
        home.join(".claude/settings.json"),
        home.join(".codex/hooks.json"),
    ] {
        let said = edit(&path).unwrap_or_default();
        assert!(said.contains("decides what agents may do"), "{path:?}: {said}");
    }
    // The account's own home folder counts too, whatever HOME says.
    if let Some(account) = jit_os::account::home() {
        let said = edit(&account.join(".config/jit/config.toml")).unwrap_or_default();
        assert!(said.contains("decides what agents may do"), "{said}");
    }
    // Nothing in git's folder is for tools.
    let main = world.repo();
    for name in [
        ".git",
        ".git/HEAD",
        ".git/info/attributes",
        ".git/packed-refs",
        ".GIT/HEAD",
    ] {
        for path in [Path::new(name).to_owned(), main.join(name)] {
            let input = json!({ "file_path": path, "content": "" });
            let said = denial(&before(&world, &main, "Write", &input)).unwrap_or_default();
            assert!(said.contains("git's own folder"), "{path:?}: {said}");
        }
    }
    assert_eq!(edit(&home.join("notes.txt")), None);
    let _ = world
        .jit_as_in("agent:bob", &tree, ["lock", "acquire", "locked.txt"])
        .ok();
    let run = |text: &str| denial(&before(&world, &tree, "Bash", &json!({ "command": text })));
    for command in ["issue export", "graph", "man"] {
        let said = run(&format!("jit {command} --output locked.txt")).unwrap_or_default();
        assert!(said.contains("locked by agent:bob"), "{command}: {said}");
        let said = run(&format!("jit {command} --output {}/x", world.repo().display())).unwrap_or_default();
        assert!(said.contains("the main checkout"), "{command}: {said}");
        let said = run(&format!("jit {command} --output ~/.claude/settings.json")).unwrap_or_default();
        assert!(said.contains("decides what agents may do"), "{command}: {said}");
    }
    set(&world, "worktree.enforce_leases", "warn");
    let _ = fs::create_dir_all(tree.join(".jit"));
    fs::copy(
        world.repo().join(".jit/config.toml"),
        tree.join(".jit/config.toml"),
    )
    .expect("a copy");
    assert_eq!(edit(&tree.join(".claude/settings.json")), None);
}

#[test]
fn l5_command_lines_that_multiply_are_answered_at_once() {
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let run = |text: &str| before(&world, &repo, "Bash", &json!({ "command": text }));
    let nested: String = (1..40).map(|n| format!("v{n}=$v{0}$v{0};", n - 1)).collect();
    assert_eq!(run(&format!("v0=x;{nested}echo $v39")).stdout, "");
    let long = "x".repeat(200 << 10);
    assert!(denial(&run(&long)).is_some_and(|said| said.contains("longer than 128 KiB")));
    set(&world, "worktree.enforce_leases", "warn");
    let ran = run(&long);
    assert!(
        denial(&ran).is_none() && ran.stdout.contains("128 KiB"),
        "{}",
        ran.stdout
    );
}

#[test]
fn l5_the_hook_answers_while_its_input_stays_open() {
    use std::io::Read as _;
    let world = World::with_jit(JIT);
    let repo = world.repo();
    let mut command = world.jit_command(&repo);
    command
        .args(["hooks", "agent", "claude", "PreToolUse"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("jit starts");
    let document = json!({ "cwd": repo, "tool_name": "Bash", "tool_input": { "command": "git stash" } });
    let mut stdin = child.stdin.take().expect("a pipe");
    write!(stdin, "{document}").expect("written");
    let mut said = String::new();
    let mut stdout = child.stdout.take().expect("a pipe");
    let _ = stdout.read_to_string(&mut said).expect("an answer");
    assert!(said.contains("\"deny\"") && said.contains("stash"), "{said}");
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn f9_links_and_detours_into_another_checkout_are_seen() {
    let world = World::with_jit(JIT);
    let tree = world.worktree("tree");
    std::os::unix::fs::symlink(world.repo(), tree.join("link")).expect("a link");
    std::os::unix::fs::symlink("../repo/new.txt", tree.join("dangling")).expect("a link");
    for path in [
        "link/a.txt",
        "dangling",
        "../repo/a.txt",
        "not/there/../../../repo/a.txt",
    ] {
        let input = json!({ "file_path": path });
        assert!(denial(&before(&world, &tree, "Edit", &input)).is_some(), "{path}");
    }
    set(&world, "hooks.outside_worktree", "warn");
    fs::copy(world.repo().join(".jit/config.toml"), {
        fs::create_dir_all(tree.join(".jit")).expect("a folder");
        tree.join(".jit/config.toml")
    })
    .expect("a copy");
    let ran = before(&world, &tree, "Edit", &json!({ "file_path": "../repo/a.txt" }));
    assert!(
        denial(&ran).is_none() && ran.stdout.contains("the main checkout"),
        "{}",
        ran.stdout
    );
}

#[test]
fn f9_where_jit_is_not_used_the_hook_says_nothing() {
    let world = World::new(JIT);
    for (event, input) in [
        ("PreToolUse", "{"),
        ("SessionStart", "{}"),
        ("Stop", "{}"),
        ("SessionEnd", "{}"),
    ] {
        let ran = hook(&world, &world.repo(), "claude", event, input.as_bytes()).ok();
        assert_eq!(ran.stdout, "", "{event}");
    }
    let ran = hook(&world, world.root(), "claude", "PreToolUse", b"{").ok();
    assert_eq!(ran.stdout, "");
    // Settings of another version: exit code 2 would mean no.
    let ran = hook(&world, &world.repo(), "claude", "Whatever", b"{}").ok();
    assert!(ran.stderr.contains("Whatever"), "{}", ran.stderr);
}

#[test]
fn f9_settings_that_cannot_be_read_are_not_taken_for_lenient() {
    let world = World::with_jit(JIT);
    fs::write(world.repo().join(".jit/config.toml"), "[worktree\n").expect("a file");
    let said = denial(&before(
        &world,
        &world.repo(),
        "Bash",
        &json!({ "command": "ls" }),
    ));
    assert!(said.is_some_and(|said| said.contains("line 1, column")
        && said.contains("Mend ")
        && said.contains(".jit/config.toml first")));
}

#[test]
fn f9_broken_settings_can_be_mended_by_an_edit_of_that_very_file() {
    let world = World::with_jit(JIT);
    let (repo, other) = (world.repo(), world.worktree("other"));
    let config = repo.join(".jit/config.toml");
    fs::create_dir_all(other.join(".jit")).expect("a folder");
    fs::write(other.join(".jit/config.toml"), "").expect("a file");
    fs::write(&config, "[worktree\n").expect("a file");
    std::os::unix::fs::symlink("/etc/hostname", repo.join("link")).expect("a link");
    let edit = |path: &Path| {
        let input = json!({ "file_path": path, "old_string": "a", "new_string": "b" });
        before(&world, &repo, "Edit", &input)
    };
    for path in [
        config.clone(),
        "./.jit/config.toml".into(),
        repo.join("src/../.jit/config.toml"),
    ] {
        fs::create_dir_all(repo.join("src")).expect("a folder");
        let ran = edit(&path);
        assert_eq!(denial(&ran), None, "{path:?}: {}", ran.stdout);
        assert!(ran.stdout.contains("may mend it"), "{}", ran.stdout);
    }
    for path in [
        repo.join("a.txt"),
        repo.join(".jit/config.toml.bak"),
        repo.join(".jit/gates/registry.json"),
        other.join(".jit/config.toml"),
        repo.join("link"),
    ] {
        let said = denial(&edit(&path)).unwrap_or_default();
        assert!(said.contains("nobody knows what is allowed"), "{path:?}: {said}");
    }
    // A file that leads elsewhere is not the one to mend.
    fs::rename(&config, repo.join("real.toml")).expect("moved");
    std::os::unix::fs::symlink("../real.toml", &config).expect("a link");
    assert!(denial(&edit(&config)).is_some());
    assert!(denial(&edit(&repo.join("real.toml"))).is_some());
    // What a variable says counts whatever the files say.
    let document = json!({
        "session_id": "s", "cwd": repo, "hook_event_name": "PreToolUse", "tool_name": "Write",
        "tool_input": { "file_path": repo.join("a.txt"), "content": "" },
    });
    let mut command = world.jit_command(&repo);
    command
        .env("JIT_CONFIG_WORKTREE__ENFORCE_LEASES", "warn")
        .args(["hooks", "agent", "claude", "PreToolUse"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("jit starts");
    let _ = child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(document.to_string().as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        !said.contains("\"deny\"") && said.contains("real.toml") | said.contains("config.toml"),
        "{said}"
    );
}

#[test]
fn f9_no_process_is_started_before_a_tool() {
    if without("strace") {
        return;
    }
    let world = World::with_jit(JIT);
    let tree = world.worktree("tree");
    for input in [
        json!({ "tool_name": "Edit", "tool_input": { "file_path": "a.txt" } }),
        json!({ "tool_name": "Bash", "tool_input": { "command": "git branch -D x && echo y > b.txt" } }),
    ] {
        let out = world.root().join("trace");
        let mut command = world.command("strace", &tree);
        command
            .args(["-f", "-qq", "-e", "trace=process", "-o"])
            .arg(&out)
            .arg(JIT)
            .args(["hooks", "agent", "claude", "PreToolUse"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("strace starts");
        let text = input.to_string();
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(text.as_bytes())
            .expect("sent");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
        let trace = fs::read_to_string(&out).expect("a trace");
        assert_eq!(trace.matches("execve(").count(), 1, "{trace}");
        assert!(!trace.contains("fork(") && !trace.contains("SIGCHLD"), "{trace}");
    }
}

#[test]
fn f9_settings_are_shown_written_and_taken_out_again() {
    let world = World::with_jit(JIT);
    let file = world.repo().join(".claude/settings.json");
    let install = |more: &[&str]| world.jit(["hooks", "install", "--agent", "claude"].iter().chain(more));
    // Nobody can be asked here.
    let ran = install(&[]).exits(2);
    assert!(ran.stderr.contains("--yes"), "{}", ran.stderr);
    let shown = install(&["--dry-run"]).ok().stdout;
    assert!(
        shown.contains("hooks agent claude PreToolUse") && !file.exists(),
        "{shown}"
    );
    let before = "{\n  \"z\": 1,\n  \"a\": [ 1 ]\n}\n";
    fs::create_dir_all(world.repo().join(".claude")).expect("a folder");
    fs::write(&file, before).expect("a file");
    let _ = install(&["--yes"]).ok();
    let after = fs::read_to_string(&file).expect("a file");
    assert!(
        after.starts_with("{\n  \"z\": 1,\n  \"a\": [ 1 ],\n  \"hooks\": {"),
        "{after}"
    );
    assert_eq!(install(&["--yes", "--json"]).ok().json()["changed"], false);
    let uninstall = ["hooks", "uninstall", "--agent", "claude", "--yes"];
    // Not by those whom it restrains.
    let _ = world.jit_as("agent:a", uninstall).exits(5);
    let _ = world.jit(uninstall).ok();
    assert_eq!(fs::read_to_string(&file).expect("a file"), before);
    fs::write(&file, "// mine\n{}").expect("a file");
    let _ = install(&["--yes"]).exits(2);
    assert_eq!(fs::read_to_string(&file).expect("a file"), "// mine\n{}");
    fs::remove_file(&file).expect("a file");
    let _ = install(&["--yes"]).ok();
    let _ = world.jit(uninstall).ok();
    assert!(!world.repo().join(".claude").exists());
    std::os::unix::fs::symlink("/tmp/elsewhere.json", world.repo().join("link")).expect("a link");
    fs::create_dir_all(world.repo().join(".claude")).expect("a folder");
    fs::rename(world.repo().join("link"), &file).expect("a link");
    let _ = install(&["--yes"]).exits(2);
}
