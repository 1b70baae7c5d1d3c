//! I1: every command that writes gives its first answer when it is repeated under its request id, and does nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jit_testkit::world::{Ran, World};

use crate::landing::JIT;
use crate::unit_life::{commit, create, world};

/// What a request does that is not repeated here, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("attempts::EndSession", SHIM),
    ("attempts::KeepAlive", SHIM),
    ("attempts::StartSession", SHIM),
    (
        "attempts::Unpark",
        "needs an account at its limit; its answer is kept as that of every other request about attempts",
    ),
    ("hooks::Permission", SHIM),
    (
        "setup::Uninstall",
        "removes the answers: the second one says that nothing is set up",
    ),
];

const SHIM: &str = "the shim of an agent sends it, and no command does: it has no id";

/// A registry of sessions as version 2 wrote it.
const OLD_SESSIONS: &str = r#"{"sessions":{"sess-abc123":{"session_id":"sess-abc123","agent_id":"developer-001","task_id":"T-015","started_at":"2026-01-26T10:30:00Z"}}}"#;

/// The requests that write, as their facts in the sources of the API say.
fn writing_requests() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src/api");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("the API").flatten() {
        let path: PathBuf = entry.path();
        let noun = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if noun == "stream" || path.extension().is_none_or(|end| end != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        let mut name = String::new();
        for line in text.lines() {
            let variant = line.strip_prefix("        ").unwrap_or_default();
            if variant.starts_with(|c: char| c.is_ascii_uppercase()) {
                let ident = variant.chars().take_while(char::is_ascii_alphanumeric);
                name = ident.collect();
            }
            if line.contains("=> writes(") {
                found.insert(format!("{noun}::{name}"));
            }
        }
    }
    found
}

/// Repeats commands under a request id, and remembers which requests they were.
struct Repeater {
    world: World,
    done: BTreeSet<String>,
    n: usize,
}

impl Repeater {
    /// The second answer is the first one, to the byte.
    fn twice(&mut self, request: &str, words: &[&str]) -> serde_json::Value {
        let [first, second] = self.answers(request, words);
        assert_eq!(second, first, "{words:?}");
        serde_json::from_str(&first).unwrap_or_default()
    }

    /// The request says how things are now, or that somebody lives: the second answer may differ in these times only.
    fn anew(&mut self, request: &str, words: &[&str], times: &[&str]) {
        let [first, second] = self.answers(request, words).map(|text| {
            let mut answer: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            for time in times {
                let _ = answer.as_object_mut().expect("an object").remove(*time);
            }
            answer
        });
        assert_eq!(second, first, "{words:?}");
    }

    fn answers(&mut self, request: &str, words: &[&str]) -> [String; 2] {
        self.n += 1;
        let id = format!("request-{}", self.n);
        // An agent's own options come last.
        let own = words
            .iter()
            .position(|word| *word == "--command")
            .unwrap_or(words.len());
        let run = || {
            let global = ["--json", "--request-id", &id];
            self.world
                .jit(words[..own].iter().chain(&global).chain(&words[own..]))
        };
        let first = run().ok();
        let second = run();
        assert_eq!(second.code, 0, "{words:?}: {} {}", second.stdout, second.stderr);
        self.done.insert(request.to_owned());
        [first.stdout, second.stdout]
    }
}

#[test]
fn heavy_i1_every_command_that_writes_can_be_repeated_under_its_request_id() {
    let world = world();
    let repo = world.repo();
    fs::write(repo.join("beads.jsonl"), "{\"id\":\"b-1\",\"title\":\"B\"}\n").expect("a file");
    let agent = world.root().join("agent.sh");
    fs::write(
        &agent,
        "#!/bin/sh\ncat > /dev/null\nwhile [ -e \"$HOME/wait\" ]; do sleep 0.05; done\n",
    )
    .expect("a script");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("a mode");
    let agent = agent.to_string_lossy().into_owned();
    let mut all = Repeater {
        world,
        done: BTreeSet::new(),
        n: 0,
    };
    all.twice("setup::Init", &["init"]);
    all.twice("setup::InitWorktree", &["worktree", "init"]);
    all.twice(
        "config::Set",
        &["config", "set", "--user", "worktree.branch", "jit/{unit}"],
    );
    issues(&mut all);
    claims(&mut all);
    units(&mut all);
    agents(&mut all, &agent);
    workflows(&mut all);
    notifications(&mut all);
    hooks(&mut all);
    all.twice(
        "issues::Import",
        &["issue", "import", "beads.jsonl", "--from", "beads"],
    );
    all.twice("hooks::Install", &["hooks", "install"]);
    all.twice("hooks::Uninstall", &["hooks", "uninstall"]);
    all.twice(
        "hooks::AgentHook",
        &["hooks", "install", "--agent", "claude", "--yes"],
    );
    all.twice("trust::Revoke", &["trust", "--revoke"]);
    all.twice("trust::Approve", &["trust", "--yes"]);
    fs::write(all.world.repo().join("sessions.json"), OLD_SESSIONS).expect("a file");
    all.twice("doctor::Migrate", &["migrate", "sessions.json"]);
    all.anew("doctor::Validate", &["validate"], &[]);
    all.twice("doctor::Recover", &["recover"]);
    all.world.validates();
    let left_out = LEFT_OUT.iter().map(|(name, _)| (*name).to_owned());
    let known: BTreeSet<String> = all.done.iter().cloned().chain(left_out).collect();
    assert_eq!(
        known,
        writing_requests(),
        "the requests that write, and those of this test"
    );
}

fn issues(all: &mut Repeater) {
    all.twice("issues::Create", &["issue", "create", "Work", "--id", "WORK-1"]);
    all.twice("issues::Create", &["issue", "create", "Other"]);
    all.twice("issues::Create", &["issue", "create", "Third", "--id", "WORK-3"]);
    all.twice("issues::Change", &["issue", "update", "WORK-1", "--title", "New"]);
    all.twice("issues::Change", &["dep", "add", "WORK-1", "WORK-3"]);
    all.twice("issues::Change", &["dep", "rm", "WORK-1", "WORK-3"]);
    all.twice("issues::Comment", &["issue", "comment", "WORK-1", "hello"]);
    all.twice("issues::Delete", &["issue", "delete", "WORK-3"]);
    all.twice("issues::Restore", &["issue", "restore", "WORK-3"]);
    all.twice("gates::Define", &["gate", "define", "review", "--manual"]);
    all.twice("gates::Define", &["gate", "define", "tests", "--command", "true"]);
    all.twice("issues::RequireGate", &["gate", "add", "WORK-1", "review"]);
    all.twice("gates::Judge", &["gate", "pass", "WORK-1", "review"]);
    all.twice("issues::RequireGate", &["gate", "add", "WORK-1", "tests"]);
    all.twice("gates::Run", &["gate", "run", "WORK-1", "tests"]);
    all.twice("issues::Change", &["gate", "rm", "WORK-1", "review"]);
    all.twice("gates::Undefine", &["gate", "undefine", "review"]);
    fs::write(all.world.repo().join("go.mod"), "module m\n").expect("a file");
    all.twice("gates::DefinePreset", &["gate", "define", "--preset", "go"]);
    let exported = serde_json::json!({ "schema_version": 1, "files": [{
        "path": all.world.repo().join(".jit/gates/registry.json"),
        "text": r#"{"schema_version":1,"gates":{"lint":{"command":null,"manual":true,"timeout_secs":600,"description":null,"required_for":[]}}}"#,
    }] });
    fs::write(all.world.repo().join("old.gates.json"), exported.to_string()).expect("a file");
    all.twice(
        "gates::DefineExported",
        &["gate", "define", "--from", "old.gates.json"],
    );
}

fn claims(all: &mut Repeater) {
    all.twice("claims::Acquire", &["claim", "acquire", "WORK-1"]);
    all.twice("claims::Renew", &["claim", "renew", "WORK-1"]);
    all.twice(
        "claims::Transfer",
        &["claim", "transfer", "WORK-1", "--to", "agent:x"],
    );
    all.twice(
        "claims::ForceEvict",
        &["claim", "force-evict", "WORK-1", "--reason", "x"],
    );
    let picked = all.twice("claims::Next", &["claim", "next"]);
    let picked = picked["issue"]["id"].as_str().expect("an issue").to_owned();
    let held = all.world.jit(["claim", "list", "--json"]).ok().json();
    assert_eq!(held["active"].as_array().map(Vec::len), Some(1), "{held}");
    all.twice("claims::Release", &["claim", "release", &picked]);
    all.anew("claims::Heartbeat", &["heartbeat", "--once"], &["last_beat"]);
    all.twice("claims::Acquire", &["claim", "acquire", "WORK-3"]);
    all.twice("claims::Release", &["claim", "release", "WORK-3"]);
    all.twice("sessions::Start", &["session", "start"]);
    all.anew("sessions::Beat", &["session", "beat"], &["last_heartbeat"]);
    all.twice("file_locks::Acquire", &["lock", "acquire", "a.txt"]);
    all.twice("file_locks::Extend", &["lock", "extend", "a.txt"]);
    all.twice("file_locks::Release", &["lock", "release", "a.txt"]);
    all.twice("file_locks::Cleanup", &["lock", "cleanup"]);
    all.twice("sessions::End", &["session", "end"]);
    all.twice("sessions::Prune", &["session", "prune"]);
}

fn units(all: &mut Repeater) {
    let tree = |name: &str| -> PathBuf { all.world.root().join("repo-worktrees").join(name) };
    let (u1, u2, u3) = (tree("u1"), tree("u2"), tree("u3"));
    all.twice("units::Create", &["worktree", "create", "u1"]);
    all.twice("units::Prune", &["worktree", "prune", "--settle"]);
    commit(&all.world, &u1, "one.txt", "one\n");
    all.twice("landing::Merge", &["worktree", "merge", "u1"]);
    all.twice("rescue::Cleanup", &["worktree", "cleanup", "u1"]);
    all.twice("units::Create", &["worktree", "create", "u2"]);
    fs::write(u2.join("loose"), "loose\n").expect("a file");
    let given_up = all.twice("rescue::Abandon", &["worktree", "abandon", "u2", "--reason", "x"]);
    let rescue = given_up["rescue"].as_str().expect("a rescue").to_owned();
    all.twice("rescue::Restore", &["rescue", "restore", &rescue]);
    all.twice("rescue::Prune", &["rescue", "prune", "--older-than", "0s"]);
    all.twice("rescue::Drop", &["rescue", "drop", &rescue, "--yes"]);
    let _ = create(&all.world, &["u3"]);
    commit(&all.world, &u3, "three.txt", "three\n");
    all.twice("units::Finish", &["finish", "u3"]);
    all.twice("units::Create", &["start", "WORK-3"]);
    let begun = all.twice("units::Create", &["start", "Something entirely new"]);
    let listed = all.world.jit(["issue", "list", "--json"]).ok().json();
    let named = |issue: &&serde_json::Value| issue["title"] == "Something entirely new";
    let titles = listed["issues"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(named)
        .count();
    assert_eq!(titles, 1, "{begun}");
}

fn agents(all: &mut Repeater, agent: &str) {
    let wait = all.world.home().join("wait");
    fs::write(&wait, "").expect("a file");
    let _ = create(&all.world, &["u4"]);
    let dispatch = [
        "worktree",
        "dispatch",
        "u4",
        "--agent",
        "command",
        "--prompt",
        "go",
        "--command",
        agent,
    ];
    all.twice("attempts::Dispatch", &dispatch);
    all.anew("units::Settle", &["worktree", "status", "u4"], &["duration_ms"]);
    all.twice("attempts::Stop", &["worktree", "stop", "u4", "--reason", "x"]);
    all.twice("units::Retry", &["worktree", "retry", "u4"]);
    let hand = ["handoff", "u4", "--to", "command", "--command", agent];
    all.twice("attempts::Handoff", &hand);
    let _ = all.world.jit(["worktree", "stop", "u4", "--reason", "x"]);
    let _ = fs::remove_file(wait);
}

/// One workflow that is carried out, and one that fails.
fn workflows(all: &mut Repeater) {
    let agent = all.world.root().join("commits.sh");
    let script = "#!/bin/sh\ncat > /dev/null\necho x > u6.txt\ngit add u6.txt\ngit commit -q -m work\n";
    fs::write(&agent, script).expect("a script");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("a mode");
    let plan = |id: &str, unit: &str| -> String {
        let path = all.world.home().join(format!("{id}.yaml"));
        let run = format!(
            "run:\n  agent: command\n  command: [{:?}]\n",
            agent.display().to_string()
        );
        let units = format!("units:\n  - id: {unit}\n    prompt: go\n");
        fs::write(&path, format!("workflow_id: {id}\nstagger: 0s\n{run}{units}")).expect("a plan");
        path.display().to_string()
    };
    let (whole, stuck) = (plan("whole", "u6"), plan("stuck", "u5"));
    all.twice("workflows::Start", &["run", &whole]);
    all.done.insert("workflows::Plan".to_owned());
    // Its worktree cannot be made, so it fails at once. Each resume fails again, and is not repeated.
    all.world.git(&all.world.repo(), ["branch", "jit/u5"]);
    let waits = ["run", &stuck, "--json", "--request-id", "stuck"];
    let resumes = ["workflow", "resume", "stuck", "--json", "--request-id", "resumed"];
    let [first, second, third, fourth] =
        [&waits[..], &waits, &resumes, &resumes].map(|words| all.world.jit(words).exits(6).stdout);
    assert_eq!(second, first);
    assert_ne!(third, second, "it was opened again, and failed again");
    assert_eq!(fourth, third);
    all.done.insert("workflows::Reopen".to_owned());
    all.twice("workflows::Cancel", &["workflow", "cancel", "stuck"]);
    let listed = all.world.jit(["workflow", "list", "--all", "--json"]).ok().json();
    assert_eq!(listed["workflows"].as_array().map(Vec::len), Some(2), "{listed}");
}

fn notifications(all: &mut Repeater) {
    let told = all.world.home().join("told");
    let program = all.world.root().join("notify.sh");
    let script = format!("#!/bin/sh\ncat > /dev/null\necho one >> '{}'\n", told.display());
    fs::write(&program, script).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
    let set = ["config", "set", "--user", "notify.command"];
    let program = program.display().to_string();
    let _ = all.world.jit(set.iter().chain(&[program.as_str()])).ok();
    all.twice("notify::Test", &["notify", "test"]);
    assert_eq!(fs::read_to_string(told).expect("a message"), "one\n");
}

/// Commands that git and agent programs call: each call is judged by itself, and a second one changes nothing.
fn hooks(all: &mut Repeater) {
    all.twice("hooks::Run", &["hooks", "run", "pre-commit"]);
    all.twice("hooks::AgentEvent", &["hooks", "agent", "claude", "PreToolUse"]);
    for name in ["base", "ours", "theirs"] {
        fs::write(all.world.repo().join(name), "{\"id\":\"WI-1\",\"title\":\"t\"}\n").expect("a file");
    }
    all.twice("hooks::MergeFile", &["merge-driver", "base", "ours", "theirs"]);
    // The command reads the file first, and sends the request only if there is something to write.
    let install = ["mcp", "install", "--agent", "claude", "--user", "--yes"];
    all.anew("setup::McpServer", &install, &["changed"]);
}

#[test]
fn i1_a_landing_that_was_refused_is_tried_again_under_its_request_id() {
    let world = World::with_jit(JIT);
    commit(&world, &world.repo(), "a.txt", "a\n");
    let path = create(&world, &["u"]);
    commit(&world, &path, "new.txt", "new\n");
    fs::write(path.join("loose.txt"), "loose\n").expect("a file");
    let merge = ["worktree", "merge", "u", "--json", "--request-id", "one"];
    assert_ne!(world.jit(merge).code, 0, "it has uncommitted work");
    fs::remove_file(path.join("loose.txt")).expect("a file");
    let _ = world.jit(merge).ok();
    assert!(world.repo().join("new.txt").is_file());
}

/// The one refusal of a request id that was used for something else.
fn is_reused(ran: Ran) {
    let refused = ran.exits(2).json();
    assert_eq!(refused["error"]["code"], "request_reused", "{refused}");
}

/// The files with answers.
fn kept(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.control().join("answers"))
        .into_iter()
        .flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect()
}

#[test]
fn i1_the_unit_of_another_worktree_is_another_request() {
    let world = world();
    let finish = ["finish", "--json", "--request-id", "R1"];
    let (u1, u2) = (create(&world, &["u1"]), create(&world, &["u2"]));
    commit(&world, &u1, "one.txt", "one\n");
    commit(&world, &u2, "two.txt", "two\n");
    let _ = world.jit_in(&u1, finish).ok();
    is_reused(world.jit_in(&u2, finish));
    assert!(!world.repo().join("two.txt").exists());
}

#[test]
fn i1_a_request_id_is_used_for_one_value_of_a_setting() {
    let world = world();
    let set = |value| {
        let words = ["config", "set", "coordination.default_ttl_secs", value, "--json"];
        world.jit(words.iter().chain(&["--request-id", "K1"]))
    };
    let first = set("700").ok().stdout;
    is_reused(set("800"));
    assert_eq!(set("700").ok().stdout, first);
    let now = world
        .jit(["config", "get", "coordination.default_ttl_secs", "--json"])
        .ok()
        .json();
    assert_eq!(now["value"], 700, "{now}");
    // A request that failed did not use its id.
    let words = [
        "config",
        "set",
        "coordination.default_ttl_secs",
        "never",
        "--request-id",
        "K2",
    ];
    assert_ne!(world.jit(words).code, 0);
    let words = [
        "config",
        "set",
        "coordination.default_ttl_secs",
        "900",
        "--request-id",
        "K2",
    ];
    let _ = world.jit(words).ok();
}

#[test]
fn i1_a_failed_creation_is_carried_out_again_under_its_request_id() {
    let world = world();
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let obstacle = world.root().join("repo-worktrees");
    fs::write(&obstacle, "mine\n").expect("a file");
    let create = ["worktree", "create", "k1", "--json", "--request-id", "S3"];
    let start = ["start", "Something new", "--json", "--request-id", "S2"];
    let known = ["start", "WORK-1", "--json", "--request-id", "S4"];
    for words in [&create[..], &start, &start, &known] {
        let refused = world.jit(words);
        assert_ne!(refused.code, 0, "{words:?}: {}", refused.stdout);
        assert!(!refused.stdout.contains("request_reused"), "{}", refused.stdout);
    }
    fs::remove_file(&obstacle).expect("the obstacle");
    for words in [&create[..], &start, &known] {
        let first = world.jit(words).ok();
        assert_eq!(first.json()["state"], "READY", "{words:?}");
        assert_eq!(world.jit(words).ok().stdout, first.stdout, "{words:?}");
    }
    let listed = world.jit(["issue", "list", "--json"]).ok().json();
    assert_eq!(listed["issues"].as_array().map(Vec::len), Some(2), "{listed}");
    world.validates();
}

#[test]
fn i1_a_worktree_that_could_not_be_made_ready_is_completed_by_the_same_request() {
    let world = world();
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let allowed = world.root().join("allowed");
    let list = serde_json::to_string(&[format!("test -e '{}'", allowed.display())]).expect("JSON");
    let settings = format!("[worktree]\nprovision = {list}\n");
    fs::write(world.repo().join(".jit/config.toml"), settings).expect("a file");
    let _ = world.jit(["trust", "--yes"]).ok();
    let create = ["worktree", "create", "k1", "--json", "--request-id", "S3"];
    let start = ["start", "WORK-1", "--json", "--request-id", "S4"];
    for words in [&create[..], &start, &create, &start] {
        let _ = world.jit(words).exits(6);
    }
    fs::write(&allowed, "").expect("a file");
    for words in [&create[..], &start] {
        assert_eq!(world.jit(words).ok().json()["state"], "READY", "{words:?}");
    }
}

#[test]
fn i1_a_creation_that_was_killed_before_its_answer_gives_it_when_repeated() {
    let world = world();
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let plain = ["worktree", "create", "k3", "--json"];
    let based = ["start", "WORK-1", "--base", "main", "--json"];
    for (words, id) in [(&plain[..], "K3"), (&based, "K4")] {
        let named = || world.jit(words.iter().chain(&["--request-id", id]));
        let before = kept(&world);
        let first = named().ok().stdout;
        let path = kept(&world).into_iter().find(|path| !before.contains(path));
        let path = path.expect("the answer");
        let text = fs::read(&path).expect("the answer");
        let mut record: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        // The file as it is until the answer is kept.
        record["answer"] = serde_json::Value::Null;
        fs::write(&path, record.to_string()).expect("a file");
        let again: serde_json::Value = serde_json::from_str(&named().ok().stdout).expect("JSON");
        assert_eq!(
            again["id"],
            serde_json::from_str::<serde_json::Value>(&first).expect("JSON")["id"]
        );
        assert_eq!(again["state"], "READY", "{again}");
        // Another request finds what there is.
        let other = world.jit(words.iter().chain(&["--request-id", "other"]));
        assert_eq!(other.exits(2).json()["error"]["code"], "exists");
    }
}

#[test]
fn i1_an_answer_of_the_past_says_how_things_are_now() {
    let world = world();
    let _ = world.jit(["issue", "create", "Work", "--id", "WORK-1"]).ok();
    let by = |agent: &str, words: &[&str]| world.jit(words.iter().chain(&["--agent-id", agent]));
    let start = ["start", "WORK-1", "--request-id", "U1"];
    let first = by("agent:a", &start).ok();
    let again = by("agent:a", &start).ok();
    assert_eq!(again.stdout, first.stdout);
    assert!(
        again.stderr.contains("this is the answer to the same request of"),
        "{}",
        again.stderr
    );
    assert!(
        !again.stderr.contains("WORK-1"),
        "nothing has changed: {}",
        again.stderr
    );
    let _ = world
        .jit(["claim", "force-evict", "WORK-1", "--reason", "x"])
        .ok();
    let again = by("agent:a", &start).ok();
    assert!(
        again.stderr.contains("nobody holds WORK-1 now"),
        "{}",
        again.stderr
    );
    let _ = by("agent:b", &["claim", "acquire", "WORK-1"]).ok();
    let again = by("agent:a", &start).ok();
    assert!(
        again.stderr.contains("agent:b holds WORK-1 now"),
        "{}",
        again.stderr
    );
    let create = ["worktree", "create", "re", "--request-id", "R9"];
    let _ = world.jit(create).ok();
    let _ = world.jit(["worktree", "abandon", "re", "--reason", "x"]).ok();
    let again = world.jit(create).ok();
    assert!(again.stderr.contains("re is IDLE now"), "{}", again.stderr);
}

#[test]
fn i1_only_the_user_who_asked_can_read_an_answer() {
    let world = World::with_jit(JIT);
    world.git(&world.repo(), ["config", "core.sharedRepository", "group"]);
    let _ = world.jit(["init"]).ok();
    let secret = [
        "config",
        "set",
        "--user",
        "notify.webhook",
        "https://example.org/secret",
    ];
    let _ = world.jit(secret.iter().chain(&["--request-id", "W1"])).ok();
    let _ = world
        .jit([
            "config",
            "set",
            "coordination.default_ttl_secs",
            "700",
            "--request-id",
            "W2",
        ])
        .ok();
    let files = kept(&world);
    assert_eq!(files.len(), 1, "{files:?}");
    for path in files {
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        let text = fs::read_to_string(&path).expect("a file");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn i1_a_request_is_carried_out_where_answers_cannot_be_kept() {
    let world = world();
    let answers = world.control().join("answers");
    let set = [
        "config",
        "set",
        "coordination.default_ttl_secs",
        "700",
        "--request-id",
        "F1",
    ];
    fs::write(&answers, "").expect("a file");
    let _ = world.jit(set).ok();
    fs::remove_file(&answers).expect("a file");
    let mut pipe = world.command("mkfifo", &world.repo());
    pipe.arg(&answers);
    let _ = world.run(pipe).ok();
    let _ = world.jit(set).ok();
    fs::remove_file(&answers).expect("a pipe");
    let _ = world.jit(set).ok();
    let file = kept(&world).pop().expect("an answer");
    fs::remove_file(&file).expect("a file");
    fs::create_dir(&file).expect("a folder");
    let _ = world.jit(set).ok();
}
