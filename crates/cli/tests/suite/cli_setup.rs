//! `jit init`, `jit worktree …`, `jit config …`, `jit whoami` (A1, A3 to A7), and merging of issues by git (C7).

use std::path::Path;

use jit_testkit::world::World;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

#[test]
fn a1_init_says_what_it_did_and_a_second_time_nothing() {
    let world = World::new(JIT);
    let ran = world.jit(["init"]).ok();
    insta::assert_snapshot!(world.stable(&ran.stdout), @r#"
      made [WORLD]/repo/.git/jit
      made [WORLD]/repo/.jit
      excluded /.jit/worktree.json in [WORLD]/repo/.git/info/exclude
      wrote [WORLD]/repo/.jit/config.toml
      wrote [WORLD]/repo/.jit/.gitattributes
      made [WORLD]/repo/.jit/issues
      made [WORLD]/repo/.jit/gates
      began the log in [WORLD]/repo/.git/jit/events
      registered the merge driver jit-issue in git's configuration
      git hooks are left as they are; to let git ask jit before commits: jit hooks install
    ✓ jit is set up. Next: jit issue create "what is to be done"
    "#);
    let tree = || world.git(&world.repo(), ["status", "--porcelain", "--untracked-files=all"]);
    let before = (
        tree(),
        std::fs::read(world.repo().join(".git/config")).expect("git's configuration"),
    );
    let again = world.jit(["init", "--json"]).ok().json();
    assert_eq!((&again["changed"], &again["steps"]), (&json!(false), &json!([])));
    assert_eq!(
        (
            tree(),
            std::fs::read(world.repo().join(".git/config")).expect("read")
        ),
        before
    );
    insta::assert_snapshot!(world.jit(["init"]).ok().stdout, @"jit is set up here already; nothing was changed.");
}

#[test]
fn a1_a3_git_sees_only_what_is_meant_to_be_committed() {
    let world = World::with_jit(JIT);
    let status = || world.git(&world.repo(), ["status", "--porcelain"]);
    assert_eq!(status(), "?? .jit/\n");
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "use jit"]);
    assert_eq!(status(), "");
    assert!(
        !world.repo().join(".gitattributes").exists(),
        "the root one is the user's"
    );
    // Claims and heartbeats never show up; an issue does, as files to commit.
    let _ = world.jit(["issue", "create", "x", "--id", "WI-001"]).ok();
    assert_eq!(status(), "?? .jit/issues/\n");
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "an issue"]);
    let _ = world.jit(["claim", "acquire", "WI-001"]).ok();
    let _ = world.jit(["heartbeat", "--once"]).ok();
    let _ = world.jit(["claim", "release", "WI-001"]).ok();
    assert_eq!(status(), "");
    // The identity survives a thorough cleaning.
    let id = || world.jit(["whoami", "--json"]).ok().json()["worktree_id"].clone();
    let before = id();
    world.git(&world.repo(), ["clean", "-q", "-fdx"]);
    assert_eq!(id(), before);
}

#[test]
fn a1_init_leaves_what_the_user_changed() {
    let world = World::with_jit(JIT);
    let config = world.repo().join(".jit/config.toml");
    std::fs::write(&config, "# mine\n").expect("write");
    std::fs::write(world.repo().join(".jit/.gitattributes"), "# mine too\n").expect("write");
    let _ = world.jit(["init"]).ok();
    assert_eq!(std::fs::read_to_string(&config).expect("read"), "# mine\n");
    // What an older version registered is brought up to date.
    let driver = || world.git(&world.repo(), ["config", "merge.jit-issue.driver"]);
    let now = driver();
    assert!(now.contains("jit merge-driver %O %A %B %P; else"), "{now}");
    for old in ["jit old %A", "jit merge-driver %O %A %B %P"] {
        world.git(&world.repo(), ["config", "merge.jit-issue.driver", old]);
        let done = world.jit(["init", "--json"]).ok().json();
        assert_eq!(done["changed"], true);
        assert_eq!(driver(), now);
    }
}

#[test]
fn a1_a_fresh_clone_with_committed_jit_works_without_init() {
    let world = World::with_jit(JIT);
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "use jit"]);
    world.git(world.root(), ["clone", "-q", "repo", "clone"]);
    let clone = world.root().join("clone");
    let _ = world.jit_in(&clone, ["claim", "list"]).ok();
    let _ = world
        .jit_in(&clone, ["issue", "create", "x", "--id", "WI-001"])
        .ok();
    let lease = world
        .jit_in(&clone, ["claim", "acquire", "WI-001", "--json"])
        .ok()
        .json();
    assert_eq!(lease["issue_id"], "WI-001");
    assert_eq!(
        world.jit(["issue", "list", "--json"]).ok().json(),
        json!({"issues": []}),
        "planes are not shared"
    );
}

#[test]
fn a2_without_git_the_folder_serves_alone() {
    let world = World::new(JIT);
    let folder = world.root().join("no git");
    std::fs::create_dir_all(folder.join("below")).expect("folders");
    let _ = world.jit_in(&folder, ["init"]).ok();
    let _ = world
        .jit_in(&folder.join("below"), ["issue", "create", "x", "--id", "WI-001"])
        .ok();
    let _ = world.jit_in(&folder, ["claim", "acquire", "WI-001"]).ok();
    let _ = world.jit_in(&folder, ["validate"]).ok();
    let _ = world.jit_in(&folder, ["worktree", "list"]).exits(2);
}

#[test]
fn a7_worktree_info_and_list() {
    let world = World::with_jit(JIT);
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "use jit"]);
    let two = world.worktree("two");
    let _ = world.jit(["issue", "create", "x", "--id", "WI-001"]).ok();
    let info = world.jit_in(&two, ["worktree", "info", "--json"]).ok().json();
    assert_eq!(info["is_worktree"], true);
    assert_eq!(info["branch"], "two");
    assert_eq!(info["root"].as_str().map(Path::new), Some(two.as_path()));
    assert_eq!(
        info["shared_jit"].as_str().map(Path::new),
        Some(world.control().as_path())
    );
    let main = world.jit(["worktree", "info", "--json"]).ok().json();
    assert_eq!(main["is_worktree"], false);
    let made = world.jit_in(&two, ["worktree", "init", "--json"]).ok().json();
    let again = world.jit_in(&two, ["worktree", "init", "--json"]).ok().json();
    assert_eq!(made, again, "immutable");
    assert_ne!(made["worktree_id"], main["worktree_id"]);
    let view = std::fs::read(two.join(".jit/worktree.json")).expect("the view");
    let view: Value = serde_json::from_slice(&view).expect("JSON");
    assert_eq!(view["worktree_id"], made["worktree_id"]);
    let _ = world
        .jit_in(&two, ["claim", "acquire", "WI-001", "--agent-id", "agent:one"])
        .ok();
    let list = world.jit(["worktree", "list", "--json"]).ok().json();
    let all = list["worktrees"].as_array().expect("a list");
    assert_eq!(all.len(), 2);
    assert_eq!(
        (&all[0]["is_main"], &all[0]["branch"]),
        (&json!(true), &json!("main"))
    );
    assert_eq!(all[0]["dirty"], true, "the new issue is not committed");
    assert_eq!(
        (&all[1]["worktree_id"], &all[1]["dirty"]),
        (&made["worktree_id"], &json!(false))
    );
    assert_eq!(all[1]["holders"], json!(["agent:one (WI-001)"]));
    let ran = world.jit(["worktree", "list"]).ok();
    insta::assert_snapshot!(world.stable(&ran.stdout), @r"
    [WT]  main  dirty  [WORLD]/repo
    [WT]  two   clean  [WORLD]/two   agent:one (WI-001)
    ");
    // A folder that somebody deleted is shown as missing.
    std::fs::remove_dir_all(&two).expect("remove");
    let list = world.jit(["worktree", "list", "--json"]).ok().json();
    assert_eq!(list["worktrees"][1]["state"], "missing");
    assert!(world.jit(["worktree", "list"]).ok().stdout.contains("missing"));
}

#[test]
fn a6_config_shows_gets_and_sets_and_says_where_from() {
    let world = World::with_jit(JIT);
    let get = |key: &str| world.jit(["config", "get", key, "--json"]).ok().json();
    assert_eq!(
        get("coordination.default_ttl_secs"),
        json!({"key": "coordination.default_ttl_secs", "value": 600, "origin": "default", "class": "inert"})
    );
    let _ = world
        .jit(["config", "set", "coordination.default_ttl_secs", "20m"])
        .ok();
    let found = get("coordination.default_ttl_secs");
    assert_eq!(found["value"], 1200);
    let origin = world.stable(found["origin"].as_str().unwrap_or_default());
    assert!(origin.starts_with("[WORLD]/repo/.jit/config.toml"), "{origin}");
    assert_eq!(
        world
            .jit(["config", "get", "coordination.default_ttl_secs"])
            .ok()
            .stdout,
        "1200\n"
    );
    let _ = world
        .jit(["config", "set", "--user", "worktree.enforce_leases", "warn"])
        .ok();
    assert!(
        get("worktree.enforce_leases")["origin"]
            .as_str()
            .is_some_and(|o| o.contains("home"))
    );
    let mut command = world.jit_command(&world.repo());
    command
        .env("JIT_CONFIG_COORDINATION__DEFAULT_TTL_SECS", "77")
        .args(["config", "show", "--origin"]);
    let shown = world.run(command).ok().stdout;
    let line = shown
        .lines()
        .find(|line| line.starts_with("coordination.default_ttl_secs"))
        .unwrap_or_default();
    assert!(
        line.contains("= 77") && line.contains("JIT_CONFIG_COORDINATION__DEFAULT_TTL_SECS"),
        "{line}"
    );
    assert!(!world.jit(["config", "show"]).ok().stdout.contains('#'));
    // What it says is what happens.
    let _ = world.jit(["issue", "create", "x", "--id", "WI-001"]).ok();
    let lease = world
        .jit(["claim", "acquire", "WI-001", "--agent-id", "agent:a", "--json"])
        .ok()
        .json();
    assert_eq!(lease["ttl_secs"], 1200);
    for bad in [
        ["coordination.default_ttl_secs", "0"],
        ["coordination.default_ttl_secs", "-5"],
        ["worktree.mode", "maybe"],
        ["no.such", "1"],
    ] {
        let before = std::fs::read(world.repo().join(".jit/config.toml")).expect("read");
        let ran = world.jit(["config", "set", bad[0], bad[1], "--json"]).exits(2);
        let message = ran.json()["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(message.contains(bad[0]), "{message}");
        assert_eq!(
            std::fs::read(world.repo().join(".jit/config.toml")).expect("read"),
            before,
            "{bad:?}"
        );
    }
}

#[test]
fn a6_mistakes_name_file_line_and_key() {
    let world = World::with_jit(JIT);
    let file = world.repo().join(".jit/config.toml");
    for (text, key, line) in [
        ("[worktree]\nmode = 3\n", "worktree.mode", "line 2"),
        ("\n[worktree]\nmoode = \"on\"\n", "worktree.moode", "line 3"),
        (
            "[coordination]\ndefault_ttl_secs = \"x\"\n",
            "coordination.default_ttl_secs",
            "line 2",
        ),
        ("[nonsense]\na = 1\n", "nonsense", "line 1"),
        ("[worktree\n", "", "line 1"),
    ] {
        std::fs::write(&file, text).expect("write");
        for args in [&["claim", "list"][..], &["config", "show"]] {
            let ran = world.jit(args.iter().chain(&["--json"])).exits(2).json();
            assert_eq!(ran["error"]["code"], "config");
            let message = world.stable(ran["error"]["message"].as_str().unwrap_or_default());
            assert!(message.contains("[WORLD]/repo/.jit/config.toml"), "{message}");
            assert!(
                message.contains(key) && message.contains(line),
                "{text:?}: {message}"
            );
        }
    }
}

#[test]
fn a6_validate_and_doctor_run_without_settings_and_name_line_and_column() {
    let world = World::with_jit(JIT);
    let _ = world.jit(["issue", "create", "One", "--id", "WI-1"]).ok();
    let file = world.repo().join(".jit/config.toml");
    for (text, line, column) in [
        ("[worktree]\nmode = 3\n", 2, 1),
        ("[worktree]\n  moode = \"on\"\n", 2, 3),
        ("a = \n", 1, 5),
    ] {
        std::fs::write(&file, text).expect("write");
        let report = world.jit(["validate", "--json"]).exits(6).json();
        let problem = &report["problems"][0];
        assert_eq!(
            (&problem["check"], &problem["line"], &problem["column"]),
            (&json!("config"), &json!(line), &json!(column)),
            "{report}"
        );
        assert_eq!(report["issues"], 1, "the rest is looked at all the same");
        assert_eq!(report["problems"].as_array().map(Vec::len), Some(1));
        let shown = world.jit(["validate"]).exits(6).stdout;
        let place = format!("config.toml, line {line}, column {column}");
        assert!(shown.contains(&place), "{shown}");
        let checks = world.jit(["doctor", "--json"]).exits(6).json();
        let named = |name: &str| {
            let checks = checks["checks"].as_array().expect("a list");
            checks.iter().find(|check| check["name"] == name).cloned()
        };
        let config = named("config").expect("a check");
        assert_eq!(config["status"], "fail");
        assert!(
            config["message"]
                .as_str()
                .is_some_and(|said| said.contains(&place)),
            "{config}"
        );
        assert!(named("disk").is_some() && named("permissions").is_some());
    }
}

#[test]
fn a4_whoami_tells_who_and_why() {
    let world = World::with_jit(JIT);
    let ask = |env: &[(&str, &str)], args: &[&str]| {
        let mut command = world.jit_command(&world.repo());
        command
            .envs(env.iter().copied())
            .args(["whoami", "--json"])
            .args(args);
        let found = world.run(command).ok().json();
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        (text("agent_id"), world.stable(&text("source")))
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let (me, source) = ask(&[], &[]);
    assert!(
        me.starts_with("human:") && source == "the operating system's user",
        "{me} {source}"
    );
    let folder = world.home().join(".config/jit");
    std::fs::create_dir_all(&folder).expect("folder");
    std::fs::write(folder.join("agent.toml"), "[agent]\nid = \"human:ann\"\n").expect("write");
    assert_eq!(
        ask(&[], &[]),
        pair("human:ann", "[WORLD]/home/.config/jit/agent.toml")
    );
    let inside = ask(&[("CLAUDECODE", "1")], &[]);
    assert_ne!(inside.0, "human:ann", "an agent is not its person");
    assert_eq!(
        ask(&[("JIT_AGENT_ID", "agent:env")], &[]),
        pair("agent:env", "JIT_AGENT_ID")
    );
    assert_eq!(
        ask(&[("JIT_AGENT_ID", "agent:env")], &["--agent-id", "ci:flag"]),
        pair("ci:flag", "--agent-id")
    );
    let ran = world.jit(["whoami", "--agent-id", "agent:x"]).ok();
    insta::assert_snapshot!(world.stable(&ran.stdout), @r"
    agent:x (from --agent-id)
      worktree [WT], main
      in [WORLD]/repo
    ");
}

/// git in this world, with `jit` on its PATH as for a user. Returns the exit code and both outputs.
fn merge(world: &World, branch: &str) -> (i32, String) {
    let bin = Path::new(JIT).parent().expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin.to_owned()).chain(std::env::split_paths(&path)));
    let mut command = world.command("git", &world.repo());
    command
        .env("PATH", path.expect("a path"))
        .args(["merge", "--no-edit", branch]);
    let ran = world.run(command);
    (ran.code, ran.stdout + &ran.stderr)
}

/// Changes a field of the issue on a branch of its own, as a text editor would.
fn change(world: &World, branch: &str, edits: &[(&str, Value)]) {
    world.git(&world.repo(), ["checkout", "-q", "-B", branch, "base"]);
    let file = world.repo().join(".jit/issues/WI-001/issue.json");
    let mut issue: Value = serde_json::from_slice(&std::fs::read(&file).expect("read")).expect("JSON");
    for (name, value) in edits {
        issue[*name] = value.clone();
    }
    let text = serde_json::to_string_pretty(&issue).expect("text");
    std::fs::write(&file, text + "\n").expect("write");
    world.git(&world.repo(), ["commit", "-q", "-am", branch]);
}

#[test]
fn c7_git_merges_issues_field_by_field() {
    let world = World::with_jit(JIT);
    let _ = world
        .jit(["issue", "create", "Parse dates", "--id", "WI-001", "--label", "a"])
        .ok();
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "an issue"]);
    world.git(&world.repo(), ["branch", "base"]);
    change(
        &world,
        "one",
        &[("title", json!("Parse all dates")), ("revision", json!(2))],
    );
    change(
        &world,
        "two",
        &[
            ("priority", json!("high")),
            ("state", json!("done")),
            ("revision", json!(3)),
        ],
    );
    let (code, said) = merge(&world, "one");
    assert_eq!(code, 0, "{said}");
    let file = world.repo().join(".jit/issues/WI-001/issue.json");
    let merged: Value = serde_json::from_slice(&std::fs::read(&file).expect("read")).expect("JSON");
    assert_eq!(merged["title"], "Parse all dates");
    assert_eq!(
        (&merged["priority"], &merged["state"], &merged["revision"]),
        (&json!("high"), &json!("done"), &json!(3))
    );
    // The same field in two ways is for a person to decide.
    change(&world, "three", &[("title", json!("Parse some dates"))]);
    let (code, said) = merge(&world, "one");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("both sides changed title"), "{said}");
    assert!(said.contains("CONFLICT"), "{said}");
    let text = std::fs::read_to_string(&file).expect("read");
    assert!(text.contains("<<<<<<< ours\n  \"title\": \"Parse some dates\",\n=======\n  \"title\": \"Parse all dates\",\n>>>>>>> theirs"), "{text}");
    world.git(&world.repo(), ["merge", "--abort"]);
}

#[test]
fn c7_sets_keep_the_lines_of_both_sides() {
    let world = World::with_jit(JIT);
    let _ = world
        .jit(["issue", "create", "x", "--id", "WI-001", "--label", "a"])
        .ok();
    world.git(&world.repo(), ["add", "-A"]);
    world.git(&world.repo(), ["commit", "-q", "-m", "an issue"]);
    world.git(&world.repo(), ["branch", "base"]);
    let file = world.repo().join(".jit/issues/WI-001/labels.or-set.jsonl");
    for name in ["one", "two"] {
        world.git(&world.repo(), ["checkout", "-q", "-B", name, "base"]);
        let mut text = std::fs::read_to_string(&file).expect("read");
        text.push_str(&format!("{{\"op\":\"add\",\"value\":\"{name}\"}}\n"));
        std::fs::write(&file, text).expect("write");
        world.git(&world.repo(), ["commit", "-q", "-am", name]);
    }
    let (code, said) = merge(&world, "one");
    assert_eq!(code, 0, "{said}");
    let text = std::fs::read_to_string(&file).expect("read");
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn c7_the_merge_driver_marks_what_is_no_issue_and_keeps_both_sides() {
    let world = World::new(JIT);
    let path = |name: &str| world.root().join(name);
    std::fs::write(path("base"), "{}").expect("write");
    std::fs::write(path("ours"), "{\"a\":1}").expect("write");
    std::fs::write(path("theirs"), "not JSON").expect("write");
    let args = [path("base"), path("ours"), path("theirs")];
    let mut command = world.jit_command(world.root());
    command.arg("merge-driver").args(&args);
    let ran = world.run(command);
    assert_eq!(ran.code, 1);
    assert_eq!(
        std::fs::read_to_string(path("ours")).expect("read"),
        "<<<<<<< ours\n{\"a\":1}\n=======\nnot JSON\n>>>>>>> theirs\n"
    );
}

#[test]
fn c7_the_merge_driver_leaves_to_a_person_what_it_cannot_write_as_it_was() {
    let world = World::new(JIT);
    let path = |name: &str| world.root().join(name);
    let plain = "{\"id\":\"WI-1\",\"title\":\"t\"}";
    for odd in [
        "{\"id\":\"WI-1\",\"title\":\"t\",\"big\":12345678901234567890123}",
        "{\"id\":\"WI-1\",\"title\":\"t\",\"x\":[{\"a\":1,\"a\":2}]}",
        "{\"id\":\"WI-1\",\"title\":\"t\",\"title\":\"u\"}",
    ] {
        for sides in [[odd, plain, plain], [plain, odd, plain], [plain, plain, odd]] {
            let names = ["base", "ours", "theirs"];
            for (name, side) in names.iter().zip(sides) {
                std::fs::write(path(name), side).expect("write");
            }
            let mut command = world.jit_command(world.root());
            command.arg("merge-driver").args(names.map(path));
            let ran = world.run(command).exits(1);
            assert!(ran.stderr.contains("git add"), "{}", ran.stderr);
            // As git merges any text, with the digits and keys that were there.
            let changed = if sides[2] == odd { odd } else { sides[1] };
            assert_eq!(std::fs::read_to_string(path("ours")).expect("read"), changed);
        }
    }
}

#[test]
fn a8_what_a_person_sets_here_is_approved_by_that() {
    let world = World::with_jit(JIT);
    let needs = |world: &World| {
        let shown = world.jit(["trust", "--list", "--json"]);
        let all = shown.json()["commands"].as_array().cloned().unwrap_or_default();
        all.iter().filter(|one| one["trusted"] == false).count()
    };
    for (key, value) in [
        ("merge.validate", "['make check', 'true']"),
        (
            "merge.resolve",
            "['*.lock = command: make lock', 'docs/** = union']",
        ),
        ("worktree.provision", "['make deps']"),
        ("dispatch.command", "['my-agent', '--fast']"),
    ] {
        let _ = world
            .jit_as_in("human:me", &world.repo(), ["config", "set", key, value])
            .ok();
        assert_eq!(needs(&world), 0, "{key}");
    }
    // What came with the repository is in the same file, and was approved by nobody.
    let file = world.repo().join(".jit/config.toml");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(
        &file,
        text.replace("make check", "make chuck")
            .replace("--fast", "--slow"),
    )
    .expect("a file");
    assert_eq!(needs(&world), 2);
    // Setting another key approves nothing of it, and an agent may not set these at all.
    let _ = world
        .jit_as_in(
            "human:me",
            &world.repo(),
            ["config", "set", "merge.push", "target"],
        )
        .ok();
    assert_eq!(needs(&world), 2);
    let args = ["config", "set", "merge.validate", "['rm -rf .']"];
    let _ = world.jit_as_in("agent:a", &world.repo(), args).exits(5);
    assert_eq!(needs(&world), 2);
}
