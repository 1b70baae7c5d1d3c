//! I1: every command that writes gives its first answer when it is repeated under its request id, and does nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jit_testkit::world::World;

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
    fs::write(all.world.repo().join("Makefile"), "test:\n\ttrue\n").expect("a file");
    all.twice("gates::DefinePreset", &["gate", "define", "--preset", "make"]);
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

/// One workflow that is carried out, and one that waits for a person until it is cancelled.
fn workflows(all: &mut Repeater) {
    let _ = create(&all.world, &["u5"]);
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
    let waits = ["run", &stuck, "--json", "--request-id", "stuck"];
    let resumes = ["workflow", "resume", "stuck", "--json", "--request-id", "resumed"];
    for words in [&waits[..], &waits, &resumes, &resumes] {
        let shown = all.world.jit(words).exits(6).json();
        assert_eq!(shown["status"], "running", "{words:?}: {shown}");
    }
    all.done.insert("workflows::Reopen".to_owned());
    all.twice("workflows::Cancel", &["workflow", "cancel", "stuck"]);
    let shown = all.world.jit(resumes).exits(6).json();
    assert_eq!(shown["status"], "cancelled", "it is not opened again: {shown}");
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
    all.twice(
        "setup::McpServer",
        &["mcp", "install", "--agent", "claude", "--user", "--yes"],
    );
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
