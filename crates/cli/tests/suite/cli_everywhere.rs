//! What holds for every command (I1): JSON, exit codes, prefixes, request ids, help, pipes, locks.

use std::process::Stdio;
use std::time::{Duration, Instant};

use jit_testkit::world::World;
use serde_json::{Value, json};

const JIT: &str = env!("CARGO_BIN_EXE_jit");

/// A world with the issues DATE-1, DATE-12 and WI-001.
fn world() -> World {
    let world = World::with_jit(JIT);
    for id in ["DATE-1", "DATE-12", "WI-001"] {
        let _ = world.jit(["issue", "create", "a title", "--id", id]).ok();
    }
    world
}

fn code(value: &Value) -> &str {
    value["error"]["code"].as_str().unwrap_or_default()
}

#[test]
fn i1_every_failure_is_one_json_document_with_the_documented_fields() {
    let world = world();
    let _ = world
        .jit(["claim", "acquire", "WI-001", "--agent-id", "agent:one"])
        .ok();
    // Arguments, exit code, error code.
    let cases: &[(&[&str], i32, &str)] = &[
        (&["claim", "acquire", "WI-001"], 4, "held"),
        (&["claim", "acquire", "NOPE-1"], 3, "not_found"),
        (&["claim", "acquire", "DATE"], 2, "ambiguous"),
        (&["claim", "acquire", "DATE-1", "--ttl", "0"], 2, "invalid"),
        (&["claim", "acquire", "DATE-1", "--ttl", "-1"], 2, "usage"),
        (
            &["claim", "acquire", "DATE-1", "--ttl", "9223372036854775808"],
            2,
            "usage",
        ),
        (
            &["claim", "acquire", "DATE-1", "--ttl", "18446744073709551616"],
            2,
            "usage",
        ),
        (&["claim", "acquire", "DATE-1", "--ttl", "1y"], 2, "usage"),
        (&["claim", "acquire", "DATE-1", "--wait", "soon"], 2, "usage"),
        (&["claim", "acquire"], 2, "usage"),
        (&["claim", "aquire", "X"], 2, "usage"),
        (&["claim"], 2, "usage"),
        (&["nonsense"], 2, "usage"),
        (&[], 2, "usage"),
        (&["claim", "list", "--colour", "blue"], 2, "usage"),
        (&["claim", "list", "--lock-timeout", "-3"], 2, "usage"),
        (&["claim", "release", "WI-001"], 5, "not_holder"),
        (&["claim", "renew", "WI-001"], 5, "not_holder"),
        (
            &["claim", "transfer", "WI-001", "--to", "agent:x"],
            5,
            "not_holder",
        ),
        (&["claim", "release", "DATE-1"], 3, "not_found"),
        (
            &["claim", "release", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
            3,
            "not_found",
        ),
        (&["claim", "status", "--issue", "NOPE-1"], 3, "not_found"),
        (&["claim", "history", "--issue", "NOPE-1"], 3, "not_found"),
        (&["issue", "show", "NOPE-1"], 3, "not_found"),
        (&["issue", "create", "again", "--id", "date-1"], 2, "exists"),
        (&["issue", "create", "  "], 2, "invalid"),
        (&["config", "get", "no.such"], 2, "config"),
        (&["-C", "nowhere", "whoami"], 3, "not_found"),
        (&["--agent-id", "", "whoami"], 2, "invalid"),
        (&["--agent-id", "bob", "whoami"], 2, "invalid"),
        (
            &["--request-id", "a b\n", "claim", "acquire", "DATE-1"],
            2,
            "invalid",
        ),
    ];
    for (args, exit, error) in cases {
        let ran = world.jit(args.iter().chain(&["--json"])).exits(*exit);
        let value = ran.json();
        assert_eq!(code(&value), *error, "{args:?}: {value}");
        let failure = value["error"].as_object().expect("an object");
        let mut names: Vec<&str> = failure.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["code", "details", "help", "message", "retryable"],
            "{args:?}"
        );
        assert!(
            failure["message"].as_str().is_some_and(|text| !text.is_empty()),
            "{args:?}"
        );
        assert_eq!(ran.stderr, "", "{args:?}");
        // The same without --json: nothing on standard output.
        let ran = world.jit(args.iter()).exits(*exit);
        assert_eq!(ran.stdout, "", "{args:?}");
        assert!(!ran.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn i1_a_refusal_tells_people_what_to_do_next() {
    let world = world();
    let _ = world
        .jit([
            "claim",
            "acquire",
            "WI-001",
            "--agent-id",
            "agent:one",
            "--ttl",
            "2h",
        ])
        .ok();
    let ran = world.jit(["claim", "acquire", "wi-001"]).exits(4);
    let text = world.stable(&ran.stderr);
    // What is left of it is not compared: a slow machine may take a second.
    let said = text.split(" (").next().unwrap_or_default();
    insta::assert_snapshot!(said, @"error: WI-001 is held by agent:one in [WT] until [TIME]");
    assert!(text.contains("  try: jit claim acquire WI-001 --wait "), "{text}");
    let ran = world.jit(["claim", "aquire", "WI-001"]).exits(2);
    insta::assert_snapshot!(ran.stderr, @r"
    error: unrecognized subcommand 'aquire'
      try: a similar subcommand exists: 'acquire'
      try: jit claim [OPTIONS] <COMMAND>
    ");
    let ran = world.jit(["claim", "acquire", "DATE"]).exits(2);
    insta::assert_snapshot!(ran.stderr, @"error: DATE could be DATE-1, DATE-12: give more of the id");
}

#[test]
fn i1_not_initialised_is_exit_3_everywhere_but_where_it_does_not_matter() {
    let world = World::new(JIT);
    for args in [
        &["claim", "list"][..],
        &["claim", "acquire", "WI-001"],
        &["issue", "create", "x"],
        &["issue", "list"],
        &["events"],
        &["validate"],
        &["recover"],
        &["heartbeat", "--once"],
    ] {
        let ran = world.jit(args.iter().chain(&["--json"])).exits(3);
        assert_eq!(code(&ran.json()), "not_initialized", "{args:?}");
        assert_eq!(ran.json()["error"]["help"], json!(["jit init"]), "{args:?}");
    }
    for args in [
        &["whoami"][..],
        &["worktree", "info"],
        &["worktree", "list"],
        &["config", "show"],
    ] {
        let _ = world.jit(args).ok();
    }
    assert!(!world.control().exists(), "looking makes nothing");
    assert!(!world.repo().join(".jit").exists(), "looking makes nothing");
    let outside = world.root().join("outside");
    std::fs::create_dir(&outside).expect("a folder");
    let _ = world.jit_in(&outside, ["claim", "list"]).exits(3);
}

#[test]
fn i1_ids_by_prefix_without_regard_to_case_and_exact_beats_prefix() {
    let world = world();
    let show = |text: &str| world.jit(["issue", "show", text, "--json"]);
    assert_eq!(show("wi-0").ok().json()["id"], "WI-001");
    assert_eq!(show("date-1").ok().json()["id"], "DATE-1");
    assert_eq!(show("DATE-12").ok().json()["id"], "DATE-12");
    let refused = show("dAtE").exits(2).json();
    assert_eq!(
        refused["error"]["details"]["candidates"],
        json!(["DATE-1", "DATE-12"])
    );
    let _ = show("WI-").exits(3);
    let lease = world.jit(["claim", "acquire", "wi-00", "--json"]).ok().json();
    assert_eq!(lease["issue_id"], "WI-001", "only full ids are stored");
}

#[test]
fn i1_fields_keep_only_what_was_asked_for() {
    let world = world();
    let ran = world
        .jit(["issue", "show", "WI-001", "--json", "--fields", "id,state"])
        .ok();
    assert_eq!(ran.json(), json!({"id": "WI-001", "state": "ready"}));
    let ran = world
        .jit(["issue", "list", "--json", "--fields", "id", "--limit", "2"])
        .ok();
    assert_eq!(
        ran.json(),
        json!({"issues": [{"id": "DATE-1"}, {"id": "DATE-12"}]})
    );
    let ran = world
        .jit(["claim", "list", "--json", "--fields", "issue_id"])
        .ok();
    assert_eq!(ran.json(), json!({"active": []}));
}

#[test]
fn i1_a_request_id_makes_repeating_safe() {
    let world = world();
    let acquire = ["claim", "acquire", "WI-001", "--json", "--request-id", "r-1"];
    let first = world.jit(acquire).ok().json();
    let _ = world.jit(["claim", "release", "WI-001"]).ok();
    let again = world.jit(acquire).ok().json();
    assert_eq!(
        again["lease_id"], first["lease_id"],
        "the answer of the first time"
    );
    let active = world.jit(["claim", "list", "--json"]).ok().json();
    assert_eq!(active["active"], json!([]), "and nothing was done a second time");
    let other = world
        .jit(["claim", "acquire", "DATE-1", "--json", "--request-id", "r-1"])
        .exits(2);
    assert_eq!(code(&other.json()), "request_reused");
    // The variable does the same; made-up ids are the same at each repetition.
    let create = || {
        let mut command = world.jit_command(&world.repo());
        command
            .env("JIT_REQUEST_ID", "r-2")
            .args(["issue", "create", "once", "--json"]);
        world.run(command).ok().json()
    };
    assert_eq!(create()["id"], create()["id"]);
    let titles = world
        .jit(["issue", "list", "--json", "--fields", "title"])
        .ok()
        .json();
    let once = titles["issues"]
        .as_array()
        .map(|all| all.iter().filter(|i| i["title"] == "once").count());
    assert_eq!(once, Some(1));
}

#[test]
fn d2_a_busy_store_is_exit_4_and_names_who_has_it() {
    let world = world();
    let _ = world
        .jit(["claim", "acquire", "DATE-1", "--agent-id", "agent:slow"])
        .ok();
    let lock = std::fs::File::options()
        .write(true)
        .open(world.control().join("locks/control.lock"))
        .expect("the lock file");
    lock.lock().expect("the lock");
    let began = Instant::now();
    let ran = world
        .jit(["claim", "acquire", "WI-001", "--lock-timeout", "1s", "--json"])
        .exits(4);
    assert!(began.elapsed() >= Duration::from_secs(1), "it waited");
    let error = &ran.json()["error"];
    assert_eq!(error["code"], "busy");
    assert_eq!(error["retryable"], true);
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|m| m.contains("agent:slow")),
        "{error}"
    );
    assert!(error["details"]["pid"].is_string(), "{error}");
    // Readers do not wait for writers.
    let _ = world.jit(["claim", "list", "--lock-timeout", "0"]).ok();
    let _ = world.jit(["issue", "list", "--lock-timeout", "0"]).ok();
    let ran = world.jit([
        "claim",
        "release",
        "DATE-1",
        "--lock-timeout",
        "0",
        "--agent-id",
        "agent:slow",
    ]);
    let _ = ran.exits(4);
    drop(lock);
    let _ = world
        .jit(["claim", "acquire", "WI-001", "--lock-timeout", "0"])
        .ok();
}

#[test]
fn i1_help_shows_a_dozen_and_all_of_them_on_demand() {
    let world = World::new(JIT);
    let ran = world.jit(["--help"]).ok();
    let commands: Vec<&str> = ran
        .stdout
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        commands,
        [
            "init", "issue", "status", "ready", "claim", "dep", "gate", "progress", "start", "run", "lock",
            "worktree", "finish", "doctor", "demo", "config"
        ]
    );
    let all = world.jit(["--help", "--all"]).ok();
    for command in [
        "jit claim force-evict",
        "jit recover",
        "jit heartbeat",
        "jit validate",
    ] {
        assert!(all.stdout.contains(command), "{command}");
    }
    assert!(!all.stdout.contains("merge-driver"), "that one is git's");
    // Each command named there explains itself, needs no repository and exits 0.
    let outside = world.root();
    for line in all.stdout.lines().filter_map(|line| line.strip_prefix("  jit ")) {
        let words: Vec<&str> = line.split("  ").next().unwrap_or_default().split(' ').collect();
        let ran = world.jit_in(outside, words.iter().chain(&["--help"])).ok();
        assert!(ran.stdout.contains("Usage: jit"), "{words:?}");
        assert_eq!(ran.stderr, "");
    }
    let version = world.jit(["--version"]).ok().stdout;
    assert_eq!(version, format!("jit {}\n", env!("CARGO_PKG_VERSION")));
    let version = world.jit(["--json", "--version"]).ok().json();
    assert_eq!(version, json!({ "version": env!("CARGO_PKG_VERSION") }));
    let help = world.jit(["claim", "acquire", "--help", "--json"]).ok().json();
    assert!(
        help["help"]
            .as_str()
            .is_some_and(|text| text.contains("Usage: jit"))
    );
    let ran = world.jit::<&str>([]).exits(2);
    assert!(ran.stderr.contains("Usage: jit"), "{}", ran.stderr);
}

#[test]
fn i1_a_reader_that_leaves_is_no_error() {
    let world = world();
    for args in [
        &["issue", "list"][..],
        &["--help"],
        &["events", "--json"],
        &["claim", "nonsense", "--json"],
    ] {
        // Nobody reads from the beginning: no race with how fast it prints.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = world.jit_command(&world.repo());
        let output = command
            .args(args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .and_then(std::process::Child::wait_with_output)
            .expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
        assert_eq!(output.status.code(), Some(141), "{args:?}");
    }
}

#[test]
fn i1_colours_only_when_asked_for_and_never_into_a_pipe() {
    let world = world();
    let escapes = |args: &[&str], no_color: bool| {
        let mut command = world.jit_command(&world.repo());
        command.args(["issue", "show", "WI-001"]).args(args);
        if no_color {
            command.env("NO_COLOR", "1");
        }
        world.run(command).ok().stdout.contains('\u{1b}')
    };
    assert!(!escapes(&[], false));
    assert!(!escapes(&["--color", "never"], false));
    assert!(escapes(&["--color", "always"], false));
    assert!(
        escapes(&["--color", "always"], true),
        "what is typed beats what is set"
    );
    assert!(!escapes(&["--color", "auto"], true));
}

#[test]
fn i1_hostile_text_reaches_the_terminal_harmless_and_json_whole() {
    let world = World::with_jit(JIT);
    let title = "red \u{1b}[31m and \u{202e}backwards, \u{9b}31m too, \u{7f}";
    let _ = world.jit(["issue", "create", title, "--id", "EVIL-1"]).ok();
    let ran = world.jit(["issue", "show", "EVIL-1"]).ok();
    assert!(
        !ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{202e}'),
        "{:?}",
        ran.stdout
    );
    let ran = world.jit(["issue", "show", "EVIL-1", "--json"]).ok();
    assert_eq!(ran.json()["title"], title);
    let raw = |text: &str| text.contains(['\u{1b}', '\u{202e}', '\u{9b}', '\u{7f}']);
    assert!(!raw(&ran.stdout), "{:?}", ran.stdout);
    let ran = world.jit(["issue", "export"]).ok();
    assert!(
        !raw(&ran.stdout) && ran.json()["title"] == title,
        "{:?}",
        ran.stdout
    );
    let ran = world.jit(["issue", "show", title, "--json"]);
    assert!(!raw(&ran.stdout), "{:?}", ran.stdout);
    let ran = world.jit(["events"]).ok();
    assert!(!ran.stdout.contains('\u{1b}'));
}

#[test]
fn a4_hostile_agent_ids_are_safe_or_refused() {
    let world = world();
    let long = format!("agent:{}", "x".repeat(10_000));
    for bad in [
        "",
        "agent:",
        ":x",
        "agent:a\nb",
        "agent",
        "agent:\u{1b}[31m",
        "robot:x",
        &long,
    ] {
        let ran = world
            .jit(["claim", "acquire", "WI-001", "--json", "--agent-id", bad])
            .exits(2);
        assert!(ran.stdout.len() < 1000, "an error does not repeat 10 kB");
        assert_eq!(code(&ran.json()), "invalid", "{bad:?}");
    }
    for odd in [
        "agent:../../x",
        "agent:a/b",
        "agent:.",
        "agent:con",
        "human:Zoë",
        "ci:%2e%2e",
    ] {
        let _ = world.jit(["heartbeat", "--once", "--agent-id", odd]).ok();
        let _ = world.jit(["claim", "acquire", "WI-001", "--agent-id", odd]).ok();
        let _ = world.jit(["claim", "release", "WI-001", "--agent-id", odd]).ok();
    }
    let files = std::fs::read_dir(world.control().join("heartbeat"))
        .expect("the folder")
        .count();
    assert_eq!(files, 6, "each has a file of its own, in the folder");
}

#[test]
fn i1_dash_c_goes_there_first_as_in_git() {
    let world = world();
    let below = world.repo().join("a folder/below");
    std::fs::create_dir_all(&below).expect("folders");
    let root = |dir: &std::path::Path, args: &[&str]| {
        let ran = world
            .jit_in(dir, args.iter().chain(&["worktree", "info", "--json"]))
            .ok();
        ran.json()["root"].as_str().map(str::to_owned)
    };
    let repo = world.repo().to_str().map(str::to_owned);
    assert_eq!(root(&below, &[]), repo, "from a folder below");
    assert_eq!(root(world.root(), &["-C", "repo"]), repo);
    assert_eq!(
        root(world.root(), &["-C", "repo", "-C", "a folder"]),
        repo,
        "one after the other"
    );
}

#[test]
fn i1_quiet_says_nothing_but_the_answer() {
    let world = world();
    let _ = world
        .jit(["claim", "acquire", "WI-001", "--agent-id", "agent:one"])
        .ok();
    let loud = world
        .jit(["claim", "force-evict", "WI-001", "--reason", "gone"])
        .ok();
    assert!(loud.stderr.contains("warning:"), "{}", loud.stderr);
    let _ = world
        .jit(["claim", "acquire", "WI-001", "--agent-id", "agent:one"])
        .ok();
    let ran = world
        .jit(["claim", "force-evict", "WI-001", "--reason", "gone", "-q"])
        .ok();
    assert_eq!(ran.stderr, "");
    assert!(!ran.stdout.is_empty());
}

#[test]
fn i1_quiet_writes_print_only_ids() {
    let world = world();
    let line = |args: &[&str]| world.jit(args.iter().chain(&["-q"])).ok().stdout;
    assert_eq!(line(&["issue", "create", "more", "--id", "WI-9"]), "WI-9\n");
    assert_eq!(line(&["issue", "update", "wi-9", "--title", "most"]), "WI-9\n");
    let lease = line(&["claim", "acquire", "WI-9"]);
    let held = world.jit(["claim", "list", "--json"]).ok().json();
    assert_eq!(held["active"][0]["lease_id"], json!(lease.trim_end()));
    assert_eq!(line(&["claim", "renew", "WI-9"]), lease);
    assert_eq!(line(&["claim", "release", "WI-9"]), lease);
    assert_eq!(
        line(&["claim", "next", "--ttl", "1m"]).lines().count(),
        2,
        "the issue and the lease"
    );
    assert_eq!(line(&["issue", "delete", "WI-9"]), "WI-9\n");
    assert!(
        line(&["issue", "show", "WI-001"]).contains("a title"),
        "what only shows, shows"
    );
}

#[test]
fn i1_quiet_writes_without_ids_print_nothing_at_all() {
    let world = World::new(JIT);
    let man = world.root().join("man").display().to_string();
    let old = world.root().join("agent_lock.json");
    std::fs::write(&old, r#"{"schema_version":"2.0.0","locks":{}}"#).expect("written");
    let old = old.display().to_string();
    for args in [
        &["init"][..],
        &["init"],
        &["--quiet", "init", "--hooks"],
        &["config", "set", "worktree.enforce_leases", "warn"],
        &["heartbeat", "--once"],
        &["hooks", "install"],
        &["hooks", "install", "--agent", "claude", "--yes"],
        &["mcp", "install", "--agent", "claude", "--yes"],
        &["mcp", "install", "--agent", "claude", "--yes", "--uninstall"],
        &["hooks", "uninstall", "--agent", "claude", "--yes"],
        &["hooks", "uninstall"],
        &["trust", "--yes"],
        &["man", "--output", &man],
        &["migrate", &old],
        &["lock", "cleanup"],
        &["session", "prune"],
        &["recover"],
        &["uninstall", "--yes"],
    ] {
        let ran = world.jit(args.iter().chain(&["-q"])).ok();
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""), "{args:?}");
    }
}

#[test]
fn i1_quiet_writes_of_worktrees_and_sessions_print_their_ids() {
    let world = world();
    let line = |args: &[&str]| world.jit(args.iter().chain(&["-q"])).ok().stdout;
    let id = world.jit(["worktree", "info", "--json"]).ok().json()["worktree_id"].take();
    assert_eq!(json!(line(&["worktree", "init"]).trim_end()), id);
    let session = line(&["session", "start"]);
    assert!(
        session.starts_with("sess-") && session.lines().count() == 1,
        "{session}"
    );
    assert_eq!(line(&["session", "beat"]), session);
    assert_eq!(line(&["session", "end"]), session);
    assert_eq!(line(&["lock", "acquire", "a", "b"]).lines().count(), 2);
    let unit = line(&["start", "WI-001"]);
    assert_eq!(unit.lines().count(), 1, "{unit}");
}

#[test]
fn i1_a_field_that_is_not_there_is_warned_about() {
    let world = world();
    let ran = world
        .jit(["issue", "show", "WI-001", "--json", "--fields", "id,tittle"])
        .ok();
    assert_eq!(ran.json(), json!({ "id": "WI-001" }));
    assert!(
        ran.stderr
            .contains("warning: --fields: there is no tittle; known: "),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains(" title"), "{}", ran.stderr);
    let list = world
        .jit(["issue", "list", "--json", "--fields", "id,owner"])
        .ok();
    assert!(
        list.stderr.contains("no owner; known: ") && list.stderr.contains("assignee"),
        "{}",
        list.stderr
    );
    for fine in [
        &["issue", "list", "--json", "--fields", "id,title"][..],
        &["claim", "list", "--json", "--fields", "lease_id"],
    ] {
        assert_eq!(world.jit(fine).ok().stderr, "", "{fine:?}");
    }
    let quiet = world
        .jit(["issue", "show", "WI-001", "--json", "--fields", "tittle", "-q"])
        .ok();
    assert_eq!(quiet.stderr, "");
}

#[test]
fn i1_completions_and_manual_pages_know_every_command() {
    let world = World::new(JIT);
    let outside = world.root().to_owned();
    for shell in ["bash", "zsh", "fish"] {
        let script = world.jit_in(&outside, ["completions", shell]).ok().stdout;
        for word in ["claim", "force-evict", "uninstall", "--lock-timeout"] {
            let word = if shell == "fish" {
                word.trim_start_matches('-')
            } else {
                word
            };
            assert!(script.contains(word), "{shell}: {word}");
        }
        if shell == "bash" {
            let file = outside.join("completion.bash");
            std::fs::write(&file, &script).expect("write");
            let mut bash = world.command("bash", &outside);
            bash.arg("-n").arg(&file);
            assert_eq!(world.run(bash).ok().stderr, "");
        }
    }
    let page = world.jit_in(&outside, ["man"]).ok().stdout;
    assert!(page.contains(".TH jit 1") && page.contains("claim"), "{page}");
    let done = world
        .jit_in(&outside, ["man", "--output", "man/man1", "--json"])
        .ok()
        .json();
    let files = done["files"].as_array().expect("files");
    for name in [
        "jit.1",
        "jit-claim.1",
        "jit-claim-acquire.1",
        "jit-issue-import.1",
        "jit-uninstall.1",
    ] {
        let file = format!("man/man1/{name}");
        assert!(files.contains(&json!(file)), "{name}");
        assert!(outside.join(file).is_file());
    }
    let acquire = std::fs::read_to_string(outside.join("man/man1/jit-claim-acquire.1")).expect("a page");
    assert!(
        acquire.contains("jit claim acquire") || acquire.contains("jit\\-claim\\-acquire"),
        "{acquire}"
    );
    assert!(
        !files.contains(&json!("man/man1/jit-merge-driver.1")),
        "that one is git's"
    );
}

#[test]
fn i1_the_page_on_exit_codes_lists_every_code() {
    use jit_core::model::refusal::Code;
    let page = include_str!("../../../../docs/exit-codes-and-json.md");
    for code in Code::ALL {
        let again = if code.retryable() { "yes" } else { "no" };
        let row = format!("| `{}` | {} | {again} |", code.as_str(), code.exit());
        assert!(page.contains(&row), "missing: {row}");
    }
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| `") && (line.contains("| yes |") || line.contains("| no |")));
    assert_eq!(rows.count(), Code::ALL.len(), "a code that is no more");
}
